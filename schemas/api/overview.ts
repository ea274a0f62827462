// What an operator sees first of a project, and the stream of what changes in it.

import * as v from 'valibot';
import { askedTime, integer, projectPath, timestamp } from './common.ts';
import { named, operation, type Shape } from './operation.ts';
import { runStatus } from './reconciles.ts';
import { me } from './tenancy.ts';

/** Something that needs a person, worst first. */
export const attention = named(
  'Attention',
  v.object({
    kind: v.picklist(['held', 'asks', 'failed', 'authorization', 'doctor']),
    severity: v.picklist(['error', 'warning']),
    text: v.string(),
    /** The name or id of what it is about; of a doctor's check the check's name. */
    subject: v.string(),
    /** Null: it is not known since when. */
    since: v.nullable(timestamp),
    /** The page on which it is dealt with. */
    href: v.string(),
  }),
);
export type Attention = Shape<typeof attention>;

export const lastRun = named(
  'LastRun',
  v.object({
    id: v.string(),
    repository: v.nullable(v.string()),
    commit: v.nullable(v.string()),
    commitMessage: v.optional(v.string()),
    commitAuthor: v.optional(v.string()),
    reason: v.string(),
    status: runStatus,
    condition: v.optional(v.string()),
    detail: v.optional(v.string()),
    startedAt: timestamp,
    finishedAt: v.nullable(timestamp),
    ms: v.nullable(integer),
    created: integer,
    updated: integer,
    deleted: integer,
    mistakes: integer,
    /** Of the repository: the commit that runs now. */
    appliedCommit: v.nullable(v.string()),
  }),
);
export type LastRun = Shape<typeof lastRun>;

const liveSession = named(
  'LiveSession',
  v.object({
    id: v.string(),
    agent: v.string(),
    state: v.string(),
    reason: v.nullable(v.string()),
    displayTitle: v.string(),
    createdAt: timestamp,
    activeAt: timestamp,
    costUsd: v.string(),
  }),
);
const nextTick = named(
  'NextTick',
  v.object({ scheduleId: v.string(), agent: v.string(), ordinal: integer, cron: v.string(), at: timestamp }),
);
const outcomes = { routed: integer, unmatched: integer, failed: integer, pending: integer };
export const eventCounts = named(
  'EventCounts',
  v.object({
    /** An hour before `asOf`. */
    since: timestamp,
    total: integer,
    ...outcomes,
    /** There were more than are counted: the newest 100,000. */
    truncated: v.boolean(),
    /** By minute, those in which something came. */
    minutes: v.array(v.object({ at: timestamp, ...outcomes })),
  }),
);
export type EventCounts = Shape<typeof eventCounts>;

export const overview = named(
  'Overview',
  v.object({
    attention: v.array(attention),
    /** All that needs somebody; `attention` holds the first twenty. */
    attentionTotal: integer,
    /** The last runs that changed something, or did not get that far. */
    lastRuns: v.array(lastRun),
    live: v.array(liveSession),
    liveTotal: integer,
    next: v.array(nextTick),
    nextTotal: integer,
    events: eventCounts,
    asOf: timestamp,
    /** The caller, as `GET /api/v1/me` shows it, with this project alone. */
    viewer: me,
  }),
);
export type Overview = Shape<typeof overview>;

export const getOverview = operation({
  tag: 'overview',
  method: 'GET',
  scope: 'project',
  permission: 'project:read',
  id: 'getOverview',
  path: `${projectPath}/overview`,
  summary: 'Whether anything is wrong, what changed last, what runs and what comes; at most 20 kB',
  answers: { 200: overview },
});

export const topics = ['events', 'sessions', 'reconciles', 'agents', 'connections'] as const;

export const streamChanges = operation({
  tag: 'overview',
  method: 'GET',
  scope: 'project',
  permission: 'project:read',
  id: 'streamChanges',
  path: `${projectPath}/stream`,
  summary:
    'Server-sent events: the topic and the id of whatever changes, as {topic, id, seq}, of `reconciles` a run or a repository; resumes after Last-Event-ID, and sends `reset` where it cannot',
  query: v.strictObject({
    topics: v.optional(
      v.pipe(
        v.string(),
        v.maxLength(200),
        v.check(
          (text) => text.split(',').every((one) => topics.some((topic) => topic === one)),
          `Expected some of ${topics.join(', ')}, parted by commas`,
        ),
        v.description('Parted by commas; all where it is left out.'),
      ),
    ),
    since: v.optional(
      v.pipe(askedTime, v.description('Begins with what has changed since then, as far as it is known.')),
    ),
  }),
  answers: { 200: null },
  stream: true,
});
