// The audit of a project, or of an organization with its projects: listed newest first, exported oldest first.

import * as v from 'valibot';
import { type AuditFilter, type AuditRow, type AuditScope, listAudit } from '../../../adapters/store/tenancy/audit.ts';
import type { FlowContext } from '../../../flows/context.ts';
import { exportAudit } from '../../../flows/tenancy/tenancy.ts';
import { pageOf, pageQuery, pageSchema, readNumberPage } from '../page.ts';
import { type Answer, type Call, defineRoute, ok, type Route } from '../route.ts';

const answer = v.object({
  id: v.number(),
  at: v.string(),
  principal: v.object({ kind: v.string(), id: v.nullable(v.string()), name: v.string() }),
  projectId: v.nullable(v.string()),
  action: v.string(),
  subject: v.nullable(v.object({ kind: v.string(), name: v.string() })),
  requestId: v.nullable(v.string()),
  detail: v.record(v.string(), v.unknown()),
});
const word = v.optional(v.pipe(v.string(), v.minLength(1), v.maxLength(300)));
const time = v.optional(
  v.pipe(
    v.string(),
    v.check(
      (text) => /^\d{4}-\d{2}-\d{2}(T|$)/.test(text) && !Number.isNaN(Date.parse(text)),
      'Expected a day or a time as in 2030-01-31 or 2030-01-31T12:00:00Z',
    ),
  ),
);
const filters = { action: word, subject: word, principal: word, since: time, until: time };
const listQuery = v.strictObject({ ...pageQuery, ...filters });
const exportQuery = v.strictObject(filters);

const show = (row: AuditRow) => ({
  id: row.id,
  at: row.at.toISOString(),
  principal: { kind: row.principalKind, id: row.principalId, name: row.principalName },
  projectId: row.projectId,
  action: row.action,
  subject: row.subjectKind === null ? null : { kind: row.subjectKind, name: row.subjectName ?? '' },
  requestId: row.requestId,
  detail: row.detail,
});

function filterOf({ action, subject, principal, since, until }: v.InferOutput<typeof exportQuery>): AuditFilter {
  const at = (text: string | undefined) => (text === undefined ? undefined : new Date(text));
  return { action, subject, principal, since: at(since), until: at(until) };
}

async function list(ctx: FlowContext, scope: AuditScope, input: v.InferOutput<typeof listQuery>): Promise<Answer> {
  const { limit, ...page } = readNumberPage(input);
  const rows = await listAudit(ctx.db, scope, { ...filterOf(input), ...page, limit: limit + 1 });
  return ok(pageOf(rows, limit, (row) => [row.id], show));
}

function exported(call: Call<v.InferOutput<typeof exportQuery>>, scope: AuditScope): Answer {
  const rows = exportAudit(call.ctx, scope, filterOf(call.query), call.signal);
  async function* lines(): AsyncGenerator<unknown> {
    for await (const row of rows) yield show(row);
  }
  return { status: 200, lines: lines() };
}

const org = { method: 'GET', scope: 'org', permission: 'audit:read' } as const;
const project = { method: 'GET', scope: 'project', permission: 'audit:read' } as const;

export const auditRoutes: readonly Route[] = [
  defineRoute({
    ...org,
    path: '/api/v1/orgs/:org/audit',
    summary: 'What was done in an organization and its projects, newest first',
    query: listQuery,
    answers: { 200: pageSchema(answer) },
    handle: (call) => list(call.ctx, { orgId: call.org.id }, call.query),
  }),
  defineRoute({
    ...org,
    path: '/api/v1/orgs/:org/audit/export',
    summary: 'What was done in an organization and its projects, oldest first, as JSON lines',
    query: exportQuery,
    lines: true,
    answers: { 200: answer },
    handle: async (call) => exported(call, { orgId: call.org.id }),
  }),
  defineRoute({
    ...project,
    path: '/api/v1/orgs/:org/projects/:project/audit',
    summary: 'What was done in a project, newest first',
    query: listQuery,
    answers: { 200: pageSchema(answer) },
    handle: (call) => list(call.ctx, { orgId: call.project.orgId, projectId: call.project.id }, call.query),
  }),
  defineRoute({
    ...project,
    path: '/api/v1/orgs/:org/projects/:project/audit/export',
    summary: 'What was done in a project, oldest first, as JSON lines',
    query: exportQuery,
    lines: true,
    answers: { 200: answer },
    handle: async (call) => exported(call, { orgId: call.project.orgId, projectId: call.project.id }),
  }),
];
