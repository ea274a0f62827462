// What a start says of a database that it cannot use: one line, and what to do about it.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import pg from 'pg';
import { embeddedPid, spawnDaemon, tempDataDir } from '../../internal/base/testkit/daemon.ts';
import { testCluster } from '../../internal/base/testkit/postgres.ts';
import { callSvc } from '../svc/testkit.ts';

describe('a database of the operator’s', () => {
  let admin: pg.Client;
  let data: Awaited<ReturnType<typeof tempDataDir>>;
  const role = `poor_${randomBytes(4).toString('hex')}`;
  const databases: string[] = [];
  before(async () => {
    data = await tempDataDir({ empty: true });
    await writeFile(join(data.path, 'keys'), `1:${randomBytes(32).toString('base64')}\n`, { mode: 0o600 });
    admin = new pg.Client({ connectionString: await testCluster() });
    await admin.connect();
    await admin.query(`create role ${role} login password 'hush'`);
  });
  after(async () => {
    for (const name of databases) await admin.query(`drop database ${name} with (force)`);
    await admin.query(`drop role ${role}`);
    await admin.end();
    await data.remove();
  });

  async function made(options: string): Promise<URL> {
    const name = `svc_odd_${randomBytes(6).toString('hex')}`;
    databases.push(name);
    await admin.query(`create database ${name} ${options}`);
    return Object.assign(new URL(await testCluster()), { pathname: `/${name}` });
  }
  const settings = (url: URL) => ({
    SVC_DATABASE_URL: String(url),
    SVC_MASTER_KEY_FILE: join(data.path, 'keys'),
    SVC_LOG_LEVEL: 'silent',
  });
  async function started(url: URL): Promise<readonly [code: number | null, said: string]> {
    const daemon = spawnDaemon({ dataDir: join(data.path, 'data'), env: settings(url) });
    const { code } = await daemon.exited;
    return [code, daemon.stderr()];
  }

  it('in which it may make nothing is a setting that cannot be used', async () => {
    const url = Object.assign(await made(''), { username: role, password: 'hush' });
    const [code, said] = await started(url);
    assert.match(said, /^svcd: SVC_DATABASE_URL cannot be used: permission denied for database svc_odd_\w+\n$/);
    assert.equal(code, 2);
  });

  it('that takes no writes is one too', async () => {
    const url = await made('');
    await admin.query(`alter database ${url.pathname.slice(1)} set default_transaction_read_only = on`);
    const [code, said] = await started(url);
    assert.match(said, /^svcd: SVC_DATABASE_URL cannot be used: .*read-only transaction\n$/);
    assert.equal(code, 2);
  });

  it('that shows times in no way that can be read is told how it is to', async () => {
    const url = await made('');
    await admin.query(`alter database ${url.pathname.slice(1)} set datestyle = 'German, DMY'`);
    const [code, said] = await started(url);
    const what = 'The database shows times in the style German, DMY; svcd reads ISO: set datestyle to ISO for its role';
    assert.deepEqual([code, said], [1, `svcd: ${what} (alter role … set datestyle = 'ISO').\n`]);
    await admin.query(`alter database ${url.pathname.slice(1)} set datestyle = 'ISO, DMY'`);
    const daemon = spawnDaemon({ dataDir: join(data.path, 'data'), env: settings(url) });
    await daemon.ready;
    assert.deepEqual(await daemon.kill('SIGTERM'), { code: 0, signal: null });
  });

  for (const encoding of ['LATIN1', 'SQL_ASCII'])
    it(`in ${encoding}, which does not hold what people write, is begun with by nobody, and an upgrade is told so`, async () => {
      const url = await made(`encoding '${encoding}' template template0 locale 'C'`);
      const [code, said] = await started(url);
      const why = `The database is encoded in ${encoding}; svcd needs one in UTF8.`;
      assert.deepEqual([code, said], [1, `svcd: ${why}\n`]);
      const inside = new pg.Client({ connectionString: String(url) });
      await inside.connect();
      const { rows } = await inside.query(`select to_regnamespace('svc') as made`);
      await inside.end();
      assert.deepEqual(rows, [{ made: null }]);
      const checked = await callSvc(data.path, ['upgrade', 'check'], { env: settings(url) });
      assert.equal(checked.code, 1, checked.stderr);
      assert.match(checked.stdout, new RegExp(`✗ server .*${encoding}`));
    });
});

