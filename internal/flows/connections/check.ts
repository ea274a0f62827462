// Asks the provider of a connection whether it works, and sets its status to what that says; and replaces credentials. What
// cannot be reached proves nothing about a connection: it is degraded, not lost.

import type { Sealed } from '../../adapters/crypto/crypto.ts';
import { callChat } from '../../adapters/providers/chat/chat.ts';
import { callTracker } from '../../adapters/providers/tracker/tracker.ts';
import { publicApiUrl, readInstallation } from '../../adapters/providers/codehost/codehost.ts';
import { OauthFailure, tryResource } from '../../adapters/providers/authorization/authorization.ts';
import {
  findObserved,
  noteChecked,
  type ObservedConnection,
  setConnectionCredentials,
} from '../../adapters/store/connections/connections.ts';
import { connectionByName, lockConnection, type SealedConnection } from '../../adapters/store/secrets/credentials.ts';
import { recordAudit } from '../../adapters/store/tenancy/audit.ts';
import { mountedRepositories } from '../../adapters/store/connections/installations.ts';
import { dropTokensOf } from '../../adapters/store/outbox/tokens.ts';
import { missingOf, observedAfter, workingStatus } from '../../core/installation/installation.ts';
import { credentials } from '../../../schemas/connection.ts';
import { challengeOf } from '../../core/consent/consent.ts';
import type { ConnectionStatus, Observed } from '../../domain/connection.ts';
import { Fault } from '../../domain/fault.ts';
import { ProviderLimited } from '../../domain/outside.ts';
import { messagesTable } from '../../domain/messages.ts';
import { apiUrlOf, settingText } from '../codehost-mounts.ts';
import { changeStatus } from '../connection-status.ts';
import { type Actor, type FlowContext, type ProjectRef, sealingOf } from '../context.ts';
import { installationToken } from '../installation-token.ts';
import { connectionSecrets } from '../sealed.ts';
import { countSealed } from '../secrets/secrets.ts';
import { isConsented, reachOf } from './oauth-clients.ts';
import { connectionToken, parkRefreshes, scopeChallenged } from './oauth-tokens.ts';
import { parkExchanges } from './oauth-consent.ts';

const absent = (): Fault => new Fault('not_found', 'not-found', messagesTable.notVisible);

/** With its sealed credentials, for calls. Throws Fault `not_found`. */
export async function known(ctx: FlowContext, project: ProjectRef, name: string): Promise<SealedConnection> {
  const found = await connectionByName(ctx.db, project.id, name);
  if (found === undefined) throw absent();
  return found;
}
/** As the API shows it, without credentials. Throws Fault `not_found`. */
export async function shown(ctx: FlowContext, project: ProjectRef, name: string): Promise<ObservedConnection> {
  const found = await findObserved(ctx.db, project.id, name);
  if (found === undefined) throw absent();
  return found;
}

/** What came of asking. */
export interface Verdict {
  /** Absent: the status stays as it is. */
  readonly to?: ConnectionStatus;
  readonly reason?: string | undefined;
  readonly observed?: Observed;
}

/** Where the API of a connection's provider answers, to which its credentials go. */
export function addressOf(ctx: FlowContext, connection: Pick<SealedConnection, 'provider' | 'config'>): string {
  const { chatApiUrl, trackerApiUrl, codehostApiUrl } = ctx.outbox ?? {};
  const others: { readonly [provider: string]: string } = {
    chat: chatApiUrl ?? 'https://slack.com/api',
    tracker: trackerApiUrl ?? 'https://api.linear.app',
  };
  const known = others[connection.provider] ?? codehostApiUrl ?? publicApiUrl;
  return settingText(connection.config['apiUrl']) ?? known;
}

