// A folder as it lies on disk. Links are named and never followed, every directory is checked to be where it seems to
// be, and the same bounds hold as for git. Its commit is a hash of what was read, so equal trees are equal commits.

import { createHash } from 'node:crypto';
import { constants, type Dirent } from 'node:fs';
import { type FileHandle, lstat, open, opendir, readlink, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { gitId } from '../../base/hash.ts';
import {
  assemble,
  decodeName,
  isInside,
  nameFault,
  nameFindings,
  normalRoot,
  type ReadFile,
  repositoryPath,
  shownPath,
} from './tree-walk.ts';
import {
  defaultCaps,
  type OpenOptions,
  type PriorRead,
  type RepoCaps,
  RepoCondition,
  type RepoFinding,
  type RepoSource,
  type RepoTarget,
  type Snapshot,
  type SnapshotOptions,
  type Tip,
  tooLarge,
} from './types.ts';

/** What editors leave lying about while they work. */
export const editorFile = /(^|\/)([^/]*~|\.[^/]*\.sw[a-z]|4913|[^/]*\.tmp|\.#[^/]*|#[^/]*#)$/;
/** How many of them, and of what is no file, may lie in a directory beside all that is read. */
const strayMax = 1_000;
const noSubmodule = '0'.repeat(40);

/**
 * Paths outside `.svc/` that the last read of a folder by the same reader in this process had. A source lives for one sync;
 * without this the next one's hash would not cover them, and a change of only such a file would go unseen until somebody asks.
 */
const outsideByFolder = new Map<string, readonly string[]>();

function remember(key: string, paths: readonly string[]): void {
  outsideByFolder.delete(key);
  if (paths.length === 0) return;
  if (outsideByFolder.size >= 10_000) outsideByFolder.delete(outsideByFolder.keys().next().value as string);
  outsideByFolder.set(key, paths);
}

interface FolderRead {
  readonly commit: string;
  readonly files: readonly ReadFile[];
  readonly absent: readonly string[];
  readonly findings: readonly RepoFinding[];
  readonly hasSvc: boolean;
}

export class FolderSource implements RepoSource {
  readonly #path: string;
  readonly #root: string;
  readonly #caps: RepoCaps;
  readonly #signed: boolean;
  readonly #within: OpenOptions['within'];
  readonly #reader: string | undefined;
  readonly #taking: OpenOptions['taking'];

  constructor(target: Extract<RepoTarget, { kind: 'folder' }>, options: OpenOptions) {
    this.#path = target.path;
    this.#root = normalRoot(target.root);
    this.#signed = options.verify !== undefined && options.verify !== null;
    this.#caps = { ...defaultCaps, ...options.caps };
    this.#within = options.within;
    this.#reader = options.reader;
    this.#taking = options.taking;
  }

  async resolve(signal?: AbortSignal, prior?: PriorRead | null): Promise<Tip> {
    if (this.#signed) {
      throw new RepoCondition(
        'signature-rejected',
        'a folder has no commits that could be signed: give a branch, or drop the policy',
      );
    }
    // What this process read last is what was seen last; the record is of the last read that was applied.
    const known = this.#outside();
    const paths = known.length > 0 || prior === undefined || prior === null ? known : outsideOf(prior);
    return { commit: (await this.#read(paths, signal)).commit };
  }

  async snapshot(_tip: Tip, options: SnapshotOptions = {}): Promise<Snapshot> {
    const prior = options.prior ?? null;
    const paths = [...new Set([...(prior === null ? [] : outsideOf(prior)), ...(options.wantPaths ?? [])])];
    const read = await this.#read(paths, options.signal);
    const unchanged = prior !== null && prior.commit === read.commit;
    return { ...this.#toSnapshot(read, unchanged), ...(unchanged && options.full !== true ? { bundle: null } : {}) };
  }

  async more(snapshot: Snapshot, paths: readonly string[], signal?: AbortSignal): Promise<Snapshot> {
    const read = await this.#read([...new Set([...outsideOf(snapshot.record), ...paths])], signal);
    return this.#toSnapshot(read, snapshot.unchanged);
  }

  async watch(onDirty: () => void): Promise<{ stop(): Promise<void> }> {
    const { watchFolder } = await import('./folder-watch.ts');
    return watchFolder(join(this.#path, this.#root), () => this.#outside(), onDirty);
  }

  async close(): Promise<void> {}

  get #key(): string {
    return JSON.stringify([this.#path, this.#root, this.#reader]);
  }

  #outside(): readonly string[] {
    return outsideByFolder.get(this.#key) ?? [];
  }

  #toSnapshot(read: FolderRead, unchanged: boolean): Snapshot {
    remember(this.#key, [...read.absent, ...read.files.map(({ path }) => path).filter((path) => !isInside(path))]);
    const facts = { commit: read.commit, rootTree: null, svcTree: null, tops: {} };
    return {
      commit: read.commit,
      rootTree: null,
      svcTree: null,
      signature: { status: 'unchecked' },
      via: 'folder',
      unchanged,
      traffic: { requests: 0, bytesDown: 0 },
      ...assemble(facts, read.files, read.absent, read.findings, read.hasSvc),
    };
  }

  async #read(outside: readonly string[], signal?: AbortSignal): Promise<FolderRead> {
    const wanted = outside.filter((path) => !isInside(path));
    if (wanted.length > this.#caps.outsidePaths) {
      throw new RepoCondition('too-large', `the tree names more than ${this.#caps.outsidePaths} files outside .svc/`);
    }
    await this.#within?.(this.#path);
    const place = await realDirectory(this.#path);
    // A link that was changed in between leads nowhere else.
    await this.#within?.(place);
    const reader = new FolderReader(place, this.#root, this.#caps, signal, this.#taking);
    const hasSvc = await reader.readSvc();
    for (const path of wanted) await reader.readOutside(path);
    const files = [...reader.files.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
    const absent = [...reader.absent].sort();
    const hash = createHash('sha256').update(hasSvc ? 'svc\n' : 'none\n');
    for (const file of files) hash.update(`${JSON.stringify(file.path)} ${file.kind} ${file.oid}\n`);
    for (const path of absent) hash.update(`${JSON.stringify(path)} absent\n`);
    return { commit: `folder:${hash.digest('hex')}`, files, absent, findings: reader.findings, hasSvc };
  }
}

class FolderReader {
  readonly files = new Map<string, ReadFile>();
  readonly absent = new Set<string>();
  readonly findings: RepoFinding[] = [];
  readonly #base: string;
  readonly #root: string;
  readonly #caps: RepoCaps;
  readonly #signal: AbortSignal | undefined;
  readonly #taking: OpenOptions['taking'];
  #bytes = 0;
  #dirs = 0;

  constructor(
    base: string,
    root: string,
    caps: RepoCaps,
    signal: AbortSignal | undefined,
    taking: OpenOptions['taking'],
  ) {
    this.#base = base;
    this.#root = root;
    this.#caps = caps;
    this.#signal = signal;
    this.#taking = taking;
  }

  /** True where there is a `.svc/` directory. */
  async readSvc(): Promise<boolean> {
    const top = join(this.#base, this.#root);
    const place = await realpath(top).catch(() => null);
    if (place === null) return false;
    if (place !== top)
      throw new RepoCondition('hostile', `${shownPath(this.#root)} is reached through a symbolic link`);
    const stats = await lstat(join(top, '.svc')).catch(absentAsNull);
    if (stats === null) return false;
    if (stats.isSymbolicLink()) throw new RepoCondition('hostile', '.svc is a symbolic link: it must be a directory');
    if (!stats.isDirectory()) return false;
    if (await holdsRepository(join(top, '.svc')))
      throw new RepoCondition('hostile', '.svc is a submodule: it must be a directory');
    await this.#readDirectory(join(top, '.svc'), '.svc', 1);
    return true;
  }

  async #readDirectory(directory: string, path: string, depth: number): Promise<void> {
    this.#signal?.throwIfAborted();
    this.#dirs += 1;
    if (this.#dirs > this.#caps.dirs)
      throw tooLarge(`.svc/ has more than ${this.#caps.dirs} directories`, this.#caps.dirs);
    if (depth > this.#caps.depth)
      throw tooLarge(`.svc/ is nested more than ${this.#caps.depth} deep`, this.#caps.depth);
    // A directory that was swapped for a link since it was listed is not where it seems to be.
    if ((await realpath(directory).catch(absentAsNull)) !== directory) return;
    if (depth > 1 && (await holdsRepository(directory))) {
      this.#keep({ path, kind: 'submodule', oid: noSubmodule, bytes: undefined });
      return;
    }
    const raw = await this.#list(directory);
    const entries = raw.map((entry) => ({ entry, name: checkedName(path, entry.name) }));
    entries.sort((a, b) => (a.name < b.name ? -1 : 1));
    this.findings.push(
      ...nameFindings(
        path,
        entries.map(({ name }) => name),
      ),
    );
    for (const { entry, name } of entries) {
      const [place, child] = [join(directory, name), `${path}/${name}`];
      if (entry.isDirectory()) await this.#readDirectory(place, child, depth + 1);
      else if (entry.isSymbolicLink()) await this.#keepLink(place, child);
      else if (entry.isFile() && !editorFile.test(child)) await this.#keepFile(place, child);
    }
  }

  /** What a directory holds, a part at a time: one that holds too much is not listed to its end. */
  async #list(directory: string): Promise<Dirent<Buffer>[]> {
    const { files, dirs } = this.#caps;
    const listed: Dirent<Buffer>[] = [];
    // The declared types know no names as bytes here.
    const options = { encoding: 'buffer' as BufferEncoding, bufferSize: 512 };
    const open = await opendir(directory, options).catch(absentAsNull);
    for await (const entry of open ?? []) {
      listed.push(entry as unknown as Dirent<Buffer>);
      if (this.files.size + listed.length > files + this.#caps.outsidePaths + dirs + strayMax)
        throw tooLarge(`.svc/ has more than ${files} files`, files);
    }
    return listed;
  }

  /** One file outside `.svc/`, down from the top, never past a link nor into a submodule. */
  async readOutside(path: string): Promise<void> {
    const full = repositoryPath(this.#root, path);
    if (full === null) {
      this.absent.add(path);
      return;
    }
    const segments = full.split('/');
    let place = this.#base;
    for (const [index, segment] of segments.entries()) {
      place = join(place, segment);
      const stats = await lstat(place).catch(absentAsNull);
      const last = index === segments.length - 1;
      const here = segments.slice(0, index + 1).join('/');
      const isSubmodule = stats?.isDirectory() === true && (await this.#isSubmodule(place, here));
      if (stats?.isSymbolicLink() === true || isSubmodule) {
        const shown = last ? path : this.#fromRoot(here);
        if (isSubmodule) this.#keep({ path: shown, kind: 'submodule', oid: noSubmodule, bytes: undefined });
        else await this.#keepLink(place, shown);
        if (!last) this.absent.add(path);
        return;
      }
      if (stats === null || (last ? !stats.isFile() : !stats.isDirectory())) {
        this.absent.add(path);
        return;
      }
    }
    await this.#keepFile(place, path);
    if (!this.files.has(path)) this.absent.add(path);
  }

  /** A path of the repository as the root sees it. */
  #fromRoot(path: string): string {
    if (path.startsWith(`${this.#root}/`)) return path.slice(this.#root.length + 1);
    return this.#root === '' ? path : `${'../'.repeat(this.#root.split('/').length)}${path}`;
  }

  /** Whether git keeps a directory as another repository; what holds the root is what was asked for. */
  async #isSubmodule(place: string, path: string): Promise<boolean> {
    if (`${this.#root}/`.startsWith(`${path}/`)) return false;
    return holdsRepository(place);
  }

  async #keepLink(place: string, path: string): Promise<void> {
    const target = await readlink(place, { encoding: 'buffer' }).catch(absentAsNull);
    if (target !== null) this.#keep({ path, kind: 'symlink', oid: gitId('blob', target), bytes: undefined });
  }

  async #keepFile(place: string, path: string): Promise<void> {
    let handle: FileHandle;
    try {
      handle = await open(place, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    } catch (error) {
      // Gone or turned into a link since it was listed: the watcher brings the next look.
      if (['ENOENT', 'ENOTDIR', 'ELOOP', 'ENXIO'].includes((error as NodeJS.ErrnoException).code ?? '')) return;
      throw unreadable(path, error);
    }
    try {
      const stats = await handle.stat();
      if (!stats.isFile()) return;
      const bytes = stats.size > this.#caps.fileBytes ? null : await readBounded(handle, this.#caps.fileBytes);
      if (bytes === null) {
        const oid = gitId('blob', Buffer.from(`too large: ${stats.size} ${stats.mtimeMs}`));
        this.#keep({ path, kind: 'file', oid, bytes: undefined });
        return;
      }
      this.#bytes += bytes.length;
      if (this.#bytes > this.#caps.totalBytes)
        throw tooLarge('the files read have more bytes together', this.#caps.totalBytes);
      this.#taking?.(bytes.length);
      this.#keep({ path, kind: 'file', oid: gitId('blob', bytes), bytes });
    } finally {
      await handle.close();
    }
  }

  #keep(file: ReadFile): void {
    this.files.set(file.path, file);
    if (this.files.size > this.#caps.files + this.#caps.outsidePaths) {
      throw tooLarge(`.svc/ has more than ${this.#caps.files} files`, this.#caps.files);
    }
  }
}

/** The whole file, or null where it grows past the limit while being read. */
async function readBounded(handle: FileHandle, limit: number): Promise<Buffer | null> {
  const chunks: Buffer[] = [];
  let length = 0;
  for (;;) {
    const chunk = Buffer.allocUnsafe(65_536);
    const { bytesRead } = await handle.read(chunk, 0, chunk.length, length);
    if (bytesRead === 0) return Buffer.concat(chunks);
    chunks.push(chunk.subarray(0, bytesRead));
    length += bytesRead;
    if (length > limit) return null;
  }
}

function checkedName(directory: string, bytes: Buffer): string {
  const name = decodeName(bytes);
  const fault = name === null ? 'it is not UTF-8' : nameFault(name);
  if (name !== null && fault === null) return name;
  const shown = shownPath(`${directory}/${bytes.toString('utf8')}`);
  throw new RepoCondition('hostile', `the file name ${shown} is refused: ${fault}`);
}

async function realDirectory(path: string): Promise<string> {
  try {
    const place = await realpath(path);
    if ((await lstat(place)).isDirectory()) return place;
  } catch (error) {
    if (absentAsNull(error) !== null) throw error;
  }
  throw new RepoCondition('not-found', 'there is no directory at the path');
}

/** Whether git keeps a directory as a repository, of its own or of another one. */
async function holdsRepository(directory: string): Promise<boolean> {
  return (await lstat(join(directory, '.git')).catch(absentAsNull)) !== null;
}

/** Null for what is not there; anything else is a reason to stop. */
function absentAsNull(error: unknown): null {
  const { code, path } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT' || code === 'ENOTDIR') return null;
  throw unreadable(path ?? '', error);
}

function unreadable(path: string, error: unknown): RepoCondition {
  const code = (error as NodeJS.ErrnoException).code ?? 'unknown error';
  return new RepoCondition('unreachable', `${shownPath(path)} cannot be read (${code})`, { cause: error });
}

function outsideOf(record: PriorRead): string[] {
  const links = record.entries.filter(({ kind, path }) => kind !== 'file' && !isInside(path)).map(({ path }) => path);
  const inTheWay = links.filter((link) => record.absent.some((path) => path.startsWith(`${link}/`)));
  const files = record.entries.map(({ path }) => path).filter((path) => !isInside(path) && !inTheWay.includes(path));
  return [...files, ...record.absent];
}
