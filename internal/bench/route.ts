// Events through the door of a daemon that routes: what it accepts and finishes, also for a whole minute, how long an
// event waits, and how soon a session is there when nothing else happens.

import { createHmac, randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Database, openDatabase } from '../adapters/store/store.ts';
import { apiClient, readClientFile, spawnDaemon } from '../base/testkit/daemon.ts';
import { silent } from '../base/testkit/postgres.ts';
import { reference, withTable } from './accept.ts';
import { type Bench, type Bencher, heldAgainst, median, medianMs, ms, steadyMs } from './harness.ts';
import { loaded } from './load.ts';
import { startServer } from './server.ts';

const secret = 'a secret of the bench';
const text = randomBytes(750).toString('base64');
const warmUpMs = 1_500;
const turns = 3;
const turnMs = 3_000;
const burstMs = 10_000;
const minuteMs = 60_000;
/** What has to be sustained of the accept rate, and what is offered to see it: a little more. */
const share = 0.7;
const offered = 0.71;
const quietRequests = 300;
/** Before them, as fast as they go: what is measured is a daemon that has been up for a while, as its peer's database driver is. */
const warmRequests = 1_000;
/**
 * Of what the bare server takes to answer under the same load, in one batch and one commit. Stand for the 15 and the 100 ms
 * that were the bounds before they became ratios: a reference that routes in the same process keeps 11 and 66 to 79.
 */
const lagBounds = { p50: 8, p99: 12 } as const;

const load = { secret, connections: 256, bodyBytes: 1_024 };

interface Place {
  readonly db: Database;
  readonly projectId: string;
  /** A daemon with these roles on the place's database; one at a time. */
  daemon(roles: string): Promise<Running>;
}
interface Running {
  readonly url: string;
  readonly ingestUrl: string;
  stop(): Promise<void>;
}

