// Bindings: who holds which target (contract, section 3).

import * as v from 'valibot';
import { type BindingRow, listBindings } from '../../../adapters/store/routing/binding-reads.ts';
import { releaseBinding } from '../../../flows/sessions/sessions.ts';
import { Fault } from '../../../domain/fault.ts';
import { pageOf, pageQuery, pageSchema } from '../page.ts';
import { defineRoute, noContent, ok, type Route } from '../route.ts';
import { isUuid, json, project, readIdPage, timestamp } from './shapes.ts';

export const binding = v.object({
  id: v.string(),
  agent: v.string(),
  /** Null: an agent's claim that waits for a replacement. */
  sessionId: v.nullable(v.string()),
  target: v.object({ type: v.string(), key: v.string() }),
  state: v.picklist(['active', 'released']),
  lifecycle: v.picklist(['manual', 'held']),
  continuity: v.picklist(['session', 'agent']),
  context: v.nullable(json),
  createdAt: timestamp,
  updatedAt: timestamp,
  releasedAt: v.optional(timestamp),
});

export const showBinding = ({ releasedAt, ...row }: BindingRow) => ({
  ...row,
  ...(releasedAt !== null && { releasedAt }),
});

export const bindingRoutes: readonly Route[] = [
  defineRoute({
    method: 'GET',
    scope: 'project',
    permission: 'bindings:read',
    path: `${project}/bindings`,
    summary: 'Active bindings, newest first; with all=true released ones too',
    query: v.strictObject({
      ...pageQuery,
      all: v.optional(v.picklist(['true', 'false'])),
      agent: v.optional(v.pipe(v.string(), v.maxLength(128))),
      session: v.optional(v.string()),
    }),
    answers: { 200: pageSchema(binding) },
    handle: async ({ ctx, project: where, query }) => {
      const { limit, before } = readIdPage(query);
      const { agent, session: sessionId } = query;
      if (sessionId !== undefined && !isUuid(sessionId)) return ok({ items: [], nextCursor: null });
      const filter = { all: query.all === 'true', agent, sessionId, before, limit: limit + 1 };
      const rows = await listBindings(ctx.db, where.id, filter);
      return ok(pageOf(rows, limit, (row) => [row.id], showBinding));
    },
  }),
  defineRoute({
    method: 'DELETE',
    scope: 'project',
    permission: 'bindings:release',
    path: `${project}/bindings/:id`,
    summary: 'Release a binding, also a held one; one that is released stays as it is',
    answers: { 204: null },
    handle: async ({ ctx, project: where, params, actor }) => {
      const id = params['id'] ?? '';
      if (!isUuid(id)) throw new Fault('not_found', 'not-found', 'There is no such binding.');
      await releaseBinding(ctx, where, id.toLowerCase(), actor);
      return noContent;
    },
  }),
];