/** Undefined: there was nobody to ask. */
async function verdictOf(ctx: FlowContext, connection: SealedConnection): Promise<Verdict | undefined> {
  const { provider } = connection;
  if (isConsented(ctx, provider)) return (await checkConsented(ctx, connection)) ?? {};
  if (provider === 'codehost') {
    const before = await findObserved(ctx.db, connection.projectId, connection.name);
    return checkInstallation(ctx, connection, before?.observed ?? null);
  }
  const apiUrl = addressOf(ctx, connection);
  const asked = { isWrite: false, allowPrivate: ctx.config.allowPrivateNetwork };
  const { botToken, apiKey } = connectionSecrets(ctx, connection);
  if (provider === 'chat' && typeof botToken === 'string') {
    return checkKey(() => callChat({ ...asked, apiUrl, token: botToken, method: 'auth.test', args: {} }));
  }
  if (provider === 'tracker' && typeof apiKey === 'string') {
    const query = 'query { viewer { id } }';
    return checkKey(() => callTracker({ ...asked, apiUrl, key: apiKey, query, variables: {} }));
  }
  return undefined;
}

/** Asks a provider who the key is. */
async function checkKey(ask: () => Promise<unknown>): Promise<Verdict> {
  try {
    await ask();
    return { to: 'active' };
  } catch (error) {
    // A limit says nothing of the key.
    if (error instanceof ProviderLimited) return {};
    if (!(error instanceof Fault)) throw error;
    return { to: 'degraded', reason: error.code };
  }
}

/** The connection as it is after the check. Throws Fault `not_found`. */
export async function checkConnection(
  ctx: FlowContext,
  project: ProjectRef,
  actor: Actor,
  name: string,
): Promise<ObservedConnection> {
  const connection = await known(ctx, project, name);
  const verdict = await verdictOf(ctx, connection);
  const isOff = connection.status === 'disabled' || connection.status === 'inactive';
  await ctx.db.tx(async (tx) => {
    await recordAudit(tx, {
      orgId: project.orgId,
      projectId: project.id,
      principal: actor,
      action: 'connection.checked',
      subject: { kind: 'Connection', name },
      detail: {
        provider: connection.provider,
        connectionId: connection.id,
        ...(verdict?.to !== undefined && { found: verdict.to }),
      },
    });
    if (verdict !== undefined) await noteChecked(tx, connection.id, ctx.runtime.now(), verdict.observed);
    if (verdict?.to !== undefined && !isOff) {
      const { to, reason } = verdict;
      await changeStatus(ctx, tx, { connection, asked: connection, to, reason, actor });
    }
  });
  return shown(ctx, project, name);
}

/** Undefined: there was nobody to ask. What was known of another installation says nothing of this one: then `before` is null. */
export async function checkInstallation(
  ctx: FlowContext,
  connection: SealedConnection,
  before: Observed | null,
): Promise<Verdict | undefined> {
  const { config } = connection;
  const privateKey = settingText(connectionSecrets(ctx, connection)['privateKey']);
  const [appId, installationId] = [settingText(config['appId']), settingText(config['installationId'])];
  const apiUrl = apiUrlOf(ctx, connection);
  // A connection that only takes deliveries has nobody to ask.
  if (privateKey === undefined || appId === undefined || installationId === undefined) return undefined;
  const { word, observed: seen } = await readInstallation({
    appId,
    installationId,
    privateKey,
    now: ctx.runtime.now(),
    allowPrivate: ctx.config.allowPrivateNetwork,
    ...(apiUrl !== undefined && { apiUrl }),
  });
  // A limit says nothing of the installation.
  if (word === 'limited') return {};
  if (word === 'unavailable') return { to: 'degraded', reason: 'provider-unavailable' };
  if (word !== 'active') return word === 'credential-refused' ? { to: 'degraded', reason: word } : { to: word };
  const known = observedAfter(before, { observed: seen ?? {}, added: [], removed: [] });
  const mounts = await mountedRepositories(ctx.db, connection.projectId);
  const wanted = mounts
    .filter((one) => one.installationId === null || one.installationId === installationId)
    .map((one) => one.repository);
  const back = await backAgain(ctx, connection, missingOf(known, wanted));
  const observed = observedAfter(known, { observed: {}, added: back, removed: [] });
  const { status, reason } = workingStatus(observed, wanted);
  return { to: status, reason, observed };
}

