// What sessions leave for people: files and the difference of their work trees (docs/reference/sessions.md#files).

import * as api from '../../../../schemas/api/sessions.ts';
import { diffsOf, fileContent, listFiles } from '../../../adapters/store/sessions/leavings.ts';
import { sessionState } from '../../../adapters/store/sessions/session-reads.ts';
import { Fault } from '../../../domain/fault.ts';
import { noSession, usageSeriesOf } from '../../../flows/sessions/sessions.ts';
import type { FlowContext, ProjectRef } from '../../../flows/context.ts';
import { pageOf, readTextPage } from '../page.ts';
import { ok, type Route, serve } from '../route.ts';
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

export const leavingRoutes: readonly Route[] = [
  serve(api.listSessionFiles, async ({ ctx, project: where, params, query }) => {
    const id = await requireSession(ctx, where, params.id);
    const page = readTextPage(query);
    const rows = await listFiles(ctx.db, id, { ...page, limit: page.limit + 1 });
    return ok(
      pageOf(
        rows,
        page.limit,
        (row) => [row.path],
        (row) => row,
      ),
    );
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
  serve(api.getUsageSeries, async ({ ctx, project: where, query }) =>
    ok(await usageSeriesOf(ctx, where.id, { days: Number(query.days ?? 30), by: query.by ?? 'agent' })),
  ),
];
