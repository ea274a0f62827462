// The files of a commit, written into a work tree that has none, or those of another commit.

import { rm } from 'node:fs/promises';
import { join } from 'node:path/posix';
import type { GitResult } from './git-program.ts';
import { type Git, type TreeDifference, treeDifference } from './tree-difference.ts';

/** A work tree that is there already: the commit whose files, and no others, it has. */
export interface Spare {
  readonly commit: string;
  /** From another commit to the one that is wanted, where that was looked at. */
  readonly difference: TreeDifference | null;
}

const pathsMax = 100;

/** Of `stage`, whose HEAD is `commit`. What git said where it cannot be done, else null. */
export async function fillWorkTree(
  git: Git,
  stage: string,
  commit: string,
  spare: Spare | null,
): Promise<GitResult | null> {
  if (spare?.commit === commit || (spare !== null && (await goOn(git, stage, commit, spare)))) return null;
  return reset(git, commit);
}

/** Writes what differs from the spare's files, where a reset would look at every file; false where one is needed. */
async function goOn(git: Git, stage: string, commit: string, spare: Spare): Promise<boolean> {
  const from = spare.commit;
  const difference = spare.difference?.from === from ? spare.difference : await treeDifference(git, from, commit);
  if (difference === null || difference.isOtherwiseWritten) {
    // Files that did not change git takes for written; without its index it writes all as they are to be now.
    const isDone = (await reset(git, commit)) === null;
    if (isDone) await rm(join(stage, '.git/index'), { force: true });
    return false;
  }
  const { paths } = difference;
  // Each path is looked for in the whole index; past some, merging two trees into it costs less.
  if (paths === null || paths.length > pathsMax) {
    return (await git({ args: ['read-tree', '-m', '-u', from, commit] })).code === 0;
  }
  if (paths.length === 0) return true;
  const named = ['--pathspec-from-file=-', '--pathspec-file-nul'];
  const args = ['--literal-pathspecs', 'checkout', '--quiet', '--no-overlay', ...named, commit];
  return (await git({ args, input: Buffer.from(`${paths.join('\0')}\0`, 'latin1') })).code === 0;
}

async function reset(git: Git, commit: string): Promise<GitResult | null> {
  const result = await git({ args: ['reset', '--quiet', '--hard', commit] });
  return result.code === 0 ? null : result;
}
