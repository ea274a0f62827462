// US dollars without floats: integers of 1e-18 dollar. A price per million tokens with twelve decimals times any number
// of tokens is exact in them.

import { withoutEnd } from '../../domain/text.ts';

/** US dollars times 10^18. */
export type Usd = bigint;

const scale = 18;
const one: Usd = 10n ** BigInt(scale);
const decimal = /^(\d{1,30})(?:\.(\d{1,60}))?(?:[eE]([+-]?\d{1,3}))?$/;

/**
 * A nonnegative decimal string, also in the exponent form that numbers print in. Digits beyond the eighteenth are rounded
 * up, so that nothing that costs anything costs nothing. Undefined for what is no such number, and for more than 30 digits
 * or an exponent past any amount.
 */
export function parseUsd(text: string): Usd | undefined {
  const match = decimal.exec(text);
  if (match === null) return undefined;
  const [, whole = '', fraction = '', exponent = '0'] = match;
  const digits = BigInt(whole + fraction);
  const shift = scale - fraction.length + Number(exponent);
  if (shift > 60) return digits === 0n ? 0n : undefined;
  if (shift >= 0) return digits * 10n ** BigInt(shift);
  const divisor = 10n ** BigInt(-shift);
  return (digits + divisor - 1n) / divisor;
}

/** The exact value, without trailing zeros: `0`, `12.5`, `0.000000000000000001`. */
export function printUsd(value: Usd): string {
  if (value < 0n) return `-${printUsd(-value)}`;
  const fraction = withoutEnd((value % one).toString().padStart(scale, '0'), '0');
  return fraction === '' ? `${value / one}` : `${value / one}.${fraction}`;
}

/** For people: the exact value to the cent, or to the first two digits that are not zero; always rounded up. */
export function roundUsd(value: Usd): string {
  if (value <= 0n) return printUsd(value);
  const digits = value.toString().length;
  const unit = 10n ** BigInt(Math.max(0, Math.min(scale - 2, digits - 2)));
  const text = printUsd(((value + unit - 1n) / unit) * unit);
  return /^\d+\.\d$/.test(text) ? `${text}0` : text;
}
