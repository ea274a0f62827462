// What setup steps left, kept as archives under the data directory. An archive is written by a program of the sandbox and
// read by one, so that this process never follows what is in it; it is whole or it is not there, and one that does not
// have the checksum of its head is a miss. Deleting the directory costs time only.

import { createHash, randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { chmod, type FileHandle, mkdir, open, readdir, rename, rm, stat, utimes } from 'node:fs/promises';
import { join } from 'node:path/posix';
import type { Readable } from 'node:stream';
import { createLimiter } from '../../base/concurrency.ts';

/** What other daemons have kept, and are given. */
export interface SharedSetups {
  /** Null where nothing is there that is wanted. Reading throws where it is not whole: then nothing of it is to be used. */
  fetch(
    key: string,
    isWanted: (at: number) => boolean,
  ): Promise<{ readonly at: number; readonly archive: AsyncIterable<Buffer> } | null>;
  /** In the background; closes the file, of which the archive is what comes after `start` bytes. */
  keep(key: string, at: number, file: FileHandle, start: number): void;
}

export interface SetupCacheOptions {
  /** Of one archive; a larger one is not kept. Default 2 GiB. */
  readonly maxEntryBytes?: number;
  /** Of all; the longest unused go first. Default 20 GiB. */
  readonly maxTotalBytes?: number;
  /** Asked where this daemon has nothing. */
  readonly shared?: SharedSetups | undefined;
}

interface Head {
  readonly version: 1;
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly bytes: number;
  readonly sha256: string;
}

interface Limits {
  readonly now: Date;
  /** Null: however old. */
  readonly ttlMs: number | null;
}

const isFresh = (at: number, { now, ttlMs }: Limits): boolean => ttlMs === null || now.getTime() - at <= ttlMs;

const headBytes = 256;
const keyPattern = /^[0-9a-f]{64}$/;
const abandonedAfterMs = 24 * 3_600_000;

export class SetupCache {
  readonly #dir: string;
  readonly #maxEntryBytes: number;
  readonly #maxTotalBytes: number;
  readonly #shared: SharedSetups | undefined;
  readonly #turns = createLimiter(Number.POSITIVE_INFINITY, 1);

  private constructor(dir: string, options: SetupCacheOptions) {
    this.#dir = dir;
    this.#maxEntryBytes = options.maxEntryBytes ?? 2 * 1024 ** 3;
    this.#maxTotalBytes = options.maxTotalBytes ?? 20 * 1024 ** 3;
    this.#shared = options.shared;
  }

  /** The cache of a data directory. */
  static async open(dataDir: string, options: SetupCacheOptions = {}): Promise<SetupCache> {
    const dir = join(dataDir, 'setup-cache');
    await mkdir(dir, { recursive: true, mode: 0o700 });
    await chmod(dir, 0o700);
    return new SetupCache(dir, options);
  }

  /**
   * Does the work of one key one at a time, so that of many sessions that start together one fills it. `signal` ends the
   * wait for one's turn with its reason.
   */
  inTurn<T>(key: string, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    return this.#turns(key, work, signal && { signal });
  }

  /**
   * Hands the archive of a key to `restore`, which says whether it could use it. False where there is none, here or with
   * others, or it is older than `ttlMs`, or damaged, or of no use; the last three are removed here.
   */
  async restore(key: string, limits: Limits, restore: (archive: Readable) => Promise<boolean>): Promise<boolean> {
    if (await this.#restoreOwn(key, limits, restore)) return true;
    return (await this.#fetch(key, limits)) && this.#restoreOwn(key, limits, restore);
  }

  async #restoreOwn(key: string, limits: Limits, restore: (archive: Readable) => Promise<boolean>): Promise<boolean> {
    const path = this.#path(key);
    const file = await openPlain(path);
    if (file === null) return false;
    try {
      const head = await readHead(file);
      if (head === null || !isFresh(head.at, limits) || (await checksum(file)) !== head.sha256) {
        await rm(path, { force: true });
        return false;
      }
      await utimes(path, limits.now, limits.now).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'ENOENT') throw error; // Pruned meanwhile; it is open still.
      });
      const isRestored = await restore(file.createReadStream({ start: headBytes, autoClose: false }));
      if (!isRestored) await rm(path, { force: true });
      return isRestored;
    } finally {
      await file.close();
    }
  }

  /** Brings here what another daemon has kept; false where there is nothing that could be used. */
  async #fetch(key: string, limits: Limits): Promise<boolean> {
    const found = await this.#shared?.fetch(key, (at) => isFresh(at, limits));
    if (found === undefined || found === null) return false;
    try {
      return await this.#write(key, found.at, limits.now, found.archive);
    } catch {
      // Cut, changed, or sealed by a key that is not held: as if it were not there.
      return false;
    }
  }

  /** Keeps what the stream gives; false where it is too large. A failure of the stream is thrown and keeps nothing. */
  async save(key: string, now: Date, archive: AsyncIterable<Buffer>): Promise<boolean> {
    if (!(await this.#write(key, now.getTime(), now, archive))) return false;
    const file = this.#shared === undefined ? null : await openPlain(this.#path(key));
    if (file !== null) this.#shared?.keep(key, now.getTime(), file, headBytes);
    return true;
  }

  async #write(key: string, at: number, now: Date, archive: AsyncIterable<Buffer>): Promise<boolean> {
    const path = this.#path(key);
    const temporary = join(this.#dir, `next-${randomBytes(8).toString('hex')}`);
    const file = await open(temporary, 'wx', 0o600);
    try {
      const hash = createHash('sha256');
      let bytes = 0;
      for await (const chunk of archive) {
        if (bytes + chunk.length > this.#maxEntryBytes) return false;
        hash.update(chunk);
        await writeAll(file, chunk, headBytes + bytes);
        bytes += chunk.length;
      }
      const head: Head = { version: 1, at, bytes, sha256: hash.digest('hex') };
      await writeAll(file, Buffer.from(JSON.stringify(head).padEnd(headBytes)), 0);
      await file.sync();
      await utimes(temporary, now, now);
      await rename(temporary, path);
    } finally {
      await file.close();
      await rm(temporary, { force: true });
    }
    await this.#prune(now);
    return true;
  }

  #path(key: string): string {
    if (!keyPattern.test(key)) throw new Error('a key of the setup cache is a SHA-256');
    return join(this.#dir, key);
  }

  async #prune(now: Date): Promise<void> {
    const found: { path: string; size: number; mtimeMs: number; isEntry: boolean }[] = [];
    for (const name of await readdir(this.#dir)) {
      const path = join(this.#dir, name);
      const at = await stat(path).catch(() => null); // Pruned by another daemon meanwhile.
      if (at !== null) found.push({ path, size: at.size, mtimeMs: at.mtimeMs, isEntry: keyPattern.test(name) });
    }
    let total = 0;
    for (const { path, size, mtimeMs, isEntry } of found.sort((a, b) => b.mtimeMs - a.mtimeMs)) {
      total += size;
      const isAbandoned = !isEntry && now.getTime() - mtimeMs > abandonedAfterMs;
      if (isAbandoned || (isEntry && total > this.#maxTotalBytes)) await rm(path, { force: true });
    }
  }
}

/** The file, open for reading; null where there is none. Anything else of that name is removed. */
async function openPlain(path: string): Promise<FileHandle | null> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ELOOP') return null;
    throw error;
  });
  if (file !== null && (await file.stat()).isFile()) return file;
  await file?.close();
  await rm(path, { recursive: true, force: true });
  return null;
}

async function writeAll(file: FileHandle, bytes: Buffer, at: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    done += (await file.write(bytes, done, bytes.length - done, at + done)).bytesWritten;
  }
}

async function readHead(file: FileHandle): Promise<Head | null> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(headBytes), 0, headBytes, 0);
  const { size } = await file.stat();
  if (bytesRead < headBytes) return null;
  try {
    const head = JSON.parse(buffer.toString('utf8')) as Head;
    return head.version === 1 && head.bytes === size - headBytes ? head : null;
  } catch {
    return null; // Damaged, which is a miss.
  }
}

async function checksum(file: FileHandle): Promise<string> {
  const hash = createHash('sha256');
  const stream = file.createReadStream({ start: headBytes, autoClose: false });
  for await (const chunk of stream as AsyncIterable<Buffer>) hash.update(chunk);
  return hash.digest('hex');
}
