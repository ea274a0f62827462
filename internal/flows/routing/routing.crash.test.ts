import assert from 'node:assert/strict';
import { randomBytes, randomInt } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { apiClient, readClientFile, type SpawnedDaemon, spawnDaemon, tempDataDir } from '../../base/testkit/daemon.ts';
import { howMany } from '../../base/testkit/long.ts';
import { createTestDatabase, type TestDatabase } from '../../base/testkit/postgres.ts';
import { type Load, startLoad } from './load-testkit.ts';

const points = [
  'route.begun',
  'route.before-write',
  'route.sessions-written',
  'route.messages-written',
  'route.bindings-written',
  'route.before-commit',
  'route.committed',
];
const random = howMany(1_000, 100_000);

let database: TestDatabase;
const data: Awaited<ReturnType<typeof tempDataDir>>[] = [];
before(async () => {
  database = await createTestDatabase();
  const key = `1:${randomBytes(32).toString('base64')}\n`;
  for (const _ of [0, 1]) {
    const dir = await tempDataDir({ empty: true });
    await writeFile(join(dir.path, 'keys'), key, { mode: 0o600 });
    data.push(dir);
  }
});
after(async () => {
  await database.close();
  for (const dir of data) await dir.remove();
});

interface Running {
  readonly daemon: SpawnedDaemon;
  readonly url: string;
}
async function start(place: 0 | 1, failpoint?: string): Promise<Running> {
  const dataDir = data[place]?.path ?? '';
  const env = {
    SVC_DATABASE_URL: database.url,
    SVC_MASTER_KEY_FILE: join(dataDir, 'keys'),
    SVC_ROLES: 'api,route,sync',
    ...(failpoint !== undefined && { SVC_FAILPOINT: failpoint }),
  };
  const daemon = spawnDaemon({ dataDir, env });
  const { url } = await daemon.ready;
  return { daemon, url };
}

let load: Load;

describe('routing under kills', () => {
  it('at every named point: no event is lost, none is routed twice, and all stay in order', async () => {
    const steady = await start(0);
    const api = apiClient(steady.url, readClientFile(data[0]?.path ?? '').token);
    load = await startLoad(api);
    for (const point of points) {
      const doomed = await start(1, point);
      let urls = [doomed.url];
      const loading = load.post(point, 60, () => urls);
      assert.equal((await doomed.daemon.exited).signal, 'SIGKILL', point);
      urls = [steady.url];
      await loading;
      await load.requireOnce(database.db);
    }
    await steady.daemon.kill('SIGKILL');
  });

  it(`at random under load, two daemons, ${random} events`, async () => {
    const running: (Running | undefined)[] = [await start(0), await start(1)];
    const urls = (): string[] => running.flatMap((one) => (one === undefined ? [] : [one.url]));
    let isDone = false;
    let kills = 0;
    const killing = async (): Promise<void> => {
      while (!isDone) {
        await sleep(300 + randomInt(1_200));
        const place = randomInt(2) as 0 | 1;
        const victim = running[place];
        running[place] = undefined;
        await victim?.daemon.kill('SIGKILL');
        kills += 1;
        running[place] = await start(place);
      }
    };
    const killer = killing();
    await load.post('random', random, urls);
    isDone = true;
    await killer;
    await load.requireOnce(database.db);
    assert.ok(kills > 0, 'nobody was killed');
    for (const one of running) await one?.daemon.kill('SIGTERM');
  });
});
