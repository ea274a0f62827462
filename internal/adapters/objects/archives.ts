// A sealed archive as an object: a head that names the master key and holds the archive's own key, sealed under it, then pieces of one
// MiB, each with its length before it. Nothing of it opens under another key, another name, or cut at any place.

import { createHash, randomBytes } from 'node:crypto';
import { type FileHandle, open, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { createLimiter } from '../../base/concurrency.ts';
import { within } from '../../base/waits.ts';
import { newDataKey, openPiece, sealPiece } from '../crypto/crypto.ts';
import type { ObjectStore } from './types.ts';

/** Seals the key of one archive, which is named by the archive's own. Throws where a sealed key is not this archive's. */
export interface ArchiveSealer {
  seal(key: Uint8Array, name: string): { readonly keyVersion: number; readonly sealed: Buffer };
  open(sealed: { readonly keyVersion: number; readonly sealed: Buffer }, name: string): Buffer;
}

export interface SharedArchivesOptions {
  readonly store: ObjectStore;
  readonly sealer: ArchiveSealer;
  /** A directory of this machine for what is on its way. */
  readonly directory: string;
  /** Of all; the longest unused go first. */
  readonly maxTotalBytes: number;
  readonly now: () => number;
  /** The store could not be used; the work goes on without. */
  readonly onTrouble: (error: unknown) => void;
}

interface Head {
  readonly version: 1;
  /** Milliseconds since 1970: when the archive was made. */
  readonly at: number;
  readonly keyVersion: number;
  /** In base64. */
  readonly key: string;
}

const magic = 'svc-archive-1\n';
const headMax = 4_096;
const pieceBytes = 1024 * 1024;
const sealedMax = pieceBytes + 64;
/** After a failure the store is left alone for so long: no session waits for it again and again. */
const awayMs = 30_000;
const pruneEveryMs = 3_600_000;
/** How long the end waits for what is on its way: what does not arrive costs the next one its time, and nothing else. */
const lastMs = 3_000;

export class SharedArchives {
  readonly #options: SharedArchivesOptions;
  readonly #atOnce = createLimiter(2, 2);
  readonly #underWay = new Set<Promise<void>>();
  #awayUntil = 0;
  #pruneAt = 0;

  constructor(options: SharedArchivesOptions) {
    this.#options = options;
  }

  /**
   * What a daemon has kept under the key; null where nothing is there or the store does not answer. Reading it throws where it
   * was cut, changed, or sealed by a key that is not held: then nothing of it is to be used. Null as well where the time at
   * which it was kept is not wanted; what is handed out is to be read, for it is open until then.
   */
  async fetch(
    key: string,
    isWanted: (at: number) => boolean,
  ): Promise<{ readonly at: number; readonly archive: AsyncIterable<Buffer> } | null> {
    const { store, now } = this.#options;
    if (now() < this.#awayUntil) return null;
    let reader: Reader | undefined;
    try {
      const stream = await store.get(key);
      if (stream === null) return null;
      reader = new Reader(stream);
      const head = await reader.head();
      if (isWanted(head.at)) return { at: head.at, archive: this.#opened(reader, head, key) };
      reader.close();
      return null;
    } catch (error) {
      reader?.close();
      this.#failed(error);
      return null;
    }
  }

  /** Keeps an archive in the background. The file is closed when it is done. */
  keep(key: string, at: number, file: FileHandle, start: number): void {
    const keep = async (): Promise<void> => {
      try {
        await this.#atOnce('', () => this.#keep(key, at, file, start));
      } catch (error) {
        this.#failed(error);
      } finally {
        await file.close();
      }
    };
    const work = keep().finally(() => void this.#underWay.delete(work));
    this.#underWay.add(work);
  }

  /** When all that is under way is kept, or is not. */
  async settled(): Promise<void> {
    await Promise.all(this.#underWay);
  }

  /** What the store has not taken within a few seconds is broken off. */
  async close(): Promise<void> {
    await within(this.settled(), lastMs);
    await this.#options.store.close();
    await within(this.settled(), lastMs);
  }

  #failed(error: unknown): void {
    this.#awayUntil = this.#options.now() + awayMs;
    this.#options.onTrouble(error);
  }

  async #keep(key: string, at: number, file: FileHandle, start: number): Promise<void> {
    const { store, directory, now } = this.#options;
    if (now() < this.#awayUntil) return;
    const path = join(directory, `next-${randomBytes(8).toString('hex')}`);
    try {
      const hash = createHash('sha256');
      const out = await open(path, 'wx', 0o600);
      try {
        for await (const part of this.#sealed(key, at, file, start)) {
          hash.update(part);
          await out.writeFile(part);
        }
      } finally {
        await out.close();
      }
      const { size } = await stat(path);
      await store.put(key, { path, bytes: size, sha256: hash.digest('hex') });
    } finally {
      await rm(path, { force: true });
    }
    await this.#prune();
  }

  async *#sealed(name: string, at: number, file: FileHandle, start: number): AsyncGenerator<Buffer> {
    const key = newDataKey();
    try {
      const { keyVersion, sealed } = this.#options.sealer.seal(key, name);
      const head: Head = { version: 1, at, keyVersion, key: sealed.toString('base64') };
      yield framed(Buffer.from(magic + JSON.stringify(head)));
      const { size } = await file.stat();
      let number = 0;
      for (let from = start; ; from += pieceBytes) {
        const { buffer, bytesRead } = await file.read(Buffer.alloc(pieceBytes), 0, pieceBytes, from);
        const isLast = from + bytesRead >= size;
        yield framed(sealPiece(key, { part: 0, number: number++, isLast }, buffer.subarray(0, bytesRead)));
        if (isLast) return;
      }
    } finally {
      key.fill(0);
    }
  }

  async *#opened(reader: Reader, head: Head, name: string): AsyncGenerator<Buffer> {
    const { keyVersion } = head;
    let key: Buffer | undefined;
    try {
      key = this.#options.sealer.open({ keyVersion, sealed: Buffer.from(head.key, 'base64') }, name);
      let sealed = await reader.frame(sealedMax);
      for (let number = 0; sealed !== null; number += 1) {
        const next = await reader.frame(sealedMax);
        yield openPiece(key, { part: 0, number, isLast: next === null }, sealed);
        sealed = next;
      }
      // A stream that was cut before its first piece has no last one.
      if (reader.frames < 2) throw new Error('a sealed archive has no end');
    } finally {
      key?.fill(0);
      reader.close();
    }
  }

  /** Now and then, by whoever writes: the longest unused go until the rest fits. */
  async #prune(): Promise<void> {
    const { store, maxTotalBytes, now } = this.#options;
    if (now() < this.#pruneAt) return;
    this.#pruneAt = now() + pruneEveryMs;
    let total = 0;
    for (const { key, bytes } of (await store.list()).toSorted((a, b) => b.at - a.at)) {
      total += bytes;
      if (total > maxTotalBytes) await store.remove(key);
    }
  }
}

function framed(data: Buffer): Buffer {
  const length = Buffer.allocUnsafe(4);
  length.writeUInt32BE(data.length);
  return Buffer.concat([length, data]);
}

/** Frames of a stream, each no longer than was asked for. */
class Reader {
  readonly #stream: Readable;
  readonly #chunks: AsyncIterator<Buffer>;
  #held: Buffer[] = [];
  #size = 0;
  frames = 0;

  constructor(stream: Readable) {
    this.#stream = stream;
    this.#chunks = (stream as AsyncIterable<Buffer>)[Symbol.asyncIterator]();
  }

  async head(): Promise<Head> {
    const text = (await this.frame(headMax))?.toString('utf8') ?? '';
    const head = text.startsWith(magic) ? (JSON.parse(text.slice(magic.length)) as Head) : null;
    if (
      head?.version === 1 &&
      Number.isSafeInteger(head.at) &&
      Number.isInteger(head.keyVersion) &&
      typeof head.key === 'string'
    )
      return head;
    throw new Error('an object of the store is no sealed archive');
  }

  /** Null at the end of the stream. Throws where it ends within a frame, or the frame is too long. */
  async frame(max: number): Promise<Buffer | null> {
    if (!(await this.#has(4))) {
      if (this.#size > 0) throw new Error('a sealed archive is cut');
      return null;
    }
    const length = this.#take(4).readUInt32BE();
    if (length > max || !(await this.#has(length))) throw new Error('a sealed archive is cut');
    this.frames += 1;
    return this.#take(length);
  }

  close(): void {
    this.#stream.destroy();
  }

  async #has(bytes: number): Promise<boolean> {
    while (this.#size < bytes) {
      const { done, value } = await this.#chunks.next();
      if (done === true) return false;
      this.#held.push(value);
      this.#size += value.length;
    }
    return true;
  }

  #take(bytes: number): Buffer {
    const all = this.#held.length === 1 ? (this.#held[0] as Buffer) : Buffer.concat(this.#held);
    this.#held = [all.subarray(bytes)];
    this.#size -= bytes;
    return all.subarray(0, bytes);
  }
}
