// The end of what a program says on stderr, kept for the message of a failure, never more than its bound and never with
// a secret in it. Reading it also keeps the program from standing still on a full pipe.

import type { Readable } from 'node:stream';

/** Shorter ones would blank out ordinary words. */
const secretCharsMin = 6;

export class StderrTail {
  #bytes: Buffer = Buffer.alloc(0);
  #secrets: readonly string[] = [];
  #isCut = false;
  readonly #maxBytes: number;

  constructor(stream: Readable, maxBytes: number) {
    this.#maxBytes = maxBytes;
    stream.on('data', (read: Buffer | string) => {
      const joined = Buffer.concat([this.#bytes, typeof read === 'string' ? Buffer.from(read) : read]);
      if (joined.length > maxBytes * 2) this.#isCut = true;
      this.#bytes = joined.length > maxBytes * 2 ? Buffer.from(joined.subarray(-maxBytes * 2)) : joined;
    });
    // A broken pipe ends what can be known of it; the program's exit is told elsewhere.
    stream.on('error', () => undefined);
  }

  /** Strings that `read` and `redact` leave out from now on. */
  hide(secrets: readonly string[]): void {
    const all = new Set([...this.#secrets, ...secrets.filter((one) => one.length >= secretCharsMin)]);
    // Longest first: one may be part of another.
    this.#secrets = [...all].sort((a, b) => b.length - a.length);
  }

  /** What was said last, without secrets and control characters. */
  read(): string {
    // What was held may begin in the middle of a secret, which is then no longer recognised.
    const unsure = this.#isCut ? (this.#secrets[0]?.length ?? 0) : 0;
    return this.redact(this.#bytes.toString('utf8'))
      .slice(unsure)
      .replace(/\u001b\[[0-9;]*[A-Za-z]/g, '')
      .replace(/[\u0000-\u0008\u000b-\u001f\u007f]/g, '')
      .slice(-this.#maxBytes)
      .trim();
  }

  redact(text: string): string {
    return this.#secrets.reduce((left, secret) => left.replaceAll(secret, '[redacted]'), text);
  }
}
