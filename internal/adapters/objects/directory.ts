// Objects as files of a directory that several daemons see: written beside their place, flushed, and moved into it.

import { randomBytes } from 'node:crypto';
import { constants, createReadStream } from 'node:fs';
import { copyFile, lstat, open, readdir, rename, rm, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { isKey, type ObjectFile, type ObjectStore, type StoredObject } from './types.ts';
import { makeDirectory } from '../../base/files.ts';

const ending = '.sealed';
const begun = 'next-';
const abandonedAfterMs = 24 * 3_600_000;

const isMissing = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === 'ENOENT';

export class DirectoryStore implements ObjectStore {
  readonly where: string;
  readonly #now: () => number;

  constructor(directory: string, now: () => number) {
    this.where = directory;
    this.#now = now;
  }

  async get(key: string): Promise<Readable | null> {
    const path = this.#path(key);
    try {
      // A link of that name leads elsewhere, and is nobody's object.
      const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW);
      const now = new Date(this.#now());
      await utimes(path, now, now).catch(() => undefined); // Only the order of what is removed first depends on it.
      return createReadStream('', { fd: file });
    } catch (error) {
      if (isMissing(error) || (error as NodeJS.ErrnoException).code === 'ELOOP') return null;
      throw error;
    }
  }

  async put(key: string, { path }: ObjectFile): Promise<void> {
    await makeDirectory(this.where);
    const next = join(this.where, `${begun}${randomBytes(8).toString('hex')}`);
    try {
      await copyFile(path, next, constants.COPYFILE_EXCL);
      const file = await open(next, 'r+');
      await file.chmod(0o600);
      await file.sync();
      await file.close();
      await rename(next, this.#path(key));
    } finally {
      await rm(next, { force: true });
    }
  }

  async list(): Promise<StoredObject[]> {
    const names = await readdir(this.where).catch((error: unknown) => {
      if (isMissing(error)) return [];
      throw error;
    });
    const found: StoredObject[] = [];
    for (const name of names) {
      const path = join(this.where, name);
      const at = await lstat(path).catch(() => null); // Removed by another daemon meanwhile.
      if (at === null || !at.isFile()) continue;
      const key = name.slice(0, -ending.length);
      if (name.endsWith(ending) && isKey(key)) found.push({ key, bytes: at.size, at: at.mtimeMs });
      // Of a daemon that was killed while it wrote.
      else if (name.startsWith(begun) && this.#now() - at.mtimeMs > abandonedAfterMs) await rm(path, { force: true });
    }
    return found;
  }

  async remove(key: string): Promise<void> {
    await rm(this.#path(key), { force: true });
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  #path(key: string): string {
    if (!isKey(key)) throw new Error('a key of an object is a SHA-256');
    return join(this.where, key + ending);
  }
}
