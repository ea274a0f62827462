// Connections to providers: made with credentials that are sealed and never shown, listed, removed
// (docs/reference/connections.md#connections). Decides what a connection is called to authors, what its removal means for
// triggers, and which repositories look again. It holds the lock of the project, so that no apply resolves a trigger against
// a connection that is going. It never talks to a provider.

import type { ConnectionInput } from '../../../schemas/connection.ts';
import { connectionByName, type SealedConnection } from '../../adapters/store/secrets/credentials.ts';
import { challengeOf, isWithin } from '../../core/consent/consent.ts';
import { Fault } from '../../domain/fault.ts';
import { oauthProviders } from '../../base/config/oauth-settings.ts';
import { inApply } from '../../adapters/store/routing/project-lock.ts';
import {
  type ConnectionRow,
  countFailedCall,
  deleteConnection,
  findConnection,
  findObserved,
  insertConnection,
  type ObservedConnection,
  triggersNeeding,
} from '../../adapters/store/connections/connections.ts';
import { addressFault } from '../../adapters/providers/authorization/authorization.ts';
import { destroyOauthTokens } from '../../adapters/store/connections/oauth-grants.ts';
import { setSubscriptions } from '../../adapters/store/connections/errtrack-grants.ts';
import type { Sealed } from '../../adapters/crypto/crypto.ts';
import type { JsonObject } from '../../domain/json.ts';
import { messagesTable } from '../../domain/messages.ts';
import { isOfConnection } from '../../domain/outside.ts';
import { type Actor, type FlowContext, type ProjectRef, sealingOf } from '../context.ts';
import { countSealed } from '../secrets/secrets.ts';
import { isConsented } from './oauth-clients.ts';
import {
  authorizationRequired,
  connectionToken,
  grantedTokens,
  type HeldToken,
  revokeTokens,
  scopeChallenged,
} from './oauth-tokens.ts';
import { noteCreated, noteRevoked, recordConnectionChange } from './connection-change.ts';

export type { SetupCaller } from './errtrack-authority.ts';
export { isConsented } from './oauth-clients.ts';
export { selectRecipients } from './errtrack-publish.ts';
export { issueDetails, latestEvent, listAllowed, search } from './errtrack-reads.ts';
export { listOptions, updateSelection } from './errtrack-selection.ts';
export { cancelSetup, startSetup, takeCallback } from './errtrack-setup.ts';
export { enterSelection, enterSetup, readSetup } from './errtrack-status.ts';
export { diagnoseConnections } from './connection-doctor.ts';
export { diagnoseConsents } from './connection-doctor.ts';
export { checkConnection, replaceCredentials } from './check.ts';
export { changeConfig } from './connection-config.ts';
export { clientDocumentUrl, redirectUri } from './oauth-clients.ts';
export { beginConsent, cancelConsent, readConsent, takeConsent } from './oauth-consent.ts';

/** Where a provider sends its webhooks. */
export function intakeUrl(ctx: FlowContext, row: Pick<ConnectionRow, 'provider' | 'id'>): string | null {
  // One address for every installation of the error tracker, none of a tenant's own.
  if (row.provider === 'errtrack') return `${ctx.baseUrl}/api/v1/intake/errtrack`;
  if (!['codehost', 'tracker', 'chat'].includes(row.provider)) return null;
  return `${ctx.baseUrl}/api/v1/intake/${row.provider}/${row.id}`;
}

const noConnection = (): Fault => new Fault('not_found', 'not-found', messagesTable.notVisible);

/** One connection of a project, with what its provider said of it. Throws Fault `not_found`. */
export async function readConnection(ctx: FlowContext, project: ProjectRef, name: string): Promise<ObservedConnection> {
  const found = await findObserved(ctx.db, project.id, name);
  if (found === undefined) throw noConnection();
  return found;
}

