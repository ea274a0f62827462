// What sessions leave for people: files, the difference of their work trees (docs/reference/sessions.md#files), and what
// they have cost.

import * as api from '../../../../schemas/api/sessions.ts';
import * as usage from '../../../../schemas/api/usage.ts';
import { countFiles, countUsageSessions } from '../../../adapters/store/console/counts.ts';
import { diffsOf, fileContent, listFiles } from '../../../adapters/store/sessions/session-results.ts';
import { sessionState } from '../../../adapters/store/sessions/session-reads.ts';
import { type CostlySessionRow, sessionsByCost } from '../../../adapters/store/sessions/usage-series.ts';
import { Fault } from '../../../domain/fault.ts';
import { noSession, usageSeriesOf } from '../../../flows/sessions/sessions.ts';
import { messagesTable } from '../../../domain/messages.ts';
import type { FlowContext, ProjectRef } from '../../../flows/context.ts';
import { pageOf, readPage, readTextPage } from '../page.ts';
import { ok, type Route, serve } from '../route.ts';
import { counted } from './shapes.ts';
import { isUuid } from '../../../domain/uuid.ts';

async function requireSession(ctx: FlowContext, where: ProjectRef, id: string): Promise<string> {
  if (!isUuid(id) || (await sessionState(ctx.db, where.id, id.toLowerCase())) === undefined) throw noSession();
  return id.toLowerCase();
}

/** A name that a header can hold, and the whole one beside it (RFC 6266). */
function disposition(path: string): string {
  const name = path.slice(path.lastIndexOf('/') + 1);
  const plain = name.replaceAll(/[^\x20-\x7e]|["\\%]/g, '_');
  const whole = encodeURIComponent(name).replaceAll(
    /['()*]/g,
    (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `attachment; filename="${plain}"; filename*=UTF-8''${whole}`;
}

/** A page of a list whose key is a cost and a session's id. */
function readCostPage(query: { limit?: string | undefined; cursor?: string | undefined }) {
  const { limit, after } = readPage(query);
  if (after === undefined) return { limit, after };
  const [cost, id] = after;
  const isOurs =
    typeof cost === 'string' && /^\d{1,20}(\.\d{1,20})?$/.test(cost) && typeof id === 'string' && isUuid(id);
  if (after.length !== 2 || !isOurs) throw new Fault('invalid', 'invalid-cursor', messagesTable.foreignCursor);
  return { limit, after: [cost, id] as const };
}

const showCostly = (row: CostlySessionRow) => {
  const { id, agent, state, displayTitle, createdAt, activeAt, capUsd, ...used } = row;
  const entries = { id, agent, state, displayTitle, createdAt, lastActiveAt: activeAt, usage: used };
  return { ...entries, ...(capUsd !== null && { capUsd }) };
};

export const sessionResultRoutes: readonly Route[] = [
  serve(api.listSessionFiles, async ({ ctx, project: where, params, query }) => {
    const id = await requireSession(ctx, where, params.id);
    const page = readTextPage(query);
    const rows = await listFiles(ctx.db, id, { ...page, limit: page.limit + 1 });
    const total = query.counts === 'true' ? await countFiles(ctx.db, id) : undefined;
    const shown = (row: (typeof rows)[number]) => row;
    return ok({ ...pageOf(rows, page.limit, (row) => [row.path], shown), ...counted(total) });
  }),
  serve(api.getSessionFile, async ({ ctx, project: where, params }) => {
    const id = await requireSession(ctx, where, params.id);
    const content = await fileContent(ctx.db, id, params.path);
    if (content === undefined) throw new Fault('not_found', 'not-found', 'The session left no such file.');
    if (content === null)
      throw new Fault('conflict', 'not-kept', 'The bytes of this file were not kept; the list says why.');
    // Whatever is in it, no browser takes it for a page of this address.
    const headers = {
      'content-disposition': disposition(params.path),
      'x-content-type-options': 'nosniff',
      'content-security-policy': "default-src 'none'; sandbox",
      'cache-control': 'private, no-store',
    };
    return { status: 200 as const, body: content, contentType: 'application/octet-stream', headers };
  }),
  serve(api.getSessionDiff, async ({ ctx, project: where, params }) => {
    const id = await requireSession(ctx, where, params.id);
    return ok({ mounts: await diffsOf(ctx.db, id) });
  }),
  serve(usage.listUsageSessions, async ({ ctx, project: where, query }) => {
    const { limit, after } = readCostPage(query);
    const rows = await sessionsByCost(ctx.db, where.id, { limit: limit + 1, agent: query.agent, after });
    const costOf = ({ costUsd, id }: CostlySessionRow): readonly [string, string] => [costUsd, id];
    const total = query.counts === 'true' ? await countUsageSessions(ctx.db, where.id, query.agent) : undefined;
    return ok({ ...pageOf(rows, limit, costOf, showCostly), ...counted(total) });
  }),
  serve(usage.getUsageSeries, async ({ ctx, project: where, query }) =>
    ok(await usageSeriesOf(ctx, where.id, { days: Number(query.days ?? 30), by: query.by ?? 'agent' })),
  ),
];
