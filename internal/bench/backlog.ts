// Routing a stored backlog: against no-op jobs of the job runner, and with many triggers against few.

import { randomBytes, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Logger, makeWorkerUtils, run } from 'graphile-worker';
import { type Database, openDatabase } from '../adapters/store/store.ts';
import { recordEvents } from '../adapters/store/events/events.ts';
import type { NewEvent } from '../adapters/store/events/new-event.ts';
import { migrate } from '../adapters/store/schema/migrate.ts';
import { loadConfig } from '../base/config/config.ts';
import { createMetrics } from '../base/metrics/metrics.ts';
import { silent } from '../base/testkit/postgres.ts';
import { startRouting, wakeRouting } from '../flows/routing/routing.ts';
import type { FlowContext } from '../flows/context.ts';
import { type Bench, type Bencher, median, medianMs, ms } from './harness.ts';
import { startServer } from './server.ts';

const backlogCount = 100_000;
const jobs = 5_000;
const noise = randomBytes(96 * 1_024).toString('base64');

interface Place {
  readonly db: Database;
  readonly projectId: string;
  readonly endpointId: string;
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

/** Events whose routing this process has committed. */
async function routedBy(ctx: FlowContext): Promise<number> {
  const counted = await ctx.metrics.registry.getSingleMetric('svc_events_routed_total')?.get();
  return counted?.values.reduce((sum, { value }) => sum + value, 0) ?? 0;
}

/** Milliseconds an event, of a backlog that is routed by one router. */
async function drain(ctx: FlowContext, place: Place, count: number, triggers: number): Promise<number> {
  await fill(place, count, triggers);
  const wanted = (await routedBy(ctx)) + count;
  const start = performance.now();
  await wakeRouting(ctx, { projects: [place.projectId], ids: [] });
  // Nothing is asked of the database meanwhile, whose answers would be measured as well.
  while ((await routedBy(ctx)) < wanted) await sleep(1);
  const took = (performance.now() - start) / count;
  const { rows } = await place.db.query(`select id from svc.events where router_status <> 'routed' limit 1`);
  if (rows.length > 0) throw new Error('an event was not routed');
  return took;
}

/** Milliseconds a job that does nothing, under the runner's own defaults. */
async function noOps(url: string): Promise<number> {
  const logger = new Logger(() => () => undefined);
  const utils = await makeWorkerUtils({ connectionString: url, logger });
  await utils.migrate();
  await utils.addJobs(Array.from({ length: jobs }, (_, n) => ({ identifier: 'bench.nothing', payload: { n } })));
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
  while (done < jobs) await sleep(5);
  const took = performance.now() - start;
  await runner.stop();
  return took / jobs;
}

function contextOf(db: Database): FlowContext {
  const runtime = { now: () => new Date(), uuid: randomUUID, randomBytes, log: silent };
  const config = loadConfig({ env: {}, argv: [] });
  return { db, runtime, config, metrics: createMetrics(), daemonId: randomUUID(), baseUrl: 'http://svc.bench' };
}

async function started(bench: Bencher): Promise<{ url: string; db: Database; ctx: FlowContext }> {
  const url = await startServer(bench);
  await migrate(url, silent);
  const db = openDatabase({ url, log: silent });
  bench.atEnd(() => db.close());
  const ctx = contextOf(db);
  const routing = startRouting(ctx);
  bench.atEnd(() => routing.stop());
  return { url, db, ctx };
}

export const backlog: Bench = {
  name: 'route-backlog',
  title: 'a stored backlog, every commit on disk',
  run: async (bench) => {
    const { url, db, ctx } = await started(bench);
    const few = await project(db, 'few', 1_000);
    await drain(ctx, few, 2_000, 1_000);
    const nothing = [await noOps(url), await noOps(url)];
    const took = await drain(ctx, few, backlogCount, 1_000);
    bench.ratio(`backlog of ${backlogCount}: time an event / a no-op job`, ms(took), medianMs(nothing), 1 / 4);
  },
};

export const triggers: Bench = {
  name: 'route-triggers',
  title: 'many triggers, every commit on disk',
  run: async (bench) => {
    const { db, ctx } = await started(bench);
    const few = await project(db, 'few', 1_000);
    const many = await project(db, 'many', 100_000);
    await drain(ctx, few, 2_000, 1_000);
    await drain(ctx, many, 2_000, 100_000);
    const times: [number[], number[]] = [[], []];
    for (let turn = 0; turn < 6; turn += 1) {
      // Each is first as often as the other: what is stored grows.
      for (const one of turn % 2 === 0 ? [0, 1] : [1, 0]) {
        const [place, count] = one === 0 ? [few, 1_000] : [many, 100_000];
        times[one]?.push(await drain(ctx, place, 10_000, count));
      }
    }
    bench.ratio('100,000 triggers: time an event / with 1,000', ms(median(times[1])), medianMs(times[0]), 1.05);
  },
};
