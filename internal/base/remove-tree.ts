// Removes trees that sessions and images have left. One of many files is emptied by a program beside this process: removing it here
// takes all threads that read files and look names up, and the event loop their answers, for seconds.

import { spawn } from 'node:child_process';
import { chmod, lstat, opendir, readdir, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path/posix';

/** So many are removed sooner than a program is started. */
const few = 500;

/** Removes a tree, also one with directories that its owner made unwritable (as package caches do). Follows no link. */
export async function removeTree(path: string): Promise<void> {
  if (!(await holdsFew(path))) await emptied(path);
  try {
    await rm(path, { recursive: true, force: true, maxRetries: 3 });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'EACCES' && code !== 'EPERM') throw error;
    await openDirectories(path);
    await rm(path, { recursive: true, force: true, maxRetries: 3 });
  }
}

/** Nobody makes anything for so long. */
const abandonedAfterMs = 24 * 3_600_000;

/**
 * Removes what stands beside a draft that has just been begun, is named by the same prefix, and has been left by a process
 * that was killed over it: begun a day before, by the file system's own clock.
 */
export async function removeAbandoned(draft: string, prefix: string): Promise<void> {
  const { mtimeMs: nowMs } = await lstat(draft);
  for (const name of await readdir(dirname(draft))) {
    const path = join(dirname(draft), name);
    if (!name.startsWith(prefix) || path === draft) continue;
    const at = await lstat(path).catch(() => null); // Ended by its own meanwhile.
    if (at !== null && nowMs - at.mtimeMs > abandonedAfterMs) await removeTree(path);
  }
}

/** Also true for what is no directory, or cannot be read. */
async function holdsFew(path: string): Promise<boolean> {
  let left = few;
  const look = async (directory: string): Promise<boolean> => {
    for await (const entry of await opendir(directory)) {
      left -= 1;
      if (left < 0 || (entry.isDirectory() && !(await look(join(directory, entry.name))))) return false;
    }
    return true;
  };
  return look(path).catch(() => true);
}

/** As far as the program can, which follows no link, this one included, and leaves the directory itself. */
function emptied(path: string): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const env = { PATH: '/usr/local/bin:/usr/bin:/bin', LC_ALL: 'C' };
  const program = spawn('find', ['-P', path, '-mindepth', '1', '-delete'], { env, stdio: 'ignore' });
  // Whatever it leaves, also all of it where there is no such program, is removed here.
  program.on('error', () => resolve()).on('close', () => resolve());
  return promise;
}

async function openDirectories(path: string): Promise<void> {
  await chmod(path, 0o700);
  for (const entry of await readdir(path, { withFileTypes: true })) {
    if (entry.isDirectory()) await openDirectories(join(path, entry.name));
  }
}
