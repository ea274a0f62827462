// The `providers.oauth` section of the SVC_CONFIG file: authorization servers that connections may name as their provider,
// and the client that the service is there. Secrets are named, never held.

import * as v from 'valibot';
import { resourceNamePattern } from '../../domain/spec.ts';
import type { ConfigFile } from './file.ts';
import { providerSection, readSection, requirePublic } from './section.ts';

const isAddress = (text: string): boolean => {
  const url = URL.parse(text);
  return url !== null && /^https?:$/.test(url.protocol) && `${url.username}${url.password}${url.hash}` === '';
};
const Address = v.pipe(v.string(), v.check(isAddress, 'an http(s) URL without credentials or a fragment'));
const Text = v.pipe(v.string(), v.minLength(1), v.maxLength(500));
const Provider = v.pipe(
  v.strictObject({
    issuer: v.optional(Address),
    authorizationEndpoint: v.optional(Address),
    tokenEndpoint: v.optional(Address),
    revocationEndpoint: v.optional(Address),
    clientId: Text,
    clientSecretRef: v.optional(v.pipe(v.string(), v.regex(resourceNamePattern))),
    scopes: v.optional(v.array(v.pipe(v.string(), v.regex(/^[\x21\x23-\x5b\x5d-\x7e]{1,200}$/, 'a scope'))), []),
    resource: v.optional(Address),
    /** The provider's own tool server, for `connection` tools. */
    mcpUrl: v.optional(Address),
  }),
  v.check(
    ({ issuer, authorizationEndpoint, tokenEndpoint }) =>
      (authorizationEndpoint === undefined) === (tokenEndpoint === undefined) &&
      (issuer !== undefined || authorizationEndpoint !== undefined),
    'issuer, or authorizationEndpoint and tokenEndpoint, must be given',
  ),
);
/** Names that mean something else. */
export const ownProviders: readonly string[] = ['codehost', 'tracker', 'chat', 'errtrack', 'mcp', 'slack'];
const Section = v.record(
  v.pipe(
    v.string(),
    v.regex(/^[A-Za-z0-9_.-]{1,64}$/, '1 to 64 characters of A-Za-z0-9_.-'),
    v.check((name) => !ownProviders.includes(name), 'another name: this one is taken'),
  ),
  Provider,
);

export interface OauthProvider {
  readonly issuer?: string | undefined;
  readonly authorizationEndpoint?: string | undefined;
  readonly tokenEndpoint?: string | undefined;
  readonly revocationEndpoint?: string | undefined;
  readonly clientId: string;
  readonly clientSecretRef?: string | undefined;
  readonly scopes: readonly string[];
  readonly resource?: string | undefined;
  readonly mcpUrl?: string | undefined;
}

/** By name. Throws ConfigError naming what cannot be used. */
export function oauthProviders(file: ConfigFile): ReadonlyMap<string, OauthProvider> {
  return new Map(Object.entries(readSection(Section, providerSection(file, 'oauth'), 'providers.oauth')));
}

/**
 * What a daemon refuses to start with. Throws ConfigError naming the setting: one of the wrong shape, or an address that is
 * no public https one where those alone may be asked.
 */
export function checkOauthSettings(config: { readonly file: ConfigFile; readonly allowPrivateNetwork: boolean }): void {
  for (const [name, provider] of oauthProviders(config.file)) {
    for (const key of addresses) requirePublic(config, `providers.oauth.${name}.${key}`, provider[key]);
  }
}
const addresses = [
  'issuer',
  'authorizationEndpoint',
  'tokenEndpoint',
  'revocationEndpoint',
  'resource',
  'mcpUrl',
] as const;
