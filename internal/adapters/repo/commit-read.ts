// One read of one commit, from a git server or a local repository: compares with what an earlier read had, fetches what is new, verifies
// that everything the commit names is there, and puts the bundle together.

import { gitId } from '../../base/hash.ts';
import { commitAbout, findInTree, type GitObject, parseCommit } from './objects.ts';
import { verifyCommit } from './commit-signature.ts';
import type { CommitObjects } from './fetch-strategy.ts';
import {
  assemble,
  isInside,
  type Outside,
  outsidePaths,
  type ReadFile,
  rebuildTrees,
  repositoryPath,
  sameOutside,
  type Walk,
  walkOutside,
  walkTree,
} from './tree-walk.ts';
import { badPack } from './pack-reader.ts';
import { GitServerError } from './protocol.ts';
import {
  defaultCaps,
  type OpenOptions,
  type PriorRead,
  type RepoCaps,
  RepoCondition,
  type RepoFinding,
  type SigStatus,
  type Snapshot,
  type SnapshotEntry,
  type SnapshotOptions,
  type Traffic,
  tooLarge,
} from './types.ts';
import type { GitWire } from './http.ts';

/** `heldTree`: the top tree of an earlier read, all below which the server need not send. */
type OpenCommit = (oid: string, signal: AbortSignal, heldTree: string | null) => Promise<CommitObjects>;

export class CommitRead {
  readonly #commit: string;
  readonly #root: string;
  readonly #caps: RepoCaps;
  readonly #open: OpenOptions;
  readonly #options: SnapshotOptions;
  readonly #prior: PriorRead | null;
  readonly #wire: GitWire | null;
  readonly #openCommit: OpenCommit;
  readonly #tops = new Map<string, string | null>();
  #objects: CommitObjects | null = null;
  #topTree: Buffer | null = null;
  #rootTree = '';

  constructor(
    commit: string,
    root: string,
    open: OpenOptions,
    options: SnapshotOptions,
    wire: GitWire | null,
    openCommit: OpenCommit,
  ) {
    this.#commit = commit;
    this.#root = root;
    this.#open = open;
    this.#caps = { ...defaultCaps, ...open.caps };
    this.#options = options;
    const prior = options.prior ?? null;
    // A record that was made under another root directory has the same paths for other files.
    this.#prior = prior !== null && Object.hasOwn(prior.tops, svcPlace(root)) ? prior : null;
    this.#wire = wire;
    this.#openCommit = openCommit;
  }

