// One reading of a received body, whatever its Content-Type: a JSON object in UTF-8 that nests at most 64 levels.

import { isUtf8 } from 'node:buffer';
import { Fault } from '../../words/fault.ts';
import type { JsonObject } from '../../words/json.ts';

/** Levels of `{` and `[`, the outermost included (contract, section 3). */
const depthMax = 64;

const refuse = (what: string): Fault => new Fault('invalid', 'invalid-body', `The body ${what}.`);

/** The text of received bytes; a byte order mark is dropped. Throws Fault `invalid`. */
function textOf(raw: Buffer): string {
  if (!isUtf8(raw)) throw refuse('is not UTF-8');
  const text = raw.toString('utf8');
  return text.startsWith('\uFEFF') ? text.slice(1) : text;
}

/** True where there are enough brackets to nest too deep; most bodies have not, and are not walked. */
function mayBeDeep(raw: Buffer): boolean {
  let count = 0;
  for (const bracket of [0x7b, 0x5b]) {
    for (let at = raw.indexOf(bracket); at !== -1; at = raw.indexOf(bracket, at + 1)) {
      count += 1;
      if (count > depthMax) return true;
    }
  }
  return false;
}

/** Before parsing, on the bytes: a parser must not be made to recurse by what it is about to refuse. */
function requireShallow(raw: Buffer): void {
  if (!mayBeDeep(raw)) return;
  let depth = 0;
  let quoted = false;
  for (let at = 0; at < raw.length; at += 1) {
    const byte = raw[at];
    if (quoted) {
      if (byte === 0x5c) at += 1;
      else if (byte === 0x22) quoted = false;
    } else if (byte === 0x22) quoted = true;
    else if (byte === 0x7b || byte === 0x5b) {
      depth += 1;
      if (depth > depthMax) throw refuse(`nests over ${depthMax} levels`);
    } else if (byte === 0x7d || byte === 0x5d) depth -= 1;
  }
}

/** Parses a received body. Throws Fault `invalid`; its text never quotes the body. */
export function parseBody(raw: Buffer): JsonObject {
  requireShallow(raw);
  const text = textOf(raw);
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    throw refuse('is not JSON');
  }
  if (body === null || typeof body !== 'object' || Array.isArray(body)) throw refuse('is not a JSON object');
  return body as JsonObject;
}

/** What the language has, and its type declarations do not know yet. */
interface SourceText {
  parse(text: string, revive: (key: string, value: unknown, context: { readonly source?: string }) => unknown): unknown;
  rawJSON(text: string): unknown;
}
const exact = JSON as unknown as SourceText;

/**
 * A stored payload for printing with `JSON.stringify`: each number comes out as it was written, also one that a double
 * cannot hold (a big integer, 1e400, -0).
 */
export function printable(payload: Buffer): unknown {
  return exact.parse(textOf(payload), (_key, value, { source }) =>
    typeof value === 'number' && source !== undefined && String(value) !== source ? exact.rawJSON(source) : value,
  );
}
