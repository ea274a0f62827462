// Walks the trees under `.svc/` from objects that are at hand: strict about names, order and modes, and bounded by
// counting visits (a small set of trees may name each other a billion times over). Pure.

import { posix } from 'node:path';
import { gitId } from '../../base/hash.ts';
import { buildTree, compareTreeNames, findInTree, parseTree, type RawTreeEntry } from './objects.ts';
import {
  type PriorRead,
  type RepoCaps,
  RepoCondition,
  type RepoFinding,
  type SnapshotEntry,
  type SnapshotRecord,
  tooLarge,
} from './types.ts';
import { isBranch } from '../../domain/git-ref.ts';
import { withoutEnd } from '../../domain/text.ts';
import type { Bundle, BundleEntry } from '../../domain/bundle.ts';

export interface WalkedFile {
  readonly path: string;
  readonly kind: SnapshotEntry['kind'];
  readonly oid: string;
  readonly mode?: string;
}

export interface Walk {
  readonly files: readonly WalkedFile[];
  readonly findings: readonly RepoFinding[];
  /** Trees that were not at hand; where there are any, `files` is incomplete. */
  readonly missing: readonly string[];
}

const fileModes = new Set(['100644', '100755', '100664']);
const usualModes: Record<SnapshotEntry['kind'], string> = { file: '100644', symlink: '120000', submodule: '160000' };

/** What a mode stands for; null for a mode that git does not write. */
export function kindOfMode(mode: string): SnapshotEntry['kind'] | 'dir' | null {
  if (fileModes.has(mode)) return 'file';
  if (mode === '40000') return 'dir';
  if (mode === '120000') return 'symlink';
  return mode === '160000' ? 'submodule' : null;
}

/** Walks the tree `oid`, which stands at `path` (`.svc`). Throws `hostile` and `too-large`. */
export function walkTree(
  oid: string,
  path: string,
  treeOf: (oid: string) => Buffer | undefined,
  caps: Pick<RepoCaps, 'files' | 'dirs' | 'depth'>,
): Walk {
  const files: WalkedFile[] = [];
  const findings: RepoFinding[] = [];
  const missing: string[] = [];
  let dirs = 0;
  const stack = [{ oid, path, depth: 1 }];
  for (let dir = stack.pop(); dir !== undefined; dir = stack.pop()) {
    dirs += 1;
    if (dirs > caps.dirs) throw tooLarge(`.svc/ has more than ${caps.dirs} directories`, caps.dirs);
    if (dir.depth > caps.depth) throw tooLarge(`.svc/ is nested more than ${caps.depth} deep`, caps.depth);
    const tree = treeOf(dir.oid);
    if (tree === undefined) {
      missing.push(dir.oid);
      continue;
    }
    // One more than the bounds together says that there are more than one of them.
    const entries = strictEntries(tree, dir.path, caps.files + caps.dirs + 1);
    findings.push(
      ...nameFindings(
        dir.path,
        entries.map(({ name }) => name),
      ),
    );
    for (const { name, kind, entry } of entries) {
      const child = `${dir.path}/${name}`;
      if (kind === 'dir') stack.push({ oid: entry.oid, path: child, depth: dir.depth + 1 });
      else
        files.push({
          path: child,
          kind,
          oid: entry.oid,
          ...(entry.mode === usualModes[kind] ? {} : { mode: entry.mode }),
        });
      if (files.length > caps.files) throw tooLarge(`.svc/ has more than ${caps.files} files`, caps.files);
    }
  }
  files.sort((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0));
  return { files, findings, missing };
}

function strictEntries(tree: Buffer, path: string, most: number) {
  const seen = new Set<string>();
  let last: { name: Buffer; dir: boolean } | null = null;
  return parseTree(tree, most).map((entry) => {
    const name = decodeName(entry.name);
    if (name === null) throw hostile(path, entry, 'it is not UTF-8');
    const fault = nameFault(name);
    if (fault !== null) throw hostile(path, entry, fault);
    const kind = kindOfMode(entry.mode);
    if (kind === null) throw hostile(path, entry, `its mode ${entry.mode} is none that git writes`);
    const here = { name: entry.name, dir: kind === 'dir' };
    if (seen.has(name)) throw hostile(path, entry, 'it stands twice in its directory');
    if (last !== null && compareTreeNames(last, here) >= 0) throw hostile(path, entry, 'its directory is not in order');
    seen.add(name);
    last = here;
    return { name, kind, entry };
  });
}

