// Several real daemons on one database, as long as they are wanted: each a process of its own with a data directory, places
// for sessions of the scripted agent, and its port.

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { scriptedAgent } from '../adapters/harness/harness-testkit.ts';
import { type Database, openDatabase } from '../adapters/store/store.ts';
import { type Api, apiClient, readClientFile, type SpawnedDaemon, spawnDaemon } from '../base/testkit/daemon.ts';
import { silent } from '../base/testkit/postgres.ts';
import type { Bencher } from './harness.ts';
import { startServer } from './server.ts';

export interface OneDaemon {
  readonly child: SpawnedDaemon;
  readonly url: string;
  readonly api: Api;
}

export interface Daemons {
  readonly all: readonly OneDaemon[];
  /** Of somebody who looks on. */
  readonly db: Database;
}

/** `places`: sessions of each. */
export async function startDaemons(bench: Bencher, count: number, places: number): Promise<Daemons> {
  const url = await startServer(bench);
  const directory = await bench.directory();
  const [key, file] = [join(directory, 'keys'), join(directory, 'config.json')];
  await writeFile(key, `1:${Buffer.alloc(32, 7).toString('base64')}\n`, { mode: 0o600 });
  await writeFile(file, JSON.stringify({ sessions: { max: places } }));
  const env = {
    SVC_DATABASE_URL: url,
    SVC_MASTER_KEY_FILE: key,
    SVC_CONFIG: file,
    SVC_HARNESS_A_COMMAND: JSON.stringify(scriptedAgent),
    SVC_SANDBOX: 'process',
    SVC_ALLOW_PRIVATE_NETWORK: 'true',
    SVC_LOG_LEVEL: 'warn',
  };
  let token: string | undefined;
  const start = async (): Promise<OneDaemon> => {
    const dataDir = await bench.directory();
    const child = spawnDaemon({ dataDir, env });
    bench.atEnd(async () => void (await child.kill('SIGTERM')));
    const { url } = await child.ready;
    // The first has made the token that all of them take.
    token ??= readClientFile(dataDir).token;
    return { child, url, api: apiClient(url, token) };
  };
  const first = await start();
  const all = [first, ...(await Promise.all(Array.from({ length: count - 1 }, start)))];
  const db = openDatabase({ url: url, log: silent });
  bench.atEnd(() => db.close());
  return { all, db };
}

/** Throws where the answer is no success; its body. */
export async function done(answer: ReturnType<Api>) {
  const { status, body } = await answer;
  if (status >= 300) throw new Error(`${status} ${JSON.stringify(body)}`);
  return body;
}

const environment = { name: 'default', image: { kind: 'preset', name: 'base' } };

/** Stores these agents and no others in a project; by endpoint, the path at which each takes events. */
export async function applyAgents(
  api: Api,
  project: string,
  agents: { readonly [name: string]: object },
): Promise<{ readonly [endpoint: string]: string }> {
  const files = Object.entries(agents).map(([name, spec]) => ({
    path: `.svc/agents/${name}.yaml`,
    content: JSON.stringify({ name, harness: 'harness-a', environment, ...spec }),
  }));
  const { webhooks = [] } = (await done(api('POST', `${project}/apply`, { files }))) as unknown as {
    readonly webhooks?: readonly { readonly endpoint: string; readonly ingestUrl: string }[];
  };
  return Object.fromEntries(webhooks.map(({ endpoint, ingestUrl }) => [endpoint, new URL(ingestUrl).pathname]));
}

/** A trigger that takes what comes in at an endpoint. */
export const hook = (endpoint: string, more: object = {}): object => ({
  ...{ event: 'webhook.received', endpoint, auth: { kind: 'none' }, routing: { kind: 'spawn' } },
  ...more,
});

/** Sends one event; whether it is there now. */
export async function post(url: string, body: object): Promise<boolean> {
  const answer = await fetch(url, { method: 'POST', body: JSON.stringify(body) }).catch(() => undefined);
  await answer?.arrayBuffer().catch(() => undefined);
  return answer?.status === 202;
}

export async function countOf(db: Database, sql: string, values: readonly unknown[] = []): Promise<number> {
  const { rows } = await db.query<{ n: number }>(sql, values);
  return rows[0]?.n ?? Number.NaN;
}
