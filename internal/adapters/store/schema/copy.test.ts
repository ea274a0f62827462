import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createTestDatabase, silent } from '../../../base/testkit/postgres.ts';
import { beginCopyIn } from './copy.ts';
import { migrate, readMigrations } from './migrate.ts';

const restored = (await readMigrations()).map(({ name }) => name);
const someOrg = `insert into svc.orgs (slug, name) values ('somebody', 'somebody')`;

describe('a restore that is undone', () => {
  it('leaves nothing behind in a database in which nothing was', async () => {
    const { url, db, close } = await createTestDatabase({ empty: true });
    try {
      const undo = await beginCopyIn(url);
      await migrate(url, silent, undefined, { restored });
      await undo();
      const { rows } = await db.query(`select to_regnamespace('svc') is null as gone`);
      assert.deepEqual(rows, [{ gone: true }]);
    } finally {
      await close();
    }
  });

  it('touches nothing of what somebody begins in it at that moment', async () => {
    const { url, db, close } = await createTestDatabase({ empty: true });
    try {
      const undo = await beginCopyIn(url);
      await migrate(url, silent, undefined, { restored });
      let undone: Promise<void> | undefined;
      await db.tx(async (tx) => {
        await tx.query(someOrg);
        undone = undo();
        await sleep(300);
      });
      await undone;
      const { rows } = await db.query('select name from svc.orgs');
      assert.deepEqual(rows, [{ name: 'somebody' }]);
    } finally {
      await close();
    }
  });
});
