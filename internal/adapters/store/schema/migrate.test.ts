import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type AddressInfo, connect, createServer } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createTestDatabase, silent, type TestDatabase } from '../../../base/testkit/postgres.ts';
import { Fault } from '../../../domain/fault.ts';
import { bodyWeeks, weekAfter, weekOf } from '../operations/retention.ts';
import { migrate, pendingMigrations, readMigrations } from './migrate.ts';

/** A zone by its rules: its clocks are put by an hour on Wednesday of this week, and the other way half a year later. */
function changing(way: 'forward' | 'back'): string {
  const dayMs = 86_400_000;
  const wednesday = weekOf(new Date()).getTime() + 2 * dayMs;
  const dayOf = (at: number): number => Math.floor((at - Date.UTC(new Date(at).getUTCFullYear(), 0, 1)) / dayMs);
  const [here, there] = [dayOf(wednesday), dayOf(wednesday + 182 * dayMs)];
  return `AAA0BBB,${way === 'forward' ? here : there}/0,${way === 'forward' ? there : here}/0`;
}

describe('migrations', () => {
  let dir: string;
  let test: TestDatabase;
  const put = (name: string, sql: string): Promise<void> => writeFile(join(dir, name), sql);
  before(async () => {
    dir = await mkdtemp(join(tmpdir(), 'svc-migrations-'));
    test = await createTestDatabase({ empty: true });
    await put('0001_one.sql', 'create table svc.one (n int)');
    await put('0002_two.sql', 'create table svc.two (n int)');
    await put('notes.txt', 'no migration');
  });
  after(async () => {
    await test.close();
    await rm(dir, { recursive: true });
  });

  it('are applied once, in order, by one of several that start at the same moment', async () => {
    const applied = await Promise.all([1, 2, 3].map(() => migrate(test.url, silent, dir)));
    assert.deepEqual(applied.flat(), ['0001_one', '0002_two']);
    assert.deepEqual(await migrate(test.url, silent, dir), []);
    const { rows } = await test.db.query('select number, name from svc.migrations order by number');
    assert.deepEqual(rows, [
      { number: 1, name: '0001_one' },
      { number: 2, name: '0002_two' },
    ]);
  });

  it('leave nothing of one that fails, and name it', async () => {
    await put('0003_three.sql', 'create table svc.three (n int); select 1 / 0');
    await assert.rejects(migrate(test.url, silent, dir), /migration 0003_three failed: division by zero/);
    const { rows } = await test.db.query(
      `select to_regclass('svc.three') is null as gone, (select count(*) from svc.migrations) as n`,
    );
    assert.deepEqual(rows, [{ gone: true, n: 2 }]);
    await put('0003_three.sql', 'create table svc.three (n int)');
    assert.deepEqual(await migrate(test.url, silent, dir), ['0003_three']);
  });

  it('refuse a database that knows more, or something else', async () => {
    const refused = (error: unknown): boolean => error instanceof Fault && error.code === 'database-newer';
    await rm(join(dir, '0003_three.sql'));
    await assert.rejects(migrate(test.url, silent, dir), refused);
    await put('0003_other.sql', 'select 1');
    await assert.rejects(migrate(test.url, silent, dir), refused);
  });

  it('may leave out numbers, and one that comes late is applied all the same; none twice', async () => {
    await rm(join(dir, '0003_other.sql'));
    await put('0003_three.sql', 'create table svc.three (n int)');
    await put('0007_seven.sql', 'create table svc.seven (n int)');
    assert.deepEqual(await migrate(test.url, silent, dir), ['0007_seven']);
    await put('0005_five.sql', 'create table svc.five (n int)');
    await put('0009_nine.sql', 'create table svc.nine (n int)');
    assert.deepEqual(await migrate(test.url, silent, dir), ['0005_five', '0009_nine']);
    await put('0005_six.sql', 'select 1');
    await assert.rejects(readMigrations(dir), /0005_six/);
    await rm(join(dir, '0005_six.sql'));
  });

  it('build indexes beside the traffic, also when several daemons start and one was cut off before', async () => {
    await test.db.query('insert into svc.one values (1), (1)');
    // What a build that failed leaves behind: an index of that name that is not valid.
    await assert.rejects(test.db.query('create unique index concurrently one_n on svc.one (n)'));
    const build = 'create index concurrently if not exists';
    await put(
      '0010_index.sql',
      `-- concurrently\n-- Looked up by n; always.\n${build} one_n on svc.one (n);\n${build} two_n on svc.two (n);\n`,
    );
    const writing = await test.db.tx(async (tx) => {
      await tx.query('insert into svc.one values (2)');
      const applying = Promise.all([1, 2, 3].map(() => migrate(test.url, silent, dir)));
      await new Promise((resolve) => setTimeout(resolve, 100));
      return { applying };
    });
    assert.deepEqual((await writing.applying).flat(), ['0010_index']);
    const { rows } = await test.db.query(
      `select c.relname as name from pg_index i join pg_class c on c.oid = i.indexrelid
        where c.relname in ('one_n', 'two_n') and i.indisvalid order by 1`,
    );
    assert.deepEqual(rows, [{ name: 'one_n' }, { name: 'two_n' }]);
    await put('0011_wrong.sql', '-- concurrently\ndrop table svc.one;');
    await assert.rejects(migrate(test.url, silent, dir), /0011_wrong failed: not an index/);
    await rm(join(dir, '0011_wrong.sql'));
  });

  it('give way to the traffic when a lock is not to be had, and come back for it', async () => {
    const said: string[] = [];
    const tell = (fields: object, event: string): void => void said.push(`${event} ${JSON.stringify(fields)}`);
    const log = Object.assign(Object.create(silent) as typeof silent, { info: tell, warn: tell });
    await put('0012_column.sql', 'alter table svc.one add column m int');
    let release: () => void = () => undefined;
    const released = new Promise<void>((resolve) => (release = resolve));
    const holding = test.db.tx(async (tx) => {
      await tx.query('lock table svc.one in access exclusive mode');
      await released;
    });
    const applying = migrate(test.url, log, dir);
    const deadline = Date.now() + 60_000;
    while (!said.some((line) => line.includes('migration_waits_for_a_lock')) && Date.now() < deadline) await sleep(50);
    release();
    await holding;
    assert.deepEqual(await applying, ['0012_column']);
    assert.ok(
      said.some((line) => line.startsWith('database.migrating ') && line.includes('0012_column')),
      said.join(''),
    );
  });

  for (const way of ['forward', 'back'] as const)
    it(`of this program cut weeks at Monday, UTC, where the database has a zone whose clocks are put ${way} that week`, async () => {
      const fresh = await createTestDatabase({ empty: true });
      await fresh.db.query(
        `do $$ begin execute format('alter database %I set timezone = %L', current_database(), '${changing(way)}'); end $$`,
      );
      await migrate(fresh.url, silent);
      const monday = weekOf(new Date());
      assert.deepEqual(await bodyWeeks(fresh.db), [monday, weekAfter(monday)]);
      await fresh.close();
    });

  it('of this program fit on an empty database and are then none pending', async () => {
    const fresh = await createTestDatabase({ empty: true });
    const names = (await readMigrations()).map((one) => one.name);
    assert.deepEqual(await migrate(fresh.url, silent), names);
    assert.deepEqual(await pendingMigrations(fresh.db), []);
    const { rows } = await fresh.db.query<{ table: string }>(
      `select c.relname as table from pg_class c join pg_namespace n on n.oid = c.relnamespace
       where n.nspname = 'svc' and c.relkind in ('r', 'p') and c.relname <> 'migrations'
         and c.relname !~ '^event_bodies_\\d{8}$' and obj_description(c.oid) is null`,
    );
    assert.deepEqual(rows, [], 'every table says what it is for');
    await fresh.close();
  });
});

it('a server that goes while the last connections of a migration are being closed ends nobody', async () => {
  const fresh = await createTestDatabase({ empty: true });
  const told = Buffer.from('SFATAL\0C57P01\0Mterminating connection due to administrator command\0\0', 'latin1');
  const head = Buffer.from('E\0\0\0\0', 'latin1');
  head.writeInt32BE(told.length + 4, 1);
  const target = new URL(fresh.url);
  const server = createServer((socket) => {
    const upstream = connect(Number(target.port), target.hostname);
    upstream.on('error', () => socket.destroy()).pipe(socket);
    socket.on('error', () => upstream.destroy());
    // Who says good-bye hears that the server goes.
    socket.on('data', (chunk: Buffer) =>
      chunk.toString('latin1') === 'X\0\0\0\u0004' ? socket.write(Buffer.concat([head, told])) : upstream.write(chunk),
    );
    socket.on('close', () => upstream.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const through = new URL(fresh.url);
  through.port = String((server.address() as AddressInfo).port);
  assert.ok((await migrate(through.href, silent)).length > 0);
  server.close();
  await once(server, 'close');
  await fresh.close();
});
