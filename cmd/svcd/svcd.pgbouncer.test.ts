// Two daemons behind a transaction-mode pooler. Runs where SVC_TEST_PGBOUNCER names the program: `make test-pgbouncer`
// installs the distribution's package and says so.

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { createHmac, randomUUID } from 'node:crypto';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { sha256 } from '../../internal/base/hash.ts';
import { errorCode, openDatabase } from '../../internal/adapters/store/store.ts';
import { startTestDaemon, type TestDaemon } from '../../internal/base/testkit/daemon.ts';
import { freePort } from '../../internal/base/testkit/installed-postgres.ts';
import { createTestDatabase, silent, type TestDatabase } from '../../internal/base/testkit/postgres.ts';
import { addConnection, deliver } from '../../internal/flows/ingest/ingest-testkit.ts';
import { startLoad } from '../../internal/flows/routing/load-testkit.ts';
import { applyAgents, routesOf, settled } from '../../internal/flows/routing/routing-testkit.ts';

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

/**
 * Waits until every transaction that is open and idle now has gone on or ended. Daemons at work are always seen between
 * two statements somewhere; one that was left open stays for the minute after which the server ends it.
 */
async function requireNoneLeftOpen({ db }: TestDatabase): Promise<void> {
  const idle = async (): Promise<Map<string, string>> => {
    const { rows } = await db.query<{ key: string; query: string }>(
      `select concat_ws(' ', pid, state_change) as key, query from pg_stat_activity
        where datname = current_database() and state like 'idle in transaction%'`,
    );
    return new Map(rows.map(({ key, query }) => [key, query]));
  };
  let left = await idle();
  for (const until = performance.now() + 30_000; left.size > 0 && performance.now() < until; await sleep(20)) {
    const now = await idle();
    left = new Map([...left].filter(([key]) => now.has(key)));
  }
  assert.deepEqual([...left.values()], []);
}

describe('behind a transaction-mode pooler', { skip: program === undefined }, () => {
  let database: TestDatabase;
  let pooler: Pooler;
  const daemons: TestDaemon[] = [];
  before(async () => {
    database = await createTestDatabase();
    pooler = await startPooler(database, program ?? '');
    const config = { databaseUrl: pooler.url, databaseDirectUrl: database.url };
    const first = await startTestDaemon({ database, config });
    const { masterKeyFile } = first.ctx.config;
    daemons.push(first, await startTestDaemon({ database, config: { ...config, masterKeyFile }, token: first.token }));
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
      const put = await other.api('PUT', `P/secrets/S${n}`, { value: `value ${n}` });
      assert.ok(put.status < 300, `${put.status} ${JSON.stringify(put.body)}`);
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
    await requireNoneLeftOpen(database);
    await db.close();
    const plain = openDatabase({ url: pooler.url, directUrl: database.url, log: silent });
    const shown = await Promise.all(
      Array.from({ length: 12 }, () => plain.query<{ t: string }>(`select current_setting('statement_timeout') as t`)),
    );
    assert.deepEqual(new Set(shown.map(({ rows }) => rows[0]?.t)), new Set(['30s']));
    await requireNoneLeftOpen(database);
    await plain.close();
  });

  it('large deliveries are copied in, once for both daemons, and routed by what stands behind their bulk', async () => {
    const [one, other] = daemons as [TestDaemon, TestDaemon];
    const secret = 'the secret of the connection';
    const id = await addConnection(one, { provider: 'codehost', name: 'host', credentials: { webhookSecret: secret } });
    const trigger = { event: 'codehost.push', where: { '$.raw.sender.login': 'ann' }, routing: { kind: 'spawn' } };
    await applyAgents(one.api, { pushed: { triggers: [trigger] } });
    const body = (n: number): Buffer =>
      Buffer.from(
        JSON.stringify({
          ref: 'refs/heads/main',
          commits: [{ id: `${n}`, message: 'é'.repeat(3 * 1_048_576), added: [], removed: [], modified: [] }],
          repository: { full_name: 'acme/app' },
          sender: { login: 'ann' },
        }),
      );
    for (let n = 0; n < 2; n += 1) {
      const bytes = body(n);
      const headers = {
        'x-github-event': 'push',
        'x-github-delivery': randomUUID(),
        'x-hub-signature-256': `sha256=${createHmac('sha256', secret).update(bytes).digest('hex')}`,
      };
      const path = `/api/v1/intake/codehost/${id}`;
      const answers = await Promise.all([one, other].map((at) => deliver(at, path, bytes, headers)));
      assert.deepEqual(
        answers.map(({ status }) => status).toSorted((a, b) => a - b),
        [200, 202],
        JSON.stringify(answers),
      );
      const [event = '', same] = answers.map((answer) => String(answer.body['eventRecordId']));
      assert.equal(event, same);
      const { rows } = await database.db.query<{ digest: string }>(
        `select encode(sha256(raw), 'hex') as digest from svc.event_bodies where event_id = $1::uuid`,
        [event],
      );
      assert.equal(rows[0]?.digest, sha256(bytes));
      await settled(database.db);
      const routes = await routesOf(database.db, event);
      assert.deepEqual(
        routes.map(({ agent, decision, sessions }) => [agent, decision, sessions.length]),
        [['pushed', 'spawn', 1]],
      );
      const read = await one.api('GET', `P/events/${event}`);
      assert.equal(read.body['payload']?.['raw']?.['sender']?.['login'], 'ann');
    }
    const { rows } = await database.db.query<{ n: number }>(
      `select count(*)::int as n from svc.event_bodies where octet_length(raw) > 1048576`,
    );
    assert.equal(rows[0]?.n, 2);
  });

  it('a copy that breaks off midway is rolled back, and its connection serves the next', async () => {
    const db = openDatabase({ url: pooler.url, directUrl: database.url, log: silent });
    const ids = Array.from({ length: 64 }, () => randomUUID());
    function* brokenOff(): Generator<Uint8Array> {
      for (const id of ids) yield Buffer.from(`${id}\t\\\\x${'00'.repeat(32_768)}\n`);
      throw new RangeError('no more of it');
    }
    const text = 'copy svc.event_bodies (event_id, raw) from stdin';
    for (let n = 0; n < 12; n += 1) {
      await assert.rejects(
        db.tx((tx) => tx.copyIn(text, brokenOff())),
        (error) => errorCode(error) === '57014' && /RangeError/.test(String(error)),
      );
      await assert.rejects(
        db.tx((tx) => tx.copyIn(text, [Buffer.from('no row\n')])),
        (error) => errorCode(error) === '22P02',
      );
    }
    const { rowCount } = await db.query('select from svc.event_bodies where event_id = any($1::uuid[])', [ids]);
    assert.equal(rowCount, 0);
    await requireNoneLeftOpen(database);
    await db.close();
  });
});
