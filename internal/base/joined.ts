// Bytes that come in parts and are wanted whole. A sender may cut them as small as it likes, and a part of one byte takes
// hundreds in memory as long as it is kept: small ones are copied together as they come.

/** A part of fewer bytes is copied. */
const smallBytes = 16_384;
const roomBytes = 65_536;

export class Joined {
  #parts: Buffer[] = [];
  /** Where small parts are copied to: its bytes from `#from` to `#to` are none of `#parts` yet. */
  #room: Buffer | undefined;
  #from = 0;
  #to = 0;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** Takes a part over: whoever gives it changes it no more. */
  add(part: Buffer): void {
    if (part.length === 0) return;
    const isFirst = this.#length === 0;
    this.#length += part.length;
    // Most come in one part.
    if (isFirst || part.length >= smallBytes) {
      this.#close();
      this.#parts.push(part);
      return;
    }
    for (let at = 0; at < part.length; ) {
      this.#room ??= Buffer.allocUnsafeSlow(roomBytes);
      const copied = part.copy(this.#room, this.#to, at);
      at += copied;
      this.#to += copied;
      if (this.#to < this.#room.length) continue;
      this.#close();
      [this.#room, this.#from, this.#to] = [undefined, 0, 0];
    }
  }

  /** All of it; begins anew. */
  take(): Buffer {
    this.#close();
    const [only, ...others] = this.#parts;
    const whole = only !== undefined && others.length === 0 ? only : Buffer.concat(this.#parts, this.#length);
    [this.#parts, this.#length, this.#room, this.#from, this.#to] = [[], 0, undefined, 0, 0];
    return whole;
  }

  /** What there is of it, for whoever lets it go. */
  drop(): readonly Buffer[] {
    const parts = this.#parts;
    [this.#parts, this.#length, this.#room, this.#from, this.#to] = [[], 0, undefined, 0, 0];
    return parts;
  }

  #close(): void {
    if (this.#room === undefined || this.#to === this.#from) return;
    this.#parts.push(this.#room.subarray(this.#from, this.#to));
    this.#from = this.#to;
  }
}
