// One section of the SVC_CONFIG file, held against what it may be.

import { readFileSync } from 'node:fs';
import * as v from 'valibot';
import type { Json } from '../../domain/json.ts';
import { nearest } from '../../domain/nearest.ts';
import { hostFault } from '../net/net.ts';
import { ConfigError, type ConfigFile } from './file.ts';

/** What a section says, with its defaults; `key` names it. Throws ConfigError naming the key that cannot be used. */
export function readSection<S extends v.GenericSchema>(schema: S, value: unknown, key: string): v.InferOutput<S> {
  const parsed = v.safeParse(schema, value ?? {});
  if (parsed.success) return parsed.output;
  const [issue] = parsed.issues;
  const path = v.getDotPath(issue);
  const name = path === null ? key : `${key}.${path}`;
  if (issue.expected === 'never' && path !== null) {
    const near = nearest(String(issue.path?.at(-1)?.key), keysAt(schema, issue.path?.slice(0, -1) ?? []));
    const meant = near === undefined ? '' : `; did you mean ${[...name.split('.').slice(0, -1), near].join('.')}?`;
    throw new ConfigError(name, `cannot be used: it is no setting${meant}`);
  }
  throw new ConfigError(name, `cannot be used: ${issue.message}`);
}

/** What of a schema leads to another one. */
interface Walked {
  readonly entries?: { readonly [key: string]: Walked };
  readonly wrapped?: Walked;
  readonly value?: Walked;
  readonly item?: Walked;
}

/** The keys that there are at a place of a section; none where that depends on what else stands there. */
function keysAt(schema: unknown, path: readonly { readonly key: unknown }[]): string[] {
  let at = schema as Walked | undefined;
  for (const { key } of path) {
    while (at?.wrapped !== undefined) at = at.wrapped;
    at = at?.entries?.[String(key)] ?? at?.value ?? at?.item;
  }
  while (at?.wrapped !== undefined) at = at.wrapped;
  return Object.keys(at?.entries ?? {});
}

/** The section of a provider; undefined where there is none. */
export function providerSection({ providers }: ConfigFile, name: string): Json | undefined {
  const isMap = typeof providers === 'object' && providers !== null && !Array.isArray(providers);
  return isMap ? ((providers as { readonly [key: string]: Json })[name] ?? undefined) : undefined;
}

/** Throws ConfigError where an address is no public https one, and only those may be asked. */
export function requirePublic(
  { allowPrivateNetwork }: { readonly allowPrivateNetwork: boolean },
  key: string,
  address: string | undefined,
): void {
  if (address === undefined || allowPrivateNetwork) return;
  const url = new URL(address);
  if (url.protocol === 'https:' && hostFault(url.hostname) === null) return;
  throw new ConfigError(key, 'is not a public https address (SVC_ALLOW_PRIVATE_NETWORK allows it)');
}

/** An http or https address: nothing but scheme, host, port and path. */
export const isHttpAddress = (text: string): boolean => {
  const url = URL.canParse(text) ? new URL(text) : null;
  return (
    url !== null && /^https?:$/.test(url.protocol) && `${url.username}${url.password}${url.search}${url.hash}` === ''
  );
};

/** The secret in a file, without the line feed at its end and the byte order mark before it; undefined where there is none to read. */
export function secretInFile(path: string): string | undefined {
  try {
    const text = readFileSync(path, 'utf8')
      .replace(/^\uFEFF/, '')
      .replace(/\r?\n$/, '');
    return text === '' ? undefined : text;
  } catch {
    return undefined;
  }
}
