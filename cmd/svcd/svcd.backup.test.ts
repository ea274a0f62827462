// The drill of a backup: pg_dump of a database in use, pg_restore elsewhere, and a new daemon with the master key file.
// It needs PostgreSQL's own programs (15 or later) on the machine; svcd.restore.test.ts makes its copy without them.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHmac, randomBytes } from 'node:crypto';
import { copyFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import pg from 'pg';
import {
  type Api,
  apiClient,
  readClientFile,
  type SpawnedDaemon,
  spawnDaemon,
  tempDataDir,
} from '../../internal/base/testkit/daemon.ts';
import { type Dumpable, startDumpable } from '../../internal/base/testkit/installed-postgres.ts';

const run = promisify(execFile);
const canary = 'backupC4naryThatNoDumpMayShow';
const runnable = { harness: 'harness-a', environment: { name: 'default', image: { kind: 'preset', name: 'base' } } };
const orgSecrets = '/api/v1/orgs/default/secrets';

/** An empty database of the server. */
async function makeDatabase(server: Dumpable, name: string): Promise<{ url: string; drop(): Promise<void> }> {
  const admin = async (statement: string): Promise<void> => {
    const client = new pg.Client({ connectionString: server.adminUrl });
    await client.connect();
    try {
      await client.query(statement);
    } finally {
      await client.end();
    }
  };
  const full = `${name}_${randomBytes(4).toString('hex')}`;
  await admin(`create database ${full}`);
  const url = new URL(server.adminUrl);
  url.pathname = `/${full}`;
  return { url: url.href, drop: () => admin(`drop database ${full} with (force)`) };
}

/** Runs a client program against a database; the password goes by the environment. */
async function client(program: string, url: string, args: readonly string[]): Promise<string> {
  const { hostname, port, username, password, pathname } = new URL(url);
  const env = {
    PATH: process.env['PATH'] ?? '',
    PGHOST: hostname,
    PGPORT: port,
    PGUSER: username,
    PGPASSWORD: password,
  };
  const { stdout } = await run(program, [...args], {
    env: { ...env, PGDATABASE: pathname.slice(1) },
    maxBuffer: 256 * 1024 * 1024,
  });
  return stdout;
}

async function fill(api: Api): Promise<{ ingestPath: string }> {
  const put = async (path: string, value: string, more: object = {}): Promise<void> => {
    const { status, body } = await api('PUT', path, { value, protected: false, ...more });
    assert.equal(status, 201, JSON.stringify(body));
  };
  await put('P/secrets/A', `${canary} of the project`);
  await put(`${orgSecrets}/A`, `${canary} of the organization`);
  await put('P/secrets/hook', `${canary} of the hook`, { protected: true });
  const auth = { kind: 'hmac_sha256', secretRef: 'hook' };
  const trigger = { event: 'webhook.received', endpoint: 'hook', auth, routing: { kind: 'spawn' } };
  const content = JSON.stringify({ name: 'worker', ...runnable, triggers: [trigger] });
  const applied = await api('POST', 'P/apply', { files: [{ path: '.svc/agents/worker.yaml', content }] });
  assert.equal(applied.status, 200, JSON.stringify(applied.body));
  const credentials = { webhookSecret: `${canary} of the connection` };
  assert.equal((await api('POST', 'P/connections', { provider: 'tracker', name: 't', credentials })).status, 201);
  return { ingestPath: new URL(String(applied.body['webhooks']?.[0]?.['ingestUrl'])).pathname };
}

/** Writes secrets, each with its name as its value, until the work is done. */
async function writeMeanwhile(api: Api, work: Promise<unknown>): Promise<void> {
  let isOver = false;
  const over = work.finally(() => {
    isOver = true;
  });
  for (let count = 0; count === 0 || !isOver; count += 1) {
    const { status } = await api('PUT', `P/secrets/M${count}`, { value: `M${count}`, protected: false });
    assert.equal(status, 201);
  }
  await over;
}

async function hasAll(api: Api, ingestPath: string): Promise<void> {
  const reveal = async (path: string): Promise<unknown> => (await api('POST', `${path}/reveal`)).body['value'];
  assert.equal(await reveal('P/secrets/A'), `${canary} of the project`);
  assert.equal(await reveal(`${orgSecrets}/A`), `${canary} of the organization`);
  const { body } = await api('GET', 'P/secrets?limit=200');
  const names = (body['items'] as unknown as readonly { name: string }[]).map((item) => item.name);
  assert.ok(names.includes('M'), names.join(' '));
  for (const name of names.filter((one) => /^M\d*$/.test(one))) assert.equal(await reveal(`P/secrets/${name}`), name);
  assert.equal((await api('POST', 'P/secrets/hook/reveal')).status, 403);
  // A sender's signature still opens the endpoint, at the address it always had.
  const event = JSON.stringify({ hello: 'again' });
  const signature = createHmac('sha256', `${canary} of the hook`).update(event).digest('hex');
  const sent = await api('POST', ingestPath, event, { token: null, headers: { 'x-svc-signature-256': signature } });
  assert.equal(sent.status, 202, JSON.stringify(sent.body));
  // What comes after the restore is numbered after what came before it.
  assert.equal((await api('PUT', 'P/secrets/later', { value: 'later' })).status, 201);
  const audit = await api('GET', 'P/audit?limit=1');
  assert.deepEqual(
    [audit.body['items']?.[0]?.['action'], audit.body['items']?.[0]?.['subject']?.['name']],
    ['secret.created', 'later'],
  );
}

async function served(starting: Promise<SpawnedDaemon>, token: () => string): Promise<Api> {
  const { url } = await (await starting).ready;
  return apiClient(url, token());
}

async function untilAnswered<T>(ask: () => Promise<T>): Promise<T> {
  for (let tries = 0; ; tries += 1) {
    try {
      return await ask();
    } catch (error) {
      if (tries === 1_200) throw error;
      await sleep(100);
    }
  }
}

async function drill(server: Dumpable): Promise<void> {
  const [source, target] = [await makeDatabase(server, 'source'), await makeDatabase(server, 'target')];
  const dirs = [
    await tempDataDir({ empty: true }),
    await tempDataDir({ empty: true }),
    await tempDataDir({ empty: true }),
  ] as const;
  const daemons: SpawnedDaemon[] = [];
  const start = async (
    dataDir: string,
    url: string,
    keys: string,
    args: readonly string[] = [],
  ): Promise<SpawnedDaemon> => {
    const keyFile = join(dataDir, 'keys');
    await writeFile(keyFile, keys, { mode: 0o600 });
    const daemon = spawnDaemon({ dataDir, args, env: { SVC_DATABASE_URL: url, SVC_MASTER_KEY_FILE: keyFile } });
    daemons.push(daemon);
    return daemon;
  };
  const key = (version: number): string => `${version}:${randomBytes(32).toString('base64')}\n`;
  const keys = key(3);
  try {
    const api = await served(start(dirs[0].path, source.url, keys), () => readClientFile(dirs[0].path).token);
    const { token } = readClientFile(dirs[0].path);
    const { ingestPath } = await fill(api);
    const file = join(dirs[1].path, 'backup.dump');
    const { tools } = server;
    await api('PUT', 'P/secrets/M', { value: 'M', protected: false });
    await writeMeanwhile(api, client(tools.pgDump, source.url, ['--format=custom', `--file=${file}`]));
    await daemons[0]?.kill('SIGKILL');
    const text = await client(tools.pgRestore, target.url, ['--file=-', file]);
    for (const shape of [
      canary,
      Buffer.from(canary).toString('hex'),
      Buffer.from(canary).toString('base64').slice(0, -4),
    ]) {
      assert.ok(!text.includes(shape), 'the dump holds a value');
    }
    await client(tools.pgRestore, target.url, [
      '--dbname',
      new URL(target.url).pathname.slice(1),
      '--no-owner',
      '--exit-on-error',
      file,
    ]);
    await hasAll(await served(start(dirs[1].path, target.url, keys), () => token), ingestPath);
    await daemons[1]?.kill('SIGTERM');
    // Without the key of the backup there is nothing to be had. A daemon that is not ready tells its address only to a
    // client of the same data directory.
    await copyFile(join(dirs[0].path, 'client.json'), join(dirs[2].path, 'client.json'));
    const { url: old } = readClientFile(dirs[2].path);
    await start(dirs[2].path, target.url, key(4));
    const unready = await untilAnswered(async () => {
      const { url } = readClientFile(dirs[2].path);
      if (url === old) throw new Error('it has not said where it is');
      return apiClient(url, token)('GET', '/readyz');
    });
    const stranger = apiClient(readClientFile(dirs[2].path).url, token);
    assert.equal(unready.status, 503);
    assert.match(JSON.stringify(unready.body), /lacks version 3/);
    assert.equal((await stranger('POST', 'P/secrets/A/reveal')).status, 503);
  } finally {
    for (const daemon of daemons) await daemon.kill('SIGTERM');
    for (const dir of dirs) await dir.remove();
    for (const database of [source, target]) await database.drop();
  }
}

const server = await startDumpable();
if (server === undefined) {
  console.warn(
    'No pg_dump and pg_restore of PostgreSQL 15 or later are on this machine: the drill of a backup did not run.',
  );
} else {
  test(`what pg_dump ${server.tools.major} saved of a database in use is whole on another host with the master key`, async () => {
    try {
      await drill(server);
    } finally {
      await server.stop();
    }
  });
}
