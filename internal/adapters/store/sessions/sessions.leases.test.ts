import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';
import pg from 'pg';
import { setTimeout as sleep } from 'node:timers/promises';
import { createTestDatabase, silent, insertProject, type TestDatabase } from '../../../base/testkit/postgres.ts';
import { openDatabase, type Sql } from '../store.ts';
import { countUncleanEnds, noteInHand, turnSuspect } from '../operations/in-hand.ts';
import { removeDeadDaemons, removeDaemon } from '../operations/jobs.ts';
import { type Lease, renewLeases, heldLeases, suspendLapsed } from './hosts.ts';
import { offerHold, putHold, runningTurn, takeOverSessions } from './holds.ts';
import { askPermission, closePermission, decidePermission } from './permissions.ts';
import { claimSessions } from './places.ts';
import { sessionState } from './session-reads.ts';
import { askStop, beginTurn, endTurn, interruptsBeside, waitingMessages } from './turns.ts';

let t: TestDatabase;
const projectId = randomUUID();
const agentId = randomUUID();
before(async () => {
  t = await createTestDatabase();
  await insertProject(t.db, projectId);
  await t.db.query(
    `insert into svc.agent_revisions (agent_id, project_id, revision, spec, spec_hash)
     values ($1::uuid, $2::uuid, 1, '{"harness": "harness-a"}', '')`,
    [agentId, projectId],
  );
});
after(() => t.close());

async function queue(count: number): Promise<void> {
  await t.db.query(
    `with made as (
       insert into svc.sessions (id, project_id, agent_id, agent, revision, origin, display_title, created_at, active_at)
       select gen_random_uuid(), $1::uuid, $2::uuid, 'a', 1, 'manual', 't', now(), now() from generate_series(1, $3::int)
       returning id
     ), said as (
       insert into svc.messages (session_id, role, kind, text, at) select id, 'user', 'prompt', 'hello', now() from made
       returning session_id, seq
     )
     insert into svc.inbox (session_id, seq, mode, sender) select session_id, seq, 'interrupt', 'operator' from said`,
    [projectId, agentId, count],
  );
}
const claim = (daemonId: string, limit = 1_000): Promise<Lease[]> =>
  claimSessions(t.db, { daemonId, harnesses: ['harness-a'], home: `${randomUUID()} /here`, limit, now: new Date() });
/** A daemon of the release before: its lease stands on the session alone. */
async function claimAsBefore(daemonId: string, seconds: number): Promise<string> {
  await queue(1);
  const { rows } = await t.db.query<{ id: string }>(
    `update svc.sessions set state = 'running', epoch = epoch + 1, leased_by = $1::uuid,
         lease_until = now() + make_interval(secs => $2::int)
      where id = (select id from svc.sessions where state = 'queued' limit 1) returning id`,
    [daemonId, seconds],
  );
  return rows[0]?.id ?? '';
}
const lapse = (id: string): Promise<unknown> =>
  t.db.query(`update svc.session_leases set until = now() - interval '1 second' where session_id = $1::uuid`, [id]);
const state = async (id: string): Promise<string | undefined> =>
  (await t.db.query<{ state: string }>('select state from svc.sessions where id = $1::uuid', [id])).rows[0]?.state;

