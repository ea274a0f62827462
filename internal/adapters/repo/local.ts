// The commits of a repository on this machine, through isomorphic-git. The repository belongs to whoever runs the
// service, so its packs are trusted; names and sizes are judged as everywhere. Nothing is written.

import fs from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { join, resolve as resolvePath } from 'node:path';
import { gitId } from '../../base/hash.ts';
import * as git from 'isomorphic-git';
import { CommitRead } from './commit-read.ts';
import { type CommitObjects, gone } from './fetch-strategy.ts';
import type { ObjectType } from './objects.ts';
import { normalRoot, refMissing, wantedRef } from './tree-walk.ts';
import { badPack } from './pack-reader.ts';
import { sha256Repository } from './protocol.ts';
import {
  defaultCaps,
  type OpenOptions,
  RepoCondition,
  type RepoSource,
  type RepoTarget,
  type Snapshot,
  type SnapshotOptions,
  type Tip,
} from './types.ts';

/** Where a repository lies, and how its files are read. */
interface Place {
  readonly fs: git.PromiseFsClient;
  readonly gitdir: string;
}

/** The files of this machine; with bounds, each is looked at before it is read, for a link may stand anywhere in a repository. */
function filesWithin(within: OpenOptions['within']): git.PromiseFsClient {
  if (within === undefined) return fs;
  const readFile = async (path: string, ...options: unknown[]): Promise<unknown> => {
    await within(path);
    return fs.promises.readFile(path, ...(options as [BufferEncoding]));
  };
  return { promises: { ...fs.promises, readFile } };
}

const noTraffic = () => ({ requests: 0, bytesDown: 0 });

export class LocalSource implements RepoSource {
  readonly #target: Extract<RepoTarget, { kind: 'local' }>;
  readonly #options: OpenOptions;
  readonly #reads = new WeakMap<Snapshot, CommitRead>();
  #gitdir: string | undefined;

  constructor(target: Extract<RepoTarget, { kind: 'local' }>, options: OpenOptions) {
    this.#target = { ...target, root: normalRoot(target.root) };
    this.#options = options;
  }

