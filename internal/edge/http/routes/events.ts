// Recorded events (contract, section 3).

import * as v from 'valibot';
import { eventById, type EventRow, listEvents } from '../../../adapters/store/events.ts';
import { printable } from '../../../flows/ingest/ingest.ts';
import { Fault } from '../../../words/fault.ts';
import { pageOf, pageQuery, pageSchema, readNumberPage } from '../page.ts';
import { defineRoute, ok, type Route } from '../route.ts';
import { project, timestamp } from './shapes.ts';

const statuses = ['pending', 'routed', 'unmatched', 'failed'] as const;
const severities = ['warning', 'error'] as const;

const event = v.object({
  id: v.string(),
  key: v.string(),
  source: v.string(),
  payload: v.unknown(),
  target: v.nullable(v.object({ type: v.string(), key: v.string() })),
  routerStatus: v.picklist(statuses),
  severity: v.optional(v.picklist(severities)),
  receivedAt: timestamp,
  routes: v.array(
    v.object({
      agent: v.string(),
      ordinal: v.number(),
      decision: v.string(),
      sessionId: v.optional(v.string()),
    }),
  ),
});

const show = (row: EventRow) => ({
  id: row.id,
  key: row.key,
  source: row.key.split('.', 1)[0],
  payload: printable(row.payload),
  target: row.target,
  routerStatus: row.routerStatus,
  ...(row.severity !== null && { severity: row.severity }),
  receivedAt: row.receivedAt,
  routes: [],
});

const read = { method: 'GET', scope: 'project', permission: 'events:read' } as const;
const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

export const eventRoutes: readonly Route[] = [
  defineRoute({
    ...read,
    path: `${project}/events`,
    summary: 'Recorded events, newest first',
    query: v.strictObject({
      ...pageQuery,
      key: v.optional(v.string()),
      status: v.optional(v.picklist(statuses)),
      severity: v.optional(v.picklist(severities)),
    }),
    answers: { 200: pageSchema(event) },
    handle: async ({ ctx, project: where, query }) => {
      const { limit, before } = readNumberPage(query);
      const { key, status, severity } = query;
      const rows = await listEvents(ctx.db, where.id, { key, status, severity, before, limit: limit + 1 });
      return ok(pageOf(rows, limit, (row) => [row.seq], show));
    },
  }),
  defineRoute({
    ...read,
    path: `${project}/events/:id`,
    summary: 'One recorded event',
    answers: { 200: event },
    handle: async ({ ctx, project: where, params }) => {
      const id = params['id'] ?? '';
      const row = uuid.test(id) ? await eventById(ctx.db, where.id, id) : undefined;
      if (row === undefined) throw new Fault('not_found', 'event-not-found', `There is no event ${id}.`);
      return ok(show(row));
    },
  }),
];
