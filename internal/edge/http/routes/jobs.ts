// Jobs of the installation that gave up, and the second chance that a person gives them. For administrators of the
// organization that the installation began with.

import * as api from '../../../../schemas/api/jobs.ts';
import { countParkedJobs } from '../../../adapters/store/console/counts.ts';
import { listParkedJobs } from '../../../adapters/store/operations/jobs.ts';
import { Fault } from '../../../domain/fault.ts';
import { messagesTable } from '../../../domain/messages.ts';
import { retryJobs } from '../../../flows/doctor.ts';
import { pageOf, readPage } from '../page.ts';
import { ok, type Route, serve } from '../route.ts';
import { counted } from './shapes.ts';

/** A page of a list whose key is a time in microseconds and a number as text. */
function readJobPage(query: { limit?: string | undefined; cursor?: string | undefined }) {
  const { limit, after } = readPage(query);
  if (after === undefined) return { limit };
  const [micros, id] = after;
  const isOurs = Number.isSafeInteger(micros) && typeof id === 'string' && /^\d{1,18}$/.test(id);
  if (after.length !== 2 || !isOurs) throw new Fault('invalid', 'invalid-cursor', messagesTable.foreignCursor);
  return { limit, after: [Number(micros), id] as const };
}

export const jobRoutes: readonly Route[] = [
  serve(api.listJobs, async ({ ctx, query }) => {
    const { limit, ...page } = readJobPage(query);
    const rows = await listParkedJobs(ctx.db, { ...page, limit: limit + 1 });
    const total = query.counts === 'true' ? await countParkedJobs(ctx.db) : undefined;
    const shown = ({ sinceMicros: _micros, ...row }: (typeof rows)[number]) => row;
    return ok({ ...pageOf(rows, limit, (row) => [row.sinceMicros, row.id], shown), ...counted(total) });
  }),
  serve(api.retryJobs, async ({ ctx, actor }) => ok({ retried: await retryJobs(ctx, actor) })),
];
