import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { appendFile, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Api,
  apiClient,
  readClientFile,
  type SpawnedDaemon,
  spawnDaemon,
  tempDataDir,
} from '../../base/testkit/daemon.ts';
import { createTestDatabase, type TestDatabase } from '../../base/testkit/postgres.ts';

const keyLine = (version: number): string => `${version}:${randomBytes(32).toString('base64')}\n`;
const isLong = process.env['SVC_LONG'] === '1';
const secrets = isLong ? 900 : 260;
/** One rotation is killed at each. */
const points = isLong ? ['keys.before-commit', 'keys.after-batch', 'keys.before-batch:2'] : ['keys.after-batch'];
const lastVersion = points.length + 1;

let data: Awaited<ReturnType<typeof tempDataDir>>;
let database: TestDatabase;
let keyFile: string;
before(async () => {
  data = await tempDataDir({ empty: true });
  database = await createTestDatabase();
  keyFile = join(data.path, 'keys');
  await writeFile(keyFile, keyLine(1), { mode: 0o600 });
});
after(async () => {
  await database.close();
  await data.remove();
});

interface Running {
  readonly daemon: SpawnedDaemon;
  readonly api: Api;
}
function spawnIt(failpoint?: string): SpawnedDaemon {
  const env = {
    SVC_DATABASE_URL: database.url,
    SVC_MASTER_KEY_FILE: keyFile,
    ...(failpoint !== undefined && { SVC_FAILPOINT: failpoint }),
  };
  return spawnDaemon({ dataDir: data.path, env });
}
async function start(failpoint?: string): Promise<Running> {
  const daemon = spawnIt(failpoint);
  const { url } = await daemon.ready;
  return { daemon, api: apiClient(url, readClientFile(data.path).token) };
}

/** What each secret may hold: one value when its last write was answered, more when a kill came between. */
const may = new Map<string, string[]>();
const nameOf = (n: number): string => `S${n}`;

async function write(api: Api, n: number, value: string): Promise<void> {
  const name = nameOf(n);
  may.set(name, [...(may.get(name) ?? []), value]);
  const { status } = await api('PUT', `P/secrets/${name}`, { value, protected: false });
  if (status < 300) may.set(name, [value]);
}

/** Writes without end until the daemon is gone or the signal comes; each writer keeps to its own secrets. */
function writers(api: Api, signal: AbortSignal): Promise<unknown> {
  const loop = async (mine: number): Promise<void> => {
    for (let turn = 0; !signal.aborted; turn += 1) {
      const n = (turn * 3 + mine) % secrets;
      // A daemon that was killed answers nothing more.
      const isGone = await write(api, n, `${mine}-${turn}-${randomBytes(6).toString('hex')}`).then(
        () => false,
        () => true,
      );
      if (isGone) return;
    }
  };
  return Promise.all([0, 1, 2].map(loop));
}

async function rotated(api: Api): Promise<{ [key: string]: unknown }> {
  for (let tries = 0; tries < 2_400; tries += 1) {
    const { body } = await api('GET', '/api/v1/keys');
    if (body['rotation']?.['status'] !== ('running' as unknown)) return { ...body['rotation'] };
    await sleep(50);
  }
  throw new Error('the rotation does not end');
}

async function allOpen(api: Api): Promise<void> {
  for (const [name, values] of may) {
    const { status, body } = await api('POST', `P/secrets/${name}/reveal`);
    assert.equal(status, 200, `${name}: ${JSON.stringify(body)}`);
    assert.ok(values.includes(String(body['value'])), `${name} holds none of its values`);
    may.set(name, [String(body['value'])]);
  }
}

describe('rotation of the master key', () => {
  it('killed at its points, under writes: every value opens and old keys are retired', async () => {
    const first = await start();
    for (let n = 0; n < secrets; n += 10) {
      await Promise.all(Array.from({ length: 10 }, (_, k) => write(first.api, n + k, `first-${n + k}`)));
    }
    const connected = await first.api('POST', 'P/connections', {
      provider: 'chat',
      name: 'chat',
      credentials: { signingSecret: 'sign' },
    });
    assert.equal(connected.status, 201, JSON.stringify(connected.body));
    await first.daemon.kill('SIGTERM');
    for (const [index, point] of points.entries()) {
      const version = index + 2;
      await appendFile(keyFile, keyLine(version));
      const doomed = await start(point);
      const stop = new AbortController();
      const writing = writers(doomed.api, stop.signal);
      // Killed while it answers, perhaps.
      await doomed.api('POST', '/api/v1/keys/rotate').catch(() => undefined);
      assert.equal((await doomed.daemon.exited).signal, 'SIGKILL', point);
      await writing;
      const next = await start();
      const resumed = writers(next.api, stop.signal);
      const rotation = await rotated(next.api);
      stop.abort();
      await resumed;
      assert.deepEqual(
        [rotation['status'], rotation['toVersion'], rotation['retired']],
        ['done', version, [version - 1]],
      );
      const { rows } = await database.db.query(
        `select count(*) as n from svc.secrets where key_version <> $1::int
         union all select count(*) from svc.connections where key_version <> $1::int`,
        [version],
      );
      assert.deepEqual(rows, [{ n: 0 }, { n: 0 }]);
      await allOpen(next.api);
      await next.daemon.kill('SIGTERM');
    }
  });

  it('afterwards the last key alone is enough', async () => {
    const lines = (await readFile(keyFile, 'utf8')).trim().split('\n');
    await writeFile(keyFile, `${lines.at(-1)}\n`);
    const { daemon, api } = await start();
    await allOpen(api);
    const { body } = await api('GET', '/api/v1/keys');
    assert.deepEqual(
      Array.from({ length: lastVersion }, (_, n) => body['versions']?.[n]?.['status']),
      [...points.map(() => 'retired'), 'current'],
    );
    await daemon.kill('SIGTERM');
  });

  it('another key of the same number fails readiness by name, writes nothing, and waits for the right one', async () => {
    const right = await readFile(keyFile, 'utf8');
    const stored = async () => (await database.db.query('select sealed from svc.secrets order by id')).rows;
    const before = await stored();
    await writeFile(keyFile, keyLine(lastVersion));
    const { url: old } = readClientFile(data.path);
    const daemon = spawnIt();
    let url = old;
    for (let tries = 0; tries < 2_400 && url === old; tries += 1) {
      await sleep(50);
      url = readClientFile(data.path).url;
    }
    const api = apiClient(url, readClientFile(data.path).token);
    const unready = await api('GET', '/readyz');
    assert.equal(unready.status, 503);
    assert.match(JSON.stringify(unready.body), new RegExp(`another key as version ${lastVersion} `));
    for (const [method, path, body] of [
      ['PUT', 'P/secrets/S1', { value: 'half-blind' }],
      ['PUT', 'P/secrets/new', { value: 'half-blind' }],
      ['POST', 'P/secrets/S1/reveal', undefined],
      ['POST', '/api/v1/keys/rotate', undefined],
    ] as const) {
      const answer = await api(method, path, body);
      assert.equal(answer.status, 503, `${method} ${path} ${JSON.stringify(answer.body)}`);
    }
    assert.deepEqual(await stored(), before);
    assert.equal(daemon.stdout(), '');
    await writeFile(keyFile, right);
    await daemon.ready;
    assert.equal((await api('GET', '/readyz')).status, 200);
    await allOpen(api);
    await daemon.kill('SIGTERM');
  });
});
