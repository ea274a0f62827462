// Prices as dated data, and what a call's usage comes to under them.

import type { PriceRow, TokenRates } from '../../domain/price.ts';
import type { ModelProvider } from '../../domain/spec.ts';
import { parseUsd, type Usd } from './decimal.ts';
import type { Usage } from './usage.ts';

interface Rates {
  readonly input: Usd;
  readonly output: Usd;
  readonly cacheRead: Usd;
  readonly cacheWrite: Usd;
  readonly cacheWriteLong: Usd;
}
/** The price of one model on one day, per million tokens. */
export interface Price extends Rates {
  /** The row's first day. */
  readonly from: string;
  readonly webSearch: Usd;
  readonly above?: Rates & { readonly tokens: number };
}

const million = 1_000_000n;
const thousand = 1_000n;

/**
 * The price of a model at a moment: of the rows that have begun, those of the exact id before those with the longest
 * beginning of it, and of these the latest. Undefined where no row speaks of it: a price is never guessed.
 */
export function priceOf(
  table: readonly PriceRow[],
  provider: ModelProvider,
  model: string,
  at: Date,
): Price | undefined {
  const day = utcDay(at);
  let best: PriceRow | undefined;
  for (const row of table) {
    if (row.provider !== provider || row.from > day || !covers(row.model, model)) continue;
    if (best === undefined || rank(row) > rank(best) || (rank(row) === rank(best) && row.from >= best.from)) best = row;
  }
  if (best === undefined) return undefined;
  const { above } = best;
  return {
    from: best.from,
    webSearch: dollars(best.webSearch ?? '0'),
    ...rates(best),
    ...(above && { above: { tokens: above.tokens, ...rates(above) } }),
  };
}

/** `YYYY-MM-DD` in UTC. */
export const utcDay = (at: Date): string => at.toISOString().slice(0, 10);

const isPrefix = (model: string): boolean => model.endsWith('*');
const covers = (pattern: string, model: string): boolean =>
  isPrefix(pattern) ? model.startsWith(pattern.slice(0, -1)) : model === pattern;
const rank = (row: PriceRow): number => (isPrefix(row.model) ? row.model.length : Number.POSITIVE_INFINITY);

function rates(row: TokenRates): Rates {
  const [input, output, cacheRead, cacheWrite] = [row.input, row.output, row.cacheRead, row.cacheWrite].map(dollars);
  return {
    input: input as Usd,
    output: output as Usd,
    cacheRead: cacheRead as Usd,
    cacheWrite: cacheWrite as Usd,
    cacheWriteLong: dollars(row.cacheWriteLong ?? row.cacheWrite),
  };
}

function dollars(text: string): Usd {
  const value = parseUsd(text);
  if (value === undefined) throw new RangeError(`${text} is not an amount of US dollars`);
  return value;
}

/** What a call cost: what its provider says, else its tokens at this price; undefined where neither is known. */
export function costOf(usage: Usage, price: Price | undefined): Usd | undefined {
  const reported = usage.reportedUsd === undefined ? undefined : parseUsd(usage.reportedUsd);
  if (reported !== undefined) return reported;
  if (price === undefined) return undefined;
  const { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens } = usage;
  const long = Math.min(usage.cacheWriteLongTokens ?? 0, cacheWriteTokens);
  const at = ratesFor(price, inputTokens + cacheReadTokens + cacheWriteTokens);
  const sum =
    BigInt(inputTokens) * at.input +
    BigInt(outputTokens) * at.output +
    BigInt(cacheReadTokens) * at.cacheRead +
    BigInt(cacheWriteTokens - long) * at.cacheWrite +
    BigInt(long) * at.cacheWriteLong;
  const searches = (BigInt(usage.webSearches ?? 0) * price.webSearch + thousand - 1n) / thousand;
  return (sum + million - 1n) / million + searches;
}

/** What a call may come to: every token of its input at the dearest way of reading it, and all the output it may have. */
export function worstCost(price: Price, inputTokens: number, outputTokens: number): Usd {
  const at = ratesFor(price, inputTokens);
  const dearest = [at.input, at.cacheWrite, at.cacheWriteLong].reduce((a, b) => (a > b ? a : b));
  return (BigInt(inputTokens) * dearest + BigInt(outputTokens) * at.output + million - 1n) / million;
}

const ratesFor = (price: Price, inputTokens: number): Rates =>
  price.above !== undefined && inputTokens > price.above.tokens ? price.above : price;
