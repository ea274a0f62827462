// Who protects a resource, and what that authorization server is: RFC 9728, then RFC 8414 or OpenID discovery. Nothing is
// believed that does not name what it was asked for.

import * as oauth from 'oauth4webapi';
import { challengeOf, isWithin, scopesIn } from '../../../core/consent/consent.ts';
import { addressFault, initialize, OauthFailure, type Reach, send } from './request.ts';
import { isPlain, withoutEnd } from '../../../domain/text.ts';
import { utf8Size } from '../../../domain/utf8.ts';

/** Of an authorization server, what later steps need, of its lists no other word; kept with what came of it. Names as in RFC 8414. */
export interface Server {
  readonly issuer: string;
  readonly authorization_endpoint: string;
  readonly token_endpoint: string;
  readonly revocation_endpoint?: string;
  readonly registration_endpoint?: string;
  readonly authorization_response_iss_parameter_supported?: boolean;
  readonly client_id_metadata_document_supported?: boolean;
  readonly token_endpoint_auth_methods_supported?: readonly string[];
  readonly scopes_supported?: readonly string[];
}
export interface Protected {
  /** As it calls itself: what tokens are asked for. */
  readonly resource: string;
  readonly issuer: string;
  /** Of its challenge, else all that it names. */
  readonly scopes: readonly string[];
}

const json = { accept: 'application/json' };
const failed = (why: string): OauthFailure => new OauthFailure('discovery-failed', why);

/** Asks a resource, without a credential, who protects it. Throws OauthFailure `discovery-failed`. */
export async function discoverResource(reach: Reach, address: string): Promise<Protected> {
  const url = new URL(address);
  const challenge = challengeOf(await challengeAt(reach, address));
  const path = withoutEnd(url.pathname, '/');
  const known = `${url.origin}/.well-known/oauth-protected-resource`;
  const at =
    challenge.resourceMetadata === undefined ? [...new Set([known + path, known])] : [challenge.resourceMetadata];
  for (const one of at) {
    const found = await readJson(reach, one);
    if (found === undefined) continue;
    const { resource, authorization_servers: servers, scopes_supported: supported } = found;
    if (typeof resource !== 'string' || !isPlain(resource) || !isWithin(resource, address)) {
      throw failed('the metadata of the resource names another resource');
    }
    const issuer = Array.isArray(servers) ? (servers as unknown[])[0] : undefined;
    if (typeof issuer !== 'string') throw failed('the metadata of the resource names no authorization server');
    const named = Array.isArray(supported) ? supported.filter((scope) => typeof scope === 'string').join(' ') : '';
    return { resource, issuer, scopes: challenge.scopes.length > 0 ? challenge.scopes : scopesIn(named) };
  }
  throw failed('the resource does not say which authorization server protects it');
}

/** What the resource says to somebody without a credential. */
async function challengeAt(reach: Reach, address: string): Promise<string | undefined> {
  const response = await reached(initialize(reach, address));
  return response.headers.get('www-authenticate') ?? undefined;
}

const reached = async (asking: Promise<Response>): Promise<Response> => {
  try {
    return await asking;
  } catch (error) {
    throw error instanceof OauthFailure ? failed(error.message) : error;
  }
};

async function readJson(reach: Reach, address: string): Promise<{ readonly [key: string]: unknown } | undefined> {
  const response = await reached(send(reach, address, { method: 'GET', headers: json }));
  if (response.status !== 200) return undefined;
  try {
    const found = (await response.json()) as unknown;
    return typeof found === 'object' && found !== null ? (found as { [key: string]: unknown }) : undefined;
  } catch {
    return undefined;
  }
}

/**
 * An authorization server by its issuer. Throws OauthFailure `discovery-failed`, `issuer-mismatch`, or `pkce-missing` where
 * it does not say that it takes S256.
 */
export async function discoverServer(reach: Reach, issuer: string): Promise<Server> {
  const fault = addressFault(reach, issuer);
  if (fault !== undefined) throw failed(`the authorization server cannot be called: ${fault}`);
  const url = new URL(issuer);
  const path = withoutEnd(url.pathname, '/');
  const at = new Set([
    `${url.origin}/.well-known/oauth-authorization-server${path}`,
    `${url.origin}/.well-known/openid-configuration${path}`,
    `${url.origin}${path}/.well-known/openid-configuration`,
  ]);
  for (const address of at) {
    const response = await reached(send(reach, address, { method: 'GET', headers: json }));
    if (response.status !== 200) continue;
    return usable(reach, await processed(url, response));
  }
  throw failed('the authorization server publishes no metadata');
}

async function processed(issuer: URL, response: Response): Promise<oauth.AuthorizationServer> {
  try {
    return await oauth.processDiscoveryResponse(issuer, response);
  } catch (error) {
    if (error instanceof oauth.OperationProcessingError && error.code === oauth.JSON_ATTRIBUTE_COMPARISON) {
      throw new OauthFailure('issuer-mismatch', 'the metadata of the authorization server are those of another issuer');
    }
    throw failed('the metadata of the authorization server cannot be read');
  }
}

/** Of a list that anybody wrote, the words that are looked for; undefined where there is no list. */
const wordsOf = (list: unknown, words: readonly string[]): string[] | undefined =>
  Array.isArray(list) ? words.filter((word) => (list as unknown[]).includes(word)) : undefined;

/** Whether a text can be kept as the name of a server, which is looked for by it. */
const isKept = (text: string): boolean => isPlain(text) && utf8Size(text) <= nameBytesMax;
const nameBytesMax = 2_048;

function usable(reach: Reach, found: oauth.AuthorizationServer): Server {
  const { authorization_endpoint, token_endpoint } = found;
  const isUsable = (address: unknown): address is string =>
    typeof address === 'string' && isKept(address) && addressFault(reach, address) === undefined;
  if (!isKept(found.issuer) || !isUsable(authorization_endpoint) || !isUsable(token_endpoint)) {
    throw failed('the authorization server has no usable endpoints');
  }
  if (!wordsOf(found.code_challenge_methods_supported, ['S256'])?.includes('S256')) {
    throw new OauthFailure('pkce-missing', 'the authorization server does not say that it takes PKCE with S256');
  }
  const { revocation_endpoint, registration_endpoint } = found;
  const methods = wordsOf(found.token_endpoint_auth_methods_supported, ['client_secret_basic', 'client_secret_post']);
  const scopes = wordsOf(found.scopes_supported, ['offline_access']);
  return {
    issuer: found.issuer,
    authorization_endpoint,
    token_endpoint,
    ...(isUsable(revocation_endpoint) && { revocation_endpoint }),
    ...(isUsable(registration_endpoint) && { registration_endpoint }),
    authorization_response_iss_parameter_supported: found.authorization_response_iss_parameter_supported === true,
    client_id_metadata_document_supported: found['client_id_metadata_document_supported'] === true,
    ...(methods !== undefined && { token_endpoint_auth_methods_supported: methods }),
    ...(scopes !== undefined && { scopes_supported: scopes }),
  };
}
