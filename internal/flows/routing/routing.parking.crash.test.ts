import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Api,
  apiClient,
  readClientFile,
  type SpawnedDaemon,
  spawnDaemon,
  tempDataDir,
} from '../../base/testkit/daemon.ts';
import { SCRIPTED_AGENT } from '../../adapters/harness/harness-testkit.ts';
import { isLong } from '../../base/testkit/long.ts';
import { createTestDatabase, type TestDatabase } from '../../base/testkit/postgres.ts';
import { applyAgents, hook, post } from './routing-testkit.ts';

let database: TestDatabase;
let data: Awaited<ReturnType<typeof tempDataDir>>;
let daemon: SpawnedDaemon | undefined;
before(async () => {
  [database, data] = [await createTestDatabase(), await tempDataDir({ empty: true })];
  await writeFile(join(data.path, 'keys'), `1:${randomBytes(32).toString('base64')}\n`, { mode: 0o600 });
});
after(async () => {
  await daemon?.kill('SIGTERM');
  await database.close();
  await data.remove();
});

interface Running {
  readonly url: string;
  readonly api: Api;
}

/** What the daemons of a test are started with besides. */
let more: { readonly [name: string]: string } = {};

/** What a start takes on this machine with nothing to take up again, in milliseconds; the first tells. */
let usualMs: number | undefined;

/**
 * Starts a daemon; undefined where it ends before it is ready. One that was ready was so within ten seconds, or on a
 * machine with other things to do within three times what its first start took.
 */
async function start(failpoint?: string): Promise<Running | undefined> {
  await daemon?.kill('SIGTERM');
  const since = performance.now();
  const one = spawnDaemon({
    dataDir: data.path,
    env: {
      SVC_DATABASE_URL: database.url,
      SVC_MASTER_KEY_FILE: join(data.path, 'keys'),
      SVC_ROLES: 'api,route,sync,schedule',
      ...(failpoint !== undefined && { SVC_FAILPOINT: failpoint }),
      ...more,
    },
  });
  daemon = one;
  const url = await one.ready.then(
    (told) => told.url,
    () => undefined,
  );
  if (url === undefined) return undefined;
  const tookMs = performance.now() - since;
  usualMs ??= tookMs;
  assert.ok(tookMs < Math.max(10_000, 3 * usualMs), `${tookMs} ms, at first ${usualMs} ms`);
  return { url, api: apiClient(url, readClientFile(data.path).token) };
}

/** Waits for the daemon's end, or for what is to come about; true where it came about. */
async function reaches(isThere: () => Promise<boolean>): Promise<boolean> {
  const ended = daemon?.exited.then(() => 'ended' as const);
  for (let waited = 0; waited < 90_000; waited += 100) {
    if ((await Promise.race([ended, sleep(100)])) === 'ended') return false;
    if (await isThere()) return true;
  }
  throw new Error('neither an end nor what was waited for');
}

/** Starts daemons until what is to come about does; answers with how many aborted. */
async function abortsUntil(failpoint: string, isThere: () => Promise<boolean>, first?: (at: Running) => Promise<void>) {
  for (let aborts = 0; aborts < 8; aborts += 1) {
    const running = await start(failpoint);
    if (aborts === 0 && running !== undefined) await first?.(running);
    if (await reaches(isThere)) return aborts;
    assert.equal((await daemon?.exited)?.signal, 'SIGABRT');
  }
  throw new Error('it aborts again and again');
}

async function value<T>(text: string, values: readonly unknown[] = []): Promise<T | undefined> {
  const { rows } = await database.db.query<{ value: T }>(text, values);
  return rows[0]?.value;
}
/** What the doctor says of parked work: how each is tried again. */
async function parkedBy(): Promise<string[]> {
  const api = apiClient((await daemon?.ready)?.url ?? '', readClientFile(data.path).token);
  const { body } = await api('GET', 'P/doctor');
  const checks = body['checks'] as unknown as { name: string; message: string; hint: string }[];
  return checks.filter((one) => one.name === 'parked').map((one) => one.hint);
}
const statusOf = (id: string) =>
  value<string>(`select router_status || ' ' || coalesce(reason, '') as value from svc.events where id = $1::uuid`, [
    id,
  ]);
/** Of what a person tries again, or nobody: tellings that are parked are remembered for a while. */
const suspects = () =>
  value<number>(`select count(*)::int as value from svc.suspects where kind in ('event', 'sync', 'tick', 'session')`);
const heartbeat = { kind: 'heartbeat', cron: '0 0 1 1 *', timezone: 'UTC', routing: { kind: 'spawn' } };

/** Each takes half a minute of daemons that start and die; `make test-crash` runs them. */
const inLongForm = (name: string, test: () => Promise<void>): void => {
  if (isLong) it(name, test);
};