  async resolve(signal?: AbortSignal): Promise<Tip> {
    signal?.throwIfAborted();
    const at = await this.#place();
    const ref = wantedRef(this.#target.branch);
    let oid: string;
    try {
      oid = await git.resolveRef({ ...at, ref });
    } catch (error) {
      if (error instanceof git.Errors.NotFoundError) throw refMissing(this.#target.branch);
      throw error;
    }
    for (let hops = 0; hops < 5; hops += 1) {
      const object = await readRaw(at, oid, {});
      if (object.type !== 'tag') break;
      oid = /^object ([0-9a-f]{40})\n/.exec(object.bytes.toString('latin1'))?.[1] ?? oid;
    }
    return { commit: oid, ref };
  }

  async snapshot(tip: Tip, options: SnapshotOptions = {}): Promise<Snapshot> {
    const at = await this.#place();
    const { root } = this.#target;
    const read = new CommitRead(tip.commit, root, this.#options, options, null, (oid) => this.#open(at, oid));
    const snapshot = await read.run(options.signal ?? new AbortController().signal, noTraffic);
    this.#reads.set(snapshot, read);
    return snapshot;
  }

  async more(snapshot: Snapshot, paths: readonly string[], signal?: AbortSignal): Promise<Snapshot> {
    const read = this.#reads.get(snapshot);
    if (read === undefined) throw new TypeError('more() takes a snapshot of the same source');
    const grown = await read.more(snapshot, paths, signal ?? new AbortController().signal, noTraffic);
    this.#reads.set(grown, read);
    return grown;
  }

  /** Watches the files that a ref may live in. A loose ref that goes away was packed, not deleted: the reader decides. */
  async watch(onDirty: () => void): Promise<{ stop(): Promise<void> }> {
    const { watchPaths } = await import('./folder-watch.ts');
    const { gitdir } = await this.#place();
    return watchPaths([join(gitdir, 'HEAD'), join(gitdir, 'refs', 'heads'), join(gitdir, 'packed-refs')], onDirty);
  }

  async close(): Promise<void> {}

  async #place(): Promise<Place> {
    const { within } = this.#options;
    await within?.(this.#target.path);
    this.#gitdir ??= await findGitDirectory(this.#target.path);
    // What the path leads to may itself lead to a repository elsewhere.
    for (const part of ['', 'objects', 'refs']) await within?.(join(this.#gitdir, part));
    return { fs: filesWithin(within), gitdir: this.#gitdir };
  }

  async #open(at: Place, oid: string): Promise<CommitObjects> {
    const caps = { ...defaultCaps, ...this.#options.caps };
    // Holds packs for the length of one read, and is dropped with it.
    const cache = {};
    const commit = await readRaw(at, oid, cache).catch((error: unknown) => {
      if (error instanceof git.Errors.NotFoundError) throw gone(oid, error);
      throw error;
    });
    if (commit.type !== 'commit') throw badPack('the commit is not in it');
    return {
      via: 'local',
      commit: commit.bytes,
      trees: async (oids) => {
        const trees = new Map<string, Buffer>();
        for (const wanted of oids) trees.set(wanted, await readNeeded(at, wanted, cache));
        return (wanted) => trees.get(wanted) as Buffer;
      },
      blobs: async (oids) => {
        const blobs = new Map<string, Buffer | null>();
        for (const wanted of oids) {
          const bytes = await readNeeded(at, wanted, cache);
          if (bytes.length <= caps.fileBytes) this.#options.taking?.(bytes.length);
          blobs.set(wanted, bytes.length > caps.fileBytes ? null : bytes);
        }
        return blobs;
      },
      close: async () => {},
    };
  }
}

/** One object, its id recomputed. Throws NotFoundError where it is not there, else conditions. */
async function readRaw(at: Place, oid: string, cache: object): Promise<{ type: ObjectType; bytes: Buffer }> {
  const read = await git.readObject({ ...at, oid, format: 'content', cache }).catch((error: unknown) => {
    if (error instanceof git.Errors.NotFoundError) throw error;
    const code = (error as NodeJS.ErrnoException).code ?? 'unreadable';
    throw new RepoCondition('corrupt', `the object ${oid} of the repository cannot be read (${code})`, {
      cause: error,
    });
  });
  const bytes = Buffer.from(read.object as Uint8Array);
  const type = read.type as ObjectType;
  if (gitId(type, bytes) !== oid) {
    throw new RepoCondition('corrupt', `the object ${oid} of the repository has another content than its id says`);
  }
  return { type, bytes };
}

/** An object that a commit needs. */
async function readNeeded(at: Place, oid: string, cache: object): Promise<Buffer> {
  try {
    return (await readRaw(at, oid, cache)).bytes;
  } catch (error) {
    if (!(error instanceof git.Errors.NotFoundError)) throw error;
    throw new RepoCondition('corrupt', `the repository lacks the object ${oid}: is it a partial clone?`, {
      cause: error,
    });
  }
}

/**
 * The directory that holds objects and branches: of a work tree, a linked work tree, or a bare repository. Throws
 * `not-found`, and `corrupt` for the formats that cannot be read.
 */
export async function findGitDirectory(path: string): Promise<string> {
  const dotGit = join(path, '.git');
  const kind = await stat(dotGit).catch(() => null);
  let gitdir = kind === null ? path : dotGit;
  if (kind?.isFile() === true) {
    const pointer = /^gitdir: (.+)/m.exec(await readFile(dotGit, 'utf8'))?.[1]?.trimEnd();
    if (pointer === undefined)
      throw new RepoCondition('not-found', 'the .git file of the directory names no repository');
    gitdir = resolvePath(path, pointer);
  }
  const common = await readFile(join(gitdir, 'commondir'), 'utf8').catch(() => null);
  if (common !== null) gitdir = resolvePath(gitdir, common.trim());
  const config = await readFile(join(gitdir, 'config'), 'utf8').catch(() => null);
  const objects = await stat(join(gitdir, 'objects')).catch(() => null);
  if (config === null || objects?.isDirectory() !== true) {
    throw new RepoCondition(
      'not-found',
      'there is no git repository at the path: leave out the branch to read the folder as it is',
    );
  }
  if (/^[ \t]*refstorage[ \t]*=[ \t]*reftable[ \t\r]*$/im.test(config)) {
    throw new RepoCondition(
      'corrupt',
      'the repository keeps its refs in the reftable format, which is not supported: leave out the branch to read the folder, or serve it over http',
    );
  }
  if (/^[ \t]*objectformat[ \t]*=[ \t]*sha256[ \t\r]*$/im.test(config)) throw sha256Repository();
  return gitdir;
}
