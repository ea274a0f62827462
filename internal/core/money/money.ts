// Money (docs/reference/sessions.md#spending): what a model call costs under a dated table of prices, and whether a spend cap
// lets the next one through. Amounts are exact decimals; there is no float in this room. A price that is not in the table is
// unknown, and an unknown price under a cap refuses: it is never guessed. It reads no ledger and keeps no sums: they are
// handed in.

import type { PriceRow } from '../../domain/price.ts';
import type { ModelSpec } from '../../domain/spec.ts';
import { hasCaps, type SpendCaps } from './caps.ts';
import { priceOf } from './prices.ts';

export { type CapDecision, type CapRefusal, decideCaps, hasCaps, type SpendCaps, type Spent } from './caps.ts';
export { parseUsd, printUsd, type Usd } from './decimal.ts';
export { costOf, priceOf, utcDay, worstCost } from './prices.ts';
export type { Usage } from './usage.ts';

/** The one provider that tells with each answer what it cost. */
const tellsCost = 'provider-c';

/** Ids that a session may call: the declared one, then its fallbacks, or what its gateway object routes to. */
export const modelIds = (model: ModelSpec): readonly string[] => [
  model.id,
  ...(model.fallbacks ?? []).map(({ id }) => id),
  ...(model.gateway?.models ?? []),
];

/**
 * Why an agent with these caps cannot be launched on this model, or undefined: under a cap the price of every model that
 * it may call has to be known.
 */
export function unknownPrice(
  table: readonly PriceRow[],
  model: ModelSpec,
  caps: SpendCaps | undefined,
  at: Date,
): string | undefined {
  if (!hasCaps(caps) || model.provider === tellsCost) return undefined;
  const unknown = modelIds(model).filter((id) => priceOf(table, model.provider, id, at) === undefined);
  if (unknown.length === 0) return undefined;
  return (
    `The price of ${unknown.join(', ')} (${model.provider}) is not known, and a spend cap is set: ` +
    'add it under providers.model.prices of the configuration, or remove spendCaps.'
  );
}
