import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { scriptedAgent } from '../../adapters/harness/harness-testkit.ts';
import { isLong } from '../../base/testkit/long.ts';
import { ParkingBench } from './parking-testkit.ts';
import { applyAgents, hook, post } from './routing-testkit.ts';

let bench: ParkingBench;
before(async () => {
  bench = await ParkingBench.create();
});
after(() => bench.remove());

const heartbeat = { kind: 'heartbeat', cron: '0 0 1 1 *', timezone: 'UTC', routing: { kind: 'spawn' } };

/** Each takes half a minute of daemons that start and die; `make test-crash` runs them. */
const inLongForm = (name: string, test: () => Promise<void>): void => {
  if (isLong) it(name, test);
};

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

  inLongForm('it is tried again by hand alone, with nothing beside it, and parked again at once', async () => {
    const running = await bench.start('route.event@webhook.poison');
    const bad = await bench.value<string>(`select id::text as value from svc.events where key = 'webhook.poison'`);
    const replayed = await running?.api('POST', `P/events/${bad}/replay`);
    const again = String(replayed?.body['eventRecordId']);
    assert.equal(await bench.reaches(async () => false), false);
    assert.equal(
      await bench.abortsUntil(
        'route.event@webhook.poison',
        async () => (await bench.statusOf(again)) === 'failed ended-the-process',
      ),
      0,
    );
    const calm = await bench.start();
    const last = String((await calm?.api('POST', `P/events/${again}/replay`))?.body['eventRecordId']);
    assert.ok(await bench.reaches(async () => /^routed/.test((await bench.statusOf(last)) ?? '')));
  });

  inLongForm('a tick is parked as a failed event; the ticks of others fire', async () => {
    const sick = await bench.value<string>(
      `select s.id as value from svc.schedules s join svc.agents a on a.id = s.agent_id where a.name = 'other'`,
    );
    const lastOf = (name: string) =>
      bench.value<string>(
        `select s.last_status as value from svc.schedules s join svc.agents a on a.id = s.agent_id where a.name = $1::text`,
        [name],
      );
    await bench.start();
    await bench.stop();
    await bench.database.db.query('update svc.schedules set next_at = now()');
    const aborts = await bench.abortsUntil(`heartbeat.tick@${sick}`, async () => (await lastOf('other')) === 'failed');
    assert.equal(aborts, 3);
    // On a slow machine three starts take so long that its tick is late.
    assert.ok(await bench.reaches(async () => /^(fired|skipped-late)$/.test((await lastOf('third')) ?? '')));
    const event = await bench.value<string>(
      'select last_event_id::text as value from svc.schedules where id = $1::text',
      [sick],
    );
    assert.equal(await bench.statusOf(event ?? ''), 'failed ended-the-process');
    assert.ok((await bench.parkedBy()).includes(`svc event replay ${event}`));
    const calm = await bench.start();
    assert.equal((await calm?.api('POST', `P/events/${event}/replay`))?.status, 202);
    assert.ok(await bench.reaches(async () => (await lastOf('other')) !== 'failed'));
  });

  it('a sync is parked as a failed run until a person asks for it; other repositories are synced', async () => {
    const agent = (name: string) => ({
      name,
      harness: 'harness-a',
      environment: { name: 'default', image: { kind: 'preset', name: 'base' } },
    });
    for (const name of ['sick', 'well']) {
      await mkdir(join(bench.dataDir, name, '.svc', 'agents'), { recursive: true });
      await writeFile(join(bench.dataDir, name, '.svc', 'agents', `${name}.yaml`), JSON.stringify(agent(name)));
    }
    const lastRun = (name: string) =>
      bench.value<string>(
        `select status || ' ' || coalesce(detail, '') as value from svc.reconciles where repository_name = $1::text
          order by started_at desc limit 1`,
        [name],
      );
    const parked = async () => (await lastRun('sick')) === 'failed ended-the-process';
    const aborts = await bench.abortsUntil('sync.run@sick', parked, async ({ api }) => {
      for (const name of ['well', 'sick']) {
        await api('POST', 'P/repositories', { name, path: join(bench.dataDir, name) }).catch(() => undefined);
      }
    });
    assert.equal(aborts, 3);
    assert.ok(await bench.reaches(async () => (await lastRun('well')) === 'applied '));
    assert.match(JSON.stringify(await bench.doctor()), /sick[^"]*ended-the-process/);
    assert.ok((await bench.parkedBy()).includes('svc repo sync sick'));
    const calm = await bench.start();
    assert.equal(await parked(), true);
    assert.equal((await calm?.api('POST', 'P/repositories/sick/sync'))?.status, 202);
    assert.ok(
      await bench.reaches(async () => (await lastRun('sick')) === 'applied ' && (await bench.suspects()) === 0),
    );
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
    bench.env = { SVC_ALLOW_PRIVATE_NETWORK: 'true' };
    const told = (receiver: string) =>
      bench.value<string>(
        `select concat_ws(' ', status, code) as value from svc.notifications where receiver = $1::text`,
        [`receiver:${receiver}`],
      );
    try {
      const aborts = await bench.abortsUntil(
        'notice.tell@connection-lost:receiver:sick',
        async () => (await told('sick')) === 'refused ended-the-process',
        async ({ api }) => {
          for (const name of ['sick', 'well']) {
            const to = { name, kind: 'webhook', url: `${url}/${name}`, conditions: ['connection-lost'] };
            assert.equal((await api('POST', 'P/receivers', to)).status, 201);
          }
          const chat = { provider: 'chat', name: 'lost', credentials: { signingSecret: 'a-secret-of-the-hook' } };
          assert.equal((await api('POST', 'P/connections', chat)).status, 201);
          await bench.database.db.query(`update svc.connections set status = 'suspended' where name = 'lost'`);
        },
      );
      assert.equal(aborts, 3);
      assert.ok(await bench.reaches(async () => (await told('well')) === 'done'));
      assert.deepEqual(heard, ['/well']);
      assert.ok((await bench.parkedBy()).some((hint) => hint.startsWith('it is not told')));
    } finally {
      bench.env = {};
      server.close();
    }
  });

  inLongForm('a look for what became of a call is parked as unknown; other calls get their end', async () => {
    const endOf = (tool: string) =>
      bench.value<string>(`select concat_ws(' ', status, code) as value from svc.calls where tool = $1::text`, [tool]);
    const aborts = await bench.abortsUntil(
      'call.tell@sick_tool',
      async () => (await endOf('sick_tool')) === 'unknown outcome-unknown',
      async () => {
        await bench.database.db.query(
          `insert into svc.calls (id, project_id, provider, alias, tool, write, status, created_at, input_hash, daemon_id, lease_until)
           select gen_random_uuid(), p.id, 'webhook', 'notify', tool, true, 'sending', now(), '\\x00', gen_random_uuid(),
               now() from svc.projects p cross join unnest(array['well_tool', 'sick_tool']) as tool where p.slug = 'default'`,
        );
      },
    );
    assert.equal(aborts, 3);
    assert.ok(await bench.reaches(async () => (await endOf('well_tool')) === 'refused not-sent'));
    assert.ok((await bench.parkedBy()).includes('look at the provider whether it arrived'));
  });

  inLongForm('a launch is parked as a failed session; sessions of other agents are launched', async () => {
    bench.env = {
      SVC_ROLES: 'api,route,session',
      SVC_SANDBOX: 'process',
      SVC_HARNESS_A_COMMAND: JSON.stringify(scriptedAgent),
    };
    const ids: { [agent: string]: string } = {};
    const stateOf = (agent: string) =>
      bench.value<string>(
        `select state || ' ' || coalesce(reason, '') as value from svc.sessions where id = $1::uuid`,
        [ids[agent]],
      );
    const parked = async () => ids['ill'] !== undefined && (await stateOf('ill')) === 'failed ended-the-process';
    const aborts = await bench.abortsUntil('session.launch@ill', parked, async ({ api }) => {
      await applyAgents(api, { ill: {}, fit: {} });
      // Both at once, so that one is in hand beside the other.
      for (const agent of ['fit', 'ill']) {
        const made = await api('POST', `P/agents/${agent}/sessions`, { message: '!say hello' }).catch(() => undefined);
        ids[agent] = made === undefined ? '' : String(made.body['id']);
      }
      ids['ill'] ||=
        (await bench.value<string>(`select id::text as value from svc.sessions where agent = 'ill'`)) ?? '';
    });
    assert.equal(aborts, 3);
    assert.ok(await bench.reaches(async () => /^idle/.test((await stateOf('fit')) ?? '')));
    assert.ok((await bench.parkedBy()).some((hint) => hint.startsWith('svc agent start ill')));
    assert.ok(await bench.reaches(async () => (await bench.suspects()) === 0));
    bench.env = {};
  });

  inLongForm('a turn that ends the process is given up with its session; those of other agents go on', async () => {
    bench.env = {
      SVC_ROLES: 'api,route,session',
      SVC_SANDBOX: 'process',
      SVC_HARNESS_A_COMMAND: JSON.stringify(scriptedAgent),
    };
    const stateOf = (agent: string) =>
      bench.value<string>(
        `select state || ' ' || coalesce(reason, '') as value from svc.sessions where agent = $1 order by id desc limit 1`,
        [agent],
      );
    const isGivenUp = async () => ((await stateOf('worn')) ?? '').startsWith('failed given up');
    const aborts = await bench.abortsUntil('session.turn-in-hand@worn', isGivenUp, async ({ api }) => {
      await applyAgents(api, { worn: {}, well: {} });
      for (const agent of ['well', 'worn']) {
        // The answer may be cut off by the end of who gives it.
        await api('POST', `P/agents/${agent}/sessions`, { message: '!say hello' }).catch(() => undefined);
      }
    });
    assert.equal(aborts, 3);
    assert.equal(await stateOf('worn'), 'failed given up: a message was cut off 3 times');
    assert.ok(await bench.reaches(async () => /^idle/.test((await stateOf('well')) ?? '')));
    const heard = await bench.value<number>(
      `select count(*)::int as value from svc.turns t join svc.sessions s on s.id = t.session_id where s.agent = 'worn'`,
    );
    assert.equal(heard, 3);
    bench.env = {};
  });
});
