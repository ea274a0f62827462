import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type AddressInfo, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { startCutProxy } from '../../../base/testkit/cut-proxy.ts';
import { createTestDatabase, silent, type TestDatabase } from '../../../base/testkit/postgres.ts';
import { Fault } from '../../../domain/fault.ts';
import { connectionsMax, type Database, openDatabase } from '../store.ts';
import { ListenHub } from './listen.ts';

const isUnavailable = (error: unknown): boolean => error instanceof Fault && error.code === 'unavailable';

describe('the connections of a daemon', () => {
  let t: TestDatabase;
  before(async () => {
    t = await createTestDatabase();
    await t.db.query('create table things (n int); create table others (n int); create table kept (n int)');
  });
  after(() => t.close());

  const named = async (name: string): Promise<number> => {
    const { rows } = await t.db.query<{ n: number }>(
      'select count(*)::int as n from pg_stat_activity where datname = current_database() and application_name = $1::text',
      [name],
    );
    return rows[0]?.n ?? -1;
  };
  const withName = (name: string): string => `${t.url}?application_name=${name}`;
  const open = (name: string, url = t.url): Database => {
    const at = new URL(url);
    at.searchParams.set('application_name', name);
    return openDatabase({ url: at.href, log: silent });
  };

  it('are as many as are wanted at once, never more than the bound, and one again when all is quiet but looks for news, however many meet', async () => {
    const db = open('counted');
    try {
      const waiting = Array.from({ length: 40 }, () => db.query('select pg_sleep(0.2)'));
      let most = 0;
      const done = Promise.all(waiting);
      let isDone = false;
      void done.then(() => (isDone = true));
      while (!isDone) most = Math.max(most, await named('counted'));
      await done;
      assert.ok(most > 1 && most <= connectionsMax.main, `${most}`);
      for (let tries = 0; tries < 300 && (await named('counted')) > 1; tries += 1) {
        await sleep(200);
        await Promise.all(Array.from({ length: 8 }, () => db.looks.query('select 1')));
      }
      assert.equal(await named('counted'), 1);
    } finally {
      await db.close();
    }
  });

  it('what must never wait has its own, whatever takes the others', async () => {
    const db = open('vital');
    try {
      let ended = 0;
      const taken = Array.from({ length: connectionsMax.main * 2 }, () =>
        db
          .query('select pg_sleep(60)')
          .catch(() => undefined)
          .finally(() => (ended += 1)),
      );
      const cancel = `select count(pg_cancel_backend(pid))::int as n from pg_stat_activity
        where datname = current_database() and application_name = 'vital' and query = 'select pg_sleep(60)' and state = 'active'`;
      const sleeping = cancel.replace('count(pg_cancel_backend(pid))', 'count(*)');
      const running = async (text: string): Promise<number> => (await t.db.query<{ n: number }>(text)).rows[0]?.n ?? 0;
      // One of the main ones is no work's.
      for (let tries = 0; tries < 6_000 && (await running(sleeping)) < connectionsMax.main - 1; tries += 1)
        await sleep(10);
      await db.vital.query('select 1');
      assert.equal(ended, 0);
      while (ended < taken.length) {
        await running(cancel);
        await sleep(10);
      }
      await Promise.all(taken);
    } finally {
      await db.close();
    }
  });

  it('a statement beside a transaction waits for no other transaction and for no call, however many wait', async () => {
    const db = open('beside');
    try {
      for (const lane of [db, db.calls]) {
        const over = Promise.withResolvers<void>();
        const begun: Promise<void>[] = [];
        const hold = (): Promise<void> => {
          const { promise, resolve } = Promise.withResolvers<void>();
          begun.push(promise);
          return lane.tx(async (tx) => {
            await tx.query('select 1');
            resolve();
            await over.promise;
          });
        };
        const held = Array.from({ length: connectionsMax.main - 1 }, hold);
        await Promise.all(begun);
        let isIn = false;
        const waits = lane.query('select 1').then(() => (isIn = true));
        await db.notes.query('select 1');
        assert.equal(isIn, false);
        over.resolve();
        await Promise.all([...held, waits]);
      }
    } finally {
      await db.close();
    }
  });

  it('are taken in turns, by lanes and by whom it is for, and no one has all that calls may have', async () => {
    const db = open('turns');
    const inside: string[] = [];
    const ends: (() => void)[] = [];
    const all: Promise<void>[] = [];
    const hold = (name: string, at: Database): void => {
      const { promise: over, resolve: end } = Promise.withResolvers<void>();
      const held = at.tx(async (tx) => {
        await tx.query('select 1');
        inside.push(name);
        ends.push(end);
        await over;
      });
      all.push(held);
    };
    const until = async (count: number): Promise<void> => {
      while (inside.length < count) await sleep(2);
    };
    const one = connectionsMax.main - 2;
    try {
      for (let times = 0; times < 600; times += 1) hold('one', db.ownedBy('one').calls);
      await until(one);
      await db.ownedBy('other').calls.query('select 1');
      const isCrowded = (owner: string): boolean => db.ownedBy(owner).calls.isCrowded();
      assert.deepEqual([isCrowded('one'), isCrowded('other')], [true, false]);
      assert.equal(inside.length, one, 'another is let in beside whatever one has asked for');
      hold('third', db.calls);
      hold('work', db);
      await until(one + 2);
      // All are taken. Who has asked for least comes first of those who may, whoever asked before.
      for (const name of ['other', 'other', 'work', 'work']) hold(name, name === 'work' ? db : db.ownedBy(name).calls);
      for (let times = 1; times <= 6; times += 1) {
        ends.shift()?.();
        await until(one + 2 + times);
      }
      const next = inside.slice(one + 2, one + 8);
      assert.deepEqual(next.toSorted(), ['one', 'one', 'other', 'other', 'work', 'work'], next.join(' '));
    } finally {
      const draining = Promise.all(all);
      let isOver = false;
      void draining.finally(() => (isOver = true));
      while (!isOver) {
        for (const end of ends.splice(0)) end();
        await sleep(2);
      }
      await draining;
      await db.close();
    }
  });

  // Each waits for time-outs of seconds, and with connections, a network and a table of its own.
  describe('of which some wait', { concurrency: 4 }, () => {
    it('a call that a lock holds up is told within its time, and its statement is ended', async () => {
      const db = open('held');
      const blocker = new pg.Client({ connectionString: withName('blocker') });
      await blocker.connect();
      try {
        await blocker.query('begin; lock table things in access exclusive mode');
        const since = performance.now();
        await Promise.all(
          Array.from({ length: 12 }, () => assert.rejects(db.calls.query('select * from things'), isUnavailable)),
        );
        assert.ok(performance.now() - since < 6_500, `${performance.now() - since}`);
        for (let tries = 0; tries < 600 && (await named('held')) > 3; tries += 1) await sleep(100);
        const text = `select from pg_stat_activity where application_name = 'held' and wait_event_type = 'Lock'`;
        let behind = await t.db.query(text);
        for (let tries = 0; tries < 600 && behind.rows.length > 0; tries += 1) {
          await sleep(100);
          behind = await t.db.query(text);
        }
        assert.equal(behind.rows.length, 0, 'nobody is left behind the lock');
      } finally {
        await blocker.end();
        await db.close();
      }
    });

    it('one call has one patience for all that it asks, while all connections are taken and when nobody has answered', async () => {
      const db = open('taken');
      const blocker = new pg.Client({ connectionString: withName('blocker') });
      await blocker.connect();
      const { promise: released, resolve: release } = Promise.withResolvers<void>();
      try {
        await blocker.query('begin; lock table kept in access exclusive mode');
        const unanswered = db.oneCall();
        await assert.rejects(unanswered.query('select * from kept'), isUnavailable);
        const again = performance.now();
        await assert.rejects(unanswered.query('select * from kept'), isUnavailable);
        assert.ok(performance.now() - again < 2_000, `${performance.now() - again}`);
        await blocker.query('rollback');
        const one = db.oneCall();
        await one.query('select 1');
        const taken = Array.from({ length: connectionsMax.main - 1 }, () =>
          db.calls.tx(async (tx) => {
            await tx.query('select 1');
            await released;
          }),
        );
        while (db.waiting() > 0) await sleep(5);
        // At one time it waits once, for as long as anybody else.
        const since = performance.now();
        await Promise.all([1, 2].map(() => assert.rejects(one.query('select 1'), isUnavailable)));
        const waitedMs = performance.now() - since;
        assert.ok(waitedMs > 3_500, `${waitedMs}`);
        await assert.rejects(one.query('select 1'), isUnavailable);
        assert.ok(performance.now() - since < waitedMs + 2_000, `${performance.now() - since}`);
        release();
        await Promise.all(taken);
        await one.query('select 1');
      } finally {
        release();
        await blocker.end();
        await db.close();
      }
    });

    it('a server that says nothing is unavailable to all calls within 6 s, with new connections and old ones', async () => {
      const network = await startCutProxy(t.url);
      const db = open('silent', network.url);
      try {
        await db.calls.query('select 1');
        network.cut();
        const since = performance.now();
        const asked = Array.from({ length: 60 }, (_, n) =>
          assert.rejects(
            n % 2 === 0 ? db.calls.query('select 1') : db.calls.tx((tx) => tx.query('select 1')),
            isUnavailable,
          ),
        );
        await Promise.all(asked);
        assert.ok(performance.now() - since < 6_500, `${performance.now() - since}`);
        network.mend();
        assert.equal((await db.calls.query<{ n: number }>('select 1 as n')).rows[0]?.n, 1);
      } finally {
        await network.stop();
        await db.close();
      }
    });

    it('a patient call may take its time while the server answers, but not behind a lock, and not when nobody answers', async () => {
      const network = await startCutProxy(t.url);
      const db = open('patient', network.url);
      const blocker = new pg.Client({ connectionString: withName('blocker') });
      await blocker.connect();
      const patiently = (text: string): Promise<unknown> => db.calls.tx((tx) => tx.query(text), { patient: true });
      try {
        await blocker.query('begin; lock table others in access exclusive mode');
        const since = performance.now();
        const slow = patiently('select pg_sleep(7)');
        await assert.rejects(patiently('select * from others'), isUnavailable);
        assert.ok(performance.now() - since < 6_500, `${performance.now() - since}`);
        await slow;
        const silenced = assert.rejects(patiently('select pg_sleep(20)'), isUnavailable);
        await sleep(300);
        network.cut();
        const cutAt = performance.now();
        await silenced;
        assert.ok(performance.now() - cutAt < 6_500, `${performance.now() - cutAt}`);
      } finally {
        network.mend();
        await blocker.end();
        await network.stop();
        await db.close();
      }
    });
  });

  it('a listener that asks while the connection is made anew gets the same one, and hears once', async () => {
    const hub = new ListenHub({ connectionString: withName('hub') }, silent);
    const heard: (string | null)[] = [];
    await hub.listen('one', (payload) => void heard.push(payload));
    await t.db.query(`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'hub'`);
    // Between the loss and the retry.
    while ((await named('hub')) > 0) await sleep(5);
    await Promise.all([1, 2, 3].map((n) => hub.listen(`more-${n}`, () => undefined)));
    await sleep(600);
    assert.equal(await named('hub'), 1);
    await t.db.query(`select pg_notify('one', 'told')`);
    while (!heard.includes('told')) await sleep(5);
    await sleep(50);
    assert.deepEqual(heard, [null, 'told']);
    await hub.stop();
    for (let tries = 0; tries < 3_000 && (await named('hub')) > 0; tries += 1) await sleep(20);
    assert.equal(await named('hub'), 0);
  });
});

it('a server that dies in the breath in which it is ready ends no daemon', async () => {
  const message = (type: string, body: string): Buffer => {
    const text = Buffer.from(body, 'latin1');
    const length = Buffer.alloc(4);
    length.writeInt32BE(text.length + 4);
    return Buffer.concat([Buffer.from(type), length, text]);
  };
  const dying = Buffer.concat([
    message('R', '\0\0\0\0'),
    message('Z', 'I'),
    message('E', 'SFATAL\0C57P01\0Mterminating connection due to unexpected postmaster exit\0\0'),
  ]);
  let asked = 0;
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => {
      asked += 1;
      socket.end(dying);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const db = openDatabase({ url: `postgres://u:p@127.0.0.1:${port}/x`, log: silent });
  await assert.rejects(db.query('select 1'), isUnavailable);
  assert.ok(asked > 0);
  await db.close();
  await new Promise((resolve) => server.close(resolve));
});
