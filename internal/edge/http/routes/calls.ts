// Calls to the outside (contract, section 10, Calls): those of a session, and those of no session. No inputs, no results.

import * as v from 'valibot';
import { type CallRow, listCalls } from '../../../adapters/store/outbox/calls.ts';
import { sessionState } from '../../../adapters/store/sessions/session-reads.ts';
import { noSession } from '../../../flows/sessions/sessions.ts';
import { pageOf, pageQuery, pageSchema } from '../page.ts';
import { defineRoute, ok, type Route } from '../route.ts';
import { isUuid, project, readIdPage, timestamp } from './shapes.ts';

const call = v.object({
  id: v.string(),
  /** Null: no session asked for it. */
  session: v.nullable(v.string()),
  alias: v.string(),
  tool: v.string(),
  write: v.boolean(),
  status: v.picklist(['sending', 'done', 'refused', 'unknown']),
  /** Why it was refused, or that its outcome is not known. */
  code: v.optional(v.string()),
  /** Of what was made. */
  url: v.optional(v.string()),
  at: timestamp,
});

const showCall = ({ id, sessionId, alias, tool, write, status, code, url, createdAt }: CallRow) => ({
  id,
  session: sessionId,
  alias,
  tool,
  write,
  status,
  ...(code !== null && { code }),
  ...(url !== null && { url }),
  at: createdAt,
});

const read = { method: 'GET', scope: 'project', permission: 'sessions:read' } as const;

export const callRoutes: readonly Route[] = [
  defineRoute({
    ...read,
    path: `${project}/sessions/:id/calls`,
    summary: 'What a session has called outside, newest first: reads and writes, without inputs and results',
    query: v.strictObject({ ...pageQuery }),
    answers: { 200: pageSchema(call) },
    handle: async ({ ctx, project: where, params, query }) => {
      const { limit, before } = readIdPage(query);
      const id = (params['id'] ?? '').toLowerCase();
      if (!isUuid(id) || (await sessionState(ctx.db, where.id, id)) === undefined) throw noSession();
      const rows = await listCalls(ctx.db, { projectId: where.id, sessionId: id, before, limit: limit + 1 });
      return ok(pageOf(rows, limit, (row) => [row.id], showCall));
    },
  }),
  defineRoute({
    ...read,
    path: `${project}/calls`,
    summary: 'What the service itself has sent outside (plans, checks, statuses, notifications), newest first',
    query: v.strictObject({ ...pageQuery }),
    answers: { 200: pageSchema(call) },
    handle: async ({ ctx, project: where, query }) => {
      const { limit, before } = readIdPage(query);
      const rows = await listCalls(ctx.db, { projectId: where.id, sessionId: null, before, limit: limit + 1 });
      return ok(pageOf(rows, limit, (row) => [row.id], showCall));
    },
  }),
];