test('renewals write a narrow row in place, and leave the sessions alone', async () => {
  await queue(300);
  const daemonId = randomUUID();
  const leases = await claim(daemonId);
  assert.equal(leases.length, 300);
  // One connection, whose counts are told when it is asked to.
  const client = new pg.Client({ connectionString: t.url });
  await client.connect();
  const counts = async (): Promise<{ renewed: number; hot: number; sessions: number }> => {
    await client.query('select pg_stat_force_next_flush()');
    const { rows } = await client.query(
      `select l.n_tup_upd::int as renewed, l.n_tup_hot_upd::int as hot, s.n_tup_upd::int as sessions
         from pg_stat_user_tables l, pg_stat_user_tables s
        where l.relid = 'svc.session_leases'::regclass and s.relid = 'svc.sessions'::regclass`,
    );
    return rows[0];
  };
  try {
    const sql = {
      query: async (text: string, values?: readonly unknown[]) => {
        const { rows, rowCount } = await client.query(text, [...(values ?? [])]);
        return { rows: rows as never[], rowCount: rowCount ?? 0 };
      },
    };
    // What the claim counted is told by the pool's connection in its own time.
    await t.db.query('select pg_stat_force_next_flush()');
    await counts();
    const before = await counts();
    for (let turn = 0; turn < 20; turn += 1) {
      const kept = await renewLeases(sql, daemonId, leases);
      assert.equal(kept.size, 300);
    }
    const now = await counts();
    const renewed = now.renewed - before.renewed;
    assert.equal(renewed, 6_000);
    assert.ok(now.hot - before.hot > 0.75 * renewed, `${now.hot - before.hot} of ${renewed} in place`);
    assert.equal(now.sessions, before.sessions);
  } finally {
    await client.end();
  }
  assert.equal((await renewLeases(t.db, randomUUID(), leases)).size, 0, 'nobody renews what is not his');
  assert.equal(
    (
      await renewLeases(
        t.db,
        daemonId,
        leases.map((one) => ({ ...one, epoch: 7 })),
      )
    ).size,
    0,
  );
  await t.db.query('delete from svc.sessions');
  const { rows } = await t.db.query('select from svc.session_leases');
  assert.equal(rows.length, 0, 'a lease goes with its session');
});

test('leases of this release and of the one before lapse, each by its own', async () => {
  const [mine, theirs] = [randomUUID(), randomUUID()];
  await queue(2);
  const [first, second] = (await claim(mine)) as [Lease, Lease];
  const old = await claimAsBefore(theirs, 20);
  assert.deepEqual(await t.db.tx(suspendLapsed), []);
  await t.db.query(`update svc.sessions set lease_until = now() - interval '1 second' where id = $1::uuid`, [old]);
  await lapse(first.sessionId);
  assert.deepEqual((await t.db.tx(suspendLapsed)).sort(), [first.sessionId, old].sort());
  assert.deepEqual(await t.db.tx(suspendLapsed), []);
  assert.deepEqual([...(await heldLeases(t.db, [first, second]))], [second.sessionId]);
  assert.deepEqual([...(await renewLeases(t.db, mine, [first, second]))], [second.sessionId]);
  // What the release before asks: it takes nothing that is held.
  const { rows } = await t.db.query('select from svc.sessions where leased_by is not null and lease_until < now()');
  assert.equal(rows.length, 0);
});

test('whoever is known to be dead loses its sessions at once, and who is not keeps them', async () => {
  const [dead, alive] = [randomUUID(), randomUUID()];
  await t.db.query('delete from svc.sessions');
  await queue(1);
  const [lost] = (await claim(dead)) as [Lease];
  await queue(1);
  const [kept] = (await claim(alive)) as [Lease];
  await t.db.query(
    `insert into svc.daemons (id, roles, host, pid) select u, '{session}', 'h', 1 from unnest($1::uuid[]) as u`,
    [[dead, alive]],
  );
  await removeDeadDaemons(t.db, randomUUID(), [dead]);
  assert.deepEqual(await t.db.tx(suspendLapsed), [lost.sessionId]);
  // Buried by mistake, by one that knows no narrow leases: some time is left, and the next renewal takes it back.
  await removeDaemon(t.db, alive);
  assert.deepEqual(await t.db.tx(suspendLapsed), []);
  const { rows } = await t.db.query<{ finite: boolean }>(
    `select lease_until < now() + interval '21 seconds' as finite from svc.sessions where id = $1::uuid`,
    [kept.sessionId],
  );
  assert.deepEqual(rows, [{ finite: true }]);
  assert.equal((await renewLeases(t.db, alive, [kept])).size, 1);
  await t.db.query(`update svc.sessions set lease_until = now() - interval '1 second' where lease_until <> 'infinity'`);
  assert.deepEqual(await t.db.tx(suspendLapsed), []);
  assert.equal(await state(kept.sessionId), 'provisioning');
});