async function place(bench: Bencher): Promise<Place> {
  const databaseUrl = await startServer(bench);
  const dataDir = await bench.directory();
  const first = await daemon(bench, databaseUrl, dataDir, 'api');
  await first.stop();
  const db = openDatabase({ url: databaseUrl, log: silent });
  bench.atEnd(() => db.close());
  const { rows } = await db.query<{ id: string }>('select id from svc.projects');
  const projectId = rows[0]?.id ?? '';
  return { db, projectId, daemon: (roles) => daemon(bench, databaseUrl, dataDir, roles) };
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

/** Numbers between the first event that waits and the newest. */
async function waiting({ db, projectId }: Place): Promise<number> {
  const { rows } = await db.query<{ n: number }>(
    `select coalesce(e.seq - m.upto, 0) as n from svc.events e join svc.routing_marks m using (project_id)
      where project_id = $1::uuid order by e.seq desc limit 1`,
    [projectId],
  );
  return Math.max(0, rows[0]?.n ?? 0);
}

/** Until the newest event is routed, which is the last: routing keeps to the order of recording. */
async function drained({ db, projectId }: Place): Promise<void> {
  for (;;) {
    const { rows } = await db.query<{ status: string }>(
      'select router_status as status from svc.events where project_id = $1::uuid order by seq desc limit 1',
      [projectId],
    );
    if (rows[0]?.status !== 'pending') break;
    await sleep(20);
  }
}

/** Accepted a second by a daemon that leaves the routing to others, which has gone when this answers. */
async function accepting(of: Place): Promise<number> {
  const alone = await of.daemon('api');
  await loaded({ ...load, url: alone.ingestUrl, forMs: warmUpMs });
  const { perSecond } = await loaded({ ...load, url: alone.ingestUrl, forMs: turnMs });
  await alone.stop();
  return perSecond;
}

/** A daemon that accepts and routes, as warm as the other, which nothing waits for any more. */
async function routing(of: Place): Promise<Running> {
  const both = await of.daemon('api,route');
  await drained(of);
  await loaded({ ...load, url: both.ingestUrl, forMs: warmUpMs });
  await drained(of);
  return both;
}

/** As fast as answers come; events a second from the first request until the last event is routed. */
async function burst(of: Place, url: string, forMs: number): Promise<number> {
  const start = performance.now();
  const full = await loaded({ ...load, url, forMs });
  await drained(of);
  return (full.perSecond * forMs) / (performance.now() - start);
}

export const door: Bench = {
  name: 'route-door',
  title: 'events to sessions as fast as they come, every commit on disk',
  run: async (bench) => {
    const at = await place(bench);
    const accepted: number[] = [];
    const finished: number[] = [];
    // In turns: what is stored grows, and both pay for it.
    for (let turn = 0; turn < turns; turn += 1) {
      accepted.push(await accepting(at));
      const both = await routing(at);
      finished.push(await burst(at, both.ingestUrl, turnMs));
      await both.stop();
    }
    const what = 'end to end, until the last is routed: time an event / accepted alone';
    bench.ratio(what, ms(1_000 / median(finished)), medianMs(accepted.map((one) => 1_000 / one)), 1 / share);
  },
};

export const minute: Bench = {
  name: 'route-minute',
  title: 'events to sessions for a minute, every commit on disk',
  run: async (bench) => {
    const at = await place(bench);
    const alone: number[] = [];
    for (let turn = 0; turn < turns; turn += 1) {
      alone.push(await accepting(at));
      if (turn < turns - 1) await (await routing(at)).stop();
    }
    const accepted = median(alone);
    const base = medianMs(alone.map((one) => 1_000 / one));
    const both = await routing(at);
    const start = performance.now();
    const running = loaded({ ...load, url: both.ingestUrl, forMs: minuteMs, perSecond: accepted * offered });
    const seen: { readonly atMs: number; readonly count: number }[] = [];
    let isOver = false;
    running.finally(() => (isOver = true)).catch(() => undefined);
    while (!isOver) {
      await sleep(500);
      if (!isOver) seen.push({ atMs: performance.now() - start, count: await waiting(at) });
    }
    const kept = await running;
    await drained(at);
    const perSecond = (kept.perSecond * minuteMs) / (performance.now() - start);
    bench.ratio('time an event / accepted alone', ms(1_000 / perSecond), base, 1 / share);
    const mean = (from: number, to: number): number => {
      const some = seen.filter(({ atMs }) => atMs >= from && atMs < to);
      return some.reduce((sum, { count }) => sum + count, 0) / some.length;
    };
    const third = minuteMs / 3;
    const grownMs = ((mean(2 * third, minuteMs) - mean(third, 2 * third)) / kept.perSecond) * 1_000;
    bench.ratio(
      'growth of what waits, last third over the one before, as load / a third',
      ms(grownMs),
      heldAgainst(third, base),
      0.005,
    );
  },
};

/** The time within which a share of the events was routed, in milliseconds, between two readings; even between edges. */
function quantile(before: string, after: string, of: number): number {
  const read = (page: string): [number, number][] =>
    [...page.matchAll(/^svc_event_routing_lag_seconds_bucket\{le="([^"]+)"\} (\d+)/gm)].map(([, le = '', n]) => [
      le === '+Inf' ? Number.POSITIVE_INFINITY : Number(le) * 1_000,
      Number(n),
    ]);
  const old = new Map(read(before));
  const counts = read(after).map(([le, n]) => [le, n - (old.get(le) ?? 0)] as const);
  const total = counts.at(-1)?.[1] ?? 0;
  const at = counts.findIndex(([, n]) => n >= total * of);
  const [[edge, n], [below, fewer]] = [counts[at] ?? [Number.NaN, 0], counts[at - 1] ?? [0, 0]];
  return n === fewer ? edge : below + ((edge - below) * (total * of - fewer)) / (n - fewer);
}

