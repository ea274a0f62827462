// OpenID Connect through its certified client: discovery each time, so that rotated keys and moved endpoints hold at once.

import type * as Openid from 'openid-client';
import type { OidcMethod } from '../../../base/config/signin-settings.ts';
import { boundedText } from '../../../base/net/answer.ts';
import { groupNames, isName, nameOf, type Person, type Proof, type Refreshed, SigninRefused } from './person.ts';

/** Of one request with all of its answer. */
const timeoutSeconds = 10;
const answerBytesMax = 1_048_576;
/** Of the provider's own name for a person (OpenID Connect Core 2). */
const subjectMax = 255;
/** Loaded by the first sign-in: a daemon starts without it. */
const load = (): Promise<typeof Openid> => import('openid-client');

/** The client reads an answer to its end, however long it is. Throws where one is beyond the bound. */
const fetchBounded: Openid.CustomFetch = async (url, options) => {
  const answer = await fetch(url, options as RequestInit);
  const { status, headers } = answer;
  return new Response(answer.body === null ? null : await boundedText(answer.body, answerBytesMax), {
    status,
    headers,
  });
};

async function discover(method: OidcMethod, secret: string): Promise<Openid.Configuration> {
  const client = await load();
  const issuer = new URL(method.issuer);
  // The configuration lets http through for a loopback address alone.
  const execute = issuer.protocol === 'http:' ? [client.allowInsecureRequests] : [];
  try {
    const asked = { execute, timeout: timeoutSeconds, [client.customFetch]: fetchBounded };
    const basic = client.ClientSecretBasic(secret);
    const found = await client.discovery(issuer, method.clientId, undefined, basic, asked);
    const offered = found.serverMetadata().token_endpoint_auth_methods_supported;
    if (offered === undefined || offered.includes('client_secret_basic') || !offered.includes('client_secret_post'))
      return found;
    return await client.discovery(issuer, method.clientId, undefined, client.ClientSecretPost(secret), asked);
  } catch {
    throw new SigninRefused('discovery');
  }
}

export async function oidcAuthorization(method: OidcMethod, secret: string, proof: Proof): Promise<string> {
  const [client, configuration] = await Promise.all([load(), discover(method, secret)]);
  return client.buildAuthorizationUrl(configuration, {
    redirect_uri: proof.redirectUri,
    scope: method.scopes.join(' '),
    state: proof.state,
    nonce: proof.nonce,
    code_challenge: await client.calculatePKCECodeChallenge(proof.verifier),
    code_challenge_method: 'S256',
    // A refresh token is given by consent alone (OpenID Connect Core 11).
    ...(method.scopes.includes('offline_access') && { prompt: 'consent' }),
  }).href;
}

export async function oidcPerson(method: OidcMethod, secret: string, proof: Proof, search: string): Promise<Person> {
  const [client, configuration] = await Promise.all([load(), discover(method, secret)]);
  let tokens: Awaited<ReturnType<typeof Openid.authorizationCodeGrant>>;
  try {
    tokens = await client.authorizationCodeGrant(configuration, new URL(`${proof.redirectUri}${search}`), {
      pkceCodeVerifier: proof.verifier,
      expectedState: proof.state,
      expectedNonce: proof.nonce,
      idTokenExpected: true,
    });
  } catch {
    throw new SigninRefused('exchange');
  }
  const claims = tokens.claims();
  if (claims === undefined) throw new SigninRefused('id-token');
  if (!isName(claims.sub) || claims.sub.length > subjectMax) throw new SigninRefused('subject');
  const said = await claimsWithGroups(configuration, method, tokens.access_token, claims);
  return {
    issuer: claims.iss,
    subject: claims.sub,
    name: nameOf(said['name'], said['preferred_username'], said['email'], claims.sub),
    groups: groupNames(said[method.groupsClaim]),
    ...(tokens.refresh_token !== undefined && { refreshToken: tokens.refresh_token }),
  };
}

type Claims = { readonly [claim: string]: unknown };

/** The claims of an ID token, with those of the user info where the groups are not among them. */
async function claimsWithGroups(
  configuration: Openid.Configuration,
  method: OidcMethod,
  accessToken: string,
  claims: Claims & { readonly sub: string },
): Promise<Claims> {
  if (claims[method.groupsClaim] !== undefined || configuration.serverMetadata().userinfo_endpoint === undefined)
    return claims;
  return { ...(await userInfo(configuration, accessToken, claims.sub)), ...claims };
}

export async function oidcRefreshed(
  method: OidcMethod,
  secret: string,
  { subject, refreshToken }: { readonly subject: string; readonly refreshToken: string },
): Promise<Refreshed> {
  const [client, configuration] = await Promise.all([load(), discover(method, secret)]);
  let renewed: string | undefined;
  try {
    const tokens = await client.refreshTokenGrant(configuration, refreshToken);
    renewed = tokens.refresh_token ?? refreshToken;
    const claims = tokens.claims();
    if (claims !== undefined && claims.sub !== subject) return { outcome: 'refused' };
    const said = await claimsWithGroups(configuration, method, tokens.access_token, { ...claims, sub: subject });
    const groups = groupNames(said[method.groupsClaim]);
    return { outcome: 'done', groups, refreshToken: renewed };
  } catch (error) {
    if (renewed !== undefined) return { outcome: 'renewed', refreshToken: renewed };
    // An error that the provider put into words: it has read the request.
    return { outcome: error instanceof client.ResponseBodyError ? 'refused' : 'unknown' };
  }
}

async function userInfo(configuration: Openid.Configuration, token: string, subject: string) {
  const client = await load();
  try {
    return await client.fetchUserInfo(configuration, token, subject);
  } catch {
    throw new SigninRefused('user-info');
  }
}
