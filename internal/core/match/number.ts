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
const suspect = /(?:^|[:,[])\s*-?(?:[\d.]{16}|[\d.]+[eE])/;

/**
 * Parses JSON text, keeping every number that a double cannot hold, or does not print as it came, as its digits. Throws the parser's SyntaxError, or a
 * RangeError on text nested too deeply: whoever takes a body from outside answers 400 to both.
 */
export function readPayload(text: string): Json {
  const plain = JSON.parse(text) as Json;
  return suspect.test(text) ? new ExactReader(text, isKept).value() : plain;
}

/** The same, for printing: every number comes out as it was written, also one that is printed in another way. */
export function readPrintable(text: string): Json {
  JSON.parse(text);
  return new ExactReader(text, (written, value) => String(value) === written).value();
}

/** Where a number ends: at what parts values, or at the end of the text. */
const number = /[-+.\deE]+/y;
const space = /[ \n\r\t]*/y;
/** So many digits, a point and a sign included, always come back as they were written where there is no exponent. */
const shortMax = 15;

/**
 * Makes values of text that is known to be JSON. The parser's own way to see how a number was written calls a function
 * for every value with an object of its own, and takes an event loop six times as long.
 */
class ExactReader {
  readonly #text: string;
  readonly #isKept: (written: string, value: number) => boolean;
  #at = 0;

  constructor(text: string, keeps: (written: string, value: number) => boolean) {
    this.#text = text;
    this.#isKept = keeps;
  }

  value(): Json {
    this.#space();
    const first = this.#text[this.#at];
    let value: Json;
    if (first === '"') value = this.#string();
    else if (first === '{') value = this.#object();
    else if (first === '[') value = this.#list();
    else if (first === 't') value = this.#word('true', true);
    else if (first === 'f') value = this.#word('false', false);
    else if (first === 'n') value = this.#word('null', null);
    else value = this.#number();
    this.#space();
    return value;
  }

  #space(): void {
    if (this.#text.charCodeAt(this.#at) > 0x20) return;
    space.lastIndex = this.#at;
    space.test(this.#text);
    this.#at = space.lastIndex;
  }

  #word<T>(word: string, value: T): T {
    this.#at += word.length;
    return value;
  }

  #number(): Json {
    number.lastIndex = this.#at;
    number.test(this.#text);
    const text = this.#text.slice(this.#at, number.lastIndex);
    this.#at = number.lastIndex;
    const value = Number(text);
    return this.#isKept(text, value) ? value : (raw.rawJSON(text) as unknown as Json);
  }

  #string(): string {
    const text = this.#text;
    const from = this.#at;
    let end = from;
    for (;;) {
      end = text.indexOf('"', end + 1);
      let slashes = 0;
      while (text[end - 1 - slashes] === '\\') slashes += 1;
      if (slashes % 2 === 0) break;
    }
    this.#at = end + 1;
    const inner = text.slice(from + 1, end);
    return inner.includes('\\') ? (JSON.parse(text.slice(from, end + 1)) as string) : inner;
  }

  #list(): Json {
    const made: Json[] = [];
    this.#at += 1;
    this.#space();
    if (this.#text[this.#at] === ']') return this.#word(']', made);
    do {
      made.push(this.value());
    } while (this.#text[this.#at++] === ',');
    return made;
  }

  #object(): Json {
    const made: { [key: string]: Json } = {};
    this.#at += 1;
    this.#space();
    if (this.#text[this.#at] === '}') return this.#word('}', made);
    do {
      this.#space();
      const key = this.#string();
      this.#space();
      this.#at += 1;
      const value = this.value();
      // Never the setter of a prototype.
      if (key === '__proto__')
        Object.defineProperty(made, key, { value, writable: true, enumerable: true, configurable: true });
      else made[key] = value;
    } while (this.#text[this.#at++] === ',');
    return made;
  }
}

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