test('what somebody stopped does not come back with a host that was lost before it heard of it', async () => {
  await t.db.query('delete from svc.sessions');
  await queue(4);
  const [stopped, cut, died, alone] = (await claim(randomUUID())) as [Lease, Lease, Lease, Lease];
  const turns = new Map<Lease, string>();
  for (const lease of [stopped, cut, died, alone]) {
    const { rows } = await t.db.query<{ seq: number }>(
      `with up as (update svc.sessions set state = 'idle' where id = $1::uuid)
       select seq from svc.inbox where session_id = $1::uuid`,
      [lease.sessionId],
    );
    const turn = { id: randomUUID(), seqs: rows.map(({ seq }) => seq), now: new Date() };
    assert.equal(await beginTurn(t.db, lease, turn), 1);
    turns.set(lease, turn.id);
  }
  for (const { sessionId } of [stopped, died]) assert.equal(await askStop(t.db, sessionId), 1);
  for (const { sessionId } of [stopped, cut]) await lapse(sessionId);
  assert.equal((await t.db.tx(suspendLapsed)).length, 2);
  const left = async ({ sessionId }: Lease): Promise<unknown> => {
    const { rows } = await t.db.query<{ left: unknown }>(
      `select json_build_array(t.state, t.stop_reason, i.state, i.turn_id is not null) as left
         from svc.turns t join svc.inbox i on i.session_id = t.session_id where t.session_id = $1::uuid`,
      [sessionId],
    );
    return rows[0]?.left;
  };
  assert.deepEqual(await left(stopped), ['cancelled', 'cancelled', 'done', true]);
  assert.deepEqual(await left(cut), ['lost', null, 'pending', false]);
  assert.deepEqual([await state(stopped.sessionId), await state(cut.sessionId)], ['idle', 'suspended']);
  // The harness died by itself before its host heard of it.
  const lost = { state: 'lost', stopReason: 'lost', error: 'e', usage: {}, messages: 'pending', reason: null } as const;
  for (const lease of [died, alone]) {
    assert.ok(await endTurn(t.db, lease, { ...lost, id: turns.get(lease) ?? '', now: new Date() }));
  }
  assert.deepEqual(await left(died), ['cancelled', 'cancelled', 'done', true]);
  assert.deepEqual(await left(alone), ['lost', 'lost', 'pending', false]);
  await t.db.query('delete from svc.sessions');
});

test('of several requests a session names one that is still open, until none is', async () => {
  await t.db.query('delete from svc.sessions');
  await queue(1);
  const [lease] = (await claim(randomUUID())) as [Lease];
  const { sessionId } = lease;
  await t.db.query(`update svc.sessions set state = 'running' where id = $1::uuid`, [sessionId]);
  const now = new Date();
  const ask = async (title: string): Promise<string> => {
    const id = randomUUID();
    assert.equal(await askPermission(t.db, lease, { id, title, request: {}, now }), true);
    return id;
  };
  const ids = [await ask('one'), await ask('two'), await ask('three')];
  const seen: unknown[] = [];
  for (const id of [ids[2], ids[0], ids[1]] as string[]) {
    assert.equal(await decidePermission(t.db, { id, sessionId }, { state: 'allow', by: 'somebody', now }), true);
    await t.db.tx((tx) => closePermission(tx, lease, id, now));
    const { rows } = await t.db.query<{ told: unknown }>(
      'select json_build_array(state, reason) as told from svc.sessions where id = $1::uuid',
      [sessionId],
    );
    seen.push(rows[0]?.told);
  }
  const [first, ...rest] = seen as [[string, string], ...unknown[]];
  assert.ok(first[0] === 'waiting_permission' && ['one', 'two'].includes(first[1]), String(first));
  assert.deepEqual(rest, [
    ['waiting_permission', 'two'],
    ['running', null],
  ]);
  await t.db.query('delete from svc.sessions');
});

