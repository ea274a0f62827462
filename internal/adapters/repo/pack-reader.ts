// Reads a small pack that is held in memory. Every size is judged before it is inflated or allocated, the trailer
// and every object id are recomputed, chains of deltas are bounded, and nothing that cannot be resolved vanishes
// quietly. A pack that may be large is read by spool-pack.ts instead.

import { yieldToEventLoop } from '../../base/concurrency.ts';
import { inflateSync } from 'node:zlib';
import { gitId } from '../../base/hash.ts';
import type { GitObject, ObjectType } from './objects.ts';
import { PackBytes } from './pack-bytes.ts';
import { applyDelta, deltaSizes } from './pack-delta.ts';
import { RepoCondition, type Taking, tooLarge } from './types.ts';

export interface PackLimits {
  readonly objects: number;
  readonly fileBytes: number;
  readonly treeBytes: number;
  readonly commitBytes: number;
  /** Sum of all that is inflated or built. */
  readonly totalBytes: number;
  readonly deltaDepth: number;
  /** Hears of what is about to be inflated or built. */
  readonly taking?: Taking | undefined;
}

/** Objects that a thin pack builds upon and does not hold. */
export type BaseLookup = (oids: readonly string[]) => Promise<ReadonlyMap<string, GitObject>>;

export interface EntryHeader {
  readonly type: ObjectType | 'ofs-delta' | 'ref-delta';
  readonly size: number;
  /** Where the compressed bytes begin. */
  readonly dataAt: number;
  /** Offset of the base of an ofs-delta. */
  readonly baseAt?: number;
  readonly baseOid?: string;
}

interface Pending {
  readonly header: EntryHeader;
  readonly data: Buffer;
  object?: GitObject;
  oid?: string;
  depth: number;
}

const types: readonly (EntryHeader['type'] | null)[] = [
  null,
  'commit',
  'tree',
  'blob',
  'tag',
  null,
  'ofs-delta',
  'ref-delta',
];

/** Of what is inflated at a time. */
const roomBytesMax = (2 << 20) + 1;
/** A header has at most so many bytes. */
const headBytes = 64;

/** Number of objects that a pack says it holds. */
export function packObjectCount(head: Buffer): number {
  const version = head.length >= 12 ? head.readUInt32BE(4) : 0;
  if (head.toString('latin1', 0, 4) !== 'PACK' || (version !== 2 && version !== 3))
    throw badPack('it has no pack header');
  return head.readUInt32BE(8);
}

/** The header of the entry at `start`, an offset of the pack; `bytes` begins at offset `origin` of it. */
export function entryHeader(bytes: Buffer, start: number, origin = 0): EntryHeader {
  let at = start - origin;
  const next = () => {
    const byte = bytes[at];
    if (byte === undefined) throw badPack('it ends inside an entry');
    at += 1;
    return byte;
  };
  let byte = next();
  const type = types[(byte >> 4) & 7];
  let size = byte & 15;
  let weight = 16;
  while ((byte & 0x80) !== 0) {
    byte = next();
    size += (byte & 0x7f) * weight;
    weight *= 128;
    if (size > 2 ** 45) throw badPack('an entry has an impossible size');
  }
  if (type === null || type === undefined) throw badPack('an entry is of no known type');
  if (type === 'ref-delta') {
    if (at + 20 > bytes.length) throw badPack('it ends inside an entry');
    return { type, size, dataAt: origin + at + 20, baseOid: bytes.toString('hex', at, at + 20) };
  }
  if (type !== 'ofs-delta') return { type, size, dataAt: origin + at };
  byte = next();
  let distance = byte & 0x7f;
  while ((byte & 0x80) !== 0) {
    byte = next();
    distance = (distance + 1) * 128 + (byte & 0x7f);
    if (distance > 2 ** 45) throw badPack('a delta points outside of it');
  }
  if (distance === 0 || start - distance < 12) throw badPack('a delta points outside of it');
  return { type, size, dataAt: origin + at, baseAt: start - distance };
}

/** Inflates exactly `size` bytes at `at` and says where the next entry begins. */
export function inflateEntry(bytes: Buffer, at: number, size: number): { data: Buffer; next: number } {
  try {
    // One more than there is: a room that is filled to its end is followed by a second one.
    const chunkSize = Math.min(Math.max(size + 1, 64), roomBytesMax);
    const result = inflateSync(bytes.subarray(at), { info: true, maxOutputLength: Math.max(size, 1), chunkSize });
    const { buffer, engine } = result as unknown as { buffer: Buffer; engine: { bytesWritten: number } };
    if (buffer.length !== size) throw badPack('an object is not of the size it claims');
    return { data: buffer, next: at + engine.bytesWritten };
  } catch (error) {
    if (error instanceof RepoCondition) throw error;
    throw badPack('an object cannot be inflated, or is larger than it claims');
  }
}

export function sizeLimit(type: EntryHeader['type'], limits: PackLimits): number {
  if (type === 'tree') return limits.treeBytes;
  if (type === 'commit' || type === 'tag') return limits.commitBytes;
  if (type === 'blob') return limits.fileBytes;
  return Math.max(limits.treeBytes, limits.fileBytes);
}

/**
 * All objects of a pack by recomputed id. Throws `too-large` past a limit and `corrupt` for all that does not fit,
 * including a delta whose base neither the pack nor `lookup` has.
 */
