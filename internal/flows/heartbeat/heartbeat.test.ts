import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { after, before, beforeEach, test } from 'node:test';
import { createHash } from 'node:crypto';
import { sha256 } from '../../base/hash.ts';
import { listSchedules } from '../../adapters/store/resources/schedules.ts';
import { connectionsMax } from '../../adapters/store/store.ts';
import { startTestDaemon } from '../../base/testkit/daemon.ts';
import { isWithin } from '../../base/testkit/parsing.ts';
import { agentsTree, type Bench, createBench, joinBench, onCron } from '../sync/apply-testkit.ts';
import { gateOf } from '../in-hand.ts';
import { fireDue, tick } from './heartbeat.ts';

let bench: Bench;
before(async () => {
  bench = await createBench();
});
after(() => bench.close());

const start = '2026-11-21T11:59:30.000Z';
const at = (secondsAfterNoon: number): string =>
  new Date(Date.parse('2026-11-21T12:00:00Z') + secondsAfterNoon * 1_000).toISOString();
const running = new AbortController().signal;

/** One agent, ticking every minute, from half a minute before noon. */
beforeEach(async () => {
  bench.setNow(start);
  await bench.apply(agentsTree({}));
  await bench.db.query(`delete from svc.events where key like 'heartbeat.%'`);
  await bench.apply(agentsTree({ minutely: { triggers: [onCron('* * * * *')] } }));
});

async function fireAt(secondsAfterNoon: number, on: Bench = bench) {
  on.setNow(at(secondsAfterNoon));
  return fireDue(on.ctx, running);
}

interface Tick {
  readonly key: string;
  readonly payload: { trigger: string; heartbeat: { [field: string]: unknown } };
  readonly hash: string;
}
async function ticks(): Promise<Tick[]> {
  const { rows } = await bench.db.query<{ key: string; payload: Buffer; hash: string }>(
    `select e.key, b.payload, encode(e.dedup_hash, 'hex') as hash
       from svc.events e join svc.event_bodies b on b.event_id = e.id
      where e.key like 'heartbeat.%' order by e.seq`,
  );
  return rows.map((row) => ({ ...row, payload: JSON.parse(row.payload.toString()) as Tick['payload'] }));
}
const times = async (): Promise<unknown[]> => (await ticks()).map((one) => one.payload.heartbeat['scheduledAt']);
const routed = (): Promise<unknown> => bench.db.query(`update svc.events set router_status = 'routed'`);

async function schedule() {
  const [row] = await listSchedules(bench.db, bench.projectId, { limit: 10 });
  assert.ok(row);
  return row;
}

test('a tick is an event under the key, payload and deduplication of the spec, and asks for its routing', async () => {
  const { rows } = await bench.db.query<{ id: string }>('select id from svc.agents');
  const agentId = rows[0]?.id ?? '';
  await bench.db.query('delete from graphile_worker._private_jobs');
  assert.deepEqual(await fireAt(1), { fired: 1, 'skipped-late': 0, 'skipped-overlap': 0, failed: 0, deleted: 0 });
  const scheduleId = `heartbeat-${agentId}-0`;
  const heartbeat = { scheduleId, agentResourceId: agentId, triggerOrdinal: 0, scheduledAt: at(0) };
  assert.deepEqual(await ticks(), [
    {
      key: `heartbeat.${agentId}.0`,
      payload: { trigger: 'heartbeat', heartbeat },
      hash: sha256(`heartbeat\0${scheduleId}:${at(0)}`),
    },
  ]);
  const jobs = await bench.db.query<{ payload: { projects: string[] } }>(
    `select payload from graphile_worker._private_jobs j
       join graphile_worker._private_tasks t on t.id = j.task_id where t.identifier = 'event.route'`,
  );
  assert.deepEqual(
    jobs.rows.map((job) => job.payload.projects),
    [[bench.projectId]],
  );
  const { lastAt, lastStatus, nextAt } = await schedule();
  assert.deepEqual([lastAt, lastStatus, nextAt], [new Date(at(0)), 'fired', new Date(at(60))]);
  assert.deepEqual((await fireAt(2)).fired, 0, 'once');
});

test('a tick is fired while other work of the daemon has all connections that it may have but one', async () => {
  const over = Promise.withResolvers<void>();
  const begun: Promise<void>[] = [];
  const others = Array.from({ length: connectionsMax.main - 2 }, () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    begun.push(promise);
    return bench.ctx.db.tx(async (tx) => {
      await tx.query('select 1');
      resolve();
      await over.promise;
    });
  });
  await Promise.all(begun);
  try {
    assert.equal((await fireAt(1)).fired, 1);
  } finally {
    over.resolve();
    await Promise.all(others);
  }
});

