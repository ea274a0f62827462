import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { recordEvents } from '../../adapters/store/events/events.ts';
import { lockRouting } from '../../adapters/store/routing/routing-lock.ts';
import { openDatabase, type Sql } from '../../adapters/store/store.ts';
import { silent } from '../../base/testkit/postgres.ts';
import { type Bench, createBench } from '../sessions/sessions-testkit.ts';
import { settled } from './routing-testkit.ts';
import { orderedIds } from '../../base/ids.ts';
import { Router } from './router.ts';

/** Of this database alone: the server is shared. */
const locksWaitedFor = `select count(*)::int as n from pg_locks l join pg_database d on d.oid = l.database
  where l.locktype = 'advisory' and not l.granted and d.datname = current_database()`;

/** A project beside that of the bench. */
async function addProject({ db }: Bench): Promise<string> {
  const id = randomUUID();
  await db.query(
    `insert into svc.projects (id, org_id, slug, name)
     select $1::uuid, o.id, $2::text, $2::text from svc.orgs o limit 1`,
    [id, `p-${id.slice(0, 8)}`],
  );
  return id;
}

describe('the router', () => {
  let bench: Bench;
  let router: Router;
  const agentId = randomUUID();
  const nextId = orderedIds({ now: () => new Date('2026-11-21T12:00:00Z'), randomBytes });
  before(async () => {
    bench = await createBench();
    router = new Router(bench.ctx);
    const { db, projectId } = bench;
    await db.query(
      `insert into svc.agents (id, project_id, name, revision, spec, spec_hash, source)
       values ($1::uuid, $2::uuid, 'a', 1, '{}', 'h', '{}')`,
      [agentId, projectId],
    );
    const spec = { kind: 'event', event: 'webhook.received', where: {}, fallback: false, routing: { kind: 'spawn' } };
    await db.query(
      `insert into svc.triggers (project_id, agent_id, ordinal, kind, event, spec, spec_hash, status)
       values ($1::uuid, $2::uuid, 0, 'event', 'webhook.received', $3::jsonb, 'h', 'active')`,
      [projectId, agentId, JSON.stringify(spec)],
    );
  });
  after(async () => {
    await router.stop();
    await bench.close();
  });

  async function record(
    count: number,
    body = '{}',
    projectId = bench.projectId,
    key = 'webhook.received',
    sql: Sql = bench.db,
  ): Promise<string[]> {
    const { ctx } = bench;
    const events = Array.from({ length: count }, () => ({
      id: nextId(),
      projectId,
      key,
      dedupHash: null,
      raw: Buffer.from(body),
      payload: null,
      receivedAt: ctx.runtime.now(),
    }));
    await recordEvents(sql, events, { routing: false });
    return events.map((event) => event.id);
  }
  const statuses = async (ids: readonly string[]) => {
    const { rows } = await bench.db.query<{ id: string; status: string; reason: string | null }>(
      'select id, router_status as status, reason from svc.events where id = any($1::uuid[]) order by seq',
      [ids],
    );
    return rows;
  };

  /** Has another daemon take a project, until it is let go of. */
  async function held(projectId: string): Promise<() => Promise<void>> {
    const other = openDatabase({ url: bench.db.url, log: silent });
    const [isHeld, isFree] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const over = other.tx(async (tx) => {
      await lockRouting(tx, projectId);
      isHeld.resolve();
      await isFree.promise;
    });
    await isHeld.promise;
    return async () => {
      isFree.resolve();
      await over;
      await other.close();
    };
  }

  it('fails the one event that cannot be written, with its reason, and routes all others once', async () => {
    const ids = await record(20);
    const culprit = ids[13] ?? '';
    // What only somebody who routes without the lock could leave behind.
    await bench.db.query(
      `insert into svc.event_routes (event_id, agent_id, ordinal, agent, decision) values ($1::uuid, $2::uuid, 0, 'a', 'x')`,
      [culprit, agentId],
    );
    router.wake(bench.projectId);
    await settled(bench.db);
    const rows = await statuses(ids);
    assert.deepEqual(
      rows.filter((row) => row.status !== 'routed').map((row) => [row.id, row.status]),
      [[culprit, 'failed']],
    );
    assert.match(rows[13]?.reason ?? '', /^23505: .*event_routes/);
    const { rows: sessions } = await bench.db.query<{ event: string }>(
      'select event_id as event from svc.sessions order by id',
    );
    assert.deepEqual(
      sessions.map((row) => row.event),
      ids.filter((id) => id !== culprit),
    );
  });

  it('takes as many statements for many events as for few', async () => {
    const spent = async (count: number): Promise<number> => {
      await record(count);
      const before = bench.db.statements();
      router.wake(bench.projectId);
      await router.stop();
      router = new Router(bench.ctx);
      return bench.db.statements() - before;
    };
    const [first, few] = [await spent(1), await spent(3)];
    // A decision that a busy machine holds up for long has what was decided before it written first: not every time.
    for (let turn = 0; turn < 5; turn += 1) if ((await spent(200)) === few) return;
    assert.equal(await spent(200), few, `${first} for the first`);
  });

  it('asks for what is being recorded at once, routes it behind its commit and does not look for it again', async (t) => {
    const { db, projectId } = bench;
    const spent = async (act: () => unknown): Promise<number> => {
      const before = db.statements();
      await act();
      await settled(other);
      await router.stop();
      router = new Router(bench.ctx);
      return db.statements() - before;
    };
    const other = openDatabase({ url: db.url, log: silent });
    t.after(() => other.close());
    const known = await record(1);
    const usual = await spent(() => router.wake(projectId, known));
    const [isRecorded, mayCommit] = [Promise.withResolvers<string[]>(), Promise.withResolvers<void>()];
    const recording = other.tx(async (tx) => {
      isRecorded.resolve(await record(1, '{}', projectId, 'webhook.received', tx));
      await mayCommit.promise;
    });
    const ids = await isRecorded.promise;
    const early = await spent(async () => {
      router.expect(projectId, ids);
      while ((await other.query<{ n: number }>(locksWaitedFor)).rows[0]?.n !== 1) await sleep(5);
      mayCommit.resolve();
      await recording;
      router.wake(projectId, ids);
    });
    assert.equal(early, usual);
    assert.deepEqual(
      (await statuses(ids)).map(({ status }) => status),
      ['routed'],
    );
  });

  it('what was to be recorded and never was leaves nothing, and hides nothing', async () => {
    router.expect(bench.projectId, [nextId()]);
    const ids = await record(2);
    router.wake(bench.projectId, ids);
    await settled(bench.db);
    assert.deepEqual(
      (await statuses(ids)).map(({ status }) => status),
      ['routed', 'routed'],
    );
  });

  it('an event whose body is gone is failed, saying so', async () => {
    const [id = ''] = await record(1);
    await bench.db.query('delete from svc.event_bodies where event_id = $1::uuid', [id]);
    router.wake(bench.projectId);
    await settled(bench.db);
    assert.deepEqual(await statuses([id]), [{ id, status: 'failed', reason: 'its body is not kept any more' }]);
  });

  it('an event whose stored body is damaged is failed, saying so, and the next is routed', async () => {
    const [id = '', next = ''] = await record(2);
    await bench.db.query('update svc.event_bodies set raw_bytes = 20000 where event_id = $1::uuid', [id]);
    router.wake(bench.projectId);
    await settled(bench.db);
    assert.deepEqual(await statuses([id]), [{ id, status: 'failed', reason: 'its stored body cannot be read' }]);
    assert.equal((await statuses([next]))[0]?.status, 'routed');
  });

  /** Has an event of this body take so long to be written, as many seconds as given. */
  async function slowBody(seconds: number): Promise<() => Promise<void>> {
    await bench.db.query(
      `create function svc.test_slow() returns trigger language plpgsql as $$
       begin perform pg_sleep(${seconds}) from svc.event_bodies b where b.event_id = new.event_id
         and convert_from(b.raw, 'utf8') like '%slow%'; return new; end $$`,
    );
    await bench.db.query(
      'create trigger slow before insert on svc.event_routes for each row execute function svc.test_slow()',
    );
    return async () => {
      await bench.db.query('drop trigger slow on svc.event_routes');
      await bench.db.query('drop function svc.test_slow()');
    };
  }

  it('a batch that takes too long is halved, and the one event that always does is failed while the others go on', async () => {
    await router.stop();
    // Alone, an event has time that any machine finds; the slow one would take it all and more.
    router = new Router(bench.ctx, { batchMs: 300, aloneMs: 2_000 });
    const undo = await slowBody(600);
    const { rows } = await bench.db.query<{ id: string }>('select id from svc.triggers');
    assert.equal(rows.length, 1);
    const before = await record(9);
    const [slow = ''] = await record(1, '{"slow": true}');
    const after = await record(9);
    router.wake(bench.projectId);
    await settled(bench.db);
    await undo();
    const wrong = (await statuses([...before, slow, ...after])).filter((row) => row.status !== 'routed');
    assert.deepEqual(
      wrong.map((row) => [row.id, row.status]),
      [[slow, 'failed']],
    );
    assert.match(wrong[0]?.reason ?? '', /^57014: /);
    await router.stop();
    router = new Router(bench.ctx);
  });

  it('passes a project by that another daemon has, routes the others meanwhile, and comes back to it', async () => {
    const letGo = await held(bench.projectId);
    const [mine = ''] = await record(1);
    router.wake(bench.projectId);
    // Longer than the router waits before it passes by.
    await sleep(300);
    assert.equal((await statuses([mine]))[0]?.status, 'pending');
    const { rows } = await bench.db.query<{ n: number }>(locksWaitedFor);
    assert.equal(rows[0]?.n, 0, 'nobody stands in the database and waits');
    await letGo();
    await settled(bench.db);
    assert.equal((await statuses([mine]))[0]?.status, 'routed');
  });

  it('has in hand what it routes, and not what it expected and others have', async () => {
    const { db, ctx, projectId } = bench;
    const inHand = async (): Promise<unknown> =>
      (
        await db.query<{ ids: string[] }>(
          'select ids from svc.in_hand where daemon_id = $1::uuid and lane = $2::text',
          [ctx.daemonId, `route:${projectId}`],
        )
      ).rows.map(({ ids }) => ids);
    const expected = await record(2);
    router.wake(projectId, expected);
    await settled(db);
    assert.deepEqual(await inHand(), [expected]);
    // What was recorded here is not all that waits.
    const [before = '', mine = ''] = await record(2);
    router.wake(projectId, [mine]);
    await settled(db);
    assert.deepEqual(await inHand(), [[before, mine]]);
    const late = await record(1);
    await db.tx(async (tx) => {
      await lockRouting(tx, projectId);
      router.wake(projectId, late);
      const until = performance.now() + 60_000;
      while (JSON.stringify(await inHand()) !== '[]' && performance.now() < until) await sleep(5);
      assert.deepEqual(await inHand(), []);
    });
    await settled(db);
    assert.deepEqual(await inHand(), [late]);
  });

  it('takes one batch of each project in turn: what comes late to another is not behind a backlog, and no backlog behind others', async () => {
    // More than are routed at a time.
    const backlogs = await Promise.all(Array.from({ length: 6 }, () => addProject(bench)));
    const late = await addProject(bench);
    for (const id of backlogs) await record(2_000, '{}', id);
    for (const id of backlogs) router.wake(id);
    const [event = ''] = await record(1, '{}', late);
    router.wake(late);
    await settled(bench.db);
    // By the numbers of the transactions that routed them: who looks meanwhile may be late on a slow machine.
    const { rows } = await bench.db.query<{ behind: number; least: number }>(
      `with routed as (select project_id, xmin::text::bigint as by from svc.events where project_id = any($1::uuid[])),
         first as (select max(by) as over from routed group by project_id order by 1 limit 1)
       select (select count(*)::int from routed
                where by > (select xmin::text::bigint from svc.events where id = $2::uuid)) as behind,
              (select min(n)::int from (select count(*) filter (where by <= f.over) as n from routed, first f
                group by project_id) each) as least`,
      [backlogs, event],
    );
    assert.ok((rows[0]?.behind ?? 0) > 6_000, `${rows[0]?.behind} of 12,000 still waited`);
    assert.ok((rows[0]?.least ?? 0) > 1_000, `of one only ${rows[0]?.least} were routed when all of another one were`);
  });

  it('routes many quiet projects together, and by itself whatever cannot be: damaged, to blame, held by others', async () => {
    const { db } = bench;
    const all = await Promise.all(Array.from({ length: 60 }, () => addProject(bench)));
    const agents = all.map(() => randomUUID());
    await db.query(
      `insert into svc.agents (id, project_id, name, revision, spec, spec_hash, source)
       select a, p, 'a', 1, '{}', 'h', '{}' from unnest($1::uuid[], $2::uuid[]) as u (a, p)`,
      [agents, all],
    );
    await db.query(
      `insert into svc.triggers (project_id, agent_id, ordinal, kind, event, spec, spec_hash, status)
       select p, a, 0, 'event', 'webhook.received', t.spec, 'h', 'active'
         from unnest($1::uuid[], $2::uuid[]) as u (a, p)
        cross join (select spec from svc.triggers where project_id = $3::uuid and ordinal = 0) t`,
      [agents, all, bench.projectId],
    );
    const ids: string[] = [];
    for (const [at, id] of all.entries()) ids.push(...(await record(at === 30 ? 20 : 3, '{}', id)));
    const [damaged = '', , , culprit = ''] = ids;
    await db.query('update svc.event_bodies set raw_bytes = 20000 where event_id = $1::uuid', [damaged]);
    await db.query(
      `insert into svc.event_routes (event_id, agent_id, ordinal, agent, decision) values ($1::uuid, $2::uuid, 0, 'a', 'x')`,
      [culprit, agents[1]],
    );
    const letGo = await held(all[2] ?? '');
    await router.stop();
    router = new Router(bench.ctx);
    const before = db.statements();
    for (const id of all) router.wake(id);
    const waiting = async (): Promise<number> => (await statuses(ids)).filter((row) => row.status === 'pending').length;
    while ((await waiting()) > 3) await sleep(5);
    await letGo();
    await settled(db, 60_000);
    assert.ok(db.statements() - before < 60 * 6, `${db.statements() - before} statements for 60 projects`);
    assert.deepEqual(
      (await statuses(ids)).filter((row) => row.status !== 'routed').map((row) => [row.id, row.status]),
      [
        [damaged, 'failed'],
        [culprit, 'failed'],
      ],
    );
    const { rows } = await db.query<{ project: string; events: string[] }>(
      `select s.project_id as project, json_agg(s.event_id order by s.id) as events from svc.sessions s
        where s.project_id = any($1::uuid[]) group by 1`,
      [all],
    );
    const made = rows.flatMap((row) => row.events);
    assert.deepEqual(
      all.flatMap((id) => rows.find((row) => row.project === id)?.events ?? []),
      ids.filter((id) => id !== damaged && id !== culprit),
      'each once, those of a project in their order',
    );
    assert.equal(new Set(made).size, made.length);
  });

  it('an event that goes to very many sessions ends its batch there', async () => {
    const { projectId, db } = bench;
    const shout = { kind: 'deliver', routeBy: { kind: 'allLiveSessions' }, onUnmatched: { kind: 'drop' } };
    const spec = { kind: 'event', event: 'webhook.shout', where: {}, fallback: false, routing: shout, message: 'x' };
    await db.query(
      `insert into svc.triggers (project_id, agent_id, ordinal, kind, event, spec, spec_hash, status)
       values ($1::uuid, $2::uuid, 1, 'event', 'webhook.shout', $3::jsonb, 'h', 'active')`,
      [projectId, agentId, JSON.stringify(spec)],
    );
    await db.query(
      `insert into svc.routing_generations (project_id, generation) values ($1::uuid, 1000)
       on conflict (project_id) do update set generation = svc.routing_generations.generation + 1`,
      [projectId],
    );
    const { rows: live } = await db.query<{ n: number }>(
      'select count(*)::int as n from svc.sessions where live and project_id = $1::uuid',
      [projectId],
    );
    const sessions = live[0]?.n ?? 0;
    assert.ok(sessions > 200, `${sessions}`);
    const many = Math.ceil(12_000 / sessions);
    const ids = await record(many, '{}', projectId, 'webhook.shout');
    const before = db.statements();
    router.wake(projectId);
    await settled(db, 60_000);
    const { rows: told } = await db.query<{ n: number }>(
      'select count(*)::int as n from svc.inbox where event_id = any($1::uuid[])',
      [ids],
    );
    assert.equal(told[0]?.n, many * sessions);
    const { rows: commits } = await db.query<{ n: number }>(
      `select count(distinct i.xmin::text)::int as n from svc.inbox i where event_id = any($1::uuid[])`,
      [ids],
    );
    assert.ok((commits[0]?.n ?? 0) >= 2, 'more than one batch');
    assert.ok(db.statements() > before);
  });
});
