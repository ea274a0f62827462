// Files of the repository that lie outside `.svc/` and that an import or a `file:` names (docs/reference/repositories.md#files-outside): found by
// walking the trees to them, level by level and all at once, never past a link.

import { posix } from 'node:path';
import { nameFault } from './names.ts';
import { findInTree } from './objects.ts';
import { kindOfMode, type WalkedFile } from './tree-walk.ts';
import { type PriorRead, RepoCondition, type SnapshotEntry, type SnapshotRecord } from './types.ts';

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
