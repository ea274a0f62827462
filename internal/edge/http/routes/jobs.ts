// Jobs of the installation that gave up, and the second chance that a person gives them. For administrators of the
// organization that the installation began with.

import * as v from 'valibot';
import { listParkedJobs } from '../../../adapters/store/operations/jobs.ts';
import { retryJobs } from '../../../flows/sync/sync.ts';
import { defineRoute, ok, type Route } from '../route.ts';
import { timestamp } from './shapes.ts';

export const jobRoutes: readonly Route[] = [
  defineRoute({
    method: 'GET',
    path: '/api/v1/jobs',
    summary: 'Jobs that have used up their attempts, with the reason; the latest hundred',
    scope: 'self',
    permission: 'jobs:retry',
    answers: {
      200: v.object({
        items: v.array(
          v.object({ id: v.string(), task: v.string(), attempts: v.number(), reason: v.string(), since: timestamp }),
        ),
        nextCursor: v.null(),
      }),
    },
    handle: async ({ ctx }) => ok({ items: await listParkedJobs(ctx.db), nextCursor: null }),
  }),
  defineRoute({
    method: 'POST',
    path: '/api/v1/jobs/retry',
    summary: 'Give every job that gave up its attempts back',
    scope: 'self',
    permission: 'jobs:retry',
    answers: { 200: v.object({ retried: v.number() }) },
    handle: async ({ ctx, actor }) => ok({ retried: await retryJobs(ctx, actor) }),
  }),
];
