// OpenID Connect through its certified client: discovery each time, so that rotated keys and moved endpoints hold at once.

import * as client from 'openid-client';
import type { OidcMethod } from '../../../base/config/signin-settings.ts';
import { groupNames, nameOf, type Person, type Proof, SigninRefused } from './person.ts';

const timeoutSeconds = 10;

async function discover(method: OidcMethod, secret: string): Promise<client.Configuration> {
  const issuer = new URL(method.issuer);
  // The configuration lets http through for a loopback address alone.
  const execute = issuer.protocol === 'http:' ? [client.allowInsecureRequests] : [];
  try {
    const asked = { execute, timeout: timeoutSeconds };
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
  const configuration = await discover(method, secret);
  return client.buildAuthorizationUrl(configuration, {
    redirect_uri: proof.redirectUri,
    scope: method.scopes.join(' '),
    state: proof.state,
    nonce: proof.nonce,
    code_challenge: await client.calculatePKCECodeChallenge(proof.verifier),
    code_challenge_method: 'S256',
  }).href;
}

export async function oidcPerson(method: OidcMethod, secret: string, proof: Proof, search: string): Promise<Person> {
  const configuration = await discover(method, secret);
  let tokens: Awaited<ReturnType<typeof client.authorizationCodeGrant>>;
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
  const more =
    claims[method.groupsClaim] === undefined && configuration.serverMetadata().userinfo_endpoint !== undefined
      ? await userInfo(configuration, tokens.access_token, claims.sub)
      : {};
  const said: { readonly [claim: string]: unknown } = { ...more, ...claims };
  return {
    issuer: claims.iss,
    subject: claims.sub,
    name: nameOf(said['name'], said['preferred_username'], said['email'], claims.sub),
    groups: groupNames(said[method.groupsClaim]),
  };
}

async function userInfo(configuration: client.Configuration, token: string, subject: string) {
  try {
    return await client.fetchUserInfo(configuration, token, subject);
  } catch {
    throw new SigninRefused('user-info');
  }
}
