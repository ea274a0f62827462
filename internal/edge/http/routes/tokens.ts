// API tokens: the caller's own, and those of an organization's members and service accounts.

import * as v from 'valibot';
import { isUuid } from '../../../adapters/store/tenancy/access.ts';
import { listTokens, type TokenRow, type TokenScope } from '../../../adapters/store/tenancy/principals.ts';
import type { FlowContext } from '../../../flows/context.ts';
import { createOrgToken, createOwnToken, dropToken, type MadeToken } from '../../../flows/tenancy/tenancy.ts';
import { expiresAt } from '../../../../schemas/secret.ts';
import { Fault } from '../../../domain/fault.ts';
import { pageOf, pageQuery, pageSchema, readPage } from '../page.ts';
import { type Answer, created, defineRoute, noContent, ok, type Route } from '../route.ts';
import { namesOne, oneWho, whoEntries } from './members.ts';

const tokenAnswer = v.object({
  id: v.string(),
  name: v.string(),
  principal: v.object({ id: v.string(), kind: v.string(), name: v.string() }),
  /** The one organization that it opens; null for all of its principal's. */
  orgId: v.nullable(v.string()),
  createdAt: v.string(),
  expiresAt: v.nullable(v.string()),
  lastUsedAt: v.nullable(v.string()),
  revokedAt: v.nullable(v.string()),
});
const madeAnswer = v.object({ ...tokenAnswer.entries, token: v.string() });
const newToken = {
  name: v.pipe(v.string(), v.trim(), v.minLength(1), v.maxLength(200)),
  /** Null, as left out: as long as the token of the call. */
  expiresAt: v.optional(expiresAt),
};

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
  query: { limit?: string | undefined; cursor?: string | undefined },
): Promise<Answer> {
  const { limit, after } = readPage(query);
  const [at, id] = after ?? [];
  const isWrong =
    after !== undefined &&
    !(typeof at === 'string' && /^\d{4}-/.test(at) && isIsoTime(at) && typeof id === 'string' && isUuid(id));
  if (isWrong)
    throw new Fault('invalid', 'invalid-cursor', 'The cursor was not made by this list; start again without one.');
  const rows = await listTokens(ctx.db, scope, {
    limit: limit + 1,
    ...(after !== undefined && { before: [String(at), String(id)] as const }),
  });
  return ok(pageOf(rows, limit, (row) => [row.createdAt.toISOString(), row.id], show));
}

export const tokenRoutes: readonly Route[] = [
  defineRoute({
    method: 'GET',
    path: '/api/v1/tokens',
    summary: "The caller's own tokens, never their text",
    scope: 'self',
    permission: 'self:read',
    query: v.strictObject(pageQuery),
    answers: { 200: pageSchema(tokenAnswer) },
    handle: ({ ctx, principal, query }) => list(ctx, { principalId: principal.id, only: principal.tokenOrgId }, query),
  }),
  defineRoute({
    method: 'POST',
    path: '/api/v1/tokens',
    summary: 'Create a token for the caller; its text is shown this once',
    scope: 'self',
    permission: 'self:write',
    body: v.strictObject(newToken),
    answers: { 201: madeAnswer },
    handle: async ({ ctx, actor, principal, body }) =>
      created(showMade(await createOwnToken(ctx, actor, principal, body))),
  }),
  defineRoute({
    method: 'DELETE',
    path: '/api/v1/tokens/:token',
    summary: 'Revoke one of the own tokens, by id',
    scope: 'self',
    permission: 'self:write',
    answers: { 204: null },
    async handle({ ctx, actor, principal, params }) {
      const scope = { principalId: principal.id, only: principal.tokenOrgId };
      await dropToken(ctx, actor, scope, params['token'] ?? '');
      return noContent;
    },
  }),
  defineRoute({
    method: 'GET',
    path: '/api/v1/orgs/:org/tokens',
    summary: 'Tokens that open the organization, never their text',
    scope: 'org',
    permission: 'tokens:read',
    query: v.strictObject(pageQuery),
    answers: { 200: pageSchema(tokenAnswer) },
    handle: ({ ctx, org, query }) => list(ctx, { orgId: org.id }, query),
  }),
  defineRoute({
    method: 'POST',
    path: '/api/v1/orgs/:org/tokens',
    summary: 'Create a token for a member or service account, for this organization alone; its text is shown this once',
    scope: 'org',
    permission: 'tokens:write',
    body: v.pipe(
      v.strictObject({ ...whoEntries, ...newToken }),
      v.check((input) => namesOne(input), oneWho),
    ),
    answers: { 201: madeAnswer },
    handle: async ({ ctx, actor, principal, org, body }) =>
      created(showMade(await createOrgToken(ctx, actor, principal, { orgId: org.id, who: body, given: body }))),
  }),
  defineRoute({
    method: 'DELETE',
    path: '/api/v1/orgs/:org/tokens/:token',
    summary: 'Revoke a token, by id',
    scope: 'org',
    permission: 'tokens:write',
    answers: { 204: null },
    async handle({ ctx, actor, org, params }) {
      await dropToken(ctx, actor, { orgId: org.id }, params['token'] ?? '');
      return noContent;
    },
  }),
];
