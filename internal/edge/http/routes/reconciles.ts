// Runs of the reconciler: lists, one, and the stream of what happens (docs/reference/http-api.md#conventions).

import * as api from '../../../../schemas/api/reconciles.ts';
import { countRuns, listRuns, runById } from '../../../adapters/store/repositories/reconciles.ts';
import { showRun, showRunRow, showWholeRun, streamRuns } from '../../../flows/repositories/repositories.ts';
import { originsOfRun } from '../../../flows/sync/sync.ts';
import { takeWholeTurn } from '../../../base/concurrency.ts';
import { Fault } from '../../../domain/fault.ts';
import { pageOf, readNumberPage } from '../page.ts';
import { ok, type Route, serve, streaming } from '../route.ts';
import { counted } from './shapes.ts';
import { isUuid } from '../../../domain/uuid.ts';

/** From so many on the answer that has them takes tens of milliseconds. */
const manyActions = 500;

export const reconcileRoutes: readonly Route[] = [
  serve(api.listReconciles, async ({ ctx, project, query }) => {
    const { limit, before } = readNumberPage(query);
    const { repository: name, status: wanted } = query;
    const isRow = query.view === 'row';
    const filter = { repository: name, status: wanted, beforeSeq: before, limit: limit + 1, isRow };
    const [{ rows, isCut }, total] = await Promise.all([
      listRuns(ctx.db, project.id, filter),
      query.counts === 'true' ? countRuns(ctx.db, project.id, filter) : undefined,
    ]);
    const page = pageOf(rows, limit, (row) => [row.seq], isRow ? showRunRow : showRun, isCut);
    return ok({ ...page, ...counted(total) });
  }),
  serve(api.streamReconciles, async ({ ctx, project, query, lastEventId, signal }) => {
    const after = lastEventId !== undefined && /^\d{1,15}$/.test(lastEventId) ? Number(lastEventId) : undefined;
    return streaming(await streamRuns(ctx, { projectId: project.id, repository: query.repository, after, signal }));
  }),
  serve(api.getReconcile, async ({ ctx, project, params: { id }, query }) => {
    const found = isUuid(id) ? await runById(ctx.db, project.id, id) : undefined;
    if (found === undefined)
      throw new Fault('not_found', 'reconcile-not-found', `there is no reconcile ${id.slice(0, 64)}`);
    // Of a fleet it is tens of megabytes: reading them and writing them out again are two turns, with others between.
    if (found.actions.length > manyActions) await takeWholeTurn();
    const origins = query.origins === 'true' ? await originsOfRun(ctx, found) : undefined;
    return ok({ ...showWholeRun(found), ...(origins !== undefined && { origins }) });
  }),
];
