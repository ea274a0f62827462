// Heartbeat schedules (contract, section 3).

import * as v from 'valibot';
import { listSchedules } from '../../../adapters/store/resources/schedules.ts';
import { pageOf, pageQuery, pageSchema } from '../page.ts';
import { defineRoute, ok, type Route } from '../route.ts';
import { project, readOrdinalPage, timestamp } from './shapes.ts';

const schedule = v.object({
  scheduleId: v.string(),
  agent: v.string(),
  ordinal: v.number(),
  cron: v.string(),
  timezone: v.string(),
  nextAt: timestamp,
  lastAt: v.nullable(timestamp),
  lastStatus: v.nullable(v.string()),
});

export const scheduleRoutes: readonly Route[] = [
  defineRoute({
    method: 'GET',
    scope: 'project',
    permission: 'schedules:read',
    path: `${project}/schedules`,
    summary: 'Heartbeat schedules with their next times, by agent and ordinal',
    query: v.strictObject(pageQuery),
    answers: { 200: pageSchema(schedule) },
    handle: async ({ ctx, project: where, query }) => {
      const { limit, after } = readOrdinalPage(query);
      const rows = await listSchedules(ctx.db, where.id, { limit: limit + 1, after });
      return ok(
        pageOf(
          rows,
          limit,
          (row) => [row.agent, row.ordinal],
          (row) => row,
        ),
      );
    },
  }),
];
