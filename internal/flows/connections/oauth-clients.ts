// Who the service is at an authorization server, and which server that is: what the connection says, what the
// configuration says, or what is found and registered. A client is shown to its own issuer alone; secrets are opened at
// the moment of use.

import {
  type Client,
  discoverResource,
  discoverServer,
  type Identity,
  methodFor,
  OauthFailure,
  type Reach,
  register,
  type Server,
} from '../../adapters/providers/authorization/authorization.ts';
import { keepOauthClient, oauthClientById, oauthClientOf } from '../../adapters/store/connections/oauth-attempts.ts';
import { setConnectionConfig } from '../../adapters/store/connections/connections.ts';
import { connectionByName, type SealedConnection } from '../../adapters/store/secrets/credentials.ts';
import { type OauthProvider, oauthProviders } from '../../base/config/oauth-settings.ts';
import { unionOf } from '../../core/consent/consent.ts';
import { Fault } from '../../domain/fault.ts';
import type { JsonObject } from '../../domain/json.ts';
import { messagesTable } from '../../domain/messages.ts';
import type { FlowContext, ProjectRef } from '../context.ts';
import { connectionSecrets, secretText } from '../sealed.ts';
import { keepSealed, openSealed } from './sealed-tokens.ts';

export const reachOf = (ctx: FlowContext): Reach => ({ allowPrivate: ctx.config.allowPrivateNetwork });
export const redirectUri = (ctx: FlowContext): string => `${ctx.baseUrl}/oauth/callback`;
/** Where a server finds who the service is; only there where it is reached by https. */
export const clientDocumentUrl = (ctx: FlowContext): string | undefined =>
  ctx.baseUrl.startsWith('https://') ? `${ctx.baseUrl}/oauth/client-metadata.json` : undefined;

/** How a client came about; a `document` is its own address. */
type ClientKind = 'given' | 'configured' | 'document' | 'dynamic';
export interface KnownClient extends Client {
  readonly kind: ClientKind;
}

/** What a consent is asked for, and of whom. */
export interface Target {
  readonly server: Server;
  readonly client: KnownClient;
  readonly resource: string | null;
  /** Of the resource's challenge, the connection and the configuration. */
  readonly scopes: readonly string[];
}

type Place = Pick<ProjectRef, 'id' | 'orgId'>;

/** The provider that a connection names in the configuration; undefined for `mcp`. Throws Fault `unavailable`. */
function configured(ctx: FlowContext, connection: Pick<SealedConnection, 'provider'>): OauthProvider | undefined {
  if (connection.provider === 'mcp') return undefined;
  const found = oauthProviders(ctx.config.file).get(connection.provider);
  if (found !== undefined) return found;
  throw new Fault('unavailable', 'provider-unavailable', `The configuration names no provider ${connection.provider}.`);
}

/** Whether connections of this provider are made by consent. */
export const isConsented = (ctx: FlowContext, provider: string): boolean =>
  provider === 'mcp' || oauthProviders(ctx.config.file).has(provider);

const textOf = (config: JsonObject, key: string): string | undefined => {
  const value = config[key];
  return typeof value === 'string' ? value : undefined;
};
const textsOf = (config: JsonObject, key: string): string[] => {
  const value = config[key];
  return Array.isArray(value) ? value.filter((one) => typeof one === 'string') : [];
};

/** Finds the server of a connection and a client there. Throws OauthFailure; nothing secret is sent. */
export async function findTarget(ctx: FlowContext, connection: SealedConnection): Promise<Target> {
  const reach = reachOf(ctx);
  const own = textsOf(connection.config, 'scopes');
  const provider = configured(ctx, connection);
  if (provider !== undefined) {
    const server = await configuredServer(reach, provider);
    const method = methodFor(server, provider.clientSecretRef !== undefined);
    return {
      server,
      client: { id: provider.clientId, method, kind: 'configured' },
      resource: provider.resource ?? null,
      scopes: unionOf(provider.scopes, own),
    };
  }
  const found = await discoverResource(reach, textOf(connection.config, 'url') ?? '');
  const server = await discoverServer(reach, found.issuer);
  const client = await clientAt(ctx, connection, server);
  // What was chosen replaces what the resource names, its challenge apart.
  const scopes = own.length > 0 ? own : found.scopes;
  const offline = (server.scopes_supported ?? []).includes('offline_access') ? ['offline_access'] : [];
  return { server, client, resource: found.resource, scopes: unionOf(scopes, offline) };
}

async function configuredServer(reach: Reach, provider: OauthProvider): Promise<Server> {
  const { issuer, authorizationEndpoint, tokenEndpoint, revocationEndpoint } = provider;
  if (authorizationEndpoint === undefined || tokenEndpoint === undefined) return discoverServer(reach, issuer ?? '');
  return {
    // Without an issuer that is known, an answer that names any is refused.
    issuer: issuer ?? new URL(authorizationEndpoint).origin,
    authorization_endpoint: authorizationEndpoint,
    token_endpoint: tokenEndpoint,
    ...(revocationEndpoint !== undefined && { revocation_endpoint: revocationEndpoint }),
  };
}

