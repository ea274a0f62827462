// One daemon per data directory. Whoever wants it first puts down a file of its own, which names its process, and only
// then looks for others: of two that look, at least one sees the other, so two never hold it. Names are never used
// twice, so that removing the file of a process that is gone cannot hit a living one's.

import { randomInt, randomUUID } from 'node:crypto';
import { readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
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

const prefix = 'svcd.lock.';
/** Two that came at the same moment both step back, and come again at different ones. */
const attemptsMax = 8;
const stepBackMs = 40;

/** Takes the lock of `dataDir`, which must exist. Throws DataDirInUse. */
export async function lockDataDir(dataDir: string): Promise<DataLock> {
  const name = `${prefix}${randomUUID()}`;
  const path = join(dataDir, name);
  const { started } = await processState(process.pid);
  for (let attempt = 1; ; attempt += 1) {
    // Renamed into place: a reader never sees half of it.
    const draft = join(dataDir, `.${name}`);
    try {
      await writeFile(draft, `${process.pid} ${started}\n`, { mode: 0o600 });
      await rename(draft, path);
    } catch (error) {
      // A disk that is full: nobody would look for it again.
      await rm(draft, { force: true });
      throw error;
    }
    const other = await findOther(dataDir, name);
    if (other === undefined) return { release: () => rm(path, { force: true }) };
    await rm(path, { force: true });
    if (attempt >= attemptsMax) throw new DataDirInUse(dataDir, other);
    await sleep(randomInt(stepBackMs * attempt) + 1);
  }
}

/** The process of another live lock; files of processes that are gone are removed on the way. */
async function findOther(dataDir: string, own: string): Promise<number | undefined> {
  for (const name of await readdir(dataDir)) {
    if (!name.startsWith(prefix) || name === own) continue;
    const text = await readFile(join(dataDir, name), 'utf8').catch(() => undefined);
    if (text === undefined) continue;
    const [pid = '', started = ''] = text.trim().split(' ');
    const holder = await processState(Number(pid));
    if (holder.alive && holder.started === started) return Number(pid);
    await rm(join(dataDir, name), { force: true });
  }
  return undefined;
}
