// The `templates` section of the SVC_CONFIG file: where managed templates (`@scope/name@version/subpath`) come from.
// One source for each scope. `@svc/templates` ships with the service and needs no entry.

import * as v from 'valibot';

const Scope = v.pipe(v.string(), v.regex(/^@[a-z0-9][a-z0-9._~-]{0,127}$/, 'a scope such as @acme'));

const isRegistry = (text: string): boolean => {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return (
    (url?.protocol === 'https:' || url?.protocol === 'http:') &&
    url.username === '' &&
    url.password === '' &&
    url.search === ''
  );
};

const Directory = v.strictObject({
  scope: Scope,
  /** Holds one directory for each package: `<directory>/<name>/…`. */
  directory: v.pipe(v.string(), v.minLength(1)),
});
const Registry = v.strictObject({
  scope: Scope,
  /** Base URL of an npm registry, without credentials. */
  registry: v.pipe(v.string(), v.check(isRegistry, 'an http(s) URL without credentials or query')),
  /** Name of the secret that holds the registry's token. */
  tokenSecretRef: v.optional(v.pipe(v.string(), v.regex(/^[A-Za-z0-9_.-]{1,128}$/))),
});

export const TemplatesSection = v.pipe(
  v.array(v.union([Directory, Registry], 'needs scope and either directory or registry')),
  v.maxLength(64),
  v.check((list) => new Set(list.map((source) => source.scope)).size === list.length, 'has two sources for one scope'),
);
export type TemplatesSection = v.InferOutput<typeof TemplatesSection>;