export async function readPack(
  given: Buffer | PackBytes,
  limits: PackLimits,
  lookup?: BaseLookup,
): Promise<Map<string, GitObject>> {
  const pack = given instanceof PackBytes ? given : PackBytes.of(given);
  if (pack.length < 32) throw badPack('it is too short');
  const count = packObjectCount(pack.read(0, 12));
  if (count > limits.objects) throw tooLarge(`the pack holds ${count} objects`, limits.objects);
  if (!pack.isSound()) throw badPack('its checksum does not fit');
  const reader = new Resolver(limits);
  let at = 12;
  for (let index = 0; index < count; index += 1) {
    const header = entryHeader(pack.read(at, headBytes), at, at);
    if (header.size > sizeLimit(header.type, limits)) {
      throw tooLarge(`a ${header.type} of ${header.size} bytes`, sizeLimit(header.type, limits));
    }
    if (reader.spend(header.size)) await yieldToEventLoop();
    const { data, next } = inflateNext(pack, header);
    reader.add(at, header, data);
    at = header.dataAt + next;
  }
  if (at !== pack.end) throw badPack('it holds more than it says');
  await reader.resolveAll(lookup);
  return reader.objects;
}

/** Mostly little more than its size is there; deflate's own worst case is doubled for writers that flush often. */
function inflateNext(pack: PackBytes, { dataAt, size }: EntryHeader): { data: Buffer; next: number } {
  const few = size + (size >> 3) + 4_096;
  try {
    return inflateEntry(pack.read(dataAt, few), 0, size);
  } catch (error) {
    if (dataAt + few >= pack.end) throw error;
    return inflateEntry(pack.read(dataAt, size * 2 + 4_096), 0, size);
  }
}

class Resolver {
  readonly objects = new Map<string, GitObject>();
  readonly #byOffset = new Map<number, Pending>();
  readonly #deltas: Pending[] = [];
  /** Deltas by the entry that they build upon, or its id where that is all they say. */
  readonly #waiting = new Map<Pending | string, Pending[]>();
  #spent = 0;
  #sinceTurn = 0;
  readonly #limits: PackLimits;

  constructor(limits: PackLimits) {
    this.#limits = limits;
  }

  /** Counts bytes about to be made; true where it is time to let others run. */
  spend(bytes: number): boolean {
    this.#spent += bytes;
    if (this.#spent > this.#limits.totalBytes) throw tooLarge('the pack inflates to more', this.#limits.totalBytes);
    this.#limits.taking?.(bytes);
    // Small objects cost by their number: a hundred of them some milliseconds.
    this.#sinceTurn += bytes + (16 << 10);
    if (this.#sinceTurn < 2 << 20) return false;
    this.#sinceTurn = 0;
    return true;
  }

  add(offset: number, header: EntryHeader, data: Buffer): void {
    const pending: Pending = { header, data, depth: 0 };
    this.#byOffset.set(offset, pending);
    if (header.type === 'ofs-delta' || header.type === 'ref-delta') this.#deltas.push(pending);
    else this.#settle(pending, { type: header.type, bytes: data }, 0);
  }

  async resolveAll(lookup?: BaseLookup): Promise<void> {
    for (const delta of this.#deltas) {
      const { baseAt, baseOid = '' } = delta.header;
      const base = baseAt === undefined ? baseOid : this.#byOffset.get(baseAt);
      if (base === undefined) throw badPack('a delta points between two entries');
      const others = this.#waiting.get(base);
      if (others === undefined) this.#waiting.set(base, [delta]);
      else others.push(delta);
    }
    if (this.#waiting.size === 0) return;
    for (const entry of this.#byOffset.values()) await this.#buildUpon(entry);
    const missing = [...this.#waiting.keys()].filter((base) => typeof base === 'string');
    if (missing.length > 0 && lookup !== undefined) {
      for (const [oid, object] of await lookup(missing)) {
        if (gitId(object.type, object.bytes) !== oid) throw badPack('a base that is held has another content');
        const header: EntryHeader = { type: object.type, size: object.bytes.length, dataAt: 0 };
        await this.#buildUpon({ header, data: object.bytes, object, oid, depth: 0 });
      }
    }
    if (this.#waiting.size > 0) throw badPack('it lacks the base of a delta');
  }

  /** Builds what waits for an entry that is known, and what waits for that: each delta is looked at once, in whatever order they come. */
  async #buildUpon(entry: Pending): Promise<void> {
    const known = [entry];
    for (let base = known.pop(); base !== undefined; base = known.pop()) {
      if (base.object === undefined) continue;
      for (const key of [base, base.oid ?? '']) {
        const deltas = this.#waiting.get(key) ?? [];
        this.#waiting.delete(key);
        for (const delta of deltas) await this.#build(delta, base, base.object);
        known.push(...deltas);
      }
    }
  }

  async #build(delta: Pending, base: Pending, object: GitObject): Promise<void> {
    if (base.depth + 1 > this.#limits.deltaDepth)
      throw badPack(`a chain of more than ${this.#limits.deltaDepth} deltas`);
    const { resultBytes } = deltaSizes(delta.data);
    const limit = sizeLimit(object.type, this.#limits);
    if (resultBytes > limit) throw tooLarge(`a ${object.type} of ${resultBytes} bytes`, limit);
    if (this.spend(resultBytes)) await yieldToEventLoop();
    this.#settle(delta, { type: object.type, bytes: await applyDelta(object.bytes, delta.data) }, base.depth + 1);
  }

  #settle(pending: Pending, object: GitObject, depth: number): void {
    pending.object = object;
    pending.depth = depth;
    pending.oid = gitId(object.type, object.bytes);
    this.objects.set(pending.oid, object);
  }
}

export function badPack(why: string): RepoCondition {
  return new RepoCondition('corrupt', `the pack cannot be read: ${why}`);
}
