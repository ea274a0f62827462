// Numbers that a double cannot hold (contract, section 3). A parsed payload carries such a number as the runtime's own
// raw JSON value: `JSON.stringify` gives back its digits, and here it compares by them. Every other number is a number.

import type { Json } from '../../words/json.ts';

/** The language's raw JSON values, which the type library does not know yet. */
const raw = JSON as unknown as {
  rawJSON(text: string): object;
  isRawJSON(value: unknown): value is { readonly rawJSON: string };
};

/**
 * A number in value position that may be too long for a double: 16 digits or more, or an exponent. Fewer digits without
 * one always come back as they were written. That it may also meet the inside of a string costs time alone.
 */
const SUSPECT = /(?:^|[:,[])\s*-?(?:[\d.]{16}|[\d.]+[eE])/;

/**
 * Parses JSON text, keeping every number that a double cannot hold as its digits. Throws the parser's SyntaxError, or a
 * RangeError on text nested too deeply: whoever takes a body from outside answers 400 to both.
 */
export function readPayload(text: string): Json {
  if (!SUSPECT.test(text)) return JSON.parse(text) as Json;
  const revive = (_key: string, value: unknown, context: { readonly source?: string }): unknown =>
    typeof value === 'number' && context.source !== undefined && !isHeld(context.source, value)
      ? raw.rawJSON(context.source)
      : value;
  return JSON.parse(text, revive as (key: string, value: unknown) => unknown) as Json;
}

/** True for a number of a parsed payload that is kept by its digits. */
export const isExactNumber = (value: unknown): boolean => raw.isRawJSON(value);

/** The digits of such a number, as they were received; undefined for anything else. */
export const exactText = (value: unknown): string | undefined => (raw.isRawJSON(value) ? value.rawJSON : undefined);

/**
 * True where the double, printed to as many significant digits as the text has, is the same decimal: `0.1`, `1e23` and
 * `0.10000000000000001` are held, `9007199254740993` and `1e400` are not.
 */
function isHeld(text: string, value: number): boolean {
  if (!Number.isFinite(value)) return false;
  const wanted = decimal(text);
  if (wanted.digits.length > 100) return false; // More than a double has, or than it can be printed to.
  const held = decimal(wanted.digits === '' ? String(value) : value.toPrecision(wanted.digits.length));
  return wanted.digits === held.digits && wanted.exponent === held.exponent;
}

/** Significant digits without zeros at either end, and the power of ten that they are multiplied by; zero has none. */
function decimal(text: string): { readonly digits: string; readonly exponent: number } {
  const [mantissa = '', power = '0'] = text.replace(/^-/, '').toLowerCase().split('e');
  const [whole = '', fraction = ''] = mantissa.split('.');
  const digits = `${whole}${fraction}`.replace(/^0+/, '');
  const trimmed = trimEnd(digits);
  if (trimmed === '') return { digits: '', exponent: 0 };
  return { digits: trimmed, exponent: Number(power) - fraction.length + (digits.length - trimmed.length) };
}

/** Without its last zeros; a regular expression would take quadratic time on many zeros and one digit behind them. */
function trimEnd(digits: string): string {
  let end = digits.length;
  while (end > 0 && digits[end - 1] === '0') end -= 1;
  return digits.slice(0, end);
}
