// Who a person is, by the word of a provider: OpenID Connect (code, PKCE S256, state, nonce, issuer) and the code host's
// OAuth. Turns a provider's answers into an issuer, a subject that never changes, a name and groups. Keeps no token and
// stores nothing; an exchange is sent once. A refusal says which step failed and never what was sent or received.

import { oidcAuthorization, oidcPerson } from './oidc.ts';
import { githubAuthorization, githubPerson } from './github.ts';
import type { GithubMethod, OidcMethod } from '../../../base/config/signin-settings.ts';
import type { Person, Proof } from './person.ts';

export { type Person, type Proof, SigninRefused } from './person.ts';

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
