// What has happened before, and who else is there, costs a routed event nothing: the processor time of the database for it
// with many stored events beside few, and with eight daemons beside one. Nothing is forced to disk, for waiting takes no
// processor time, and storing so much would take an hour. The long form (SVC_LONG=1) stores ten million
// events; the short one stores as many as show a cost that grows with them.

import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Database, openDatabase } from '../adapters/store/store.ts';
import { isLong } from '../base/testkit/long.ts';
import { silent } from '../base/testkit/postgres.ts';
import type { FlowContext } from '../flows/context.ts';
import { wakeRouting } from '../flows/routing/routing.ts';
import { database, makeProjects, record, router, waits } from './crowd.ts';
import { type Bench, type Bencher, median, medianMs, ms } from './harness.ts';

const few = 10_000;
const many = isLong ? 10_000_000 : 400_000;
const daemons = 8;
const projects = 40;
const eachTurn = 4_000;
const turns = 5;
const behindMs = 700;
/** What is stored, and tidied up afterwards, takes as long as it takes. */
const seedMs = 3_600_000;
/** Of the kernel's clock that process times are counted in. */
const tickMs = 10;

/** Routed events with their bodies, routes and ended sessions, `from` to `to`, the way the routing of them left them. */
async function store(db: Database, ids: readonly string[], from: number, to: number): Promise<void> {
  const uuid = (kind: number): string =>
    `(lpad(to_hex((extract(epoch from now())::bigint - 86400) * 1000 + n / 1000), 12, '0') || '7${kind}008' || lpad(to_hex(n), 15, '0'))::uuid`;
  const project = '($1::uuid[])[1 + n % cardinality($1::uuid[])]';
  const texts = [
    `insert into svc.events (id, seq, project_id, key, dedup_hash, router_status)
     select ${uuid(1)}, n, ${project}, 'webhook.received', sha256(n::text::bytea), 'routed' from generate_series($2::int, $3::int) n`,
    `insert into svc.event_bodies (event_id, raw)
     select ${uuid(1)}, '{"which":"agent-1"}' from generate_series($2::int, $3::int) n where $1::uuid[] is not null`,
    `insert into svc.event_routes (event_id, agent_id, ordinal, agent, decision, session_ids)
     select ${uuid(1)}, a.id, 0, a.name, 'spawn', array[${uuid(2)}] from generate_series($2::int, $3::int) n
       join svc.agents a on a.project_id = ${project}`,
    `insert into svc.sessions (id, project_id, agent_id, agent, revision, origin, event_id, ordinal, state, display_title,
         created_at, active_at, ended_at)
     select ${uuid(2)}, a.project_id, a.id, a.name, 1, 'event', ${uuid(1)}, 0, 'archived', 't', now(), now(), now()
       from generate_series($2::int, $3::int) n join svc.agents a on a.project_id = ${project}`,
  ];
  const slice = 50_000;
  for (let start = from; start <= to; start += slice) {
    await db.tx(async (tx) => {
      await tx.query('set local session_replication_role = replica');
      await tx.query('set local synchronous_commit = off');
      for (const text of texts) await tx.query(text, [ids, start, Math.min(to, start + slice - 1)]);
    });
  }
  await db.query(`select setval('svc.events_seq', $1::bigint)`, [to]);
  await db.query(
    `insert into svc.routing_marks (project_id, upto) select id, $2::bigint from unnest($1::uuid[]) id
       on conflict (project_id) do update set upto = excluded.upto`,
    [ids, to],
  );
  // What the server does by itself in between is not the routing's.
  await db.query('alter system set autovacuum = off');
  await db.query('select pg_reload_conf()');
  await db.query('vacuum analyze');
  await db.query('checkpoint');
}

/** Processor time of the database for each of so many events, from their wake-up to the last one's commit. */
async function routed(contexts: readonly FlowContext[], watcher: Database, ids: readonly string[]): Promise<number> {
  const [first] = contexts;
  if (first === undefined) throw new Error('nobody routes');
  for (const id of ids) await record(first, id, eachTurn / ids.length);
  // What the server does behind the recording is not the routing's: its writers come round five times a second.
  await sleep(behindMs);
  const before = await usedMs(watcher);
  await wakeRouting(first, { projects: ids, ids: [] });
  while (await waits(watcher, ids)) await sleep(100);
  await sleep(behindMs);
  return ((await usedMs(watcher)) - before) / eachTurn;
}

/** Processor time of the server with all of its processes, those that have ended included. */
async function usedMs(db: Database): Promise<number> {
  const text = `select split_part(pg_read_file('postmaster.pid'), E'\\n', 1) as pid`;
  const postmaster = Number((await db.query<{ pid: string }>(text)).rows[0]?.pid);
  let ticks = 0;
  for (const name of await readdir('/proc')) {
    const pid = Number(name);
    if (!Number.isInteger(pid)) continue;
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
    const fields = stat
      .slice(stat.lastIndexOf(')') + 2)
      .split(' ')
      .map(Number);
    const [user = 0, system = 0, endedUser = 0, endedSystem = 0] = fields.slice(11, 15);
    if (pid === postmaster) ticks += user + system + endedUser + endedSystem;
    else if (fields[1] === postmaster) ticks += user + system;
  }
  return ticks * tickMs;
}

async function several(contexts: readonly FlowContext[], watcher: Database, ids: readonly string[]): Promise<number[]> {
  const times: number[] = [];
  for (let turn = -1; turn < turns; turn += 1) {
    const took = await routed(contexts, watcher, ids);
    if (turn >= 0) times.push(took);
  }
  return times;
}

interface Place {
  readonly url: string;
  readonly db: Database;
  readonly ids: readonly string[];
  /** Whoever routes; `change` may add to them. */
  readonly routers: FlowContext[];
}

/** What an event takes before and after a change: one daemon and few stored events first. */
async function compare(bench: Bencher, what: string, change: (place: Place) => Promise<void>): Promise<void> {
  const url = await database(bench, { volatile: true });
  const db = openDatabase({ url, log: silent, statementTimeoutMs: seedMs });
  bench.atEnd(() => db.close());
  const ids = await makeProjects(db, projects, 1);
  await store(db, ids, 1, few);
  const routers = [router(bench, url)];
  const before = await several(routers, db, ids);
  await change({ url, db, ids, routers });
  const after = await several(routers, db, ids);
  // From the capacity that was asked for: neither may cost a fifth more.
  bench.ratio(`database time an event, ${what}`, ms(median(after)), medianMs(before), 1.2);
}

export const history: Bench = {
  name: 'crowd-history',
  title: `routing with ${many} stored events${isLong ? '' : ' (SVC_LONG=1: 10000000)'} and with ${few}`,
  run: (bench) =>
    compare(bench, `${many} stored / ${few}`, async ({ db, ids }) => {
      const stored = Number((await db.query<{ n: string }>('select max(seq) as n from svc.events')).rows[0]?.n);
      await store(db, ids, stored + 1, stored + many);
    }),
};

export const together: Bench = {
  name: 'crowd-daemons',
  title: `routing by ${daemons} daemons and by one`,
  run: (bench) =>
    compare(bench, `${daemons} daemons / one`, async ({ url, routers }) => {
      while (routers.length < daemons) routers.push(router(bench, url));
    }),
};
