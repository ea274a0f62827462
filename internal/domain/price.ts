// Prices of model calls as they are written down.

import type { ModelProvider } from './spec.ts';

/** US dollars for a million tokens, as decimal strings. */
export interface TokenRates {
  readonly input: string;
  readonly output: string;
  readonly cacheRead: string;
  readonly cacheWrite: string;
  /** Writes to the cache that last an hour; default the price of others. */
  readonly cacheWriteLong?: string;
}
/** One row of the table. */
export interface PriceRow extends TokenRates {
  readonly provider: ModelProvider;
  /** A model id; with a `*` at its end, every id that starts so. */
  readonly model: string;
  /** First UTC day of the price, `YYYY-MM-DD`. */
  readonly from: string;
  /** For a thousand searches that the provider makes itself; absent: they are not charged apart. */
  readonly webSearch?: string;
  /** Other prices for a call whose input, caches included, is more than so many tokens. */
  readonly above?: TokenRates & { readonly tokens: number };
}
