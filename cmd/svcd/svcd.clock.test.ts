// Three daemons on one database, one a minute ahead, one a minute behind: nothing begins early or late, nobody is taken for
// dead, and no lease or claim changes hands, for all of them go by the database's clock.

import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { scriptedAgent } from '../../internal/adapters/harness/harness-testkit.ts';
import { startTestDaemon, type TestDaemon } from '../../internal/base/testkit/daemon.ts';
import { applyAgents } from '../../internal/flows/routing/routing-testkit.ts';

const minuteMs = 60_000;
const config = { harnessACommand: scriptedAgent, sandbox: 'process' } as const;

describe('daemons whose machines are a minute off', () => {
  let right: TestDaemon;
  let ahead: TestDaemon;
  let behind: TestDaemon;
  let all: readonly TestDaemon[];
  before(async () => {
    right = await startTestDaemon({ config });
    const off = async (name: string, ms: number): Promise<TestDaemon> => {
      const dataDir = join(right.dataDir, name);
      await mkdir(dataDir);
      const { database, token } = right;
      const shared = { ...config, masterKeyFile: join(right.dataDir, 'master.key') };
      return startTestDaemon({ config: shared, database, token, dataDir, machineMs: () => Date.now() + ms });
    };
    [ahead, behind] = [await off('ahead', minuteMs), await off('behind', -minuteMs)];
    all = [right, ahead, behind];
  });
  after(async () => {
    for (const one of [ahead, behind, right]) await one?.stop();
  });

  const value = async <T>(text: string, values: readonly unknown[] = []): Promise<T | null | undefined> =>
    (await right.ctx.db.query<{ value: T }>(text, values)).rows[0]?.value;

  it('tell the time of the database', async () => {
    for (const { ctx } of all) {
      const offMs = await value<number>(
        'select extract(epoch from clock_timestamp() - $1::timestamptz) * 1000 as value',
        [ctx.runtime.now()],
      );
      assert.ok(Math.abs(Number(offMs)) < 5_000, `${offMs} ms`);
    }
  });

  it('let nothing expire early, and nothing live on', async () => {
    const put = async (name: string, seconds: number): Promise<void> => {
      const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
      const body = { value: 'a value of the test', protected: false, expiresAt };
      assert.ok((await right.api('PUT', `P/secrets/${name}`, body)).status < 300);
      await right.ctx.db.query(
        'update svc.secrets set expires_at = now() + make_interval(secs => $2::int) where name = $1::text',
        [name, seconds],
      );
    };
    await put('soon', 50);
    await put('over', -1);
    for (const { api } of all) {
      assert.equal((await api('POST', 'P/secrets/soon/reveal')).status, 200);
      assert.equal((await api('POST', 'P/secrets/over/reveal')).status, 404);
    }
  });

  it('fire what is due, and nothing that is due within the minute', async () => {
    const heartbeat = { kind: 'heartbeat', cron: '0 0 1 1 *', timezone: 'UTC', routing: { kind: 'spawn' } };
    await applyAgents(right.api, { due: { triggers: [heartbeat] }, later: { triggers: [heartbeat] } });
    const schedule = (name: string): string =>
      `(select s.id from svc.schedules s join svc.agents a on a.id = s.agent_id where a.name = '${name}')`;
    await right.ctx.db.query(
      `update svc.schedules set next_at = now() + interval '50 seconds' where id = ${schedule('later')}`,
    );
    await right.ctx.db.query(
      `update svc.schedules set next_at = now() - interval '1 second' where id = ${schedule('due')}`,
    );
    const last = (name: string) =>
      value<string>(`select last_status as value from svc.schedules where id = ${schedule(name)}`);
    for (let waited = 0; (await last('due')) !== 'fired'; waited += 100) {
      assert.ok(waited < 60_000, String(await last('due')));
      await sleep(100);
    }
    assert.equal(await last('later'), null);
    const late = await value<number>(
      `select extract(epoch from now() - e.received_at) as value from svc.events e
         where e.id = (select last_event_id from svc.schedules where id = ${schedule('due')})`,
    );
    assert.ok(Number(late) > -5 && Number(late) < 55, String(late));
  });

  it('take nobody for dead, no session from its host, and no run from its daemon', async () => {
    const tree = join(right.dataDir, 'tree', '.svc', 'agents');
    await mkdir(tree, { recursive: true });
    const content = {
      name: 'own',
      harness: 'harness-a',
      environment: { name: 'default', image: { kind: 'preset', name: 'base' } },
    };
    await writeFile(join(tree, 'own.yaml'), JSON.stringify(content));
    const path = join(right.dataDir, 'tree');
    for (const [index, { api }] of all.entries()) {
      // Each begins one; whoever does the work, nobody supersedes it.
      if (index === 0) assert.equal((await api('POST', 'P/repositories', { name: 'own', path })).status, 201);
      else assert.equal((await api('POST', 'P/repositories/own/sync')).status, 202);
      for (let waited = 0; ; waited += 100) {
        const { body } = await right.api('GET', 'P/reconciles?repository=own');
        const states = (body['items'] as unknown as { status: string }[]).map((run) => run.status);
        if (states.length > index && !states.includes('running')) {
          assert.deepEqual(
            states.filter((one) => !['applied', 'unchanged'].includes(one)),
            [],
          );
          break;
        }
        assert.ok(waited < 60_000, states.join());
        await sleep(100);
      }
    }
    const sessions: string[] = [];
    for (const { api } of all) {
      const { body } = await api('POST', 'P/agents/own/sessions', { message: '!sleep 600000' });
      sessions.push(String(body['id']));
    }
    const epochs = () =>
      value<string>(
        `select string_agg(epoch || ' ' || coalesce(reason, ''), ',' order by id) as value from svc.sessions where id = any($1::uuid[])`,
        [sessions],
      );
    for (
      let waited = 0;
      (await value<number>(
        `select count(*)::int as value from svc.sessions where id = any($1::uuid[]) and state = 'running'`,
        [sessions],
      )) !== 3;
      waited += 100
    ) {
      assert.ok(waited < 60_000, String(await epochs()));
      await sleep(100);
    }
    // Longer than a heartbeat, a look of the upkeep and a renewal of leases.
    const seen = await epochs();
    await sleep(7_000);
    assert.equal(await epochs(), seen);
    assert.equal(await value<number>('select count(*)::int as value from svc.daemons'), 3);
    for (const session of sessions) await right.api('POST', `P/sessions/${session}/archive`);
  });
});
