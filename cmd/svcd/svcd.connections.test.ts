import assert from 'node:assert/strict';
import { it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { startTestDaemon } from '../../internal/base/testkit/daemon.ts';
import { createTestDatabase } from '../../internal/base/testkit/postgres.ts';
import { applyAgents, hook } from '../../internal/flows/routing/routing-testkit.ts';

it('a daemon has at most 12 connections to its database when it is busy, and 4 when it is idle', async (t) => {
  const database = await createTestDatabase();
  const daemon = await startTestDaemon({ database });
  const watcher = new pg.Client({ connectionString: database.url, application_name: 'watcher' });
  await watcher.connect();
  t.after(async () => {
    await watcher.end();
    await daemon.stop();
    await database.close();
  });
  const count = async (): Promise<number> => {
    const { rows } = await watcher.query<{ n: number }>(
      `select count(*)::int as n from pg_stat_activity where datname = current_database() and backend_type = 'client backend'
         and application_name <> 'watcher'`,
    );
    return rows[0]?.n ?? -1;
  };
  const paths = await applyAgents(daemon.api, { one: { triggers: [hook('crowd', { kind: 'spawn' })] } });
  const post = async (n: number): Promise<number> => {
    const answer = await fetch(`${daemon.url}${paths['crowd'] ?? ''}`, { method: 'POST', body: JSON.stringify({ n }) });
    await answer.arrayBuffer();
    return answer.status;
  };
  let most = 0;
  for (let round = 0; round < 4; round += 1) {
    const busy = Promise.all([
      ...Array.from({ length: 100 }, (_, n) => post(round * 100 + n)),
      ...Array.from({ length: 40 }, async () => (await daemon.api('GET', 'P/agents')).status),
    ]);
    let isOver = false;
    void busy.finally(() => (isOver = true));
    while (!isOver) most = Math.max(most, await count());
    for (const status of await busy) assert.ok(status === 202 || status === 200, `${status}`);
  }
  assert.ok(most > 4 && most <= 12, `${most} when busy`);
  let idle = await count();
  for (let tries = 0; tries < 900 && idle > 4; tries += 1) {
    await sleep(100);
    idle = await count();
  }
  assert.ok(idle <= 4, `${idle} when idle`);
});