describe('an embedded database', () => {
  let data: Awaited<ReturnType<typeof tempDataDir>>;
  const env = { SVC_LOG_LEVEL: 'silent' };
  before(async () => {
    data = await tempDataDir();
  });
  after(() => data.remove());
  const svc = (...args: string[]) =>
    callSvc(data.path, [...args, '--data-dir', data.path], { env: { SVC_LOG_LEVEL: 'silent' } });

  it('of another major version is refused in a line that says what to do, and told of before the upgrade', async () => {
    const file = join(data.path, 'postgres', 'PG_VERSION');
    const mine = readFileSync(file, 'utf8').trim();
    const daemon = spawnDaemon({ dataDir: data.path, env });
    await daemon.ready;
    // A running server does not look at it again.
    await writeFile(file, '9\n');
    try {
      const beside = await svc('upgrade', 'check');
      assert.equal(beside.code, 1, beside.stdout);
      assert.match(beside.stdout, new RegExp(`✗ server .*is PostgreSQL 9, this svcd brings ${mine}`));
      assert.match(beside.stdout, /✓ migrations/);
      await daemon.kill('SIGTERM');
      const stopped = await svc('upgrade', 'check');
      assert.equal(stopped.code, 1, stopped.stderr);
      assert.match(stopped.stdout, /✗ server .*is PostgreSQL 9/);
      const again = spawnDaemon({ dataDir: data.path, env });
      assert.equal((await again.exited).code, 1);
      assert.match(
        again.stderr(),
        /^svcd: The database under .* is PostgreSQL 9, this svcd brings \d+: .*svc backup.*svc restore.*\n$/,
      );
      const saved = await svc('backup', join(data.path, 'saved'));
      assert.equal(saved.code, 1);
      assert.match(saved.stderr, /^svc: The database under .* is PostgreSQL 9, this svcd brings \d+[^\n]*\n$/);
    } finally {
      await daemon.kill('SIGTERM');
      await writeFile(file, `${mine}\n`);
    }
  });

  it('goes with its daemon where the terminal of both is closed', async () => {
    const daemon = spawnDaemon({ dataDir: data.path, env });
    await daemon.ready;
    assert.deepEqual(await daemon.kill('SIGHUP'), { code: 0, signal: null }, daemon.stderr());
    assert.equal(await embeddedPid(data.path), undefined, 'none is left behind');
  });

  it('is not blamed for a process that may open too few files', async () => {
    const program = join(import.meta.dirname, 'main.mjs');
    const args = ['-c', 'ulimit -n 64; exec "$@"', 'sh', process.execPath, program, '--data-dir', data.path];
    const ended = spawnSync('sh', args, {
      env: { PATH: process.env['PATH'] ?? '', HOME: data.path, SVC_LISTEN: '127.0.0.1:0', SVC_LOG_LEVEL: 'silent' },
      encoding: 'utf8',
      timeout: 60_000,
    });
    assert.deepEqual(
      [ended.status, ended.stderr],
      [1, 'svcd: This process may open too few files: raise its limit (ulimit -n, LimitNOFILE of systemd).\n'],
    );
    assert.equal(await embeddedPid(data.path), undefined);
  });

  it('that does not start says why in one line', async () => {
    await truncate(join(data.path, 'postgres', 'global', 'pg_control'), 0);
    const daemon = spawnDaemon({ dataDir: data.path, env });
    assert.equal((await daemon.exited).code, 1);
    assert.match(daemon.stderr(), /^svcd: The embedded database did not start: [^\n]*postgres\.log\)\.?\n$/);
    assert.equal(await embeddedPid(data.path), undefined);
    const saved = await svc('backup', join(data.path, 'saved'));
    assert.equal(saved.code, 1);
    assert.match(saved.stderr, /^svc: The embedded database did not start: [^\n]*\n$/);
    await rm(join(data.path, 'saved'), { recursive: true, force: true });
  });
});
