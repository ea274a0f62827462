// What the tests of the reconciler share: a daemon, a git server on loopback, small trees, and waiting for runs.

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type JsonBody, startTestDaemon, type TestDaemon, type TestDaemonOptions } from '../../base/testkit/daemon.ts';
import { GitFixture } from '../../base/testkit/git-fixture.ts';
import { GitServer } from '../../base/testkit/git-server.ts';

export interface Bench {
  readonly daemon: TestDaemon;
  readonly server: GitServer;
  /** A bare repository that the server serves under `<name>.git`. */
  repository(name: string): Promise<GitFixture>;
  /** Registers `<name>.git` and waits for its first run to end. */
  watch(name: string, more?: object): Promise<JsonBody>;
  stop(): Promise<void>;
}

/** The smallest agent file; `more` are further lines. */
export function agentFile(name: string, ...more: string[]): string {
  const environment = '{ name: plain, image: { kind: preset, name: base } }';
  return `${[`name: ${name}`, 'harness: harness-a', `environment: ${environment}`, ...more].join('\n')}\n`;
}

/** A daemon and a git server. Polls are quick where a repository asks for it. */
export async function startBench(options: TestDaemonOptions = {}): Promise<Bench> {
  const root = await mkdtemp(join(tmpdir(), 'svc-sync-'));
  const server = await new GitServer({ root }).start();
  const daemon = await startTestDaemon({ ...options, config: { allowPrivateNetwork: true, ...options.config } });
  return {
    daemon,
    server,
    repository: (name) => GitFixture.create(join(root, `${name}.git`)),
    async watch(name, more = {}) {
      const body = { name, url: server.url(`${name}.git`), intervalSeconds: 3600, ...more };
      const answer = await daemon.api('POST', 'P/repositories', body);
      assert.equal(answer.status, 201, JSON.stringify(answer.body));
      return settled(daemon, name);
    },
    async stop() {
      await daemon.stop();
      await server.stop();
      await rm(root, { recursive: true, force: true });
    },
  };
}

/** Runs of a repository, newest first. */
export async function runsOf(daemon: TestDaemon, name: string): Promise<JsonBody[]> {
  const { body } = await daemon.api('GET', `P/reconciles?repository=${name}&limit=200`);
  return body['items'] as unknown as JsonBody[];
}

/** Waits until `look` gives something. */
export async function until<T>(what: string, look: () => Promise<T | undefined | false>, forMs = 60_000): Promise<T> {
  const end = performance.now() + forMs;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    if (performance.now() > end) throw new Error(`waited in vain for ${what}`);
    await sleep(30);
  }
}

/** The latest run of a repository, once it has ended; `accept` may wait for a certain one. */
export async function settled(
  daemon: TestDaemon,
  name: string,
  accept: (run: JsonBody) => boolean = () => true,
): Promise<JsonBody> {
  return until(`a run of ${name}`, async () => {
    const { status, body } = await daemon.api('GET', `P/reconciles?repository=${name}&limit=1`);
    const latest = status === 503 ? undefined : body['items']?.[0];
    return latest !== undefined && word(latest['status']) !== 'running' && accept(latest) && latest;
  });
}

/** A sync by hand, to its end. */
export async function syncNow(daemon: TestDaemon, name: string, forMs?: number): Promise<JsonBody> {
  const { status, body } = await daemon.api('POST', `P/repositories/${name}/sync`);
  assert.equal(status, 202, JSON.stringify(body));
  return ended(daemon, word(body['reconcileId']), forMs);
}

/** The run of that id, once it has ended. */
export async function ended(daemon: TestDaemon, id: string, forMs?: number): Promise<JsonBody> {
  const look = async (): Promise<JsonBody | false> => {
    const { status, body } = await daemon.api('GET', `P/reconciles/${id}`);
    // A crowded machine may have no connection at the moment: that is no end of the run.
    return status !== 503 && word(body['status']) !== 'running' && body;
  };
  return until(`reconcile ${id}`, look, forMs);
}

/** A leaf of an answer as text. */
export const word = (value: JsonBody | undefined): string => String(value);

/** Names of the stored agents of the default project, sorted. */
export async function agentNames(daemon: TestDaemon): Promise<string[]> {
  const { rows } = await daemon.ctx.db.query<{ name: string }>('select name from svc.agents order by name');
  return rows.map((row) => row.name);
}

/**
 * Every row of every table that an apply owns, as text: equal texts mean that nothing was written. Waits until no event
 * is to be routed, since routing writes to the events of an apply that has long ended.
 */
export async function resourceRows(daemon: TestDaemon): Promise<string> {
  await until('the routing of all events', async () => {
    const pending = `select from svc.events where router_status = 'pending' limit 1`;
    return (await daemon.ctx.db.query(pending)).rowCount === 0;
  });
  const tables = [
    'agents',
    'agent_revisions',
    'generated_resources',
    'generated_resource_users',
    'triggers',
    'schedules',
    'endpoints',
    'assets',
    'events',
    'blobs',
    'snapshots',
  ];
  const parts: string[] = [];
  for (const table of tables) {
    const { rows } = await daemon.ctx.db.query<{ line: string }>(
      `select t.xmin::text || ' ' || t.ctid::text || ' ' || md5(t::text) as line from svc.${table} t order by t.ctid`,
    );
    parts.push(table, ...rows.map((row) => row.line));
  }
  return parts.join('\n');
}
