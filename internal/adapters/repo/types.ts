// The shapes through which the rest of the service reads a repository: what to read (target), what was seen (tip), what was
// read (snapshot), and the closed list of reasons why it could not be (docs/reference/repositories.md#conditions).

import type { lookup as dnsLookup } from 'node:dns';
import type { Bundle } from '../../domain/bundle.ts';
import type { CommitAbout } from '../../domain/commit.ts';

/**
 * What to read. `root` is the directory that holds `.svc/`, '' for the top, with `/` and without a leading one; all paths
 * of a snapshot are relative to it. A path without a branch is a `folder` (the files as they lie on disk), a path
 * with one is `local` (the commits of a repository on this machine).
 */
export type RepoTarget =
  | { readonly kind: 'remote'; readonly url: string; readonly branch?: string; readonly root: string }
  | { readonly kind: 'local'; readonly path: string; readonly branch: string; readonly root: string }
  | { readonly kind: 'folder'; readonly path: string; readonly root: string };

/** The head of the target. `commit` of a folder is `folder:` and a content hash. */
export interface Tip {
  readonly commit: string;
  /** The full ref name, such as `refs/heads/main`; absent for a folder. */
  readonly ref?: string;
  /** Where the repository answers now, when a permanent redirect was followed. */
  readonly movedTo?: string;
}

/** One entry of what was read, as it is stored: everything but the bytes. */
export interface SnapshotEntry {
  readonly path: string;
  readonly kind: 'file' | 'symlink' | 'submodule';
  readonly oid: string;
  /** Bytes; 0 for a symlink, a submodule, and a file that was refused as too large. */
  readonly size: number;
  readonly tooLarge?: true;
  /** The git mode where it is not the usual one of its kind; lets an update rebuild the trees it holds already. */
  readonly mode?: string;
}

/**
 * What a read leaves behind, as plain JSON. Stored with the snapshot and handed back to the next read, it makes a
 * commit without relevant change cost two small requests, and an update fetch only what is new.
 */
export interface SnapshotRecord {
  readonly commit: string;
  /** Null for a folder. */
  readonly rootTree: string | null;
  /** Tree id of `.svc/`; null where there is none. A folder has none either. */
  readonly svcTree: string | null;
  /** Sorted by path: all under `.svc/`, and the files outside it that were asked for. */
  readonly entries: readonly SnapshotEntry[];
  /** Paths outside `.svc/` that were asked for and do not exist. */
  readonly absent: readonly string[];
  /**
   * Ids of the top-level entries of the repository that the read went through (null: not there), by which the next read knows
   * whether its files outside `.svc/` are the same.
   */
  readonly tops: { readonly [name: string]: string | null };
}

/** What an earlier read of the same target left behind. */
export type PriorRead = SnapshotRecord;

/** Contents that are held already, by git blob id. Injected; what it lacks is fetched. */
export interface BlobStore {
  /** Those of `oids` that the store holds. */
  has(oids: readonly string[]): Promise<ReadonlySet<string>>;
  /** The contents of those of `oids` that the store holds. They are hashed again before they are used. */
  get(oids: readonly string[]): Promise<ReadonlyMap<string, Uint8Array>>;
}

/** A remark about what was read that does not stop it. */
export interface RepoFinding {
  readonly rule: 'name-case' | 'name-form' | 'too-large';
  readonly path: string;
  readonly message: string;
}

/** Whether the commit is signed by a key of the policy. Without a policy nothing is looked at. */
export type SigStatus =
  | { readonly status: 'unchecked' }
  | { readonly status: 'verified'; readonly format: 'ssh' | 'pgp'; readonly key: string };

/** How the bytes came: three or four requests with filters, by blob id, from a spooled whole pack, or from this machine. */
export type ReadVia = 'sparse3' | 'sparse4' | 'blobless' | 'spool' | 'local' | 'folder';

