// Work that the process finds no memory for: it really dies of it, is started again, and goes on with everything else.

import assert from 'node:assert/strict';
import { createHmac, randomUUID } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { isLong } from '../../base/testkit/long.ts';
import { ParkingBench, type Running } from './parking-testkit.ts';
import { applyAgents, hook, post, runnable } from './routing-testkit.ts';

/** A daemon does all its other work with half of it; what ends it here takes more than this again. */
const heapMb = 64;
const memory = { NODE_OPTIONS: `--max-old-space-size=${heapMb}` };
const secret = 'a secret of the hook';
const person = { login: 'ann', id: 1, type: 'User' };

/** A push that its door takes, and whose values, once they are read, do not fit: no object is like another. */
function poison(): string {
  const push = {
    ref: 'refs/heads/main',
    before: '0'.repeat(40),
    after: 'a'.repeat(40),
    repository: { id: 1, full_name: 'o/r', name: 'r', owner: person, default_branch: 'main' },
    sender: person,
    commits: [],
    more: Array.from({ length: 240_000 }, (_, at) => ({ [`the-value-${at}`]: 0 })),
  };
  return JSON.stringify(push);
}

async function pushTo(url: string, hub: string, text: string): Promise<string> {
  const mac = createHmac('sha256', secret).update(text).digest('hex');
  const headers = {
    'x-github-event': 'push',
    'x-github-delivery': randomUUID(),
    'x-hub-signature-256': `sha256=${mac}`,
  };
  const sent = await fetch(`${url}/api/v1/intake/codehost/${hub}`, { method: 'POST', body: text, headers });
  assert.equal(sent.status, 202);
  return String(((await sent.json()) as { eventRecordId: string }).eventRecordId);
}

const heartbeat = { kind: 'heartbeat', cron: '0 0 1 1 *', timezone: 'UTC', routing: { kind: 'spawn' } };

