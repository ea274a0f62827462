import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import pg from 'pg';
import { silent, testCluster } from '../../../base/testkit/postgres.ts';
import { openDatabase } from '../store.ts';
import { migrate } from './migrate.ts';
import { lackOfRoom } from './room.ts';

test('a database that has room again is found to have it also by a role that may make no temporary tables', async () => {
  const admin = new pg.Client({ connectionString: await testCluster() });
  await admin.connect();
  const [role, name] = [`bare_${randomBytes(4).toString('hex')}`, `full_${randomBytes(4).toString('hex')}`];
  await admin.query(`create role ${role} login password 'hush'`);
  await admin.query(`create database ${name}`);
  // As who hardens a database gives rights.
  await admin.query(`revoke all on database ${name} from public`);
  await admin.query(`grant connect, create on database ${name} to ${role}`);
  const given = { username: role, password: 'hush', pathname: `/${name}` };
  const url = String(Object.assign(new URL(await testCluster()), given));
  await migrate(url, silent);
  const db = openDatabase({ url, log: silent });
  try {
    const full = `do $$ begin raise exception using errcode = '53100', message = 'No space left on device'; end $$`;
    await assert.rejects(db.query(full), { code: 'unavailable' });
    assert.equal(await lackOfRoom(db), undefined);
  } finally {
    await db.close();
    await admin.query(`drop database ${name} with (force)`);
    await admin.query(`drop role ${role}`);
    await admin.end();
  }
});
