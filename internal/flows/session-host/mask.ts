// What must not be repeated of what a harness says: values of secrets, tokens of its tools, the way to its model. A
// harness quotes the address of its model in errors, and an agent prints its environment; both end here.

import type { Json, JsonObject } from '../../domain/json.ts';
import { formsOf } from './mask-forms.ts';

const maskedText = '***';
/** Shorter ones would blank out ordinary words. */
const charsMin = 4;

/** Filled by a launch, asked by whatever writes down what its harness said. */
export class Mask {
  readonly #hidden = new Set<string>();
  /** In all forms; longest first: one may be part of another. */
  #values: readonly string[] = [];
  #scrub: (text: string) => string = (text) => text;

  /** Hides values from now on, in whatever form they are written. */
  hide(values: readonly string[]): void {
    const forms = values.filter((value) => !this.#hidden.has(value)).flatMap(formsOf);
    for (const value of values) this.#hidden.add(value);
    const all = new Set([...this.#values, ...forms.filter((form) => form.length >= charsMin)]);
    this.#values = [...all].sort((a, b) => b.length - a.length);
  }

  /** All that is hidden, as it was given. */
  get hidden(): readonly string[] {
    return [...this.#hidden];
  }

  /** What else a text goes through. */
  scrubWith(scrub: (text: string) => string): void {
    this.#scrub = scrub;
  }

  apply(text: string): string {
    return this.#scrub(this.#values.reduce((left, value) => left.replaceAll(value, maskedText), text));
  }

  /** So many characters at the end of a text may be the beginning of what is hidden: wait for what follows. */
  open(text: string): number {
    let most = 0;
    for (const value of this.#values) {
      const first = value.charAt(0);
      let at = text.indexOf(first, Math.max(0, text.length - value.length + 1));
      for (; at !== -1 && text.length - at > most; at = text.indexOf(first, at + 1)) {
        if (value.startsWith(text.slice(at))) most = text.length - at;
      }
    }
    return most;
  }

  /** A text whose end was cut off, perhaps in the middle of what is hidden. */
  applyToCut(text: string): string {
    const masked = this.apply(text);
    return masked.slice(0, masked.length - this.open(masked));
  }

  /** A text of so many bytes at most: one that is as long may be the beginning of what was said. */
  applyWithin(text: string, bytesMax: number): string {
    const characterBytesMax = 4;
    return Buffer.byteLength(text) > bytesMax - characterBytesMax ? this.applyToCut(text) : this.apply(text);
  }

  applyToJson(value: JsonObject): JsonObject {
    const walk = (each: Json): Json => {
      if (typeof each === 'string') return this.apply(each);
      if (Array.isArray(each)) return (each as readonly Json[]).map(walk);
      if (typeof each !== 'object' || each === null) return each;
      return Object.fromEntries(Object.entries(each).map(([key, member]) => [this.apply(key), walk(member as Json)]));
    };
    return walk(value) as JsonObject;
  }
}
