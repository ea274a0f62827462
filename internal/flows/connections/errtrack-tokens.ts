// The tokens of an installation: sealed when they are given, opened when they are used, and refreshed by one owner at a
// time over all daemons. What is sent without an answer is uncertain, and stays so until an operator has looked.

import { type ErrtrackSettings, ProviderFailure, refreshTokens } from '../../adapters/providers/errtrack/errtrack.ts';
import {
  claimRefresh,
  endRefresh,
  grantById,
  type GrantRow,
  markSent,
  parkLapsedRefreshes,
  oldestProject,
} from '../../adapters/store/connections/errtrack-grants.ts';
import type { Sql } from '../../adapters/store/store.ts';
import { failpoint } from '../../base/failpoint.ts';
import { Fault } from '../../domain/fault.ts';
import { limitSeconds, rateLimited } from '../../domain/outside.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FlowContext } from '../context.ts';
import { errtrackApplication, errtrackSecret } from '../errtrack-application.ts';
import { persist } from '../persist.ts';
import { keepSealed, openSealed } from './sealed-tokens.ts';

interface Pair {
  readonly token: string;
  readonly refreshToken: string;
}

interface Generation {
  readonly orgId: string;
  readonly installationId: string;
  readonly generation: number;
}
const bindingOf = ({ orgId, installationId, generation }: Generation) => ({
  orgId,
  projectId: null,
  name: `errtrack:${installationId}#${generation}`,
});

/** Seals a pair as one generation; the id of its row. */
export const keepTokens = (ctx: FlowContext, tx: Sql, at: Generation, { token, refreshToken }: Pair): Promise<string> =>
  keepSealed(ctx, tx, bindingOf(at), JSON.stringify({ token, refreshToken }));

/** Opens a generation. Throws Fault `unavailable` where it is gone. */
export async function openTokens(
  ctx: FlowContext,
  at: Generation & { readonly tokenId: string | null },
): Promise<Pair> {
  const text = await openSealed(ctx, bindingOf(at), at.tokenId);
  if (text === undefined) throw unavailable();
  return JSON.parse(text) as Pair;
}

const unavailable = (): Fault =>
  new Fault(
    'unavailable',
    'authorization-required',
    'The credential of the error tracker is not usable: connect the error tracker again, or ask an operator to look at it (svc doctor).',
  );

/** `seconds`: as the provider names them. */
export const errtrackLimited = (seconds: number | undefined): Fault =>
  rateLimited('the error tracker limits these calls', limitSeconds(seconds));

/** So long before its end a token is replaced. */
const marginMs = 30 * 60_000;
const leaseSeconds = 90;
const waitMs = 10_000;
const pollMs = 200;

/** A usable access token, refreshed where it is about to end. Throws Fault `unavailable`. */
export async function accessToken(
  ctx: FlowContext,
  grant: GrantRow,
): Promise<{ readonly token: string; readonly generation: number }> {
  const left = grant.tokenExpiresAt.getTime() - ctx.runtime.now().getTime();
  const usable = grant.status === 'ready' || (grant.status === 'refreshing' && left > 0);
  const present = async () => ({ ...(await openTokens(ctx, grant)), generation: grant.generation });
  if (usable && left > marginMs) return present();
  try {
    return await refreshed(ctx, grant, grant.generation);
  } catch (error) {
    // What did nothing there leaves what there is.
    const isAsBefore = error instanceof Fault && ['rate-limited', 'credential-refused'].includes(error.code);
    if (!isAsBefore || left <= 0) throw error;
    return present();
  }
}

