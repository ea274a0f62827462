// Any one of eight real daemons is killed under load, in the second in which schedules tick, with sessions in their turns
// and reads of sources under way on it, and the load goes on. Nothing is lost, nothing comes twice, and what it had is taken
// over by the others.

import { type ChildProcess, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Database } from '../adapters/store/store.ts';
import { applyAgents, countOf, type Daemons, done, hook, type OneDaemon, post, startDaemons } from './crowd-daemons.ts';
import type { Bench, Bencher } from './harness.ts';

const daemons = 8;
/** Of each daemon: one for the session that it has, one for what it takes over. */
const places = 2;
const repositoriesMost = 5 * daemons;
const schedules = 300;
/** Callers of each daemon. */
const callers = 4;
/** Before the minute in which one is killed, in milliseconds: reads begin, and then the load. */
const before = { readsMs: 9_000, loadMs: 3_000 } as const;
const loadAfterMs = 10_000;

interface Victim extends OneDaemon {
  readonly id: string;
  /** As it is told: the how manieth. */
  readonly which: number;
}

/** Git servers that take a request and never answer: a read of one lasts. */
async function dullServers(bench: Bencher): Promise<readonly number[]> {
  const program = fileURLToPath(new URL('crowd-git-server.ts', import.meta.url));
  const args = [program, '1', String(repositoriesMost), '0'];
  const child: ChildProcess = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  bench.atEnd(() => void child.kill('SIGKILL'));
  const said = await new Promise<{ readonly swallowing: readonly number[] }>((resolve, reject) => {
    child.on('error', reject);
    child.stdout?.once('data', (chunk: Buffer) => resolve(JSON.parse(chunk.toString())));
  });
  return said.swallowing;
}

async function draw({ all, db }: Daemons): Promise<Victim> {
  const which = randomInt(all.length);
  const one = all[which];
  const { rows } = await db.query<{ id: string }>('select id from svc.daemons where pid = $1::int', [
    one?.child.process.pid,
  ]);
  if (one === undefined || rows[0] === undefined) throw new Error('a daemon is not there');
  return { ...one, id: rows[0].id, which: which + 1 };
}

const running = `select count(*)::int as n from svc.sessions where state = 'running'`;

/** A session in a turn on each daemon, and a place beside it. */
async function putToWork({ all, db }: Daemons): Promise<void> {
  const start = async ({ api }: OneDaemon): Promise<void> =>
    void (await done(api('POST', 'P/agents/worker/sessions', { message: '!sleep 3600000' })));
  // One after another: who starts one holds the project for a moment.
  for (let turn = 0; turn < places; turn += 1) for (const one of all) await start(one);
  while ((await countOf(db, running)) < places * daemons) await sleep(50);
  const { rows } = await db.query<{ id: string }>(
    `select id from (select id, row_number() over (partition by leased_by order by id) as n from svc.sessions where live) s where n > 1`,
  );
  for (const { id } of rows) await done((all[0] as OneDaemon).api('POST', `P/sessions/${id}/archive`));
}

/** Reads that last, until the victim has one; it may also have none, where the others are always quicker. */
async function read(ports: readonly number[], { db }: Daemons, { id, api }: Victim): Promise<void> {
  const reads = `select count(*)::int as n from svc.reconciles where status = 'running' and repository_id is not null`;
  for (const [index, port] of ports.entries()) {
    const url = `http://127.0.0.1:${port}/x.git`;
    await done(api('POST', 'P/repositories', { name: `dull-${index}`, url, intervalSeconds: 3_600 }));
    await done(api('POST', `P/repositories/dull-${index}/sync`));
    if ((await countOf(db, `${reads} and daemon_id = $1::uuid`, [id])) > 0) return;
  }
}

/** Sends events to all daemons until it is told to stop; then, the keys of those that were answered. */
function load({ all }: Daemons, path: string): { stop(): Promise<ReadonlySet<string>> } {
  const accepted = new Set<string>();
  let isOver = false;
  const sender = async (url: string, name: string): Promise<void> => {
    for (let n = 0; !isOver; n += 1) {
      const dedupKey = `${name}-${n}`;
      if (await post(`${url}${path}`, { dedupKey })) accepted.add(dedupKey);
      else await sleep(20);
    }
  };
  const senders = all.flatMap(({ url }, d) => Array.from({ length: callers }, (_, n) => sender(url, `${d}-${n}`)));
  return {
    async stop() {
      isOver = true;
      await Promise.all(senders);
      return accepted;
    },
  };
}

