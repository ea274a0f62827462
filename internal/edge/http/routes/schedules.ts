// Heartbeat schedules (docs/reference/http-api.md#conventions).

import * as api from '../../../../schemas/api/schedules.ts';
import { isOfFourDigits } from '../../../../schemas/secret.ts';
import { countSchedules } from '../../../adapters/store/console/counts.ts';
import { Fault } from '../../../domain/fault.ts';
import { inSlices } from '../../../base/concurrency.ts';
import { timelineOf } from '../../../core/schedule/schedule.ts';
import { listSchedules, schedulesDueBefore } from '../../../adapters/store/resources/schedules.ts';
import { pageOf } from '../page.ts';
import { ok, type Route, serve } from '../route.ts';
import { counted, readOrdinalPage } from './shapes.ts';

const dayMs = 86_400_000;
const timelineMost = { days: 7, ticks: 2_000 } as const;

function boundsOf(query: { readonly from?: string | undefined; readonly to?: string | undefined }, now: Date) {
  const from = query.from === undefined ? now : new Date(query.from);
  const to = query.to === undefined ? new Date(from.getTime() + dayMs) : new Date(query.to);
  const ms = to.getTime() - from.getTime();
  const refuse = (what: string): Fault =>
    new Fault('invalid', 'invalid-query', `The query is not as expected. ${what}`);
  if (![from, to].every((at) => isOfFourDigits(at.getTime())))
    throw refuse('from: Expected a time as in 2030-01-31T12:00:00Z, of a year of four digits');
  if (ms <= 0 || ms > timelineMost.days * dayMs) throw refuse('to: Expected up to 7 days after from');
  return { from, to };
}

export const scheduleRoutes: readonly Route[] = [
  serve(api.getTimeline, async ({ ctx, project: where, query }) => {
    const bounds = boundsOf(query, ctx.runtime.now());
    const most = timelineMost.ticks;
    const found = await schedulesDueBefore(ctx.db, where.id, bounds.to, most + 1);
    return ok({ ...bounds, ...(await inSlices(timelineOf(found, { ...bounds, most }))) });
  }),
  serve(api.listSchedules, async ({ ctx, project: where, query }) => {
    const { limit, after } = readOrdinalPage(query);
    const rows = await listSchedules(ctx.db, where.id, { limit: limit + 1, after });
    const total = query.counts === 'true' ? await countSchedules(ctx.db, where.id) : undefined;
    const shown = pageOf(
      rows,
      limit,
      (row) => [row.agent, row.ordinal],
      (row) => row,
    );
    return ok({ ...shown, ...counted(total) });
  }),
];
