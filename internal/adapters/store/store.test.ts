import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startCutProxy } from '../../base/testkit/cut-proxy.ts';
import { createTestDatabase, silent, type TestDatabase } from '../../base/testkit/postgres.ts';
import { Fault } from '../../domain/fault.ts';
import { addJob } from './operations/add-job.ts';
import { errorCode, isUniqueViolation, openDatabase } from './store.ts';

/** Holds each caller back until so many have come; whoever comes later is let through. */
function meeting(count: number): () => Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  let come = 0;
  return () => {
    come += 1;
    if (come >= count) resolve();
    return promise;
  };
}

describe('the database', () => {
  let test: TestDatabase;
  before(async () => {
    test = await createTestDatabase();
    await test.db.query('create table counters (id int primary key, n int not null)');
    await test.db.query('insert into counters values (1, 0), (2, 0)');
  });
  after(() => test.close());

  it('gives bigint as a number, timestamps as dates and bytes as buffers', async () => {
    const { rows } = await test.db.query<{ n: number; at: Date; b: Buffer }>(
      `select 9007199254740991::bigint as n, '2026-01-02T03:04:05Z'::timestamptz as at, '\\x00ff'::bytea as b`,
    );
    assert.equal(rows[0]?.n, 9007199254740991);
    assert.equal(rows[0]?.at.toISOString(), '2026-01-02T03:04:05.000Z');
    assert.deepEqual(rows[0]?.b, Buffer.from([0, 255]));
  });

  it('gives the keys of jsonb as they are, whatever it gave before', async () => {
    const given = async (json: string): Promise<unknown> => {
      const { rows } = await test.db.query<{ one: unknown }>('select $1::jsonb as one', [json]);
      return rows[0]?.one;
    };
    const [before, text] = [String.raw`{"of": "a", "t\\": "b"}`, String.raw`{"of": "a", "t\t": "b"}`];
    assert.deepEqual(
      [await given(before), await given(text)],
      [
        { of: 'a', 't\\': 'b' },
        { of: 'a', 't\t': 'b' },
      ],
    );
  });

  it('sends what is asked for in one breath in one message, in its order', async () => {
    const rows = await test.db.tx(async (tx) => {
      const [made, , seen] = await Promise.all([
        tx.query('insert into counters values (11, 1)'),
        tx.query('update counters set n = n + $1::int where id = 11', [4], 'add-to-eleven'),
        tx.query<{ n: number; sent: string }>(
          `select n, (select query from pg_stat_activity where pid = pg_backend_pid()) as sent from counters where id = 11`,
        ),
      ]);
      assert.equal(made.rowCount, 1);
      return seen.rows;
    });
    assert.equal(rows[0]?.n, 5);
    await test.db.query('delete from counters where id = 11');
  });

  it('fails all that goes in one message where one of it fails, and the connection and its names serve on', async () => {
    const named = (tx: Pick<typeof test.db, 'query'>, n: number): Promise<{ readonly rowCount: number }> =>
      tx.query('update counters set n = n + $1::int where id = 2', [n], 'add-to-two');
    for (let turn = 0; turn < 3; turn += 1) {
      const outcomes = await test.db.tx(async (tx) => {
        const asked = [named(tx, 100), tx.query('insert into counters values (2, 2)'), named(tx, 1_000)];
        const settled = await Promise.allSettled(asked);
        return settled.map((one) => (one.status === 'rejected' ? errorCode(one.reason) : 'done'));
      });
      assert.deepEqual(outcomes, ['23505', '23505', '23505']);
      const circle: unknown[] = [];
      circle.push({ circle });
      await assert.rejects(
        test.db.tx((tx) => Promise.all([named(tx, 100), tx.query('select $1::jsonb', [{ circle }])])),
        /circular/i,
      );
      // What cannot be written comes first, under a name that is known, and those behind it do not run in its place.
      const json = (tx: Pick<typeof test.db, 'query'>, value: unknown): Promise<{ rows: { value: unknown }[] }> =>
        tx.query('select $1::jsonb as value', [value], 'any-json');
      await assert.rejects(
        test.db.tx((tx) => Promise.all([json(tx, { circle }), named(tx, 100)])),
        /circular/i,
      );
      await assert.rejects(json(test.db, { circle }), /circular/i);
      assert.deepEqual((await json(test.db, { turn })).rows, [{ value: { turn } }]);
      await assert.rejects(
        test.db.tx((tx) => Promise.all([json(tx, 1), tx.query('select $1::text', ['x'], 'any-json')])),
        /two statements have the name any-json/,
      );
      assert.equal((await test.db.tx((tx) => Promise.all([named(tx, 0), named(tx, 0)])))[1]?.rowCount, 1);
      assert.equal((await named(test.db, 0)).rowCount, 1);
    }
    const { rows } = await test.db.query<{ n: number }>('select n from counters where id = 2');
    assert.equal(rows[0]?.n, 0);
  });

  it('commits in the message of the last statements, and commits nothing where one of them fails', async () => {
    const add = (tx: Pick<typeof test.db, 'query'>, n: number): Promise<unknown> =>
      tx.query('update counters set n = n + $1::int where id = 2', [n], 'add-to-two');
    const seen = async (): Promise<unknown> => (await test.db.query('select n from counters where id = 2')).rows;
    const before = await seen();
    for (const failing of ['insert into counters values (2, 2)', `select svc.as_many(1, 2, 'SVC03')`]) {
      await assert.rejects(
        test.db.tx(async (tx) => {
          const asked = [add(tx, 100), tx.query(failing), add(tx, 1_000)];
          tx.last();
          await Promise.all(asked);
        }),
        (error) => /^(23505|SVC03)$/.test(errorCode(error) ?? ''),
      );
    }
    assert.deepEqual(await seen(), before);
    await test.db.tx(async (tx) => {
      await add(tx, 3);
      const asked = [add(tx, 4), tx.query(`select svc.as_many(2, 2, 'SVC03')`)];
      tx.last();
      await Promise.all(asked);
      // Seen by others before the transaction is ended by whoever opened it.
      assert.notDeepEqual(await seen(), before);
    });
    await test.db.tx(async (tx) => void (await add(tx, -7)));
    assert.deepEqual(await seen(), before);
    assert.equal(await test.db.tx(async (tx) => (tx.last(), 'asked for nothing')), 'asked for nothing');
  });

  it('commits what goes ahead of a transaction by itself, and begins none where that fails', async () => {
    const ahead = { text: 'update counters set n = n + $1::int where id = 2 returning n', values: [5], name: 'ahead' };
    const opening = { text: 'select n + 1 as n from counters where id = 2', name: 'opening' };
    const seen = async (): Promise<unknown> => (await test.db.query('select n from counters where id = 2')).rows;
    await assert.rejects(
      test.db.tx(
        async (tx, opened) => {
          assert.deepEqual([opened, await seen()], [{ ahead: [{ n: 5 }], opening: [{ n: 6 }] }, [{ n: 5 }]]);
          await tx.query('update counters set n = 100 where id = 2');
          throw new Error('no');
        },
        { ahead, opening },
      ),
      /^Error: no$/,
    );
    assert.deepEqual(await seen(), [{ n: 5 }]);
    const failing = { text: 'insert into counters values (2, 2)' };
    const unreached = (): Promise<never> => assert.fail('it has begun');
    for (const both of [
      { ahead: failing, opening },
      { ahead: { ...ahead, values: [-5] }, opening: failing },
    ])
      await assert.rejects(test.db.tx(unreached, both), (error) => errorCode(error) === '23505');
    assert.deepEqual(await test.db.tx(async (_tx, opened) => opened, { opening }), { ahead: [], opening: [{ n: 1 }] });
  });

  it('leaves nothing open of a transaction that asked and did not wait', async () => {
    await assert.rejects(
      test.db.tx((tx) => {
        tx.query('update counters set n = 77 where id = 2').catch(() => undefined);
        throw new Error('no');
      }),
      /^Error: no$/,
    );
    assert.equal(await test.db.tx(async () => 'asked for nothing'), 'asked for nothing');
    const text = `select n, (select count(*)::int from pg_stat_activity
        where state like 'idle in%' and datname = current_database()) as open
      from counters where id = 2`;
    assert.deepEqual((await test.db.query(text)).rows, [{ n: 0, open: 0 }]);
  });

  it('rolls a transaction back when its function throws', async () => {
    await assert.rejects(
      test.db.tx(async (tx) => {
        await tx.query('insert into counters values (9, 9)');
        throw new Error('no');
      }),
      /^Error: no$/,
    );
    const { rowCount } = await test.db.query('select from counters where id = 9');
    assert.equal(rowCount, 0);
  });

  it('repeats a transaction that PostgreSQL could not serialize', async () => {
    let runs = 0;
    const together = meeting(3);
    const add = () =>
      test.db.tx(
        async (tx) => {
          runs += 1;
          const { rows } = await tx.query<{ n: number }>('select n from counters where id = 1');
          await together();
          await tx.query('update counters set n = $1::int where id = 1', [(rows[0]?.n ?? 0) + 1]);
        },
        { isolation: 'serializable' },
      );
    await Promise.all([add(), add(), add()]);
    const { rows } = await test.db.query<{ n: number }>('select n from counters where id = 1');
    assert.equal(rows[0]?.n, 3);
    assert.ok(runs > 3, `${runs} runs`);
  });

  it('repeats a transaction that was chosen as the victim of a deadlock', async () => {
    const together = meeting(2);
    const lockBoth = (first: number, second: number) =>
      test.db.tx(async (tx) => {
        await tx.query('update counters set n = n + 1 where id = $1::int', [first]);
        await together();
        await tx.query('update counters set n = n + 1 where id = $1::int', [second]);
      });
    const start = (await test.db.query<{ n: number }>('select sum(n) as n from counters')).rows[0]?.n ?? 0;
    await Promise.all([lockBoth(1, 2), lockBoth(2, 1)]);
    const end = (await test.db.query<{ n: number }>('select sum(n) as n from counters')).rows[0]?.n ?? 0;
    assert.equal(Number(end) - Number(start), 4);
  });

  it('repeats a single statement that was chosen as the victim of a deadlock, once more and no effect twice', async () => {
    // Neither wants the second row before both hold one. A sequence is seen at once, and nothing takes it back.
    await test.db.query('create sequence holders');
    await test.db.query(
      `create function meet() returns void language plpgsql as $$
       begin perform nextval('holders'); while (select last_value from holders) < 2 loop perform pg_sleep(0.01); end loop; end $$`,
    );
    const lockBoth = (first: number, second: number) =>
      test.db.query(
        `with a as (update counters set n = n + 1 where id = $1::int returning meet())
         update counters c set n = c.n + 1 from a where c.id = $2::int`,
        [first, second],
      );
    const deadlocks = async () =>
      (
        await test.db.query<{ n: number }>(
          `select deadlocks as n from pg_stat_database where datname = current_database()`,
        )
      ).rows[0]?.n ?? 0;
    const sum = async () => Number((await test.db.query<{ n: number }>('select sum(n) as n from counters')).rows[0]?.n);
    const [before, start] = [await deadlocks(), await sum()];
    await Promise.all([lockBoth(1, 2), lockBoth(2, 1)]);
    assert.equal((await sum()) - start, 4);
    // Counters of the server are told with some delay.
    for (let waited = 0; waited < 60_000 && (await deadlocks()) === before; waited += 100) await sleep(100);
    assert.ok((await deadlocks()) > before);
  });

  it('gives a statement up that may be repeated and never goes through', async () => {
    await test.db.query('create sequence tries');
    await test.db.query(
      `create function fails() returns int language plpgsql as $$
       begin perform nextval('tries'); raise exception 'again' using errcode = '40001'; end $$`,
    );
    await assert.rejects(test.db.query('select fails()'), (error: unknown) => errorCode(error) === '40001');
    assert.equal(Number((await test.db.query<{ n: number }>('select last_value as n from tries')).rows[0]?.n), 5);
  });

  it('names a unique violation, and leaves other errors alone', async () => {
    const error = await test.db.query('insert into counters values (1, 0)').catch((caught: unknown) => caught);
    assert.ok(isUniqueViolation(error));
    assert.ok(isUniqueViolation(error, 'counters_pkey'));
    assert.ok(!isUniqueViolation(error, 'other'));
    assert.ok(!(error instanceof Fault));
    assert.equal(errorCode(error), '23505');
  });

  it('says unavailable when the server cannot be reached', async () => {
    const lost = openDatabase({ url: 'postgres://svc:x@127.0.0.1:1/svc', log: silent });
    await assert.rejects(
      lost.query('select 1'),
      (error: unknown) => error instanceof Fault && error.kind === 'unavailable',
    );
    await assert.rejects(
      lost.tx((tx) => tx.query('select 1')),
      (error: unknown) => error instanceof Fault && error.code === 'unavailable',
    );
    await lost.close();
  });

  it('says unavailable when the server takes no writes', async () => {
    const isUnavailable = (error: unknown): boolean => error instanceof Fault && error.code === 'unavailable';
    const readOnly = test.db.tx(async (tx) => {
      await tx.query('set transaction read only');
      await tx.query('create table never (n int)');
    });
    await assert.rejects(readOnly, isUnavailable);
    for (const code of ['53100', '53200'])
      await assert.rejects(
        test.db.query(`do $$ begin raise exception using errcode = '${code}'; end $$`),
        isUnavailable,
      );
  });

  it('keeps no connection that was made while the server took no writes', async () => {
    const database = new URL(test.url).pathname.slice(1);
    await test.db.query(`alter database ${database} set default_transaction_read_only = on`);
    const db = openDatabase({ url: test.url, log: silent });
    const add = (): Promise<unknown> => db.query('update counters set n = n where id = 1');
    await assert.rejects(add(), Fault);
    await assert.rejects(
      db.tx((tx) => tx.query('update counters set n = n where id = 1')),
      Fault,
    );
    await test.db.query(`alter database ${database} reset default_transaction_read_only`);
    await add();
    await db.close();
  });

  it('ends a statement that takes too long', async () => {
    const hurried = openDatabase({ url: test.url, log: silent, statementTimeoutMs: 50 });
    await assert.rejects(hurried.query('select pg_sleep(5)'), (error: unknown) => errorCode(error) === '57014');
    await hurried.close();
  });

  it('takes a server that says nothing for lost, and goes on when it can be reached again', async () => {
    const network = await startCutProxy(test.url);
    const cut = openDatabase({ url: network.url, log: silent, statementTimeoutMs: 50 });
    const isUnavailable = (error: unknown): boolean => error instanceof Fault && error.code === 'unavailable';
    try {
      await cut.query('select 1');
      network.cut();
      await Promise.all([
        assert.rejects(cut.query('select 1'), isUnavailable),
        assert.rejects(
          cut.tx((tx) => tx.query('select 1')),
          isUnavailable,
        ),
      ]);
      network.mend();
      assert.equal((await cut.query<{ n: number }>('select 1 as n')).rows[0]?.n, 1);
    } finally {
      await network.stop();
      await cut.close();
    }
  });

  it('delivers notifications, says null after a lost connection, and listens again', async () => {
    const heard: (string | null)[] = [];
    let wake: () => void = () => undefined;
    const stop = await test.db.listen('news', (payload) => {
      heard.push(payload);
      wake();
    });
    const until = async (done: () => boolean) => {
      while (!done()) await new Promise<void>((resolve) => (wake = resolve));
    };
    await test.db.query(`select pg_notify('news', 'one')`);
    await until(() => heard.includes('one'));
    await test.db.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where query like 'listen%' and datname = current_database()`,
    );
    await until(() => heard.includes(null));
    await test.db.query(`select pg_notify('news', 'two')`);
    await until(() => heard.includes('two'));
    await stop();
  });

  it('adds a job with the transaction and not without it', async () => {
    const waiting = async () => (await test.db.query('select from graphile_worker.jobs')).rowCount;
    await assert.rejects(
      test.db.tx(async (tx) => {
        await addJob(tx, 'repo.sync', { id: 1 });
        throw new Error('no');
      }),
    );
    assert.equal(await waiting(), 0);
    await test.db.tx((tx) => addJob(tx, 'repo.sync', { id: 1 }, { jobKey: 'repo:1' }));
    await test.db.tx((tx) => addJob(tx, 'repo.sync', { id: 1 }, { jobKey: 'repo:1' }));
    assert.equal(await waiting(), 1);
  });

  it('counts its statements', async () => {
    const before = test.db.statements();
    await test.db.query('select 1');
    await test.db.tx(async (tx) => {
      await tx.query('select 1');
      await tx.query('select 1');
    });
    assert.equal(test.db.statements() - before, 3);
  });
});
