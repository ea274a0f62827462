// What must not be repeated of what a harness says: values of secrets, tokens of its tools, the way to its model. A
// harness quotes the address of its model in errors, and an agent prints its environment; both end here.

import type { Json, JsonObject } from '../../domain/json.ts';

const maskedText = '***';
/** Shorter ones would blank out ordinary words. */
const charsMin = 4;
/** Lines of a value of several, such as a key's: one alone tells enough. */
const lineCharsMin = 16;

/** Filled by a launch, asked by whatever writes down what its harness said. */
export class Mask {
  /** Longest first: one may be part of another. */
  #values: readonly string[] = [];
  #scrub: (text: string) => string = (text) => text;

  /** Hides values from now on, also as JSON and in base64 they are written. */
  hide(values: readonly string[]): void {
    const forms = values.flatMap((value) => [
      value,
      value.trim(),
      JSON.stringify(value).slice(1, -1),
      Buffer.from(value).toString('base64'),
      ...value.split(/\r?\n/).filter((line) => line.length >= lineCharsMin),
    ]);
    const all = new Set([...this.#values, ...forms.filter((form) => form.length >= charsMin)]);
    this.#values = [...all].sort((a, b) => b.length - a.length);
  }

  /** All that is hidden, in all its forms. */
  get hidden(): readonly string[] {
    return this.#values;
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
    const open = this.#values.map((value) => {
      for (let length = Math.min(value.length - 1, text.length); length > 0; length -= 1) {
        if (text.endsWith(value.slice(0, length))) return length;
      }
      return 0;
    });
    return Math.max(0, ...open);
  }

  /** A text whose end was cut off, perhaps in the middle of what is hidden. */
  applyToCut(text: string): string {
    const masked = this.apply(text);
    return masked.slice(0, masked.length - this.open(masked));
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
