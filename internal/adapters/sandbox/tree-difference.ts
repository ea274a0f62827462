// What differs between the trees of two commits, read in proportion to it. Directories are read by their depth, all of one
// depth at once and within bounds: `git diff-tree` keeps all that differs until it has seen the last of it, and a tree that
// repeats itself has no end.

import type { Readable } from 'node:stream';
import type { GitResult, GitRun } from './git-program.ts';

/** Runs git where the objects are. */
export type Git = (run: Pick<GitRun, 'args' | 'read' | 'input'>) => Promise<GitResult>;

export interface TreeDifference {
  readonly from: string;
  readonly to: string;
  /** Blobs that one has and the other has not, once for each place. */
  readonly gone: readonly string[];
  readonly come: readonly string[];
  /** How many files more there are. */
  readonly more: number;
  /**
   * Paths of what differs, a letter for each byte. Null where that is more than files and links that stay such: a directory
   * at a file's place, another repository.
   */
  readonly paths: readonly string[] | null;
  /** Whether that which says how files are written is among them: then one that does not differ may be written otherwise. */
  readonly isOtherwiseWritten: boolean;
}

/** Past so many, reading the whole tree costs no more. */
const differencesMax = 10_000;
/** Directories that are read for it, entries of theirs that are compared, and bytes of all of one depth: some milliseconds. */
const directoriesMax = 5_000;
const entriesMax = 200_000;
const treesBytes = 2 * 1024 * 1024;
/** Of an entry that is another repository's commit, which is not fetched. */
const submodule = 0o160000;
const directory = 0o40000;

/** What a tree names. */
interface Entry {
  readonly mode: number;
  readonly id: string;
}
/** A directory as it was and as it is; null where there is none. */
interface Pair {
  /** With its slash; empty at the top. */
  readonly path: string;
  readonly old: string | null;
  readonly now: string | null;
}
type Entries = ReadonlyMap<string, Entry>;

/** What differs in two trees, as it is found. */
class Differences {
  readonly gone: string[] = [];
  readonly come: string[] = [];
  paths: string[] | null = [];
  isOtherwiseWritten = false;
  more = 0;

  /** Takes in the directory at `path`, twice; gives those beneath it that differ. */
  add(path: string, old: Entries, now: Entries): Pair[] {
    const deeper: Pair[] = [];
    for (const name of new Set([...old.keys(), ...now.keys()])) {
      const [was, is] = [old.get(name), now.get(name)];
      if (was?.id === is?.id && was?.mode === is?.mode) continue;
      const pair = { path: `${path}${name}/`, old: this.#file(was, -1, this.gone), now: this.#file(is, 1, this.come) };
      if (pair.old !== null || pair.now !== null) deeper.push(pair);
      this.#note(path + name, name, [was, is]);
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

  #note(path: string, name: string, both: readonly (Entry | undefined)[]): void {
    const there = both.filter((entry) => entry !== undefined);
    if (there.every(({ mode }) => mode === directory)) return;
    if (name === '.gitattributes') this.isOtherwiseWritten = true;
    if (there.every(({ mode }) => mode !== directory && mode !== submodule)) this.paths?.push(path);
    else this.paths = null;
  }
}

/**
 * What differs in the trees of two commits. Null where too much does, or one of both cannot be read: then whole trees say
 * what they are.
 */
export async function treeDifference(git: Git, from: string, to: string): Promise<TreeDifference | null> {
  const differences = new Differences();
  let pairs: readonly Pair[] = [{ path: '', old: `${from}^{tree}`, now: `${to}^{tree}` }];
  const { gone, come } = differences;
  let [directories, entries] = [0, 0];
  while (pairs.length > 0) {
    const names = [...new Set(pairs.flatMap(({ old, now }) => [old, now]).filter((name) => name !== null))];
    directories += names.length;
    if (directories > directoriesMax) return null;
    const trees = await treesOf(git, names);
    if (trees === null) return null;
    const found = (name: string | null): Entries => trees.get(name ?? '') ?? new Map();
    const deeper: Pair[] = [];
    for (const { path, old, now } of pairs) {
      // One directory may be in hundreds of places.
      entries += found(old).size + found(now).size;
      if (entries > entriesMax) return null;
      deeper.push(...differences.add(path, found(old), found(now)));
      if (gone.length + come.length + deeper.length > differencesMax) return null;
    }
    pairs = deeper;
  }
  const { more, paths, isOtherwiseWritten } = differences;
  return { from, to, gone, come, more, paths, isOtherwiseWritten };
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
