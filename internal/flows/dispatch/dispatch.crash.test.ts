import assert from 'node:assert/strict';
import { randomBytes, randomInt } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { apiClient, readClientFile, type SpawnedDaemon, spawnDaemon, tempDataDir } from '../../base/testkit/daemon.ts';
import { howMany } from '../../base/testkit/long.ts';
import { createTestDatabase, type TestDatabase } from '../../base/testkit/postgres.ts';
import { applyAgents, hook, settled } from './dispatch-testkit.ts';

const points = [
  'route.begun',
  'route.before-write',
  'route.sessions-written',
  'route.messages-written',
  'route.bindings-written',
  'route.before-commit',
  'route.committed',
];
const random = howMany(3_000, 100_000);

let database: TestDatabase;
const data: Awaited<ReturnType<typeof tempDataDir>>[] = [];
before(async () => {
  database = await createTestDatabase();
  const key = `1:${randomBytes(32).toString('base64')}\n`;
  for (const _ of [0, 1]) {
    const dir = await tempDataDir();
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

/** Keys of the events that were answered: these must not be lost. */
const answered = new Set<string>();
let paths: { readonly [endpoint: string]: string };

/** Posts an event until somebody answers; what was answered stands. */
async function insist(key: string, urls: () => string[]): Promise<void> {
  for (let tries = 0; tries < 2_000; tries += 1) {
    const open = urls();
    const url = open[tries % Math.max(1, open.length)];
    const answer =
      url === undefined
        ? undefined
        : await fetch(`${url}${paths['load']}`, { method: 'POST', body: JSON.stringify({ dedupKey: key, key }) }).catch(
            () => undefined,
          );
    // 503 asks for another try; so does silence.
    if (answer?.status === 202 || answer?.status === 200) {
      answered.add(key);
      return;
    }
    assert.ok(answer === undefined || answer.status === 503, `${answer?.status}`);
    await sleep(20);
  }
  throw new Error('nobody answers');
}

async function load(name: string, count: number, urls: () => string[]): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < count) await insist(`${name}-${next++}`, urls);
  };
  await Promise.all(Array.from({ length: 16 }, worker));
}

/** Nothing lost, nothing twice, everything in order. */
async function requireOnce(): Promise<void> {
  const { db } = database;
  await settled(db);
  const count = async (sql: string): Promise<number> => (await db.query<{ n: number }>(sql)).rows[0]?.n ?? -1;
  const n = answered.size;
  const events = `from svc.events where key = 'webhook.received'`;
  assert.equal(await count(`select count(*)::int as n ${events}`), n);
  assert.equal(await count(`select count(*)::int as n ${events} and router_status = 'routed'`), n);
  assert.equal(
    await count(`select count(*)::int as n from svc.event_routes r join svc.events e on e.id = r.event_id`),
    2 * n,
  );
  assert.equal(await count(`select count(*)::int as n from svc.sessions where agent = 'each'`), n);
  assert.equal(await count(`select count(distinct event_id)::int as n from svc.sessions where agent = 'each'`), n);
  assert.equal(await count(`select count(*)::int as n from svc.sessions where agent = 'one'`), 1);
  const told = `from svc.inbox i join svc.sessions s on s.id = i.session_id join svc.events e on e.id = i.event_id`;
  assert.equal(await count(`select count(*)::int as n ${told}`), 2 * n);
  assert.equal(await count(`select count(distinct (s.id, e.id))::int as n ${told}`), 2 * n);
  const unordered = `select count(*)::int as n from (
    select e.seq < lag(e.seq) over (order by i.seq) as back ${told} where s.agent = 'one') o where back`;
  assert.equal(await count(unordered), 0);
}

describe('routing under kills', () => {
  it('at every named point: no event is lost, none is routed twice, and all stay in order', async () => {
    const steady = await start(0);
    const api = apiClient(steady.url, readClientFile(data[0]?.path ?? '').token);
    paths = await applyAgents(api, {
      each: { triggers: [hook('load', { kind: 'spawn' }, { message: '{{ key }}' })] },
      one: { concurrency: 1, triggers: [hook('load', { kind: 'spawn' }, { message: '{{ key }}' })] },
    });
    for (const point of points) {
      const doomed = await start(1, point);
      let urls = [doomed.url];
      const loading = load(point, 60, () => urls);
      assert.equal((await doomed.daemon.exited).signal, 'SIGKILL', point);
      urls = [steady.url];
      await loading;
      await requireOnce();
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
    await load('random', random, urls);
    isDone = true;
    await killer;
    await requireOnce();
    assert.ok(kills > 0, 'nobody was killed');
    for (const one of running) await one?.daemon.kill('SIGTERM');
  });
});
