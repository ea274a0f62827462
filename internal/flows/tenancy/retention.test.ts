import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, test } from 'node:test';
import { recordEvents } from '../../adapters/store/events/events.ts';
import { bodyWeeks } from '../../adapters/store/operations/retention.ts';
import { retentionSettings } from '../../base/config/retention-settings.ts';
import { timeOrderedId } from '../../base/runtime.ts';
import { type Bench, createBench, joinBench } from '../sync/apply-testkit.ts';
import { makeRoom, prune } from './tenancy.ts';

let bench: Bench;
before(async () => {
  bench = await createBench();
});
after(() => bench.close());

const running = new AbortController().signal;
const dayMs = 24 * 60 * 60 * 1_000;
/** A Monday far from the real clock, in whose weeks the migration has made no partition. */
const start = Date.parse('2031-01-06T00:00:00Z');
const setDay = (day: number): void => bench.setNow(new Date(start + day * dayMs).toISOString());

async function dropWeeks(): Promise<void> {
  for (const week of await bodyWeeks(bench.db)) {
    await bench.db.query(`drop table svc.event_bodies_${week.toISOString().slice(0, 10).replaceAll('-', '')}`);
  }
}
beforeEach(async () => {
  await bench.db.query(
    'truncate svc.events, svc.event_bodies, svc.sessions, svc.messages, svc.inbox, svc.checks, svc.event_routes cascade',
  );
  await dropWeeks();
  setDay(0);
});

/** Events recorded on a day, routed; answers with their ids. */
async function record(day: number, count = 1, status = 'routed'): Promise<string[]> {
  setDay(day);
  const events = Array.from({ length: count }, () => ({
    id: timeOrderedId(bench.ctx.runtime),
    projectId: bench.projectId,
    key: 'webhook.received',
    dedupHash: null,
    raw: Buffer.from('{}'),
    payload: null,
    receivedAt: bench.ctx.runtime.now(),
  }));
  await recordEvents(bench.db, events, { routing: false });
  const ids = events.map((event) => event.id);
  await bench.db.query('update svc.events set router_status = $1::text where id = any($2::uuid[])', [status, ids]);
  return ids;
}

const nothing = {
  events: 0,
  weeks: 0,
  sessions: 0,
  checks: 0,
  reconciles: 0,
  revisions: 0,
  usage: 0,
  setups: 0,
  signins: 0,
};
const count = async (table: string): Promise<number> =>
  (await bench.db.query<{ n: number }>(`select count(*)::int as n from ${table}`)).rows[0]?.n ?? -1;
const weeks = async (): Promise<string[]> => (await bodyWeeks(bench.db)).map((week) => week.toISOString().slice(0, 10));

async function addSession(event: string | null, endedDay?: number): Promise<string> {
  const id = randomUUID();
  const ended = endedDay === undefined ? null : new Date(start + endedDay * dayMs);
  await bench.db.query(
    `insert into svc.sessions (id, project_id, agent_id, agent, revision, origin, event_id, state, display_title,
       created_at, active_at, ended_at)
     values ($1::uuid, $2::uuid, gen_random_uuid(), 'a', 1, 'manual', $3::uuid, $4::text, 't', now(), now(), $5::timestamptz)`,
    [id, bench.projectId, event, ended === null ? 'idle' : 'archived', ended],
  );
  return id;
}
async function tell(session: string, event: string): Promise<void> {
  await bench.db.query(
    `with m as (insert into svc.messages (session_id, role, kind, text, at)
       values ($1::uuid, 'user', 'prompt', 'x', now()) returning session_id, seq)
     insert into svc.inbox (session_id, seq, mode, sender, event_id, state)
       select session_id, seq, 'defer', 'event', $2::uuid, 'done' from m`,
    [session, event],
  );
}

test('weeks are made ahead, once, also by two daemons at once; bodies stand in theirs', async () => {
  const other = joinBench(bench);
  setDay(0);
  other.setNow(new Date(start).toISOString());
  const made = await Promise.all([makeRoom(bench.ctx), makeRoom(other.ctx)]);
  await other.close();
  await makeRoom(bench.ctx);
  assert.ok(made[0] + made[1] <= 3);
  assert.deepEqual(await weeks(), ['2031-01-06', '2031-01-13', '2031-01-20']);
  assert.equal(await makeRoom(bench.ctx), 0);
  setDay(6.999);
  assert.equal(await makeRoom(bench.ctx), 0);
  setDay(7);
  assert.equal(await makeRoom(bench.ctx), 1);
  await record(6.999);
  await record(7);
  assert.equal(await count('only svc.event_bodies_20310106'), 1);
  assert.equal(await count('only svc.event_bodies_20310113'), 1);
  assert.equal(await count('svc.event_bodies_rest'), 0);
});

