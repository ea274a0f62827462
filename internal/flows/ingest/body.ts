// One reading of a received body, whatever its Content-Type: a JSON object in UTF-8 that nests at most 64 levels.

import { isUtf8 } from 'node:buffer';
import { isExactNumber, readPayload, readPrintable } from '../../core/match/match.ts';
import { parseWithin, TooDeep } from '../../domain/depth.ts';
import { Fault } from '../../domain/fault.ts';
import type { JsonObject } from '../../domain/json.ts';

/** Levels of `{` and `[`, the outermost included (docs/reference/webhook-endpoints.md#answers). */
const depthMax = 64;

const refuse = (what: string): Fault => new Fault('invalid', 'invalid-body', `The body ${what}.`);

/** The text of received bytes; a byte order mark is dropped. Throws Fault `invalid`. */
export function textOf(raw: Buffer): string {
  if (!isUtf8(raw)) throw refuse('is not UTF-8');
  const text = raw.toString('utf8');
  return text.startsWith('\uFEFF') ? text.slice(1) : text;
}

function parsed(text: string, read: (text: string) => unknown): unknown {
  try {
    return read(text);
  } catch {
    throw refuse('is not JSON');
  }
}

/**
 * Parses a received body; a number that a double cannot hold keeps its digits, unless `read` is another than that. Throws
 * Fault `invalid`; its text never quotes the body.
 */
export function parseBody(raw: Buffer, read: (text: string) => unknown = readPayload): JsonObject {
  let body: unknown;
  try {
    body = parseWithin(raw, depthMax, () => parsed(textOf(raw), read));
  } catch (error) {
    throw error instanceof TooDeep ? refuse(`nests over ${depthMax} levels`) : error;
  }
  // A number that a double does not hold is kept in an object of its own, which is none that was sent.
  const isObject = typeof body === 'object' && body !== null && !Array.isArray(body) && !isExactNumber(body);
  if (!isObject) throw refuse('is not a JSON object');
  return body as JsonObject;
}

/**
 * A stored payload for printing with `JSON.stringify`: each number comes out as it was written, also one that a double
 * cannot hold (a big integer, 1e400, -0).
 */
export const printable = (payload: Buffer): unknown => readPrintable(textOf(payload));
