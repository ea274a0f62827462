// The daemons of the installation (docs/reference/http-api.md#conventions).

import * as api from '../../../../schemas/api/daemons.ts';
import { listDaemons } from '../../../adapters/store/operations/jobs.ts';
import { pageOf, readTextPage } from '../page.ts';
import { ok, type Route, serve } from '../route.ts';
import { counted } from './shapes.ts';

/** One that is silent for longer is dead: others take over what it held. */
const silentAfterMs = 15_000;

export const daemonRoutes: readonly Route[] = [
  serve(api.listDaemons, async ({ ctx, query }) => {
    const { limit, after } = readTextPage(query);
    // A handful at most: a page is cut here.
    const all = await listDaemons(ctx.db);
    const from = after === undefined ? 0 : all.findIndex((one) => one.id === after) + 1;
    const now = ctx.runtime.now().getTime();
    const show = (row: (typeof all)[number]) => ({
      id: row.id,
      roles: [...row.roles],
      host: row.host,
      pid: row.pid,
      status: now - row.beatAt.getTime() > silentAfterMs ? ('silent' as const) : ('live' as const),
      startedAt: row.startedAt,
      beatAt: row.beatAt,
      self: row.id === ctx.daemonId,
    });
    const total = query.counts === 'true' ? all.length : undefined;
    return ok({ ...pageOf(all.slice(from, from + limit + 1), limit, (row) => [row.id], show), ...counted(total) });
  }),
];