test('a session that is taken over keeps its place: a project holds neither more than before nor fewer', async () => {
  const [first, other] = [randomUUID(), randomUUID()];
  await t.db.query('delete from svc.sessions');
  await queue(4);
  const perProject = 2;
  const claimFew = (daemonId: string) =>
    claimSessions(t.db, {
      ...{ daemonId, perProject, harnesses: ['harness-a'], home: `${randomUUID()} /there`, limit: 10, now: new Date() },
    });
  const offered = await claimFew(first);
  assert.equal(offered.length, perProject);
  const cursor = { out: 0, skip: 0, in: 0, unclean: false, turn: null, prompt: null, next: 1, active: false };
  for (const lease of offered) {
    await t.db.query(`update svc.sessions set state = 'running' where id = $1::uuid`, [lease.sessionId]);
    const hold = { id: randomUUID(), provider: 'docker', keyVersion: 1, sealed: Buffer.from('x'), cursor };
    assert.equal(await t.db.tx((tx) => putHold(tx, lease, hold)), true);
    await offerHold(t.db, lease);
  }
  assert.deepEqual(await claimFew(other), [], 'nobody gets the place of a turn that runs in its box');
  const ids = offered.map(({ sessionId }) => sessionId);
  const taken = await takeOverSessions(t.db, { daemonId: other, home: `${randomUUID()} /there`, offered: ids });
  assert.deepEqual(taken.map(({ sessionId }) => sessionId).toSorted(), ids.toSorted());
  assert.deepEqual(await claimFew(other), [], 'nor when another daemon has gone on with it');
  await t.db.query('delete from svc.sessions where id = $1::uuid', [ids[0]]);
  assert.equal((await claimFew(other)).length, 1);
  await t.db.query('delete from svc.sessions');
});

test('the time of a turn that is taken over is that in which nobody was asked', async () => {
  await t.db.query('delete from svc.sessions');
  await queue(1);
  const [lease] = (await claim(randomUUID())) as [Lease];
  const { sessionId } = lease;
  const { rows } = await t.db.query<{ seq: number }>(
    `with up as (update svc.sessions set state = 'idle' where id = $1::uuid)
     select seq from svc.inbox where session_id = $1::uuid`,
    [sessionId],
  );
  const ago = (minutes: number): Date => new Date(Date.now() - minutes * 60_000);
  const id = randomUUID();
  assert.equal(await beginTurn(t.db, lease, { id, seqs: rows.map(({ seq }) => seq), now: ago(60) }), 1);
  // Two side by side, and one that was not answered yet when the daemon went.
  for (const [from, to] of [
    [50, 30],
    [45, 20],
    [10, 5],
  ] as const) {
    const ask = { id: randomUUID(), title: 'May I?', request: {}, now: ago(from) };
    assert.equal(await askPermission(t.db, lease, ask), true);
    await t.db.tx((tx) => closePermission(tx, lease, ask.id, ago(to)));
  }
  const turn = await runningTurn(t.db, sessionId, id);
  const minutes = (turn?.agoMs ?? 0) / 60_000;
  assert.ok(minutes > 24.5 && minutes < 26, `${minutes} minutes`);
  await t.db.query('delete from svc.sessions');
});

test('in a project that is archived no session is taken and none is told anything, until it is back', async () => {
  await t.db.query('delete from svc.sessions');
  const archive = (at: Date | null): Promise<unknown> =>
    t.db.query('update svc.projects set archived_at = $2::timestamptz where id = $1::uuid', [projectId, at]);
  const told = async (): Promise<unknown[]> => {
    const { rows } = await t.db.query<{ id: string }>('select id from svc.sessions');
    const id = rows[0]?.id ?? '';
    const shown = await sessionState(t.db, projectId, id);
    const messages = await waitingMessages(t.db, id, 1_000);
    return [shown?.reason, shown?.position, messages.length, (await interruptsBeside(t.db, id, [])).length];
  };
  await queue(1);
  assert.deepEqual(await told(), ['capacity', 1, 1, 1]);
  await archive(new Date());
  assert.deepEqual(await told(), [null, null, 0, 0]);
  assert.deepEqual(await claim(randomUUID()), []);
  await archive(null);
  assert.deepEqual(await told(), ['capacity', 1, 1, 1]);
  assert.equal((await claim(randomUUID())).length, 1);
});

