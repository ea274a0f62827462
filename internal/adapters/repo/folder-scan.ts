// Looks at a folder's names, sizes and times, without reading a file: what tells that something changed where the
// system's own notice of it was lost.

import { createHash } from 'node:crypto';
import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';

/** Entries that a look takes in at most; a folder that has more is told by the system's notices and the rescans. */
const entriesMax = 50_000;
const depthMax = 64;

const stampOf = async (path: string): Promise<string> => {
  const stats = await lstat(path, { bigint: true }).catch(() => null);
  if (stats === null) return `${path}\0-`;
  return `${path}\0${stats.mode}\0${stats.ino}\0${stats.size}\0${stats.mtimeNs}\0${stats.ctimeNs}`;
};

/** One text for the state of everything below `root` and of `files`: another one means that something changed. */
export async function scanFolder(root: string, files: readonly string[], isIgnored: RegExp): Promise<string> {
  const hash = createHash('sha256');
  let entries = 0;
  const walk = async (directory: string, depth: number): Promise<void> => {
    const found = await readdir(directory, { withFileTypes: true }).catch(() => []);
    found.sort((a, b) => (a.name < b.name ? -1 : 1));
    for (const entry of found) {
      const path = join(directory, entry.name);
      if (isIgnored.test(path) || (entries += 1) > entriesMax) continue;
      if (!entry.isDirectory()) hash.update(await stampOf(path));
      else {
        hash.update(`${path}/`);
        if (depth < depthMax) await walk(path, depth + 1);
      }
    }
  };
  hash.update((await lstat(root).catch(() => null)) === null ? 'absent' : 'there');
  await walk(root, 1);
  for (const file of files) hash.update(await stampOf(file));
  return hash.digest('hex');
}
