// Runs of the reconciler: lists, one, and the stream of what happens (contract, section 3).

import * as v from 'valibot';
import { listRuns, runById } from '../../../adapters/store/repositories/reconciles.ts';
import { showRun, showWholeRun, streamRuns } from '../../../flows/sync/sync.ts';
import { Fault } from '../../../domain/fault.ts';
import { pageOf, pageQuery, pageSchema, readNumberPage } from '../page.ts';
import { defineRoute, ok, type Route } from '../route.ts';
import { action, diagnostic, json, project as P, receipt } from './shapes.ts';

const status = v.picklist(['running', 'applied', 'unchanged', 'held', 'failed', 'superseded', 'quarantined']);
const run = {
  id: v.string(),
  repository: v.nullable(v.string()),
  commit: v.nullable(v.string()),
  reason: v.picklist(['push', 'poll', 'manual', 'watch', 'resync', 'apply']),
  status,
  condition: v.optional(v.string()),
  detail: v.optional(v.string()),
  startedAt: v.string(),
  finishedAt: v.nullable(v.string()),
  stages: v.array(v.object({ name: v.string(), ms: v.number() })),
  actions: v.array(action),
  diagnostics: v.array(diagnostic),
};
export const runSchema = v.object(run);
const wholeRunSchema = v.object({
  ...run,
  consequences: json,
  webhooks: v.array(receipt),
  inputs: json,
});
const repository = v.optional(v.pipe(v.string(), v.maxLength(128)));

export const reconcileRoutes: readonly Route[] = [
  defineRoute({
    method: 'GET',
    path: `${P}/reconciles`,
    summary: 'Runs, newest first',
    scope: 'project',
    permission: 'reconciles:read',
    query: v.strictObject({ ...pageQuery, repository, status: v.optional(status) }),
    answers: { 200: pageSchema(runSchema) },
    async handle({ ctx, project, query }) {
      const { limit, before } = readNumberPage(query);
      const { repository: name, status: wanted } = query;
      const filter = { repository: name, status: wanted, beforeSeq: before, limit: limit + 1 };
      const rows = await listRuns(ctx.db, project.id, filter);
      return ok(pageOf(rows, limit, (row) => [row.seq], showRun));
    },
  }),
  defineRoute({
    method: 'GET',
    path: `${P}/reconciles/stream`,
    summary: 'Server-sent events: each change of a run, as the run is by then; resumes after Last-Event-ID',
    scope: 'project',
    permission: 'reconciles:read',
    query: v.strictObject({ repository }),
    answers: { 200: null },
    stream: true,
    async handle({ ctx, project, query, lastEventId, signal }) {
      const after = lastEventId !== undefined && /^\d{1,15}$/.test(lastEventId) ? Number(lastEventId) : undefined;
      const stream = await streamRuns(ctx, { projectId: project.id, repository: query.repository, after, signal });
      return { status: 200, stream };
    },
  }),
  defineRoute({
    method: 'GET',
    path: `${P}/reconciles/:id`,
    summary: 'One run with its consequences, receipts and inputs',
    scope: 'project',
    permission: 'reconciles:read',
    answers: { 200: wholeRunSchema },
    async handle({ ctx, project, params }) {
      const id = params['id'] ?? '';
      const isId = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id);
      const found = isId ? await runById(ctx.db, project.id, id) : undefined;
      if (found === undefined)
        throw new Fault('not_found', 'reconcile-not-found', `there is no reconcile ${id.slice(0, 64)}`);
      return ok(showWholeRun(found));
    },
  }),
];