export interface Snapshot {
  readonly commit: string;
  readonly rootTree: string | null;
  readonly svcTree: string | null;
  /** All bytes present (but of what is `tooLarge`). Null only where `unchanged`, unless `full` was asked for. */
  readonly bundle: Bundle | null;
  /** To be stored (entries, absent, tops) and given as `prior` to the next read. */
  readonly record: SnapshotRecord;
  readonly findings: readonly RepoFinding[];
  readonly signature: SigStatus;
  /** What the commit says of itself; absent: of a folder. */
  readonly about?: CommitAbout;
  readonly via: ReadVia;
  /** True when `.svc/` and every asked-for path outside it are what `prior` had. */
  readonly unchanged: boolean;
  readonly traffic: Traffic;
}

/** Bytes of response bodies, and the number of requests. */
export interface Traffic {
  readonly requests: number;
  readonly bytesDown: number;
}

export interface SnapshotOptions {
  readonly prior?: PriorRead | null;
  /** Paths outside `.svc/`, relative to the target's root, that are known to be needed. At most 100. */
  readonly wantPaths?: readonly string[];
  /** Read the bundle also where nothing changed (the context changed, or a resync wants the bytes). */
  readonly full?: boolean;
  readonly signal?: AbortSignal;
}

/** One repository or folder. Calls of one source are made one after the other. All throw `RepoCondition`. */
export interface RepoSource {
  /**
   * The present head: one small request, one read of a ref, or a hash of the folder. The hash of a folder covers the
   * files outside `.svc/` that `prior` (or the last snapshot of this source) has.
   */
  resolve(signal?: AbortSignal, prior?: PriorRead | null): Promise<Tip>;
  /**
   * Reads `.svc/` and `wantPaths` at a commit; for a pin or a rollback any commit may be given as `tip`. A folder is read
   * as it is now, so its snapshot's `commit` may be newer than the tip's.
   */
  snapshot(tip: Tip, options?: SnapshotOptions): Promise<Snapshot>;
  /** The same snapshot with further paths outside `.svc/`, as compile's `needs.paths` asks for them. */
  more(snapshot: Snapshot, paths: readonly string[], signal?: AbortSignal): Promise<Snapshot>;
  /** Calls `onDirty` (coalesced) when the folder or the local branch may have changed. Absent for a remote. */
  watch?(onDirty: () => void): Promise<{ stop(): Promise<void> }>;
  close(): Promise<void>;
}

/** User name and token for HTTP Basic. `refresh` asks for a new token after the last one was refused. */
export type Credentials = (request: {
  readonly origin: string;
  readonly refresh: boolean;
}) => Promise<{ readonly username?: string; readonly token: string } | null>;

/** Bytes that are about to be held in memory. */
export type Taking = (bytes: number) => void;

/** What the installation allows and how it goes out. Nothing here comes from the environment by itself. */
export interface NetworkSettings {
  /** Lets requests reach loopback, private and link-local addresses, and plain http there. Default false. */
  readonly allowPrivate?: boolean;
  /** Lets plain http be used for any address. Default false. */
  readonly allowHttp?: boolean;
  readonly httpProxy?: string;
  readonly httpsProxy?: string;
  readonly noProxy?: string;
  /** PEM certificates that are trusted besides the built-in ones. */
  readonly ca?: string;
  readonly userAgent?: string;
  /** Resolver of names, for tests; the system's own when absent. */
  readonly lookup?: typeof dnsLookup;
  readonly headersTimeoutMs?: number;
  readonly idleTimeoutMs?: number;
  /** Deadline of one whole call (resolve, snapshot, more, probe). */
  readonly totalTimeoutMs?: number;
}

/** Bounds of what one read may take in. */
export interface RepoCaps {
  readonly packBytes: number;
  readonly spoolBytes: number;
  readonly objects: number;
  /** Objects that are looked at in a spooled pack of the whole tree. */
  readonly spoolObjects: number;
  readonly fileBytes: number;
  readonly treeBytes: number;
  readonly commitBytes: number;
  readonly totalBytes: number;
  readonly files: number;
  readonly dirs: number;
  readonly depth: number;
  readonly deltaDepth: number;
  readonly outsidePaths: number;
}

/** What is remembered of a server for a day; share one among all sources of a process. */
export interface HostCache {
  get(key: string): HostFacts | undefined;
  set(key: string, facts: HostFacts): void;
  delete(key: string): void;
}

