// Groups between two sign-ins: where the provider gave a refresh token, what groups give is recomputed by the hour. A token
// is sent once; a refusal ends the browsers that the provider vouched for, and an outcome that nobody knows drops the
// token, so that the next sign-in says again who the person is.

import { refreshedGroups, type Refreshed, SigninRefused } from '../../adapters/providers/oauth/oauth.ts';
import {
  claimRefreshDue,
  dropLostRefreshes,
  type DueIdentity,
  endProviderSessions,
  groupRolesText,
  lockSentRefresh,
  putOffRefresh,
  setRefreshToken,
} from '../../adapters/store/signin/refreshes.ts';
import { setGroupRoles } from '../../adapters/store/signin/identities.ts';
import { firstOrgId } from '../../adapters/store/secrets/keys.ts';
import { insertToken, tokenById } from '../../adapters/store/secrets/oauth-tokens.ts';
import { orgsOf } from '../../adapters/store/signin/web-sessions.ts';
import type { Sql } from '../../adapters/store/store.ts';
import { failpoint } from '../../base/failpoint.ts';
import { type Actor, type FlowContext, sealingOf } from '../context.ts';
import { persist } from '../persist.ts';
import { countSealed } from '../secrets/secrets.ts';
import { clientSecretOf, groupRoles, methodNamed } from './methods.ts';
import { auditIn } from './web-session.ts';

const hourMs = 60 * 60 * 1_000;
/** A provider that could not be asked is asked again after this. */
const laterMs = 5 * 60 * 1_000;
/** A refresh that was sent so long ago is nobody's any more. */
const lostMs = 5 * 60 * 1_000;

interface Who {
  readonly issuer: string;
  readonly subject: string;
}
const bindingOf = (orgId: string, { issuer, subject }: Who) => ({
  orgId,
  name: `signin:${issuer} ${subject}`,
  use: 'oauth-token' as const,
});

/** Inside a transaction: keeps what the provider gave with a sign-in or a refresh, in the place of what was there; the hour begins `at`. */
export async function keepRefreshToken(
  ctx: FlowContext,
  tx: Sql,
  of: Who & { readonly method: string },
  refreshToken: string | undefined,
  at: Date = ctx.runtime.now(),
): Promise<void> {
  const orgId = await firstOrgId(tx);
  if (refreshToken === undefined || orgId === null)
    return setRefreshToken(tx, of, { method: of.method, tokenId: null, at });
  const id = ctx.runtime.uuid();
  const binding = bindingOf(orgId, of);
  const plaintext = Buffer.from(refreshToken, 'utf8');
  try {
    const sealed = sealingOf(ctx).sealer.seal(plaintext, binding);
    await insertToken(tx, { id, orgId, projectId: null, name: binding.name, ...sealed });
    await countSealed(ctx, tx, sealed.keyVersion);
    await setRefreshToken(tx, of, { method: of.method, tokenId: id, at });
  } finally {
    plaintext.fill(0);
  }
}

async function openRefreshToken(ctx: FlowContext, due: DueIdentity): Promise<string | undefined> {
  const row = await tokenById(ctx.db, due.tokenId);
  if (row === undefined) return undefined;
  const plaintext = sealingOf(ctx).sealer.open(row, bindingOf(row.orgId, due));
  try {
    return plaintext.toString('utf8');
  } finally {
    plaintext.fill(0);
  }
}

/** Recomputes the groups of everybody whose hour is over; answers with how many were asked about. */
export async function refreshGroups(ctx: FlowContext, signal?: AbortSignal): Promise<number> {
  const now = ctx.runtime.now().getTime();
  const dropped = await dropLostRefreshes(ctx.db, new Date(now - lostMs));
  if (dropped > 0) ctx.runtime.log.warn({ tokens: dropped }, 'signin.refresh_lost');
  let count = 0;
  /** By provider: it is asked no more in this turn, for of what is sent something may be lost. */
  const failures = new Map<string, unknown>();
  // Each provider is asked about one at a time, and none waits for another: who left a group is to lose what it gave.
  const asking = new Map<string, Promise<void>>();
  for (;;) {
    const at = ctx.runtime.now();
    const claim = { before: new Date(at.getTime() - hourMs), now: at, but: [...asking.keys(), ...failures.keys()] };
    const due = signal?.aborted === true ? undefined : await ctx.db.tx((tx) => claimRefreshDue(tx, claim));
    if (due === undefined) {
      if (asking.size === 0) break;
      await Promise.race(asking.values());
      continue;
    }
    count += 1;
    const one = refreshOne(ctx, due)
      .catch((error: unknown) => void failures.set(due.method, error))
      .finally(() => asking.delete(due.method));
    asking.set(due.method, one);
  }
  for (const [, error] of failures) throw error;
  return count;
}

