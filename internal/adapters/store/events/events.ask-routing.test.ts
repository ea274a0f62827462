// What svc.ask_routing promises to those who record at the same time, on connections that really wait for each other: no
// event is committed without a job that is still to be taken, or a worker that is still to look. Whoever has to wait is
// seen to wait in the server before the test goes on, so that no order of steps is left to chance.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, describe, it } from 'node:test';
import { createTestDatabase, type TestDatabase } from '../../../base/testkit/postgres.ts';
import type { Database, Sql } from '../store.ts';
import { recordGuarded, routeTask } from './events.ts';
import { beginRouting } from '../routing/routing.ts';

describe('asking for routing at the same time', () => {
  let t: TestDatabase;
  let projectId: string;
  let otherId: string;
  const orgId = randomUUID();
  before(async () => {
    t = await createTestDatabase();
    await t.db.query(`insert into svc.orgs (id, slug, name) values ($1::uuid, 'o', 'o')`, [orgId]);
    // The first job of a task also makes the task, once in a database, and there everybody waits for everybody.
    await ask(t.db, await project());
  });
  beforeEach(async () => {
    const [low, high] = [await project(), await project()].sort();
    projectId = low as string;
    otherId = high as string;
  });
  after(() => t.close());

  const project = async (): Promise<string> => {
    const id = randomUUID();
    await t.db.query(`insert into svc.projects (id, org_id, slug, name) values ($1::uuid, $2::uuid, $3, $3)`, [
      id,
      orgId,
      `p-${id}`,
    ]);
    return id;
  };

  /** Records an event and asks, in a transaction of its own or, to hold that open, in the caller's. Answers its id. */
  const ask = async (sql: Sql, inProject = projectId): Promise<string> => {
    const id = randomUUID();
    const event = {
      id,
      projectId: inProject,
      key: 'webhook.received',
      dedupHash: null,
      raw: Buffer.from('{}'),
      payload: null,
      receivedAt: new Date('2030-01-01T00:00:00Z'),
    };
    const [recorded] = await recordGuarded(sql as Database, [{ event }], { routing: true });
    assert.equal(recorded?.created, true);
    return id;
  };

  /** True once `pending` waits for the transaction, false once it has ended. */
  const waits = async (pending: Promise<unknown>, tx: Sql): Promise<boolean> => {
    const { rows } = await tx.query<{ pid: number }>('select pg_backend_pid() as pid');
    let hasEnded = false;
    const end = (): void => {
      hasEnded = true;
    };
    pending.then(end, end);
    for (;;) {
      const waiting = await t.db.query(
        `select from pg_stat_activity where datname = current_database() and $1::int = any(pg_blocking_pids(pid))`,
        [rows[0]?.pid],
      );
      if (waiting.rowCount > 0) return true;
      if (hasEnded) return false;
    }
  };

  /** As a worker takes jobs: those that nobody has locked and that may run. Answers how many. */
  const take = async (ofProject = projectId): Promise<number> => {
    const { rowCount } = await t.db.query(
      `update graphile_worker._private_jobs set locked_at = now(), locked_by = 'w', attempts = attempts + 1
        where id in (
          select j.id from graphile_worker._private_jobs j join graphile_worker._private_tasks k on k.id = j.task_id
           where k.identifier = $1 and j.payload #>> '{projects,0}' = $2 and j.is_available and j.run_at <= now()
             for update of j skip locked)`,
      [routeTask, ofProject],
    );
    return rowCount;
  };

  /** What whoever took a job then meets. */
  const look = async (): Promise<string[]> =>
    ((await t.db.tx((tx) => beginRouting(tx, projectId, 100)))?.waiting ?? []).map((event) => event.id);

  const rolledBack = new Error('rolled back');

  it('the second asker waits for the first, and one job is left that nobody takes before both are there', async () => {
    let first = '';
    let second = '';
    await t.db.tx(async (later) => {
      let asking = Promise.resolve('');
      await t.db.tx(async (tx) => {
        first = await ask(tx);
        asking = ask(later);
        assert.ok(await waits(asking, tx));
      });
      second = await asking;
      assert.equal(await take(), 0, 'the job of the first is held by the second');
    });
    assert.equal(await take(), 1);
    assert.deepEqual(await look(), [first, second]);
  });

  it('when the first rolls back, the second has its own job', async () => {
    let asking = Promise.resolve('');
    const first = t.db.tx(async (tx) => {
      await ask(tx);
      asking = ask(t.db);
      assert.ok(await waits(asking, tx));
      throw rolledBack;
    });
    await assert.rejects(first, rolledBack);
    const second = await asking;
    assert.equal(await take(), 1);
    assert.deepEqual(await look(), [second]);
  });

  it('a job that somebody works on is not relied on: it may have looked already', async () => {
    const first = await ask(t.db);
    assert.equal(await take(), 1);
    assert.deepEqual(await look(), [first]);
    const second = await ask(t.db);
    assert.equal(await take(), 1);
    assert.deepEqual(await look(), [first, second]);
  });

  it('nor is one that was taken while the asker waited to record', async () => {
    const first = await ask(t.db);
    let asking = Promise.resolve('');
    await t.db.tx(async (tx) => {
      // As routing has them, one after the other: whoever comes between waits, in a statement that saw the job wait.
      await tx.query(
        `select pg_advisory_xact_lock(hashtextextended(name || $1::text, 0))
           from unnest(array['svc.recording:', 'svc.recording.2:']) as name`,
        [projectId],
      );
      asking = ask(t.db);
      assert.ok(await waits(asking, tx));
      assert.equal(await take(), 1);
    });
    const second = await asking;
    assert.equal(await take(), 1);
    assert.deepEqual(await look(), [first, second]);
  });

  it('a job that is taken before the asker has committed waits for it, and meets its event', async () => {
    const first = await ask(t.db);
    let second = '';
    let looking = Promise.resolve<string[]>([]);
    await t.db.tx(async (tx) => {
      second = await ask(tx);
      assert.equal(await take(), 1, 'the asker holds no job that was there');
      looking = look();
      assert.ok(await waits(looking, tx));
    });
    assert.deepEqual(await looking, [first, second]);
    assert.equal(await take(), 0);
  });

  it('askers of different projects do not wait for each other', async () => {
    await t.db.tx(async (tx) => {
      await ask(tx);
      const asking = ask(t.db, otherId);
      assert.equal(await waits(asking, tx), false);
      await asking;
      assert.deepEqual([await take(), await take(otherId)], [0, 1]);
    });
    assert.equal(await take(), 1);
  });

  it('askers of several projects come to them in one order, however they name them', async () => {
    const askFor = (sql: Sql, projects: string[]) => sql.query('select svc.ask_routing($1::uuid[])', [projects]);
    let asking: Promise<unknown> = Promise.resolve();
    let runs = 0;
    await t.db.tx(async (tx) => {
      runs += 1;
      assert.equal(runs, 1, 'a deadlock, repeated');
      await askFor(tx, [projectId]);
      asking = askFor(t.db, [otherId, projectId]);
      assert.ok(await waits(asking, tx));
      await askFor(tx, [otherId]);
    });
    await asking;
    assert.deepEqual([await take(), await take(otherId)], [1, 1]);
  });
});
