// Recorded events, what came of them, and their replay.

import * as v from 'valibot';
import { integer, projectPath, target, timestamp } from './common.ts';
import { named, operation, pageOf, pageQuery, type Shape } from './operation.ts';
import { explanationEntries, moreExplanations } from './triggers.ts';

export const eventStatus = v.picklist(['pending', 'routed', 'unmatched', 'failed']);
export const eventSeverity = v.picklist(['warning', 'error']);

const decided = {
  sessionId: v.optional(v.string()),
  /** Where it reached more than one. */
  sessionIds: v.optional(v.array(v.string())),
  because: v.optional(v.string()),
  severity: v.optional(eventSeverity),
};
export const eventRoute = named(
  'EventRoute',
  v.object({ agent: v.string(), ordinal: integer, decision: v.string(), ...decided }),
);
export type EventRoute = Shape<typeof eventRoute>;

const entries = {
  id: v.string(),
  key: v.string(),
  /** The key's first segment. */
  source: v.string(),
  target: v.nullable(target),
  routerStatus: eventStatus,
  severity: v.optional(eventSeverity),
  reason: v.optional(v.string()),
  replayOf: v.optional(v.string()),
  /** The endpoint that it came in by. */
  endpoint: v.optional(v.string()),
  receivedAt: timestamp,
  /** The triggers that matched. */
  routes: v.array(eventRoute),
};
export const event = named(
  'Event',
  v.object({
    ...entries,
    payload: v.unknown(),
  }),
);
export type Event = Shape<typeof event>;
export const listedEvent = named(
  'ListedEvent',
  v.object({
    ...entries,
    payload: v.optional(
      v.pipe(v.unknown(), v.description('Absent where it is larger than 16 KiB; read the event itself.')),
    ),
    payloadTruncated: v.optional(v.literal(true)),
  }),
);
export type ListedEvent = Shape<typeof listedEvent>;

export const eventExplanation = named(
  'EventExplanation',
  v.object({ ...explanationEntries, recorded: v.boolean(), ...decided }),
);
export type EventExplanation = Shape<typeof eventExplanation>;

const read = { tag: 'events', method: 'GET', scope: 'project', permission: 'events:read' } as const;

export const listEvents = operation({
  ...read,
  id: 'listEvents',
  path: `${projectPath}/events`,
  summary: 'Recorded events, newest first; a payload larger than 16 KiB is left out, with payloadTruncated: true',
  query: v.strictObject({
    ...pageQuery,
    key: v.optional(
      v.pipe(v.string(), v.description('One key, `webhook.*` for all that begin so, `!svc.*` for the others.')),
    ),
    status: v.optional(eventStatus),
    severity: v.optional(eventSeverity),
    endpoint: v.optional(v.pipe(v.string(), v.description('Of the endpoint of this name only.'))),
  }),
  answers: { 200: pageOf('EventPage', listedEvent) },
});

export const getEvent = operation({
  ...read,
  id: 'getEvent',
  path: `${projectPath}/events/:id`,
  summary: 'One recorded event and what came of it',
  answers: { 200: event },
});

export const explainEvent = operation({
  ...read,
  id: 'explainEvent',
  path: `${projectPath}/events/:id/explain`,
  summary: 'Every trigger on the event’s key and endpoint, clause by clause, with what was decided or would be now',
  answers: {
    200: named('EventExplanations', v.object({ triggers: v.array(eventExplanation), more: moreExplanations })),
  },
});

export const replayEvent = operation({
  tag: 'events',
  method: 'POST',
  scope: 'project',
  permission: 'events:replay',
  id: 'replayEvent',
  path: `${projectPath}/events/:id/replay`,
  summary: 'Record the event once more, under a new id, and route it anew',
  answers: {
    202: named(
      'ReplayedEvent',
      v.object({
        eventRecordId: v.string(),
        created: v.literal(true),
        routerStatus: eventStatus,
        replayOf: v.string(),
      }),
    ),
  },
});
