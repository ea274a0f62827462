// The bytes of a small pack as they have come, in pieces that are let go as they are read: joined, they would be there twice, and
// hashed at their end all at once. What is read goes forward only.

import { createHash } from 'node:crypto';
import { Joined } from '../../base/joined.ts';

const trailerBytes = 20;

export class PackBytes {
  /** Those not let go of, each with where it begins. */
  #pieces: { readonly from: number; readonly bytes: Buffer }[] = [];
  #length = 0;
  readonly #hash = createHash('sha1');
  #tail = Buffer.alloc(0);

  static of(bytes: Buffer): PackBytes {
    const pack = new PackBytes();
    pack.add(bytes);
    return pack;
  }

  /** Takes a piece over: whoever gives it changes it no more. */
  add(piece: Buffer): void {
    this.#pieces.push({ from: this.#length, bytes: piece });
    this.#length += piece.length;
    const hashed = Math.max(0, piece.length - trailerBytes);
    if (hashed > 0) this.#hash.update(this.#tail).update(piece.subarray(0, hashed));
    const tail = hashed > 0 ? piece.subarray(hashed) : Buffer.concat([this.#tail, piece]);
    const over = Math.max(0, tail.length - trailerBytes);
    this.#hash.update(tail.subarray(0, over));
    this.#tail = Buffer.from(tail.subarray(over));
  }

  get length(): number {
    return this.#length;
  }

  /** Where its trailer begins. */
  get end(): number {
    return this.#length - trailerBytes;
  }

  /** Whether its trailer is that of its bytes. Asked once, when all of them are here. */
  isSound(): boolean {
    return this.#hash.digest().equals(this.#tail);
  }

  /** At most so many bytes from `at` on, none of them the trailer's. What is before `at` is let go. */
  read(at: number, most: number): Buffer {
    const gone = this.#pieces.findIndex(({ from, bytes }) => from + bytes.length > at);
    if (gone > 0) this.#pieces = this.#pieces.slice(gone);
    const until = Math.min(at + most, this.end);
    const [first] = this.#pieces;
    if (first === undefined || until <= at) return Buffer.alloc(0);
    if (first.from + first.bytes.length >= until) return first.bytes.subarray(at - first.from, until - first.from);
    const parts: Buffer[] = [];
    for (const { from, bytes } of this.#pieces) {
      if (from >= until) break;
      parts.push(bytes.subarray(Math.max(0, at - from), until - from));
    }
    return Buffer.concat(parts);
  }
}

/** Bytes of a piece, at least. */
const pieceBytes = 65_536;

/** A server may send a frame for each byte, which would take a hundred in memory, or a write to the disk. */
export async function* inPieces(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const joined = new Joined();
  for await (const chunk of chunks) {
    joined.add(chunk);
    if (joined.length >= pieceBytes) yield joined.take();
  }
  if (joined.length > 0) yield joined.take();
}
