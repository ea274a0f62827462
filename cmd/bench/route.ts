// Routing: a stored backlog against no-op jobs of the job runner, many triggers against few, what a routing daemon accepts
// and finishes, how long an event waits, and how soon a session is there when nothing else happens.

import { createHmac, randomBytes, randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Logger, makeWorkerUtils, run } from 'graphile-worker';
import { type Database, openDatabase } from '../../internal/adapters/store/db.ts';
import { startEmbedded } from '../../internal/adapters/store/embedded.ts';
import { type NewEvent, recordEvents } from '../../internal/adapters/store/events.ts';
import { migrate } from '../../internal/adapters/store/migrate.ts';
import { loadConfig } from '../../internal/base/config/config.ts';
import { createMetrics } from '../../internal/base/metrics/metrics.ts';
import { apiClient, readClientFile, spawnDaemon } from '../../internal/base/testkit/daemon.ts';
import { silent } from '../../internal/base/testkit/postgres.ts';
import { startRouting, wakeRouting } from '../../internal/flows/dispatch/dispatch.ts';
import type { FlowContext } from '../../internal/flows/context.ts';
import { type Bench, type Bencher, median, ms } from './harness.ts';
import { loaded } from './load.ts';

const BACKLOG = 100_000;
const JOBS = 5_000;
const LOAD_MS = 10_000;
const QUIET = 200;
const secret = 'a secret of the bench';
const noise = randomBytes(96 * 1_024).toString('base64');

interface Place {
  readonly db: Database;
  readonly projectId: string;
  readonly endpointId: string;
}

async function database(bench: Bencher): Promise<string> {
  const embedded = await startEmbedded({ dataDir: await bench.directory(), log: silent });
  bench.atEnd(() => embedded.stop());
  return embedded.url;
}

/** A project of agents with ten triggers each on one endpoint, of which each body fires one. */
async function project(db: Database, name: string, triggers: number): Promise<Place> {
  const [orgId, projectId, endpointId] = [randomUUID(), randomUUID(), randomUUID()];
  await db.query('insert into svc.orgs (id, slug, name) values ($1::uuid, $2::text, $2::text)', [orgId, name]);
  await db.query(`insert into svc.projects (id, org_id, slug, name) values ($1::uuid, $2::uuid, $3::text, $3::text)`, [
    projectId,
    orgId,
    name,
  ]);
  await db.query(
    `insert into svc.endpoints (id, project_id, name, slug, auth, status)
     values ($1::uuid, $2::uuid, 'hook', $3::text, '{"kind":"none"}', 'ready')`,
    [endpointId, projectId, name],
  );
  await db.query(
    `insert into svc.agents (project_id, name, revision, spec, spec_hash, source)
     select $1::uuid, 'agent-' || n, 1, '{}', 'h', '{}' from generate_series(1, $2::int / 10) n`,
    [projectId, triggers],
  );
  await db.query(
    `insert into svc.triggers (project_id, agent_id, ordinal, kind, event, endpoint_id, spec, spec_hash, status)
     select $1::uuid, a.id, o, 'event', 'webhook.received', $2::uuid, jsonb_build_object('kind', 'event', 'event',
              'webhook.received', 'fallback', false, 'routing', '{"kind":"spawn"}'::jsonb, 'where',
              jsonb_build_object('which', a.name || '-' || o)), 'h', 'active'
       from svc.agents a, generate_series(0, 9) o where a.project_id = $1::uuid`,
    [projectId, endpointId],
  );
  return { db, projectId, endpointId };
}

async function fill({ db, projectId, endpointId }: Place, count: number, triggers: number): Promise<void> {
  for (let from = 0; from < count; from += 256) {
    const batch = Array.from({ length: Math.min(256, count - from) }, (_, k): NewEvent => {
      const n = from + k;
      const which = `agent-${1 + (n % (triggers / 10))}-${n % 10}`;
      const text = noise.slice((n * 97) % 90_000, ((n * 97) % 90_000) + 900);
      return {
        id: uuidAt(Date.now(), n),
        projectId,
        key: 'webhook.received',
        dedupHash: randomBytes(32),
        raw: Buffer.from(JSON.stringify({ which, text })),
        payload: null,
        receivedAt: new Date(),
        endpointId,
      };
    });
    await recordEvents(db, batch, { routing: false });
  }
}

