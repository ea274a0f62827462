// What must not be repeated of what a harness says: values of secrets, tokens of its tools, the way to its model. A
// harness quotes the address of its model in errors, and an agent prints its environment; both end here.

import { yieldToEventLoop } from '../../base/concurrency.ts';
import type { Json, JsonObject } from '../../domain/json.ts';
import { formsOf } from './mask-forms.ts';
import { beginningAtEnd, Candidates, replaceLong } from './mask-search.ts';

const maskedText = '***';
/** Shorter ones would blank out ordinary words. */
const charsMin = 4;
/** Longer ones are not looked for by the runtime. */
const longChars = 256;
/** Of what a harness gives while it runs, the newest: it may go on without end. In characters as given, of which one may be all. */
const givenMax = { values: 64, chars: 65_536 } as const;
/** Of the event loop, one after another. */
const turnMs = 20;
/** Fewer values are looked for one by one sooner than it is found out which of them may be there. */
const fewValues = 64;

/** Filled by a launch, asked by whatever writes down what its harness said. */
export class Mask {
  readonly #hidden = new Set<string>();
  /** Of `#hidden`, in all forms. */
  #kept: readonly string[] = [];
  /** What the harness itself gave, and its forms; the newest last. */
  readonly #given = new Map<string, readonly string[]>();
  #givenChars = 0;
  /** In all forms; longest first: one may be part of another. */
  #values: readonly string[] = [];
  #candidates: Candidates | undefined;
  #scrub: (text: string) => string = (text) => text;

  /** Hides values from now on, in whatever form they are written. */
  hide(values: readonly string[]): void {
    this.#kept = [...this.#kept, ...values.filter((value) => !this.#hidden.has(value)).flatMap(formsOf)];
    for (const value of values) this.#hidden.add(value);
    this.#join();
  }

  /** As `hide`, what a harness gives away while it runs: the newest of it, so much and no more. */
  hideGiven(values: readonly string[]): void {
    const some = values.slice(-givenMax.values).filter((value) => !this.#hidden.has(value));
    if (some.length === 0) return;
    for (const value of some) {
      const forms = this.#given.get(value) ?? formsOf(value);
      this.#forget(value);
      this.#given.set(value, forms);
      this.#givenChars += value.length;
    }
    for (const [oldest] of this.#given) {
      if (this.#given.size <= givenMax.values && this.#givenChars <= givenMax.chars) break;
      if (this.#given.size > 1) this.#forget(oldest);
    }
    this.#join();
  }

  #forget(given: string): void {
    if (this.#given.delete(given)) this.#givenChars -= given.length;
  }

  #join(): void {
    const all = new Set([...this.#kept, ...[...this.#given.values()].flat()].filter((form) => form.length >= charsMin));
    this.#values = [...all].sort((a, b) => b.length - a.length);
    this.#candidates = undefined;
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
    return this.#scrub(this.#valuesIn(text).reduce(without, text));
  }

  /** Those that may stand in a text. */
  #valuesIn(text: string): readonly string[] {
    return this.#manyValues()?.in(text) ?? this.#values;
  }

  /** Undefined where there are few. */
  #manyValues(): Candidates | undefined {
    if (this.#values.length > fewValues) this.#candidates ??= new Candidates(this.#values);
    return this.#candidates;
  }

  /** As `apply`, of a large text: others have their turn meanwhile. */
  async applyInTurns(text: string): Promise<string> {
    let left = text;
    let since = performance.now();
    for (const value of this.#valuesIn(text)) {
      left = without(left, value);
      if (performance.now() - since < turnMs) continue;
      await yieldToEventLoop();
      since = performance.now();
    }
    return this.#scrub(left);
  }

  /** So many characters at the end of a text may be the beginning of what is hidden: wait for what follows. */
  open(text: string): number {
    const candidates = this.#manyValues();
    let most = candidates?.shortBeginning(text) ?? 0;
    for (const value of candidates?.beginningIn(text) ?? this.#values) {
      // The longest come first: of those that are left none can have begun sooner.
      if (value.length - 1 <= most) break;
      const from = Math.max(0, text.length - value.length + 1);
      const at = text.indexOf(value.charAt(0), from);
      if (at !== -1 && text.length - at > most) most = Math.max(most, beginningAtEnd(text, value));
    }
    return most;
  }

  /** A text that was masked and whose end was cut off before, perhaps in the middle of what is hidden. */
  closed(masked: string): string {
    return masked.slice(0, masked.length - this.open(masked));
  }

  /** A text whose end was cut off, perhaps in the middle of what is hidden. */
  applyToCut(text: string): string {
    return this.closed(this.apply(text));
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

const without = (text: string, value: string): string => {
  if (value.length <= longChars) return text.replaceAll(value, maskedText);
  return text.includes(value.slice(0, longChars)) ? replaceLong(text, value, maskedText) : text;
};
