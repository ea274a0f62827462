import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import {
  apiClient,
  embeddedPid,
  readClientFile,
  spawnDaemon,
  tempDataDir,
} from '../../internal/base/testkit/daemon.ts';
import { createTestDatabase } from '../../internal/base/testkit/postgres.ts';

async function me(dataDir: string): Promise<number> {
  const { url, token } = readClientFile(dataDir);
  return (await apiClient(url, token)('GET', '/api/v1/me')).status;
}

describe('svcd killed while it starts', () => {
  it('between writing client.json and the commit: the next start makes a client that is valid', async () => {
    const data = await tempDataDir();
    const killed = spawnDaemon({ dataDir: data.path, env: { SVC_FAILPOINT: 'bootstrap.before-commit' } });
    assert.equal((await killed.exited).signal, 'SIGKILL');
    const lost = readClientFile(data.path).token;
    const next = spawnDaemon({ dataDir: data.path });
    await next.ready;
    assert.notEqual(readClientFile(data.path).token, lost);
    assert.equal(await me(data.path), 200);
    await next.kill('SIGTERM');
    await data.remove();
  });

  it('at moments across the first start: the next one always completes', async () => {
    const moments = process.env['SVC_LONG'] === '1' ? Array.from({ length: 30 }, (_, n) => 200 + n * 60) : [900];
    for (const afterMs of moments) {
      const data = await tempDataDir({ empty: true });
      const killed = spawnDaemon({ dataDir: data.path });
      await Promise.race([sleep(afterMs), killed.ready.catch(() => undefined)]);
      await killed.kill('SIGKILL');
      const next = spawnDaemon({ dataDir: data.path });
      await next.ready;
      assert.equal(await me(data.path), 200, `killed after ${afterMs} ms`);
      assert.deepEqual(await next.kill('SIGTERM'), { code: 0, signal: null });
      await data.remove();
    }
  });
});

describe('svcd told to stop while it starts', () => {
  it('stops what it has started, at whatever moment, and the next start completes', async () => {
    const data = await tempDataDir({ empty: true });
    for (const afterMs of [350, 700, 1_000]) {
      const early = spawnDaemon({ dataDir: data.path });
      await sleep(afterMs);
      const end = await early.kill('SIGTERM');
      // Before it listens for signals there is nothing to stop, and the system's own way of ending is fine.
      assert.ok(end.code === 0 || end.signal === 'SIGTERM', JSON.stringify(end));
      assert.equal(await embeddedPid(data.path), undefined);
    }
    const next = spawnDaemon({ dataDir: data.path });
    await next.ready;
    assert.equal(await me(data.path), 200);
    await next.kill('SIGTERM');
    await data.remove();
  });
});

describe('svcd and its master key', () => {
  it('is not ready, nor makes a new key, where the lost one seals something', async () => {
    const data = await tempDataDir();
    const first = spawnDaemon({ dataDir: data.path });
    await first.ready;
    // As another daemon's rotation would: a row sealed with a version that this file does not hold.
    const { port, password } = await serverOf(data.path);
    const client = new pg.Client({ connectionString: `postgres://svc:${password}@127.0.0.1:${port}/svc` });
    await client.connect();
    await client.query(
      `insert into svc.secrets (org_id, name, key_version, sealed) select id, 'A', 7, '\\x00'::bytea from svc.orgs`,
    );
    await client.end();
    const { url } = readClientFile(data.path);
    const unready = await fetch(`${url}/readyz`);
    assert.equal(unready.status, 503);
    assert.match(await unready.text(), /the master key file lacks version 7/);
    await first.kill('SIGTERM');
    const second = spawnDaemon({ dataDir: data.path });
    const blocked = await unreadyReason(data.path, url);
    assert.match(blocked, /the master key file lacks version 7/);
    assert.equal(second.stdout(), '', 'not ready is not said to be ready');
    assert.match(second.stderr(), /keys.unusable/);
    assert.deepEqual(await second.kill('SIGTERM'), { code: 0, signal: null });
    await rm(join(data.path, 'master.key'));
    const third = spawnDaemon({ dataDir: data.path });
    assert.match(await unreadyReason(data.path, url), /there is no master key file; .* lacks version 7/);
    const key = Buffer.alloc(32, 7).toString('base64');
    writeFileSync(join(data.path, 'master.key'), `7:${key}\n`);
    await third.ready;
    assert.deepEqual(await third.kill('SIGTERM'), { code: 0, signal: null });
    // One that is there and holds no key is a mistake of whoever wrote it.
    writeFileSync(join(data.path, 'master.key'), `7:${key.slice(1)}\n`);
    const fourth = spawnDaemon({ dataDir: data.path });
    assert.equal((await fourth.exited).code, 2);
    assert.match(fourth.stderr(), /^svcd: SVC_MASTER_KEY_FILE line 1 /);
    await data.remove();
  });

  it('refuses a file that holds no keys, without repeating it', async () => {
    const database = await createTestDatabase();
    const data = await tempDataDir({ empty: true });
    const path = join(data.path, 'keys');
    for (const text of ['', 'hush', `1:${randomBytes(31).toString('base64')}`, `1:${'hush'.repeat(11)}`]) {
      writeFileSync(path, text);
      const daemon = spawnDaemon({
        dataDir: data.path,
        env: { SVC_DATABASE_URL: database.url, SVC_MASTER_KEY_FILE: path },
      });
      assert.equal((await daemon.exited).code, 2, text);
      assert.match(daemon.stderr(), /^svcd: SVC_MASTER_KEY_FILE /);
      assert.doesNotMatch(daemon.stderr(), /hush/);
    }
    await data.remove();
    await database.close();
  });
});

describe('svcd with some roles', () => {
  it('serves its health and nothing else without the role api', async () => {
    const data = await tempDataDir();
    const daemon = spawnDaemon({ dataDir: data.path, args: ['--roles', 'sync,schedule'] });
    const { url } = await daemon.ready;
    assert.equal((await fetch(`${url}/readyz`)).status, 200);
    assert.equal((await fetch(`${url}/api/v1/me`)).status, 404);
    await daemon.kill('SIGTERM');
    await data.remove();
  });

  it('prints its settings, or its version, when asked', async () => {
    for (const [flag, said] of [
      ['--help', /SVC_MASTER_KEY_FILE +--master-key-file/],
      ['--version', /^svcd \d+\.\d+\.\d+ \(node \d+\.\d+\.\d+\)\n$/],
    ] as const) {
      const daemon = spawnDaemon({ dataDir: '/nowhere', args: [flag] });
      assert.equal((await daemon.exited).code, 0);
      assert.match(daemon.stdout(), said);
    }
  });
});

/** What the next daemon of a data directory, which is not the one at `before`, is not ready for. */
async function unreadyReason(dataDir: string, before: string): Promise<string> {
  for (let tries = 0; tries < 2_400; tries += 1) {
    const { url } = readClientFile(dataDir);
    const answer = url === before ? undefined : await fetch(`${url}/readyz`).catch(() => undefined);
    if (answer?.status === 503) return answer.text();
    await sleep(50);
  }
  throw new Error('no daemon says that it is not ready');
}

async function serverOf(dataDir: string): Promise<{ port: string; password: string }> {
  const [mark, password] = await Promise.all([
    readFile(join(dataDir, 'postgres', 'postmaster.pid'), 'utf8'),
    readFile(join(dataDir, 'postgres.password'), 'utf8'),
  ]);
  return { port: mark.split('\n')[3] ?? '', password: password.trim() };
}
