// The client of authorization servers: registration, consent with PKCE, the one exchange, refresh, revocation. Codes,
// verifiers, tokens and secrets are in memory and in the request that carries them; no error holds one. Nothing is tried
// twice here, and what was sent without an answer is told apart from what was refused.

import * as oauth from 'oauth4webapi';
import { endlessMs } from '../../../domain/fields.ts';
import type { Server } from './discover.ts';
import { initialize, OauthFailure, type Reach, send } from './request.ts';

export { discoverResource, discoverServer, type Server } from './discover.ts';
export { addressFault, OauthFailure, type Reach } from './request.ts';

export type ClientMethod = 'none' | 'client_secret_basic' | 'client_secret_post';
export interface Client {
  readonly id: string;
  readonly method: ClientMethod;
}
/** A client with what proves it, where it has that. */
export interface Identity {
  readonly client: Client;
  readonly secret: string | undefined;
}
export interface Tokens {
  readonly accessToken: string;
  readonly refreshToken: string | undefined;
  readonly expiresInSeconds: number | undefined;
  /** Undefined: those that were asked for. */
  readonly scope: string | undefined;
}

const asServer = (server: Server): oauth.AuthorizationServer => server as oauth.AuthorizationServer;
const asClient = ({ id }: Client): oauth.Client => ({ client_id: id });
const proof = ({ client, secret }: Identity): oauth.ClientAuth => {
  if (client.method === 'none' || secret === undefined) return oauth.None();
  return client.method === 'client_secret_post' ? oauth.ClientSecretPost(secret) : oauth.ClientSecretBasic(secret);
};

/** How a client with a secret proves itself to a server. */
export function methodFor(server: Server, hasSecret: boolean): ClientMethod {
  if (!hasSecret) return 'none';
  const methods = server.token_endpoint_auth_methods_supported;
  const isBasic = methods === undefined || methods.includes('client_secret_basic');
  return isBasic ? 'client_secret_basic' : 'client_secret_post';
}

const through = (reach: Reach) => ({
  [oauth.allowInsecureRequests]: reach.allowPrivate,
  [oauth.customFetch]: (
    address: string,
    { method, headers, body }: { method: string; headers: Record<string, string>; body?: unknown },
  ): Promise<Response> =>
    send(reach, address, {
      method,
      headers,
      ...(body !== undefined && body !== null && { body: String(body as string | URLSearchParams) }),
    }),
});

const errorPattern = /^[a-z_]{1,60}$/;
const detailOf = (error: string): string => (errorPattern.test(error) ? error : 'refused');

/** What was thrown of a request that was meant to do something. */
function failureOf(error: unknown): OauthFailure {
  if (error instanceof OauthFailure) return error;
  if (error instanceof oauth.ResponseBodyError) {
    const detail = detailOf(error.error);
    return new OauthFailure('refused', `the authorization server refused: ${detail}`, detail);
  }
  if (error instanceof oauth.WWWAuthenticateChallengeError) {
    return new OauthFailure('refused', 'the authorization server refused: invalid_client', 'invalid_client');
  }
  const { cause } = Object(error) as { readonly cause?: unknown };
  if (cause instanceof OauthFailure) return cause;
  if (cause instanceof Response && cause.status === 429) return new OauthFailure('unsent', 'it limits its callers');
  return new OauthFailure('unknown', 'the answer of the authorization server cannot be read');
}

/** As RFC 6749 writes it, and as an address can hold it. */
const clientIdPattern = /^[\x20-\x7e]{1,2048}$/;

