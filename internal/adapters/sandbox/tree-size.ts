// How many files a commit's tree has, and how large they are, before one of them is written. Summed up as a stream, so that
// one made of itself a million times over is left at the limit; where the size of another commit's tree is known, from what
// differs, so that a push to a large repository costs what was pushed.

import type { Readable } from 'node:stream';
import type { GitResult, GitRun } from './git-program.ts';

export interface TreeSize {
  readonly files: number;
  readonly bytes: number;
}

/** Runs git where the objects are. */
type Git = (run: Pick<GitRun, 'args' | 'read' | 'input'>) => Promise<GitResult>;
/** Hears of the sum so far, and of the length of the longest path; ends it by throwing. */
type Check = (soFar: TreeSize & { readonly longestPath: number }) => void;

/** Past so many, reading the whole tree costs no more. */
const differencesMax = 10_000;
/** Directories that are read for it, entries of theirs that are compared, and bytes of all of one depth: some milliseconds. */
const directoriesMax = 5_000;
const entriesMax = 200_000;
const treesBytes = 2 * 1024 * 1024;
/** Of an entry that is another repository's commit, which is not fetched. */
const submodule = 0o160000;
const directory = 0o40000;

/**
 * The size of the tree of `commit`; `known` is that of another one in the same repository. `failed`: what git said where the
 * tree cannot be read. Rejects with what `check` throws.
 */
export async function treeSize(
  git: Git,
  commit: string,
  known: (TreeSize & { readonly commit: string }) | null,
  check: Check,
): Promise<TreeSize | { readonly failed: GitResult }> {
  const size = known === null ? null : await byDifference(git, known, commit);
  if (size === null) return whole(git, commit, check);
  check({ ...size, longestPath: 0 });
  return size;
}

async function whole(git: Git, commit: string, check: Check): Promise<TreeSize | { readonly failed: GitResult }> {
  let files = 0;
  let bytes = 0;
  const read = async (stdout: Readable): Promise<void> => {
    for await (const { entries, rest } of pieces(stdout)) {
      for (const entry of entries) {
        files += 1;
        bytes += Number(/^\S+ \S+ \S+\s+(\d+)/.exec(entry)?.[1] ?? 0);
      }
      check({ files, bytes, longestPath: rest });
    }
  };
  const result = await git({ args: ['ls-tree', '-r', '-l', '-z', '--full-tree', commit], read });
  return result.code === 0 ? { files, bytes } : { failed: result };
}

/** What ends with NUL, as it comes, and how much there is of what has not ended yet. */
async function* pieces(stdout: Readable): AsyncGenerator<{ readonly entries: string[]; readonly rest: number }> {
  let rest = '';
  for await (const chunk of stdout.setEncoding('latin1') as AsyncIterable<string>) {
    const entries = (rest + chunk).split('\0');
    rest = entries.pop() ?? '';
    yield { entries, rest: rest.length };
  }
}

/** What a tree names. */
interface Entry {
  readonly mode: number;
  readonly id: string;
}
/** A directory as it was and as it is; null where there is none. */
type Pair = readonly [old: string | null, now: string | null];
type Entries = ReadonlyMap<string, Entry>;

/** What differs in two trees: blobs that one has and the other has not, and how many files more there are. */
class Differences {
  readonly gone: string[] = [];
  readonly come: string[] = [];
  more = 0;

  /** Takes in two directories; gives those beneath them that differ. */
  add(old: Entries, now: Entries): Pair[] {
    const deeper: Pair[] = [];
    for (const name of new Set([...old.keys(), ...now.keys()])) {
      const [was, is] = [old.get(name), now.get(name)];
      if (was?.id === is?.id && was?.mode === is?.mode) continue;
      const pair = [this.#file(was, -1, this.gone), this.#file(is, 1, this.come)] as const;
      if (pair[0] !== null || pair[1] !== null) deeper.push(pair);
    }
    return deeper;
  }

  /** The id of what is a directory, and no file. */
  #file(entry: Entry | undefined, sign: 1 | -1, blobs: string[]): string | null {
    if (entry?.mode === directory) return entry.id;
    if (entry !== undefined) this.more += sign;
    if (entry !== undefined && entry.mode !== submodule) blobs.push(entry.id);
    return null;
  }
}

