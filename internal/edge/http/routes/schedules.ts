// Heartbeat schedules (docs/reference/http-api.md#conventions).

import * as api from '../../../../schemas/api/schedules.ts';
import { listSchedules } from '../../../adapters/store/resources/schedules.ts';
import { pageOf } from '../page.ts';
import { ok, type Route, serve } from '../route.ts';
import { readOrdinalPage } from './shapes.ts';

export const scheduleRoutes: readonly Route[] = [
  serve(api.listSchedules, async ({ ctx, project: where, query }) => {
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
  }),
];