async function refreshOne(ctx: FlowContext, due: DueIdentity): Promise<void> {
  const method = methodNamed(ctx, due.method);
  const refreshToken = method === undefined ? undefined : await openRefreshToken(ctx, due);
  // The provider is not configured any more, or the token has just been replaced.
  if (method === undefined || refreshToken === undefined) return drop(ctx, due);
  let result: Refreshed;
  try {
    const secret = await clientSecretOf(ctx, method);
    failpoint('signin.refresh-sent');
    result = await refreshedGroups(method, secret, { subject: due.subject, refreshToken });
  } catch (error) {
    if (!(error instanceof SigninRefused)) throw error;
    ctx.runtime.log.warn({ method: due.method, step: error.step }, 'signin.refresh_put_off');
    return persist(() => putOffRefresh(ctx.db.calls, due, soon(ctx)));
  }
  if (result.outcome === 'renewed') {
    const { refreshToken: renewed } = result;
    ctx.runtime.log.warn({ method: due.method }, 'signin.groups_put_off');
    return keep(ctx, due, (tx) => keepRefreshToken(ctx, tx, due, renewed, soon(ctx)));
  }
  if (result.outcome === 'done') return take(ctx, due, result);
  ctx.runtime.log.warn({ method: due.method, outcome: result.outcome }, 'signin.refresh_failed');
  await drop(ctx, due, result.outcome === 'refused');
}

/** An hour's beginning that is over in a few minutes. */
const soon = (ctx: FlowContext): Date => new Date(ctx.runtime.now().getTime() - hourMs + laterMs);

/**
 * Writes what came of a token that was sent, once, and not over what a sign-in since has said. The provider says it once: the
 * database may break off meanwhile.
 */
const keep = (ctx: FlowContext, due: DueIdentity, write: (tx: Sql) => Promise<void>): Promise<void> =>
  persist(() =>
    ctx.db.calls.tx(async (tx) => {
      if (await lockSentRefresh(tx, due)) await write(tx);
    }),
  );

const serviceActor: Actor = { kind: 'system', id: null, name: 'sign-in' };

async function drop(ctx: FlowContext, due: DueIdentity, isRefused = false): Promise<void> {
  const at = ctx.runtime.now();
  await keep(ctx, due, async (tx) => {
    await setRefreshToken(tx, due, { method: due.method, tokenId: null, at });
    if (!isRefused) return;
    const sessions = await endProviderSessions(tx, due.principalId, due.method, at);
    const detail = { method: due.method, principalId: due.principalId, sessions };
    await auditIn(tx, await orgsOf(tx, due.principalId), serviceActor, 'auth.refresh_refused', detail);
  });
}

async function take(
  ctx: FlowContext,
  due: DueIdentity,
  { groups, refreshToken }: Refreshed & { readonly outcome: 'done' },
): Promise<void> {
  await keep(ctx, due, async (tx) => {
    const orgs = await orgsOf(tx, due.principalId);
    const before = await groupRolesText(tx, due.principalId);
    await setGroupRoles(tx, due.principalId, groupRoles(ctx, groups));
    await keepRefreshToken(ctx, tx, due, refreshToken);
    if (before === (await groupRolesText(tx, due.principalId))) return;
    const all = [...new Set([...orgs, ...(await orgsOf(tx, due.principalId))])];
    const detail = { method: due.method, principalId: due.principalId, person: due.name };
    await auditIn(tx, all, serviceActor, 'auth.roles_changed', detail);
  });
}
