// Large JSON without a value for each of its parts. `checkJson` holds bytes against the grammar and its bounds and makes
// nothing of them; `readLazily` gives the value, whose large members are read when somebody asks for them, and never where
// nobody does. What they give is what `readPayload` gives for the same text, key by key.

import { TooDeep } from '../../domain/depth.ts';
import type { Json, JsonObject } from '../../domain/json.ts';
import { readPayload } from './number.ts';

/** Thrown for bytes that are no JSON. */
export class NotJson extends Error {}
/** Thrown for JSON of more values than it may have. */
export class TooMany extends Error {}

/** What is at most so long is read at once, together with what stands beside it. */
const eagerBytes = 16_384;

const quote = 0x22;
const backslash = 0x5c;
const comma = 0x2c;
const colon = 0x3a;
const openObject = 0x7b;
const closeObject = 0x7d;
const openList = 0x5b;
const closeList = 0x5d;

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
const textAt = (bytes: Uint8Array, from: number, to: number): string => decoder.decode(bytes.subarray(from, to));

const isSpace = (byte: number | undefined): boolean => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
const isDigit = (byte: number | undefined): boolean => byte !== undefined && byte >= 0x30 && byte <= 0x39;
const isHex = (byte: number | undefined): boolean =>
  isDigit(byte) || (byte !== undefined && (byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x66);
/** `"`, `\`, `/`, b, f, n, r, t */
const escapes = new Set([quote, backslash, 0x2f, 0x62, 0x66, 0x6e, 0x72, 0x74]);
const words = ['true', 'false', 'null'].map((word) => [...word].map((letter) => letter.charCodeAt(0)));

export interface JsonBounds {
  /** Levels of `{` and `[` inside each other, the outermost included. */
  readonly levels: number;
  /** Objects, lists, texts that are no keys, numbers and words, all in all. */
  readonly values: number;
}

/**
 * Holds bytes, which are UTF-8 without a mark, against the grammar of JSON. Throws NotJson, TooDeep, or TooMany: the first
 * of them that is met. Takes no memory to speak of, and time in proportion to the bytes.
 */
export function checkJson(bytes: Uint8Array, bounds: JsonBounds): void {
  new Checker(bytes, bounds).document();
}

class Checker {
  readonly #bytes: Uint8Array;
  readonly #bounds: JsonBounds;
  #at = 0;
  #values = 0;

  constructor(bytes: Uint8Array, bounds: JsonBounds) {
    this.#bytes = bytes;
    this.#bounds = bounds;
  }

  document(): void {
    this.#space();
    this.#value(0);
    this.#space();
    if (this.#at !== this.#bytes.length) throw new NotJson();
  }

  #space(): void {
    while (isSpace(this.#bytes[this.#at])) this.#at += 1;
  }

  #value(depth: number): void {
    this.#values += 1;
    if (this.#values > this.#bounds.values) throw new TooMany();
    const byte = this.#bytes[this.#at];
    if (byte === quote) this.#text();
    else if (byte === openObject) this.#members(depth + 1, closeObject);
    else if (byte === openList) this.#members(depth + 1, closeList);
    else if (byte === 0x2d || isDigit(byte)) this.#number();
    else this.#word(byte);
  }

  #members(depth: number, close: number): void {
    if (depth > this.#bounds.levels) throw new TooDeep();
    this.#at += 1;
    this.#space();
    if (this.#bytes[this.#at] === close) {
      this.#at += 1;
      return;
    }
    for (;;) {
      if (close === closeObject) this.#key();
      this.#value(depth);
      this.#space();
      const byte = this.#bytes[this.#at];
      this.#at += 1;
      if (byte === close) return;
      if (byte !== comma) throw new NotJson();
      this.#space();
    }
  }

  #key(): void {
    if (this.#bytes[this.#at] !== quote) throw new NotJson();
    this.#text();
    this.#space();
    if (this.#bytes[this.#at] !== colon) throw new NotJson();
    this.#at += 1;
    this.#space();
  }

  #text(): void {
    const bytes = this.#bytes;
    for (let at = this.#at + 1; at < bytes.length; at += 1) {
      const byte = bytes[at] as number;
      if (byte === quote) {
        this.#at = at + 1;
        return;
      }
      if (byte < 0x20) break;
      if (byte !== backslash) continue;
      at += 1;
      const escaped = bytes[at];
      if (escaped === 0x75) {
        if (![1, 2, 3, 4].every((digit) => isHex(bytes[at + digit]))) break;
        at += 4;
      } else if (escaped === undefined || !escapes.has(escaped)) break;
    }
    throw new NotJson();
  }

  #number(): void {
    const bytes = this.#bytes;
    if (bytes[this.#at] === 0x2d) this.#at += 1;
    if (bytes[this.#at] === 0x30) this.#at += 1;
    else this.#digits();
    if (bytes[this.#at] === 0x2e) {
      this.#at += 1;
      this.#digits();
    }
    if (((bytes[this.#at] ?? 0) | 0x20) !== 0x65) return;
    this.#at += 1;
    if (bytes[this.#at] === 0x2b || bytes[this.#at] === 0x2d) this.#at += 1;
    this.#digits();
  }

  #digits(): void {
    const from = this.#at;
    while (isDigit(this.#bytes[this.#at])) this.#at += 1;
    if (this.#at === from) throw new NotJson();
  }

  #word(first: number | undefined): void {
    const word = words.find((one) => one[0] === first);
    if (word === undefined || !word.every((letter, at) => this.#bytes[this.#at + at] === letter)) throw new NotJson();
    this.#at += word.length;
  }
}

/** The place behind a text that begins with the quote at `at`. The bytes are known to be JSON. */
function behindText(bytes: Uint8Array, at: number): number {
  for (let from = at + 1; ; ) {
    const end = bytes.indexOf(quote, from);
    let slashes = 0;
    while (bytes[end - 1 - slashes] === backslash) slashes += 1;
    if (slashes % 2 === 0) return end + 1;
    from = end + 1;
  }
}

/** The place behind the value that begins at `at`. The bytes are known to be JSON. */
function behindValue(bytes: Uint8Array, start: number): number {
  let depth = 0;
  for (let at = start; ; ) {
    const byte = bytes[at];
    if (byte === quote) at = behindText(bytes, at);
    else if (byte === openObject || byte === openList) {
      depth += 1;
      at += 1;
      continue;
    } else if (byte === closeObject || byte === closeList) {
      depth -= 1;
      at += 1;
    } else if (depth > 0) {
      // Numbers, words, spaces and what parts them.
      at += 1;
      continue;
    } else {
      while (at < bytes.length && !isSpace(bytes[at]) && ![comma, closeObject, closeList].includes(bytes[at] as number))
        at += 1;
    }
    if (depth === 0) return at;
  }
}

function behindSpace(bytes: Uint8Array, start: number): number {
  let at = start;
  while (isSpace(bytes[at])) at += 1;
  return at;
}

/**
 * The value of bytes that `checkJson` has passed, or that somebody wrote as JSON. A member of an object that takes over
 * 16 KiB is an accessor until it is read; it looks and prints as any other.
 */
export function readLazily(bytes: Uint8Array): Json {
  const from = behindSpace(bytes, 0);
  return valueOf(bytes, from, behindValue(bytes, from));
}

function valueOf(bytes: Uint8Array, from: number, to: number): Json {
  const first = bytes[from];
  if (to - from <= eagerBytes) return readPayload(textAt(bytes, from, to));
  if (first === openObject) return objectOf(bytes, from);
  if (first === openList) return listOf(bytes, from);
  if (first === quote && bytes.subarray(from, to).indexOf(backslash) === -1) return textAt(bytes, from + 1, to - 1);
  return readPayload(textAt(bytes, from, to));
}

/** Members in their order: those of `[from, to)` that are short together, as runs; each long one by itself. */
function eachMember(
  bytes: Uint8Array,
  open: number,
  isObject: boolean,
  take: {
    readonly run: (from: number, to: number) => void;
    readonly long: (key: string, from: number, to: number) => void;
  },
): void {
  let at = behindSpace(bytes, open + 1);
  let runFrom = at;
  const flush = (to: number): void => {
    if (to > runFrom) take.run(runFrom, to);
  };
  if (bytes[at] === closeObject || bytes[at] === closeList) return;
  for (let last = at; ; ) {
    const memberFrom = at;
    const keyTo = isObject ? behindText(bytes, at) : at;
    const from = isObject ? behindSpace(bytes, behindSpace(bytes, keyTo) + 1) : at;
    const to = behindValue(bytes, from);
    if (to - memberFrom > eagerBytes) {
      flush(last);
      take.long(isObject ? String(readPayload(textAt(bytes, memberFrom, keyTo))) : '', from, to);
      runFrom = to;
    } else if (to - runFrom > eagerBytes) {
      flush(last);
      runFrom = memberFrom;
    }
    last = to;
    const next = behindSpace(bytes, to);
    if (bytes[next] !== comma) return flush(last);
    at = behindSpace(bytes, next + 1);
    if (runFrom === to) runFrom = at;
  }
}

function objectOf(bytes: Uint8Array, open: number): JsonObject {
  const made: { [key: string]: Json } = {};
  const set = (key: string, value: Json): void => {
    // Never a setter's: not that of a prototype, nor that of a member which comes again.
    Object.defineProperty(made, key, { value, writable: true, enumerable: true, configurable: true });
  };
  eachMember(bytes, open, true, {
    run(from, to) {
      const members = readPayload(`{${textAt(bytes, from, to)}}`) as JsonObject;
      for (const key of Object.keys(members)) set(key, members[key] as Json);
    },
    long(key, from, to) {
      const get = (): Json => {
        const value = valueOf(bytes, from, to);
        set(key, value);
        return value;
      };
      Object.defineProperty(made, key, { get, enumerable: true, configurable: true });
    },
  });
  return made;
}

function listOf(bytes: Uint8Array, open: number): Json {
  const made: Json[] = [];
  eachMember(bytes, open, false, {
    run(from, to) {
      for (const value of readPayload(`[${textAt(bytes, from, to)}]`) as readonly Json[]) made.push(value);
    },
    long: (_key, from, to) => void made.push(valueOf(bytes, from, to)),
  });
  return made;
}

/** The members of an object that somebody wrote as JSON, in their order: each name, and where it and its value stand. */
export function* membersOf(
  bytes: Uint8Array,
): Generator<{ readonly key: string; readonly from: number; readonly valueFrom: number; readonly to: number }> {
  let at = behindSpace(bytes, behindSpace(bytes, 0) + 1);
  while (bytes[at] !== closeObject) {
    const keyTo = behindText(bytes, at);
    const valueFrom = behindSpace(bytes, behindSpace(bytes, keyTo) + 1);
    const to = behindValue(bytes, valueFrom);
    yield { key: String(readPayload(textAt(bytes, at, keyTo))), from: at, valueFrom, to };
    const next = behindSpace(bytes, to);
    at = bytes[next] === comma ? behindSpace(bytes, next + 1) : next;
  }
}
