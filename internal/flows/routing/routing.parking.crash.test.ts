import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { ParkingBench } from './parking-testkit.ts';
import { applyAgents, hook, post, runnable } from './routing-testkit.ts';

let bench: ParkingBench;
/** The replay of the event that was parked first. */
let again = '';
before(async () => {
  bench = await ParkingBench.create();
});
after(() => bench.remove());

const heartbeat = { kind: 'heartbeat', cron: '0 0 1 1 *', timezone: 'UTC', routing: { kind: 'spawn' } };

describe('work that ends the process', () => {
  it('an event is tried alone after two aborts and parked after three; all other events are routed', async () => {
    const ids: string[] = [];
    let poison = '';
    const aborts = await bench.abortsUntil(
      'route.event@webhook.poison',
      async () =>
        (await bench.value<number>(`select count(*)::int as value from svc.events where router_status = 'pending'`)) ===
        0,
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
    const bad = await bench.value<string>(`select id::text as value from svc.events where key = 'webhook.poison'`);
    assert.ok(poison === '' || poison === bad);
    assert.equal(await bench.statusOf(bad ?? ''), 'failed ended-the-process');
    for (const id of ids.filter((one) => one !== '')) assert.match((await bench.statusOf(id)) ?? '', /^routed/);
    assert.ok(await bench.reaches(async () => (await bench.suspects()) === 0));
    assert.deepEqual(await bench.parkedBy(), [`svc event replay ${bad}`]);
  });

  it('it is tried again by hand alone, with nothing beside it, and parked again at once', async () => {
    const bad = await bench.value<string>(`select id::text as value from svc.events where key = 'webhook.poison'`);
    const replayed = await (await bench.running()).api('POST', `P/events/${bad}/replay`);
    again = String(replayed.body['eventRecordId']);
    assert.equal(await bench.reaches(async () => false), false);
    const parked = async (): Promise<boolean> => (await bench.statusOf(again)) === 'failed ended-the-process';
    assert.equal(await bench.abortsUntil('route.event@webhook.poison', parked), 0);
  });

  it('a tick, a sync, a notification and a look for a call are each parked, and their like goes on', async () => {
    const heard: string[] = [];
    const server = createServer((request, response) => {
      heard.push(request.url ?? '');
      request.resume();
      response.writeHead(204).end();
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    // All of it is there before a daemon takes any.
    bench.env = { SVC_ALLOW_PRIVATE_NETWORK: 'true', SVC_ROLES: 'api' };
    const { api } = (await bench.start()) ?? assert.fail(bench.log());
    for (const name of ['sick', 'well']) {
      await mkdir(join(bench.dataDir, name, '.svc', 'agents'), { recursive: true });
      await writeFile(
        join(bench.dataDir, name, '.svc', 'agents', `${name}.yaml`),
        JSON.stringify({ name, ...runnable }),
      );
      const made = await api('POST', 'P/repositories', { name, path: join(bench.dataDir, name) });
      assert.equal(made.status, 201);
      const to = { name, kind: 'webhook', url: `${url}/${name}`, conditions: ['connection-lost'] };
      assert.equal((await api('POST', 'P/receivers', to)).status, 201);
    }
    const chat = { provider: 'chat', name: 'lost', credentials: { signingSecret: 'a-secret-of-the-hook' } };
    assert.equal((await api('POST', 'P/connections', chat)).status, 201);
    await bench.database.db.query(`update svc.connections set status = 'suspended' where name = 'lost'`);
    await bench.database.db.query(
      `insert into svc.calls (id, project_id, provider, alias, tool, write, status, created_at, input_hash, daemon_id, lease_until)
       select gen_random_uuid(), p.id, 'webhook', 'notify', tool, true, 'sending', now(), '\\x00', gen_random_uuid(),
           now() from svc.projects p cross join unnest(array['well_tool', 'sick_tool']) as tool where p.slug = 'default'`,
    );
    await bench.database.db.query('update svc.schedules set next_at = now()');
    const schedule = await bench.value<string>(
      `select s.id as value from svc.schedules s join svc.agents a on a.id = s.agent_id where a.name = 'other'`,
    );
    const points = [
      `heartbeat.tick@${schedule}`,
      'sync.run@sick',
      'notice.tell@connection-lost:receiver:sick',
      'call.tell@sick_tool',
    ];
    const becameOf = async (what: 'sick' | 'well'): Promise<unknown> => ({
      tick: await lastTick(what === 'sick' ? 'other' : 'third'),
      sync: await lastRun(what),
      notice: await told(what),
      call: await endOf(`${what}_tool`),
    });
    const parked = {
      tick: 'failed',
      sync: 'failed ended-the-process',
      notice: 'refused ended-the-process',
      call: 'unknown outcome-unknown',
    };
    bench.env = { SVC_ALLOW_PRIVATE_NETWORK: 'true' };
    try {
      const aborts = await bench.abortsUntil(points.join(), async () =>
        isDeepStrictEqual(await becameOf('sick'), parked),
      );
      // Of each the third end is one that it came to alone; what was in hand beside another was found out in fewer of its own.
      assert.ok(aborts >= 2 + points.length && aborts <= 3 * points.length, `${aborts}`);
      // On a slow machine the starts take so long that its tick is late.
      const others = async (): Promise<boolean> =>
        /fired|skipped-late/.test((await lastTick('third')) ?? '') &&
        (await lastRun('well')) === 'applied ' &&
        (await told('well')) === 'done' &&
        (await endOf('well_tool')) === 'refused not-sent';
      assert.ok(await bench.reaches(others), JSON.stringify(await becameOf('well')));
      assert.deepEqual(heard, ['/well']);
      assert.match(JSON.stringify(await bench.doctor()), /sick[^"]*ended-the-process/);
      const hints = await bench.parkedBy();
      for (const hint of ['svc repo sync sick', `svc event replay ${await tickEvent()}`])
        assert.ok(hints.includes(hint), hints.join('\n'));
      assert.ok(hints.some((hint) => hint.startsWith('it is not told')));
      assert.ok(hints.includes('look at the provider whether it arrived'));
    } finally {
      bench.env = {};
      server.close();
    }
  });

  it('what is parked stays so over a start, and goes on when a person asks for it', async () => {
    const { api } = (await bench.start()) ?? assert.fail(bench.log());
    const [tick, statusBefore] = [await tickEvent(), await lastRun('sick')];
    assert.equal(await bench.statusOf(tick), 'failed ended-the-process');
    assert.equal(statusBefore, 'failed ended-the-process');
    const last = String((await api('POST', `P/events/${again}/replay`)).body['eventRecordId']);
    assert.equal((await api('POST', `P/events/${tick}/replay`)).status, 202);
    assert.equal((await api('POST', 'P/repositories/sick/sync')).status, 202);
    assert.ok(await bench.reaches(async () => /^routed/.test((await bench.statusOf(last)) ?? '')));
    assert.ok(await bench.reaches(async () => (await lastTick('other')) !== 'failed'));
    // Of others that were in hand beside them what is suspected is let go at their next look.
    const isLetGo = (): Promise<boolean | undefined> =>
      bench.value<boolean>(
        `select not exists (select from svc.suspects u join svc.repositories r on r.id::text = u.id
           where u.kind = 'sync' and r.name = 'sick') as value`,
      );
    assert.ok(await bench.reaches(async () => (await lastRun('sick')) === 'applied ' && (await isLetGo()) === true));
  });
});

const lastTick = (agent: string): Promise<string | undefined> =>
  bench.value<string>(
    `select s.last_status as value from svc.schedules s join svc.agents a on a.id = s.agent_id where a.name = $1::text`,
    [agent],
  );
/** The event of the tick that is parked. */
const tickEvent = async (): Promise<string> =>
  (await bench.value<string>(
    `select last_event_id::text as value from svc.schedules s join svc.agents a on a.id = s.agent_id where a.name = 'other'`,
  )) ?? '';
const lastRun = (repository: string): Promise<string | undefined> =>
  bench.value<string>(
    `select status || ' ' || coalesce(detail, '') as value from svc.reconciles where repository_name = $1::text
      order by started_at desc limit 1`,
    [repository],
  );
const told = (receiver: string): Promise<string | undefined> =>
  bench.value<string>(`select concat_ws(' ', status, code) as value from svc.notifications where receiver = $1::text`, [
    `receiver:${receiver}`,
  ]);
const endOf = (tool: string): Promise<string | undefined> =>
  bench.value<string>(`select concat_ws(' ', status, code) as value from svc.calls where tool = $1::text`, [tool]);