export const lag: Bench = {
  name: 'route-lag',
  title: 'how long events wait at 70 % of what is finished end to end',
  run: async (bench) => {
    const at = await place(bench);
    const routing = await at.daemon('api,route');
    await loaded({ ...load, url: routing.ingestUrl, forMs: warmUpMs });
    const full = await burst(at, routing.ingestUrl, burstMs);
    const paced = { ...load, connections: 64, forMs: burstMs / 2, perSecond: full * share };
    const bare = await reference(bench, 'batch', await withTable(at.db.url));
    const metrics = async (): Promise<string> => (await fetch(`${routing.url}/metrics`)).text();
    const [p50, p99, bare50, bare99]: [number[], number[], number[], number[]] = [[], [], [], []];
    for (let turn = 0; turn < turns; turn += 1) {
      const before = await metrics();
      await loaded({ ...paced, url: routing.ingestUrl });
      await drained(at);
      const after = await metrics();
      p50.push(quantile(before, after, 0.5));
      p99.push(quantile(before, after, 0.99));
      const batch = await loaded({ ...paced, url: bare });
      bare50.push(batch.p50Ms);
      bare99.push(batch.p99Ms);
    }
    bench.ratio(
      'from receipt to commit of the routing, p50 / answer of the bare server',
      ms(median(p50)),
      medianMs(bare50),
      lagBounds.p50,
    );
    bench.ratio('the same, p99', ms(median(p99)), medianMs(bare99), lagBounds.p99);
  },
};

/** What nobody can do without who records, routes and tells: two commits, and a notification that is heard. */
async function committing(bench: Bencher, url: string): Promise<() => Promise<number>> {
  const db = openDatabase({ url, log: silent });
  bench.atEnd(() => db.close());
  await db.query('create table if not exists public.bench_commits (id bigserial primary key, text text)');
  let heard: () => void = () => undefined;
  await db.listen('bench_commits', () => heard());
  return async () => {
    const start = performance.now();
    const told = new Promise<void>((resolve) => (heard = resolve));
    await db.query('insert into public.bench_commits (text) values ($1::text)', [text]);
    await db.query(
      `with one as (insert into public.bench_commits (text) values ($1::text) returning id)
       select pg_notify('bench_commits', id::text) from one`,
      [text],
    );
    await told;
    return performance.now() - start;
  };
}

/** Gives what resolves when a session is there from now on. Who asks for it again and again takes a core from who is measured. */
async function untilSession(db: Database): Promise<() => Promise<void>> {
  await db.query(`create function public.bench_session() returns trigger language plpgsql as
    $$begin perform pg_notify('bench_sessions', ''); return null; end$$`);
  await db.query(`create trigger bench_session after insert on svc.sessions
    for each statement execute function public.bench_session()`);
  let heard: () => void = () => undefined;
  await db.listen('bench_sessions', () => heard());
  return () => new Promise((resolve) => (heard = resolve));
}

/** From the request to the session's row, one at a time. */
export const quiet: Bench = {
  name: 'route-quiet',
  title: 'a quiet system, every commit on disk',
  run: async (bench) => {
    const at = await place(bench);
    const { ingestUrl } = await at.daemon('api,route');
    const toSession = await untilSession(at.db);
    const peer = await committing(bench, at.db.url);
    const times: number[] = [];
    const floor: number[] = [];
    for (let n = -warmRequests; n < quietRequests; n += 1) {
      const body = JSON.stringify({ dedupKey: `quiet-${n}`, text });
      const signature = createHmac('sha256', secret).update(body).digest('hex');
      const there = toSession();
      const start = performance.now();
      const sent = fetch(ingestUrl, { method: 'POST', body, headers: { 'x-svc-signature-256': signature } });
      await there;
      if (n >= 0) times.push(performance.now() - start);
      await (await sent).text();
      if (n >= -50) await sleep(5);
      const took = await peer();
      if (n >= 0) floor.push(took);
      if (n >= -50) await sleep(5);
    }
    const what = 'request to session, p50 / two commits and a notification';
    // Asked for: recording, routing and telling are these three, and half as much again is left for all else.
    bench.ratio(what, ms(median(times)), steadyMs(floor), 2.5);
  },
};
