// Consent of a person (docs/reference/connections.md): an attempt is begun, and is over after 15 minutes, by its callback
// or by a cancel. The order of a callback is the safety: the state, the person, whether the attempt still waits, the
// server that answered, the claim of the code, the one exchange, and all that it gives in one transaction.

import { sha256Bytes } from '../../base/hash.ts';
import {
  consentUrl,
  exchange,
  OauthFailure,
  readCallback,
  type Returned,
  type Server,
  type Tokens,
} from '../../adapters/providers/authorization/authorization.ts';
import {
  claimOauthCode,
  endOauthAttempts,
  forgetOauthClient,
  insertOauthAttempt,
  lapsedExchanges,
  type OauthAttemptRow,
  oauthAttemptById,
  oauthAttemptByState,
  stepOauthAttempt,
} from '../../adapters/store/connections/oauth-attempts.ts';
import { lockOauthGrant, oauthGrantOf, publishOauthGrant } from '../../adapters/store/connections/oauth-grants.ts';
import { connectionById, type SealedConnection } from '../../adapters/store/secrets/credentials.ts';
import { mayConnect, principalName } from '../../adapters/store/tenancy/connectors.ts';
import { recordAudit } from '../../adapters/store/tenancy/audit.ts';
import type { Sql } from '../../adapters/store/store.ts';
import { failpoint } from '../../base/failpoint.ts';
import { attemptMs, attemptAt, lifeOf, scopesIn, unionOf } from '../../core/consent/consent.ts';
import { Fault } from '../../domain/fault.ts';
import type { JsonObject } from '../../domain/json.ts';
import { changeStatus, serviceActor } from '../connection-status.ts';
import { type Actor, type FlowContext, type ProjectRef } from '../context.ts';
import {
  consentedConnection,
  findTarget,
  identityOf,
  type KnownClient,
  reachOf,
  redirectUri,
  type Target,
} from './oauth-clients.ts';
import { keepSealed, openSealed } from './sealed-tokens.ts';
import { persist } from '../persist.ts';
import { tokenBinding } from './oauth-tokens.ts';

/** Longer than an exchange may take. */
const exchangeSeconds = 30;

const noAttempt = (): Fault =>
  new Fault('not_found', 'not-found', 'There is no such attempt, or it is not visible to you.');
const verifierBinding = (row: Pick<OauthAttemptRow, 'orgId' | 'projectId' | 'id'>) => ({
  orgId: row.orgId,
  projectId: row.projectId,
  name: `oauth-verifier:${row.id}`,
});
const serverOf = (row: { readonly server: JsonObject }): Server => row.server as unknown as Server;
const clientOf = (row: { readonly client: JsonObject }): KnownClient => row.client as unknown as KnownClient;

export interface Consenting {
  readonly id: string;
  readonly kind: 'user' | 'service_account';
  readonly actor: Actor;
}

/**
 * Begins an attempt. Throws Fault `forbidden` for whoever is no person, `not_found`, and `unprocessable` with the code
 * `discovery-failed`, `pkce-missing`, `issuer-mismatch` or `client-needed`.
 */
export async function beginConsent(
  ctx: FlowContext,
  project: ProjectRef,
  person: Consenting,
  input: { readonly name: string; readonly scopes?: readonly string[] | undefined },
): Promise<{ readonly attempt: OauthAttemptRow; readonly authorizationUrl: string }> {
  const connection = await consentedConnection(ctx, project.id, input.name);
  if (person.kind !== 'user') {
    throw new Fault('forbidden', 'person-needed', 'Consent is given by a person, not by a service account.');
  }
  const target = await targetOf(ctx, connection);
  const grant = await oauthGrantOf(ctx.db, connection.id);
  const wanted = grant?.wantedScopes ?? [];
  const scopes = unionOf(input.scopes ?? target.scopes, wanted);
  const random = (): string => Buffer.from(ctx.runtime.randomBytes(32)).toString('base64url');
  const [state, verifier] = [random(), random()];
  const now = ctx.runtime.now();
  const id = ctx.runtime.uuid();
  const place = { id, orgId: project.orgId, projectId: project.id };
  await ctx.db.tx(async (tx) => {
    await endOauthAttempts(tx, connection.id, now);
    const tokenId = await keepSealed(ctx, tx, verifierBinding(place), verifier);
    await insertOauthAttempt(tx, {
      ...place,
      connectionId: connection.id,
      userId: person.id,
      stateHash: sha256Bytes(state),
      tokenId,
      server: { ...target.server } as unknown as JsonObject,
      client: { ...target.client },
      resource: target.resource,
      scopes,
      redirectUri: redirectUri(ctx),
      expiresAt: new Date(now.getTime() + attemptMs),
      now,
    });
    await note(tx, { actor: person.actor, connection, what: 'consent_begun', detail: { attemptId: id } });
  });
  const attempt = await oauthAttemptById(ctx.db, connection.id, id);
  if (attempt === undefined) throw noAttempt();
  const consent = { redirectUri: attempt.redirectUri, state, verifier, scopes, resource: target.resource };
  return { attempt, authorizationUrl: await consentUrl(target.server, target.client, consent) };
}

