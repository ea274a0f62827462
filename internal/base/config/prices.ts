// The shipped prices of model calls: data with a date, last held against what the providers publish on 2026-11-20. List
// prices of the standard class of service. What is not here has no known price (docs/reference/sessions.md#states): a spend cap then
// refuses it until the operator adds a row. Provider-c tells the cost of each call itself and needs no row.

import type { PriceRow, TokenRates } from '../../domain/price.ts';
import type { ModelProvider } from '../../domain/spec.ts';

/** First day of a price that has not changed since there is a table. */
const always = '2025-01-01';

/** A row for the id, and one for its dated snapshots. */
const rows = (
  provider: ModelProvider,
  from: string,
  id: string,
  rates: TokenRates & Pick<PriceRow, 'above'>,
): PriceRow[] => [id, `${id}-20*`].map((model) => ({ provider, model, from, ...rates, webSearch: '10' }));

/** Input, reads from the cache, writes to it for five minutes and for an hour, output. */
const rates = (input: string, cacheRead: string, cacheWrite: string, cacheWriteLong: string, output: string) => ({
  input,
  output,
  cacheRead,
  cacheWrite,
  cacheWriteLong,
});
/** Writes to the cache are not charged apart. */
const simple = (input: string, cacheRead: string, output: string) => ({ input, output, cacheRead, cacheWrite: input });

const opus = rates('5', '0.5', '6.25', '10', '25');
const sonnet = rates('3', '0.3', '3.75', '6', '15');

export const defaultPrices: readonly PriceRow[] = [
  ...['claude-opus-4-5', 'claude-opus-4-6', 'claude-opus-4-7', 'claude-opus-4-8', 'claude-opus-5'].flatMap((id) =>
    rows('provider-a', always, id, opus),
  ),
  ...rows('provider-a', always, 'claude-opus-5-5', rates('4', '0.2', '5', '8', '20')),
  ...rows('provider-a', always, 'claude-fable-5', rates('10', '1', '12.5', '20', '50')),
  ...rows('provider-a', always, 'claude-fable-5-1', rates('10', '0.25', '12.5', '20', '50')),
  // Above 200,000 tokens in the long window that it was offered with.
  ...rows('provider-a', always, 'claude-sonnet-4-5', {
    ...sonnet,
    above: { tokens: 200_000, ...rates('6', '0.6', '7.5', '12', '22.5') },
  }),
  ...rows('provider-a', always, 'claude-sonnet-4-6', sonnet),
  ...rows('provider-a', always, 'claude-sonnet-5', rates('2', '0.2', '2.5', '4', '10')),
  ...rows('provider-a', always, 'claude-sonnet-5-5', rates('2', '0.2', '2.5', '4', '10')),
  ...rows('provider-a', '2026-10-07', 'claude-sonnet-5-5', rates('2', '0.1', '2.5', '4', '10')),
  ...rows('provider-a', always, 'claude-haiku-4-5', rates('1', '0.1', '1.25', '2', '5')),
  ...rows('provider-a', always, 'claude-haiku-5-5', {
    ...rates('0.1', '0.01', '0.125', '0.2', '0.5'),
    above: { tokens: 100_000, ...rates('0.5', '0.05', '0.625', '1', '2.5') },
  }),
  ...['gpt-5', 'gpt-5-codex', 'gpt-5.1', 'gpt-5.1-codex'].flatMap((id) =>
    rows('provider-b', always, id, simple('1.25', '0.125', '10')),
  ),
  ...['gpt-5.2', 'gpt-5.2-codex', 'gpt-5.3-codex'].flatMap((id) =>
    rows('provider-b', always, id, simple('1.75', '0.175', '14')),
  ),
  ...rows('provider-b', always, 'gpt-5-mini', simple('0.25', '0.025', '2')),
  ...rows('provider-b', always, 'codex-mini-latest', simple('1.5', '0.375', '6')),
  ...rows('provider-b', always, 'o3', simple('2', '0.5', '8')),
  ...rows('provider-b', always, 'o4-mini', simple('1.1', '0.275', '4.4')),
];
