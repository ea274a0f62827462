// The door to repositories: opens a git server's repository, a local one or a plain folder, and reads from it the files of
// `.svc/` at a commit (and those outside it that compile asks for) as a Bundle. It decides how to ask and what to refuse; it
// never checks anything out, never writes, and never takes an error for an empty tree. Implements
// docs/reference/repositories.md#conditions, #probe and #files-outside, and docs/reference/compile.md#imports. The drivers
// are loaded when they are needed: reading a folder loads neither an HTTP client nor a git library.

import {
  type HostCache,
  type HostFacts,
  type OpenOptions,
  type PriorRead,
  type ProbeReport,
  type RepoFinding,
  type RepoSource,
  type RepoTarget,
  type Snapshot,
  type SnapshotOptions,
  RepoCondition,
  type Tip,
} from './types.ts';

export { RepoCondition };

// What git servers support, for all sources of a process.

/** An empty cache, bounded to 10,000 servers; the oldest goes first. */
export function createHostCache(): HostCache {
  const facts = new Map<string, HostFacts>();
  return {
    get: (key) => facts.get(key),
    set: (key, value) => {
      // Bounded: a cache of hosts, not a log of them. By hand, for `svc validate` loads this and no package.
      if (facts.size >= 10_000 && !facts.has(key)) facts.delete(facts.keys().next().value as string);
      facts.set(key, value);
    },
    delete: (key) => {
      facts.delete(key);
    },
  };
}

/** Opens a target. Nothing is loaded or contacted yet; what is wrong with an address is thrown by the first call. */
export function openRepository(target: RepoTarget, options: OpenOptions): RepoSource {
  return new LazySource(target, () => loadDriver(target, options));
}

/** `openRepository` of a process: what all its sources share is given once. */
export const openRepositoriesWith =
  (shared: OpenOptions) =>
  (target: RepoTarget, options: Omit<OpenOptions, 'now'>): RepoSource =>
    openRepository(target, { ...shared, ...options });

/** A module once it is loaded: to ask the runtime again takes a tenth of a millisecond. */
let remote: Promise<typeof import('./remote.ts')> | undefined;

async function loadDriver(target: RepoTarget, options: OpenOptions): Promise<RepoSource> {
  if (target.kind === 'remote') return new (await (remote ??= import('./remote.ts'))).RemoteSource(target, options);
  if (target.kind === 'local') return new (await import('./local.ts')).LocalSource(target, options);
  return new (await import('./folder.ts')).FolderSource(target, options);
}

class LazySource implements RepoSource {
  readonly watch?: NonNullable<RepoSource['watch']>;
  readonly #load: () => Promise<RepoSource>;
  #driver: Promise<RepoSource> | null = null;

  constructor(target: RepoTarget, load: () => Promise<RepoSource>) {
    this.#load = load;
    if (target.kind === 'remote') return;
    this.watch = async (onDirty) => {
      const driver = await this.#open();
      return (driver.watch as NonNullable<RepoSource['watch']>).call(driver, onDirty);
    };
  }

  async resolve(signal?: AbortSignal, prior?: PriorRead | null): Promise<Tip> {
    return (await this.#open()).resolve(signal, prior);
  }

  async snapshot(tip: Tip, options?: SnapshotOptions): Promise<Snapshot> {
    return (await this.#open()).snapshot(tip, options);
  }

  async more(snapshot: Snapshot, paths: readonly string[], signal?: AbortSignal): Promise<Snapshot> {
    return (await this.#open()).more(snapshot, paths, signal);
  }

  async close(): Promise<void> {
    // A driver that could not be opened has nothing to close, and has told its caller so.
    await this.#driver?.then(
      (driver) => driver.close(),
      () => undefined,
    );
  }

  #open(): Promise<RepoSource> {
    this.#driver ??= this.#load();
    return this.#driver;
  }
}

/** What a read of these paths remarked on their names. */
export async function remarksOnNames(paths: readonly string[]): Promise<readonly RepoFinding[]> {
  return (await import('./tree-walk.ts')).nameFindingsOf('.svc', paths);
}

/** Asks a git server what it supports: `svc repo probe`. Throws `RepoCondition` where it cannot be talked to. */
export async function probeRepository(url: string, options: OpenOptions, signal?: AbortSignal): Promise<ProbeReport> {
  return (await import('./probe.ts')).probeRemote(url, options, signal);
}

/** Checks the directory that holds `.svc/` when somebody sets it. Throws `not-found` where no read would take it. */
export async function checkRootDirectory(root: string): Promise<void> {
  (await import('./tree-walk.ts')).normalRoot(root);
}

/** Checks the keys of a signature policy when somebody sets it. Throws `signature-rejected` with what is wrong. */
export async function checkVerifyPolicy(keys: readonly string[]): Promise<void> {
  const { readPolicy } = await import('./commit-signature.ts');
  const { pgp } = readPolicy({ keys });
  if (pgp.length === 0) return;
  const { readKeys } = await import('openpgp');
  for (const armoredKeys of pgp) {
    await readKeys({ armoredKeys }).catch((cause: unknown) => {
      throw new RepoCondition('signature-rejected', 'a PGP public key of the policy cannot be read', { cause });
    });
  }
}
