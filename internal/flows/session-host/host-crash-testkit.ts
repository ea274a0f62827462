// For kill tests of running sessions: real daemons with the scripted agent on a database of their own, and what of a
// session's processes is left on this machine. Only tests import this.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { scriptedAgent } from '../../adapters/harness/harness-testkit.ts';
import { type Api, apiClient, readClientFile, type SpawnedDaemon, spawnDaemon } from '../../base/testkit/daemon.ts';
import { createTestDatabase, type TestDatabase } from '../../base/testkit/postgres.ts';

export interface CrashBench {
  readonly database: TestDatabase;
  /** A daemon on the data directory of that name; made when it is first asked for. */
  start(name: string, env?: { readonly [name: string]: string }): Promise<{ daemon: SpawnedDaemon; api: Api }>;
  dataDir(name: string): string;
  remove(): Promise<void>;
}

const agent = {
  name: 'worker',
  harness: 'harness-a',
  environment: { name: 'base', image: { kind: 'preset', name: 'base' } },
};

/** Stores a plain agent, or one that has more to it, and starts a session of it by hand; its id. */
export async function beginWorker(api: Api, message: string, more: object = {}): Promise<string> {
  const files = [{ path: '.svc/agents/worker.yaml', content: JSON.stringify({ ...agent, ...more }) }];
  await eventually('the agent is stored', async () => {
    const applied = await api('POST', 'P/apply', { files });
    // As whoever is told so does: the same again stores nothing twice.
    if (applied.status === 503) return false;
    assert.equal(applied.status, 200, JSON.stringify(applied.body));
    return true;
  });
  const { status, body } = await api('POST', 'P/agents/worker/sessions', { message });
  assert.equal(status, 201, JSON.stringify(body));
  return String(body['id']);
}

/** `settings`: variables of all its daemons. */
export async function createCrashBench(
  sandbox: string,
  settings: { readonly [name: string]: string } = {},
): Promise<CrashBench> {
  const root = await mkdtemp(join(tmpdir(), 'svc-crash-'));
  const database = await createTestDatabase();
  const masterKeyFile = join(root, 'master.key');
  await writeFile(masterKeyFile, `1:${Buffer.alloc(32, 7).toString('base64')}\n`, { mode: 0o600 });
  const daemons: SpawnedDaemon[] = [];
  let token: string | undefined;
  return {
    database,
    dataDir: (name) => join(root, name),
    async start(name, env = {}) {
      const dataDir = join(root, name);
      const daemon = spawnDaemon({
        dataDir,
        env: {
          SVC_DATABASE_URL: database.url,
          SVC_MASTER_KEY_FILE: masterKeyFile,
          SVC_HARNESS_A_COMMAND: JSON.stringify(scriptedAgent),
          SVC_SANDBOX: sandbox,
          ...settings,
          ...env,
        },
      });
      daemons.push(daemon);
      const { url } = await daemon.ready;
      token ??= readClientFile(dataDir).token;
      return { daemon, api: apiClient(url, token) };
    },
    async remove() {
      await Promise.all(daemons.map((daemon) => daemon.kill('SIGTERM')));
      await database.close();
      await rm(root, { recursive: true, force: true, maxRetries: 20, retryDelay: 20 });
    },
  };
}

/** Environments of the processes of sessions on this machine, by process id. */
type Environments = ReadonlyMap<number, string>;

/** As they are now: reading those of a whole machine takes a while. */
export function environments(): Environments {
  const found = new Map<number, string>();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const environ = readFileSync(`/proc/${name}/environ`, 'latin1');
      if (environ.includes('SVC_SESSION_ID=')) found.set(Number(name), environ);
    } catch {
      // Gone, or somebody else's.
    }
  }
  return found;
}

/**
 * Processes of this machine that have a session's environment: its harness and what that started. `dataDir`: only those
 * whose home is under it, as that of a plain process is.
 */
export function processesOf(session: string, dataDir?: string, among: Environments = environments()): number[] {
  const needles = [`SVC_SESSION_ID=${session}`, ...(dataDir === undefined ? [] : [`HOME=${dataDir}/`])];
  return [...among].flatMap(([pid, environ]) => (needles.every((needle) => environ.includes(needle)) ? [pid] : []));
}

export async function eventually(
  what: string,
  isSo: () => boolean | Promise<boolean>,
  withinMs = 120_000,
): Promise<void> {
  for (let waited = 0; !(await isSo()); waited += 50) {
    if (waited > withinMs) throw new Error(`not within ${withinMs} ms: ${what}`);
    await sleep(50);
  }
}

/** What the scripted agent of a session was told, as it keeps it under a data directory. */
export const heardUnder = (dataDir: string, session: string): Promise<string[]> =>
  heardIn(join(dataDir, 'sandboxes', session, 'home', '.scripted-agent'));

/** As it keeps it in a directory. */
export async function heardIn(store: string): Promise<string[]> {
  const files = await readdir(store).catch(() => []);
  const texts = await Promise.all(
    files.filter((one) => one.endsWith('.jsonl')).map((one) => readFile(join(store, one), 'utf8')),
  );
  return texts.flatMap((text) =>
    text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as { role: string; text: string })
      .flatMap((one) => (one.role === 'user' ? [one.text] : [])),
  );
}