/** Of repositories that were taken away, those that a token is given for now: the delivery that said so was lost. */
async function backAgain(
  ctx: FlowContext,
  connection: SealedConnection,
  missing: readonly string[],
): Promise<string[]> {
  const back: string[] = [];
  for (const repository of missing.slice(0, lookedForMax)) {
    try {
      await installationToken(ctx, { connection, repository, permissions: { metadata: 'read' } });
      back.push(repository);
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
    }
  }
  return back;
}
const lookedForMax = 10;

/** A token that is to be had and taken is all that can be known without doing anything. */
async function checkConsented(ctx: FlowContext, connection: SealedConnection): Promise<Verdict | undefined> {
  await parkExchanges(ctx, connection.id);
  await parkRefreshes(ctx, connection.id);
  try {
    const held = await connectionToken(ctx, connection);
    const url = connection.config['url'];
    if (typeof url !== 'string') return connection.status === 'degraded' ? { to: 'active' } : undefined;
    let answer = await tryResource(reachOf(ctx), url, held.accessToken);
    if (answer.status === 401) {
      const next = await connectionToken(ctx, connection, held.generation);
      answer = await tryResource(reachOf(ctx), url, next.accessToken);
    }
    if (answer.status === 401) return { to: 'authorization_required', reason: 'credential-refused' };
    const challenge = challengeOf(answer.challenge);
    if (answer.status === 403 && challenge.error === 'insufficient_scope') {
      await scopeChallenged(ctx, connection, held.generation, challenge.scopes);
      return undefined;
    }
    // A step up that a tool asked for is not over because a greeting needs none.
    if (connection.status === 'scope_required') return undefined;
    return answer.status < 400 ? { to: 'active' } : { to: 'degraded', reason: 'provider-unavailable' };
  } catch (error) {
    if (error instanceof OauthFailure) return { to: 'degraded', reason: 'provider-unavailable' };
    if (!(error instanceof Fault)) throw error;
    // What has no usable grant has been told already, by whoever found that out.
    const isOurs = error.code === 'provider-unavailable' || error.code === 'credential-refused';
    return isOurs ? { to: 'degraded', reason: error.code } : undefined;
  }
}

function sealWhole(ctx: FlowContext, project: ProjectRef, { name }: SealedConnection, whole: object): Sealed {
  const plaintext = Buffer.from(JSON.stringify(whole), 'utf8');
  try {
    const binding = { orgId: project.orgId, projectId: project.id, name, use: 'connection' as const };
    return sealingOf(ctx).sealer.seal(plaintext, binding);
  } finally {
    plaintext.fill(0);
  }
}

/** Replaces the credentials that are given; the others stay. Throws Fault `not_found`, `invalid`. */
export async function replaceCredentials(
  ctx: FlowContext,
  project: ProjectRef,
  actor: Actor,
  input: { readonly name: string; readonly credentials: { readonly [key: string]: string | undefined } },
): Promise<ObservedConnection> {
  const connection = await known(ctx, project, input.name);
  const allowed = credentials[connection.provider] ?? [];
  const given = Object.entries(input.credentials).filter(([, value]) => value !== undefined);
  const foreign = given.find(([key]) => !allowed.includes(key));
  if (foreign !== undefined) {
    throw new Fault('invalid', 'invalid-body', `credentials: ${foreign[0]} is not for ${connection.provider}`);
  }
  await ctx.db.tx(async (tx) => {
    // As it is now: of two who give one each at once, neither takes the other's back.
    const held = await lockConnection(tx, connection.id);
    if (held === undefined) throw absent();
    const whole = { ...connectionSecrets(ctx, held), ...Object.fromEntries(given) };
    const sealed = sealWhole(ctx, project, held, whole);
    await setConnectionCredentials(tx, { id: connection.id, ...sealed, now: ctx.runtime.now() });
    await countSealed(ctx, tx, sealed.keyVersion);
    await recordAudit(tx, {
      orgId: project.orgId,
      projectId: project.id,
      principal: actor,
      action: 'connection.credentials_set',
      subject: { kind: 'Connection', name: connection.name },
      detail: { provider: connection.provider, connectionId: connection.id, keys: given.map(([key]) => key) },
    });
    // What the old key was given for stays with the old key.
    await dropTokensOf(tx, connection.id);
  });
  return shown(ctx, project, connection.name);
}
