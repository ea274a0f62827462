// API tokens: the caller's own, and those of an organization's members and service accounts.

import * as api from '../../../../schemas/api/tokens.ts';
import { isUuid } from '../../../domain/uuid.ts';
import { countTokens, listTokens, type TokenRow, type TokenScope } from '../../../adapters/store/tenancy/principals.ts';
import type { FlowContext } from '../../../flows/context.ts';
import { createOrgToken, createOwnToken, dropToken, type MadeToken } from '../../../flows/tenancy/tenancy.ts';
import { Fault } from '../../../domain/fault.ts';
import { messagesTable } from '../../../domain/messages.ts';
import { pageOf, readPage } from '../page.ts';
import { created, noContent, ok, type Route, serve } from '../route.ts';
import { dryRevokeToken } from '../../../flows/console/console.ts';
import { counted, withReason } from './shapes.ts';

const show = (row: TokenRow) => ({
  id: row.id,
  name: row.name,
  principal: { id: row.principalId, kind: row.principalKind, name: row.principalName },
  orgId: row.orgId,
  createdAt: row.createdAt.toISOString(),
  expiresAt: row.expiresAt?.toISOString() ?? null,
  lastUsedAt: row.lastUsedAt?.toISOString() ?? null,
  revokedAt: row.revokedAt?.toISOString() ?? null,
});
const showMade = (row: MadeToken) => ({ ...show(row), token: row.token });

const isIsoTime = (text: string): boolean => !Number.isNaN(Date.parse(text)) && new Date(text).toISOString() === text;

async function list(
  ctx: FlowContext,
  scope: TokenScope,
  query: { limit?: string | undefined; cursor?: string | undefined; counts?: string | undefined },
) {
  const { limit, after } = readPage(query);
  const [at, id] = after ?? [];
  const isWrong =
    after !== undefined &&
    !(typeof at === 'string' && /^\d{4}-/.test(at) && isIsoTime(at) && typeof id === 'string' && isUuid(id));
  if (isWrong) throw new Fault('invalid', 'invalid-cursor', messagesTable.foreignCursor);
  const rows = await listTokens(ctx.db, scope, {
    limit: limit + 1,
    ...(after !== undefined && { before: [String(at), String(id)] as const }),
  });
  const total = query.counts === 'true' ? await countTokens(ctx.db, scope) : undefined;
  return ok({ ...pageOf(rows, limit, (row) => [row.createdAt.toISOString(), row.id], show), ...counted(total) });
}

export const tokenRoutes: readonly Route[] = [
  serve(api.listOwnTokens, ({ ctx, principal, query }) =>
    list(ctx, { principalId: principal.id, only: principal.tokenOrgId }, query),
  ),
  serve(api.createOwnToken, async ({ ctx, actor, principal, body }) =>
    created(showMade(await createOwnToken(ctx, actor, principal, body))),
  ),
  serve(api.revokeOwnToken, async ({ ctx, actor, principal, params, query, body }) => {
    const own = { principalId: principal.id, only: principal.tokenOrgId };
    if (query.dryRun === 'true') return ok(await dryRevokeToken(ctx, actor, own, params.token));
    await dropToken(ctx, withReason(actor, body), own, params.token);
    return noContent;
  }),
  serve(api.listTokens, ({ ctx, org, query }) => list(ctx, { orgId: org.id }, query)),
  serve(api.createToken, async ({ ctx, actor, principal, org, body }) =>
    created(showMade(await createOrgToken(ctx, actor, principal, { orgId: org.id, who: body, given: body }))),
  ),
  serve(api.revokeToken, async ({ ctx, actor, org, params, query, body }) => {
    if (query.dryRun === 'true') return ok(await dryRevokeToken(ctx, actor, { orgId: org.id }, params.token));
    await dropToken(ctx, withReason(actor, body), { orgId: org.id }, params.token);
    return noContent;
  }),
];
