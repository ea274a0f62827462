// Looking for a long text in a time that grows with both lengths and no faster: the runtime's own search compares on and on
// where the two repeat themselves, for seconds in a text of some tens of thousands of characters. Whoever says both may be hostile.

import { bordersOf } from '../../base/borders.ts';

/** Characters of what is looked up of a value: its first and its last so many. */
const gramChars = 8;
/** Bits of the table of what a text has, one for each hash. */
const gramBits = 20;
const multiplier = 0x01000193;
/** What the first character of a gram weighs in its hash. */
const leading = Array.from({ length: gramChars - 1 }).reduce((weight: number) => Math.imul(weight, multiplier), 1);
const slotOf = (hash: number): number => Math.imul(hash, 0x9e3779b1) >>> (32 - gramBits);

function slotAt(text: string, from: number): number {
  let hash = 0;
  for (let at = from; at < from + gramChars; at += 1) hash = (Math.imul(hash, multiplier) + text.charCodeAt(at)) | 0;
  return slotOf(hash);
}

/**
 * Which of very many values may stand in a text: a secret of many lines is thousands of values, and to look for each of them takes
 * the time of the text each time. A value is in it only where its first and its last characters are; a few more may seem to be.
 */
export class Candidates {
  readonly #values: readonly string[];
  /** Of the first and the last characters of each value, one after the other. */
  readonly #slots: Uint32Array;
  readonly #seen = new Uint32Array(2 ** (gramBits - 5));

  constructor(values: readonly string[]) {
    this.#values = values;
    this.#slots = new Uint32Array(2 * values.length);
    for (const [at, value] of values.entries()) {
      if (value.length < gramChars) continue;
      this.#slots[2 * at] = slotAt(value, 0);
      this.#slots[2 * at + 1] = slotAt(value, value.length - gramChars);
    }
  }

  /** Those that may stand in the text, in the order in which the values were given. */
  in(text: string): string[] {
    this.#look(text);
    return this.#values.filter((value, at) => {
      if (value.length > text.length) return false;
      return value.length < gramChars || (this.#has(2 * at) && this.#has(2 * at + 1));
    });
  }

  /** Those of which more than `gramChars - 1` characters may be the beginning of one, at the end of the text. */
  beginningIn(text: string): string[] {
    this.#look(text);
    return this.#values.filter((value, at) => value.length > gramChars && this.#has(2 * at));
  }

  /** How many characters at the end of the text are the beginning of a value, of `gramChars - 1` at most. */
  shortBeginning(text: string): number {
    for (let length = Math.min(gramChars - 1, text.length); length > 0; length -= 1) {
      const tail = text.slice(text.length - length);
      if (this.#values.some((value) => value.length > length && value.startsWith(tail))) return length;
    }
    return 0;
  }

  #has(index: number): boolean {
    const slot = this.#slots[index] as number;
    return ((this.#seen[slot >>> 5] as number) & (1 << (slot & 31))) !== 0;
  }

  #look(text: string): void {
    const seen = this.#seen;
    seen.fill(0);
    let hash = 0;
    for (let at = 0; at < text.length; at += 1) {
      if (at >= gramChars) hash = (hash - Math.imul(text.charCodeAt(at - gramChars), leading)) | 0;
      hash = (Math.imul(hash, multiplier) + text.charCodeAt(at)) | 0;
      if (at < gramChars - 1) continue;
      const slot = slotOf(hash);
      seen[slot >>> 5] = (seen[slot >>> 5] as number) | (1 << (slot & 31));
    }
  }
}

/** What `text.replaceAll(value, by)` makes of it; `by` stands for itself. */
export function replaceLong(text: string, value: string, by: string): string {
  const borders = bordersOf(value.length, (at) => value.charCodeAt(at));
  let replaced = '';
  let from = 0;
  for (let at = 0, matched = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    while (matched > 0 && value.charCodeAt(matched) !== code) matched = borders[matched - 1] as number;
    if (value.charCodeAt(matched) === code) matched += 1;
    if (matched < value.length) continue;
    replaced += text.slice(from, at + 1 - value.length) + by;
    from = at + 1;
    matched = 0;
  }
  return from === 0 ? text : replaced + text.slice(from);
}

/** So many characters at the end of the text are the beginning of the value, and not all of it. */
export function beginningAtEnd(text: string, value: string): number {
  const length = Math.min(text.length, value.length - 1);
  if (length <= 0) return 0;
  const borders = bordersOf(length, (at) => value.charCodeAt(at));
  let matched = 0;
  for (let at = text.length - length; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    while (matched > 0 && value.charCodeAt(matched) !== code) matched = borders[matched - 1] as number;
    if (value.charCodeAt(matched) === code) matched += 1;
  }
  return matched;
}