async function targetOf(ctx: FlowContext, connection: SealedConnection): Promise<Target> {
  try {
    return await findTarget(ctx, connection);
  } catch (error) {
    if (!(error instanceof OauthFailure)) throw error;
    const codes = ['discovery-failed', 'pkce-missing', 'issuer-mismatch', 'client-needed'];
    const code = codes.includes(error.word) ? error.word : 'discovery-failed';
    throw new Fault('unprocessable', code, `Connection ${connection.name}: ${error.message}.`);
  }
}

function note(
  tx: Sql,
  at: {
    readonly actor: Actor;
    readonly connection: SealedConnection;
    readonly what: 'consent_begun' | 'consent_cancelled' | 'consent_renewed';
    readonly detail: JsonObject;
  },
): Promise<void> {
  const { connection, detail } = at;
  return recordAudit(tx, {
    orgId: connection.orgId,
    projectId: connection.projectId,
    principal: at.actor,
    action: `connection.${at.what}`,
    subject: { kind: 'Connection', name: connection.name },
    detail: { provider: connection.provider, connectionId: connection.id, ...detail },
  });
}

/** An attempt as it stands now. Throws Fault `not_found`. */
export async function readConsent(
  ctx: FlowContext,
  project: ProjectRef,
  at: { readonly name: string; readonly id: string },
): Promise<OauthAttemptRow> {
  const connection = await consentedConnection(ctx, project.id, at.name);
  const row = await oauthAttemptById(ctx.db, connection.id, at.id);
  if (row === undefined) throw noAttempt();
  return current(ctx, row);
}

/** What is over by the clock is written down as over. */
async function current(ctx: FlowContext, row: OauthAttemptRow): Promise<OauthAttemptRow> {
  const now = ctx.runtime.now();
  const state = attemptAt(row, now);
  if (state === row.state) return row;
  if (state === 'uncertain') await parkExchanges(ctx, row.connectionId);
  else await ctx.db.tx((tx) => stepOauthAttempt(tx, row.id, { taken: 'expire', from: row.state, now }));
  return (await oauthAttemptById(ctx.db, row.connectionId, row.id)) ?? row;
}

/** Cancels an attempt that waits for its person. Throws Fault `conflict` for one that does not. */
export async function cancelConsent(
  ctx: FlowContext,
  project: ProjectRef,
  actor: Actor,
  at: { readonly name: string; readonly id: string },
): Promise<OauthAttemptRow> {
  const connection = await consentedConnection(ctx, project.id, at.name);
  const row = await readConsent(ctx, project, at);
  const isDone = await ctx.db.tx(async (tx) => {
    const done = await stepOauthAttempt(tx, row.id, { taken: 'cancel', from: row.state, now: ctx.runtime.now() });
    if (done) await note(tx, { actor, connection, what: 'consent_cancelled', detail: { attemptId: row.id } });
    return done;
  });
  if (isDone) return { ...row, state: 'cancelled' };
  const after = (await oauthAttemptById(ctx.db, connection.id, row.id)) ?? row;
  throw new Fault('conflict', 'wrong-state', `The attempt is ${after.state}.`);
}

/** Where a browser is sent on; never anything of what it brought. */
export type Arrival =
  | { readonly kind: 'error' }
  | {
      readonly kind: 'done' | 'pending';
      readonly orgSlug: string;
      readonly projectSlug: string;
      readonly provider: string;
      readonly attemptId: string;
    };