/** A token of a later generation than `generation`: by a refresh of this daemon, or of whoever has the right to it. */
export async function refreshed(
  ctx: FlowContext,
  grant: GrantRow,
  generation: number,
): Promise<{ readonly token: string; readonly generation: number }> {
  const until = performance.now() + waitMs;
  for (;;) {
    await ctx.db.tx((tx) => parkLapsedRefreshes(tx));
    const now = await grantById(ctx.db, grant.id);
    if (now === undefined || now.status === 'uncertain' || now.status === 'revoked' || now.status === 'removed')
      throw unavailable();
    if (now.generation > generation) return { ...(await openTokens(ctx, now)), generation: now.generation };
    const owner = ctx.runtime.uuid();
    const mine = await ctx.db.tx((tx) =>
      claimRefresh(tx, { grantId: grant.id, generation, owner, seconds: leaseSeconds }),
    );
    if (mine) return refresh(ctx, now, owner);
    if (performance.now() > until)
      throw new Fault('unavailable', 'provider-unavailable', 'A refresh of the credential is under way; try again.');
    await sleep(pollMs);
  }
}

async function refresh(
  ctx: FlowContext,
  grant: GrantRow,
  owner: string,
): Promise<{ readonly token: string; readonly generation: number }> {
  const settings = errtrackApplication(ctx);
  const scope = await oldestProject(ctx.db, grant.orgId);
  if (scope === undefined) throw unavailable();
  const secret = await errtrackSecret(ctx, scope);
  const { refreshToken } = await openTokens(ctx, grant);
  if (!(await ctx.db.tx((tx) => markSent(tx, grant.id, owner)))) throw unavailable();
  failpoint('errtrack.refresh-sent');
  const result = await refreshTokens(settings, secret, { installationId: grant.installationId, refreshToken });
  failpoint('errtrack.refresh-answered');
  const at = { grantId: grant.id, owner, now: ctx.runtime.now() };
  if (result.outcome === 'limited') {
    await ctx.db.tx((tx) => endRefresh(tx, at, { status: 'ready' }));
    throw errtrackLimited(result.seconds);
  }
  if (result.outcome === 'client-refused') {
    await ctx.db.tx((tx) => endRefresh(tx, at, { status: 'ready' }));
    ctx.runtime.log.error({ grant: grant.id }, 'errtrack.client_refused');
    throw new Fault(
      'unavailable',
      'credential-refused',
      'The error tracker does not take the client secret of this installation: an operator has to set it right (providers.errtrack).',
    );
  }
  if (result.outcome !== 'done') {
    const status = result.outcome === 'refused' ? 'revoked' : 'uncertain';
    await ctx.db.tx((tx) => endRefresh(tx, at, { status }));
    ctx.runtime.log.warn({ grant: grant.id, status }, 'errtrack.refresh_failed');
    throw unavailable();
  }
  const generation = grant.generation + 1;
  const keep = async (tx: Sql): Promise<void> => {
    const tokenId = await keepTokens(ctx, tx, { ...grant, generation }, result);
    if (!(await endRefresh(tx, at, { status: 'ready', tokenId, expiresAt: result.expiresAt })))
      throw new RefreshLapsed();
  };
  try {
    // What the provider has given is there once, and the one before is of no use any more.
    await persist(() => ctx.db.calls.tx(keep));
  } catch (error) {
    if (!(error instanceof RefreshLapsed)) throw error;
    // It may have been kept and not answered.
    if ((await grantById(ctx.db, grant.id))?.generation !== generation) throw unavailable();
  }
  return { token: result.token, generation };
}

/** The right to the refresh is over. */
class RefreshLapsed extends Error {}

/**
 * Reads with the grant's token: a refusal of the current one is answered with one refresh and one more try. Throws Fault
 * `unavailable`, or the ProviderFailure of the read.
 */
export async function withAccess<T>(
  ctx: FlowContext,
  grant: GrantRow,
  read: (settings: ErrtrackSettings, token: string) => Promise<T>,
): Promise<T> {
  const settings = errtrackApplication(ctx);
  const { token, generation } = await accessToken(ctx, grant);
  try {
    return await read(settings, token);
  } catch (error) {
    if (!(error instanceof ProviderFailure) || error.word !== 'unauthorized') throw error;
    const next = await refreshed(ctx, grant, generation);
    return read(settings, next.token);
  }
}
