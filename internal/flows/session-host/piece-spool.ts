// Sealed pieces of an archive on the disk until all of them are there: a program of the session makes them, which takes as long
// as it likes, and no connection to the database waits for that.

import { randomBytes } from 'node:crypto';
import { type FileHandle, open, unlink } from 'node:fs/promises';
import { join } from 'node:path';

export interface SpooledPiece {
  readonly part: number;
  readonly number: number;
  readonly piece: Buffer;
}

type Place = Omit<SpooledPiece, 'piece'> & { readonly at: number; readonly length: number };

export class PieceSpool {
  readonly #file: FileHandle;
  readonly #places: Place[] = [];
  #end = 0;

  private constructor(file: FileHandle) {
    this.#file = file;
  }

  /** In a file of the directory that has no name from its first byte on: whoever is killed leaves nothing. */
  static async open(directory: string): Promise<PieceSpool> {
    const path = join(directory, `.pieces-${process.pid}-${randomBytes(8).toString('hex')}`);
    const file = await open(path, 'wx+', 0o600);
    await unlink(path);
    return new PieceSpool(file);
  }

  async add({ part, number, piece }: SpooledPiece): Promise<void> {
    await this.#file.appendFile(piece);
    this.#places.push({ part, number, at: this.#end, length: piece.length });
    this.#end += piece.length;
  }

  /** All of them, in their order; may be asked for again. */
  async *pieces(): AsyncGenerator<SpooledPiece> {
    for (const { part, number, at, length } of this.#places) {
      const piece = Buffer.allocUnsafe(length);
      for (let read = 0; read < length; ) {
        const { bytesRead } = await this.#file.read(piece, read, length - read, at + read);
        if (bytesRead === 0) throw new Error('a spooled piece is cut off');
        read += bytesRead;
      }
      yield { part, number, piece };
    }
  }

  async close(): Promise<void> {
    await this.#file.close();
  }
}