test('a week that has bodies in the default partition gets none, and the next ones do', async () => {
  await record(1);
  assert.equal(await makeRoom(bench.ctx), 2);
  assert.deepEqual(await weeks(), ['2031-01-13', '2031-01-20']);
});

test('what a week has that was cut elsewhere than at Monday, UTC, stays as long as any, and no other week goes without', async () => {
  // As an earlier release made it in a zone whose clocks changed: an hour late, up to an hour late.
  const hour = (day: number): string =>
    `${(start + day * dayMs + 3_600_000).toString(16).padStart(12, '0').padEnd(32, '0')}`;
  await bench.db.query(
    `create table svc.event_bodies_20310113 partition of svc.event_bodies for values from ('${hour(7)}') to ('${hour(14)}')`,
  );
  try {
    assert.equal(await makeRoom(bench.ctx), 1);
    await record(7.5);
    await record(14.02);
    assert.equal(await count('only svc.event_bodies_20310113'), 2);
    setDay(7 + 37);
    assert.deepEqual(await prune(bench.ctx, running), { ...nothing, events: 1, weeks: 1 });
    assert.equal(await count('svc.event_bodies'), 1);
  } finally {
    await bench.db.query('drop table svc.event_bodies_20310113');
  }
});

test('events go a week at a time, at the earliest after their days; an empty week is dropped', async () => {
  await makeRoom(bench.ctx);
  await record(0, 3);
  await record(6.9, 2_500);
  await record(7, 2);
  await bench.db.query(
    `insert into svc.event_routes (event_id, agent_id, ordinal, agent, decision)
       select id, gen_random_uuid(), 0, 'a', 'spawn' from svc.events`,
  );
  setDay(36.9);
  assert.deepEqual(await prune(bench.ctx, running), { ...nothing });
  setDay(37);
  assert.deepEqual(await prune(bench.ctx, running), { ...nothing, events: 2_503, weeks: 1 });
  assert.deepEqual(
    [await count('svc.events'), await count('svc.event_bodies'), await count('svc.event_routes')],
    [2, 2, 2],
  );
  assert.deepEqual(await weeks(), ['2031-01-13', '2031-01-20']);
  setDay(400);
  await prune(bench.ctx, running);
  assert.deepEqual([await count('svc.events'), await count('svc.event_bodies')], [0, 0]);
  assert.deepEqual(await weeks(), []);
});

test('an event that is pending, or that a live session was told of, stays with its body for as long as that', async () => {
  await makeRoom(bench.ctx);
  const [pending = ''] = await record(1, 1, 'pending');
  const [spawned = '', told = '', toldEnded = ''] = await record(1, 3);
  await record(1, 10);
  const live = await addSession(spawned);
  await tell(live, told);
  await tell(await addSession(null, 2), toldEnded);
  setDay(60);
  const done = await prune(bench.ctx, running);
  assert.deepEqual([done.events, done.weeks], [11, 2]);
  const left = await bench.db.query<{ id: string }>('select id from svc.events order by seq');
  assert.deepEqual(
    left.rows.map((row) => row.id),
    [pending, spawned, told],
  );
  assert.equal(await count('svc.event_bodies'), 3);
  assert.deepEqual(await weeks(), ['2031-01-06']);
  await bench.db.query(`update svc.sessions set state = 'archived', ended_at = now() where live`);
  await bench.db.query(`update svc.events set router_status = 'unmatched'`);
  await prune(bench.ctx, running);
  assert.deepEqual([await count('svc.events'), await count('svc.event_bodies'), (await weeks()).length], [0, 0, 0]);
});

test('events whose bodies stand in the default partition go one by one', async () => {
  await record(1, 5);
  setDay(60);
  assert.equal((await prune(bench.ctx, running)).events, 5);
  assert.equal(await count('svc.event_bodies_rest'), 0);
});

test('a transaction that records or reads does not wait for a partition: the change waits, gives up and comes back', async () => {
  await makeRoom(bench.ctx);
  await record(1, 2);
  setDay(60);
  await bench.db.tx(async (tx) => {
    await tx.query(`insert into svc.event_bodies (event_id, raw) values (gen_random_uuid(), '')`);
    const other = joinBench(bench);
    other.setNow(new Date(start + 60 * dayMs).toISOString());
    const pruning = prune(other.ctx, running);
    const done = await pruning;
    assert.deepEqual([done.events, done.weeks], [2, 0]);
    await other.close();
  });
  assert.equal(await count('svc.event_bodies_20310106'), 2, 'bodies wait for their week to go');
  assert.equal((await prune(bench.ctx, running)).weeks, 3);
});

