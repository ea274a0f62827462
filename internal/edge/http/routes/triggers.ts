// Stored triggers (contract, section 3): one row per event key and heartbeat.

import * as v from 'valibot';
import { listTriggers, type TriggerRow } from '../../../adapters/store/resources/triggers.ts';
import { explainTriggers } from '../../../flows/routing/routing.ts';
import { pageOf, pageQuery, pageSchema } from '../page.ts';
import { defineRoute, ok, type Route } from '../route.ts';
import { json, project, readOrdinalPage, requireObject, status } from './shapes.ts';

const trigger = v.object({
  agent: v.string(),
  ordinal: v.number(),
  kind: v.picklist(['event', 'heartbeat']),
  event: v.string(),
  endpoint: v.optional(v.string()),
  connection: v.optional(v.string()),
  cron: v.optional(v.string()),
  timezone: v.optional(v.string()),
  where: json,
  fallback: v.boolean(),
  routing: json,
  status,
});

function show(row: TriggerRow) {
  const { cron, timezone, where, fallback, routing } = row.spec;
  return {
    agent: row.agent,
    ordinal: row.ordinal,
    kind: row.kind,
    event: row.event,
    ...(row.endpoint !== null && { endpoint: row.endpoint }),
    ...(row.connection !== null && { connection: row.connection }),
    ...(row.kind === 'heartbeat' && { cron, timezone }),
    where,
    fallback,
    routing,
    status: row.status,
  };
}

/** Of a trigger, for an event that may come or one that was recorded. */
export const clauseExplanation = {
  agent: v.string(),
  ordinal: v.number(),
  matched: v.boolean(),
  clauses: v.array(
    // Without a value where nothing stands at the path.
    v.object({ path: v.string(), clause: v.unknown(), value: v.optional(v.unknown()), matched: v.boolean() }),
  ),
  fallback: v.boolean(),
  decision: v.nullable(v.string()),
};
const explanation = v.object({ triggers: v.array(v.object(clauseExplanation)) });

export const triggerRoutes: readonly Route[] = [
  defineRoute({
    method: 'GET',
    scope: 'project',
    permission: 'triggers:read',
    path: `${project}/triggers`,
    summary: 'Stored triggers, by agent and ordinal',
    query: v.strictObject({ ...pageQuery, agent: v.optional(v.string()) }),
    answers: { 200: pageSchema(trigger) },
    handle: async ({ ctx, project: where, query }) => {
      const { limit, after } = readOrdinalPage(query);
      const rows = await listTriggers(ctx.db, where.id, { limit: limit + 1, after, agent: query.agent });
      return ok(pageOf(rows, limit, (row) => [row.agent, row.ordinal], show));
    },
  }),
  defineRoute({
    method: 'POST',
    scope: 'project',
    permission: 'triggers:read',
    path: `${project}/triggers/explain`,
    summary: 'What an event would do, clause by clause; changes nothing',
    body: v.strictObject({
      event: v.pipe(v.string(), v.minLength(1), v.maxLength(512)),
      payload: v.unknown(),
      endpoint: v.optional(v.string()),
    }),
    exactNumbers: true,
    answers: { 200: explanation },
    handle: async ({ ctx, project: where, body }) => {
      const { event, endpoint } = body;
      const payload = requireObject(body.payload, 'payload', 'as events carry');
      return ok({ triggers: await explainTriggers(ctx, where, { event, payload, endpoint }) });
    },
  }),
];
