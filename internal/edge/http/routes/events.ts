// Recorded events (contract, section 3).

import * as v from 'valibot';
import { eventById, type EventRoute, type EventRow, listEvents } from '../../../adapters/store/events/event-reads.ts';
import { explainEvent } from '../../../flows/routing/routing.ts';
import { replayEvent, shownPayload } from '../../../flows/ingest/ingest.ts';
import { canonicalEventKey } from '../../../domain/events.ts';
import { Fault } from '../../../domain/fault.ts';
import { pageOf, pageQuery, pageSchema, readNumberPage } from '../page.ts';
import { defineRoute, ok, type Route } from '../route.ts';
import { isUuid, project, timestamp } from './shapes.ts';
import { clauseExplanation } from './triggers.ts';

const statuses = ['pending', 'routed', 'unmatched', 'failed'] as const;
const severities = ['warning', 'error'] as const;
/** Bytes: so many of each event's payload a page carries; a larger one is read with the event itself. */
const listedPayloadMax = 16 * 1024;

const decided = {
  sessionId: v.optional(v.string()),
  /** Where it reached more than one. */
  sessionIds: v.optional(v.array(v.string())),
  because: v.optional(v.string()),
  severity: v.optional(v.picklist(severities)),
};
const route = v.object({ agent: v.string(), ordinal: v.number(), decision: v.string(), ...decided });
const shape = {
  id: v.string(),
  key: v.string(),
  source: v.string(),
  target: v.nullable(v.object({ type: v.string(), key: v.string() })),
  routerStatus: v.picklist(statuses),
  severity: v.optional(v.picklist(severities)),
  reason: v.optional(v.string()),
  replayOf: v.optional(v.string()),
  receivedAt: timestamp,
  routes: v.array(route),
};
const event = v.object({ ...shape, payload: v.unknown() });
const listed = v.object({
  ...shape,
  payload: v.optional(
    v.pipe(v.unknown(), v.description('Absent where it is larger than 16 KiB; read the event itself.')),
  ),
  payloadTruncated: v.optional(v.literal(true)),
});

const showDecided = ({ sessionIds, because, severity }: EventRoute) => ({
  ...(sessionIds.length > 0 && { sessionId: sessionIds[0] }),
  ...(sessionIds.length > 1 && { sessionIds }),
  ...(because !== null && { because }),
  ...(severity !== null && { severity }),
});

const show = (row: EventRow) => ({
  id: row.id,
  key: row.key,
  source: row.key.split('.', 1)[0],
  // Null: retention has taken the body.
  payload: shownPayload(row) ?? null,
  target: row.target,
  routerStatus: row.routerStatus,
  ...(row.severity !== null && { severity: row.severity }),
  ...(row.reason !== null && { reason: row.reason }),
  ...(row.replayOf !== null && { replayOf: row.replayOf }),
  receivedAt: row.receivedAt,
  routes: row.routes.map((one) => ({
    agent: one.agent,
    ordinal: one.ordinal,
    decision: one.decision,
    ...showDecided(one),
  })),
});
function showListed(row: EventRow) {
  const { payload, ...rest } = show(row);
  const isLarge = row.payload === null && row.size > 0;
  return { ...rest, ...(isLarge ? { payloadTruncated: true } : { payload }) };
}

/** The id of a path, or Fault `not_found`: what is no id names nothing. */
function requireId(params: { readonly [name: string]: string }): string {
  const id = params['id'] ?? '';
  if (!isUuid(id)) throw new Fault('not_found', 'event-not-found', `There is no event ${id}.`);
  return id.toLowerCase();
}

const read = { method: 'GET', scope: 'project', permission: 'events:read' } as const;

export const eventRoutes: readonly Route[] = [
  defineRoute({
    ...read,
    path: `${project}/events`,
    summary: 'Recorded events, newest first; a payload larger than 16 KiB is left out, with payloadTruncated: true',
    query: v.strictObject({
      ...pageQuery,
      key: v.optional(v.string()),
      status: v.optional(v.picklist(statuses)),
      severity: v.optional(v.picklist(severities)),
    }),
    answers: { 200: pageSchema(listed) },
    handle: async ({ ctx, project: where, query }) => {
      const { limit, before } = readNumberPage(query);
      const { status, severity } = query;
      // Events are recorded under the one spelling, whichever of them a trigger is written with.
      const key = query.key === undefined ? undefined : canonicalEventKey(query.key);
      const filter = { key, status, severity, before, payloadMax: listedPayloadMax, limit: limit + 1 };
      const rows = await listEvents(ctx.db, where.id, filter);
      return ok(pageOf(rows, limit, (row) => [row.seq], showListed));
    },
  }),
  defineRoute({
    ...read,
    path: `${project}/events/:id`,
    summary: 'One recorded event and what came of it',
    answers: { 200: event },
    handle: async ({ ctx, project: where, params }) => {
      const id = requireId(params);
      const row = await eventById(ctx.db, where.id, id);
      if (row === undefined) throw new Fault('not_found', 'event-not-found', `There is no event ${id}.`);
      return ok(show(row));
    },
  }),
  defineRoute({
    ...read,
    path: `${project}/events/:id/explain`,
    summary: 'Every trigger on the event’s key and endpoint, clause by clause, with what was decided or would be now',
    answers: {
      200: v.object({ triggers: v.array(v.object({ ...clauseExplanation, recorded: v.boolean(), ...decided })) }),
    },
    handle: async ({ ctx, project: where, params }) => {
      const triggers = await explainEvent(ctx, where, requireId(params));
      return ok({
        triggers: triggers.map(({ agent, ordinal, matched, clauses, fallback, decision, recorded }) => ({
          agent,
          ordinal,
          matched,
          clauses,
          fallback,
          decision,
          recorded: recorded !== undefined,
          ...(recorded !== undefined && showDecided(recorded)),
        })),
      });
    },
  }),
  defineRoute({
    method: 'POST',
    scope: 'project',
    permission: 'events:replay',
    path: `${project}/events/:id/replay`,
    summary: 'Record the event once more, under a new id, and route it anew',
    answers: {
      202: v.object({
        eventRecordId: v.string(),
        created: v.literal(true),
        routerStatus: v.picklist(statuses),
        replayOf: v.string(),
      }),
    },
    handle: async ({ ctx, project: where, params, actor }) => ({
      status: 202,
      body: await replayEvent(ctx, where, requireId(params), actor),
    }),
  }),
];
