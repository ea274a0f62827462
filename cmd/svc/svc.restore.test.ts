// A restore that is killed before it is done is begun again with the same command, as one into an external database is.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { sha256 } from '../../internal/base/hash.ts';
import {
  apiClient,
  embeddedPid,
  readClientFile,
  type SpawnedDaemon,
  spawnDaemon,
  tempDataDir,
} from '../../internal/base/testkit/daemon.ts';
import type { Manifest } from '../../internal/flows/backup/backup.ts';
import { createTestDatabase } from '../../internal/base/testkit/postgres.ts';
import { emptyHome, runSvc } from './testkit.ts';

test('a restore that was killed in the middle is taken up by the next one, and its database is used by no third', async (t) => {
  const [home, first, second] = [await emptyHome(), await tempDataDir(), await tempDataDir({ empty: true })];
  t.after(() => Promise.all([home, first, second].map((one) => one.remove())));
  const saved = join(home.path, 'saved');
  const svc = (args: readonly string[], where: string) => runSvc(home.path, args, { env: { SVC_DATA_DIR: where } });
  const daemon = spawnDaemon({ dataDir: first.path });
  await daemon.ready;
  const { url, token } = readClientFile(first.path);
  assert.ok(
    (await apiClient(url, token)('PUT', 'P/secrets/A', { value: 'of the first', protected: false })).status < 300,
  );
  assert.equal((await svc(['backup', saved], first.path)).code, 0);
  await daemon.kill('SIGTERM');

  const killed = spawn(process.execPath, [join(import.meta.dirname, 'main.mjs'), 'restore', saved], {
    env: { PATH: process.env['PATH'] ?? '', HOME: home.path, SVC_DATA_DIR: second.path },
    stdio: 'ignore',
  });
  for (let tries = 0; tries < 6_000 && (await embeddedPid(second.path)) === undefined; tries += 1) await sleep(10);
  assert.equal(killed.exitCode, null);
  killed.kill('SIGKILL');
  await once(killed, 'close');

  await startsNot(spawnDaemon({ dataDir: second.path }));
  const again = await svc(['restore', saved], second.path);
  assert.equal(again.code, 0, again.stderr);
  const third = await svc(['restore', saved], second.path);
  assert.deepEqual([third.code, /not-empty|There is a database/.test(third.stderr)], [1, true], third.stderr);
  // As an end behind the last row would leave it: what is whole is not touched.
  const back = spawnDaemon({ dataDir: second.path });
  await back.ready;
  const client = readClientFile(second.path);
  const { body } = await apiClient(client.url, client.token)('POST', 'P/secrets/A/reveal');
  assert.equal(body['value'] as unknown, 'of the first');
  await back.kill('SIGTERM');
  await rm(saved, { recursive: true });
});

test('a database that a restore has begun to fill is begun with by no daemon until another restore has filled it', async (t) => {
  const [home, first, data, database] = [
    ...[await emptyHome(), await tempDataDir(), await tempDataDir({ empty: true })],
    await createTestDatabase({ empty: true }),
  ] as const;
  t.after(() => Promise.all([home.remove(), first.remove(), data.remove(), database.close()]));
  const saved = join(home.path, 'saved');
  const from = await startOnce(first.path);
  const env = {
    SVC_DATABASE_URL: database.url,
    SVC_MASTER_KEY_FILE: join(data.path, 'master.key'),
    SVC_DATA_DIR: data.path,
  };
  assert.equal((await runSvc(home.path, ['backup', saved], { env: { SVC_DATA_DIR: first.path } })).code, 0);

  const killed = spawn(process.execPath, [join(import.meta.dirname, 'main.mjs'), 'restore', saved], {
    env: { PATH: process.env['PATH'] ?? '', HOME: home.path, ...env },
    stdio: 'ignore',
  });
  const begun = `select to_regclass('svc.migrations') is not null as is`;
  for (let tries = 0; tries < 6_000; tries += 1) {
    if ((await database.db.query<{ is: boolean }>(begun)).rows[0]?.is === true) break;
    await sleep(5);
  }
  killed.kill('SIGKILL');
  await once(killed, 'close');
  const filled = await database.db.query(`select from pg_class where oid = to_regclass('svc.orgs')`);
  const orgs = filled.rowCount === 0 ? 0 : (await database.db.query('select from svc.orgs')).rowCount;
  assert.equal(orgs, 0, 'it was killed too late');

  await startsNot(spawnDaemon({ dataDir: data.path, env }));
  const check = await runSvc(home.path, ['upgrade', 'check'], { env });
  assert.deepEqual([check.code, /has begun and not ended/.test(check.stderr)], [1, true], check.stderr);
  const again = await runSvc(home.path, ['restore', saved], { env });
  assert.equal(again.code, 0, again.stderr);
  const back = spawnDaemon({ dataDir: data.path, env });
  const { url } = await back.ready;
  assert.equal((await apiClient(url, from)('GET', 'P/agents')).status, 200);
  await back.kill('SIGTERM');
});