describe('a process that is out of memory', () => {
  let bench: ParkingBench;
  before(async () => {
    bench = await ParkingBench.create(memory);
  });
  after(() => bench.remove());

  const lastRun = (name: string) =>
    bench.value<string>(
      `select concat_ws(' ', status, detail) as value from svc.reconciles where repository_name = $1::text
        order by started_at desc limit 1`,
      [name],
    );
  /** A folder of agents with prompts of that many characters; the path. */
  async function folderOf(name: string, agents: number, length: number): Promise<string> {
    const path = join(bench.dataDir, name);
    await mkdir(join(path, '.svc', 'agents'), { recursive: true });
    for (let at = 0; at < agents; at += 1) {
      const spec = { name: `${name}-${at}`, ...runnable, instructions: 'x y '.repeat(length / 4) };
      await writeFile(join(path, '.svc', 'agents', `${name}-${at}.yaml`), JSON.stringify(spec));
    }
    return path;
  }

  it('parks the event that it cannot hold after three ends, and takes all other work', async () => {
    let [bad, path] = ['', ''];
    const recorded = async (lost: unknown): Promise<string> => {
      if (lost instanceof assert.AssertionError) throw lost;
      const id = await bench.value<string>(`select id::text as value from svc.events where key = 'codehost.push'`);
      return id ?? assert.fail(`${String(lost)}, and nothing was taken in: ${bench.log().slice(-2_000)}`);
    };
    const routed: string[] = [];
    const begin = async ({ url, api }: Running): Promise<void> => {
      const credentials = { webhookSecret: secret };
      const hub = await api('POST', 'P/connections', { provider: 'codehost', name: 'hub', credentials });
      const reads = {
        event: 'codehost.push',
        connection: 'hub',
        routing: { kind: 'spawn' },
        where: { '$.raw.more': 'none' },
      };
      const paths = await applyAgents(api, {
        reader: { triggers: [reads] },
        other: { triggers: [hook('other', { kind: 'spawn' })] },
      });
      path = paths['other'] ?? '';
      routed.push(await post(url, path, { n: 1 }));
      // The process may end before its answer is on the way: what it took in is there all the same.
      bad = await pushTo(url, String(hub.body['id']), poison()).catch(recorded);
      // Behind it, where the process lives that long.
      routed.push(await post(url, path, { n: 2 }).catch(() => ''));
    };
    const parked = async (): Promise<boolean> => (await bench.statusOf(bad)) === 'failed ended-the-process';
    assert.equal(await bench.abortsUntil(undefined, parked, begin), 3);
    assert.deepEqual(await bench.parkedBy(), [`svc event replay ${bad}`]);
    const { url, api } = (await bench.start()) ?? assert.fail(bench.log());
    routed.push(await post(url, path, { n: 3 }));
    const body = { name: 'well', path: await folderOf('well', 1, 40) };
    assert.equal((await api('POST', 'P/repositories', body)).status, 201);
    assert.ok(await bench.reaches(async () => (await lastRun('well')) === 'applied'));
    for (const id of routed.filter((one) => one !== ''))
      assert.ok(await bench.reaches(async () => /^routed/.test((await bench.statusOf(id)) ?? '')));
    assert.equal(await parked(), true);
  });

  /** Of each one that finds no memory, and one that does, before a daemon takes any; the schedule of the tick that does not. */
  async function sickAndWell(): Promise<string> {
    bench.env = { ...memory, SVC_ROLES: 'api' };
    const { api } = (await bench.start()) ?? assert.fail(bench.log());
    await applyAgents(api, { 'tick-sick': { triggers: [heartbeat] }, 'tick-well': { triggers: [heartbeat] } });
    for (const name of ['sync-sick', 'sync-well']) {
      const made = await api('POST', 'P/repositories', { name, path: await folderOf(name, 1, 40) });
      assert.equal(made.status, 201, JSON.stringify(made.body));
    }
    await bench.database.db.query(
      `insert into svc.calls (id, project_id, provider, alias, tool, write, status, created_at, input_hash, daemon_id, lease_until)
       select gen_random_uuid(), p.id, 'webhook', 'notify', tool, true, 'sending', now(), '\\x00', gen_random_uuid(),
           now() from svc.projects p cross join unnest(array['call-sick', 'call-well']) as tool where p.slug = 'default'`,
    );
    await bench.database.db.query('update svc.schedules set next_at = now()');
    bench.env = memory;
    const of =
      'select s.id as value from svc.schedules s join svc.agents a on a.id = s.agent_id where a.name = $1::text';
    return (await bench.value<string>(of, ['tick-sick'])) ?? assert.fail('no schedule');
  }
  const becameOf = async (what: 'sick' | 'well'): Promise<unknown> => ({
    sync: await lastRun(`sync-${what}`),
    tick: await bench.value<string>(
      'select s.last_status as value from svc.schedules s join svc.agents a on a.id = s.agent_id where a.name = $1::text',
      [`tick-${what}`],
    ),
    call: await bench.value<string>(
      `select concat_ws(' ', status, code) as value from svc.calls where tool = $1::text`,
      [`call-${what}`],
    ),
  });

  it('parks a sync, a tick and a call that find none, each after three ends, and their like go on', async () => {
    const schedule = await sickAndWell();
    const points = ['sync.run:memory@sync-sick', `heartbeat.tick:memory@${schedule}`, 'call.tell:memory@call-sick'];
    const parked = { sync: 'failed ended-the-process', tick: 'failed', call: 'unknown outcome-unknown' };
    const isParked = async (): Promise<boolean> => isDeepStrictEqual(await becameOf('sick'), parked);
    const aborts = await bench.abortsUntil(points.join(), isParked);
    assert.match(bench.lastWords, /JavaScript heap out of memory/);
    // What was in hand beside another was found out in fewer ends of its own.
    assert.ok(aborts >= 2 + points.length && aborts <= 3 * points.length, `${aborts}`);
    // On a slow machine the starts take so long that its tick is late.
    const goesOn = async (): Promise<boolean> => {
      const said = JSON.stringify(await becameOf('well'));
      return /"sync":"applied","tick":"(?:fired|skipped-late)","call":"refused not-sent"/.test(said);
    };
    assert.ok(await bench.reaches(goesOn), JSON.stringify(await becameOf('well')));
    const hints = await bench.parkedBy();
    for (const hint of [/^svc repo sync sync-sick$/, /^svc event replay /, /whether it arrived$/])
      assert.ok(
        hints.some((one) => hint.test(one)),
        hints.join('\n'),
      );
  });

  it('is not brought about by a tree, however large: four thousand agents are applied', { skip: !isLong }, async () => {
    const { api } = (await bench.start()) ?? assert.fail(bench.log());
    const body = { name: 'large', path: await folderOf('large', 4_000, 3_000) };
    assert.equal((await api('POST', 'P/repositories', body)).status, 201);
    assert.ok(await bench.reaches(async () => (await lastRun('large')) === 'applied'));
  });
});
