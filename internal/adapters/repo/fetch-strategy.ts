// How far a git server lets itself be asked: commit and top tree in one request, in two, by blob id only, or the
// whole pack. The rung that works is remembered for the server for a day; a server that no longer agrees is asked
// what it can and stands on a new rung.

import { tmpdir } from 'node:os';
import { gitId } from '../../base/hash.ts';
import type { GitObject } from './objects.ts';
import { badPack } from './pack-reader.ts';
import { type Capabilities, type FetchRequest, GitServerError, sha256Repository } from './protocol.ts';
import { SpoolPack } from './spool-pack.ts';
import { type HostCache, type HostFacts, RepoCondition, type RepoCaps, type Taking } from './types.ts';
import type { GitWire } from './http.ts';

const rememberMs = 24 * 60 * 60 * 1000;
const strategies = ['sparse3', 'sparse4', 'blobless', 'spool'] as const;
export type FetchStrategy = (typeof strategies)[number];

export interface FetchStrategyOptions {
  readonly wire: GitWire;
  readonly caps: RepoCaps;
  readonly hosts: HostCache;
  readonly spoolDir: string | undefined;
  readonly taking: Taking | undefined;
  readonly now: () => Date;
}

/** Where the objects of one commit come from. Everything is keyed by recomputed id. */
export interface CommitObjects {
  readonly via: FetchStrategy | 'local';
  readonly commit: Buffer;
  /** Trees that are wanted by id; absent ones throw `corrupt`. */
  trees(oids: readonly string[], signal: AbortSignal): Promise<(oid: string) => Buffer>;
  /** Blobs that are wanted by id; null for one past the size limit, `corrupt` where one is not there. */
  blobs(oids: readonly string[], signal: AbortSignal): Promise<Map<string, Buffer | null>>;
  close(): Promise<void>;
}

export class FetchStrategies {
  readonly #options: FetchStrategyOptions;

  constructor(options: FetchStrategyOptions) {
    this.#options = options;
  }

  /** What is known of the server, if it is not too old. */
  facts(): HostFacts | undefined {
    const facts = this.#options.hosts.get(this.#options.wire.http.origin);
    return facts !== undefined && facts.untilMs > this.#options.now().getTime() ? facts : undefined;
  }

  learn(protocol: 0 | 1 | 2, via: FetchStrategy): void {
    const untilMs = this.#options.now().getTime() + rememberMs;
    this.#options.hosts.set(this.#options.wire.http.origin, { protocol, via, untilMs });
  }

  forget(): void {
    this.#options.hosts.delete(this.#options.wire.http.origin);
  }

  /** The objects of a commit, from the highest rung that works. `heldTree` is a top tree that is known already. */
  async open(commit: string, signal: AbortSignal, heldTree: string | null = null): Promise<CommitObjects> {
    const known = this.facts();
    if (known !== undefined && known.protocol < 2) return this.#spoolOld(commit, signal);
    let capabilities: Capabilities | null = null;
    // All directories, or the whole tree, are not taken for what was found out of another repository of the server.
    const isCostly = heldTree === null && (known?.via === 'blobless' || known?.via === 'spool');
    let rung: FetchStrategy = known === undefined || isCostly ? 'sparse3' : known.via;
    for (;;) {
      try {
        const objects = await this.#tryRung(rung, commit, signal, heldTree);
        if (known?.via !== rung) this.learn(2, rung);
        return objects;
      } catch (error) {
        if (!isRefusal(error)) throw error;
        if (isMissing(error)) throw gone(commit, error);
        if (capabilities === null) {
          capabilities = await this.#options.wire.capabilities(2, signal);
          if (capabilities.objectFormat !== 'sha1') throw sha256Repository();
          if (capabilities.protocol < 2) {
            this.learn(capabilities.protocol, 'spool');
            return this.#spoolOld(commit, signal, capabilities);
          }
        }
        // Only words about filters say that the rung is too high; anything else is a failure, and must not be
        // remembered as what the server can do.
        const refused = error instanceof GitServerError && /filter/i.test(error.message);
        const lower = capabilities.filter ? (refused ? strategies[strategies.indexOf(rung) + 1] : undefined) : 'spool';
        if (lower === undefined || rung === 'spool') throw refusalCondition(error);
        rung = lower;
      }
    }
  }