function hostile(directory: string, entry: RawTreeEntry, why: string): RepoCondition {
  const name = shownPath(`${directory}/${entry.name.toString('utf8')}`);
  return new RepoCondition('hostile', `the file name ${name} is refused: ${why}`);
}

/**
 * The trees of an earlier read, rebuilt from its recorded entries, by id; null where they do not hash to `svcTree`
 * (an empty directory or an old tool's mode is not in the record). They stand in for what a server leaves out.
 */
export function rebuildTrees(entries: readonly SnapshotEntry[], svcTree: string): Map<string, Buffer> | null {
  interface Dir {
    readonly files: { name: string; mode: string; oid: string }[];
    readonly dirs: Map<string, Dir>;
  }
  const top: Dir = { files: [], dirs: new Map() };
  for (const entry of entries) {
    if (!entry.path.startsWith('.svc/')) continue;
    const segments = entry.path.slice(5).split('/');
    const name = segments.pop() as string;
    let dir = top;
    for (const segment of segments) {
      const known = dir.dirs.get(segment);
      const next: Dir = known ?? { files: [], dirs: new Map() };
      if (known === undefined) dir.dirs.set(segment, next);
      dir = next;
    }
    dir.files.push({ name, mode: entry.mode ?? usualModes[entry.kind], oid: entry.oid });
  }
  const trees = new Map<string, Buffer>();
  const build = (dir: Dir): string => {
    const children = [...dir.files];
    for (const [name, child] of dir.dirs) children.push({ name, mode: '40000', oid: build(child) });
    const sortable = children.map((child) => ({ child, name: Buffer.from(child.name), dir: child.mode === '40000' }));
    const bytes = buildTree(sortable.sort(compareTreeNames).map(({ child }) => child));
    const oid = gitId('tree', bytes);
    trees.set(oid, bytes);
    return oid;
  };
  return build(top) === svcTree ? trees : null;
}

// Files of the repository that lie outside `.svc/` and that an import or a `file:` names
// (docs/reference/repositories.md#files-outside): found by walking the trees to them, level by level and all at once, never
// past a link.

export interface OutsideWalk {
  /** The files, and the links (or submodules) that stood in the way of one. */
  readonly found: readonly WalkedFile[];
  readonly absent: readonly string[];
}

/** Entries (without bytes) of paths outside, and those that are not there. */
export interface Outside {
  readonly entries: readonly SnapshotEntry[];
  readonly absent: readonly string[];
}

/** The path from the top of the repository, or null where `path` (relative to `root`) leaves it or cannot be a name. */
export function repositoryPath(root: string, path: string): string | null {
  const full = posix.join(root, path);
  if (path === '' || posix.isAbsolute(path) || full === '.' || full === '..' || full.startsWith('../')) return null;
  return full.split('/').some((segment) => nameFault(segment) !== null) ? null : full;
}

/** True for what lies in the `.svc/` of the target, which the bundle holds anyway. */
export function isInside(path: string): boolean {
  return path === '.svc' || path.startsWith('.svc/');
}

/** The root directory as the target names it: no leading, trailing or doubled slashes. Throws `not-found`. */
export function normalRoot(root: string): string {
  const clean = posix.normalize(`/${root}`).slice(1).replace(/\/$/, '');
  if (root.split('/').includes('..') || clean.split('/').some((part) => part !== '' && nameFault(part) !== null)) {
    throw new RepoCondition('not-found', 'the root directory of the repository cannot be a path inside it');
  }
  return clean;
}

/**
 * Walks from the top tree to each path. `fetchTrees` is called once a level with the trees that are needed next, and
 * must hand back all of them. `rootOf` turns a repository path into one relative to the target's root.
 */
