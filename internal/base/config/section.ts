// One section of the SVC_CONFIG file, held against what it may be.

import { readFileSync } from 'node:fs';
import * as v from 'valibot';
import type { Json } from '../../domain/json.ts';
import { hostFault } from '../net/net.ts';
import { ConfigError, type ConfigFile } from './file.ts';

/** What a section says, with its defaults; `key` names it. Throws ConfigError naming the key that cannot be used. */
export function readSection<S extends v.GenericSchema>(schema: S, value: unknown, key: string): v.InferOutput<S> {
  const parsed = v.safeParse(schema, value ?? {});
  if (parsed.success) return parsed.output;
  const [issue] = parsed.issues;
  const path = v.getDotPath(issue);
  throw new ConfigError(path === null ? key : `${key}.${path}`, `cannot be used: ${issue.message}`);
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
