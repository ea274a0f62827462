// Walks the trees under `.svc/` from objects that are at hand: strict about names, order and modes, and bounded by
// counting visits (a small set of trees may name each other a billion times over). Pure.

import { decodeName, nameFault, nameFindings, shownPath } from './names.ts';
import { buildTree, compareTreeNames, objectId, parseTree, type RawTreeEntry } from './objects.ts';
import { RepoCondition, type RepoCaps, type RepoFinding, type SnapshotEntry, tooLarge } from './types.ts';

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
    const entries = strictEntries(tree, dir.path);
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

function strictEntries(tree: Buffer, path: string) {
  const seen = new Set<string>();
  let last: { name: Buffer; dir: boolean } | null = null;
  return parseTree(tree).map((entry) => {
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
    const oid = objectId('tree', bytes);
    trees.set(oid, bytes);
    return oid;
  };
  return build(top) === svcTree ? trees : null;
}
