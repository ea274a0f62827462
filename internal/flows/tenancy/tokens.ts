// API tokens: made (shown once), listed, revoked; each change with its audit row.

import type { AuditAction } from '../../domain/audit-actions.ts';
import { isUuid } from '../../domain/uuid.ts';
import { recordAudit } from '../../adapters/store/tenancy/audit.ts';
import {
  belongsElsewhere,
  findOrgPrincipal,
  getToken,
  insertToken,
  revokeToken,
  type TokenRow,
  type TokenScope,
} from '../../adapters/store/tenancy/principals.ts';
import type { Sql } from '../../adapters/store/store.ts';
import { listOrgs } from '../../adapters/store/tenancy/tenancy.ts';
import { isoMillis } from '../../../schemas/secret.ts';
import { Fault } from '../../domain/fault.ts';
import type { Actor, FlowContext } from '../context.ts';
import { hashToken, notVisible } from './access.ts';
import { newToken } from './bootstrap.ts';
import type { WhoInput } from './members.ts';

export interface NewToken {
  readonly name: string;
  /** ISO 8601 with a zone. */
  readonly expiresAt?: string | null | undefined;
}
export type MadeToken = TokenRow & { readonly token: string };

/** What the token that a call came with allows. */
export interface CallerToken {
  readonly tokenOrgId: string | null;
  readonly tokenExpiresAt: Date | null;
}

/** One for the caller itself, which opens no more than the token that it called with. */
export async function createOwnToken(
  ctx: FlowContext,
  actor: Actor,
  caller: CallerToken,
  given: NewToken,
): Promise<MadeToken> {
  return make(ctx, actor, caller, { orgId: caller.tokenOrgId, principalId: actor.id ?? '', given });
}

/**
 * One for a member or service account of an organization, by its administrator. It opens that organization alone,
 * whatever others the person belongs to or joins later.
 */
export async function createOrgToken(
  ctx: FlowContext,
  actor: Actor,
  caller: CallerToken,
  wanted: { readonly orgId: string; readonly who: WhoInput; readonly given: NewToken },
): Promise<MadeToken> {
  const { orgId, who, given } = wanted;
  const isKnown = who.principalId === undefined || isUuid(who.principalId);
  const principal = isKnown
    ? await findOrgPrincipal(ctx.db, orgId, {
        ...(who.principalId !== undefined && { id: who.principalId }),
        ...(who.email !== undefined && { email: who.email }),
        ...(who.serviceAccount !== undefined && { account: who.serviceAccount }),
      })
    : undefined;
  if (principal === undefined) {
    throw new Fault(
      'unprocessable',
      'unknown-principal',
      'The organization has no member or service account of that name.',
    );
  }
  return make(ctx, actor, caller, { orgId, principalId: principal.id, given });
}

async function make(
  ctx: FlowContext,
  actor: Actor,
  caller: CallerToken,
  wanted: { readonly orgId: string | null; readonly principalId: string; readonly given: NewToken },
): Promise<MadeToken> {
  const { orgId, principalId, given } = wanted;
  const expiresAt = expiryOf(given, caller, ctx.runtime.now());
  const token = newToken(ctx.runtime);
  return ctx.db.tx(async (tx) => {
    const row = await insertToken(tx, { principalId, orgId, sha256: hashToken(token), name: given.name, expiresAt });
    await audit(tx, actor, 'token.created', row);
    return { ...row, token };
  });
}

/** A token that expires makes none that outlives it: what is not said is its own expiry, what is later is refused. */
function expiryOf(given: NewToken, caller: CallerToken, now: Date): Date | null {
  const atMs = isoMillis(given.expiresAt ?? '');
  if (atMs === undefined) return caller.tokenExpiresAt;
  const expiresAt = new Date(atMs);
  if (!(expiresAt > now)) throw new Fault('invalid', 'invalid-expiry', 'expiresAt must lie in the future.');
  if (caller.tokenExpiresAt !== null && expiresAt > caller.tokenExpiresAt) {
    throw new Fault(
      'forbidden',
      'outlives-token',
      `The token of this call expires at ${caller.tokenExpiresAt.toISOString()}; what it makes must not outlive it.`,
    );
  }
  return expiresAt;
}

/**
 * Valid no more from the answer on, in every daemon: tokens are looked up at each call. An organization does not revoke
 * what a person uses in another one too; removing the member closes it here.
 */
export async function dropToken(ctx: FlowContext, actor: Actor, scope: TokenScope, tokenId: string): Promise<void> {
  await ctx.db.tx(async (tx) => {
    const row = await revocableToken(tx, actor, scope, tokenId);
    await revokeToken(tx, tokenId, ctx.runtime.now());
    await audit(tx, actor, 'token.revoked', row);
  });
}

/** A token that the caller may revoke in this scope. Throws the faults of `dropToken`. */
export async function revocableToken(sql: Sql, actor: Actor, scope: TokenScope, tokenId: string): Promise<TokenRow> {
  if (!isUuid(tokenId)) throw notVisible();
  const row = await getToken(sql, scope, tokenId);
  if (row === undefined) throw notVisible();
  const isShared = 'orgId' in scope && row.orgId === null && row.principalId !== actor.id;
  if (isShared && (await belongsElsewhere(sql, row.principalId, scope.orgId))) {
    throw new Fault(
      'forbidden',
      'belongs-elsewhere',
      'This token opens other organizations of this person as well; remove the member to close this one.',
    );
  }
  return row;
}

/** Each organization that the token opens has the entry. */
async function audit(tx: Sql, actor: Actor, action: AuditAction, token: TokenRow): Promise<void> {
  const orgs = await listOrgs(tx, token.principalId, { limit: 200, only: token.orgId });
  for (const { id } of orgs) {
    await recordAudit(tx, {
      orgId: id,
      projectId: null,
      principal: actor,
      action,
      subject: { kind: 'token', name: token.name },
      detail: { tokenId: token.id, of: token.principalName },
    });
  }
}
