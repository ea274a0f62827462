// Looks at a folder's names, sizes and times, without reading a file: what tells that something changed where the
// system's own notice of it was lost.

import { createHash } from 'node:crypto';
import type { Dirent } from 'node:fs';
import { lstat, opendir } from 'node:fs/promises';
import { join } from 'node:path';

/** Entries that a look takes in at most: a folder that has more is refused by whoever reads it. */
const entriesMax = 10_000;
const depthMax = 64;

/** At most so many entries of a directory, sorted; a part at a time, so that a large one holds nobody up. */
async function listed(directory: string, most: number): Promise<Dirent[]> {
  const found: Dirent[] = [];
  if (most <= 0) return found;
  try {
    for await (const entry of await opendir(directory, { bufferSize: 512 })) if (found.push(entry) >= most) break;
  } catch {
    // Gone, or going: the next look sees what is there then.
  }
  return found.sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Whether there are more entries below a directory than anybody reads; the notices of so many cost more than they tell. */
export async function isCrowded(root: string, most = entriesMax): Promise<boolean> {
  let entries = 0;
  const walk = async (directory: string, depth: number): Promise<void> => {
    const found = await listed(directory, most + 1 - entries);
    entries += found.length;
    if (depth >= depthMax) return;
    for (const entry of found) if (entry.isDirectory()) await walk(join(directory, entry.name), depth + 1);
  };
  await walk(root, 1);
  return entries > most;
}

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
    for (const entry of await listed(directory, entriesMax - entries)) {
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
