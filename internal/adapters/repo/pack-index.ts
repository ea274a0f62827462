// What is known of each object of a spooled pack: columns of numbers, some 50 bytes an object, and a table of slots by which one
// is found by its id. A pack may hold two million: a map of texts of all of them would be larger than what it stands for.

import { randomBytes } from 'node:crypto';
import type { ObjectType } from './objects.ts';
import { badPack, type EntryHeader } from './pack-reader.ts';

const types: readonly ObjectType[] = ['commit', 'tree', 'blob', 'tag'];
const idBytes = 20;
/** In place of a base: there is none; it is named by an id that is not known yet. */
const noBase = -1;
const baseById = -2;

export class PackIndex {
  /** What an entry takes of memory, its slots with it. */
  static readonly entryBytes = 60;
  readonly count: number;
  readonly #offsets: Float64Array;
  /** Bytes of the header of each. */
  readonly #heads: Uint8Array;
  readonly #sizes: Float64Array;
  readonly #bases: Int32Array;
  /** Position in `types`; a delta takes that of its base. */
  readonly #kinds: Int8Array;
  readonly #depths: Uint16Array;
  /** The id, or as long as that is not known that of the base. */
  readonly #ids: Buffer;
  readonly #known: Uint8Array;
  /** One more than the entry; 0: nothing. */
  readonly #slots: Int32Array;
  readonly #shift: number;
  /** Drawn, so that nobody can make objects that lie in one place. */
  readonly #draw = [randomBytes(4).readInt32LE() | 1, randomBytes(4).readInt32LE() | 1] as const;
  /** Deltas whose base is not known yet. */
  waiting = 0;

  constructor(count: number) {
    this.count = count;
    this.#offsets = new Float64Array(count + 1);
    this.#heads = new Uint8Array(count);
    this.#sizes = new Float64Array(count);
    this.#bases = new Int32Array(count).fill(noBase);
    this.#kinds = new Int8Array(count).fill(-1);
    this.#depths = new Uint16Array(count);
    this.#ids = Buffer.alloc(count * idBytes);
    this.#known = new Uint8Array(count);
    const bits = Math.max(4, Math.ceil(Math.log2(count + 1)) + 1);
    this.#slots = new Int32Array(2 ** bits);
    this.#shift = 32 - bits;
  }

  offset(entry: number): number {
    return this.#offsets[entry] as number;
  }

  dataAt(entry: number): number {
    return this.offset(entry) + (this.#heads[entry] as number);
  }

  size(entry: number): number {
    return this.#sizes[entry] as number;
  }

  /** The entry that this one builds upon; negative where there is none, or none that is known. */
  base(entry: number): number {
    return this.#bases[entry] as number;
  }

  isDelta(entry: number): boolean {
    return this.base(entry) !== noBase;
  }

  isKnown(entry: number): boolean {
    return this.#known[entry] === 1;
  }

  /** Undefined for a delta whose base is not known. */
  type(entry: number): ObjectType | undefined {
    return types[this.#kinds[entry] as number];
  }

  depth(entry: number): number {
    return this.#depths[entry] as number;
  }

  /** Where the entry behind this one begins. */
  end(entry: number, at: number): void {
    this.#offsets[entry + 1] = at;
  }

  /** Notes what its header says of an entry; those before it are noted. */
  note(entry: number, at: number, header: EntryHeader): void {
    this.#offsets[entry] = at;
    this.#heads[entry] = header.dataAt - at;
    this.#sizes[entry] = header.size;
    if (header.type === 'ref-delta') {
      this.#bases[entry] = baseById;
      this.#ids.write(header.baseOid as string, entry * idBytes, 'hex');
      this.waiting += 1;
    } else if (header.type === 'ofs-delta') {
      const base = this.#entryAt(entry, header.baseAt as number);
      if (base < 0) throw badPack('a delta points between two entries');
      this.#buildOn(entry, base);
    } else this.#kinds[entry] = types.indexOf(header.type);
  }

  /** Gives an entry its id. */
  name(entry: number, oid: string): void {
    this.#ids.write(oid, entry * idBytes, 'hex');
    this.#known[entry] = 1;
    const slot = this.#slotOf(this.#ids, entry * idBytes);
    if (this.#slots[slot] === 0) this.#slots[slot] = entry + 1;
  }

  /** The entry of an id; -1 for none. */
  find(oid: string): number {
    return (this.#slots[this.#slotOf(Buffer.from(oid, 'hex'), 0)] as number) - 1;
  }

  /** Joins a delta to its base, where that has become known by its id; true where it has. */
  linkById(entry: number): boolean {
    if (this.#bases[entry] !== baseById) return false;
    const base = (this.#slots[this.#slotOf(this.#ids, entry * idBytes)] as number) - 1;
    if (base < 0) return false;
    this.#buildOn(entry, base);
    this.waiting -= 1;
    return true;
  }

  /** Takes the type of the base over, where that has become known since. */
  inherit(entry: number): void {
    if (this.base(entry) >= 0 && this.#kinds[entry] === -1) this.#buildOn(entry, this.base(entry));
  }

  #buildOn(entry: number, base: number): void {
    this.#bases[entry] = base;
    this.#kinds[entry] = this.#kinds[base] as number;
    this.#depths[entry] = Math.min(this.depth(base) + 1, 0xffff);
  }

  /** The slot of the id that stands there, or the free one where it would be. */
  #slotOf(bytes: Buffer, at: number): number {
    const [one, other] = this.#draw;
    const mixed = Math.imul(bytes.readInt32LE(at), one) + Math.imul(bytes.readInt32LE(at + 4), other);
    let slot = (mixed >>> 0) >>> this.#shift;
    for (;;) {
      const entry = (this.#slots[slot] as number) - 1;
      if (entry < 0) return slot;
      const here = entry * idBytes;
      if (this.#ids.compare(bytes, at, at + idBytes, here, here + idBytes) === 0) return slot;
      slot = slot + 1 === this.#slots.length ? 0 : slot + 1;
    }
  }

  /** The entry, among the first `count`, that begins at an offset; -1 where none does. */
  #entryAt(count: number, offset: number): number {
    let [low, high] = [0, count - 1];
    while (low <= high) {
      const middle = (low + high) >> 1;
      const found = this.offset(middle);
      if (found === offset) return middle;
      if (found < offset) low = middle + 1;
      else high = middle - 1;
    }
    return -1;
  }
}
