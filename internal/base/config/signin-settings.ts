// The `signIn` section of the SVC_CONFIG file: which providers say who a person is, which roles their groups give, and how
// long a browser stays signed in. Secrets are named, as a file or a secret of the first organization.

import { isAbsolute, resolve } from 'node:path';
import * as v from 'valibot';
import { isLoopback } from '../../domain/loopback.ts';
import { resourceNamePattern } from '../../domain/spec.ts';
import { ConfigError, type ConfigFile } from './file.ts';
import { readSection, secretInFile } from './section.ts';

const name = v.pipe(v.string(), v.regex(/^[a-z0-9][a-z0-9-]{0,31}$/, '1 to 32 of a-z, 0-9 and -'));
const label = v.optional(v.pipe(v.string(), v.minLength(1), v.maxLength(100)));
const Address = v.pipe(
  v.string(),
  v.check((text) => {
    const url = URL.canParse(text) ? new URL(text) : undefined;
    if (url === undefined || `${url.username}${url.password}${url.search}${url.hash}` !== '') return false;
    return url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url.hostname));
  }, 'an https URL without credentials or query (http on loopback only)'),
);
const client = {
  clientId: v.pipe(v.string(), v.minLength(1), v.maxLength(500)),
  clientSecretFile: v.optional(v.pipe(v.string(), v.minLength(1))),
  clientSecretRef: v.optional(v.pipe(v.string(), v.regex(resourceNamePattern))),
};
const seconds = (most: number) =>
  v.optional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(most, `at most ${most}`)), most);
const Section = v.strictObject({
  oidc: v.optional(
    v.pipe(
      v.array(
        v.strictObject({
          name,
          label,
          issuer: Address,
          ...client,
          scopes: v.optional(v.array(v.pipe(v.string(), v.regex(/^[\x21\x23-\x5b\x5d-\x7e]+$/))), [
            'openid',
            'profile',
            'email',
          ]),
          groupsClaim: v.optional(v.pipe(v.string(), v.minLength(1)), 'groups'),
        }),
      ),
      v.maxLength(20),
    ),
    [],
  ),
  github: v.optional(
    v.strictObject({
      baseUrl: v.optional(Address, 'https://github.com'),
      apiUrl: v.optional(Address, 'https://api.github.com'),
      ...client,
      allowOrgs: v.optional(v.pipe(v.array(v.pipe(v.string(), v.minLength(1))), v.minLength(1))),
    }),
  ),
  roles: v.optional(
    v.array(
      v.strictObject({
        group: v.pipe(v.string(), v.minLength(1), v.maxLength(500)),
        org: v.pipe(v.string(), v.minLength(1)),
        project: v.optional(v.pipe(v.string(), v.minLength(1))),
        role: v.picklist(['admin', 'member', 'operator', 'viewer']),
      }),
    ),
    [],
  ),
  tokens: v.optional(v.boolean(), true),
  sessions: v.optional(v.strictObject({ idleSeconds: seconds(7_200), absoluteSeconds: seconds(43_200) }), {}),
});

export type ClientSecret =
  | { readonly kind: 'file'; readonly path: string }
  | { readonly kind: 'secret'; readonly name: string };
interface Common {
  readonly name: string;
  readonly label: string;
  readonly clientId: string;
  readonly secret: ClientSecret;
}
export interface OidcMethod extends Common {
  readonly kind: 'oidc';
  readonly issuer: string;
  readonly scopes: readonly string[];
  readonly groupsClaim: string;
}
export interface GithubMethod extends Common {
  readonly kind: 'github';
  readonly baseUrl: string;
  readonly apiUrl: string;
  readonly allowOrgs?: readonly string[];
}
export type SigninMethod = OidcMethod | GithubMethod;
type GivenRole = v.InferOutput<typeof Section>['roles'][number];
export interface SigninSettings {
  readonly methods: readonly SigninMethod[];
  readonly roles: readonly GivenRole[];
  /** Whether API tokens sign in; the one of the data directory always does. */
  readonly tokens: boolean;
  readonly idleSeconds: number;
  readonly absoluteSeconds: number;
}

/** Names below /signin that are no method. */
const taken = ['callback', 'error', 'no-role', 'token', 'handoff', 'github'];
const known = new WeakMap<ConfigFile, SigninSettings>();

/** Throws ConfigError naming the key that cannot be used. */
export function signinSettings(config: { readonly file: ConfigFile; readonly fileDir: string }): SigninSettings {
  const before = known.get(config.file);
  if (before !== undefined) return before;
  const { oidc, github, roles, tokens, sessions } = readSection(Section, config.file.signIn, 'signIn');
  const methods: SigninMethod[] = [];
  for (const [at, one] of oidc.entries()) {
    const key = `signIn.oidc.${at}`;
    if (taken.includes(one.name) || methods.some((other) => other.name === one.name))
      throw new ConfigError(`${key}.name`, `cannot be used: ${one.name} is taken`);
    const { issuer, scopes, groupsClaim } = one;
    if (!scopes.includes('openid')) throw new ConfigError(`${key}.scopes`, 'must name openid');
    methods.push({ kind: 'oidc', ...common(one, one.name, key, config.fileDir), issuer, scopes, groupsClaim });
  }
  if (github !== undefined) {
    const { baseUrl, apiUrl, allowOrgs } = github;
    const part = { ...github, label: 'GitHub' };
    methods.push({
      kind: 'github',
      ...common(part, 'github', 'signIn.github', config.fileDir),
      baseUrl,
      apiUrl,
      ...(allowOrgs !== undefined && { allowOrgs }),
    });
  }
  for (const [at, { project, role }] of roles.entries()) {
    const fits = project === undefined ? ['admin', 'member'] : ['admin', 'operator', 'viewer'];
    if (!fits.includes(role)) throw new ConfigError(`signIn.roles.${at}.role`, `must be one of ${fits.join(', ')}`);
  }
  const settings = { methods, roles, tokens, ...sessions };
  known.set(config.file, settings);
  return settings;
}

function common(
  given: {
    readonly label?: string | undefined;
    readonly clientId: string;
    readonly clientSecretFile?: string | undefined;
    readonly clientSecretRef?: string | undefined;
  },
  ownName: string,
  key: string,
  base: string,
): Common {
  const { clientSecretFile: file, clientSecretRef: ref } = given;
  if ((file === undefined) === (ref === undefined))
    throw new ConfigError(key, 'needs clientSecretFile or clientSecretRef, and one of them only');
  const path = file === undefined || isAbsolute(file) ? file : resolve(base, file);
  if (path !== undefined && secretInFile(path) === undefined)
    throw new ConfigError(`${key}.clientSecretFile`, 'cannot be read, or is empty');
  const secret: ClientSecret = path === undefined ? { kind: 'secret', name: ref ?? '' } : { kind: 'file', path };
  return { name: ownName, label: given.label ?? ownName, clientId: given.clientId, secret };
}
