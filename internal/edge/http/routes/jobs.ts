// Jobs of the installation that gave up, and the second chance that a person gives them. For administrators of the
// organization that the installation began with.

import * as api from '../../../../schemas/api/jobs.ts';
import { listParkedJobs } from '../../../adapters/store/operations/jobs.ts';
import { retryJobs } from '../../../flows/doctor.ts';
import { ok, type Route, serve } from '../route.ts';

export const jobRoutes: readonly Route[] = [
  serve(api.listJobs, async ({ ctx }) => ok({ items: await listParkedJobs(ctx.db), nextCursor: null })),
  serve(api.retryJobs, async ({ ctx, actor }) => ok({ retried: await retryJobs(ctx, actor) })),
];