/**
 * Null where too much differs, or one of both cannot be read: then the whole tree says what it is. Directories are read
 * by their depth, all of one depth at once: `git diff-tree` keeps all that differs until it has seen the last of it.
 */
async function byDifference(
  git: Git,
  known: TreeSize & { readonly commit: string },
  commit: string,
): Promise<TreeSize | null> {
  const differences = new Differences();
  let pairs: readonly Pair[] = [[`${known.commit}^{tree}`, `${commit}^{tree}`]];
  const { gone, come } = differences;
  let [directories, entries] = [0, 0];
  while (pairs.length > 0) {
    const names = [...new Set(pairs.flat().filter((name) => name !== null))];
    directories += names.length;
    if (directories > directoriesMax) return null;
    const trees = await treesOf(git, names);
    if (trees === null) return null;
    const found = (name: string | null): Entries => trees.get(name ?? '') ?? new Map();
    const deeper: Pair[] = [];
    for (const [old, now] of pairs) {
      // One directory may be in hundreds of places.
      entries += found(old).size + found(now).size;
      if (entries > entriesMax) return null;
      deeper.push(...differences.add(found(old), found(now)));
      if (gone.length + come.length + deeper.length > differencesMax) return null;
    }
    pairs = deeper;
  }
  const sizes = await sizesOf(git, [...gone, ...come]);
  if (sizes === null) return null;
  const sum = (some: readonly number[]): number => some.reduce((total, size) => total + size, 0);
  const bytes = known.bytes - sum(sizes.slice(0, gone.length)) + sum(sizes.slice(gone.length));
  return { files: known.files + differences.more, bytes };
}

/** What each of these trees names; null where one is not there, or all are too large. */
async function treesOf(git: Git, names: readonly string[]): Promise<Map<string, Entries> | null> {
  const pieces: Buffer[] = [];
  let size = 0;
  const read = async (stdout: Readable): Promise<void> => {
    for await (const piece of stdout as AsyncIterable<Buffer>) {
      size += piece.length;
      if (size > treesBytes) return;
      pieces.push(piece);
    }
  };
  const input = `${names.join('\n')}\n`;
  const result = await git({ args: ['cat-file', '--batch=%(objecttype) %(objectsize)'], input, read });
  if (size > treesBytes || result.code !== 0) return null;
  const said = Buffer.concat(pieces);
  const trees = new Map<string, Entries>();
  let at = 0;
  for (const name of names) {
    const end = said.indexOf(10, at);
    const [, bytes] = /^tree (\d+)$/.exec(said.toString('latin1', at, end)) ?? [];
    if (bytes === undefined) return null;
    const from = end + 1;
    at = from + Number(bytes) + 1;
    trees.set(name, new Map(entriesOf(said.subarray(from, at - 1), idBytes(names))));
  }
  return trees;
}

/** A name is an id, but for the two at the top: `<id>^{tree}`. */
const idBytes = ([name = '']: readonly string[]): number => name.replace(/\^.*/, '').length / 2;

/** `mode name NUL id`, the id in bytes, one behind the other. */
function* entriesOf(tree: Buffer, idLength: number): Generator<readonly [string, Entry]> {
  for (let at = 0; at < tree.length; ) {
    const [space, end] = [tree.indexOf(32, at), tree.indexOf(0, at)];
    const next = end + 1 + idLength;
    // Fetched objects are checked for this; a loop without an end is worse than a word too many.
    if (space < at || end < space || next > tree.length) throw new Error('a tree object is cut off');
    // Old tools wrote zeros in front of it.
    const mode = Number.parseInt(tree.toString('latin1', at, space), 8);
    yield [tree.toString('latin1', space + 1, end), { mode, id: tree.toString('hex', end + 1, next) }];
    at = next;
  }
}

/** Bytes of each; null where one is not there. */
async function sizesOf(git: Git, ids: readonly string[]): Promise<number[] | null> {
  if (ids.length === 0) return [];
  const result = await git({ args: ['cat-file', '--batch-check=%(objectsize)'], input: `${ids.join('\n')}\n` });
  const sizes = result.stdout.trimEnd().split('\n').map(Number);
  return result.code === 0 && sizes.length === ids.length && sizes.every(Number.isInteger) ? sizes : null;
}
