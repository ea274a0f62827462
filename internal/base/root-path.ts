// Where a path is in a root file system that is not this process's own.

import { lstat, readlink } from 'node:fs/promises';
import { join } from 'node:path/posix';

const linksMax = 40;

/**
 * The path without a link in it, as seen inside, links of the root file system followed as they would be there; null
 * where it is not there. Never looks at what a link would lead to outside.
 */
export async function pathInRoot(root: string, path: string): Promise<string | null> {
  const parts = (text: string): string[] => text.split('/').filter((part) => part !== '' && part !== '.');
  let left = parts(path);
  let at: string[] = [];
  for (let links = 0; left.length > 0; ) {
    const [step = '', ...rest] = left;
    left = rest;
    if (step === '..') {
      at = at.slice(0, -1);
      continue;
    }
    const found = await lstat(join(root, ...at, step)).catch(() => null);
    if (found === null) return null;
    if (!found.isSymbolicLink()) {
      at = [...at, step];
      continue;
    }
    if ((links += 1) > linksMax) return null;
    const target = await readlink(join(root, ...at, step));
    if (target.startsWith('/')) at = [];
    left = [...parts(target), ...left];
  }
  return `/${at.join('/')}`;
}