/** Makes an active connection. Throws Fault `conflict` for a taken name. */
export async function addConnection(
  ctx: FlowContext,
  project: ProjectRef,
  actor: Actor,
  input: ConnectionInput,
): Promise<ConnectionRow> {
  const { provider, name } = input;
  const config = configOf(ctx, input);
  const byConsent = isConsented(ctx, provider);
  const status = byConsent ? 'authorization_required' : 'active';
  const id = ctx.runtime.uuid();
  const now = ctx.runtime.now();
  const credentials = 'credentials' in input ? (input.credentials ?? {}) : {};
  const sealed = sealCredentials(ctx, project, name, credentials);
  // What authors write as a tool's provider: the product behind a chat connection.
  const product = provider === 'chat' ? (textOf(config['provider']) ?? 'slack') : provider;
  return inApply(ctx.db, project.id, async (tx) => {
    const made = await insertConnection(tx, {
      id,
      projectId: project.id,
      provider,
      product,
      name,
      config,
      now,
      status,
      ...sealed,
    });
    if (!made) throw new Fault('conflict', 'name-taken', `a connection named ${name} exists already`);
    const row: ConnectionRow = { id, provider, name, status, config };
    // One by consent is established when somebody consents.
    if (byConsent) await noteCreated(tx, { project, actor, row });
    else await recordConnectionChange(ctx, tx, { project, actor, row, what: 'established', detail: {} });
    await countSealed(ctx, tx, sealed.keyVersion);
    return row;
  });
}

const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);

/** What is kept of the body beside the credentials. Throws Fault `invalid` for a provider or an address that cannot be. */
function configOf(ctx: FlowContext, input: ConnectionInput): JsonObject {
  if ('config' in input) return (input.config ?? {}) as JsonObject;
  if ('url' in input) {
    const { url, scopes, clientId } = input;
    const fault = addressFault({ allowPrivate: ctx.config.allowPrivateNetwork }, url);
    if (fault !== undefined) throw new Fault('invalid', 'invalid-body', `url: it cannot be used: ${fault}`);
    return { url, ...(scopes !== undefined && { scopes }), ...(clientId !== undefined && { clientId }) };
  }
  if (!isOwnShape(input.provider) && !isConsented(ctx, input.provider)) {
    const known = [...oauthProviders(ctx.config.file).keys()];
    const named = known.length === 0 ? '' : ` (${known.join(', ')})`;
    throw new Fault(
      'invalid',
      'invalid-body',
      `provider: expected codehost, tracker, chat, mcp or one that the configuration names${named}`,
    );
  }
  return 'scopes' in input && input.scopes !== undefined ? { scopes: input.scopes } : {};
}
const isOwnShape = (provider: string): boolean => ['codehost', 'tracker', 'chat'].includes(provider);

/** Seals the credentials of a connection for its project and name; nothing else opens them. */
export function sealCredentials(ctx: FlowContext, project: ProjectRef, name: string, credentials: object): Sealed {
  const plaintext = Buffer.from(JSON.stringify(credentials), 'utf8');
  const binding = { orgId: project.orgId, projectId: project.id, name, use: 'connection' as const };
  try {
    return sealingOf(ctx).sealer.seal(plaintext, binding);
  } finally {
    plaintext.fill(0);
  }
}

/**
 * Removes a connection; optional triggers that it served are skipped until there is another. Throws Fault `not_found`,
 * or `conflict` naming the agents whose triggers cannot go without it.
 */
