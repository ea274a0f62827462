// Two daemons behind a transaction-mode pooler. Runs where SVC_TEST_PGBOUNCER names the program: `make test-pgbouncer`
// installs the distribution's package and says so.

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { errorCode, openDatabase } from '../../internal/adapters/store/store.ts';
import { startTestDaemon, type TestDaemon } from '../../internal/base/testkit/daemon.ts';
import { freePort } from '../../internal/base/testkit/installed-postgres.ts';
import { createTestDatabase, silent, type TestDatabase } from '../../internal/base/testkit/postgres.ts';
import { startLoad } from '../../internal/flows/routing/load-testkit.ts';

const program = process.env['SVC_TEST_PGBOUNCER'];

interface Pooler {
  readonly url: string;
  stop(): Promise<void>;
}

/** A transaction-mode pooler of six server connections that keeps nothing for its clients, also no prepared statements. */
async function startPooler(database: TestDatabase, path: string): Promise<Pooler> {
  const dir = await mkdtemp(join(tmpdir(), 'svc-pgbouncer-'));
  const at = new URL(database.url);
  const port = await freePort();
  const server = `host=${at.hostname} port=${at.port} dbname=${at.pathname.slice(1)} user=${at.username}`;
  const config = [
    '[databases]',
    `svc = ${server} password=${decodeURIComponent(at.password)}`,
    '[pgbouncer]',
    'listen_addr = 127.0.0.1',
    `listen_port = ${port}`,
    'unix_socket_dir =',
    'auth_type = any',
    'pool_mode = transaction',
    'default_pool_size = 6',
    'max_client_conn = 200',
  ];
  await chmod(dir, 0o755);
  await writeFile(join(dir, 'pgbouncer.ini'), `${config.join('\n')}\n`, { mode: 0o644 });
  // It refuses to run as root.
  const account = process.getuid?.() === 0 ? ['-u', 'nobody'] : [];
  const child: ChildProcess = spawn(path, [...account, join(dir, 'pgbouncer.ini')], { stdio: 'ignore' });
  const ended = new Promise<void>((resolve) => child.on('close', () => resolve()));
  for (let tries = 0; !(await answers(port)); tries += 1) {
    assert.ok(tries < 200 && child.exitCode === null, 'the pooler does not start');
    await sleep(50);
  }
  return {
    url: `postgres://svc@127.0.0.1:${port}/svc`,
    async stop() {
      child.kill('SIGTERM');
      await ended;
      await rm(dir, { recursive: true, force: true });
    },
  };
}

const answers = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port });
    socket.on('connect', () => resolve(true)).on('error', () => resolve(false));
    socket.on('close', () => undefined);
    socket.on('connect', () => socket.destroy());
  });

describe('behind a transaction-mode pooler', { skip: program === undefined }, () => {
  let database: TestDatabase;
  let pooler: Pooler;
  const daemons: TestDaemon[] = [];
  before(async () => {
    database = await createTestDatabase();
    pooler = await startPooler(database, program ?? '');
    const config = { databaseUrl: pooler.url, databaseDirectUrl: database.url };
    const first = await startTestDaemon({ database, config });
    daemons.push(first, await startTestDaemon({ database, config, token: first.token }));
  });
  after(async () => {
    for (const daemon of daemons.toReversed()) await daemon.stop();
    await pooler.stop();
    await database.close();
  });

  it('events of two daemons are routed once each, in their order, while operators act', async () => {
    const [one, other] = daemons as [TestDaemon, TestDaemon];
    const load = await startLoad(one.api);
    const posting = load.post('pooled', 600, () => [one.url, other.url]);
    for (let n = 0; n < 10; n += 1) {
      assert.equal((await other.api('PUT', `P/secrets/S${n}`, { value: `value ${n}` })).status < 300, true);
      assert.equal((await one.api('GET', 'P/sessions')).status, 200);
    }
    await posting;
    await load.requireOnce(database.db);
  });

  it('daemons keep one connection each to the server itself, the one that listens', async () => {
    const { rows } = await database.db.query<{ name: string; n: number }>(
      `select application_name as name, count(*)::int as n from pg_stat_activity
        where datname = current_database() and application_name like 'svcd daemon %' group by 1`,
    );
    assert.deepEqual(
      rows.map((row) => row.n),
      [1, 1],
    );
    const { rows: all } = await database.db.query<{ n: number }>(
      `select count(*)::int as n from pg_stat_activity where datname = current_database() and backend_type = 'client backend'`,
    );
    // Those two, the six of the pooler at most, and those of this test.
    assert.ok((all[0]?.n ?? 99) <= 2 + 6 + 7, `${all[0]?.n}`);
  });

  it('what is notified is heard: an apply wakes the schedules and the endpoints of the other daemon', async () => {
    const [one, other] = daemons as [TestDaemon, TestDaemon];
    let heard = 0;
    const stop = await other.ctx.db.listen('pooled_news', () => void (heard += 1));
    await one.ctx.db.query(`select pg_notify('pooled_news', 'x')`);
    for (let tries = 0; heard === 0 && tries < 500; tries += 1) await sleep(10);
    assert.equal(heard, 1);
    await stop();
  });

  it('time limits hold without anything that stays on a connection', async () => {
    const db = openDatabase({ url: pooler.url, directUrl: database.url, log: silent, statementTimeoutMs: 200 });
    const isTooSlow = (error: unknown): boolean => errorCode(error) === '57014';
    await assert.rejects(db.query('select pg_sleep(5)'), isTooSlow);
    await assert.rejects(
      db.tx((tx) => tx.query('select pg_sleep(5)')),
      isTooSlow,
    );
    await db.close();
    const plain = openDatabase({ url: pooler.url, directUrl: database.url, log: silent });
    const shown = await Promise.all(
      Array.from({ length: 12 }, () => plain.query<{ t: string }>(`select current_setting('statement_timeout') as t`)),
    );
    assert.deepEqual(new Set(shown.map(({ rows }) => rows[0]?.t)), new Set(['30s']));
    await plain.close();
    const { rows } = await database.db.query<{ n: number }>(
      `select count(*)::int as n from pg_stat_activity where datname = current_database() and state = 'idle in transaction'`,
    );
    assert.equal(rows[0]?.n, 0);
  });
});
