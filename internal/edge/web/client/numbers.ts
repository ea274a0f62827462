// Money, sizes and counts for people.

/** `$0.42`; `<$0.01`; `–` for nothing. */
export function usd(costUsd: string): string {
  const cost = Number(costUsd);
  if (!(cost > 0)) return '–';
  return cost < 0.01 ? '<$0.01' : `$${cost.toFixed(2)}`;
}

/** The same of a sum: `$0` for nothing. */
export const sumUsd = (costUsd: string): string => (Number(costUsd) > 0 ? usd(costUsd) : '$0');

/** `18k`, `1.2M`. */
export const tokens = (count: number): string =>
  new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 }).format(count);

/** `300 B`, `4.2 KiB`. */
export function bytes(size: number): string {
  if (size < 1_024) return `${size} B`;
  return size < 1_048_576 ? `${(size / 1_024).toFixed(1)} KiB` : `${(size / 1_048_576).toFixed(1)} MiB`;
}