test('down for 59 seconds over a tick fires it once with its own time, also at the edge; for 61 it does not', async () => {
  for (const [down, status] of [
    [59, 'fired'],
    [60, 'fired'],
    [61, 'skipped-late'],
  ] as const) {
    bench.setNow(start);
    await bench.apply(agentsTree({}));
    await bench.db.query(`delete from svc.events where key like 'heartbeat.%'`);
    await bench.apply(agentsTree({ hourly: { triggers: [onCron('0 * * * *')] } }));
    await fireAt(down);
    await fireAt(down + 1);
    assert.deepEqual(await times(), status === 'fired' ? [at(0)] : [], `${down} s`);
    const { lastAt, lastStatus, nextAt } = await schedule();
    assert.deepEqual([lastAt, lastStatus, nextAt], [new Date(at(0)), status, new Date(at(3_600))]);
  }
});

test('of many ticks missed, those within the window fire, each with its own time, and the others are not counted up', async () => {
  const done = await fireAt(86_400 + 30);
  assert.deepEqual([done.fired, done['skipped-late']], [1, 1]);
  assert.deepEqual(await times(), [at(86_400)]);
  await routed();
  // Exactly a minute down, and a tick at either end of it: the second meets the first one's dispatch.
  const both = await fireAt(86_400 + 120);
  assert.deepEqual([both.fired, both['skipped-overlap']], [1, 1]);
  assert.deepEqual(await times(), [86_400, 86_460].map(at));
});

test('a tick is skipped while the routing of the last one that fired has not ended, however many that are', async () => {
  await fireAt(0);
  for (const minute of [1, 2, 3]) {
    assert.equal((await fireAt(minute * 60))['skipped-overlap'], 1);
    const { lastAt, lastStatus, skipped } = await schedule();
    assert.deepEqual([lastAt, lastStatus, skipped], [new Date(at(minute * 60)), 'skipped-overlap', minute]);
  }
  await routed();
  assert.equal((await fireAt(240)).fired, 1);
  assert.equal((await schedule()).skipped, 0);
  assert.deepEqual(await times(), [at(0), at(240)]);
  for (const ended of ['unmatched', 'failed']) {
    await bench.db.query('update svc.events set router_status = $1::text', [ended]);
    assert.equal((await fireAt(ended === 'failed' ? 360 : 300)).fired, 1, ended);
  }
});

test('an apply that edits cron moves the next time; one that deletes it takes it away', async () => {
  await fireAt(0);
  await routed();
  bench.setNow(at(10));
  await bench.apply(agentsTree({ minutely: { triggers: [onCron('30 13 * * *', 'Europe/Berlin')] } }));
  const edited = await schedule();
  assert.deepEqual([edited.nextAt, edited.lastStatus], [new Date('2026-11-21T12:30:00Z'), 'fired']);
  assert.equal((await fireAt(60)).fired, 0);
  assert.equal((await fireAt(1_800)).fired, 1);
  await bench.apply(agentsTree({ minutely: { triggers: [] } }));
  assert.deepEqual(await listSchedules(bench.db, bench.projectId, { limit: 10 }), []);
  assert.equal((await fireAt(90_000)).fired, 0);
});

test('an apply that edits cron lets whoever sleeps know, and ticking does not', async () => {
  const place = await createBench();
  /** What is told goes out after its commit, over connections that have sent all of it when they are closed. */
  const whole = async <T>(act: (joined: Bench) => Promise<T>): Promise<T> => {
    const joined = joinBench(place);
    try {
      joined.setNow(start);
      return await act(joined);
    } finally {
      await joined.close();
    }
  };
  const minutely = (cron: string) => agentsTree({ minutely: { triggers: [onCron(cron)] } });
  try {
    await whole((joined) => joined.apply(minutely('* * * * *')));
    const told: (string | null)[] = [];
    await place.db.listen('svc_schedules', (payload) => void told.push(payload));
    assert.equal((await whole((joined) => fireAt(0, joined))).fired, 1);
    await whole((joined) => joined.apply(minutely('30 13 * * *')));
    await place.db.query(`select pg_notify('svc_schedules', 'last')`);
    for (let tries = 0; !told.includes('last') && tries < 6_000; tries += 1) await sleep(10);
    assert.deepEqual(told, ['', 'last']);
  } finally {
    await place.close();
  }
});