/** Which rung of the ladder a server stands on. `via: 'spool'` with `protocol` below 2 is an old server. */
export interface HostFacts {
  readonly protocol: 0 | 1 | 2;
  readonly via: 'sparse3' | 'sparse4' | 'blobless' | 'spool';
  readonly untilMs: number;
}

/** Keys that may sign: lines of an authorized_keys file and armored PGP public keys, one or several an entry. */
export interface VerifyPolicy {
  readonly keys: readonly string[];
}

export interface OpenOptions {
  readonly network?: NetworkSettings;
  readonly credentials?: Credentials;
  readonly caps?: Partial<RepoCaps>;
  readonly hostCache?: HostCache;
  readonly blobs?: BlobStore;
  readonly verify?: VerifyPolicy | null;
  /** Whose reads of a folder these are: what one has read outside of `.svc/` is not what another reads there. */
  readonly reader?: string;
  /** Rejects for a path of this machine that may not be read, wherever links on it lead; absent: any may. */
  readonly within?: (path: string) => Promise<void>;
  /** Hears of bytes that a read is about to hold; what it throws ends the read. */
  readonly taking?: Taking;
  /** Directory for spooled packs (unlinked as soon as they are open); the system's own when absent. */
  readonly spoolDir?: string;
  readonly now: () => Date;
}

/** What `svc repo probe URL` tells of a server. */
export interface ProbeReport {
  readonly url: string;
  readonly reachable: true;
  readonly protocol: 0 | 1 | 2;
  readonly agent: string | null;
  readonly objectFormat: string;
  /** Whether the server takes the filters of a partial clone. */
  readonly filter: boolean;
  /** How `.svc/` would be read, found out by trying. */
  readonly via: 'sparse3' | 'sparse4' | 'blobless' | 'spool' | null;
  readonly defaultBranch: string | null;
  readonly commit: string | null;
  readonly hasSvc: boolean | null;
  readonly movedTo: string | null;
  readonly traffic: Traffic;
  /** Sentences for people. */
  readonly advice: readonly string[];
}

export type RepoConditionWord =
  | 'auth-failed'
  | 'not-found'
  | 'moved'
  | 'ref-missing'
  | 'unreachable'
  | 'rate-limited'
  | 'server-lacks-filter'
  | 'too-large'
  | 'corrupt'
  | 'hostile'
  | 'signature-rejected'
  | 'stale';

/** Why a source could not be read. The last good snapshot stays; `message` is for people and holds no secret. */
export class RepoCondition extends Error {
  readonly condition: RepoConditionWord;
  readonly retryAfterSeconds: number | undefined;
  readonly movedTo: string | undefined;

  constructor(
    condition: RepoConditionWord,
    detail: string,
    more: { readonly retryAfterSeconds?: number; readonly movedTo?: string; readonly cause?: unknown } = {},
  ) {
    super(detail, more.cause === undefined ? undefined : { cause: more.cause });
    this.name = 'RepoCondition';
    this.condition = condition;
    this.retryAfterSeconds = more.retryAfterSeconds;
    this.movedTo = more.movedTo;
  }

  /** The message, under the name that a reconcile run gives it. */
  get detail(): string {
    return this.message;
  }
}

/** Defaults of `RepoCaps`. */
export const defaultCaps: RepoCaps = {
  packBytes: 64 * 1024 * 1024,
  spoolBytes: 256 * 1024 * 1024,
  objects: 20_000,
  spoolObjects: 2_000_000,
  fileBytes: 2 * 1024 * 1024,
  treeBytes: 8 * 1024 * 1024,
  commitBytes: 1024 * 1024,
  totalBytes: 64 * 1024 * 1024,
  files: 5_000,
  dirs: 1_000,
  depth: 16,
  // As deep as git makes them at all: what a chain costs is bounded by bytes and time.
  deltaDepth: 4_095,
  outsidePaths: 100,
};

/** The condition of a source that goes past one of the caps. */
export function tooLarge(what: string, limit: number): RepoCondition {
  return new RepoCondition('too-large', `${what}; the limit is ${limit}`);
}
