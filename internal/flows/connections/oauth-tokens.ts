// The token of a connection by consent: opened when it is used, replaced at four fifths of its life by one owner at a time
// over all daemons. What was sent without an answer is uncertain, and is never sent again.

import { setTimeout as sleep } from 'node:timers/promises';
import {
  OauthFailure,
  refresh,
  revoke,
  type Server,
  type Tokens,
} from '../../adapters/providers/authorization/authorization.ts';
import {
  claimOauthRefresh,
  endOauthGrant,
  endOauthRefresh,
  markOauthSent,
  type OauthGrantRow,
  oauthGrantOf,
  parkOauthRefreshes,
  type RefreshEnd,
  wantOauthScopes,
} from '../../adapters/store/connections/oauth-grants.ts';
import { connectionById, type SealedConnection } from '../../adapters/store/secrets/credentials.ts';
import { failpoint } from '../../base/failpoint.ts';
import { lifeOf, scopesIn, stepUp } from '../../core/consent/consent.ts';
import { forgetOauthClient } from '../../adapters/store/connections/oauth-attempts.ts';
import { dropToken } from '../../adapters/store/secrets/oauth-tokens.ts';
import type { Sql } from '../../adapters/store/store.ts';
import type { ConnectionStatus } from '../../domain/connection.ts';
import { Fault } from '../../domain/fault.ts';
import { outsideFault } from '../../domain/outside.ts';
import { changeStatus, serviceActor } from '../connection-status.ts';
import type { FlowContext } from '../context.ts';
import { persist } from '../persist.ts';
import { identityOf, type KnownClient, reachOf } from './oauth-clients.ts';
import { keepSealed, openSealed } from './sealed-tokens.ts';

/** Longer than a refresh may take. */
const leaseSeconds = 30;
const wait = { mostMs: 10_000, lookMs: 100 } as const;

/** Bound into the seal: the organization, the project, the connection and the generation. */
export const tokenBinding = (at: {
  readonly orgId: string;
  readonly projectId: string;
  readonly connectionId: string;
  readonly generation: number;
}) => ({ orgId: at.orgId, projectId: at.projectId, name: `oauth:${at.connectionId}#${at.generation}` });

interface Pair {
  readonly accessToken: string;
  readonly refreshToken?: string | undefined;
}
export interface HeldToken {
  readonly accessToken: string;
  readonly generation: number;
}

export const authorizationRequired = (name: string): Fault =>
  outsideFault('authorization-required', `connection ${name}`);
const scopeRequired = (name: string): Fault => outsideFault('scope-required', `connection ${name}`);

async function openPair(ctx: FlowContext, grant: OauthGrantRow, sql: Sql = ctx.db): Promise<Pair | undefined> {
  const text = await openSealed(ctx, tokenBinding(grant), grant.tokenId, sql);
  return text === undefined ? undefined : (JSON.parse(text) as Pair);
}

/** The grant of a connection, what lapsed parked. */
async function grantNow(ctx: FlowContext, connection: SealedConnection): Promise<OauthGrantRow | undefined> {
  const grant = await oauthGrantOf(ctx.db, connection.id);
  if (grant?.status !== 'refreshing' || !(await parkRefreshes(ctx, connection.id))) return grant;
  return oauthGrantOf(ctx.db, connection.id);
}

/** Refreshes whose owner is gone after it had sent are uncertain: of one connection, or of all. Whether there was one. */
export async function parkRefreshes(ctx: FlowContext, connectionId: string | null): Promise<boolean> {
  return ctx.db.tx(async (tx) => {
    const parked = await parkOauthRefreshes(tx, connectionId);
    for (const id of parked) {
      const connection = await connectionById(tx, id);
      if (connection === undefined) continue;
      await changeStatus(ctx, tx, {
        connection,
        to: 'uncertain',
        reason: 'refresh-outcome-unknown',
        actor: serviceActor('oauth'),
      });
    }
    return parked.length > 0;
  });
}

/**
 * A token that may be used now; with `refused`, one of a later generation. Throws Fault `authorization-required`,
 * `provider-unavailable` where a refresh takes too long or its server cannot be reached.
 */
