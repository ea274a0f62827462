import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { scriptedAgent } from '../../internal/adapters/harness/harness-testkit.ts';
import { startTestDaemon } from '../../internal/base/testkit/daemon.ts';
import { createTestDatabase } from '../../internal/base/testkit/postgres.ts';
import { applyAgents, hook } from '../../internal/flows/routing/routing-testkit.ts';
import { agentFile, settled, until, word } from '../../internal/flows/sync/sync-testkit.ts';

const patienceMs = 120_000;

it('a daemon has at most 12 connections to its database when it is busy, and 4 when it is idle', async (t) => {
  const database = await createTestDatabase();
  const daemon = await startTestDaemon({ database, config: { harnessACommand: scriptedAgent, sandbox: 'process' } });
  const { api } = daemon;
  const folder = await mkdtemp(join(tmpdir(), 'svc-connections-'));
  const streams = new AbortController();
  const watcher = new pg.Client({ connectionString: database.url, application_name: 'watcher' });
  await watcher.connect();
  t.after(async () => {
    streams.abort();
    await watcher.end();
    await daemon.stop();
    await database.close();
    await rm(folder, { recursive: true });
  });
  const count = async (): Promise<number> => {
    const { rows } = await watcher.query<{ n: number }>(
      `select count(*)::int as n from pg_stat_activity where datname = current_database() and backend_type = 'client backend'
         and application_name <> 'watcher'`,
    );
    return rows[0]?.n ?? -1;
  };
  const paths = await applyAgents(api, {
    // Of a harness that the daemon does not have: its sessions are rows.
    one: { harness: 'harness-b', triggers: [hook('crowd', { kind: 'spawn' })] },
    two: {},
  });
  // In such a crowd, on a slow machine, there may be no connection at the moment.
  const served = (ask: () => Promise<number>): Promise<number> =>
    until(
      'an answer',
      async () => {
        const status = await ask();
        return status !== 503 && status;
      },
      patienceMs,
    );
  const post = (n: number): Promise<number> =>
    served(async () => {
      const of = { method: 'POST', body: JSON.stringify({ n }) };
      const answer = await fetch(`${daemon.url}${paths['crowd'] ?? ''}`, of);
      await answer.arrayBuffer();
      return answer.status;
    });
  const launched: string[] = [];
  const launch = async (): Promise<number> => {
    const id = await until('a session', async () => {
      const { status, body } = await api('POST', 'P/agents/two/sessions', { message: '!stream 20' });
      return status === 201 && word(body['id']);
    });
    const isIdle = async () => word((await api('GET', `P/sessions/${id}`)).body['state']) === 'idle';
    await until('the session to have spoken', isIdle, patienceMs);
    await stream(`sessions/${id}/stream`);
    launched.push(id);
    return 202;
  };
  const stream = async (path: string): Promise<void> => {
    const headers = { authorization: `Bearer ${daemon.token}` };
    const url = `${daemon.url}/api/v1/orgs/default/projects/default/${path}`;
    assert.equal((await fetch(url, { headers, signal: streams.signal })).status, 200);
  };
  const change = async (version: number): Promise<void> => {
    await mkdir(join(folder, '.svc/agents'), { recursive: true });
    await writeFile(join(folder, '.svc/agents/a.yaml'), agentFile(`version-${version}`));
  };
  const sync = async (version: number): Promise<number> => {
    await change(version);
    const isThere = async () => (await api('GET', `P/agents/version-${version}`)).status === 200;
    await api('POST', 'P/repositories/folder/sync');
    await until('its agent', isThere, patienceMs);
    return 202;
  };
  await change(0);
  assert.equal((await api('POST', 'P/repositories', { name: 'folder', path: folder })).status, 201);
  await settled(daemon, 'folder');
  for (let n = 0; n < 20; n += 1) await stream('reconciles/stream');
  let most = 0;
  for (let round = 0; round < 4; round += 1) {
    const busy = Promise.all([
      ...Array.from({ length: 100 }, (_, n) => post(round * 100 + n)),
      ...Array.from({ length: 40 }, () => served(async () => (await api('GET', 'P/agents')).status)),
      ...(round === 1 ? [launch(), launch(), launch(), launch()] : []),
      sync(round + 1),
    ]);
    let isOver = false;
    void busy.finally(() => (isOver = true));
    while (!isOver) most = Math.max(most, await count());
    for (const status of await busy) assert.ok(status === 202 || status === 200, `${status}`);
  }
  assert.ok(most > 4 && most <= 12, `${most} when busy`);
  // Idle is who has no readers and holds no sessions: what these ask for every second may meet, and hold a fifth one.
  streams.abort();
  for (const id of launched) assert.equal((await api('POST', `P/sessions/${id}/archive`)).status, 200);
  let idle = await count();
  for (let tries = 0; tries < 900 && idle > 4; tries += 1) {
    await sleep(100);
    idle = await count();
  }
  assert.ok(idle <= 4, `${idle} when idle`);
});
