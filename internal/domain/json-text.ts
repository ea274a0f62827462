// JSON text from outside, read as it is written. The runtime's own parser takes a key with an escape in it for another one
// where whatever it has parsed before had a key that begins like the text of the escape (`{"a":0,"\\u0":0}`, and from then on
// `{"a":0,"\u00e9t\u00e9":0}` has no `été`; nodejs/node#63785): one sender would decide how the next one is read.

import type { Json } from './json.ts';

/** The language's raw JSON values, which the type library does not know yet. */
const raw = JSON as unknown as { rawJSON(text: string): object };

const [quote, slash, colon] = [0x22, 0x5c, 0x3a];

/** UTF-16 units of a text that is read a second time: some tens of milliseconds. In a larger one, keys are as the runtime reads them. */
const exactMax = 1_048_576;

/** Parses JSON text that may come from anybody. Throws the parser's SyntaxError, or a RangeError on text nested too deeply. */
export function parseJson(text: string): unknown {
  const plain: unknown = JSON.parse(text);
  return text.length <= exactMax && hasEscapedKey(text) ? readValues(text, () => true) : plain;
}

/** Whether a key of text that is known to be JSON is written with an escape. Looks at those strings alone that have one. */
export function hasEscapedKey(text: string): boolean {
  for (let at = text.indexOf('\\'); at !== -1; at = text.indexOf('\\', at)) {
    for (let code = slash; code !== quote; code = text.charCodeAt(at)) at += code === slash ? 2 : 1;
    space.lastIndex = at + 1;
    space.test(text);
    if (text.charCodeAt(space.lastIndex) === colon) return true;
  }
  return false;
}

/**
 * The value of text that is known to be JSON. A number that `keeps` declines, given its text and the double that it is read
 * as, is kept by its digits, as a raw JSON value of the runtime. Throws a RangeError on text nested too deeply.
 */
export function readValues(text: string, keeps: (written: string, value: number) => boolean): Json {
  return new Reader(text, keeps).value();
}

/** Where a number ends: at what parts values, or at the end of the text. */
const number = /[-+.\deE]+/y;
const space = /[ \n\r\t]*/y;

/**
 * Makes values of text that is known to be JSON. The parser's own way to see how a number was written calls a function
 * for every value with an object of its own, and takes an event loop six times as long.
 */
class Reader {
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
