// Heartbeat schedules.

import * as v from 'valibot';
import { askedTime, integer, projectPath, timestamp } from './common.ts';
import { named, operation, pageOf, pageQuery, type Shape } from './operation.ts';

export const schedule = named(
  'Schedule',
  v.object({
    scheduleId: v.string(),
    agent: v.string(),
    ordinal: integer,
    cron: v.string(),
    timezone: v.string(),
    /** Null where no further time will come: none fits the expression, or the schedule is set aside. */
    nextAt: v.nullable(timestamp),
    lastAt: v.nullable(timestamp),
    lastStatus: v.nullable(v.string()),
    /** Ticks that it has passed over since it last fired. */
    skipped: integer,
    /** The session of its last tick that fired; null where there is none, or it is gone. */
    lastSessionId: v.nullable(v.string()),
  }),
);
export type Schedule = Shape<typeof schedule>;

export const listSchedules = operation({
  tag: 'schedules',
  method: 'GET',
  scope: 'project',
  permission: 'schedules:read',
  id: 'listSchedules',
  path: `${projectPath}/schedules`,
  summary: 'Heartbeat schedules with their next times, by agent and ordinal',
  query: v.strictObject(pageQuery),
  answers: { 200: pageOf('SchedulePage', schedule) },
});

export const timeline = named(
  'ScheduleTimeline',
  v.object({
    from: timestamp,
    to: timestamp,
    /** By time and schedule. */
    ticks: v.array(v.object({ scheduleId: v.string(), at: timestamp })),
    /** There are more within these bounds. */
    more: v.boolean(),
  }),
);
export type ScheduleTimeline = Shape<typeof timeline>;

export const getTimeline = operation({
  tag: 'schedules',
  method: 'GET',
  scope: 'project',
  permission: 'schedules:read',
  id: 'getScheduleTimeline',
  path: `${projectPath}/schedules/timeline`,
  summary:
    'When schedules fire, clock changes and all: from now on for a day, or within bounds of up to 7 days; up to 2,000 ticks',
  query: v.strictObject({ from: v.optional(askedTime), to: v.optional(askedTime) }),
  answers: { 200: timeline },
});
