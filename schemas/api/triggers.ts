// Stored triggers: one row per event key and heartbeat.

import * as v from 'valibot';
import { routing, where } from './agent-spec.ts';
import { origin } from './agents.ts';
import { integer, onOff, projectPath, timestamp, triggerStatus } from './common.ts';
import { named, operation, pageOf, pageQuery, type Shape } from './operation.ts';

const triggerEntries = {
  agent: v.string(),
  ordinal: integer,
  kind: v.picklist(['event', 'heartbeat']),
  event: v.string(),
  endpoint: v.optional(v.string()),
  connection: v.optional(v.string()),
  cron: v.optional(v.string()),
  timezone: v.optional(v.string()),
  where,
  fallback: v.boolean(),
  routing,
  status: triggerStatus,
};
const lastMatchEntries = {
  /** The last event that it matched, among those that `since` reaches back to. */
  lastMatch: v.nullable(v.object({ eventId: v.string(), at: timestamp, decision: v.string() })),
  /** How far back was looked; null: through all that is kept. */
  since: v.nullable(timestamp),
};
export const trigger = named(
  'Trigger',
  v.object({
    ...triggerEntries,
    /** With origins=true: where it is declared; null where what its agent was made of is not kept. */
    source: v.optional(v.nullable(origin)),
    /** With matches=true. */
    lastMatch: v.optional(lastMatchEntries.lastMatch),
    since: v.optional(lastMatchEntries.since),
  }),
);
export type Trigger = Shape<typeof trigger>;

const clause = named(
  'ExplainedClause',
  // Without a value where nothing stands at the path.
  v.object({
    path: v.string(),
    clause: v.unknown(),
    value: v.optional(v.unknown()),
    /** The value is longer than the 4 KiB that are quoted: the beginning of a text, or of another value's JSON. */
    truncated: v.optional(v.literal(true)),
    /**
     * Of a clause that failed because nothing stands at its path: paths of what the payload has instead, those that are
     * spelled nearly so first, else the first five. Names alone, none that looks like a credential.
     */
    instead: v.optional(v.array(v.string())),
    matched: v.boolean(),
  }),
);
export type ExplainedClause = Shape<typeof clause>;
/** Of a trigger, for an event that may come or one that was recorded. */
export const explanationEntries = {
  agent: v.string(),
  ordinal: integer,
  matched: v.boolean(),
  clauses: v.array(clause),
  fallback: v.boolean(),
  /** What would follow, or what was recorded; null where the trigger does not fire. */
  decision: v.nullable(v.string()),
  /** Why it would be that: what stands in the way, or what the session that it would reach holds already. */
  because: v.optional(v.string()),
  /** Of a fallback whose clauses match: the triggers that fire instead, the first ten. */
  standsBackFor: v.optional(v.array(v.object({ agent: v.string(), ordinal: integer }))),
};
/** Triggers were left out: the answer has at most 4 MiB. */
export const moreExplanations = v.optional(v.literal(true));
export const triggerExplanation = named('TriggerExplanation', v.object(explanationEntries));
export type TriggerExplanation = Shape<typeof triggerExplanation>;

const read = { tag: 'triggers', scope: 'project', permission: 'triggers:read' } as const;

export const listTriggers = operation({
  ...read,
  method: 'GET',
  id: 'listTriggers',
  path: `${projectPath}/triggers`,
  summary: 'Stored triggers, by agent and ordinal',
  query: v.strictObject({
    ...pageQuery,
    agent: v.optional(v.string()),
    origins: v.optional(v.pipe(onOff, v.description('`true`: `source` says where each is declared.'))),
    matches: v.optional(
      v.pipe(onOff, v.description('`true`: `lastMatch` is the last event of each among the newest 10,000 decisions.')),
    ),
  }),
  answers: { 200: pageOf('TriggerPage', trigger) },
});

export const oneTrigger = named(
  'TriggerDetail',
  v.object({
    ...triggerEntries,
    message: v.optional(v.string()),
    /** Where it is declared; null where what its agent was made of is not kept. */
    source: v.nullable(origin),
    ...lastMatchEntries,
  }),
);
export type OneTrigger = Shape<typeof oneTrigger>;

export const getTrigger = operation({
  ...read,
  method: 'GET',
  id: 'getTrigger',
  path: `${projectPath}/triggers/:agent/:ordinal`,
  summary: 'One trigger: the file and line that declare it, and the last event that it matched',
  answers: { 200: oneTrigger },
});

/** UTF-16 units of the longest key that an event has: `webhook.`, and what a body names by at most 512 characters. */
const keyUnitsMax = 'webhook.'.length + 2 * 512;

export const explainTriggers = operation({
  ...read,
  method: 'POST',
  id: 'explainTriggers',
  path: `${projectPath}/triggers/explain`,
  summary: 'What an event would do, clause by clause; changes nothing',
  body: v.strictObject({
    /** The event's key; with `raw` what a code host sends as X-GitHub-Event. */
    event: v.optional(v.pipe(v.string(), v.minLength(1), v.maxLength(keyUnitsMax))),
    payload: v.unknown(),
    /** Through which endpoint it would come; without one, and without a connection, through each. */
    endpoint: v.optional(v.string()),
    /** The payload is the body of a provider's delivery, as it would come through `connection`. */
    raw: v.optional(v.boolean()),
    connection: v.optional(v.string()),
  }),
  exactNumbers: true,
  answers: {
    200: named(
      'TriggerExplanations',
      v.object({
        triggers: v.array(triggerExplanation),
        more: moreExplanations,
        /** With `raw`: the key and payload that the delivery would have. */
        event: v.optional(v.string()),
        payload: v.optional(v.record(v.string(), v.unknown())),
        /** With `raw`: why the delivery would not be recorded. */
        ignored: v.optional(v.string()),
      }),
    ),
  },
});
