// From the branch of a repository's settings to the full name of a ref. Pure.

import { RepoCondition } from './types.ts';

/** The full name of the ref that a branch setting means; HEAD where there is none. Throws `ref-missing`. */
export function wantedRef(branch: string | undefined): string {
  if (branch === undefined || branch === '') return 'HEAD';
  const odd = /\p{Cc}| /u.test(branch) || /[~^:?*[\\]|\.\.|@\{|\/\/|^\/|\/$|\.lock$/.test(branch);
  if (odd || branch.length > 250) throw new RepoCondition('ref-missing', 'the branch name is none that git allows');
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
