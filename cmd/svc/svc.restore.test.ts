// A restore that is killed before it is done is begun again with the same command, as one into an external database is.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  apiClient,
  embeddedPid,
  readClientFile,
  spawnDaemon,
  tempDataDir,
} from '../../internal/base/testkit/daemon.ts';
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