/** Registers a client; native where it is reached by plain http. Throws OauthFailure `client-needed`. */
export async function register(
  reach: Reach,
  server: Server,
  redirectUri: string,
): Promise<Identity & { readonly expiresAt: Date | null }> {
  const isNative = new URL(redirectUri).protocol === 'http:';
  const metadata = {
    client_name: 'svc',
    redirect_uris: [redirectUri],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
    application_type: isNative ? 'native' : 'web',
  };
  try {
    const response = await oauth.dynamicClientRegistrationRequest(asServer(server), metadata, through(reach));
    const made = await oauth.processDynamicClientRegistrationResponse(response);
    const method = made['token_endpoint_auth_method'];
    const known = (['client_secret_basic', 'client_secret_post'] as const).find((one) => one === method);
    const secret = typeof made['client_secret'] === 'string' ? made['client_secret'] : undefined;
    const ends = made['client_secret_expires_at'];
    if (!clientIdPattern.test(made.client_id)) throw new OauthFailure('unknown', 'the answer names no usable client');
    return {
      client: { id: made.client_id, method: secret === undefined ? 'none' : (known ?? methodFor(server, true)) },
      secret,
      expiresAt: typeof ends === 'number' && ends > 0 && ends * 1_000 < endlessMs ? new Date(ends * 1_000) : null,
    };
  } catch (error) {
    const { message } = failureOf(error);
    throw new OauthFailure('client-needed', `it does not register clients by itself (${message}); give a clientId`);
  }
}

export interface Consent {
  readonly redirectUri: string;
  readonly state: string;
  readonly verifier: string;
  readonly scopes: readonly string[];
  readonly resource: string | null;
}

/** Where the person consents. */
export async function consentUrl(server: Server, client: Client, consent: Consent): Promise<string> {
  const url = new URL(server.authorization_endpoint);
  const parameters = {
    response_type: 'code',
    client_id: client.id,
    redirect_uri: consent.redirectUri,
    state: consent.state,
    code_challenge: await oauth.calculatePKCECodeChallenge(consent.verifier),
    code_challenge_method: 'S256',
    ...(consent.scopes.length > 0 && { scope: consent.scopes.join(' ') }),
    ...(consent.resource !== null && { resource: consent.resource }),
    // OpenID servers give a refresh token only where the person is asked.
    ...(consent.scopes.includes('offline_access') && { prompt: 'consent' }),
  };
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  return url.href;
}

/** What the browser brought back, held against who was asked. */
export type Returned = ReturnType<typeof oauth.validateAuthResponse>;

/** Throws OauthFailure `issuer-mismatch` (also where a promised `iss` is absent) or `refused`. Nothing is sent. */
export function readCallback(server: Server, client: Client, parameters: URLSearchParams, state: string): Returned {
  try {
    const returned = oauth.validateAuthResponse(asServer(server), asClient(client), parameters, state);
    // What has no code to exchange is over here: of what was never sent, nothing is unknown.
    const [code, ...more] = parameters.getAll('code');
    if (code === undefined || code === '' || more.length > 0) throw new Error('not one code');
    return returned;
  } catch (error) {
    if (error instanceof oauth.AuthorizationResponseError) {
      const detail = detailOf(error.error);
      throw new OauthFailure('refused', `consent was refused: ${detail}`, detail);
    }
    const issuer = parameters.getAll('iss');
    const isWrong = issuer.length > 1 || issuer[0] !== server.issuer;
    const isMismatch = isWrong && (issuer.length > 0 || server.authorization_response_iss_parameter_supported === true);
    throw isMismatch
      ? new OauthFailure('issuer-mismatch', 'the answer is not that of the server that was asked')
      : new OauthFailure('refused', 'the answer cannot be read', 'invalid_response');
  }
}

/**
 * A token answer as its reader takes it. What is optional and says nothing that can be read was not said: a life of null or
 * less than nothing is none, and what came beside it is not lost. An error in place of a token is one, whatever its status.
 */
