// One daemon per data directory: a lock file that names the process holding it. A lock whose process is gone is taken
// over; a process number that the system has given to another program since is recognised by its start time.

import { randomUUID } from 'node:crypto';
import { link, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { processState } from './process-state.ts';

export interface DataLock {
  release(): Promise<void>;
}

/** Thrown where another live process holds the directory. */
export class DataDirInUse extends Error {
  constructor(dataDir: string, pid: number) {
    super(`the data directory ${dataDir} is in use by another svcd (process ${pid})`);
    this.name = 'DataDirInUse';
  }
}

/** Takes the lock of `dataDir`, which must exist. Throws DataDirInUse. */
export async function lockDataDir(dataDir: string): Promise<DataLock> {
  const path = join(dataDir, 'svcd.lock');
  const mine = `${path}.${randomUUID()}`;
  const text = `${process.pid} ${(await processState(process.pid)).started}\n`;
  await writeFile(mine, text, { mode: 0o600 });
  try {
    for (;;) {
      try {
        await link(mine, path);
        break;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
      }
      await clearStale(dataDir, path);
    }
  } finally {
    await rm(mine, { force: true });
  }
  return {
    async release() {
      const current = await readFile(path, 'utf8').catch(() => '');
      if (current === text) await rm(path, { force: true });
    },
  };
}

/** Removes the lock when its process is gone. Moved aside first, so that a lock taken in between is put back. */
async function clearStale(dataDir: string, path: string): Promise<void> {
  const seen = await readFile(path, 'utf8').catch(() => undefined);
  if (seen === undefined) return;
  const [pid = '', started = ''] = seen.trim().split(' ');
  const holder = await processState(Number(pid));
  if (holder.alive && holder.started === started) throw new DataDirInUse(dataDir, Number(pid));
  const aside = `${path}.${randomUUID()}`;
  try {
    await rename(path, aside);
  } catch {
    // Another starting daemon was quicker; the caller looks again.
    return;
  }
  const moved = await readFile(aside, 'utf8');
  if (moved !== seen) await link(aside, path).catch(() => undefined);
  await rm(aside, { force: true });
}