test('two daemons on the same schedules fire each tick once', async () => {
  await bench.apply(agentsTree({}));
  const triggers = Array.from({ length: 50 }, () => onCron('* * * * *'));
  await bench.apply(
    agentsTree(Object.fromEntries(Array.from({ length: 60 }, (_, index) => [`a${index}`, { triggers }]))),
  );
  const other = joinBench(bench);
  let minutes = 0;
  try {
    // Until both took part in two of them: which of the two gets its turn when is the machine's affair.
    for (let shared = 0; shared < 2; minutes += 1) {
      assert.ok(minutes < 60, 'one of them never takes part');
      const done = await Promise.all([fireAt(minutes * 60, bench), fireAt(minutes * 60, other)]);
      assert.equal(done[0].fired + done[1].fired, 3_000);
      if (done.every((one) => one.fired < 3_000)) shared += 1;
      await routed();
    }
  } finally {
    await other.close();
  }
  const all = await ticks();
  assert.equal(new Set(all.map((one) => `${one.key} ${one.payload.heartbeat['scheduledAt']}`)).size, minutes * 3_000);
  assert.equal(all.length, minutes * 3_000);
});

test('an agent deleted between claim and fire: the tick stands, and the schedule goes with its agent', async () => {
  const { id } = { id: (await schedule()).scheduleId };
  bench.setNow(at(1));
  const hash = createHash('sha256')
    .update(`heartbeat\0${id}:${at(0)}`)
    .digest();
  let firing: Promise<unknown> = Promise.resolve();
  let deleting: Promise<unknown> = Promise.resolve();
  const blocked = async (count: number): Promise<void> => {
    for (;;) {
      const { rows } = await bench.db.query<{ n: number }>(
        `select count(*)::int as n from pg_stat_activity
          where datname = current_database() and wait_event_type = 'Lock'`,
      );
      if ((rows[0]?.n ?? 0) >= count) return;
    }
  };
  await assert.rejects(
    bench.db.tx(async (tx) => {
      // An event of the same hash that is not committed holds the tick up behind its claim.
      await tx.query(
        `insert into svc.events (id, project_id, key, dedup_hash)
         values (gen_random_uuid(), $1::uuid, 'heartbeat.other', $2::bytea)`,
        [bench.projectId, hash],
      );
      firing = fireDue(bench.ctx, running);
      await blocked(1);
      deleting = bench.db.query('delete from svc.agents');
      await blocked(2);
      throw new Error('rolled back');
    }),
    /rolled back/,
  );
  assert.deepEqual(await firing, { fired: 1, 'skipped-late': 0, 'skipped-overlap': 0, failed: 0, deleted: 0 });
  await deleting;
  assert.deepEqual(await times(), [at(0)]);
  const left = await bench.db.query('select from svc.schedules');
  assert.equal(left.rowCount, 0);
});

test('a tick whose agent no longer exists deletes its own schedule', async () => {
  // As a restore by hand may leave it.
  await bench.db.tx(async (tx) => {
    await tx.query('set local session_replication_role = replica');
    await tx.query('delete from svc.agents');
  });
  assert.deepEqual(await fireAt(1), { fired: 0, 'skipped-late': 0, 'skipped-overlap': 0, failed: 0, deleted: 1 });
  assert.equal((await bench.db.query('select from svc.schedules')).rowCount, 0);
  assert.deepEqual(await times(), []);
});

test('a schedule in a zone that this runtime does not know is failed, and keeps no tick of others', async () => {
  await bench.apply(
    agentsTree({
      minutely: { triggers: [onCron('* * * * *')] },
      strange: { triggers: [onCron('* * * * *')] },
    }),
  );
  // As a daemon with a later zone database has stored it.
  await bench.db.query(
    `update svc.schedules s set timezone = 'Nowhere/Newly' from svc.agents a where a.id = s.agent_id and a.name = 'strange'`,
  );
  const done = await fireAt(0);
  assert.deepEqual([done.fired, done.failed], [1, 1]);
  const { rows } = await bench.db.query<{ status: string; reason: string }>(
    `select router_status as status, reason from svc.events where key like 'heartbeat.%' order by router_status`,
  );
  assert.deepEqual(rows[0], { status: 'failed', reason: '"Nowhere/Newly" is not a time zone' });
  await routed();
  const next = await fireAt(60);
  assert.deepEqual([next.fired, next.failed], [1, 0], 'it stands still until somebody replays it');
});