describe('work that ends the process', () => {
  it('an event is tried alone after two aborts and parked after three; all other events are routed', async () => {
    const ids: string[] = [];
    let poison = '';
    const aborts = await abortsUntil(
      'route.event@webhook.poison',
      async () =>
        (await value<number>(`select count(*)::int as value from svc.events where router_status = 'pending'`)) === 0,
      async ({ url, api }) => {
        const paths = await applyAgents(api, {
          good: {
            triggers: [
              hook('good', { kind: 'spawn' }),
              { ...hook('good', { kind: 'spawn' }), event: 'webhook.poison' },
            ],
          },
          other: { triggers: [heartbeat] },
          third: { triggers: [heartbeat] },
        });
        const path = paths['good'] ?? '';
        ids.push(await post(url, path, { n: 1 }));
        const sent = [{ n: 2 }, { event: 'poison' }, { n: 3 }].map((body) => post(url, path, body).catch(() => ''));
        const [before = '', bad = '', behind = ''] = await Promise.all(sent);
        ids.push(before, behind);
        poison = bad;
      },
    );
    assert.equal(aborts, 3);
    const bad = await value<string>(`select id::text as value from svc.events where key = 'webhook.poison'`);
    assert.ok(poison === '' || poison === bad);
    assert.equal(await statusOf(bad ?? ''), 'failed ended-the-process');
    for (const id of ids.filter((one) => one !== '')) assert.match((await statusOf(id)) ?? '', /^routed/);
    assert.ok(await reaches(async () => (await suspects()) === 0));
    assert.deepEqual(await parkedBy(), [`svc event replay ${bad}`]);
  });

  inLongForm('it is tried again by hand alone, with nothing beside it, and parked again at once', async () => {
    const running = await start('route.event@webhook.poison');
    const bad = await value<string>(`select id::text as value from svc.events where key = 'webhook.poison'`);
    const replayed = await running?.api('POST', `P/events/${bad}/replay`);
    const again = String(replayed?.body['eventRecordId']);
    assert.equal(await reaches(async () => false), false);
    assert.equal(
      await abortsUntil(
        'route.event@webhook.poison',
        async () => (await statusOf(again)) === 'failed ended-the-process',
      ),
      0,
    );
    const calm = await start();
    const last = String((await calm?.api('POST', `P/events/${again}/replay`))?.body['eventRecordId']);
    assert.ok(await reaches(async () => /^routed/.test((await statusOf(last)) ?? '')));
  });

  inLongForm('a tick is parked as a failed event; the ticks of others fire', async () => {
    const sick = await value<string>(
      `select s.id as value from svc.schedules s join svc.agents a on a.id = s.agent_id where a.name = 'other'`,
    );
    const lastOf = (name: string) =>
      value<string>(
        `select s.last_status as value from svc.schedules s join svc.agents a on a.id = s.agent_id where a.name = $1::text`,
        [name],
      );
    await start();
    await daemon?.kill('SIGTERM');
    await database.db.query('update svc.schedules set next_at = now()');
    const aborts = await abortsUntil(`heartbeat.tick@${sick}`, async () => (await lastOf('other')) === 'failed');
    assert.equal(aborts, 3);
    // On a slow machine three starts take so long that its tick is late.
    assert.ok(await reaches(async () => /^(fired|skipped-late)$/.test((await lastOf('third')) ?? '')));
    const event = await value<string>('select last_event_id::text as value from svc.schedules where id = $1::text', [
      sick,
    ]);
    assert.equal(await statusOf(event ?? ''), 'failed ended-the-process');
    assert.ok((await parkedBy()).includes(`svc event replay ${event}`));
    const calm = await start();
    assert.equal((await calm?.api('POST', `P/events/${event}/replay`))?.status, 202);
    assert.ok(await reaches(async () => (await lastOf('other')) !== 'failed'));
  });

  it('a sync is parked as a failed run until a person asks for it; other repositories are synced', async () => {
    const agent = (name: string) => ({
      name,
      harness: 'harness-a',
      environment: { name: 'default', image: { kind: 'preset', name: 'base' } },
    });
    for (const name of ['sick', 'well']) {
      await mkdir(join(data.path, name, '.svc', 'agents'), { recursive: true });
      await writeFile(join(data.path, name, '.svc', 'agents', `${name}.yaml`), JSON.stringify(agent(name)));
    }
    const lastRun = (name: string) =>
      value<string>(
        `select status || ' ' || coalesce(detail, '') as value from svc.reconciles where repository_name = $1::text
          order by started_at desc limit 1`,
        [name],
      );
    const parked = async () => (await lastRun('sick')) === 'failed ended-the-process';
    const aborts = await abortsUntil('sync.run@sick', parked, async ({ api }) => {
      for (const name of ['well', 'sick']) {
        await api('POST', 'P/repositories', { name, path: join(data.path, name) }).catch(() => undefined);
      }
    });
    assert.equal(aborts, 3);
    assert.ok(await reaches(async () => (await lastRun('well')) === 'applied '));
    const doctor = await apiClient((await daemon?.ready)?.url ?? '', readClientFile(data.path).token)(
      'GET',
      'P/doctor',
    );
    assert.match(JSON.stringify(doctor.body), /sick[^"]*ended-the-process/);
    assert.ok((await parkedBy()).includes('svc repo sync sick'));
    const calm = await start();
    assert.equal(await parked(), true);
    assert.equal((await calm?.api('POST', 'P/repositories/sick/sync'))?.status, 202);
    assert.ok(await reaches(async () => (await lastRun('sick')) === 'applied ' && (await suspects()) === 0));
  });

  it('a notification is parked as refused; other receivers are told', async () => {
    const heard: string[] = [];
    const server = createServer((request, response) => {
      heard.push(request.url ?? '');
      request.resume();
      response.writeHead(204).end();
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    more = { SVC_ALLOW_PRIVATE_NETWORK: 'true' };
    const told = (receiver: string) =>
      value<string>(`select concat_ws(' ', status, code) as value from svc.notifications where receiver = $1::text`, [
        `receiver:${receiver}`,
      ]);
    try {
      const aborts = await abortsUntil(
        'notice.tell@connection-lost:receiver:sick',
        async () => (await told('sick')) === 'refused ended-the-process',
        async ({ api }) => {
          for (const name of ['sick', 'well']) {
            const to = { name, kind: 'webhook', url: `${url}/${name}`, conditions: ['connection-lost'] };
            assert.equal((await api('POST', 'P/receivers', to)).status, 201);
          }
          const chat = { provider: 'chat', name: 'lost', credentials: { signingSecret: 'a-secret-of-the-hook' } };
          assert.equal((await api('POST', 'P/connections', chat)).status, 201);
          await database.db.query(`update svc.connections set status = 'suspended' where name = 'lost'`);
        },
      );
      assert.equal(aborts, 3);
      assert.ok(await reaches(async () => (await told('well')) === 'done'));
      assert.deepEqual(heard, ['/well']);
      assert.ok((await parkedBy()).some((hint) => hint.startsWith('it is not told')));
    } finally {
      more = {};
      server.close();
    }
  });

  inLongForm('a look for what became of a call is parked as unknown; other calls get their end', async () => {
    const endOf = (tool: string) =>
      value<string>(`select concat_ws(' ', status, code) as value from svc.calls where tool = $1::text`, [tool]);
    const aborts = await abortsUntil(
      'call.tell@sick_tool',
      async () => (await endOf('sick_tool')) === 'unknown outcome-unknown',
      async () => {
        await database.db.query(
          `insert into svc.calls (id, project_id, provider, alias, tool, write, status, created_at, input_hash, daemon_id, lease_until)
           select gen_random_uuid(), p.id, 'webhook', 'notify', tool, true, 'sending', now(), '\\x00', gen_random_uuid(),
               now() from svc.projects p cross join unnest(array['well_tool', 'sick_tool']) as tool where p.slug = 'default'`,
        );
      },
    );
    assert.equal(aborts, 3);
    assert.ok(await reaches(async () => (await endOf('well_tool')) === 'refused not-sent'));
    assert.ok((await parkedBy()).includes('look at the provider whether it arrived'));
  });

  inLongForm('a launch is parked as a failed session; sessions of other agents are launched', async () => {
    more = {
      SVC_ROLES: 'api,route,session',
      SVC_SANDBOX: 'process',
      SVC_HARNESS_A_COMMAND: JSON.stringify(SCRIPTED_AGENT),
    };
    const ids: { [agent: string]: string } = {};
    const stateOf = (agent: string) =>
      value<string>(`select state || ' ' || coalesce(reason, '') as value from svc.sessions where id = $1::uuid`, [
        ids[agent],
      ]);
    const parked = async () => ids['ill'] !== undefined && (await stateOf('ill')) === 'failed ended-the-process';
    const aborts = await abortsUntil('session.launch@ill', parked, async ({ api }) => {
      await applyAgents(api, { ill: {}, fit: {} });
      // Both at once, so that one is in hand beside the other.
      for (const agent of ['fit', 'ill']) {
        const made = await api('POST', `P/agents/${agent}/sessions`, { message: '!say hello' }).catch(() => undefined);
        ids[agent] = made === undefined ? '' : String(made.body['id']);
      }
      ids['ill'] ||= (await value<string>(`select id::text as value from svc.sessions where agent = 'ill'`)) ?? '';
    });
    assert.equal(aborts, 3);
    assert.ok(await reaches(async () => /^idle/.test((await stateOf('fit')) ?? '')));
    assert.ok((await parkedBy()).some((hint) => hint.startsWith('svc agent start ill')));
    assert.ok(await reaches(async () => (await suspects()) === 0));
    more = {};
  });
});
