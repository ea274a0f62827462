import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { after, before, describe, it, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { startCutProxy } from '../../../base/testkit/cut-proxy.ts';
import { createTestDatabase, insertProject, silent, type TestDatabase } from '../../../base/testkit/postgres.ts';
import { within } from '../../../base/waits.ts';
import { openDatabase } from '../store.ts';
import { ListenHub, WakeupSender } from './listen.ts';

const chunks = 500;

describe('what triggers have to tell', () => {
  let t: TestDatabase;
  let watcher: pg.Client;
  const heard: { channel: string; payload: string }[] = [];
  before(async () => {
    t = await createTestDatabase();
    await t.db.query('create table chunks (n int, session_id uuid)');
    await t.db.query(`create function told() returns trigger language plpgsql as $$
      begin perform svc.tell('chunks', new.session_id::text); return null; end $$`);
    await t.db.query('create trigger chunks_told after insert on chunks for each row execute function told()');
    watcher = new pg.Client({ connectionString: t.url });
    await watcher.connect();
    watcher.on('notification', ({ channel, payload = '' }) => heard.push({ channel, payload }));
    for (const channel of ['chunks', 'svc_hosts', 'svc_sessions']) await watcher.query(`listen ${channel}`);
  });
  after(async () => {
    await watcher.end();
    await t.close();
  });

  const say = (db: { query: TestDatabase['db']['query'] }, n: number, id: string): Promise<unknown> =>
    db.query('insert into chunks values ($1::int, $2::uuid)', [n, id]);
  const until = async (is: () => boolean): Promise<void> => {
    for (let tries = 0; !is() && tries < 6_000; tries += 1) await sleep(10);
    assert.ok(is());
  };

  /** Whatever was told is heard: connections have sent all of it when they are closed, and what the watcher says comes behind. */
  const allHeard = async (db: TestDatabase['db']): Promise<void> => {
    await db.close();
    await watcher.query(`notify chunks, 'end'`);
    await until(() => heard.some(({ payload }) => payload === 'end'));
    heard.splice(
      heard.findIndex(({ payload }) => payload === 'end'),
      1,
    );
  };

  it('of endpoints goes with their transaction, once for many', async () => {
    await watcher.query('listen svc_endpoints');
    const change = async (text: string, values: unknown[] = []): Promise<string[]> => {
      heard.length = 0;
      await t.db.query(text, values);
      // What this connection says comes behind what the transaction has told.
      await watcher.query(`notify chunks, 'end'`);
      await until(() => heard.some(({ payload }) => payload === 'end'));
      return heard.filter(({ channel }) => channel === 'svc_endpoints').map(({ payload }) => payload);
    };
    const [org, project] = [randomUUID(), randomUUID()];
    await t.db.query(`insert into svc.orgs (id, slug, name) values ($1::uuid, 'told', 'told')`, [org]);
    await t.db.query(`insert into svc.projects (id, org_id, slug, name) values ($1::uuid, $2::uuid, 'told', 'told')`, [
      project,
      org,
    ]);
    const add = `insert into svc.endpoints (id, project_id, name, slug, auth, status)
      select gen_random_uuid(), $1::uuid, 'e-' || n, 'e-' || n, '{"kind":"none"}', 'ready' from generate_series(1, $2::int) n`;
    assert.deepEqual(await change(add, [project, 500]), ['']);
    assert.deepEqual(await change(`update svc.endpoints set status = 'ready' where slug in ('e-1', 'e-2')`), [
      'e-1',
      'e-2',
    ]);
    assert.deepEqual(await change(`update svc.endpoints set status = 'ready' where slug = 'nobody'`), []);
    assert.deepEqual(await change(`delete from svc.endpoints where slug = 'e-3'`), ['e-3']);
    assert.deepEqual(await change('delete from svc.endpoints where project_id = $1::uuid', [project]), ['']);
  });

  it('reaches listeners in a handful of notifications, the last write included', async () => {
    heard.length = 0;
    const id = randomUUID();
    const db = openDatabase({ url: t.url, log: silent });
    const began = performance.now();
    let seen = 0;
    watcher.on('notification', () => {
      void t.db
        .query<{ n: number }>('select max(n) as n from chunks where session_id = $1::uuid', [id])
        .then(({ rows }) => (seen = Math.max(seen, rows[0]?.n ?? 0)));
    });
    for (let n = 1; n <= chunks; n += 10) {
      await Promise.all(Array.from({ length: 10 }, (_, more) => say(db, n + more, id)));
    }
    const intervals = Math.ceil((performance.now() - began) / 50);
    await until(() => seen === chunks);
    await allHeard(db);
    watcher.removeAllListeners('notification');
    watcher.on('notification', ({ channel, payload = '' }) => heard.push({ channel, payload }));
    assert.ok(heard.length >= 1 && heard.length <= intervals + 2, `${heard.length} in ${intervals} intervals`);
    assert.ok(heard.length <= chunks / 2, `${heard.length} of ${chunks}`);
    assert.ok(heard.every((one) => one.channel === 'chunks' && one.payload === id));
  });

  it('of what a session says and is to hear is as little: a handful for hundreds of rows of a transcript and an inbox', async () => {
    const [project, session] = [randomUUID(), randomUUID()];
    await insertProject(t.db, project);
    await t.db.query(
      `insert into svc.sessions (id, project_id, agent_id, agent, revision, origin, display_title, created_at, active_at)
       values ($1::uuid, $2::uuid, gen_random_uuid(), 'a', 1, 'manual', 't', now(), now())`,
      [session, project],
    );
    heard.length = 0;
    const db = openDatabase({ url: t.url, log: silent });
    const hear = (): Promise<unknown> =>
      db.query(
        `with said as (
           insert into svc.messages (session_id, role, kind, text, at)
           values ($1::uuid, 'user', 'prompt', 'x', now()), ($1::uuid, 'assistant', 'text', 'y', now())
           returning session_id, seq, role)
         insert into svc.inbox (session_id, seq, mode, sender)
         select session_id, seq, 'defer', 'event' from said where role = 'user'`,
        [session],
      );
    const began = performance.now();
    for (let n = 0; n < chunks; n += 10) await Promise.all(Array.from({ length: 10 }, hear));
    const intervals = Math.ceil((performance.now() - began) / 50);
    await allHeard(db);
    for (const channel of ['svc_hosts', 'svc_sessions']) {
      const told = heard.filter((one) => one.channel === channel).length;
      assert.ok(told >= 1 && told <= intervals + 2, `${channel}: ${told} in ${intervals} intervals`);
      assert.ok(told <= chunks / 2, `${channel}: ${told} of ${chunks}`);
    }
  });

  it('says of each session once, whatever one transaction writes, and nothing of what is rolled back', async () => {
    heard.length = 0;
    const ids = [randomUUID(), randomUUID()];
    const db = openDatabase({ url: t.url, log: silent });
    await assert.rejects(
      db.tx(async (tx) => {
        await say(tx, 1, randomUUID());
        throw new Error('no');
      }),
      /^Error: no$/,
    );
    await db.tx(async (tx) => {
      for (let n = 0; n < chunks; n += 1) await say(tx, n, ids[n % 2] ?? '');
      await sleep(100);
      assert.deepEqual(heard, [], 'nothing before the commit');
    });
    await allHeard(db);
    assert.deepEqual(new Set(heard.map((one) => one.payload)), new Set(ids));
    assert.equal(heard.length, 2);
  });

  it('is notified within the transaction for a daemon of the release before', async () => {
    heard.length = 0;
    const old = new pg.Client({ connectionString: t.url, application_name: 'svcd' });
    await old.connect();
    const id = randomUUID();
    await old.query('insert into chunks values (1, $1::uuid)', [id]);
    await old.end();
    await until(() => heard.length > 0);
    assert.deepEqual(heard, [{ channel: 'chunks', payload: id }]);
  });

  it('goes out before the database is closed', async () => {
    heard.length = 0;
    const db = openDatabase({ url: t.url, log: silent });
    const last = randomUUID();
    await say(db, 1, randomUUID());
    await say(db, 2, last);
    await db.close();
    await until(() => heard.some((one) => one.payload === last));
  });
});

describe('the rhythm of wake-ups', () => {
  it('the first at once, those that follow together, and the next after a quiet while at once again', async () => {
    const sent: string[][] = [];
    const tells = new WakeupSender(async (all) => void sent.push(all.map(({ payload }) => payload)), silent);
    tells.tell([{ channel: 'a', payload: '1' }]);
    assert.deepEqual(sent, [['1']]);
    for (const payload of ['2', '3', '2']) tells.tell([{ channel: 'a', payload }]);
    assert.equal(sent.length, 1);
    tells.tell([{ channel: 'b', payload: '9' }]);
    assert.deepEqual(sent[1], ['9'], 'another channel waits for nobody');
    for (let tries = 0; sent.length < 3 && tries < 6_000; tries += 1) await sleep(10);
    assert.deepEqual(sent[2], ['2', '3']);
    await sleep(200);
    tells.tell([{ channel: 'a', payload: '4' }]);
    assert.deepEqual(sent[3], ['4']);
    tells.tell([
      { channel: 'c', payload: '5' },
      { channel: 'd', payload: '6' },
    ]);
    assert.deepEqual(sent[4], ['5', '6'], 'of several channels at once');
    await tells.stop();
  });

  it('one that cannot be sent is logged, and the next is tried', async () => {
    const said: unknown[] = [];
    let tries = 0;
    const log = { warn: (...words: unknown[]) => said.push(words[1]) } as unknown as ConstructorParameters<
      typeof WakeupSender
    >[1];
    const tells = new WakeupSender(async () => {
      tries += 1;
      throw new Error('down');
    }, log);
    tells.tell([{ channel: 'a', payload: '1' }]);
    tells.tell([{ channel: 'a', payload: '2' }]);
    await tells.stop();
    assert.equal(tries, 2);
    assert.deepEqual(said, ['database.tell_failed', 'database.tell_failed']);
  });
});

test('keeps nothing of who could not listen, who asks again as often as it likes', async (t) => {
  const database = await createTestDatabase();
  t.after(() => database.close());
  const address = new URL(database.url);
  let isOpen = false;
  const way = createServer((near) => {
    near.on('error', () => undefined);
    if (!isOpen) return void near.destroy();
    const far = connect(Number(address.port), address.hostname);
    far.on('error', () => near.destroy());
    near.pipe(far).pipe(near);
  });
  way.listen(0, '127.0.0.1');
  await once(way, 'listening');
  const url = new URL(database.url);
  [url.hostname, url.port] = ['127.0.0.1', String((way.address() as AddressInfo).port)];
  const hub = new ListenHub({ connectionString: url.href }, silent);
  const heard: string[] = [];
  await assert.rejects(hub.listen('refused', () => heard.push('refused')));
  isOpen = true;
  const { promise: told, resolve: tell } = Promise.withResolvers<void>();
  await hub.listen('taken', () => tell());
  await database.db.query(`select pg_notify('refused', ''), pg_notify('taken', '')`);
  await told;
  await hub.stop();
  way.close();
  assert.deepEqual(heard, []);
});

test('whoever hears no more, and the end, wait a moment for a server that says nothing', async (t) => {
  const database = await createTestDatabase();
  t.after(() => database.close());
  const network = await startCutProxy(database.url);
  t.after(() => network.stop());
  for (const stands of [true, false]) {
    const db = openDatabase({ url: network.url, log: silent });
    const stops = stands
      ? await Promise.all(['one', 'two', 'three'].map((channel) => db.listen(channel, () => undefined)))
      : [];
    network.cut();
    // One that is being made.
    if (!stands) void db.listen('four', () => undefined).catch(() => undefined);
    const ended = async (): Promise<void> => {
      for (const stop of stops) await stop();
      await db.close();
    };
    assert.ok((await within(ended(), 5_000)) !== undefined, stands ? 'a connection that stands' : 'one that is made');
    network.mend();
  }
});
