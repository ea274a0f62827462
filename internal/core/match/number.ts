// Numbers that a double cannot hold (docs/reference/http-api.md#conventions). A parsed payload carries such a number as the runtime's own
// raw JSON value: `JSON.stringify` gives back its digits, and here it compares by them. Every other number is a number.

import type { Json } from '../../domain/json.ts';
import { hasEscapedKey, readValues } from '../../domain/json-text.ts';
import { isHeld, isPrinted } from '../../domain/number.ts';

/** The language's raw JSON values, which the type library does not know yet. */
const raw = JSON as unknown as {
  isRawJSON(value: unknown): value is { readonly rawJSON: string };
};

/**
 * A number in value position that may be too long for a double: 16 digits or more, or an exponent. Fewer digits without
 * one always come back as they were written. That it may also meet the inside of a string costs time alone.
 */
const suspect = /(?:^|[:,[])\s*-?(?:[\d.]{16}|[\d.]+[eE])/;

/**
 * Parses JSON text, keeping every number that a double cannot hold, or does not print as it came, as its digits. Throws the
 * parser's SyntaxError, or a RangeError on text nested too deeply: whoever takes a body from outside answers 400 to both.
 */
export function readPayload(text: string): Json {
  const plain = JSON.parse(text) as Json;
  return suspect.test(text) || hasEscapedKey(text) ? readValues(text, isKept) : plain;
}

/** The same, for printing: every number comes out as it was written, also one that is printed in another way. */
export function readPrintable(text: string): Json {
  JSON.parse(text);
  return readValues(text, (written, value) => String(value) === written);
}

/** So many digits, a point and a sign included, always come back as they were written where there is no exponent. */
const shortMax = 15;

const isKept = (text: string, value: number): boolean =>
  (text.length <= shortMax && !text.includes('e') && !text.includes('E')) ||
  String(value) === text ||
  (isHeld(text, value) && isPrinted(text, value));

/** What such a number compares as: the double where that holds it, else its digits. Undefined for anything else. */
export function exactScalar(value: unknown): number | string | undefined {
  const text = exactText(value);
  return text === undefined || !isHeld(text, Number(text)) ? text : Number(text);
}

/** True for a number of a parsed payload that is kept by its digits. */
export const isExactNumber = (value: unknown): boolean => raw.isRawJSON(value);

/** The digits of such a number, as they were received; undefined for anything else. */
export const exactText = (value: unknown): string | undefined => (raw.isRawJSON(value) ? value.rawJSON : undefined);