  async run(signal: AbortSignal, traffic: () => Traffic): Promise<Snapshot> {
    const wants = checkedWants(this.#options.wantPaths ?? [], this.#caps);
    const signature = await this.#begin(signal);
    const svcTree = await this.#findSvc(signal);
    const prior = this.#prior;
    const svcSame = prior !== null && prior.svcTree === svcTree;
    const priorOutside = prior === null ? [] : outsidePaths(prior);
    const asked = svcSame ? [...new Set([...priorOutside, ...wants])] : wants;
    const outside = await this.#outside(asked, signal);
    const unchanged = svcSame && prior !== null && sameOutside(prior, asked, outside);
    const about = commitAbout((this.#objects as CommitObjects).commit);
    const read = { commit: this.#commit, rootTree: this.#rootTree, svcTree, signature, about };
    const result = { ...read, via: this.#via(), unchanged };
    if (unchanged && this.#options.full !== true) {
      const record = { ...prior, commit: this.#commit, rootTree: this.#rootTree, tops: Object.fromEntries(this.#tops) };
      return { ...result, bundle: null, record, findings: [], traffic: traffic() };
    }
    const svc = svcTree === null ? emptyWalk : await this.#readSvc(svcTree, signal);
    const blobs = await this.#bytes(outside.entries, signal);
    const files = [...svc.files, ...withBytes(outside.entries, blobs)];
    return this.#finish(result, files, outside.absent, svc.findings, traffic());
  }

  /** `snapshot` with more files from outside `.svc/`. */
  async more(
    snapshot: Snapshot,
    paths: readonly string[],
    signal: AbortSignal,
    traffic: () => Traffic,
  ): Promise<Snapshot> {
    if (snapshot.bundle === null) throw new TypeError('more() takes a snapshot that has its bundle');
    const known = new Set([...snapshot.bundle.entries.keys(), ...snapshot.bundle.absent]);
    const before = outsidePaths(snapshot.record);
    const fresh = checkedWants(paths, this.#caps).filter((path) => !known.has(path));
    if (before.length + fresh.length > this.#caps.outsidePaths) throw tooManyPaths(this.#caps);
    const outside = await this.#outside(fresh, signal);
    const blobs = await this.#bytes(outside.entries, signal);
    const held = snapshot.record.entries.map((entry) => ({
      ...entry,
      bytes: snapshot.bundle?.entries.get(entry.path)?.bytes,
    }));
    const added = withBytes(outside.entries, blobs).filter(({ path }) => !known.has(path));
    const absent = [...new Set([...snapshot.bundle.absent, ...outside.absent])];
    const spent = traffic();
    return this.#finish(snapshot, [...held, ...added], absent, snapshot.findings, {
      requests: snapshot.traffic.requests + spent.requests,
      bytesDown: snapshot.traffic.bytesDown + spent.bytesDown,
    });
  }

  #finish(
    base: Omit<Snapshot, 'bundle' | 'record' | 'findings' | 'traffic'>,
    files: readonly ReadFile[],
    absent: readonly string[],
    findings: readonly RepoFinding[],
    traffic: Traffic,
  ): Snapshot {
    const total = files.reduce((sum, { bytes }) => sum + (bytes?.length ?? 0), 0);
    if (total > this.#caps.totalBytes) throw tooLarge('the files read have more bytes together', this.#caps.totalBytes);
    const { commit, rootTree, svcTree } = base;
    const facts = { commit, rootTree, svcTree, tops: Object.fromEntries(this.#tops) };
    const assembled = assemble(facts, files, absent, findings, svcTree !== null);
    return { ...base, ...assembled, traffic };
  }

  #via(): CommitObjects['via'] {
    return (this.#objects as CommitObjects).via;
  }

  async #begin(signal: AbortSignal): Promise<SigStatus> {
    this.#objects = await this.#openCommit(this.#commit, signal, this.#prior?.rootTree ?? null);
    const commit = parseCommit(this.#objects.commit);
    const { verify } = this.#open;
    const signature: SigStatus = verify
      ? await verifyCommit(commit, verify, this.#open.now())
      : { status: 'unchecked' };
    this.#rootTree = commit.tree;
    this.#topTree = (await this.#objects.trees([commit.tree], signal))(commit.tree);
    return signature;
  }

  #top(name: string): string | null {
    const known = this.#tops.get(name);
    if (known !== undefined) return known;
    const entry = findInTree(this.#topTree as Buffer, name);
    const text = entry === null ? null : entry.mode === '40000' ? entry.oid : `${entry.mode} ${entry.oid}`;
    this.#tops.set(name, text);
    return text;
  }

  /** The tree id of `.svc/`, or null. Under a root directory an unchanged top entry answers without a walk. */
  async #findSvc(signal: AbortSignal): Promise<string | null> {
    const place = svcPlace(this.#root);
    const segments = place.split('/');
    const top = this.#top(segments[0] as string);
    this.#tops.set(place, top);
    const prior = this.#prior;
    if (segments.length > 1 && prior?.tops[place] === top) return prior.svcTree;
    let tree = this.#topTree as Buffer;
    for (const [index, segment] of segments.entries()) {
      const entry = findInTree(tree, segment);
      if (entry === null) return null;
      if (entry.mode === '120000' || entry.mode === '160000') {
        const path = segments.slice(0, index + 1).join('/');
        throw new RepoCondition(
          'hostile',
          `${path} is a ${entry.mode === '120000' ? 'symbolic link' : 'submodule'}: it must be a directory`,
        );
      }
      if (entry.mode !== '40000') return null;
      if (index === segments.length - 1) return entry.oid;
      tree = (await (this.#objects as CommitObjects).trees([entry.oid], signal))(entry.oid);
    }
    return null;
  }

  /** Entries (without bytes) of paths outside; those below an unchanged top-level entry come from the earlier read. */
  async #outside(paths: readonly string[], signal: AbortSignal): Promise<Outside> {
    const entries = new Map<string, SnapshotEntry>();
    const absent: string[] = [];
    const toWalk: string[] = [];
    for (const path of paths.filter((wanted) => !isInside(wanted))) {
      const full = repositoryPath(this.#root, path);
      if (full === null) {
        absent.push(path);
        continue;
      }
      const name = full.split('/')[0] as string;
      const top = this.#top(name);
      const reused =
        this.#prior !== null && Object.hasOwn(this.#prior.tops, name) && this.#prior.tops[name] === top
          ? this.#recall(path)
          : null;
      if (reused === null) toWalk.push(path);
      else {
        for (const entry of reused.entries) entries.set(entry.path, entry);
        absent.push(...reused.absent);
      }
    }
    if (toWalk.length > 0) {
      const objects = this.#objects as CommitObjects;
      const walk = await walkOutside(this.#root, toWalk, this.#topTree as Buffer, (oids) =>
        objects.trees(oids, signal),
      );
      for (const file of walk.found) entries.set(file.path, { ...file, size: 0 });
      absent.push(...walk.absent);
    }
    return { entries: [...entries.values()], absent };
  }

  /** What the earlier read knew of a path outside: the file, or its absence and the link that stood in the way. */
  #recall(path: string): Outside | null {
    const prior = this.#prior;
    if (prior === null) return null;
    const entries = prior.entries.filter((entry) => !isInside(entry.path));
    const own = entries.find((entry) => entry.path === path);
    if (own !== undefined) return { entries: [own], absent: [] };
    if (!prior.absent.includes(path)) return null;
    return {
      entries: entries.filter((entry) => entry.kind !== 'file' && path.startsWith(`${entry.path}/`)),
      absent: [path],
    };
  }

  /** Everything under `.svc/`, with bytes. Where the server left out too much, once more from nothing. */
  async #readSvc(
    svcTree: string,
    signal: AbortSignal,
  ): Promise<{ files: ReadFile[]; findings: readonly RepoFinding[] }> {
    const prior = this.#prior;
    const known = prior?.svcTree ? rebuildTrees(prior.entries, prior.svcTree) : null;
    if (known !== null && this.#open.blobs !== undefined) {
      try {
        return await this.#readSvcOnce(svcTree, known, signal);
      } catch (error) {
        const gap =
          error instanceof GitServerError || (error instanceof RepoCondition && error.condition === 'corrupt');
        if (!gap || signal.aborted) throw error;
      }
    }
    return this.#readSvcOnce(svcTree, new Map(), signal);
  }

  async #readSvcOnce(svcTree: string, known: Map<string, Buffer>, signal: AbortSignal) {
    const objects = this.#objects as CommitObjects;
    const sparse = this.#wire !== null && (objects.via === 'sparse3' || objects.via === 'sparse4');
    const fresh =
      sparse && !known.has(svcTree)
        ? await this.#fetchSvc(this.#wire as GitWire, svcTree, known, signal)
        : new Map<string, GitObject>();
    const treeOf = (oid: string) => {
      const object = fresh.get(oid);
      return object?.type === 'tree' ? object.bytes : known.get(oid);
    };
    const walk = sparse
      ? walkTree(svcTree, '.svc', treeOf, this.#caps)
      : await this.#walkByLevel(svcTree, known, signal);
    if (walk.missing.length > 0) throw badPack('a directory of .svc/ is not in it');
    const bytes = new Map<string, Buffer | null>();
    for (const [oid, object] of fresh) if (object.type === 'blob') bytes.set(oid, object.bytes);
    const entries = walk.files.map((file) => ({ ...file, size: 0 }));
    const lacking = entries.filter((entry) => entry.kind === 'file' && !bytes.has(entry.oid));
    // What a whole answer lacks, the filter dropped; what an update lacks may also be what the server thinks is held.
    const heldOnce = new Map((this.#prior?.entries ?? []).map((entry) => [entry.oid, entry]));
    const dropped = sparse && fresh.size > 0 ? lacking.filter(({ oid }) => known.size === 0 || !heldOnce.has(oid)) : [];
    for (const { oid } of dropped) bytes.set(oid, null);
    const rest = lacking
      .filter(({ oid }) => !bytes.has(oid))
      .map((entry) => (heldOnce.get(entry.oid)?.tooLarge ? { ...entry, tooLarge: true as const } : entry));
    for (const [oid, blob] of await this.#bytes(rest, signal)) bytes.set(oid, blob);
    return { files: withBytes(entries, bytes), findings: walk.findings };
  }

  #fetchSvc(
    wire: GitWire,
    svcTree: string,
    known: Map<string, Buffer>,
    signal: AbortSignal,
  ): Promise<Map<string, GitObject>> {
    const haves = known.size === 0 || this.#prior?.svcTree == null ? [] : [this.#prior.svcTree];
    const filter = `blob:limit=${this.#caps.fileBytes + 1}`;
    const lookup = (oids: readonly string[]) => this.#bases(oids, known);
    return wire.fetch({ wants: [svcTree], haves, thin: haves.length > 0, filter }, signal, { lookup });
  }

  /** Bases of a thin pack: rebuilt trees and stored contents. */
  async #bases(oids: readonly string[], known: Map<string, Buffer>): Promise<Map<string, GitObject>> {
    const found = new Map<string, GitObject>();
    for (const oid of oids) {
      const tree = known.get(oid);
      if (tree !== undefined) found.set(oid, { type: 'tree', bytes: tree });
    }
    const blobs = await this.#stored(oids.filter((oid) => !found.has(oid)));
    for (const [oid, bytes] of blobs) found.set(oid, { type: 'blob', bytes });
    return found;
  }

  async #walkByLevel(svcTree: string, known: ReadonlyMap<string, Buffer>, signal: AbortSignal): Promise<Walk> {
    const trees = new Map(known);
    for (let round = 0; ; round += 1) {
      const walk = walkTree(svcTree, '.svc', (oid) => trees.get(oid), this.#caps);
      if (walk.missing.length === 0) return walk;
      if (round > this.#caps.depth) throw badPack('a directory of .svc/ is not in it');
      const wanted = [...new Set(walk.missing)];
      const treeOf = await (this.#objects as CommitObjects).trees(wanted, signal);
      for (const oid of wanted) trees.set(oid, treeOf(oid));
    }
  }

  /** Contents from the store, and the rest from the server; null for what is too large. */
  async #bytes(entries: readonly SnapshotEntry[], signal: AbortSignal): Promise<Map<string, Buffer | null>> {
    const found = new Map<string, Buffer | null>();
    const wanted = entries.filter(({ kind }) => kind === 'file');
    for (const { oid, tooLarge: large } of wanted) if (large) found.set(oid, null);
    const lacking = () => [...new Set(wanted.map(({ oid }) => oid))].filter((oid) => !found.has(oid));
    for (const [oid, blob] of await this.#stored(lacking())) found.set(oid, blob);
    const rest = lacking();
    if (rest.length > 0) {
      for (const [oid, blob] of await (this.#objects as CommitObjects).blobs(rest, signal)) found.set(oid, blob);
    }
    return found;
  }

  async #stored(oids: readonly string[]): Promise<Map<string, Buffer>> {
    const held = new Map<string, Buffer>();
    if (this.#open.blobs === undefined || oids.length === 0) return held;
    if (this.#open.taking !== undefined) {
      const sizes = new Map((this.#prior?.entries ?? []).map(({ oid, size }) => [oid, size]));
      this.#open.taking(oids.reduce((sum, oid) => sum + (sizes.get(oid) ?? 0), 0));
    }
    for (const [oid, bytes] of await this.#open.blobs.get(oids)) {
      const blob = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      if (gitId('blob', blob) === oid) held.set(oid, blob);
    }
    return held;
  }
}

function svcPlace(root: string): string {
  return root === '' ? '.svc' : `${root}/.svc`;
}

const emptyWalk: { files: ReadFile[]; findings: readonly RepoFinding[] } = { files: [], findings: [] };

function withBytes(entries: readonly SnapshotEntry[], blobs: ReadonlyMap<string, Buffer | null>): ReadFile[] {
  return entries.map((entry) => {
    const { size: _size, tooLarge: _large, ...rest } = entry;
    const bytes = entry.kind === 'file' ? blobs.get(entry.oid) : undefined;
    return { ...rest, bytes: bytes ?? undefined };
  });
}

function checkedWants(paths: readonly string[], caps: RepoCaps): readonly string[] {
  const unique = [...new Set(paths)].filter((path) => !isInside(path));
  if (unique.length > caps.outsidePaths) throw tooManyPaths(caps);
  return unique;
}

function tooManyPaths(caps: RepoCaps): RepoCondition {
  return new RepoCondition('too-large', `the tree names more than ${caps.outsidePaths} files outside .svc/`);
}
