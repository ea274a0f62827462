// What is kept beyond one daemon, as whole objects by name.

import type { Readable } from 'node:stream';

export interface StoredObject {
  readonly key: string;
  readonly bytes: number;
  /** Milliseconds since 1970: when it was written, or used where the store knows. */
  readonly at: number;
}

/** A file of this machine that becomes an object. */
export interface ObjectFile {
  readonly path: string;
  readonly bytes: number;
  /** Of its content, in hexadecimal. */
  readonly sha256: string;
}

/**
 * Keys are `[0-9a-f]{64}`. An object is whole or it is not there, and of two writers at once one wins. Every call throws
 * what went wrong with the store; messages hold no credential.
 */
export interface ObjectStore {
  /** For messages: where it is. */
  readonly where: string;
  /** Null where there is none. */
  get(key: string): Promise<Readable | null>;
  put(key: string, file: ObjectFile): Promise<void>;
  /** All that are of this kind; names of others are left out. */
  list(): Promise<StoredObject[]>;
  /** Absent is success. */
  remove(key: string): Promise<void>;
  close(): Promise<void>;
}

export const isKey = (text: string): boolean => /^[0-9a-f]{64}$/.test(text);
