import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { createTestDatabase, silent, type TestDatabase } from '../../../base/testkit/postgres.ts';
import { Fault } from '../../../domain/fault.ts';
import { migrate, pendingMigrations, readMigrations } from './migrate.ts';

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

  it('refuse to be read with a gap', async () => {
    await put('0005_five.sql', 'select 1');
    await assert.rejects(readMigrations(dir), /0005_five/);
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
