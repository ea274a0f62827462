// What comes back from a remote server, without the credential that it was sent: a server that repeats its request's
// headers must not bring the credential into a sandbox, as it is or as JSON writes it. Bounded in bytes, and no byte waits
// longer than it must: only an end that may be the secret's beginning is held back. Whoever is asked says both the answer and,
// by consent, the credential: where the two repeat themselves, to look for one in the other costs no more than a look at each byte.

import { Transform } from 'node:stream';
import { bordersOf } from '../../base/borders.ts';

const masked = Buffer.from('***');
const backslash = 0x5c;
const letterU = 0x75;
/** `u` and four digits. */
const codeChars = 5;

/** Passes bytes on, `secret` replaced wherever it stands. Fails above `bytesMax`; undefined: no bound. */
export function maskStream(secret: string | undefined, bytesMax: number | undefined): Transform {
  const needle = Buffer.from(secret ?? '');
  const borders = bordersOf(needle.length, (at) => needle[at] as number);
  const plain = new Follower(needle, borders);
  const spelled = new Spelled(needle, borders);
  let held: Buffer = Buffer.alloc(0);
  let seen = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      seen += chunk.length;
      if (bytesMax !== undefined && seen > bytesMax) return done(new Error('the answer is too large'));
      if (needle.length === 0) return done(null, chunk);
      const bytes = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
      const base = seen - bytes.length;
      const parts: Buffer[] = [];
      let from = 0;
      for (let at = held.length; at < bytes.length; at += 1) {
        const byte = bytes[at] as number;
        if (!plain.isOpen && !spelled.isOpen && byte !== needle[0] && byte !== backslash) continue;
        const began = Math.min(plain.take(byte, base + at), spelled.take(byte, base + at));
        if (began === Number.POSITIVE_INFINITY) continue;
        parts.push(bytes.subarray(from, began - base), masked);
        from = at + 1;
        plain.forget();
        spelled.forget();
      }
      const end = Math.min(bytes.length, plain.from - base, spelled.from - base);
      parts.push(bytes.subarray(from, end));
      held = bytes.subarray(end);
      done(null, parts.length === 1 ? parts[0] : Buffer.concat(parts));
    },
    flush(done) {
      done(null, held);
    },
  });
}

/** Of characters that come one by one, how many of the last are the secret's beginning, and where those stand. */
class Follower {
  readonly #needle: Buffer;
  readonly #borders: Uint32Array;
  /** Where each of the last characters began, as many as the secret has. */
  readonly #starts: Float64Array;
  #count = 0;
  #matched = 0;

  constructor(needle: Buffer, borders: Uint32Array) {
    this.#needle = needle;
    this.#borders = borders;
    this.#starts = new Float64Array(needle.length);
  }

  /** Takes the next one, which begins at `start`. Where the secret began that ends with it; infinity where none does. */
  take(value: number, start: number): number {
    const { length } = this.#needle;
    this.#starts[this.#count % length] = start;
    this.#count += 1;
    while (this.#matched > 0 && this.#needle[this.#matched] !== value)
      this.#matched = this.#borders[this.#matched - 1] as number;
    if (this.#needle[this.#matched] === value) this.#matched += 1;
    return this.#matched < length ? Number.POSITIVE_INFINITY : this.from;
  }

  get isOpen(): boolean {
    return this.#matched > 0;
  }

  /** Where what may become the secret begins; infinity where nothing may. */
  get from(): number {
    if (this.#matched === 0) return Number.POSITIVE_INFINITY;
    return this.#starts[(this.#count - this.#matched) % this.#needle.length] as number;
  }

  forget(): void {
    this.#matched = 0;
  }
}

/** As a Follower, of bytes in the spelling of JSON, in which a character may take up to six. */
class Spelled {
  readonly #follower: Follower;
  /** Of a secret without one, no part is a backslash: of several in a row the last begins an escape, whatever they mean together. */
  readonly #isPaired: boolean;
  /** Where the escape began that has not ended, and what stands behind its backslash. */
  #start: number | undefined;
  #written = '';

  constructor(needle: Buffer, borders: Uint32Array) {
    this.#follower = new Follower(needle, borders);
    this.#isPaired = needle.includes(backslash);
  }

  take(byte: number, at: number): number {
    if (this.#start === undefined) {
      if (byte !== backslash) return this.#follower.take(byte, at);
      this.#start = at;
      this.#written = '';
      return Number.POSITIVE_INFINITY;
    }
    if (this.#written === '' && byte === backslash && !this.#isPaired) {
      this.#follower.forget();
      this.#start = at;
      return Number.POSITIVE_INFINITY;
    }
    if (this.#written === '' && byte !== letterU) return this.#ended(byte);
    this.#written += String.fromCharCode(byte);
    // No escape after all: what it is, it is for itself.
    if (!/^u[0-9a-f]*$/i.test(this.#written)) {
      this.forget();
      return this.take(byte, at);
    }
    if (this.#written.length < codeChars) return Number.POSITIVE_INFINITY;
    return this.#ended(Number.parseInt(this.#written.slice(1), 16));
  }

  #ended(value: number): number {
    const start = this.#start as number;
    this.#start = undefined;
    return this.#follower.take(value, start);
  }

  get isOpen(): boolean {
    return this.#start !== undefined || this.#follower.isOpen;
  }

  get from(): number {
    return Math.min(this.#follower.from, this.#start ?? Number.POSITIVE_INFINITY);
  }

  forget(): void {
    this.#start = undefined;
    this.#follower.forget();
  }
}
