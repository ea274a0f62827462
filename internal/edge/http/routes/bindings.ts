// Bindings: who holds which target (docs/reference/http-api.md#conventions).

import * as api from '../../../../schemas/api/bindings.ts';
import { type BindingRow, listBindings } from '../../../adapters/store/routing/binding-reads.ts';
import { releaseBinding } from '../../../flows/sessions/sessions.ts';
import { Fault } from '../../../domain/fault.ts';
import { MESSAGES } from '../../../domain/messages.ts';
import { pageOf } from '../page.ts';
import { noContent, ok, type Route, serve } from '../route.ts';
import { isUuid, readIdPage } from './shapes.ts';

export const showBinding = ({ releasedAt, ...row }: BindingRow) => ({
  ...row,
  ...(releasedAt !== null && { releasedAt }),
});

export const bindingRoutes: readonly Route[] = [
  serve(api.listBindings, async ({ ctx, project: where, query }) => {
    const { limit, before } = readIdPage(query);
    const { agent, session: sessionId } = query;
    if (sessionId !== undefined && !isUuid(sessionId)) return ok({ items: [], nextCursor: null });
    const filter = { all: query.all === 'true', agent, sessionId, before, limit: limit + 1 };
    const rows = await listBindings(ctx.db, where.id, filter);
    return ok(pageOf(rows, limit, (row) => [row.id], showBinding));
  }),
  serve(api.releaseBinding, async ({ ctx, project: where, params: { id }, body, actor }) => {
    if (!isUuid(id)) throw new Fault('not_found', 'not-found', MESSAGES.noBinding);
    await releaseBinding(ctx, where, id.toLowerCase(), actor, body.reason);
    return noContent;
  }),
];
