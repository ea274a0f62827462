// Heartbeat schedules.

import * as v from 'valibot';
import { integer, projectPath, timestamp } from './common.ts';
import { named, operation, pageOf, pageQuery, type Shape } from './operation.ts';

export const schedule = named(
  'Schedule',
  v.object({
    scheduleId: v.string(),
    agent: v.string(),
    ordinal: integer,
    cron: v.string(),
    timezone: v.string(),
    nextAt: timestamp,
    lastAt: v.nullable(timestamp),
    lastStatus: v.nullable(v.string()),
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