async function clientAt(ctx: FlowContext, connection: SealedConnection, server: Server): Promise<KnownClient> {
  const given = textOf(connection.config, 'clientId');
  if (given !== undefined) {
    const known = textOf(connection.config, 'issuer');
    if (known !== undefined && known !== server.issuer) {
      throw new OauthFailure(
        'issuer-mismatch',
        'the client of this connection belongs to another authorization server',
      );
    }
    if (known === undefined) await setConnectionConfig(ctx.db, connection.id, { issuer: server.issuer });
    const hasSecret = typeof connectionSecrets(ctx, connection)['clientSecret'] === 'string';
    return { id: given, method: methodFor(server, hasSecret), kind: 'given' };
  }
  const document = clientDocumentUrl(ctx);
  if (document !== undefined && server.client_id_metadata_document_supported === true) {
    return { id: document, method: 'none', kind: 'document' };
  }
  if (server.registration_endpoint === undefined) {
    throw new OauthFailure(
      'client-needed',
      'the authorization server does not register clients by itself; give a clientId',
    );
  }
  return registered(ctx, connection, server);
}

async function registered(ctx: FlowContext, { orgId }: SealedConnection, server: Server): Promise<KnownClient> {
  const at = { orgId, issuer: server.issuer, redirectUri: redirectUri(ctx) };
  const known = await oauthClientOf(ctx.db, at);
  const now = ctx.runtime.now();
  if (known !== undefined && (known.expiresAt === null || known.expiresAt > now)) {
    return { id: known.clientId, method: known.method, kind: 'dynamic' };
  }
  const { client, secret, expiresAt } = await register(reachOf(ctx), server, at.redirectUri);
  const id = ctx.runtime.uuid();
  await ctx.db.tx(async (tx) => {
    const binding = { orgId, projectId: null, name: `oauth-client:${id}` };
    const tokenId = secret === undefined ? null : await keepSealed(ctx, tx, binding, secret);
    await keepOauthClient(tx, { id, ...at, clientId: client.id, method: client.method, tokenId, expiresAt, now });
  });
  // Of two that registered at once, the one that was kept first is everybody's.
  const kept = await oauthClientOf(ctx.db, at);
  if (kept === undefined) throw new OauthFailure('client-needed', 'the registered client could not be kept');
  return { id: kept.clientId, method: kept.method, kind: 'dynamic' };
}

/** A client with what proves it. Throws Fault `unavailable` where that is gone. */
export async function identityOf(
  ctx: FlowContext,
  connection: SealedConnection,
  at: { readonly server: Server; readonly client: KnownClient },
): Promise<Identity> {
  const { client, server } = at;
  const plain = { id: client.id, method: client.method };
  if (client.method === 'none') return { client: plain, secret: undefined };
  const secret = await secretOf(ctx, connection, client, server);
  if (secret === undefined) {
    throw new Fault('unavailable', 'credential-refused', `The client secret of connection ${connection.name} is gone.`);
  }
  return { client: plain, secret };
}

async function secretOf(
  ctx: FlowContext,
  connection: SealedConnection,
  client: KnownClient,
  server: Server,
): Promise<string | undefined> {
  if (client.kind === 'given') {
    const { clientSecret } = connectionSecrets(ctx, connection);
    return typeof clientSecret === 'string' ? clientSecret : undefined;
  }
  const place: Place = { id: connection.projectId, orgId: connection.orgId };
  if (client.kind === 'configured') {
    const name = configured(ctx, connection)?.clientSecretRef;
    return name === undefined ? undefined : secretText(ctx, place, name, { kind: 'tool', name: connection.name });
  }
  // What it was given is its own also where the service has had another address since.
  const row = await oauthClientById(ctx.db, { orgId: connection.orgId, issuer: server.issuer, clientId: client.id });
  if (row === undefined) return undefined;
  return openSealed(ctx, { orgId: connection.orgId, projectId: null, name: `oauth-client:${row.id}` }, row.tokenId);
}

/** A connection by consent of a project. Throws Fault `not_found`, or `conflict` for one of another kind. */
export async function consentedConnection(
  ctx: FlowContext,
  projectId: string,
  name: string,
): Promise<SealedConnection> {
  const found = await connectionByName(ctx.db, projectId, name);
  if (found === undefined) {
    throw new Fault('not_found', 'not-found', messagesTable.notVisible);
  }
  if (isConsented(ctx, found.provider)) return found;
  throw new Fault('conflict', 'wrong-provider', `Connection ${name} is not made by consent.`);
}
