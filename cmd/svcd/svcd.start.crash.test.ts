// The start behind a kill, on the embedded database and with much that waits: ready within ten seconds, whether the server was
// killed too or was left behind, and also where one of the loops cannot do its part.

import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { after, before, it } from 'node:test';
import { scriptedAgent } from '../../internal/adapters/harness/harness-testkit.ts';
import { runningEmbedded } from '../../internal/adapters/postgres/postgres.ts';
import { recordEvents } from '../../internal/adapters/store/events/events.ts';
import type { NewEvent } from '../../internal/adapters/store/events/new-event.ts';
import { type Database, openDatabase } from '../../internal/adapters/store/store.ts';
import { timeOrderedId } from '../../internal/base/runtime.ts';
import {
  type Api,
  apiClient,
  embeddedPid,
  readClientFile,
  type SpawnedDaemon,
  spawnDaemon,
  tempDataDir,
} from '../../internal/base/testkit/daemon.ts';
import { silent } from '../../internal/base/testkit/postgres.ts';
import { assertReadySoon } from '../../internal/base/testkit/ready.ts';
import { applyAgents, hook, post } from '../../internal/flows/routing/routing-testkit.ts';

const [waitingEvents, waitingSessions] = [20_000, 200];

let data: Awaited<ReturnType<typeof tempDataDir>>;
let daemon: SpawnedDaemon;
/** Of the first start, with nothing to take up. */
let firstMs = 0;
before(async () => {
  data = await tempDataDir();
  const config = join(data.path, 'config.json');
  await writeFile(config, '{"sessions":{"max":2}}');
  const since = performance.now();
  daemon = spawnDaemon({ dataDir: data.path, env: { SVC_ROLES: 'api' } });
  const { url } = await daemon.ready;
  firstMs = performance.now() - since;
  await fill(url, apiClient(url, readClientFile(data.path).token));
});
after(async () => {
  await daemon.kill('SIGTERM');
  await data.remove();
});

/** Of the server that runs now. */
async function inDatabase<T>(act: (db: Database) => Promise<T>): Promise<T> {
  const db = openDatabase({ url: (await runningEmbedded(data.path)) ?? '', log: silent });
  try {
    return await act(db);
  } finally {
    await db.close();
  }
}
const value = <T>(text: string): Promise<T | undefined> =>
  inDatabase(async (db) => (await db.query<{ value: T }>(text)).rows[0]?.value);

/** What nobody takes as long as only the role `api` is there. */
async function fill(url: string, api: Api): Promise<void> {
  const paths = await applyAgents(api, {
    waiting: {},
    hooked: { triggers: [hook('in', { kind: 'spawn' }, { where: { '$.raw.n': 0 } })] },
  });
  await post(url, paths['in'] ?? '', { n: 1 });
  for (let from = 0; from < waitingSessions; from += 20) {
    const begin = (): Promise<unknown> => api('POST', 'P/agents/waiting/sessions', { message: '!say hello' });
    await Promise.all(Array.from({ length: 20 }, begin));
  }
  const projectId = (await value<string>(`select id::text as value from svc.projects`)) ?? '';
  const runtime = { now: () => new Date(), uuid: randomUUID };
  const event = (): NewEvent => ({
    id: timeOrderedId(runtime),
    projectId,
    key: 'webhook.received',
    dedupHash: randomBytes(32),
    raw: Buffer.from(JSON.stringify({ n: 1, padding: 'x'.repeat(1_000) })),
    payload: null,
    receivedAt: new Date(),
  });
  await inDatabase(async (db) => {
    for (let from = 0; from < waitingEvents; from += 1_000)
      await recordEvents(db, Array.from({ length: 1_000 }, event), { routing: false });
  });
  assert.ok(((await waiting()) ?? 0) > waitingEvents);
}

const waiting = (): Promise<number | undefined> =>
  value<number>(`select count(*)::int as value from svc.events where router_status = 'pending'`);
const answered = (): Promise<number | undefined> =>
  value<number>(`select count(*)::int as value from svc.turns where state = 'done'`);

async function eventually(what: string, isThere: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 1_200; tries += 1) {
    if (await isThere()) return;
    await sleep(100);
  }
  assert.fail(`never: ${what}: ${daemon.stderr().slice(-2_000)}`);
}

/** Starts the next daemon, with all roles, and holds it to its time. */
async function startAgain(): Promise<Api> {
  const since = performance.now();
  daemon = spawnDaemon({
    dataDir: data.path,
    env: {
      SVC_CONFIG: join(data.path, 'config.json'),
      SVC_SANDBOX: 'process',
      SVC_HARNESS_A_COMMAND: JSON.stringify(scriptedAgent),
    },
  });
  const { url } = await daemon.ready;
  await assertReadySoon(performance.now() - since, firstMs);
  return apiClient(url, readClientFile(data.path).token);
}

it('beside the server that the killed one has left: events are routed, and sessions have their turns', async () => {
  await daemon.kill('SIGKILL');
  assert.notEqual(await embeddedPid(data.path), undefined, 'it is left');
  await startAgain();
  await eventually('some are routed', async () => ((await waiting()) ?? 0) < waitingEvents);
  await eventually('one has answered', async () => ((await answered()) ?? 0) > 0);
});

it('with the server killed too, and where taking over the runs of others fails', async () => {
  // A run of a daemon that is gone, which cannot be closed.
  await inDatabase(async (db) => {
    await db.query(
      `insert into svc.reconciles (id, project_id, repository_name, reason, status, daemon_id, started_at)
       select gen_random_uuid(), id, 'stuck', 'poll', 'running', gen_random_uuid(), now() from svc.projects`,
    );
    await db.query(`create function refuse_stuck() returns trigger language plpgsql as $$ begin raise 'stuck'; end $$`);
    await db.query(
      `create trigger refuse before update on svc.reconciles for each row when (old.repository_name = 'stuck')
         execute function refuse_stuck()`,
    );
  });
  const server = (await embeddedPid(data.path)) ?? assert.fail('no server');
  const before = [await waiting(), await answered()] as const;
  process.kill(server, 'SIGKILL');
  await daemon.kill('SIGKILL');
  const api = await startAgain();
  assert.notEqual(await embeddedPid(data.path), server);
  const runs = (): Promise<number | undefined> =>
    value<number>(
      `select count(*)::int as value from svc.reconciles where repository_name = 'stuck' and status = 'running'`,
    );
  await eventually('it has failed at it', async () => /"service":"take-over"/.test(daemon.stderr()));
  assert.equal(await runs(), 1);
  const source = { name: 'folder', path: data.path };
  assert.equal((await api('POST', 'P/repositories', source)).status, 201);
  await eventually(
    'a repository is looked at',
    async () =>
      (await value<boolean>(
        `select exists (select from svc.reconciles where repository_name = 'folder' and status not in ('running', 'queued')) as value`,
      )) === true,
  );
  await eventually(
    'more is routed',
    async () => ((await waiting()) ?? 0) < (before[0] ?? 0) || (await waiting()) === 0,
  );
  await eventually('another session has answered', async () => ((await answered()) ?? 0) > (before[1] ?? 0));
  await inDatabase((db) => db.query('drop trigger refuse on svc.reconciles'));
  await eventually('the run is closed', async () => (await runs()) === 0);
});