export async function walkOutside(
  root: string,
  paths: readonly string[],
  topTree: Buffer,
  fetchTrees: (oids: readonly string[]) => Promise<(oid: string) => Buffer>,
): Promise<OutsideWalk> {
  const found = new Map<string, WalkedFile>();
  const absent: string[] = [];
  interface Step {
    readonly path: string;
    readonly segments: readonly string[];
    readonly at: number;
    readonly tree: Buffer;
  }
  let steps: Step[] = [];
  for (const path of paths) {
    const full = repositoryPath(root, path);
    if (full === null) absent.push(path);
    else steps.push({ path, segments: full.split('/'), at: 0, tree: topTree });
  }
  while (steps.length > 0) {
    const next: { step: Step; oid: string }[] = [];
    for (const step of steps) {
      const entry = findInTree(step.tree, step.segments[step.at] as string);
      const kind = entry === null ? null : kindOfMode(entry.mode);
      const last = step.at === step.segments.length - 1;
      if (entry !== null && kind === 'dir' && !last) next.push({ step, oid: entry.oid });
      else if (entry !== null && kind !== null && kind !== 'dir' && (last || kind !== 'file')) {
        const here = posix.relative(root, step.segments.slice(0, step.at + 1).join('/'));
        found.set(here, { path: here, kind, oid: entry.oid });
        if (!last) absent.push(step.path);
      } else absent.push(step.path);
    }
    const treeOf = next.length === 0 ? null : await fetchTrees([...new Set(next.map(({ oid }) => oid))]);
    steps = next.map(({ step, oid }) => ({ ...step, at: step.at + 1, tree: (treeOf as (oid: string) => Buffer)(oid) }));
  }
  return { found: [...found.values()], absent };
}

/** The paths outside `.svc/` that an earlier read was asked for. */
export function outsidePaths(record: SnapshotRecord): string[] {
  const files = record.entries.filter(({ path, kind }) => !isInside(path) && kind === 'file').map(({ path }) => path);
  const links = record.entries.filter(({ path, kind }) => !isInside(path) && kind !== 'file').map(({ path }) => path);
  // A link that stood in the way of a path was not asked for itself.
  return [
    ...files,
    ...links.filter((link) => !record.absent.some((path) => path.startsWith(`${link}/`))),
    ...record.absent,
  ];
}

/** True where every path that was asked for is known, and what is there now is what was there then. */
export function sameOutside(prior: PriorRead, asked: readonly string[], now: Outside): boolean {
  const before = new Map(prior.entries.filter(({ path }) => !isInside(path)).map((entry) => [entry.path, entry]));
  const absent = new Set(prior.absent);
  if (!asked.every((path) => before.has(path) || absent.has(path))) return false;
  const gone = new Set(now.absent);
  return (
    now.entries.length === before.size &&
    now.entries.every(({ path, oid, kind }) => before.get(path)?.oid === oid && before.get(path)?.kind === kind) &&
    gone.size === absent.size &&
    now.absent.every((path) => absent.has(path))
  );
}

// What a driver read, in the shape that the service takes: the bundle for compile, the record for the store. Which names a file
// under `.svc/` may have, in git and in folders alike, is judged here: nothing is ever checked out, so this is not about the disk;
// it keeps logs, screens and lookups from being confused by a name.

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Zero-width characters that some file systems drop, which would make another name out of this one. */
const ignorable = /\u200c|\u200d|[\u206a-\u206f]|\ufeff/g;
const bidi = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/;

/** The text of a name, or null where it is not UTF-8. */
export function decodeName(bytes: Uint8Array): string | null {
  try {
    return utf8.decode(bytes);
  } catch {
    return null;
  }
}

/**
 * Why the name is refused, or null. `.git` and what file systems take for it is; `.gitkeep` and the like are ordinary files
 * here, since nothing reads them as git would.
 */
export function nameFault(name: string): string | null {
  if (name === '' || name === '.' || name === '..') return 'it is a directory reference';
  if (name.includes('/') || name.includes('\\')) return 'it holds a slash or backslash';
  // biome-ignore lint: control characters are what is looked for
  if (/[\u0000-\u001f\u007f-\u009f]/.test(name)) return 'it holds a control character';
  if (bidi.test(name)) return 'it holds a character that reverses the direction of writing';
  const folded = withoutEnd(name.replace(ignorable, '').toLowerCase(), '. ');
  if (folded === '.git' || folded.startsWith('.git:') || /^git~\d+$/.test(folded))
    return 'it stands for the git directory';
  return null;
}

