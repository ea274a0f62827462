// How many files a commit's tree has, and how large they are, before one of them is written. Summed up as a stream, so that
// one made of itself a million times over is left at the limit; where the size of another commit's tree is known, from what
// differs, so that a push to a large repository costs what was pushed.

import type { Readable } from 'node:stream';
import type { GitResult } from './git-program.ts';
import type { Git, TreeDifference } from './tree-difference.ts';

export interface TreeSize {
  readonly files: number;
  readonly bytes: number;
}

/** Hears of the sum so far, and of the length of the longest path; ends it by throwing. */
type Check = (soFar: TreeSize & { readonly longestPath: number }) => void;

/**
 * The size of the tree of `commit`; `known` is that of another one in the same repository, with what differs from there.
 * `failed`: what git said where the tree cannot be read. Rejects with what `check` throws.
 */
export async function treeSize(
  git: Git,
  commit: string,
  known: { readonly size: TreeSize; readonly difference: TreeDifference } | null,
  check: Check,
): Promise<TreeSize | { readonly failed: GitResult }> {
  const size = known === null ? null : await byDifference(git, known.size, known.difference);
  if (size === null) return whole(git, commit, check);
  check({ ...size, longestPath: 0 });
  return size;
}

async function byDifference(git: Git, known: TreeSize, { gone, come, more }: TreeDifference): Promise<TreeSize | null> {
  const sizes = await sizesOf(git, [...gone, ...come]);
  if (sizes === null) return null;
  const sum = (some: readonly number[]): number => some.reduce((total, size) => total + size, 0);
  const bytes = known.bytes - sum(sizes.slice(0, gone.length)) + sum(sizes.slice(gone.length));
  return { files: known.files + more, bytes };
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

/** Bytes of each; null where one is not there. */
async function sizesOf(git: Git, ids: readonly string[]): Promise<number[] | null> {
  if (ids.length === 0) return [];
  const result = await git({ args: ['cat-file', '--batch-check=%(objectsize)'], input: `${ids.join('\n')}\n` });
  const sizes = result.stdout.trimEnd().split('\n').map(Number);
  return result.code === 0 && sizes.length === ids.length && sizes.every(Number.isInteger) ? sizes : null;
}