  async #tryRung(
    rung: FetchStrategy,
    commit: string,
    signal: AbortSignal,
    heldTree: string | null,
  ): Promise<CommitObjects> {
    if (rung === 'sparse3') return this.#sparse(commit, 'tree:1', signal);
    if (rung === 'sparse4') return this.#sparse(commit, 'tree:0', signal);
    const { wire, caps } = this.#options;
    const filter = rung === 'blobless' ? { filter: 'blob:none' } : {};
    if (heldTree !== null) {
      const changes = await this.#changes(
        rung,
        commit,
        { wants: [commit], depth: 1, haves: [heldTree], ...filter },
        signal,
      );
      if (changes !== null) return changes;
    }
    const limit = rung === 'blobless' ? caps.packBytes : caps.spoolBytes;
    return this.#spooled(rung, commit, wire.pack({ wants: [commit], depth: 1, ...filter }, signal, limit), signal);
  }

  async #sparse(oid: string, filter: 'tree:1' | 'tree:0', signal: AbortSignal): Promise<CommitObjects> {
    const { wire, caps } = this.#options;
    const objects = await wire.fetch({ wants: [oid], depth: 1, filter }, signal);
    const commit = commitOf(objects.get(oid), oid);
    const held = treesOf(objects);
    return {
      via: filter === 'tree:1' ? 'sparse3' : 'sparse4',
      commit,
      trees: async (oids, signal) => {
        // JGit leaves out at depth 0 also what is asked for by its id; what git sends at depth 1 is more than that.
        for (const depth of filter === 'tree:0' ? [filter] : ['tree:0', filter]) {
          const lacking = oids.filter((wanted) => !held.has(wanted));
          if (lacking.length === 0) break;
          const fetched = await wire.fetch({ wants: lacking, filter: depth }, signal);
          for (const [id, tree] of treesOf(fetched)) held.set(id, tree);
        }
        return (wanted) => present(held.get(wanted));
      },
      blobs: (oids, signal) => wantedBlobs(wire, caps, oids, signal),
      close: async () => {},
    };
  }

  /**
   * Without tree filters, an update still need not take the whole tree: a server leaves out what the earlier top tree
   * reaches. What turns out to be missing after all is fetched whole, then. Null where the server will not have it so.
   */
  async #changes(
    via: 'blobless' | 'spool',
    oid: string,
    request: FetchRequest,
    signal: AbortSignal,
  ): Promise<CommitObjects | null> {
    const { wire, caps } = this.#options;
    const objects = await wire.fetch(request, signal).catch((error: unknown) => {
      if (error instanceof GitServerError || error instanceof RepoCondition) return null;
      throw error;
    });
    const commit = objects?.get(oid);
    if (objects === null || commit === undefined) return null;
    const held = treesOf(objects);
    let whole: CommitObjects | null = null;
    const fallBack = async (signal: AbortSignal) => {
      whole ??= await this.#tryRung(via, oid, signal, null);
      return whole;
    };
    return {
      via,
      commit: commitOf(commit, oid),
      trees: async (oids, signal) => {
        const lacking = oids.filter((wanted) => !held.has(wanted));
        const rest = lacking.length === 0 ? null : await (await fallBack(signal)).trees(lacking, signal);
        return (wanted) => held.get(wanted) ?? present(rest?.(wanted));
      },
      blobs: async (oids, signal) => {
        const found = new Map<string, Buffer | null>();
        for (const wanted of oids) {
          const object = objects.get(wanted);
          if (object?.type === 'blob') found.set(wanted, object.bytes);
        }
        const lacking = oids.filter((wanted) => !found.has(wanted));
        if (lacking.length === 0) return found;
        const rest = await wantedBlobs(wire, caps, lacking, signal).catch(async (error: unknown) => {
          if (!(error instanceof GitServerError)) throw error;
          return (await fallBack(signal)).blobs(lacking, signal);
        });
        return new Map([...found, ...rest]);
      },
      close: async () => whole?.close(),
    };
  }

  async #spoolOld(commit: string, signal: AbortSignal, known?: Capabilities): Promise<CommitObjects> {
    const { wire, caps } = this.#options;
    const offered = known ?? (await wire.capabilities(2, signal));
    if (offered.protocol === 2) {
      this.forget();
      return this.open(commit, signal);
    }
    try {
      return await this.#spooled('spool', commit, wire.oldPack(commit, offered, signal, caps.spoolBytes), signal);
    } catch (error) {
      if (isMissing(error)) throw gone(commit, error);
      throw error instanceof GitServerError ? refusalCondition(error) : error;
    }
  }

  async #spooled(
    via: 'blobless' | 'spool',
    oid: string,
    chunks: AsyncIterable<Buffer>,
    signal: AbortSignal,
  ): Promise<CommitObjects> {
    const { wire, caps, taking, spoolDir = tmpdir() } = this.#options;
    const pack = await SpoolPack.take(chunks, spoolDir, caps, signal, taking).catch((error: unknown) => {
      if (via === 'spool' && error instanceof RepoCondition && error.condition === 'too-large')
        throw lacksFilter(caps, error);
      throw error;
    });
    try {
      const commit = commitOf(await pack.small(oid), oid);
      return {
        via,
        commit,
        trees: async (oids) => {
          const held = new Map<string, Buffer>();
          for (const wanted of oids) {
            const object = await pack.small(wanted);
            if (object?.type === 'tree') held.set(wanted, checked(object, wanted));
          }
          return (wanted) => present(held.get(wanted));
        },
        blobs: async (oids, signal) => {
          if (via === 'blobless') return wantedBlobs(wire, caps, oids, signal);
          const found = await pack.blobs(oids);
          if (oids.some((wanted) => !found.has(wanted))) throw badPack('a file of the commit is not in it');
          return found;
        },
        close: () => pack.close(),
      };
    } catch (error) {
      await pack.close();
      throw error;
    }
  }
}

