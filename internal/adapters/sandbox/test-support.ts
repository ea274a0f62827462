// For this room's tests: providers over directories of their own, and what /proc shows of a machine's processes.

import { mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Bubblewrap, probeBubblewrap } from './bubblewrap.ts';
import { openSandboxes } from './sandbox.ts';
import type { SandboxName, SandboxProvider } from './types.ts';

export const testPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** Part of what tests look for in /proc, where another run of them may be going on. */
export const runId = String(process.pid);
/** Whether this machine has a working bubblewrap, and why not. */
export const bubblewrap: Bubblewrap = await probeBubblewrap(testPath);
/** Providers that can be tried here. A machine without namespaces shows only that it says so (sandbox.test.ts). */
export const providers: readonly ('bubblewrap' | 'process')[] = bubblewrap.works
  ? ['process', 'bubblewrap']
  : ['process'];

/** A directory that is removed when the test ends. */
export function temporary(t: TestContext): string {
  const dir = mkdtempSync(join(tmpdir(), 'svc-box-'));
  t.after(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

export async function open(t: TestContext, name: Exclude<SandboxName, 'command'>, dataDir = temporary(t)) {
  const { provider, facts } = await openSandboxes({ dataDir, sandbox: name, host: { PATH: testPath } });
  t.after(() => provider.close());
  return { provider: provider satisfies SandboxProvider, facts, dataDir };
}

/** Command lines of all processes that hold the text. */
export function commandLines(text: string): string[] {
  return procFiles('cmdline').filter((line) => line.includes(text));
}

/** Pids of processes whose environment holds the text. */
export function environments(text: string): string[] {
  return procFiles('environ').filter((env) => env.includes(text));
}

function procFiles(name: string): string[] {
  return readdirSync('/proc')
    .filter((pid) => /^\d+$/.test(pid) && Number(pid) !== process.pid)
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/${name}`, 'latin1');
      } catch {
        return ''; // Gone since.
      }
    });
}

/** Waits until it is true, for at most a minute; gives what it was last. */
export async function eventually(isTrue: () => boolean): Promise<boolean> {
  for (let tries = 0; tries < 3_000 && !isTrue(); tries += 1) await sleep(20);
  return isTrue();
}
