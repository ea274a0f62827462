// What a root file system is made of: its entries, what they are bounded by, and the digest over them.

import { createHash } from 'node:crypto';
import { normalize } from 'node:path/posix';
import { Fault } from '../../domain/fault.ts';

export interface Limits {
  readonly maxEntries: number;
  readonly maxBytes: number;
}
export const limitsTable: Limits = { maxEntries: 1_000_000, maxBytes: 20 * 1024 ** 3 };

const pathBytesMax = 4095;
/** The sandbox has its own. What lies in them is left behind. */
export const ownDirectories: ReadonlySet<string> = new Set(['dev', 'proc', 'sys', 'run', 'tmp']);

export type Entry =
  | { readonly kind: 'directory'; readonly mode: number }
  | { readonly kind: 'file'; readonly mode: number; readonly bytes: number; readonly sha256: string }
  | { readonly kind: 'link'; readonly target: string };

/** Entries by path, without a slash at either end. */
export class Tree {
  readonly #entries = new Map<string, Entry>();
  readonly #limits: Limits;
  files = 0;
  bytes = 0;

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  get(path: string): Entry | undefined {
    return this.#entries.get(path);
  }

  /** Throws Fault `too_large` where it is one too many. */
  add(path: string, entry: Entry): void {
    const before = this.#entries.get(path);
    if (before?.kind === 'file') {
      this.files -= 1;
      this.bytes -= before.bytes;
    }
    this.#entries.set(path, entry);
    if (entry.kind === 'file') {
      this.files += 1;
      this.bytes += entry.bytes;
    }
    if (this.#entries.size > this.#limits.maxEntries) throw tooLarge(`${this.#limits.maxEntries} entries`);
    this.room(0);
  }

  /** Throws Fault `too_large` where so many more bytes are too many. */
  room(more: number): void {
    if (this.bytes + more > this.#limits.maxBytes) throw tooLarge(`${this.#limits.maxBytes} bytes`);
  }

  /** The same for the same names, kinds, permissions and contents, in whatever order they came. */
  digest(): string {
    const hash = createHash('sha256');
    for (const [path, entry] of [...this.#entries].sort(([a], [b]) => (a < b ? -1 : 1))) {
      hash.update(JSON.stringify(described(path, entry)));
      hash.update('\n');
    }
    return `sha256:${hash.digest('hex')}`;
  }
}

function described(path: string, entry: Entry): readonly (string | number)[] {
  switch (entry.kind) {
    case 'directory':
      return ['d', path, entry.mode];
    case 'file':
      return ['f', path, entry.mode, entry.bytes, entry.sha256];
    case 'link':
      return ['l', path, entry.target];
  }
}

/** No set-user-id, and its owner can always read and remove it. */
export const fileMode = (mode: number): number => (mode & 0o777) | 0o600;
export const directoryMode = (mode: number): number => (mode & 0o777) | 0o700;

export const refused = (path: string, why: string): Fault =>
  new Fault('unprocessable', 'preset-entry', `Entry ${JSON.stringify(path.slice(0, 200))} is refused: ${why}`);

const tooLarge = (what: string): Fault =>
  new Fault('too_large', 'preset-too-large', `The root file system has more than ${what}`);

/** The path of an entry below the root, empty for the root itself. Throws Fault for one that would leave it. */
export function entryPath(name: string): string {
  if (name.startsWith('/')) throw refused(name, 'its path is absolute');
  if (name.includes('\0') || Buffer.byteLength(name) > pathBytesMax) throw refused(name, 'it is no path');
  if (name.split('/').includes('..')) throw refused(name, 'its path holds ..');
  return normalize(name)
    .replace(/^\.\/?/, '')
    .replace(/\/$/, '');
}