const uuidAt = (atMs: number, n: number): string => {
  const hex = atMs.toString(16).padStart(12, '0') + randomBytes(10).toString('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-7${(n % 4096).toString(16).padStart(3, '0')}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
};

async function drained(db: Database, projectId: string): Promise<void> {
  for (;;) {
    const { rows } = await db.query(
      `select 1 from svc.events where project_id = $1::uuid and router_status = 'pending' limit 1`,
      [projectId],
    );
    if (rows.length === 0) return;
    await sleep(20);
  }
}

/** Milliseconds an event, of a backlog that is routed by one router. */
async function drain(ctx: FlowContext, place: Place, count: number, triggers: number): Promise<number> {
  await fill(place, count, triggers);
  const start = performance.now();
  await wakeRouting(ctx, { projects: [place.projectId], ids: [] });
  await drained(place.db, place.projectId);
  return (performance.now() - start) / count;
}

/** Milliseconds a job that does nothing, under the runner's own defaults. */
async function noOps(url: string): Promise<number> {
  const logger = new Logger(() => () => undefined);
  const utils = await makeWorkerUtils({ connectionString: url, logger });
  await utils.migrate();
  await utils.addJobs(Array.from({ length: JOBS }, (_, n) => ({ identifier: 'bench.nothing', payload: { n } })));
  await utils.release();
  let done = 0;
  const start = performance.now();
  const runner = await run({
    connectionString: url,
    concurrency: 10,
    noHandleSignals: true,
    logger,
    taskList: { 'bench.nothing': async () => void (done += 1) },
  });
  while (done < JOBS) await sleep(5);
  const took = performance.now() - start;
  await runner.stop();
  return took / JOBS;
}

function contextOf(db: Database): FlowContext {
  const runtime = { now: () => new Date(), uuid: randomUUID, randomBytes, log: silent };
  const config = loadConfig({ env: {}, argv: [] });
  return { db, runtime, config, metrics: createMetrics(), daemonId: randomUUID(), baseUrl: 'http://svc.bench' };
}

async function backlogs(bench: Bencher): Promise<void> {
  const url = await database(bench);
  await migrate(url, silent);
  const db = openDatabase({ url, log: silent });
  bench.atEnd(() => db.close());
  const ctx = contextOf(db);
  const routing = startRouting(ctx);
  bench.atEnd(() => routing.stop());
  const few = await project(db, 'few', 1_000);
  const many = await project(db, 'many', 100_000);
  await drain(ctx, few, 2_000, 1_000);
  await drain(ctx, many, 2_000, 100_000);
  const nothing = await noOps(url);
  const backlog = await drain(ctx, few, BACKLOG, 1_000);
  bench.ratio(`backlog of ${BACKLOG}: time an event / a no-op job`, ms(backlog), ms(nothing), 1 / 4);
  const times: [number[], number[]] = [[], []];
  for (let turn = 0; turn < 3; turn += 1) {
    times[0].push(await drain(ctx, few, 5_000, 1_000));
    times[1].push(await drain(ctx, many, 5_000, 100_000));
  }
  bench.ratio('100,000 triggers: time an event / with 1,000', ms(median(times[1])), ms(median(times[0])), 1.05);
}

interface Running {
  readonly url: string;
  readonly ingestUrl: string;
  stop(): Promise<void>;
}

async function daemon(bench: Bencher, databaseUrl: string, dataDir: string, roles: string): Promise<Running> {
  const key = join(dataDir, 'master.key');
  await writeFile(key, `1:${Buffer.alloc(32, 7).toString('base64')}\n`, { mode: 0o600 });
  const env = { SVC_DATABASE_URL: databaseUrl, SVC_MASTER_KEY_FILE: key, SVC_LOG_LEVEL: 'warn', SVC_ROLES: roles };
  const child = spawnDaemon({ dataDir, env });
  bench.atEnd(async () => void (await child.kill('SIGTERM')));
  const { url } = await child.ready;
  const api = apiClient(url, readClientFile(dataDir).token);
  await api('PUT', 'P/secrets/HOOK', { value: secret });
  const auth = { kind: 'hmac_sha256', secretRef: 'HOOK' };
  const agent = {
    name: 'bench',
    harness: 'harness-a',
    environment: { name: 'default', image: { kind: 'preset', name: 'base' } },
    triggers: [{ event: 'webhook.received', endpoint: 'bench', auth, routing: { kind: 'spawn' } }],
  };
  const files = [{ path: '.svc/agents/bench.yaml', content: JSON.stringify(agent) }];
  await api('POST', 'P/apply', { files });
  const { body } = await api('GET', 'P/endpoints/bench');
  return { url, ingestUrl: String(body['ingestUrl']), stop: async () => void (await child.kill('SIGTERM')) };
}

/** Upper bound of the bucket in which a share of the lags lies, in milliseconds, between two readings. */
function quantile(before: string, after: string, share: number): number {
  const read = (text: string): [number, number][] =>
    [...text.matchAll(/^svc_event_routing_lag_seconds_bucket\{le="([^"]+)"\} (\d+)/gm)].map(([, le = '', n]) => [
      le === '+Inf' ? Number.POSITIVE_INFINITY : Number(le) * 1_000,
      Number(n),
    ]);
  const old = new Map(read(before));
  const counts = read(after).map(([le, n]) => [le, n - (old.get(le) ?? 0)] as const);
  const total = counts.at(-1)?.[1] ?? 0;
  return counts.find(([, n]) => n >= total * share)?.[0] ?? Number.NaN;
}