/** A name as a message may show it: quoted, without characters that could deceive. */
export function shownPath(path: string): string {
  return JSON.stringify(path.replace(/[\p{Cc}\p{Cf}]/gu, '\ufffd').slice(0, 200));
}

/** Remarks about the names of one directory: those that differ only by case, and those that are not in normal form C. */
export function nameFindings(directory: string, names: readonly string[]): RepoFinding[] {
  const findings: RepoFinding[] = [];
  const folded = new Map<string, string>();
  for (const name of names) {
    const path = directory === '' ? name : `${directory}/${name}`;
    const normal = name.normalize('NFC');
    if (normal !== name) {
      const message = `the name ${shownPath(path)} is not in Unicode normal form C; another name may look the same`;
      findings.push({ rule: 'name-form', path, message });
    }
    const key = normal.toLowerCase();
    const other = folded.get(key);
    if (other === undefined) folded.set(key, name);
    else {
      const message = `the names ${shownPath(path)} and ${shownPath(other)} differ only by case or form`;
      findings.push({ rule: 'name-case', path, message });
    }
  }
  return findings;
}

/** The same of all directories that lie in one, told by the paths of its files. */
export function nameFindingsOf(top: string, paths: readonly string[]): RepoFinding[] {
  const names = new Map<string, Set<string>>();
  for (const path of paths.filter((one) => one.startsWith(`${top}/`))) {
    for (let at = path; at !== top; at = posix.dirname(at)) {
      const directory = posix.dirname(at);
      const known = names.get(directory) ?? new Set();
      names.set(directory, known.add(posix.basename(at)));
    }
  }
  return [...names].flatMap(([directory, known]) => nameFindings(directory, [...known].sort()));
}

// From the branch of a repository's settings to the full name of a ref. Pure.

/** The full name of the ref that a branch setting means; HEAD where there is none. Throws `ref-missing`. */
export function wantedRef(branch: string | undefined): string {
  if (branch === undefined || branch === '') return 'HEAD';
  if (!isBranch(branch)) throw new RepoCondition('ref-missing', 'the branch name is none that git allows');
  return branch.startsWith('refs/') ? branch : `refs/heads/${branch}`;
}

export function refMissing(branch: string | undefined): RepoCondition {
  return new RepoCondition(
    'ref-missing',
    branch === undefined || branch === ''
      ? 'the repository is empty, or its default branch does not exist'
      : `the repository has no branch ${JSON.stringify(branch)} (any more); nothing is pruned`,
  );
}

export interface ReadFile {
  readonly path: string;
  readonly kind: SnapshotEntry['kind'];
  readonly oid: string;
  readonly mode?: string;
  /** Undefined for a link or submodule, and for a file past the size limit. */
  readonly bytes: Uint8Array | undefined;
}

/** Bundle, record and findings of one read; a file without bytes is marked and reported as too large. */
export function assemble(
  facts: Pick<SnapshotRecord, 'commit' | 'rootTree' | 'svcTree' | 'tops'>,
  files: readonly ReadFile[],
  absent: readonly string[],
  findings: readonly RepoFinding[],
  hasSvc: boolean,
): { bundle: Bundle; record: SnapshotRecord; findings: readonly RepoFinding[] } {
  const sorted = [...files].sort((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0));
  const entries = new Map<string, BundleEntry>();
  const remarks = findings.filter(({ rule }) => rule !== 'too-large');
  const recorded = sorted.map(({ path, kind, oid, mode, bytes }): SnapshotEntry => {
    const large = kind === 'file' && bytes === undefined ? { tooLarge: true as const } : {};
    entries.set(path, { path, kind, oid, ...large, ...(bytes === undefined ? {} : { bytes }) });
    if ('tooLarge' in large) {
      remarks.push({
        rule: 'too-large',
        path,
        message: `${shownPath(path)} is larger than a file may be and was not read`,
      });
    }
    return { path, kind, oid, size: bytes?.length ?? 0, ...large, ...(mode === undefined ? {} : { mode }) };
  });
  const missing = [...absent].sort();
  return {
    bundle: { entries, absent: new Set(missing), hasSvc },
    record: { ...facts, entries: recorded, absent: missing },
    findings: remarks,
  };
}