test('an end that something has come to alone wears out no turn beside it; one that nobody has come to alone wears out all', async () => {
  const attemptsAfter = async (isAlone: boolean): Promise<number[]> => {
    await t.db.query('delete from svc.sessions');
    await queue(2);
    const daemonId = randomUUID();
    const leases = await claim(daemonId);
    for (const lease of leases) {
      const { rows } = await t.db.query<{ seq: number }>(
        `with up as (update svc.sessions set state = 'idle' where id = $1::uuid)
         update svc.inbox set attempts = 1 where session_id = $1::uuid returning seq`,
        [lease.sessionId],
      );
      await beginTurn(t.db, lease, { id: randomUUID(), seqs: rows.map(({ seq }) => seq), now: new Date() });
    }
    const ids = leases.slice(0, 1).map(({ sessionId }) => turnSuspect(sessionId));
    await noteInHand(t.db, { daemonId, lane: 'of a turn', kind: 'session', ids, alone: isAlone });
    // Whoever counts may end behind any statement: what it has counted is counted once.
    let asked = 0;
    const query: Sql['query'] = (...given) =>
      asked++ === 0 ? t.db.query(...given) : Promise.reject(new Error('the end'));
    assert.deepEqual(await countUncleanEnds({ query }), [{ kind: 'session', id: ids[0] }]);
    const { rows } = await t.db.query<{ attempts: number[] }>(
      `select array_agg(attempts order by session_id = $1::uuid desc) as attempts from svc.inbox`,
      [leases[0]?.sessionId],
    );
    return rows[0]?.attempts ?? [];
  };
  assert.deepEqual(await attemptsAfter(true), [2, 1]);
  assert.deepEqual(await attemptsAfter(false), [2, 2]);
});

test('a request that is asked as the one before is closed keeps its session waiting', async () => {
  await t.db.query('delete from svc.sessions');
  await queue(1);
  const [lease] = (await claim(randomUUID())) as [Lease];
  await t.db.query(`update svc.sessions set state = 'running' where id = $1::uuid`, [lease.sessionId]);
  const now = new Date();
  const [one, two] = [randomUUID(), randomUUID()];
  assert.equal(await askPermission(t.db, lease, { id: one, title: 'one', request: {}, now }), true);
  let closing: Promise<void> | undefined;
  await t.db.tx(async (tx) => {
    assert.equal(await askPermission(tx, lease, { id: two, title: 'two', request: {}, now }), true);
    closing = t.db.tx((other) => closePermission(other, lease, one, now));
    const waits = async (): Promise<boolean> =>
      (await t.db.query(`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`))
        .rows.length > 0;
    while (!(await waits())) await sleep(10);
  });
  await closing;
  const { rows } = await t.db.query<{ told: unknown }>(
    'select json_build_array(state, reason) as told from svc.sessions where id = $1::uuid',
    [lease.sessionId],
  );
  assert.deepEqual(rows[0]?.told, ['waiting_permission', 'two']);
  await t.db.query('delete from svc.sessions');
});

test('turns that begin as their leases lapse are lost with them, or stand', async (test) => {
  // Of its own, or it would wait until all of them have begun.
  const other = openDatabase({ url: t.url, log: silent });
  test.after(() => other.close());
  for (let round = 0; round < 5; round += 1) {
    await t.db.query('delete from svc.sessions');
    await queue(400);
    const leases = await claim(randomUUID());
    await t.db.query(`update svc.sessions set state = 'idle'`);
    await t.db.query(`update svc.session_leases set until = now() - interval '1 second'`);
    const { rows } = await t.db.query<{ id: string; seq: number }>('select session_id as id, seq from svc.inbox');
    const seqs = new Map(rows.map(({ id, seq }) => [id, seq]));
    let count = 0;
    const begun = leases.toReversed().map(async (lease) => {
      const turn = { id: randomUUID(), seqs: [seqs.get(lease.sessionId) ?? 0], now: new Date() };
      await beginTurn(t.db, lease, turn);
      count += 1;
    });
    while (count < 20 * (round + 1)) await sleep(0);
    await other.tx(suspendLapsed);
    await Promise.all(begun);
    const left = await t.db.query<{ left: unknown }>(
      `select json_build_array(s.state, t.state, i.state) as left from svc.sessions s
         left join svc.turns t on t.session_id = s.id left join svc.inbox i on i.session_id = s.id
        where s.leased_by is null and (t.state = 'running' or i.state = 'in_flight')`,
    );
    assert.deepEqual(left.rows, [], 'nothing of a session that nobody holds runs');
  }
  await t.db.query('delete from svc.sessions');
});
