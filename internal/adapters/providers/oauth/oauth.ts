// Who a person is, by the word of a provider: OpenID Connect (code, PKCE S256, state, nonce, issuer) and the code host's
// OAuth. Turns a provider's answers into an issuer, a subject that never changes, a name and groups. Keeps no token and
// stores nothing; an exchange is sent once. A refusal says which step failed and never what was sent or received.

import { oidcAuthorization, oidcPerson, oidcRefreshed } from './oidc.ts';
import { githubAuthorization, githubPerson, githubRefreshed } from './github.ts';
import type { GithubMethod, OidcMethod } from '../../../base/config/signin-settings.ts';
import type { Person, Proof, Refreshed } from './person.ts';

export { type Person, type Proof, type Refreshed, SigninRefused } from './person.ts';

type Method = OidcMethod | GithubMethod;

/** Where the browser goes. Throws SigninRefused where the provider cannot be asked. */
export function authorizationUrl(method: Method, secret: string, proof: Proof): Promise<string> {
  return method.kind === 'oidc' ? oidcAuthorization(method, secret, proof) : githubAuthorization(method, proof);
}

/** What the provider says of the person who came back with `search`. Throws SigninRefused. */
export function personOf(method: Method, secret: string, proof: Proof, search: string): Promise<Person> {
  return method.kind === 'oidc'
    ? oidcPerson(method, secret, proof, search)
    : githubPerson(method, secret, proof, search);
}

/**
 * The groups of a person now, by the refresh token of the latest sign-in, which is sent once. Throws SigninRefused where
 * nothing was sent.
 */
export function refreshedGroups(
  method: Method,
  secret: string,
  of: { readonly subject: string; readonly refreshToken: string },
): Promise<Refreshed> {
  return method.kind === 'oidc' ? oidcRefreshed(method, secret, of) : githubRefreshed(method, secret, of);
}
