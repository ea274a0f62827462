// Bindings: who holds which target (docs/reference/http-api.md#conventions).

import * as api from '../../../../schemas/api/bindings.ts';
import { countBindings } from '../../../adapters/store/console/counts.ts';
import { type BindingRow, listBindings } from '../../../adapters/store/routing/binding-reads.ts';
import { releaseBinding } from '../../../flows/sessions/sessions.ts';
import { Fault } from '../../../domain/fault.ts';
import { messagesTable } from '../../../domain/messages.ts';
import { pageOf } from '../page.ts';
import { noContent, ok, type Route, serve } from '../route.ts';
import { counted, readIdPage } from './shapes.ts';
import { isUuid } from '../../../domain/uuid.ts';
import { dryReleaseBinding } from '../../../flows/console/console.ts';

export const showBinding = ({ releasedAt, ...row }: BindingRow) => ({
  ...row,
  ...(releasedAt !== null && { releasedAt }),
});

function showRow(row: BindingRow) {
  const { context: _context, ...rest } = showBinding(row);
  return rest;
}

export const bindingRoutes: readonly Route[] = [
  serve(api.listBindings, async ({ ctx, project: where, query }) => {
    const { limit, before } = readIdPage(query);
    const { agent, session: sessionId } = query;
    if (sessionId !== undefined && !isUuid(sessionId))
      return ok({ items: [], nextCursor: null, ...counted(query.counts === 'true' ? 0 : undefined) });
    const filter = { all: query.all === 'true', agent, sessionId, before, limit: limit + 1 };
    const { rows, isCut } = await listBindings(ctx.db, where.id, filter);
    const total = query.counts === 'true' ? await countBindings(ctx.db, where.id, filter) : undefined;
    const shown = query.view === 'row' ? showRow : showBinding;
    return ok({ ...pageOf(rows, limit, (row) => [row.id], shown, isCut), ...counted(total) });
  }),
  serve(api.releaseBinding, async ({ ctx, project: where, params: { id }, query, body, actor }) => {
    if (!isUuid(id)) throw new Fault('not_found', 'not-found', messagesTable.noBinding);
    if (query.dryRun === 'true') return ok(await dryReleaseBinding(ctx, where, id.toLowerCase()));
    await releaseBinding(ctx, where, id.toLowerCase(), actor, body.reason);
    return noContent;
  }),
];
