// A pack of a whole tree, for servers without filters: streamed into a temporary file that has no name any more,
// scanned once through a window, and then asked for single trees and blobs. Memory grows with the number of objects
// (some 50 bytes each) and with what is asked for, not with the size of the pack.

import { createHash, randomBytes } from 'node:crypto';
import { type FileHandle, open, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { asTemporaryLack } from '../../base/machine-lack.ts';
import { yieldToEventLoop } from '../../base/concurrency.ts';
import { LRUCache } from '../../base/lru.ts';
import { createInflate } from 'node:zlib';
import { gitId } from '../../base/hash.ts';
import type { GitObject, ObjectType } from './objects.ts';
import { applyDelta, deltaSizes } from './pack-delta.ts';
import { PackIndex } from './pack-index.ts';
import { badPack, type EntryHeader, entryHeader, inflateEntry, packObjectCount, sizeLimit } from './pack-reader.ts';
import { type RepoCaps, type Taking, tooLarge } from './types.ts';

const windowBytes = 1 << 20;
const headBytes = 64;
/** Entries that are looked through in one turn. */
const turnEntries = 200_000;
/** Bytes that are made in one turn. */
const turnBytes = 4 << 20;
/** Of what was built last, and of one of them, with what it costs to keep it. */
const recent = { bytes: 16 << 20, eachBytes: 256 << 10, overheadBytes: 256 } as const;
/** Times that deltas are gone through, for those whose base comes behind them in the pack and is named by its id. */
const passesMax = 50;
/** Bytes on the disk for each that is counted as held: of both there is no more than there is. */
const diskBytes = 32;

export class SpoolPack {
  readonly #file: FileHandle;
  readonly #caps: RepoCaps;
  readonly #index: PackIndex;
  #resolvedTrees = false;
  #resolvedBlobs = false;
  #work = 0;
  /** What is built upon one of these begins there, and not at the beginning of its chain. */
  readonly #recent = new LRUCache<number, Buffer>({
    maxSize: recent.bytes,
    maxEntrySize: recent.eachBytes,
    sizeCalculation: ({ length }) => length + recent.overheadBytes,
  });
  readonly #signal: AbortSignal;
  readonly #taking: Taking | undefined;

  private constructor(file: FileHandle, caps: RepoCaps, signal: AbortSignal, index: PackIndex, taking?: Taking) {
    this.#file = file;
    this.#caps = caps;
    this.#signal = signal;
    this.#index = index;
    this.#taking = taking;
  }

  /**
   * Takes in a pack; `signal` bounds all work on it. The file is unlinked before the first byte is written. Throws `corrupt`,
   * `too-large`, `MachineLack`.
   */
  static async take(
    chunks: AsyncIterable<Buffer>,
    directory: string,
    caps: RepoCaps,
    signal: AbortSignal,
    taking?: Taking,
  ): Promise<SpoolPack> {
    const path = join(directory, `svc-spool-${process.pid}-${randomBytes(8).toString('hex')}`);
    const file = await ofMachine(open(path, 'wx+', 0o600));
    try {
      await unlink(path);
      const { bytes, trailer } = await spool(chunks, file, taking);
      if (bytes < 32) throw badPack('it is too short');
      if (!trailer) throw badPack('its checksum does not fit');
      const index = await scan(file, bytes - 20, caps, signal, taking);
      return new SpoolPack(file, caps, signal, index, taking);
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  async close(): Promise<void> {
    await this.#file.close();
  }

  /** A commit or tree, or undefined where the pack has none of that id. */
  async small(oid: string): Promise<GitObject | undefined> {
    if (this.#smallEntry(oid) < 0 && !this.#resolvedTrees) await this.#resolveDeltas('tree');
    const entry = this.#smallEntry(oid);
    return entry < 0 ? undefined : this.#object(entry);
  }

  #smallEntry(oid: string): number {
    const entry = this.#index.find(oid);
    return entry >= 0 && this.#index.type(entry) === 'blob' ? -1 : entry;
  }

  /** Those of the blobs that the pack has; null for one past the size limit. */
  async blobs(oids: readonly string[]): Promise<Map<string, Buffer | null>> {
    if (!this.#resolvedBlobs && oids.some((oid) => this.#index.find(oid) < 0)) await this.#resolveDeltas('blob');
    const found = new Map<string, Buffer | null>();
    let total = 0;
    for (const oid of oids) {
      const entry = this.#index.find(oid);
      if (entry < 0 || found.has(oid)) continue;
      const isLarge = this.#index.size(entry) > this.#caps.fileBytes && !this.#index.isDelta(entry);
      const object = isLarge ? null : await this.#object(entry);
      const bytes = object === null || object.bytes.length > this.#caps.fileBytes ? null : object.bytes;
      total += bytes?.length ?? 0;
      if (total > this.#caps.totalBytes) throw tooLarge('the files inflate to more', this.#caps.totalBytes);
      this.#taking?.(bytes?.length ?? 0);
      found.set(oid, bytes);
    }
    return found;
  }

  /** Rebuilds one object from its chain; where nobody keeps it, in a room that the next one is made in. */
  async #object(entry: number, rooms?: Buffer[]): Promise<GitObject> {
    const index = this.#index;
    const chain: number[] = [];
    let at = entry;
    for (; index.base(at) >= 0 && !this.#recent.has(at); at = index.base(at)) chain.push(at);
    let bytes = this.#recent.get(at) ?? (await this.#inflate(at));
    let isKept = this.#keep(at, bytes);
    // What is large and between takes turns in two rooms: of a long chain, each in one of its own would wait to be collected.
    const spare = rooms ?? [];
    for (const delta of chain.reverse()) {
      const data = await this.#inflate(delta);
      const { resultBytes } = deltaSizes(data);
      // A small file may build on a larger one, so the bound is that of all that may be held at once.
      if (resultBytes > this.#caps.totalBytes / 4) throw tooLarge('a base of a delta', this.#caps.totalBytes / 4);
      await this.#spend(resultBytes);
      const base = bytes;
      const isSmall = resultBytes + recent.overheadBytes <= recent.eachBytes;
      const isOwn = isSmall || (rooms === undefined && delta === entry);
      bytes = await applyDelta(base, data, isOwn ? undefined : spare.pop());
      if (!isKept && spare.length < 2) spare.push(base);
      isKept = this.#keep(delta, bytes);
    }
    return { type: index.type(entry) as ObjectType, bytes };
  }

  /** Whether it is small enough to be kept for what builds upon it: then nothing else is written where it stands. */
  #keep(entry: number, bytes: Buffer): boolean {
    if (bytes.length + recent.overheadBytes > recent.eachBytes) return false;
    this.#recent.set(entry, bytes);
    return true;
  }

  /** Counts bytes about to be made, and lets others run every so many. */
  async #spend(bytes: number): Promise<void> {
    this.#work += bytes;
    if (this.#work <= turnBytes) return;
    this.#work = 0;
    this.#signal.throwIfAborted();
    await yieldToEventLoop();
  }

  async #inflate(entry: number): Promise<Buffer> {
    const size = this.#index.size(entry);
    if (size > this.#caps.totalBytes / 4) throw tooLarge(`an object of ${size} bytes`, this.#caps.totalBytes / 4);
    const at = this.#index.dataAt(entry);
    // deflate's own worst case, doubled for writers that flush often; else the next offset bounds it anyway.
    const compressed = Math.min(size * 2 + 4096, this.#index.offset(entry + 1) - at);
    await this.#spend(size + 4096);
    return inflateEntry(await readAt(this.#file, at, compressed), 0, size).data;
  }

  /** Gives ids to the deltas of one type (their ids are known only once they are built). */
  async #resolveDeltas(type: 'tree' | 'blob'): Promise<void> {
    const index = this.#index;
    const rooms: Buffer[] = [];
    // An object that one pass makes known may be the base that a delta before it names by id: then another pass follows.
    for (let pass = 0; pass <= passesMax && ((await this.#linkRefBases()) || pass === 0); pass += 1) {
      for (let entry = 0; entry < index.count; entry += 1) {
        index.linkById(entry);
        index.inherit(entry);
        if (index.isKnown(entry) || index.type(entry) !== type) continue;
        if (index.depth(entry) > this.#caps.deltaDepth) {
          throw badPack(`a chain of more than ${this.#caps.deltaDepth} deltas`);
        }
        const built = await this.#object(entry, rooms);
        index.name(entry, gitId(built.type, built.bytes));
        if (!this.#recent.has(entry) && rooms.length < 2) rooms.push(built.bytes);
      }
    }
    if (type === 'tree') this.#resolvedTrees = true;
    else this.#resolvedBlobs = true;
  }

  /** Joins deltas to bases that have become known by id; true where there was one. */
  async #linkRefBases(): Promise<boolean> {
    const index = this.#index;
    if (index.waiting === 0) return false;
    let linked = false;
    for (const step of ['link', 'inherit'] as const) {
      for (let entry = 0; entry < index.count; entry += 1) {
        if (step === 'inherit') index.inherit(entry);
        else if (index.linkById(entry)) linked = true;
        if (entry % turnEntries === turnEntries - 1) await yieldToEventLoop();
      }
      if (!linked) return false;
    }
    this.#signal.throwIfAborted();
    return true;
  }
}

async function spool(
  chunks: AsyncIterable<Buffer>,
  file: FileHandle,
  taking: Taking | undefined,
): Promise<{ bytes: number; trailer: boolean }> {
  const hash = createHash('sha1');
  let tail = Buffer.alloc(0);
  let bytes = 0;
  for await (const chunk of chunks) {
    taking?.(chunk.length / diskBytes);
    // A disk that has room for a part of it takes that part, and says so with the next.
    for (let done = 0; done < chunk.length; ) {
      const write = file.write(chunk, done, chunk.length - done, bytes + done);
      done += (await ofMachine(write)).bytesWritten;
    }
    bytes += chunk.length;
    const joined = Buffer.concat([tail, chunk]);
    hash.update(joined.subarray(0, Math.max(0, joined.length - 20)));
    tail = Buffer.from(joined.subarray(Math.max(0, joined.length - 20)));
  }
  return { bytes, trailer: hash.digest().equals(tail) };
}

/** Throws what the system says of the file as `MachineLack`. */
async function ofMachine<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw asTemporaryLack(error);
  }
}

async function readAt(file: FileHandle, at: number, length: number): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(length);
  const { bytesRead } = await file.read(buffer, 0, length, at);
  return buffer.subarray(0, bytesRead);
}

/** One pass over the entries: offsets, sizes, types, bases, and the ids of all that is no delta. */
async function scan(file: FileHandle, end: number, caps: RepoCaps, signal: AbortSignal, taking: Taking | undefined) {
  const count = packObjectCount(await readAt(file, 0, 12));
  if (count > caps.spoolObjects) throw tooLarge(`the pack holds ${count} objects`, caps.spoolObjects);
  taking?.(count * PackIndex.entryBytes);
  const index = new PackIndex(count);
  let window: { from: number; bytes: Buffer } = { from: 0, bytes: Buffer.alloc(0) };
  let at = 12;
  let since = 0;
  for (let entry = 0; entry < count; entry += 1) {
    const ensure = async (need: number) => {
      if (at + need > window.from + window.bytes.length && window.from + window.bytes.length < end) {
        const length = Math.min(Math.max(windowBytes, need), end - at);
        window = { from: at, bytes: await readAt(file, at, length) };
      }
    };
    await ensure(headBytes);
    const header = entryHeader(window.bytes, at, window.from);
    index.note(entry, at, header);
    const whole = Math.min(header.size * 2 + 4096, end - at);
    if (header.size <= windowBytes) {
      await ensure(whole);
      const inflated = inflateEntry(window.bytes, header.dataAt - window.from, header.size);
      if (!index.isDelta(entry)) index.name(entry, gitId(index.type(entry) as ObjectType, inflated.data));
      at = window.from + inflated.next;
    } else {
      at = await scanLarge(file, header, end, index, entry, caps);
    }
    index.end(entry, at);
    since += header.size + 2048;
    if (since > turnBytes) {
      since = 0;
      signal.throwIfAborted();
      await yieldToEventLoop();
    }
  }
  if (at !== end) throw badPack('it holds more than it says');
  return index;
}

/** After any of them the next window may be written, or is not wanted any more. */
const stirring = ['drain', 'close', 'end'] as const;

/** Inflates a large object through a stream, hashing it as it goes by and keeping nothing. */
async function scanLarge(
  file: FileHandle,
  header: EntryHeader,
  end: number,
  index: PackIndex,
  entry: number,
  caps: RepoCaps,
): Promise<number> {
  if (header.type !== 'blob' && header.size > sizeLimit(header.type, caps)) {
    throw tooLarge(`a ${header.type} of ${header.size} bytes`, sizeLimit(header.type, caps));
  }
  if (header.size > caps.spoolBytes * 16) throw tooLarge(`a blob of ${header.size} bytes`, caps.spoolBytes * 16);
  const hash = createHash('sha1').update(`${header.type} ${header.size}\0`);
  const inflate = createInflate({ chunkSize: 1 << 16 });
  let made = 0;
  const feed = async () => {
    for (let at = header.dataAt; at < end && !inflate.writableEnded && !inflate.destroyed; at += windowBytes) {
      const chunk = await readAt(file, at, Math.min(windowBytes, end - at));
      if (inflate.destroyed || inflate.readableEnded) return;
      if (!inflate.write(chunk)) {
        const { promise, resolve } = Promise.withResolvers<void>();
        for (const event of stirring) inflate.on(event, resolve);
        await promise;
        for (const event of stirring) inflate.off(event, resolve);
      }
    }
    if (!inflate.destroyed) inflate.end();
  };
  const feeding = feed();
  try {
    for await (const chunk of inflate as AsyncIterable<Buffer>) {
      made += chunk.length;
      if (made > header.size) throw badPack('an object is larger than it claims');
      hash.update(chunk);
    }
  } catch (error) {
    inflate.destroy();
    await feeding;
    throw error instanceof Error && error.name === 'RepoCondition' ? error : badPack('an object cannot be inflated');
  }
  await feeding;
  if (made !== header.size) throw badPack('an object is not of the size it claims');
  if (!index.isDelta(entry)) index.name(entry, hash.digest('hex'));
  return header.dataAt + inflate.bytesWritten;
}
