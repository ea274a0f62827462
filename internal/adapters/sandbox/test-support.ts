// For this room's tests: providers over directories of their own, and what /proc shows of a machine's processes.

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { GitFixture } from '../../base/testkit/git-fixture.ts';
import { type Bubblewrap, probeBubblewrap } from './bubblewrap.ts';
import { openSandboxes } from './sandbox.ts';
import type { SandboxName, SandboxProvider } from './types.ts';
import { endingFlags, initArgv } from './wire.ts';

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

/** Waits until it is true once, for at most a minute. It is not asked again: what was seen may have passed by then. */
export async function eventually(isTrue: () => boolean): Promise<boolean> {
  for (let tries = 0; tries < 3_000; tries += 1) {
    if (isTrue()) return true;
    await sleep(20);
  }
  return false;
}

/** A socket has its name before it takes anybody: until then who comes is refused. */
async function answering(path: string): Promise<void> {
  for (let tries = 0; ; tries += 1) {
    const stream = connect(path);
    try {
      await once(stream, 'connect');
      return;
    } catch (error) {
      if (tries === 3_000) throw error;
      await sleep(20);
    } finally {
      stream.destroy();
    }
  }
}

/** The first process of a box as a program of this machine, from when its socket answers; ended with the test. */
export async function startInit(
  t: TestContext,
  { seconds = 60, tag = `t${runId}`, env = {} }: { seconds?: number; tag?: string; env?: NodeJS.ProcessEnv } = {},
): Promise<{ dir: string; socket: string; init: ChildProcess }> {
  const dir = temporary(t);
  const socket = join(dir, 'wire.sock');
  const [source = '', settings = ''] = initArgv({ tag, socket, seconds }).slice(-2);
  const args = [...endingFlags, '-e', source, settings];
  const init = spawn(process.execPath, args, { stdio: 'inherit', env: { PATH: testPath, ...env } });
  t.after(async () => {
    if (init.exitCode !== null) return;
    const ended = once(init, 'exit');
    init.kill('SIGTERM');
    await ended;
  });
  assert.ok(await eventually(() => existsSync(socket)));
  await answering(socket);
  return { dir, socket, init };
}

/** A tree of `10 ** levels` files that is made of one blob and a tree for each level. */
export async function repeatedTree(repo: GitFixture, levels: number): Promise<string> {
  let id = await repo.writeObject('blob', Buffer.from('lol'));
  for (let level = 0; level < levels; level += 1) {
    const mode = level === 0 ? '100644' : '40000';
    const entries = [...'0123456789'].map((name) =>
      Buffer.concat([Buffer.from(`${mode} ${name}\0`), Buffer.from(id, 'hex')]),
    );
    id = await repo.writeObject('tree', Buffer.concat(entries));
  }
  return id;
}
