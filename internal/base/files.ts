// Small questions about files.

import { mkdir, open, stat } from 'node:fs/promises';
import { dirname } from 'node:path';

/** Whether something is at a path, as far as this process may know. */
export const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  );

/**
 * Makes a directory and those above it, for their owner alone unless another mode is given, where they are not there. One
 * by one: where a file system refuses a name with ENOENT (as /proc does), the recursive `mkdir` of Node never ends. For
 * whatever a person names.
 */
export async function makeDirectory(path: string, mode = 0o700): Promise<void> {
  const found = await stat(path).catch(() => undefined);
  if (found?.isDirectory()) return;
  if (dirname(path) !== path) await makeDirectory(dirname(path), mode);
  try {
    await mkdir(path, { mode });
  } catch (error) {
    const isThere = (error as NodeJS.ErrnoException).code === 'EEXIST' && (await stat(path)).isDirectory();
    if (!isThere) throw error;
  }
}

/** Forces the names in a directory to the disk: what was renamed is there under its name also after a loss of power. */
export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path);
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