const statePattern = /^[A-Za-z0-9_-]{43}$/;
const failed: Arrival = { kind: 'error' };

/**
 * Takes a browser back. `sender`: the principal whose credential came along, undefined where none did, null where it is
 * nobody's. Every refusal looks alike.
 */
export async function takeConsent(
  ctx: FlowContext,
  parameters: URLSearchParams,
  sender: string | null | undefined,
): Promise<Arrival> {
  const states = parameters.getAll('state');
  const [state = ''] = states;
  if (states.length !== 1 || !statePattern.test(state)) return failed;
  const found = await oauthAttemptByState(ctx.db, sha256Bytes(state));
  if (found === undefined || (sender !== undefined && sender !== found.userId)) return failed;
  const row = await current(ctx, found);
  const connection = await connectionById(ctx.db, row.connectionId);
  if (connection === undefined) return failed;
  const { orgSlug, projectSlug } = row;
  const at = { orgSlug, projectSlug, provider: connection.provider, attemptId: row.id };
  if (row.state === 'exchanging') return { kind: 'pending', ...at };
  if (row.state !== 'awaiting_authorization') return failed;
  if (!(await mayConnect(ctx.db, row))) return refuse(ctx, row, 'forbidden');
  let returned: Returned;
  try {
    returned = readCallback(serverOf(row), clientOf(row), parameters, state);
  } catch (error) {
    if (!(error instanceof OauthFailure)) throw error;
    return refuse(ctx, row, error.word === 'issuer-mismatch' ? error.word : (error.detail ?? error.word));
  }
  const claimed = await claim(ctx, row, parameters.get('code') ?? '');
  if (claimed !== true) return claimed === 'taken' ? refuse(ctx, row, 'code-reused') : { kind: 'pending', ...at };
  failpoint('oauth.code-claimed');
  return (await exchanged(ctx, row, connection, returned)) ? { kind: 'done', ...at } : failed;
}

async function refuse(ctx: FlowContext, row: OauthAttemptRow, reason: string): Promise<Arrival> {
  await ctx.db.tx((tx) =>
    stepOauthAttempt(tx, row.id, { taken: 'refused', from: row.state, now: ctx.runtime.now(), reason }),
  );
  ctx.runtime.log.warn({ attemptId: row.id, connectionId: row.connectionId, reason }, 'oauth.consent_refused');
  return failed;
}

class CodeTaken extends Error {}

/** True: this call exchanges. `taken`: the code was claimed for another attempt; `late`: another call has this one. */
async function claim(ctx: FlowContext, row: OauthAttemptRow, code: string): Promise<true | 'taken' | 'late'> {
  const now = ctx.runtime.now();
  try {
    return await ctx.db.tx(async (tx) => {
      const step = { taken: 'claim', from: row.state, now, exchangeSeconds } as const;
      if (!(await stepOauthAttempt(tx, row.id, step))) return 'late';
      if (!(await claimOauthCode(tx, sha256Bytes(code), row.id, now))) throw new CodeTaken();
      return true;
    });
  } catch (error) {
    if (error instanceof CodeTaken) return 'taken';
    throw error;
  }
}

async function exchanged(
  ctx: FlowContext,
  row: OauthAttemptRow,
  connection: SealedConnection,
  returned: Returned,
): Promise<boolean> {
  const server = serverOf(row);
  try {
    const identity = await identityOf(ctx, connection, { server, client: clientOf(row) });
    const verifier = await openSealed(ctx, verifierBinding(row), row.tokenId);
    if (verifier === undefined) throw new OauthFailure('refused', 'the verifier is gone', 'verifier_gone');
    const { resource } = row;
    const by = { redirectUri: row.redirectUri, verifier, resource };
    const tokens = await exchange(reachOf(ctx), { server, identity, returned }, by);
    failpoint('oauth.exchanged');
    await publish(ctx, row, connection, tokens);
    return true;
  } catch (error) {
    if (error instanceof Fault) await end(ctx, row, { taken: 'refused', reason: error.code });
    else if (!(error instanceof OauthFailure)) throw error;
    else if (error.word === 'unknown') await end(ctx, row, { taken: 'unknown', reason: 'no-answer' });
    else await end(ctx, row, { taken: 'refused', reason: error.detail ?? 'unreachable' });
    return false;
  }
}