export async function removeConnection(
  ctx: FlowContext,
  project: ProjectRef,
  actor: Actor,
  name: string,
): Promise<void> {
  const known = await checkRemoval(ctx, project, name);
  const granted = await inApply(ctx.db, project.id, async (tx) => {
    const row = await findConnection(tx, project.id, name);
    if (row?.id !== known.id) throw noConnection();
    const needing = await triggersNeeding(tx, row.id);
    if (needing.length > 0) throw inUse(name, needing);
    const tokens = isConsented(ctx, row.provider) ? await grantedTokens(ctx, tx, row.id) : undefined;
    await destroyOauthTokens(tx, row.id);
    // What the project hears of goes with its connection; the organization's installation stays.
    const grantId = row.provider === 'errtrack' ? row.config['grantId'] : undefined;
    if (typeof grantId === 'string') {
      await setSubscriptions(tx, { projectId: project.id, grantId, now: ctx.runtime.now() }, []);
    }
    const skipped = await deleteConnection(tx, row.id);
    const detail = { skippedTriggers: skipped };
    await recordConnectionChange(ctx, tx, { project, actor, row, what: 'removed', detail });
    return tokens;
  });
  // Not before: one that is refused, or whose project is busy, keeps the tokens that it has.
  if (granted === undefined) return;
  if (await revokeTokens(ctx, known, granted)) await noteRevoked(ctx.db, { project, actor, row: known });
  else ctx.runtime.log.warn({ connectionId: known.id }, 'oauth.not_revoked');
}

/** A connection that nothing needs. Faults as `removeConnection`. */
export async function checkRemoval(ctx: FlowContext, project: ProjectRef, name: string) {
  const known = await connectionByName(ctx.db, project.id, name);
  if (known === undefined) throw noConnection();
  const inTheWay = await triggersNeeding(ctx.db, known.id);
  if (inTheWay.length > 0) throw inUse(name, inTheWay);
  return known;
}

function inUse(name: string, needing: readonly { readonly agent: string; readonly ordinal: number }[]): Fault {
  const named = needing.slice(0, 10).map(({ agent, ordinal }) => `${agent} (trigger ${ordinal})`);
  const more = needing.length > named.length ? ` and ${needing.length - named.length} more` : '';
  return new Fault(
    'conflict',
    'connection-in-use',
    `connection ${name} is needed by ${named.join(', ')}${more}; remove these triggers, or make them optional, first`,
  );
}

// What a session's remote tool is given of a connection by consent: a token for its own resource, in the request alone.

export interface ConsentedAccess {
  /** The header's value; with `refused`, another than the one before. Throws Fault. */
  authorization(refused?: boolean): Promise<string>;
  /** What a refusal leads to; undefined where another consent would change nothing. */
  wantsScopes(challenge: string | undefined): Promise<Fault | undefined>;
  /** Counts a call of a tool that did not go through. */
  failed(fault: Fault): Promise<void>;
}

/** Access of one call to `url` through the connection of that name. */
export function consentedAccess(ctx: FlowContext, projectId: string, name: string, url: string): ConsentedAccess {
  let held: HeldToken | undefined;
  const find = async (): Promise<SealedConnection> => {
    const connection = await connectionByName(ctx.db, projectId, name);
    if (connection === undefined || !isConsented(ctx, connection.provider)) throw authorizationRequired(name);
    if (connection.status === 'disabled' || connection.status === 'inactive') throw authorizationRequired(name);
    const { url: own } = connection.config;
    const provider = oauthProviders(ctx.config.file).get(connection.provider);
    const resource = typeof own === 'string' ? own : provider?.resource;
    // What the configuration names beside it is the operator's word.
    if (provider?.mcpUrl === url) return connection;
    // A token is for the resource that it was asked for, whatever an author writes beside its name.
    if (resource !== undefined && !isWithin(resource, url)) {
      throw new Fault('unprocessable', 'connection-mismatch', `connection ${name} is for another server`);
    }
    return connection;
  };
  return {
    async authorization(refused) {
      const before = refused === true ? held?.generation : undefined;
      held = await connectionToken(ctx, await find(), before);
      return `Bearer ${held.accessToken}`;
    },
    async failed({ code }) {
      if (isOfConnection(code)) await countFailedCall(ctx.db, projectId, name);
    },
    async wantsScopes(challenge) {
      const said = challengeOf(challenge);
      if (said.error !== 'insufficient_scope' || held === undefined) return undefined;
      return scopeChallenged(ctx, await find(), held.generation, said.scopes);
    },
  };
}
