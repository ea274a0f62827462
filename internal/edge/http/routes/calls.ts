// Calls to the outside (docs/reference/http-api.md#calls): those of a session, and those of no session. No inputs, no
// results.

import * as api from '../../../../schemas/api/calls.ts';
import { countCalls } from '../../../adapters/store/console/counts.ts';
import { type CallRow, listCalls } from '../../../adapters/store/outbox/calls.ts';
import { sessionState } from '../../../adapters/store/sessions/session-reads.ts';
import type { FlowContext } from '../../../flows/context.ts';
import { noSession } from '../../../flows/sessions/sessions.ts';
import { pageOf } from '../page.ts';
import { ok, type Route, serve } from '../route.ts';
import { counted, readIdPage } from './shapes.ts';
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

async function list(
  ctx: FlowContext,
  of: { readonly projectId: string; readonly sessionId: string | null },
  { limit, before }: ReturnType<typeof readIdPage>,
  isCounted: boolean,
) {
  const rows = await listCalls(ctx.db, { ...of, before, limit: limit + 1 });
  const total = isCounted ? await countCalls(ctx.db, of) : undefined;
  return { ...pageOf(rows, limit, (row) => [row.id], showCall), ...counted(total) };
}

export const callRoutes: readonly Route[] = [
  serve(api.listSessionCalls, async ({ ctx, project: where, params, query }) => {
    const page = readIdPage(query);
    const id = params.id.toLowerCase();
    if (!isUuid(id) || (await sessionState(ctx.db, where.id, id)) === undefined) throw noSession();
    return ok(await list(ctx, { projectId: where.id, sessionId: id }, page, query.counts === 'true'));
  }),
  serve(api.listCalls, async ({ ctx, project: where, query }) => {
    return ok(await list(ctx, { projectId: where.id, sessionId: null }, readIdPage(query), query.counts === 'true'));
  }),
];