test('what is tried alone comes one by one, and waits for nothing else that is: ticks of others wait for neither', async () => {
  await bench.apply(
    agentsTree({ minutely: { triggers: [onCron('* * * * *')] }, other: { triggers: [onCron('* * * * *')] } }),
  );
  await bench.db.query(`insert into svc.suspects (kind, id, ends) select 'tick', id, 2 from svc.schedules`);
  const slow = Promise.withResolvers<void>();
  const gate = gateOf(bench.ctx);
  const trying = gate.alone(() => slow.promise);
  try {
    // Until others are let in beside it.
    (await gate.enter())();
    const begun = performance.now();
    assert.equal((await fireAt(0)).fired, 0);
    const ms = performance.now() - begun;
    assert.ok(isWithin(ms, 10_000), `after ${Math.round(ms)} ms`);
  } finally {
    slow.resolve();
    await trying;
  }
  assert.equal((await fireAt(1)).fired, 1);
  assert.equal((await fireAt(2)).fired, 1);
  assert.deepEqual(await times(), [at(0), at(0)]);
});

test('an archived project does not tick, and nobody waits for it', async () => {
  await bench.db.query('update svc.projects set archived_at = now()');
  try {
    bench.setNow(at(30));
    assert.equal(await tick(bench.ctx, running), 5_000);
    assert.deepEqual(await times(), []);
  } finally {
    await bench.db.query('update svc.projects set archived_at = null');
  }
});

test('the next look is at the next tick, and within seconds at most', async () => {
  bench.setNow(at(-2.5));
  assert.equal(await tick(bench.ctx, running), 2_500);
  bench.setNow(at(-20));
  assert.equal(await tick(bench.ctx, running), 5_000);
  bench.setNow(at(0));
  assert.equal(await tick(bench.ctx, running), 5_000);
  assert.deepEqual(await times(), [at(0)]);
});

test('a daemon sleeps until a tick is due, and fires one that an apply declares while it sleeps', async () => {
  // A clock that stands still a second and a half before a minute until the schedule was seen, and goes on from there.
  const real = (): number => performance.timeOrigin + performance.now();
  const stand = Math.ceil(real() / 60_000) * 60_000 - 1_500;
  let released: number | undefined;
  const now = (): Date => new Date(stand + (released === undefined ? 0 : performance.now() - released));
  const daemon = await startTestDaemon({ runtime: { now } });
  try {
    const content = JSON.stringify({
      name: 'beat',
      harness: 'harness-a',
      environment: { name: 'default', image: { kind: 'preset', name: 'base' } },
      triggers: [{ kind: 'heartbeat', cron: '* * * * *', routing: { kind: 'spawn' } }],
    });
    const files = [{ path: '.svc/agents/beat.yaml', content }];
    const applied = await daemon.api('POST', 'P/apply', { files });
    assert.equal(applied.status, 200, JSON.stringify(applied.body));
    const listed = async () => (await daemon.api('GET', 'P/schedules')).body['items']?.[0];
    const declared = await listed();
    assert.deepEqual(
      [declared?.['lastStatus'], declared?.['nextAt']],
      [null, new Date(stand + 1_500).toISOString()],
      'not before its time',
    );
    released = performance.now();
    let shown = declared;
    // One that sleeps past it by a minute skips it.
    while (shown?.['lastStatus'] === null) shown = await listed();
    const due = Date.parse(String(declared?.['nextAt']));
    assert.deepEqual([shown?.['lastStatus'], shown?.['lastAt']], ['fired', declared?.['nextAt']]);
    assert.equal(Date.parse(String(shown?.['nextAt'])), due + 60_000);
    while (shown?.['lastSessionId'] === null) shown = await listed();
    const started = await daemon.api('GET', `P/sessions/${String(shown?.['lastSessionId'])}`);
    assert.deepEqual([started.status, started.body['agent']], [200, 'beat']);
  } finally {
    await daemon.stop();
  }
});

test('a clock that was far ahead for a while puts no tick off, and none is told twice', async () => {
  const lookAt = async (secondsAfterNoon: number) => {
    bench.setNow(at(secondsAfterNoon));
    await tick(bench.ctx, running);
    await routed();
  };
  await lookAt(1);
  const ahead = 365 * 86_400;
  await lookAt(ahead + 30);
  await lookAt(ahead + 61);
  await lookAt(10);
  assert.deepEqual((await schedule()).nextAt, new Date(at(60)));
  await lookAt(61);
  // Another one that comes up when the clock is right again; and what has ticked already ticks no more.
  await lookAt(-3_600);
  assert.deepEqual((await schedule()).nextAt, new Date(at(-3_540)));
  await lookAt(1);
  await lookAt(61);
  assert.deepEqual(await times(), [at(0), at(ahead), at(ahead + 60), at(60)]);
});