test('sessions go with their transcripts once they have ended for long; live ones and holders of a binding stay', async () => {
  const old = await addSession(null, 1);
  await tell(old, randomUUID());
  await addSession(null, 50);
  const holder = await addSession(null, 1);
  await bench.db.query(
    `insert into svc.bindings (id, project_id, agent_id, agent, session_id, target_type, target_key, lifecycle,
       continuity, created_at, updated_at)
     values (gen_random_uuid(), $1::uuid, gen_random_uuid(), 'a', $2::uuid, 'codehost.issue', 'k', 'manual', 'agent', now(), now())`,
    [bench.projectId, holder],
  );
  await addSession(null);
  setDay(91.5);
  assert.equal((await prune(bench.ctx, running)).sessions, 1);
  assert.deepEqual([await count('svc.sessions'), await count('svc.messages'), await count('svc.inbox')], [3, 0, 0]);
});

test('days that reach back before any computer counted keep what there is, and no step fails at them', async () => {
  const longest = { eventsDays: 36_500, sessionsDays: 36_500, reconcilesDays: 36_500, usageDays: 36_500 };
  const failed: object[] = [];
  const log = Object.assign(Object.create(bench.ctx.runtime.log), { error: (fields: object) => failed.push(fields) });
  await record(0);
  await addSession(null, 1);
  setDay(1_000);
  const config = { ...bench.ctx.config, file: { retention: longest } };
  const kept = await prune({ ...bench.ctx, config, runtime: { ...bench.ctx.runtime, log } }, running);
  assert.deepEqual([kept, failed], [nothing, []]);
});

test('of the runs of a repository the latest stay, however old they are', async () => {
  const owner = await bench.addRepository('r');
  await bench.db.query(
    `insert into svc.reconciles (id, project_id, repository_id, reason, status, started_at, finished_at)
       select gen_random_uuid(), $1::uuid, $2::uuid, 'poll', 'applied', $3::timestamptz, $3::timestamptz
         from generate_series(1, 130)`,
    [bench.projectId, owner.repositoryId, new Date(start)],
  );
  setDay(89);
  assert.equal((await prune(bench.ctx, running)).reconciles, 0);
  setDay(91);
  assert.equal((await prune(bench.ctx, running)).reconciles, 30);
  // As runs that were held for months and let go lately: more of them than a slice looks at, and what is behind goes.
  await bench.db.query(
    `insert into svc.reconciles (id, project_id, repository_id, reason, status, started_at, finished_at)
       select gen_random_uuid(), $1::uuid, $2::uuid, 'poll', 'applied', $3::timestamptz, $3::timestamptz
         from generate_series(1, 130)`,
    [bench.projectId, owner.repositoryId, new Date(start)],
  );
  await bench.db.query(
    `update svc.reconciles set finished_at = $1::timestamptz
      where id = any(array(select id from svc.reconciles order by seq limit 60))`,
    [new Date(start + 90 * dayMs)],
  );
  assert.equal((await prune(bench.ctx, running)).reconciles, 70);
});

