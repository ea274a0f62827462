// Many sessions over few places: 2,000 live ones where a host runs fifty. A message to one that has given its place up,
// while all places are held by sessions that rest, against a fresh launch while there is room; and what the daemon holds
// beside what it holds for the sessions that have a place.

import { freemem } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { createHostBench, type HostBench } from '../flows/session-host/host-testkit.ts';
import { type Bench, type Bencher, byteCount, heldBytes, median, medianMs, ms } from './harness.ts';
import { agentBytes, smallAgent } from './sessions.ts';

/** Fewer where there is not the memory for so many harnesses. */
const placesMost = 50;
const sessionCount = 2_000;
/** Launches and messages that are measured, each by itself. */
const runs = 20;

const untilRest = async ({ daemon }: HostBench): Promise<void> => {
  for (;;) {
    const { rows } = await daemon.ctx.db.query<{ left: number }>(
      `select (select count(*) from svc.inbox where state in ('pending', 'in_flight'))
            + (select count(*) from svc.sessions where live and state <> 'idle') as left`,
    );
    if (Number(rows[0]?.left) === 0) return;
    await sleep(5);
  }
};

/**
 * Milliseconds from the call to the prompt on the wire, as the session's newest turn has it. Meanwhile only that turn is asked
 * for: what looks at all sessions takes the longer the more there are, of the cores on which this is measured.
 */
async function wireMs(bench: HostBench, call: () => Promise<string>): Promise<number> {
  const at = new Date();
  const session = await call();
  for (;;) {
    const { rows } = await bench.daemon.ctx.db.query<{ at: Date }>(
      'select started_at as at from svc.turns where session_id = $1::uuid and started_at >= $2::timestamptz limit 1',
      [session, at],
    );
    const [turn] = rows;
    if (turn !== undefined) {
      await untilRest(bench);
      return turn.at.getTime() - at.getTime();
    }
    await sleep(5);
  }
}

/** Sessions as they are when they have given their place up. */
async function addResting({ daemon }: HostBench, count: number): Promise<void> {
  await daemon.ctx.db.query(
    `insert into svc.sessions (id, project_id, agent_id, agent, revision, origin, display_title, state, created_at,
         active_at, started_at)
     select gen_random_uuid(), s.project_id, s.agent_id, s.agent, s.revision, 'manual', 'rests', 'idle', now(), now(), now()
       from (select * from svc.sessions limit 1) s, generate_series(1, $1::int)`,
    [count],
  );
}

/** Places, each of which is to have its harness. */
const room = (): number => Math.max(runs, Math.min(placesMost, Math.floor((freemem() * 0.9) / agentBytes)));

async function run(bencher: Bencher): Promise<void> {
  const placeCount = room();
  const file = { sessions: { max: placeCount, unloadAfterSeconds: 0 } };
  const bench = await createHostBench({ config: { file, harnessACommand: smallAgent } });
  bencher.atEnd(() => bench.stop());
  await bench.apply({ worker: {} });
  const launched: string[] = [];
  const start = async (): Promise<string> => {
    const session = await bench.start('worker', 'hello');
    launched.push(session);
    return session;
  };
  /** Several at a time, up to so many in all. */
  const fill = async (count: number): Promise<void> => {
    while (launched.length < count) {
      await Promise.all(Array.from({ length: Math.min(5, count - launched.length) }, start));
      await untilRest(bench);
    }
  };
  // The first warms everything up.
  await wireMs(bench, start);
  const fresh: number[] = [];
  for (let n = 1; n < runs; n += 1) fresh.push(await wireMs(bench, start));
  await fill(placeCount);
  const full = heldBytes();
  // The first of them give their places up; beside all that were launched there are rows of sessions that rest since long before.
  await fill(placeCount + runs);
  await addResting(bench, sessionCount - launched.length);
  const again: number[] = [];
  for (const session of launched.slice(0, runs)) {
    const took = await wireMs(bench, async () => {
      await bench.send(session, 'hello again');
      return session;
    });
    again.push(took);
  }
  const { rows } = await bench.daemon.ctx.db.query<{ sessions: number; loaded: number }>(
    'select count(*)::int as sessions, count(leased_by)::int as loaded from svc.sessions where live',
  );
  const [{ sessions, loaded } = { sessions: 0, loaded: 0 }] = rows;
  if (sessions !== sessionCount || loaded > placeCount)
    throw new Error(`${loaded} of ${sessions} sessions hold a place`);
  const fewer = placeCount < placesMost ? ` (of ${placesMost}: there is no memory for more)` : '';
  const what = `${sessionCount} sessions over ${placeCount} places${fewer}`;
  bencher.ratio(`${what}: a message on the wire, of a fresh launch`, ms(median(again)), medianMs(fresh), 1.5);
  bencher.ratio(
    `${what}: held by the daemon, of ${placeCount} sessions alone`,
    byteCount(heldBytes()),
    byteCount(full),
    1.1,
  );
}

export const places: Bench = { name: 'crowd-places', title: 'many sessions over few places', run };
