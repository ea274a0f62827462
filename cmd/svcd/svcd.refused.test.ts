// A database that lets nobody in for a while: an operator changes a password, a right, a name, and changes it back. Whoever asks
// meanwhile hears that it is away, and nothing has to be started again.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { pino } from 'pino';
import { migrate } from '../../internal/adapters/store/schema/migrate.ts';
import { openDatabase } from '../../internal/adapters/store/store.ts';
import { startTestDaemon, type TestDaemon } from '../../internal/base/testkit/daemon.ts';
import { silent, testCluster } from '../../internal/base/testkit/postgres.ts';

const [role, name] = [`keeper_${randomBytes(4).toString('hex')}`, `kept_${randomBytes(4).toString('hex')}`];
let admin: pg.Client;
let url: string;
before(async () => {
  admin = new pg.Client({ connectionString: await testCluster() });
  await admin.connect();
  await admin.query(`create role ${role} login password 'hush'`);
  await admin.query(`create database ${name}`);
  await admin.query(`revoke all on database ${name} from public`);
  await admin.query(`grant connect, create on database ${name} to ${role}`);
  url = String(Object.assign(new URL(await testCluster()), { username: role, password: 'hush', pathname: `/${name}` }));
  await migrate(url, silent);
});
after(async () => {
  await admin.query(`drop database ${name} with (force)`);
  await admin.query(`drop role ${role}`);
  await admin.end();
});

async function until(what: string, look: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 1_500; tries += 1) {
    if (await look()) return;
    await sleep(20);
  }
  assert.fail(`never: ${what}`);
}

describe('a daemon that its database lets in no more', () => {
  let daemon: TestDaemon;
  let log = '';
  before(async () => {
    const db = openDatabase({ url, log: silent });
    const lines = { write: (line: string) => void (log += line) };
    daemon = await startTestDaemon({
      database: { url, db, close: () => db.close() },
      log: pino({ level: 'warn' }, lines),
    });
    await db.close();
  });
  after(() => daemon.stop());

  const refusals: { readonly [what: string]: readonly [refused: string, allowed: string] } = {
    'for another password': [`alter role ${role} password 'other'`, `alter role ${role} password 'hush'`],
    'for a role that may not': [`alter role ${role} nologin`, `alter role ${role} login`],
    'for a right that was taken': [
      `revoke connect on database ${name} from ${role}`,
      `grant connect on database ${name} to ${role}`,
    ],
    'for a database that is being restored': [
      `alter database ${name} allow_connections false`,
      `alter database ${name} allow_connections true`,
    ],
  };
  for (const [what, [refused, allowed]] of Object.entries(refusals))
    it(`${what} says that it is unavailable, and goes on by itself`, async () => {
      const { api } = daemon;
      await admin.query(refused);
      const told = new Set<number>();
      try {
        const ask = async (): Promise<number> => {
          // One that was let in as it was refused may not have been seen before.
          await admin.query('select pg_terminate_backend(pid) from pg_stat_activity where datname = $1::text', [name]);
          const asked = [api('GET', 'P/agents'), api('PUT', 'P/secrets/one', { value: 'v' }), api('GET', '/api/v1/me')];
          const answers = await Promise.all(asked);
          for (const { status } of answers) told.add(status);
          return answers.filter(({ status }) => status === 503).length;
        };
        await until('that all are told', async () => (await ask()) === 3);
        await sleep(1_000);
        await ask();
        assert.equal((await fetch(`${daemon.url}/readyz`)).status, 503);
      } finally {
        await admin.query(allowed);
      }
      assert.deepEqual(
        [...told].filter((status) => status >= 400 && status !== 503),
        [],
      );
      await until('that it is ready', async () => (await fetch(`${daemon.url}/readyz`)).status === 200);
      assert.ok((await api('PUT', 'P/secrets/one', { value: 'v' })).status < 300);
      assert.doesNotMatch(log, /hush/);
    });
});