test('calls and their days go after their days, revisions that no live session runs on behind the newest hundred', async () => {
  const [agent, gone] = [randomUUID(), randomUUID()];
  await bench.db.query(
    `insert into svc.agents (id, project_id, name, revision, spec, spec_hash, source) values ($1::uuid, $2::uuid, 'much', 200, '{}', '', '{}')`,
    [agent, bench.projectId],
  );
  await bench.db.query(
    `insert into svc.agent_revisions (agent_id, project_id, revision, spec, spec_hash, created_at)
     select a, $3::uuid, n, '{}', '', $4::timestamptz from unnest(array[$1::uuid, $2::uuid]) as a, generate_series(1, 200) as n`,
    [agent, gone, bench.projectId, new Date(start)],
  );
  const live = await addSession(null);
  // More revisions in use than a slice looks at: what is behind them goes.
  for (let revision = 2; revision <= 60; revision += 1) await addSession(null);
  await bench.db.query(
    `update svc.sessions s set agent_id = $1::uuid, revision = n
       from (select id, row_number() over (order by id) as n from svc.sessions) numbered where numbered.id = s.id`,
    [agent],
  );
  await bench.db.query(
    `insert into svc.usage_ledger (request_id, project_id, agent_id, agent_name, session_id, at, provider, model,
       input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, estimated)
     select gen_random_uuid(), $1::uuid, $2::uuid, 'much', $3::uuid, $4::timestamptz + make_interval(days => n), 'provider-a', 'm',
       1, 1, 0, 0, false from generate_series(0, 9) as n`,
    [bench.projectId, agent, live, new Date(start)],
  );
  await bench.db.query(
    `insert into svc.usage_days (agent_id, day, project_id, calls, unpriced_calls, input_tokens, output_tokens,
       cache_read_tokens, cache_write_tokens, cost_usd)
     select $2::uuid, $3::date + n, $1::uuid, 1, 0, 1, 1, 0, 0, 0 from generate_series(0, 9) as n`,
    [bench.projectId, agent, new Date(start)],
  );
  setDay(89);
  assert.deepEqual(await prune(bench.ctx, running), nothing);
  setDay(404.5);
  const done = await prune(bench.ctx, running);
  assert.deepEqual([done.revisions, done.usage], [240, 9]);
  const left = await bench.db.query<{ n: number; least: number }>(
    `select count(*)::int as n, min(revision)::int as least from svc.agent_revisions where agent_id = any($1::uuid[])`,
    [[agent, gone]],
  );
  assert.deepEqual(left.rows, [{ n: 160, least: 1 }]);
  assert.deepEqual([await count('svc.usage_ledger'), await count('svc.usage_days')], [5, 6]);
});

test('a long transcript goes a part at a time, and its session after it', async () => {
  const long = await addSession(null, 1);
  await bench.db.query(
    `insert into svc.messages (session_id, role, kind, text, at)
       select $1::uuid, 'assistant', 'text', 'x', now() from generate_series(1, 11_000)`,
    [long],
  );
  await bench.db.query(
    `insert into svc.usage_sessions (session_id, project_id, calls, unpriced_calls, input_tokens, output_tokens,
       cache_read_tokens, cache_write_tokens, cost_usd) values ($1::uuid, $2::uuid, 1, 0, 1, 1, 0, 0, 0)`,
    [long, bench.projectId],
  );
  setDay(92);
  assert.equal((await prune(bench.ctx, running)).sessions, 1);
  assert.deepEqual([await count('svc.messages'), await count('svc.usage_sessions')], [0, 0]);
});

test('what opened a browser or a command line goes a day after its time, whoever signs in and however much there is', async () => {
  const begin = (many: number) =>
    bench.db.query(
      `with made as (insert into svc.device_grants (device_code_sha256, user_code_sha256, host, address, interval_seconds,
           created_at, expires_at)
         select sha256(id::text::bytea), sha256(id::text::bytea), 'h', 'a', 5, $2::timestamptz, $2::timestamptz + interval '10 minutes'
         from (select gen_random_uuid() as id from generate_series(1, $1::int)) n returning device_code_sha256, expires_at)
       insert into svc.signin_attempts (cookie_sha256, method, next, expires_at)
         select device_code_sha256, 'm', '/', expires_at from made`,
      [many, bench.ctx.runtime.now()],
    );
  await begin(2_401);
  setDay(1);
  await begin(1);
  assert.equal((await prune(bench.ctx, running)).signins, 0);
  setDay(1.01);
  assert.equal((await prune(bench.ctx, running)).signins, 2_401);
  assert.deepEqual([await count('svc.device_grants'), await count('svc.signin_attempts')], [1, 1]);
});

test('a step that fails is told, and stops no other', async () => {
  await record(1, 4);
  await addSession(null, 1);
  await bench.db.query(
    `create function svc.not_today() returns trigger language plpgsql as $$ begin raise exception 'not today'; end $$;
     create trigger not_today before delete on svc.sessions for each row execute function svc.not_today()`,
  );
  setDay(120);
  const done = await prune(bench.ctx, running);
  assert.deepEqual([done.sessions, done.events], [0, 4]);
  await bench.db.query('drop function svc.not_today() cascade');
  assert.equal((await prune(bench.ctx, running)).sessions, 1);
});

test('what cannot be used as a setting is named', () => {
  assert.deepEqual(retentionSettings({}), {
    eventsDays: 30,
    sessionsDays: 90,
    reconcilesDays: 90,
    usageDays: 400,
  });
  assert.throws(() => retentionSettings({ retention: { eventsDays: 0 } }), /retention\.eventsDays/);
  assert.throws(() => retentionSettings({ retention: { days: 3 } }), /retention/);
});
