// The `providers.model` section of the SVC_CONFIG file: where each model provider is, where its key is, what it charges.
// A key is never written into the file: it is named, as a file, an environment variable or a secret.

import { isAbsolute, resolve } from 'node:path';
import * as v from 'valibot';
import type { PriceRow } from '../../domain/price.ts';
import { type ModelProvider, providers, resourceNamePattern } from '../../domain/spec.ts';
import { Address } from './address.ts';
import type { ConfigFile } from './file.ts';
import { defaultPrices } from './prices.ts';
import { providerSection, readSection } from './section.ts';

/** Where a provider's key is. */
export type KeyPlace =
  | { readonly kind: 'file'; readonly path: string }
  | { readonly kind: 'env'; readonly name: string }
  /** A secret of the session's project, else of its organization. */
  | { readonly kind: 'secret'; readonly name: string };

export interface ModelSettings {
  /** Addresses that replace the providers' own. */
  readonly addresses: { readonly [provider in ModelProvider]?: string | undefined };
  readonly keys: { readonly [provider in ModelProvider]: KeyPlace };
  /** The file's rows after those that ship: of equal ones the last counts. */
  readonly prices: readonly PriceRow[];
}

const Provider = v.pipe(
  v.strictObject({
    /** A path in it stays in front of the provider's own (`…/v1/messages`). */
    baseUrl: v.optional(Address),
    keyFile: v.optional(v.pipe(v.string(), v.minLength(1))),
    keyEnv: v.optional(v.pipe(v.string(), v.regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'the name of an environment variable'))),
    keySecretRef: v.optional(v.pipe(v.string(), v.regex(resourceNamePattern))),
  }),
  v.check(
    ({ keyFile, keyEnv, keySecretRef }) =>
      [keyFile, keyEnv, keySecretRef].filter((one) => one !== undefined).length <= 1,
    'takes one of keyFile, keyEnv and keySecretRef',
  ),
);
const Dollars = v.pipe(
  v.string('a decimal string, not a number'),
  v.regex(/^\d{1,10}(\.\d{1,12})?$/, 'US dollars for a million tokens, as a decimal string'),
);
const rates = {
  input: Dollars,
  output: Dollars,
  cacheRead: Dollars,
  cacheWrite: Dollars,
  cacheWriteLong: v.exactOptional(Dollars),
};
const isDay = (text: string): boolean =>
  /^\d{4}-\d{2}-\d{2}$/.test(text) && new Date(`${text}T00:00:00Z`).toJSON()?.slice(0, 10) === text;
const Price = v.strictObject({
  provider: v.picklist(providers),
  model: v.pipe(v.string(), v.regex(/^[^*\s]{0,255}[^\s]$/, 'a model id, or its beginning and *')),
  from: v.pipe(v.string(), v.check(isDay, 'a day, YYYY-MM-DD')),
  ...rates,
  webSearch: v.exactOptional(Dollars),
  above: v.exactOptional(v.strictObject({ tokens: v.pipe(v.number(), v.integer(), v.minValue(1)), ...rates })),
});
const Section = v.strictObject({
  ...v.entriesFromList(providers, v.optional(Provider)),
  prices: v.optional(v.array(Price), []),
});

/** `SVC_PROVIDER_A_KEY`, …: where a key is when nothing says otherwise. */
const defaultEnv = (provider: ModelProvider): string => `SVC_${provider.toUpperCase().replace('-', '_')}_KEY`;

/** Relative key files count from `base`, the directory of the file. Throws ConfigError naming what cannot be used. */
export function modelSettings(file: ConfigFile, base: string): ModelSettings {
  const output = readSection(Section, providerSection(file, 'model'), 'providers.model');
  const each = <T>(of: (provider: ModelProvider) => T) =>
    Object.fromEntries(providers.map((provider) => [provider, of(provider)])) as { [provider in ModelProvider]: T };
  return {
    addresses: each((provider) => output[provider]?.baseUrl),
    keys: each((provider) => {
      const { keyFile, keySecretRef, keyEnv } = output[provider] ?? {};
      if (keyFile !== undefined) return { kind: 'file', path: isAbsolute(keyFile) ? keyFile : resolve(base, keyFile) };
      if (keySecretRef !== undefined) return { kind: 'secret', name: keySecretRef };
      return { kind: 'env', name: keyEnv ?? defaultEnv(provider) };
    }),
    prices: [...defaultPrices, ...output.prices],
  };
}
