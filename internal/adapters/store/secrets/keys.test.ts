import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createTestDatabase, type TestDatabase } from '../../../base/testkit/postgres.ts';
import { listKeyVersions, sealedUses } from './keys.ts';

let database: TestDatabase;
before(async () => {
  database = await createTestDatabase();
});
after(() => database.close());

// A table that rotation does not know would keep a retired key in use, and lose its values with it.
test('rotation knows every table that holds sealed values', async () => {
  const { rows } = await database.db.query<{ table: string }>(
    `select distinct table_name as table from information_schema.columns
      where table_schema = 'svc' and (column_name = 'key_version' or column_name like 'sealed%') order by 1`,
  );
  assert.deepEqual(
    rows.map((row) => row.table),
    // Installation tokens are a cache: one that does not open is minted anew.
    [...sealedUses.map((use) => `${use.replace('-', '_')}s`), 'installation_tokens'].sort(),
    'add the table to sealedTables of keys.ts, and to its statements that name tables',
  );
});

test('a version that a row names is told, whether it was ever registered or not', async () => {
  const { db } = database;
  await db.query(`insert into svc.orgs (slug, name) values ('o', 'o')`);
  await db.query(
    `insert into svc.secrets (org_id, name, key_version, sealed) select id, 'A', 9, '\\x00'::bytea from svc.orgs`,
  );
  const found = (await listKeyVersions(db)).map(({ version, rows }) => [version, Number(rows)]);
  assert.deepEqual(found, [[9, 1]]);
});