/** What was the victim's and is nobody's yet. */
const left = (db: Database, id: string, heldSessions: readonly string[], reads: readonly string[]) =>
  countOf(
    db,
    `select ((select count(*) from svc.sessions where id = any($2::uuid[])
               and not (state = 'running' and leased_by is distinct from $1::uuid))
           + (select count(*) from unnest($3::uuid[]) as r (id) where not exists (select from svc.reconciles n
               where n.repository_id = r.id and n.daemon_id <> $1::uuid))
           + (select count(*) from svc.reconciles where daemon_id = $1::uuid and status = 'running')
           + (select count(*) from svc.daemons where id = $1::uuid))::int as n`,
    [id, heldSessions, reads],
  );

/** Seconds from now until the others have all of it, and all events of that time. */
async function takenOver(db: Database, { id }: Victim, held: Held): Promise<number> {
  const at = performance.now();
  const { rows } = await db.query<{ now: Date }>('select now() as now');
  const waiting = `select count(*)::int as n from svc.events where router_status = 'pending' and received_at <= $1::timestamptz`;
  while ((await left(db, id, held.sessions, held.reads)) + (await countOf(db, waiting, [rows[0]?.now])) > 0)
    await sleep(20);
  return (performance.now() - at) / 1_000;
}

interface Held {
  readonly sessions: readonly string[];
  readonly reads: readonly string[];
}

async function heldBy(db: Database, id: string): Promise<Held> {
  const { rows } = await db.query<Held>(
    `select array(select id from svc.sessions where leased_by = $1::uuid and state = 'running') as sessions,
            array(select repository_id from svc.reconciles where daemon_id = $1::uuid and status = 'running') as reads`,
    [id],
  );
  return rows[0] ?? { sessions: [], reads: [] };
}

// Nobody has its program: what it begins stands for work that needs no place.
const waits = { harness: 'harness-b' };
const heartbeat = { kind: 'heartbeat', cron: '* * * * *', routing: { kind: 'spawn' }, message: 'tick' };
const agents = { worker: {}, bench: { ...waits, triggers: [hook('bench')] } };
const ticking = Object.fromEntries(
  Array.from({ length: schedules / 100 }, (_, n): [string, object] => [
    `ticking-${n}`,
    { ...waits, triggers: Array.from({ length: 100 }, () => heartbeat) },
  ]),
);

const untilMs = (at: number): Promise<void> => sleep(Math.max(0, at - Date.now()));

/** Nothing of what was sent and of what ticked is lost or was done twice. */
async function count(bench: Bencher, db: Database, accepted: number, minute: number): Promise<void> {
  while ((await countOf(db, `select count(*)::int as n from svc.events where router_status = 'pending'`)) > 0)
    await sleep(20);
  const recorded = await countOf(db, `select count(*)::int as n from svc.events where key = 'webhook.received'`);
  bench.atMost('events that were answered and are not there', Math.max(0, accepted - recorded), 0, 'events');
  const ofEvents = `from svc.sessions s join svc.events e on e.id = s.event_id where e.key = 'webhook.received'`;
  const spawned = await countOf(db, `select count(distinct s.event_id)::int as n ${ofEvents}`);
  const sessions = await countOf(db, `select count(*)::int as n ${ofEvents}`);
  bench.atMost('events without a session, or with two', recorded - spawned + (sessions - spawned), 0, 'events');
  const ticks = await countOf(
    db,
    `select count(*)::int as n from svc.events
      where key like 'heartbeat.%' and received_at between $1::timestamptz and $1::timestamptz + interval '59 seconds'`,
    [new Date(minute)],
  );
  bench.atMost(`of ${schedules} ticks of that minute, lost or fired twice`, Math.abs(schedules - ticks), 0, 'ticks');
}

export const killed: Bench = {
  name: 'crowd-killed',
  title: `any one of ${daemons} daemons is killed under load`,
  run: async (bench) => {
    const crowd = await startDaemons(bench, daemons, places);
    const { db } = crowd;
    const victim = await draw(crowd);
    const paths = await applyAgents(victim.api, 'P', agents);
    await putToWork(crowd);
    const ports = await dullServers(bench);
    const minute = Math.ceil((Date.now() + before.readsMs) / 60_000) * 60_000;
    await untilMs(minute - before.readsMs);
    // Those of this minute are their first.
    await applyAgents(victim.api, 'P', { ...agents, ...ticking });
    await read(ports, crowd, victim);
    await untilMs(minute - before.loadMs);
    const traffic = load(crowd, paths['bench'] ?? '');
    await untilMs(minute + randomInt(300));
    const held = await heldBy(db, victim.id);
    await victim.child.kill('SIGKILL');
    const [took] = await Promise.all([takenOver(db, victim, held), sleep(loadAfterMs)]);
    const accepted = await traffic.stop();
    const what = `the ${victim.which}. of ${daemons}, with ${held.sessions.length} sessions in a turn and ${held.reads.length} reads`;
    bench.atMost(`${what}: until the others had all of it`, took, 10, 's');
    await count(bench, db, accepted.size, minute);
  },
};