async function readable(response: Response): Promise<Response> {
  if (response.status !== 200) return response;
  const body = Object((await response.json()) as unknown) as { readonly [name: string]: unknown };
  const textAt = (name: string): string | undefined => {
    const value = body[name];
    return typeof value === 'string' && value !== '' ? value : undefined;
  };
  const token = textAt('access_token');
  const error = textAt('error');
  if (token === undefined && error !== undefined) {
    const detail = detailOf(error);
    throw new OauthFailure('refused', `the authorization server refused: ${detail}`, detail);
  }
  // No request could carry it.
  if (token === undefined || !tokenPattern.test(token)) throw new OauthFailure('unknown', 'it gave no usable token');
  const life = body['expires_in'];
  const seconds = typeof life === 'number' ? life : Number(textAt('expires_in') ?? Number.NaN);
  const read = {
    access_token: token,
    ...(Number.isFinite(seconds) && seconds >= 0 && { expires_in: seconds }),
    ...Object.fromEntries(['token_type', 'id_token', 'refresh_token', 'scope'].map((name) => [name, textAt(name)])),
  };
  return new Response(JSON.stringify(read), { status: 200, headers: response.headers });
}

const tokenPattern = /^[\x21-\x7e]+$/;
const resourceOf = (resource: string | null) => (resource === null ? {} : { additionalParameters: { resource } });
const tokensOf = (answer: oauth.TokenEndpointResponse): Tokens => ({
  accessToken: answer.access_token,
  refreshToken: answer.refresh_token,
  expiresInSeconds: answer.expires_in,
  scope: answer.scope,
});

/** Exchanges a code, once. Throws OauthFailure `unsent`, `refused` or `unknown`. */
export async function exchange(
  reach: Reach,
  at: { readonly server: Server; readonly identity: Identity; readonly returned: Returned },
  consent: Pick<Consent, 'redirectUri' | 'verifier' | 'resource'>,
): Promise<Tokens> {
  const [server, client] = [asServer(at.server), asClient(at.identity.client)];
  try {
    const options = { ...through(reach), ...resourceOf(consent.resource) };
    const { redirectUri, verifier } = consent;
    const auth = proof(at.identity);
    const response = await oauth.authorizationCodeGrantRequest(
      server,
      client,
      auth,
      at.returned,
      redirectUri,
      verifier,
      options,
    );
    return tokensOf(await oauth.processAuthorizationCodeResponse(server, client, await readable(response)));
  } catch (error) {
    throw failureOf(error);
  }
}

/** Refreshes once. Throws OauthFailure `unsent`, `refused` or `unknown`. */
export async function refresh(
  reach: Reach,
  at: { readonly server: Server; readonly identity: Identity },
  by: { readonly refreshToken: string; readonly resource: string | null },
): Promise<Tokens> {
  const [server, client] = [asServer(at.server), asClient(at.identity.client)];
  try {
    const options = { ...through(reach), ...resourceOf(by.resource) };
    const response = await oauth.refreshTokenGrantRequest(server, client, proof(at.identity), by.refreshToken, options);
    return tokensOf(await oauth.processRefreshTokenResponse(server, client, await readable(response)));
  } catch (error) {
    throw failureOf(error);
  }
}

/** Asks the server to forget a token, where it takes such requests. False where it did not say that it has. */
export async function revoke(
  reach: Reach,
  at: { readonly server: Server; readonly identity: Identity },
  token: string,
): Promise<boolean> {
  if (at.server.revocation_endpoint === undefined) return false;
  try {
    const client = asClient(at.identity.client);
    const auth = proof(at.identity);
    await oauth.processRevocationResponse(
      await oauth.revocationRequest(asServer(at.server), client, auth, token, through(reach)),
    );
    return true;
  } catch {
    // Best effort: the tokens are destroyed here whatever the server says.
    return false;
  }
}

/** Whether a resource takes a token: its status and its challenge. Throws OauthFailure. */
export async function tryResource(
  reach: Reach,
  address: string,
  token: string,
): Promise<{ readonly status: number; readonly challenge: string | undefined }> {
  const response = await initialize(reach, address, token);
  return { status: response.status, challenge: response.headers.get('www-authenticate') ?? undefined };
}