/**
 * Blobs by id. Servers send what is asked for by id whatever its size, so where one turns out to be too large the list
 * is halved until it stands alone.
 */
async function wantedBlobs(
  wire: GitWire,
  caps: RepoCaps,
  oids: readonly string[],
  signal: AbortSignal,
): Promise<Map<string, Buffer | null>> {
  const found = new Map<string, Buffer | null>();
  const take = async (wants: readonly string[]): Promise<void> => {
    // A pack of n such files is at most this long; what is longer holds one that is too large, and is cut off there.
    const packBytes = Math.min(caps.packBytes, wants.length * (caps.fileBytes + caps.fileBytes / 256 + 4096));
    try {
      for (const [oid, object] of await wire.fetch({ wants }, signal, { packBytes })) {
        if (object.type === 'blob') found.set(oid, object.bytes);
      }
    } catch (error) {
      if (!(error instanceof RepoCondition) || error.condition !== 'too-large') throw error;
      if (wants.length === 1) found.set(wants[0] as string, null);
      else {
        const half = wants.length >> 1;
        await take(wants.slice(0, half));
        await take(wants.slice(half));
      }
    }
  };
  if (oids.length > 0) await take(oids);
  if (oids.some((oid) => !found.has(oid))) throw badPack('a file of the commit is not in it');
  return found;
}

/** True for what a server answers to a request it does not take: its own words, or nothing that makes sense. */
function isRefusal(error: unknown): boolean {
  return error instanceof GitServerError || (error instanceof RepoCondition && error.condition === 'corrupt');
}

function isMissing(error: unknown): boolean {
  return error instanceof GitServerError && /not our ref|no such remote ref/i.test(error.message);
}

export function gone(commit: string, cause: unknown): RepoCondition {
  return new RepoCondition('ref-missing', `the git server does not have the commit ${commit.slice(0, 64)} (any more)`, {
    cause,
  });
}

export function refusalCondition(error: unknown): RepoCondition {
  if (error instanceof RepoCondition) return error;
  const words = error instanceof Error ? error.message : 'no reason given';
  return new RepoCondition('corrupt', `the git server refuses: ${words}`, { cause: error });
}

function lacksFilter(caps: RepoCaps, error: RepoCondition): RepoCondition {
  const limit = Math.floor(caps.spoolBytes / (1024 * 1024));
  return new RepoCondition(
    'server-lacks-filter',
    `the git server has no partial clone, and the repository exceeds the limit of ${limit} MB for taking it whole (${error.message})`,
    { cause: error },
  );
}

function commitOf(object: GitObject | undefined, oid: string): Buffer {
  if (object === undefined) throw badPack('the commit is not in it');
  if (object.type !== 'commit')
    throw new RepoCondition('ref-missing', `what the branch or tag names is a ${object.type}, and no commit`);
  return checked(object, oid);
}

function checked(object: GitObject, oid: string): Buffer {
  if (gitId(object.type, object.bytes) !== oid) throw badPack('an object has another content than its id says');
  return object.bytes;
}

function treesOf(objects: ReadonlyMap<string, GitObject>): Map<string, Buffer> {
  const trees = new Map<string, Buffer>();
  for (const [oid, object] of objects) if (object.type === 'tree') trees.set(oid, object.bytes);
  return trees;
}

function present(tree: Buffer | undefined): Buffer {
  if (tree === undefined) throw badPack('a tree of the commit is not in it');
  return tree;
}