export async function connectionToken(
  ctx: FlowContext,
  connection: SealedConnection,
  refused?: number,
): Promise<HeldToken> {
  const until = performance.now() + wait.mostMs;
  for (;;) {
    const grant = await grantNow(ctx, connection);
    if (grant === undefined || grant.status === 'uncertain' || grant.status === 'ended') {
      throw authorizationRequired(connection.name);
    }
    const now = ctx.runtime.now();
    const isOver = grant.expiresAt !== null && now >= grant.expiresAt;
    const isDue = grant.refreshAt !== null && now >= grant.refreshAt;
    const isRefused = refused !== undefined && grant.generation <= refused;
    const isBeingReplaced = grant.status === 'refreshing' && !isOver && !isRefused;
    if (!isRefused && (isBeingReplaced || !isDue)) {
      const pair = await openPair(ctx, grant);
      if (pair !== undefined) return { accessToken: pair.accessToken, generation: grant.generation };
      // Replaced between the two reads.
      if ((await oauthGrantOf(ctx.db, connection.id))?.generation === grant.generation) {
        throw authorizationRequired(connection.name);
      }
      continue;
    }
    const held = await replaced(ctx, connection, grant, isOver || isRefused);
    if (held !== undefined) return held;
    if (performance.now() > until) {
      throw outsideFault('provider-unavailable', 'a refresh of the credential is under way; try again');
    }
    await sleep(wait.lookMs);
  }
}

/** Refreshes where this call has the right to; undefined: somebody else has it. `must`: the present token is of no use. */
async function replaced(
  ctx: FlowContext,
  connection: SealedConnection,
  grant: OauthGrantRow,
  must: boolean,
): Promise<HeldToken | undefined> {
  const pair = await openPair(ctx, grant);
  if (pair === undefined) return undefined;
  const present = { accessToken: pair.accessToken, generation: grant.generation };
  const { refreshToken } = pair;
  if (refreshToken === undefined) {
    if (!must) return present;
    await ctx.db.tx(async (tx) => {
      if (!(await endOauthGrant(tx, connection.id, grant.generation))) return;
      await told(ctx, tx, connection, 'authorization_required', 'token-expired');
    });
    throw authorizationRequired(connection.name);
  }
  const owner = ctx.runtime.uuid();
  const { generation } = grant;
  const claim = { connectionId: connection.id, generation, owner, seconds: leaseSeconds };
  const isMine = await ctx.db.tx((tx) => claimOauthRefresh(tx, claim));
  if (!isMine) return must ? undefined : present;
  return owned(ctx, { connection, grant, owner, refreshToken, present: must ? undefined : present });
}

type Tx = Parameters<Parameters<FlowContext['db']['tx']>[0]>[0];
const told = (ctx: FlowContext, tx: Tx, connection: SealedConnection, to: ConnectionStatus, reason?: string) =>
  changeStatus(ctx, tx, { connection, to, reason, actor: serviceActor('oauth') });

interface Owned {
  readonly connection: SealedConnection;
  readonly grant: OauthGrantRow;
  readonly owner: string;
  readonly refreshToken: string;
  /** What may be used still. */
  readonly present: HeldToken | undefined;
}

/** Undefined: somebody consented anew while the server was asked, or gave the connection up. */
async function owned(ctx: FlowContext, at: Owned): Promise<HeldToken | undefined> {
  const { connection, grant, owner, refreshToken } = at;
  const server = grant.server as unknown as Server;
  const client = grant.client as unknown as KnownClient;
  let tokens: Tokens;
  try {
    const identity = await identityOf(ctx, connection, { server, client });
    if (!(await ctx.db.tx((tx) => markOauthSent(tx, connection.id, owner)))) {
      throw new OauthFailure('unsent', 'the right to refresh has lapsed');
    }
    failpoint('oauth.refresh-sent');
    tokens = await refresh(reachOf(ctx), { server, identity }, { refreshToken, resource: grant.resource });
    failpoint('oauth.refresh-answered');
  } catch (error) {
    if (!(error instanceof OauthFailure) && !(error instanceof Fault)) throw error;
    return failedRefresh(ctx, at, error);
  }
  const generation = grant.generation + 1;
  const now = ctx.runtime.now();
  // What the server has given is there once, and the one before may be of no use any more. Where it was kept and not answered
  // the right to it is over, and the next look finds it.
  const keep = async (tx: Tx): Promise<boolean> => {
    // A server that gives no new one lets the old one go on.
    const next = { accessToken: tokens.accessToken, refreshToken: tokens.refreshToken ?? refreshToken };
    const binding = tokenBinding({ ...grant, generation });
    const tokenId = await keepSealed(ctx, tx, binding, JSON.stringify(next));
    const scopes = tokens.scope === undefined ? null : scopesIn(tokens.scope);
    const end: RefreshEnd = { status: 'ready', tokenId, scopes, ...lifeOf(tokens.expiresInSeconds, now) };
    if (await endOauthRefresh(tx, { connectionId: connection.id, owner, now }, end)) return true;
    await dropToken(tx, tokenId);
    return false;
  };
  if (!(await persist(() => ctx.db.calls.tx(keep)))) return undefined;
  ctx.runtime.log.info({ connectionId: connection.id, generation }, 'oauth.refreshed');
  return { accessToken: tokens.accessToken, generation };
}

