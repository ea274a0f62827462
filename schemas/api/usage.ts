// What model calls have used: of the project, by day and agent, and by session.

import * as v from 'valibot';
import { integer, nameText, projectPath, spending, timestamp, usage } from './common.ts';
import { named, operation, pageOf, pageQuery, type Shape } from './operation.ts';
import { sessionState } from './sessions.ts';

const read = { tag: 'usage', method: 'GET', scope: 'project', permission: 'sessions:read' } as const;

export const getUsage = operation({
  ...read,
  id: 'getUsage',
  path: `${projectPath}/usage`,
  summary: 'What the project’s model calls have used this UTC day, this month and ever',
  answers: { 200: spending },
});

export const usageSeries = named(
  'UsageSeries',
  v.object({
    /** UTC days, both included. */
    from: v.string(),
    to: v.string(),
    by: v.picklist(['agent', 'day']),
    /** A row for each day, and agent, with calls; by day and name. `agent` is null by day. */
    items: v.array(v.object({ day: v.string(), agent: v.nullable(v.string()), usage })),
    /** Agents with their sum over these days, dearest first; `sessions` and `dearest` are of the project's latest 200. */
    agents: v.array(
      v.object({
        agent: v.string(),
        sessions: integer,
        usage,
        dearest: v.nullable(v.object({ id: v.string(), costUsd: v.string() })),
        /** Decimal, of a session of it; absent: none is set. */
        capUsd: v.optional(v.string()),
      }),
    ),
    /** Sessions that a spend cap holds now. */
    capHits: integer,
  }),
);
export type UsageSeries = Shape<typeof usageSeries>;

export const getUsageSeries = operation({
  ...read,
  id: 'getUsageSeries',
  path: `${projectPath}/usage/series`,
  summary: 'What model calls have used by UTC day, and agent, over the last days (1 to 366, default 30)',
  query: v.strictObject({
    days: v.optional(v.pipe(v.string(), v.regex(/^([1-9]|[1-9]\d|[12]\d\d|3[0-5]\d|36[0-6])$/, 'Expected 1 to 366'))),
    by: v.optional(v.picklist(['agent', 'day'])),
  }),
  answers: { 200: usageSeries },
});

export const costlySession = named(
  'CostlySession',
  v.object({
    id: v.string(),
    agent: v.string(),
    state: sessionState,
    displayTitle: v.string(),
    createdAt: timestamp,
    lastActiveAt: timestamp,
    usage,
    /** Decimal, what a session of its agent may cost now; absent: no cap. */
    capUsd: v.optional(v.string()),
  }),
);
export type CostlySession = Shape<typeof costlySession>;

export const listUsageSessions = operation({
  ...read,
  id: 'listUsageSessions',
  path: `${projectPath}/usage/sessions`,
  summary: 'Sessions that have called a model, dearest first; of one agent with agent=',
  query: v.strictObject({ ...pageQuery, agent: v.optional(nameText) }),
  answers: { 200: pageOf('CostlySessionPage', costlySession) },
});
