// The database server is killed, again and again, under two daemons that take events in and route them; it is started
// again at its address, as an operator's supervisor does, and nobody lends the daemons a hand.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { openDatabase } from '../../adapters/store/store.ts';
import { type Embedded, startEmbedded } from '../../adapters/postgres/postgres.ts';
import { apiClient, readClientFile, type SpawnedDaemon, spawnDaemon, tempDataDir } from '../../base/testkit/daemon.ts';
import { howMany } from '../../base/testkit/long.ts';
import { silent } from '../../base/testkit/postgres.ts';
import { startLoad } from './load-testkit.ts';

const events = howMany(1_200, 50_000);
/** Events between two kills: the server takes some seconds to come back from each. */
const between = howMany(300, 1_000);

type DataDir = Awaited<ReturnType<typeof tempDataDir>>;
let server: Embedded;
const dirs: DataDir[] = [];
const daemons: SpawnedDaemon[] = [];
before(async () => {
  const key = `1:${randomBytes(32).toString('base64')}\n`;
  for (let n = 0; n < 3; n += 1) {
    const dir = await tempDataDir({ empty: n < 2 });
    await writeFile(join(dir.path, 'keys'), key, { mode: 0o600 });
    dirs.push(dir);
  }
  // As durable as in earnest: what a volatile one answers may be gone.
  server = await startEmbedded({ dataDir: dirs[2]?.path ?? '', log: silent });
});
after(async () => {
  for (const daemon of daemons) await daemon.kill('SIGTERM');
  await server.stop();
  for (const dir of dirs) await dir.remove();
});

async function start(place: 0 | 1): Promise<string> {
  const dataDir = dirs[place]?.path ?? '';
  const env = {
    SVC_DATABASE_URL: server.url,
    SVC_MASTER_KEY_FILE: join(dataDir, 'keys'),
    SVC_ROLES: 'api,route,sync',
  };
  const daemon = spawnDaemon({ dataDir, env });
  daemons.push(daemon);
  return (await daemon.ready).url;
}

/** Kills the server, and waits until there is another. */
async function kill(): Promise<void> {
  const pid = server.pid();
  process.kill(pid, 'SIGKILL');
  for (let tries = 0; server.pid() === pid; tries += 1) {
    assert.ok(tries < 6_000, 'no server came back');
    await sleep(10);
  }
}

it(`${events} events over a database that dies every ${between}: none is lost, none is routed twice, all stay in order`, async () => {
  const urls = [await start(0), await start(1)];
  const load = await startLoad(apiClient(urls[0] ?? '', readClientFile(dirs[0]?.path ?? '').token));
  let isDone = false;
  const posting = load.post('outage', events, () => urls).finally(() => (isDone = true));
  let kills = 0;
  for (;;) {
    while (!isDone && load.answered() < (kills + 1) * between) await sleep(5);
    if (isDone) break;
    await kill();
    kills += 1;
  }
  await posting;
  assert.ok(kills > 1, `${kills} kills`);
  const db = openDatabase({ url: server.url, log: silent });
  try {
    await load.requireOnce(db);
    // Each of them goes on by itself.
    for (const url of urls) await load.post(`after ${url}`, 20, () => [url]);
    await load.requireOnce(db);
  } finally {
    await db.close();
  }
  assert.deepEqual(
    daemons.map((daemon) => daemon.process.exitCode),
    [null, null],
  );
});