async function end(
  ctx: FlowContext,
  row: OauthAttemptRow,
  how: { readonly taken: 'refused' | 'unknown'; readonly reason: string },
): Promise<void> {
  const now = ctx.runtime.now();
  await ctx.db.tx(async (tx) => {
    if (!(await stepOauthAttempt(tx, row.id, { ...how, from: 'exchanging', now }))) return;
    const connection = await connectionById(tx, row.connectionId);
    if (how.taken === 'unknown' && connection !== undefined) await parkNew(ctx, tx, connection);
    // A client that its server does not know any more is registered anew by the next attempt.
    if (how.reason === 'invalid_client') {
      await forgetOauthClient(tx, row.orgId, serverOf(row).issuer, clientOf(row).id);
    }
  });
  ctx.runtime.log.warn(
    { attemptId: row.id, connectionId: row.connectionId, reason: how.reason },
    'oauth.exchange_failed',
  );
}

/** A connection without a grant of its own is as uncertain as the exchange that should have given it one. */
async function parkNew(ctx: FlowContext, tx: Sql, connection: SealedConnection): Promise<void> {
  await changeStatus(ctx, tx, {
    connection,
    to: 'uncertain',
    reason: 'exchange-outcome-unknown',
    from: ['authorization_required'],
    actor: serviceActor('oauth'),
  });
}

/** Exchanges whose owner is gone are uncertain: of one connection, or of all. */
export async function parkExchanges(ctx: FlowContext, connectionId: string | null): Promise<void> {
  for (const lapsed of await lapsedExchanges(ctx.db, connectionId)) {
    await ctx.db.tx(async (tx) => {
      const now = ctx.runtime.now();
      const step = { taken: 'unknown', from: 'exchanging', reason: 'no-answer', now } as const;
      if (!(await stepOauthAttempt(tx, lapsed.id, step))) return;
      const connection = await connectionById(tx, lapsed.connectionId);
      if (connection !== undefined) await parkNew(ctx, tx, connection);
    });
  }
}

async function publish(
  ctx: FlowContext,
  row: OauthAttemptRow,
  connection: SealedConnection,
  tokens: Tokens,
): Promise<void> {
  const now = ctx.runtime.now();
  const write = async (tx: Sql): Promise<boolean> => {
    if (!(await stepOauthAttempt(tx, row.id, { taken: 'published', from: 'exchanging', now }))) return false;
    const before = await lockOauthGrant(tx, row.connectionId);
    const generation = (before?.generation ?? 0) + 1;
    const binding = tokenBinding({ ...row, generation });
    const { accessToken, refreshToken } = tokens;
    const tokenId = await keepSealed(ctx, tx, binding, JSON.stringify({ accessToken, refreshToken }));
    const isStepUp = (before?.wantedScopes ?? []).length > 0;
    await publishOauthGrant(tx, {
      connectionId: row.connectionId,
      orgId: row.orgId,
      projectId: row.projectId,
      tokenId,
      generation,
      server: row.server,
      client: row.client,
      resource: row.resource,
      scopes: tokens.scope === undefined ? row.scopes : scopesIn(tokens.scope),
      scopeRounds: isStepUp ? (before?.scopeRounds ?? 0) + 1 : 0,
      ...lifeOf(tokens.expiresInSeconds, now),
      now,
    });
    const actor: Actor = { kind: 'user', id: row.userId, name: (await principalName(tx, row.userId)) ?? 'somebody' };
    const changed = await changeStatus(ctx, tx, { connection, to: 'active', actor });
    if (changed === undefined) {
      await note(tx, { actor, connection, what: 'consent_renewed', detail: { attemptId: row.id } });
    }
    return true;
  };
  // The server gives it once, and the code is spent.
  const isMine = await persist(() => ctx.db.tx(write));
  // It may have been kept and not answered.
  if (!isMine && (await oauthAttemptById(ctx.db, row.connectionId, row.id))?.state !== 'completed') {
    throw new Fault('conflict', 'wrong-state', 'The attempt is over.');
  }
  ctx.runtime.log.info({ attemptId: row.id, connectionId: row.connectionId }, 'oauth.consented');
}
