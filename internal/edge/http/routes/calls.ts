// Calls to the outside (docs/reference/connections.md#connections, Calls): those of a session, and those of no session. No inputs, no results.

import * as api from '../../../../schemas/api/calls.ts';
import { type CallRow, listCalls } from '../../../adapters/store/outbox/calls.ts';
import { sessionState } from '../../../adapters/store/sessions/session-reads.ts';
import { noSession } from '../../../flows/sessions/sessions.ts';
import { pageOf } from '../page.ts';
import { ok, type Route, serve } from '../route.ts';
import { readIdPage } from './shapes.ts';
import { isUuid } from '../../../domain/uuid.ts';

const showCall = ({ id, sessionId, alias, tool, write, status, code, url, createdAt }: CallRow) => ({
  id,
  session: sessionId,
  alias,
  tool,
  write,
  status,
  ...(code !== null && { code }),
  ...(url !== null && { url }),
  at: createdAt,
});

export const callRoutes: readonly Route[] = [
  serve(api.listSessionCalls, async ({ ctx, project: where, params, query }) => {
    const { limit, before } = readIdPage(query);
    const id = params.id.toLowerCase();
    if (!isUuid(id) || (await sessionState(ctx.db, where.id, id)) === undefined) throw noSession();
    const rows = await listCalls(ctx.db, { projectId: where.id, sessionId: id, before, limit: limit + 1 });
    return ok(pageOf(rows, limit, (row) => [row.id], showCall));
  }),
  serve(api.listCalls, async ({ ctx, project: where, query }) => {
    const { limit, before } = readIdPage(query);
    const rows = await listCalls(ctx.db, { projectId: where.id, sessionId: null, before, limit: limit + 1 });
    return ok(pageOf(rows, limit, (row) => [row.id], showCall));
  }),
];
