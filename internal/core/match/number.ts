// Numbers that a double cannot hold (docs/reference/http-api.md#conventions). A parsed payload carries such a number as the runtime's own
// raw JSON value: `JSON.stringify` gives back its digits, and here it compares by them. Every other number is a number.

import type { Json } from '../../domain/json.ts';
import { isHeld, isPrinted } from '../../domain/number.ts';

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
 * Parses JSON text, keeping every number that a double cannot hold, or does not print as it came, as its digits. Throws the parser's SyntaxError, or a
 * RangeError on text nested too deeply: whoever takes a body from outside answers 400 to both.
 */
export function readPayload(text: string): Json {
  if (!SUSPECT.test(text)) return JSON.parse(text) as Json;
  const revive = (_key: string, value: unknown, context: { readonly source?: string }): unknown =>
    typeof value === 'number' && context.source !== undefined && !isKept(context.source, value)
      ? raw.rawJSON(context.source)
      : value;
  return JSON.parse(text, revive as (key: string, value: unknown) => unknown) as Json;
}

const isKept = (text: string, value: number): boolean => isHeld(text, value) && isPrinted(text, value);

/** What such a number compares as: the double where that holds it, else its digits. Undefined for anything else. */
export function exactScalar(value: unknown): number | string | undefined {
  const text = exactText(value);
  return text === undefined || !isHeld(text, Number(text)) ? text : Number(text);
}

/** True for a number of a parsed payload that is kept by its digits. */
export const isExactNumber = (value: unknown): boolean => raw.isRawJSON(value);

/** The digits of such a number, as they were received; undefined for anything else. */
export const exactText = (value: unknown): string | undefined => (raw.isRawJSON(value) ? value.rawJSON : undefined);
