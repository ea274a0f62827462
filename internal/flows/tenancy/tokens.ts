// API tokens: made (shown once), listed, revoked; each change with its audit row.

import { isUuid } from '../../adapters/store/access.ts';
import { recordAudit } from '../../adapters/store/audit.ts';
import {
  belongsElsewhere,
  findOrgPrincipal,
  getToken,
  insertToken,
  revokeToken,
  type TokenRow,
  type TokenScope,
} from '../../adapters/store/principals.ts';
import type { Sql } from '../../adapters/store/db.ts';
import { listOrgs } from '../../adapters/store/tenancy.ts';
import { Fault } from '../../words/fault.ts';
import type { Actor, FlowContext } from '../context.ts';
import { hashToken, notVisible } from './access.ts';
import { newToken } from './bootstrap.ts';
import type { WhoInput } from './members.ts';

export interface NewToken {
  readonly name: string;
  readonly expiresAt?: string | undefined;
}
export type MadeToken = TokenRow & { readonly token: string };

/** One for the caller itself. */
export async function createOwnToken(ctx: FlowContext, actor: Actor, given: NewToken): Promise<MadeToken> {
  return make(ctx, actor, null, actor.id ?? '', given);
}

/**
 * One for a member or service account of an organization, by its administrator. Not for a person who belongs to
 * another organization too: the token would open that one as well.
 */
export async function createOrgToken(
  ctx: FlowContext,
  actor: Actor,
  orgId: string,
  who: WhoInput,
  given: NewToken,
): Promise<MadeToken> {
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
  if (principal.id !== actor.id && principal.kind === 'user' && (await belongsElsewhere(ctx.db, principal.id, orgId))) {
    throw new Fault(
      'forbidden',
      'belongs-elsewhere',
      'This person belongs to another organization as well and has to make a token by itself.',
    );
  }
  return make(ctx, actor, orgId, principal.id, given);
}

async function make(
  ctx: FlowContext,
  actor: Actor,
  orgId: string | null,
  principalId: string,
  given: NewToken,
): Promise<MadeToken> {
  const expiresAt = given.expiresAt === undefined ? null : new Date(given.expiresAt);
  if (expiresAt !== null && expiresAt <= ctx.runtime.now()) {
    throw new Fault('invalid', 'invalid-expiry', 'expiresAt must lie in the future.');
  }
  const token = newToken(ctx.runtime);
  return ctx.db.tx(async (tx) => {
    const row = await insertToken(tx, { principalId, sha256: hashToken(token), name: given.name, expiresAt });
    await audit(tx, actor, orgId, 'token.created', row);
    return { ...row, token };
  });
}

/** Valid no more from the answer on, in every daemon: tokens are looked up at each call. */
export async function dropToken(ctx: FlowContext, actor: Actor, scope: TokenScope, tokenId: string): Promise<void> {
  if (!isUuid(tokenId)) throw notVisible();
  await ctx.db.tx(async (tx) => {
    const row = await getToken(tx, scope, tokenId);
    if (row === undefined) throw notVisible();
    await revokeToken(tx, tokenId, ctx.runtime.now());
    await audit(tx, actor, 'orgId' in scope ? scope.orgId : null, 'token.revoked', row);
  });
}

/** A principal's own token opens every organization that it belongs to, so each of them has the entry. */
async function audit(tx: Sql, actor: Actor, orgId: string | null, action: string, token: TokenRow): Promise<void> {
  const orgIds =
    orgId === null ? (await listOrgs(tx, token.principalId, { limit: 200 })).map((org) => org.id) : [orgId];
  for (const id of orgIds) {
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
