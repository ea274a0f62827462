// A daemon as a child process, and what an act costs it: the growth of its memory, seen from outside, and the longest time
// that its event loop stood still, which it tells of itself. Only tests import this.

import { randomBytes } from 'node:crypto';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type Api, apiClient, readClientFile, type SpawnedDaemon, spawnDaemon, tempDataDir } from './daemon.ts';
import { createTestDatabase, type TestDatabase } from './postgres.ts';

export interface Cost {
  /** Beyond what it had before the act, at most. */
  readonly grownMb: number;
  /** Computed in one turn of the event loop, at most. */
  readonly busyMs: number;
  /** Between two turns of the event loop, at most; the machine's other work is in it. */
  readonly delayMs: number;
}

export interface MeasuredDaemon {
  readonly url: string;
  /** The administrator's. */
  readonly token: string;
  readonly dataDir: string;
  readonly api: Api;
  readonly database: TestDatabase;
  /** Does something and says what it cost the daemon. Fails where the daemon ends. */
  costOf(act: () => Promise<void>): Promise<Cost>;
  /** What the daemon has logged. */
  log(): string;
  stop(): Promise<void>;
}

const main = fileURLToPath(new URL('measured-main.ts', import.meta.url));

async function statusKb(pid: number, name: 'VmRSS' | 'VmHWM'): Promise<number> {
  const text = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(new RegExp(`${name}:\\s+(\\d+) kB`).exec(text)?.[1]);
}

/** `env`: settings beside those of a daemon on a database of its own. */
export async function startMeasuredDaemon(env: { readonly [name: string]: string }): Promise<MeasuredDaemon> {
  const [database, data] = [await createTestDatabase(), await tempDataDir({ empty: true })];
  const keys = join(data.path, 'keys');
  const told = join(data.path, 'measured.json');
  await writeFile(keys, `1:${randomBytes(32).toString('base64')}\n`, { mode: 0o600 });
  const one = spawnDaemon({
    dataDir: data.path,
    entry: main,
    env: { SVC_DATABASE_URL: database.url, SVC_MASTER_KEY_FILE: keys, SVC_MEASURE_FILE: told, ...env },
  });
  const stop = async (): Promise<void> => {
    await one.kill('SIGTERM');
    await database.close();
    await data.remove();
  };
  const { url, pid } = await one.ready.catch(async (error: unknown) => {
    await stop();
    throw error;
  });
  const { token } = readClientFile(data.path);
  return {
    url,
    token,
    dataDir: data.path,
    api: apiClient(url, token),
    database,
    async costOf(act) {
      await take(one, told);
      // The highest mark begins anew at what there is now.
      await writeFile(`/proc/${pid}/clear_refs`, '5');
      const before = await statusKb(pid, 'VmRSS');
      await act();
      const peak = await statusKb(pid, 'VmHWM').catch(() => Number.NaN);
      const measured = await take(one, told);
      return { grownMb: (peak - before) / 1_024, ...measured };
    },
    log: () => one.stderr(),
    stop,
  };
}

/** What the daemon tells of itself since it was asked before. */
async function take(one: SpawnedDaemon, file: string): Promise<Pick<Cost, 'busyMs' | 'delayMs'>> {
  await rm(file, { force: true });
  one.process.kill('SIGUSR2');
  for (let waited = 0; waited < 60_000; waited += 20) {
    const text = await readFile(file, 'utf8').catch(() => undefined);
    if (text !== undefined) return JSON.parse(text) as Pick<Cost, 'busyMs' | 'delayMs'>;
    if (one.process.exitCode !== null || one.process.signalCode !== null) break;
    await sleep(20);
  }
  throw new Error(`the daemon ended, or stands still: ${one.stderr().slice(-2_000)}`);
}
