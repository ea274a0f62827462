// Runs of the reconciler.

import * as v from 'valibot';
import { origin } from './agents.ts';
import { action, diagnostic, integer, json, nameText, onOff, projectPath, receipt, timestamp } from './common.ts';
import { named, operation, pageOf, pageQuery, type Shape } from './operation.ts';

export const runStatus = v.picklist(['running', 'applied', 'unchanged', 'held', 'failed', 'superseded', 'quarantined']);
const stage = named('Stage', v.object({ name: v.string(), ms: v.number() }));
export type Stage = Shape<typeof stage>;

const triggered = { agent: v.string(), ordinal: integer, event: v.string() };
const trigger = named('TriggerConsequence', v.object(triggered));
const schedule = named(
  'ScheduleConsequence',
  v.object({
    agent: v.string(),
    ordinal: integer,
    cron: v.string(),
    timezone: v.string(),
    /** Times of the next fires, soonest first; empty for a lost schedule. */
    next: v.array(v.string()),
    from: v.optional(v.object({ cron: v.string(), timezone: v.string() })),
  }),
);
export type ScheduleConsequence = Shape<typeof schedule>;

/** Live sessions of one agent on one revision, when the apply was worked out. */
const sessionsOf = named('SessionConsequence', v.object({ agent: v.string(), revision: integer, count: integer }));

const impactCount = named('ImpactCount', v.object({ count: integer, eventIds: v.array(v.string()) }));
export type ImpactCount = Shape<typeof impactCount>;
/** Which events of the last seven days would newly match a trigger, or stop matching it. */
export const eventImpact = named(
  'EventImpact',
  v.object({
    since: timestamp,
    /** Events on the keys of changed triggers that were matched again. */
    events: integer,
    /** There are more of them. */
    truncated: v.boolean(),
    triggers: v.array(v.object({ ...triggered, newly: impactCount, stopped: impactCount })),
    /** Why none was matched again: an apply changed too much at once. */
    reason: v.optional(v.string()),
  }),
);
export type EventImpact = Shape<typeof eventImpact>;

/** What an apply does beyond the resources that it writes; without members where it did not get that far. */
export const consequences = named(
  'Consequences',
  v.object({
    schedules: v.optional(v.object({ gained: v.array(schedule), changed: v.array(schedule), lost: v.array(schedule) })),
    endpoints: v.optional(v.object({ gained: v.array(v.string()), lost: v.array(v.string()) })),
    triggers: v.optional(v.object({ activated: v.array(trigger), skipped: v.array(trigger) })),
    /** Of agents that change: `kept` go on with the revision that they have, `archived` end, since their agent goes. */
    sessions: v.optional(v.object({ kept: v.array(sessionsOf), archived: v.array(sessionsOf) })),
    /** Of a run that is held, and of one that applied a change of triggers: there a moment after it ended. */
    eventImpact: v.optional(eventImpact),
  }),
);
export type Consequences = Shape<typeof consequences>;

const entries = {
  id: v.string(),
  /** Null: applied by hand. */
  repository: v.nullable(v.string()),
  commit: v.nullable(v.string()),
  /** First line of the commit's message, and who wrote it; absent: applied by hand, of a folder, or not read. */
  commitMessage: v.optional(v.string()),
  commitAuthor: v.optional(v.string()),
  reason: v.picklist(['push', 'poll', 'manual', 'watch', 'resync', 'apply']),
  /** What a person did, of a run whose reason is `manual`; absent for a sync. */
  act: v.optional(v.picklist(['rollback', 'approve', 'pin', 'unpin', 'release'])),
  status: runStatus,
  /** Why a source failed: `auth-failed`, `unreachable`, … */
  condition: v.optional(v.string()),
  detail: v.optional(v.string()),
  startedAt: v.string(),
  finishedAt: v.nullable(v.string()),
  stages: v.array(stage),
  actions: v.array(action),
  diagnostics: v.array(diagnostic),
};
/** A run as lists and the stream show it: its actions are those that change something. */
export const run = named('Reconcile', v.object(entries));
/** With view=row: without stages, actions and diagnostics. */
const listedRun = named(
  'ListedReconcile',
  v.object({
    ...entries,
    stages: v.exactOptional(entries.stages),
    actions: v.exactOptional(entries.actions),
    diagnostics: v.exactOptional(entries.diagnostics),
  }),
);
export type Run = Shape<typeof run>;
/** One run with everything that explains it, also what stayed as it was. */
export const wholeRun = named(
  'ReconcileDetail',
  v.object({
    ...entries,
    consequences,
    webhooks: v.array(receipt),
    inputs: json,
    /** With origins=true: by agent, then by the paths of its changes, where the new value stands; of the first 100 agents. */
    origins: v.optional(v.record(v.string(), v.record(v.string(), origin))),
  }),
);
export type WholeRun = Shape<typeof wholeRun>;

/** The answer of a call that starts a run. */
export const started = named('StartedReconcile', v.object({ reconcileId: v.string() }));

const read = { tag: 'reconciles', method: 'GET', scope: 'project', permission: 'reconciles:read' } as const;

export const listReconciles = operation({
  ...read,
  id: 'listReconciles',
  path: `${projectPath}/reconciles`,
  summary: 'Runs, newest first',
  query: v.strictObject({
    ...pageQuery,
    repository: v.optional(nameText),
    status: v.optional(runStatus),
  }),
  answers: { 200: pageOf('ReconcilePage', listedRun) },
});

export const streamReconciles = operation({
  ...read,
  id: 'streamReconciles',
  path: `${projectPath}/reconciles/stream`,
  summary: 'Server-sent events: each change of a run, as the run is by then; resumes after Last-Event-ID',
  query: v.strictObject({ repository: v.optional(nameText) }),
  answers: { 200: null },
  stream: true,
});

export const getReconcile = operation({
  ...read,
  id: 'getReconcile',
  path: `${projectPath}/reconciles/:id`,
  summary: 'One run with its consequences, receipts and inputs',
  query: v.strictObject({
    origins: v.optional(v.pipe(onOff, v.description('`true`: `origins` says where what changed stands in the files.'))),
  }),
  answers: { 200: wholeRun },
});