test('a restore that cannot succeed leaves the database as it was before, for svcd as for another one', async (t) => {
  const [home, first, data, database] = [
    ...[await emptyHome(), await tempDataDir(), await tempDataDir({ empty: true })],
    await createTestDatabase({ empty: true }),
  ] as const;
  t.after(() => Promise.all([home.remove(), first.remove(), data.remove(), database.close()]));
  const saved = join(home.path, 'saved');
  await startOnce(first.path);
  const env = {
    SVC_DATABASE_URL: database.url,
    SVC_MASTER_KEY_FILE: join(data.path, 'master.key'),
    SVC_DATA_DIR: data.path,
  };
  assert.equal((await runSvc(home.path, ['backup', saved], { env: { SVC_DATA_DIR: first.path } })).code, 0);
  // Projects whose organization is in it no more: every file is as its digest says, and no foreign key holds.
  const manifest = JSON.parse(await readFile(join(saved, 'manifest.json'), 'utf8')) as Manifest;
  const orgs = manifest.database.tables.find(({ name }) => name === 'svc.orgs') ?? assert.fail();
  const none = gzipSync('');
  await writeFile(join(saved, 'svc.orgs.copy.gz'), none);
  const broken = {
    ...manifest,
    database: {
      ...manifest.database,
      tables: manifest.database.tables.map((one) => (one === orgs ? { ...one, rows: 0 } : one)),
    },
    files: { ...manifest.files, 'svc.orgs.copy.gz': sha256(none) },
  };
  await writeFile(join(saved, 'manifest.json'), JSON.stringify(broken));
  for (const times of ['once', 'twice']) {
    const { code, stderr } = await runSvc(home.path, ['restore', saved], { env });
    assert.deepEqual([code, /foreign key/.test(stderr)], [1, true], `${times}: ${stderr}`);
    const left = `select nspname from pg_namespace where nspname in ('svc', 'graphile_worker')`;
    assert.deepEqual((await database.db.query(left)).rows, []);
  }
  const daemon = spawnDaemon({
    dataDir: data.path,
    env: { ...env, SVC_MASTER_KEY_FILE: join(first.path, 'master.key') },
  });
  await daemon.ready;
  await daemon.kill('SIGTERM');
});

/** An installation that is there; its token. */
async function startOnce(dataDir: string): Promise<string> {
  const daemon = spawnDaemon({ dataDir });
  await daemon.ready;
  const { token } = readClientFile(dataDir);
  await daemon.kill('SIGTERM');
  return token;
}

async function startsNot(daemon: SpawnedDaemon): Promise<void> {
  const hasStarted = await daemon.ready.then(
    () => true,
    () => false,
  );
  if (hasStarted) await daemon.kill('SIGTERM');
  assert.match(
    daemon.stderr(),
    /^svcd: A restore into this database has begun and not ended: run the same svc restore again, /m,
  );
}
