// A pack of a whole tree, for servers without filters: streamed into a temporary file that has no name any more,
// scanned once through a window, and then asked for single trees and blobs. Memory grows with the number of objects
// (some 40 bytes each) and with what is asked for, not with the size of the pack.

import { createHash, randomBytes } from 'node:crypto';
import { type FileHandle, open, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { yieldToEventLoop } from '../../base/concurrency.ts';
import { createInflate } from 'node:zlib';
import { gitId } from '../../base/hash.ts';
import type { GitObject, ObjectType } from './objects.ts';
import { applyDelta, deltaSizes } from './pack-delta.ts';
import { badPack, type EntryHeader, entryHeader, inflateEntry, packObjectCount, sizeLimit } from './pack-reader.ts';
import { type RepoCaps, tooLarge } from './types.ts';

const windowBytes = 1 << 20;
const headBytes = 64;
const types: readonly ObjectType[] = ['commit', 'tree', 'blob', 'tag'];

interface Index {
  readonly count: number;
  readonly offsets: Float64Array;
  readonly dataAt: Float64Array;
  readonly sizes: Float64Array;
  /** Index of the base, -1 for none, -2 for one that is named by id and not known yet. */
  readonly bases: Int32Array;
  /** Position in `types`; a delta takes that of its base. */
  readonly kinds: Int8Array;
  readonly depths: Uint8Array;
  readonly oids: Buffer;
  readonly known: Uint8Array;
}

export class SpoolPack {
  readonly #file: FileHandle;
  readonly #caps: RepoCaps;
  readonly #index: Index;
  readonly #refBases: Map<number, string>;
  readonly #byOid = new Map<string, number>();
  #resolvedTrees = false;
  #resolvedBlobs = false;
  #work = 0;
  readonly #signal: AbortSignal;

  private constructor(
    file: FileHandle,
    caps: RepoCaps,
    signal: AbortSignal,
    index: Index,
    refBases: Map<number, string>,
  ) {
    this.#file = file;
    this.#caps = caps;
    this.#signal = signal;
    this.#index = index;
    this.#refBases = refBases;
    for (let entry = 0; entry < index.count; entry += 1) {
      // Blobs are many and looked up in batches; everything else gets an index.
      if (index.known[entry] === 1 && types[index.kinds[entry] as number] !== 'blob')
        this.#byOid.set(this.#oidAt(entry), entry);
    }
  }

  /** Takes in a pack; `signal` bounds all work on it. The file is unlinked before the first byte is written. Throws `corrupt`, `too-large`. */
  static async take(
    chunks: AsyncIterable<Buffer>,
    directory: string,
    caps: RepoCaps,
    signal: AbortSignal,
  ): Promise<SpoolPack> {
    const path = join(directory, `svc-spool-${process.pid}-${randomBytes(8).toString('hex')}`);
    const file = await open(path, 'wx+', 0o600);
    try {
      await unlink(path);
      const { bytes, trailer } = await spool(chunks, file);
      if (bytes < 32) throw badPack('it is too short');
      const { index, refBases } = await scan(file, bytes - 20, trailer, caps, signal);
      return new SpoolPack(file, caps, signal, index, refBases);
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
    if (!this.#byOid.has(oid) && !this.#resolvedTrees) await this.#resolveDeltas('tree');
    const entry = this.#byOid.get(oid);
    return entry === undefined ? undefined : this.#object(entry);
  }

  /** Those of the blobs that the pack has; null for one past the size limit. */
  async blobs(oids: readonly string[]): Promise<Map<string, Buffer | null>> {
    let where = this.#find(new Set(oids));
    if (where.size < oids.length && !this.#resolvedBlobs) {
      await this.#resolveDeltas('blob');
      where = this.#find(new Set(oids));
    }
    const found = new Map<string, Buffer | null>();
    let total = 0;
    for (const [oid, entry] of where) {
      const size = this.#index.sizes[entry] as number;
      const object = size > this.#caps.fileBytes && this.#index.bases[entry] === -1 ? null : await this.#object(entry);
      const bytes = object === null || object.bytes.length > this.#caps.fileBytes ? null : object.bytes;
      total += bytes?.length ?? 0;
      if (total > this.#caps.totalBytes) throw tooLarge('the files inflate to more', this.#caps.totalBytes);
      found.set(oid, bytes);
    }
    return found;
  }

  #find(wanted: ReadonlySet<string>): Map<string, number> {
    const found = new Map<string, number>();
    for (let entry = 0; entry < this.#index.count && found.size < wanted.size; entry += 1) {
      if (this.#index.known[entry] !== 1) continue;
      const oid = this.#oidAt(entry);
      if (wanted.has(oid) && !found.has(oid)) found.set(oid, entry);
    }
    return found;
  }

  #oidAt(entry: number): string {
    return this.#index.oids.toString('hex', entry * 20, entry * 20 + 20);
  }

  /** Rebuilds one object from its chain. */
  async #object(entry: number): Promise<GitObject> {
    const chain: number[] = [];
    let at = entry;
    for (; this.#baseOf(at) >= 0; at = this.#baseOf(at)) chain.push(at);
    const type = types[this.#index.kinds[entry] as number] as ObjectType;
    let bytes = await this.#inflate(at);
    for (const delta of chain.reverse()) {
      const data = await this.#inflate(delta);
      // A small file may build on a larger one, so the bound is that of all that may be held at once.
      if (deltaSizes(data).resultBytes > this.#caps.totalBytes / 4)
        throw tooLarge('a base of a delta', this.#caps.totalBytes / 4);
      bytes = applyDelta(bytes, data);
    }
    return { type, bytes };
  }

  #baseOf(entry: number): number {
    return this.#index.bases[entry] as number;
  }

  async #inflate(entry: number): Promise<Buffer> {
    const size = this.#index.sizes[entry] as number;
    if (size > this.#caps.totalBytes / 4) throw tooLarge(`an object of ${size} bytes`, this.#caps.totalBytes / 4);
    const at = this.#index.dataAt[entry] as number;
    // deflate's own worst case, doubled for writers that flush often; else the next offset bounds it anyway.
    const compressed = Math.min(size * 2 + 4096, (this.#index.offsets[entry + 1] as number) - at);
    this.#work += size + 4096;
    if (this.#work > 4 << 20) {
      this.#work = 0;
      this.#signal.throwIfAborted();
      await yieldToEventLoop();
    }
    return inflateEntry(await readAt(this.#file, at, compressed), 0, size).data;
  }

  /** Gives ids to the deltas of one type (their ids are known only once they are built). */
  async #resolveDeltas(type: 'tree' | 'blob'): Promise<void> {
    const index = this.#index;
    // An object that one pass makes known may be the base that a delta names by id: then another pass follows.
    for (let pass = 0; pass <= this.#caps.deltaDepth && (this.#linkRefBases() || pass === 0); pass += 1) {
      for (let entry = 0; entry < index.count; entry += 1) {
        if (index.known[entry] === 1 || types[index.kinds[entry] as number] !== type) continue;
        if ((index.depths[entry] as number) > this.#caps.deltaDepth) {
          throw badPack(`a chain of more than ${this.#caps.deltaDepth} deltas`);
        }
        const built = await this.#object(entry);
        name(index, entry, gitId(built.type, built.bytes));
        if (type === 'tree') this.#byOid.set(this.#oidAt(entry), entry);
      }
    }
    if (type === 'tree') this.#resolvedTrees = true;
    else this.#resolvedBlobs = true;
  }

  /** Joins deltas to bases that have become known by id; true where there was one. */
  #linkRefBases(): boolean {
    if (this.#refBases.size === 0) return false;
    const wanted = this.#find(new Set(this.#refBases.values()));
    if (wanted.size === 0) return false;
    for (const [entry, oid] of this.#refBases) {
      const base = wanted.get(oid);
      if (base === undefined) continue;
      this.#index.bases[entry] = base;
      this.#index.kinds[entry] = this.#index.kinds[base] as number;
      this.#index.depths[entry] = Math.min((this.#index.depths[base] as number) + 1, 255);
      this.#refBases.delete(entry);
    }
    for (let entry = 0; entry < this.#index.count; entry += 1) {
      const base = this.#baseOf(entry);
      if (base < 0 || this.#index.kinds[entry] !== -1) continue;
      this.#index.kinds[entry] = this.#index.kinds[base] as number;
      this.#index.depths[entry] = Math.min((this.#index.depths[base] as number) + 1, 255);
    }
    return true;
  }
}

async function spool(chunks: AsyncIterable<Buffer>, file: FileHandle): Promise<{ bytes: number; trailer: boolean }> {
  const hash = createHash('sha1');
  let tail = Buffer.alloc(0);
  let bytes = 0;
  for await (const chunk of chunks) {
    await file.write(chunk, 0, chunk.length, bytes);
    bytes += chunk.length;
    const joined = Buffer.concat([tail, chunk]);
    hash.update(joined.subarray(0, Math.max(0, joined.length - 20)));
    tail = Buffer.from(joined.subarray(Math.max(0, joined.length - 20)));
  }
  return { bytes, trailer: hash.digest().equals(tail) };
}

async function readAt(file: FileHandle, at: number, length: number): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(length);
  const { bytesRead } = await file.read(buffer, 0, length, at);
  return buffer.subarray(0, bytesRead);
}

/** One pass over the entries: offsets, sizes, types, bases, and the ids of all that is no delta. */
async function scan(file: FileHandle, end: number, trailer: boolean, caps: RepoCaps, signal: AbortSignal) {
  if (!trailer) throw badPack('its checksum does not fit');
  const count = packObjectCount(await readAt(file, 0, 12));
  if (count > caps.spoolObjects) throw tooLarge(`the pack holds ${count} objects`, caps.spoolObjects);
  const index = emptyIndex(count);
  const refBases = new Map<number, string>();
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
    note(index, refBases, entry, at, header);
    const whole = Math.min(header.size * 2 + 4096, end - at);
    if (header.size <= windowBytes) {
      await ensure(whole);
      const inflated = inflateEntry(window.bytes, header.dataAt - window.from, header.size);
      if (index.bases[entry] === -1)
        name(index, entry, gitId(types[index.kinds[entry] as number] as ObjectType, inflated.data));
      at = window.from + inflated.next;
    } else {
      at = await scanLarge(file, header, end, index, entry, caps);
    }
    index.offsets[entry + 1] = at;
    since += header.size + 2048;
    if (since > 4 << 20) {
      since = 0;
      signal.throwIfAborted();
      await yieldToEventLoop();
    }
  }
  if (at !== end) throw badPack('it holds more than it says');
  return { index, refBases };
}

function emptyIndex(count: number): Index {
  return {
    count,
    offsets: new Float64Array(count + 1),
    dataAt: new Float64Array(count),
    sizes: new Float64Array(count),
    bases: new Int32Array(count).fill(-1),
    kinds: new Int8Array(count).fill(-1),
    depths: new Uint8Array(count),
    oids: Buffer.alloc(count * 20),
    known: new Uint8Array(count),
  };
}

function note(index: Index, refBases: Map<number, string>, entry: number, at: number, header: EntryHeader): void {
  index.offsets[entry] = at;
  index.dataAt[entry] = header.dataAt;
  index.sizes[entry] = header.size;
  if (header.type === 'ref-delta') {
    index.bases[entry] = -2;
    refBases.set(entry, header.baseOid as string);
  } else if (header.type === 'ofs-delta') {
    const base = entryAt(index, entry, header.baseAt as number);
    if (base < 0) throw badPack('a delta points between two entries');
    index.bases[entry] = base;
    index.kinds[entry] = index.kinds[base] as number;
    index.depths[entry] = Math.min((index.depths[base] as number) + 1, 255);
  } else index.kinds[entry] = types.indexOf(header.type);
}

/** The entry, among the first `count`, that begins at an offset; -1 where none does. */
function entryAt(index: Index, count: number, offset: number): number {
  let [low, high] = [0, count - 1];
  while (low <= high) {
    const middle = (low + high) >> 1;
    const found = index.offsets[middle] as number;
    if (found === offset) return middle;
    if (found < offset) low = middle + 1;
    else high = middle - 1;
  }
  return -1;
}

function name(index: Index, entry: number, oid: string): void {
  Buffer.from(oid, 'hex').copy(index.oids, entry * 20);
  index.known[entry] = 1;
}

/** After any of them the next window may be written, or is not wanted any more. */
const stirring = ['drain', 'close', 'end'] as const;

/** Inflates a large object through a stream, hashing it as it goes by and keeping nothing. */
async function scanLarge(
  file: FileHandle,
  header: EntryHeader,
  end: number,
  index: Index,
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
  if (index.bases[entry] === -1) name(index, entry, hash.digest('hex'));
  return header.dataAt + inflate.bytesWritten;
}