async function throughTheDoor(bench: Bencher): Promise<void> {
  const url = await database(bench);
  const dataDir = await bench.directory();
  const load = { secret, connections: 256, bodyBytes: 1_024 };
  const accepting = await daemon(bench, url, dataDir, 'api');
  await loaded({ ...load, url: accepting.ingestUrl, forMs: 1_000 });
  const accepted = await loaded({ ...load, url: accepting.ingestUrl, forMs: LOAD_MS / 2 });
  await accepting.stop();
  const db = openDatabase({ url, log: silent });
  bench.atEnd(() => db.close());
  const { rows } = await db.query<{ id: string }>('select id from svc.projects');
  const projectId = rows[0]?.id ?? '';
  const routing = await daemon(bench, url, dataDir, 'api,route');
  await drained(db, projectId);
  const start = performance.now();
  const full = await loaded({ ...load, url: routing.ingestUrl, forMs: LOAD_MS });
  await drained(db, projectId);
  const perSecond = (full.perSecond * LOAD_MS) / (performance.now() - start);
  bench.ratio(
    'end to end: time an event / accepted alone',
    ms(1_000 / perSecond),
    ms(1_000 / accepted.perSecond),
    1 / 0.7,
  );
  const metrics = async (): Promise<string> => (await fetch(`${routing.url}/metrics`)).text();
  const before = await metrics();
  await loaded({ ...load, connections: 64, url: routing.ingestUrl, forMs: LOAD_MS, perSecond: perSecond * 0.7 });
  await drained(db, projectId);
  const after = await metrics();
  bench.atMost('at 70 %: p50 of the lag, upper edge', quantile(before, after, 0.5), 15, 'ms');
  bench.atMost('at 70 %: p99 of the lag, upper edge', quantile(before, after, 0.99), 100, 'ms');
  await quiet(bench, db, routing.ingestUrl);
}

/** From the request to the session's row, one at a time. */
async function quiet(bench: Bencher, db: Database, url: string): Promise<void> {
  const times: number[] = [];
  for (let n = 0; n < QUIET; n += 1) {
    const newest = async (): Promise<string> =>
      (await db.query<{ id: string }>('select id from svc.sessions order by id desc limit 1')).rows[0]?.id ?? '';
    const seen = await newest();
    const body = JSON.stringify({ dedupKey: `quiet-${n}`, text: noise.slice(0, 1_000) });
    const signature = createHmac('sha256', secret).update(body).digest('hex');
    const start = performance.now();
    const sent = fetch(url, { method: 'POST', body, headers: { 'x-svc-signature-256': signature } });
    while ((await newest()) === seen) await sleep(0);
    times.push(performance.now() - start);
    await (await sent).text();
    await sleep(5);
  }
  times.sort((a, b) => a - b);
  bench.atMost('quiet: request to session, p50', Number((times[QUIET >> 1] ?? 0).toFixed(1)), 5, 'ms');
  bench.atMost('quiet: request to session, p99', Number((times[Math.floor(QUIET * 0.99)] ?? 0).toFixed(1)), 15, 'ms');
}

export const bench: Bench = {
  name: 'route',
  title: 'events to sessions, every commit on disk',
  run: async (bench) => {
    await backlogs(bench);
    await throughTheDoor(bench);
  },
};