async function failedRefresh(ctx: FlowContext, at: Owned, error: OauthFailure | Fault): Promise<HeldToken | undefined> {
  const { connection, grant, owner, present } = at;
  const client = grant.client as unknown as KnownClient;
  const { issuer } = grant.server as unknown as Server;
  // What the service registered and has no more, nobody can give back to it: the next consent registers anew.
  const isClientGone = error instanceof Fault && error.code === 'credential-refused' && client.kind === 'dynamic';
  const word = isClientGone ? 'refused' : error instanceof OauthFailure ? error.word : 'unsent';
  const status = word === 'unsent' ? 'ready' : word === 'refused' ? 'ended' : 'uncertain';
  const reason = error instanceof OauthFailure ? (error.detail ?? word) : error.code;
  const now = ctx.runtime.now();
  const isMine = await ctx.db.tx(async (tx) => {
    if (reason === 'invalid_client') await forgetOauthClient(tx, grant.orgId, issuer, client.id);
    if (!(await endOauthRefresh(tx, { connectionId: connection.id, owner, now }, { status }))) return false;
    if (status === 'ended') await told(ctx, tx, connection, 'authorization_required', reason);
    if (status === 'uncertain') await told(ctx, tx, connection, 'uncertain', 'refresh-outcome-unknown');
    return true;
  });
  ctx.runtime.log.warn({ connectionId: connection.id, reason, status }, 'oauth.refresh_failed');
  if (!isMine) return undefined;
  if (status !== 'ready') throw authorizationRequired(connection.name);
  if (present !== undefined) return present;
  if (error instanceof Fault) throw error;
  throw outsideFault('provider-unavailable', 'the authorization server cannot be reached; nothing was done');
}

/**
 * A server wants further scopes: notes their union, and that a person has to consent to them. The Fault that the call ends
 * with; undefined where another consent would change nothing, or there were enough of them.
 */
export async function scopeChallenged(
  ctx: FlowContext,
  connection: SealedConnection,
  generation: number,
  challenged: readonly string[],
): Promise<Fault | undefined> {
  const grant = await oauthGrantOf(ctx.db, connection.id);
  if (grant === undefined) return authorizationRequired(connection.name);
  const rounds = grant.scopeRounds;
  const union = stepUp({ scopes: grant.scopes, wanted: grant.wantedScopes, rounds }, challenged);
  if (union === null) return undefined;
  await ctx.db.tx(async (tx) => {
    if (!(await wantOauthScopes(tx, connection.id, generation, union))) return;
    await told(ctx, tx, connection, 'scope_required', 'insufficient-scope');
  });
  return scopeRequired(connection.name);
}

interface Granted {
  readonly grant: OauthGrantRow;
  readonly pair: Pair;
}

/** What a connection was given, in the transaction that destroys it; undefined where there is nothing. */
export async function grantedTokens(ctx: FlowContext, tx: Sql, connectionId: string): Promise<Granted | undefined> {
  const grant = await oauthGrantOf(tx, connectionId);
  const pair = grant === undefined ? undefined : await openPair(ctx, grant, tx);
  return grant === undefined || pair === undefined ? undefined : { grant, pair };
}

/** Asks the server to forget what it gave: best effort, once the tokens are destroyed here. */
export async function revokeTokens(
  ctx: FlowContext,
  connection: SealedConnection,
  { grant, pair }: Granted,
): Promise<boolean> {
  const server = grant.server as unknown as Server;
  try {
    const identity = await identityOf(ctx, connection, { server, client: grant.client as unknown as KnownClient });
    return await revoke(reachOf(ctx), { server, identity }, pair.refreshToken ?? pair.accessToken);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return false;
  }
}
