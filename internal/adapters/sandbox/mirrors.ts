// What large repositories left when they were mounted: a bare mirror of their objects, fetched by difference, and a spare
// work tree, checked out before somebody asks for it. Both are the daemon's alone: a session gets copies of pack files and
// the spare itself, which is its own from then on. Who may read is decided by the remote, each time, before anything of a
// mirror is used. Deleting the directory costs time only (docs/reference/compile.md#mounts).

import { randomBytes } from 'node:crypto';
import { chmod, mkdir, readdir, readFile, rename, rm, stat, statfs, utimes, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path/posix';
import { setTimeout } from 'node:timers/promises';
import { sha256 } from '../../base/hash.ts';
import { removeTree } from '../../base/remove-tree.ts';
import { bringUp, copyIfThere, copyPacks, packBytesOf, packsOf } from './pack-files.ts';
import { createLimiter } from '../../base/concurrency.ts';

/** Runs git in a directory of ours, without a network; rejects where it fails, or says more than 64 MiB. */
export type LocalGit = (cwd: string, args: readonly string[], signal: AbortSignal) => Promise<string>;

export interface MirrorOptions {
  /** Of all mirrors with their spares; the longest unused go first. 0: nothing is kept. */
  readonly maxBytes: number;
  /** A mirror that nobody used for so long goes. */
  readonly keepMs: number;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** From so many files on a clone is kept, whatever its size; default: 2,000. */
  readonly minFiles?: number;
  /** Hears of a spare that could not be made. */
  readonly onTrouble?: (error: unknown) => void;
  /** Of the machine's run; default: the kernel's word. What was written in an earlier one may not be on its disk whole. */
  readonly bootId?: string;
}

/** Whose a mirror is: a project never sees what another one fetched. */
export interface MirrorKey {
  readonly scope: string;
  readonly url: string;
  /** Of a shallow clone, with the ref that it is of: only that one is in it. */
  readonly shallow?: { readonly depth: number; readonly ref: string };
}

/** A tree that was found within the limits. */
export interface Measured {
  readonly commit: string;
  readonly files: number;
  readonly bytes: number;
  /** Those that it was held against. */
  readonly limits: string;
}

/** From so many files, or bytes of objects, on: below, a clone costs little more than looking. */
const worth = { files: 2_000, packBytes: 8 * 1024 * 1024 } as const;
/** Each difference is a pack of its own; past so many the next mount begins anew. */
const packsMax = 64;
const abandonedAfterMs = 24 * 3_600_000;
/** Of the disk, what is left free at least. */
const freeShare = 0.1;
const key = /^[0-9a-f]{64}$/;
const sparePattern = /^spare-([0-9a-f]{40}|[0-9a-f]{64})$/;
const makingPattern = /^making-[0-9a-f]{8}$/;

export class Mirrors {
  readonly #dir: string;
  readonly #options: MirrorOptions;
  readonly #turns = createLimiter(Number.POSITIVE_INFINITY, 1);
  /** How many have or want their turn, by mirror. */
  readonly #wanted = new Map<string, number>();
  readonly #making = new Map<string, Promise<void>>();
  /** Of those, what has its turn. */
  readonly #begun = new Map<string, Promise<void>>();
  readonly #settling = new Set<Promise<void>>();
  readonly #closing = new AbortController();

  private constructor(dir: string, options: MirrorOptions) {
    this.#dir = dir;
    this.#options = options;
  }

  /** Those of a data directory. */
  static async open(dataDir: string, options: MirrorOptions): Promise<Mirrors> {
    const dir = join(dataDir, 'mirrors');
    await mkdir(dir, { recursive: true, mode: 0o700 });
    await chmod(dir, 0o700);
    const bootId = await readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => '');
    const mirrors = new Mirrors(dir, { bootId: bootId.trim(), ...options });
    await mirrors.#trim();
    return mirrors;
  }

  /** The mirror of a repository, there or not. */
  of({ scope, url, shallow }: MirrorKey): Mirror {
    const name = sha256(JSON.stringify([scope, url, shallow?.depth ?? 0, shallow?.ref ?? '']));
    return new Mirror(join(this.#dir, name), this.#options);
  }

  /**
   * Works with one mirror, one at a time: what one fetches the next one has. `signal` ends the wait for one's turn with its
   * reason.
   */
  async inTurn<T>(mirror: Mirror, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const name = basename(mirror.dir);
    this.#wanted.set(name, (this.#wanted.get(name) ?? 0) + 1);
    try {
      return await this.#turns(name, work, signal && { signal });
    } finally {
      const left = (this.#wanted.get(name) ?? 1) - 1;
      if (left === 0) this.#wanted.delete(name);
      else this.#wanted.set(name, left);
    }
  }

  /** Makes a spare work tree where there is none, behind everybody's back, one at a time. */
  prepare(mirror: Mirror, git: LocalGit): void {
    if (this.#closing.signal.aborted || this.#making.has(mirror.dir)) return;
    const before = [...this.#making.values()];
    const make = (): Promise<void> => {
      const begun = mirror.makeSpare(git, this.#closing.signal).finally(() => this.#begun.delete(mirror.dir));
      this.#begun.set(mirror.dir, begun);
      return begun;
    };
    const making = Promise.allSettled(before)
      .then(make)
      .then(() => this.#trim())
      .catch((error: unknown) => this.#trouble(error))
      .finally(() => this.#making.delete(mirror.dir));
    this.#making.set(mirror.dir, making);
    // Not waited for by who makes the next one.
    const settling = making
      .then(() => mirror.settleSpare(this.#closing.signal))
      .catch((error: unknown) => this.#trouble(error))
      .finally(() => this.#settling.delete(settling));
    this.#settling.add(settling);
  }

  #trouble(error: unknown): void {
    if (!this.#closing.signal.aborted) this.#options.onTrouble?.(error);
  }

  /**
   * Resolves when the spare of this mirror that is being made at this moment is there, or could not be made: what is begun is
   * ready before all of its files are written beside it a second time. Rejects with the signal.
   */
  async ready(mirror: Mirror, signal: AbortSignal): Promise<void> {
    const begun = this.#begun.get(mirror.dir);
    if (begun === undefined) return;
    const ended = Promise.withResolvers<void>();
    const end = (): void => ended.resolve();
    signal.addEventListener('abort', end, { once: true });
    begun.then(end, end);
    if (signal.aborted) end();
    await ended.promise;
    signal.removeEventListener('abort', end);
    signal.throwIfAborted();
  }

  /** Resolves when no spare is being made or settles: for tests and measures. */
  async idle(): Promise<void> {
    while (this.#settling.size > 0) await Promise.all(this.#settling);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.idle();
  }

  /** Removes what is old, what was not finished, and, from the longest unused on, what is too much. */
  async #trim(): Promise<void> {
    const { maxBytes, keepMs, now } = this.#options;
    const names = await readdir(this.#dir);
    const found = await Promise.all(
      names.map(async (name) => ({ name, ...(await lookAt(join(this.#dir, name), now())) })),
    );
    const kept: { readonly dir: string; readonly usedMs: number; readonly bytes: number }[] = [];
    for (const { name, usedMs, bytes } of found) {
      const dir = join(this.#dir, name);
      const isOld = now() - usedMs > (key.test(name) ? keepMs : abandonedAfterMs);
      if (this.#wanted.has(name) || this.#making.has(dir)) continue;
      if (isOld) await removeTree(dir);
      else {
        await removeHalfMade(dir);
        kept.push({ dir, usedMs, bytes });
      }
    }
    let total = kept.reduce((sum, { bytes }) => sum + bytes, 0);
    for (const { dir, bytes } of kept.toSorted((a, b) => a.usedMs - b.usedMs)) {
      if (total <= maxBytes) return;
      await removeTree(dir);
      total -= bytes;
    }
  }
}

/** One repository as it was fetched last. Used by one mount at a time. */
export class Mirror {
  readonly dir: string;
  /** The bare repository. */
  readonly bare: string;
  readonly #options: MirrorOptions;

  constructor(dir: string, options: MirrorOptions) {
    this.dir = dir;
    this.bare = join(dir, 'bare');
    this.#options = options;
  }

  /** Whether there is something to fetch a difference to. */
  async isThere(): Promise<boolean> {
    const packs = await packsOf(this.bare);
    if (packs.length > packsMax) await this.drop();
    return packs.length > 0 && packs.length <= packsMax;
  }

  /** Whether all that its refs need can be read. */
  isWhole(git: LocalGit, signal: AbortSignal): Promise<boolean> {
    return git(this.bare, ['fsck', '--connectivity-only', '--no-dangling', '--no-progress'], signal).then(
      () => true,
      () => false,
    );
  }

  /** Makes the mirror of a clone that nobody has used yet, where that is worth its place; whether it did. */
  async fill(stage: string, of: Measured, git: LocalGit, signal: AbortSignal): Promise<boolean> {
    const { maxBytes, now } = this.#options;
    const packBytes = await packBytesOf(join(stage, '.git'));
    if (of.files < (this.#options.minFiles ?? worth.files) && packBytes < worth.packBytes) return false;
    // Objects in the mirror, and objects and files in the spare.
    const bytes = 2 * packBytes + of.bytes;
    const disk = await statfs(stage);
    if (bytes > maxBytes || (disk.bavail * disk.bsize - bytes) / (disk.blocks * disk.bsize) < freeShare) return false;
    const fresh = `${this.dir}.${randomBytes(4).toString('hex')}`;
    try {
      const bare = join(fresh, 'bare');
      await mkdir(bare, { recursive: true, mode: 0o700 });
      const refs = await git(
        stage,
        ['for-each-ref', '--format=%(objectname) %(refname)', 'refs/remotes', 'refs/tags'],
        signal,
      );
      const [head = ''] = refs.split(' ', 1);
      await git(
        bare,
        ['init', '--quiet', '--bare', '--template=', `--object-format=${head.length === 64 ? 'sha256' : 'sha1'}`, '.'],
        signal,
      );
      const url = await git(stage, ['config', 'remote.origin.url'], signal);
      await git(bare, ['config', 'remote.origin.url', url.trim()], signal);
      await copyPacks(join(stage, '.git'), bare);
      await writeFile(join(bare, 'packed-refs'), refs.endsWith('\n') || refs === '' ? refs : `${refs}\n`);
      await copyIfThere(join(stage, '.git/shallow'), join(bare, 'shallow'));
      await writeFile(join(fresh, 'size'), String(bytes));
      await writeFile(join(fresh, 'measured'), measuredText(of));
      await removeTree(this.dir);
      await rename(fresh, this.dir);
      const at = new Date(now());
      await utimes(this.dir, at, at);
      return true;
    } finally {
      await removeTree(fresh);
    }
  }

  /** The tree that was measured last; null where none was, or its size was not noted. */
  async measured(): Promise<Measured | null> {
    const text = await readFile(join(this.dir, 'measured'), 'utf8').catch(() => '');
    const [, commit, limits, files, bytes] = /^(\S+) ([^\n]*)\n(\d+) (\d+)\n$/.exec(text) ?? [];
    if (commit === undefined || limits === undefined) return null;
    return { commit, limits, files: Number(files), bytes: Number(bytes) };
  }

  setMeasured(of: Measured): Promise<void> {
    return writeFile(join(this.dir, 'measured'), measuredText(of));
  }

  /**
   * Puts the objects and refs of the mirror into the stage, an empty directory; with the spare's files where there is one,
   * whose commit is given.
   */
  async furnish(stage: string, git: LocalGit, signal: AbortSignal): Promise<string | null> {
    const at = new Date(this.#options.now());
    await utimes(this.dir, at, at);
    const spare = await this.#spare();
    if (spare !== null) {
      await rm(stage, { recursive: true });
      await rename(join(this.dir, spare.name), stage);
    } else await initFrom(stage, this.bare, git, signal);
    await bringUp(stage, this.bare);
    return spare?.commit ?? null;
  }

  async makeSpare(git: LocalGit, signal: AbortSignal): Promise<void> {
    if (!(await this.isThere()) || (await this.#spare()) !== null) return;
    for (const name of await readdir(this.dir)) if (sparePattern.test(name)) await removeTree(join(this.dir, name));
    await removeHalfMade(this.dir);
    const fresh = join(this.dir, `making-${randomBytes(4).toString('hex')}`);
    const [commit = ''] = (await readFile(join(this.dir, 'measured'), 'utf8')).split(' ');
    try {
      await mkdir(fresh, { mode: 0o755 });
      await initFrom(fresh, this.bare, git, signal);
      await bringUp(fresh, this.bare);
      await git(fresh, ['update-ref', '--no-deref', 'HEAD', commit], signal);
      await git(fresh, ['reset', '--quiet', '--hard', commit], signal);
      await writeFile(join(this.dir, 'boot'), this.#options.bootId ?? '');
      await rename(fresh, join(this.dir, `spare-${commit}`));
    } finally {
      await removeTree(fresh);
    }
  }

  /**
   * Lets git see that the files of the spare are older than its index: those of one second with it may have changed since, for
   * all that it knows, and whoever writes the index next reads them all again.
   */
  async settleSpare(signal: AbortSignal): Promise<void> {
    const spare = await this.#spare();
    if (spare === null) return;
    const index = join(this.dir, spare.name, '.git/index');
    const written = await stat(index).then(({ mtimeMs }) => mtimeMs, ignoreGone);
    if (written === undefined) return;
    // A second later, so that whatever changes a file from now on does it after this time too.
    await setTimeout(1_020, undefined, { signal });
    const nextSecond = Math.floor(written / 1_000) + 1;
    // Whoever took it meanwhile has moved it away.
    await utimes(index, nextSecond, nextSecond).catch(ignoreGone);
  }

  /** What is broken, or has become too many pieces, is fetched anew. */
  drop(): Promise<void> {
    return removeTree(this.dir);
  }

  /** One of an earlier run of the machine is none: files that it says are there may be empty. */
  async #spare(): Promise<{ readonly name: string; readonly commit: string } | null> {
    const boot = await readFile(join(this.dir, 'boot'), 'utf8').catch(() => null);
    if (boot !== (this.#options.bootId ?? '')) return null;
    for (const name of await readdir(this.dir)) {
      const commit = sparePattern.exec(name)?.[1];
      if (commit !== undefined) return { name, commit };
    }
    return null;
  }
}

/** What is cut off does not end with its line, and is no size. */
const measuredText = ({ commit, limits, files, bytes }: Measured): string => `${commit} ${limits}\n${files} ${bytes}\n`;

async function initFrom(stage: string, bare: string, git: LocalGit, signal: AbortSignal): Promise<void> {
  const format = (await git(bare, ['rev-parse', '--show-object-format'], signal)).trim();
  await git(stage, ['init', '--quiet', '--template=', `--object-format=${format}`, '.'], signal);
}

/** What a daemon was making when it was killed. */
async function removeHalfMade(dir: string): Promise<void> {
  const names = await readdir(dir).catch(() => []);
  for (const name of names) if (makingPattern.test(name)) await removeTree(join(dir, name));
}

function ignoreGone(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error;
}

async function lookAt(dir: string, nowMs: number): Promise<{ readonly usedMs: number; readonly bytes: number }> {
  const usedMs = await stat(dir).then(
    ({ mtimeMs }) => mtimeMs,
    () => nowMs,
  );
  return { usedMs, bytes: Number(await readFile(join(dir, 'size'), 'utf8').catch(() => '0')) };
}
