// Many sessions over few places: 2,000 live ones where a host runs a handful. A message to one that has given its place up,
// while all places are held by sessions that rest, against a fresh launch while there is room; and what the daemon holds
// beside what it holds for the sessions that have a place.

import { setTimeout as sleep } from 'node:timers/promises';
import { createHostBench, type HostBench } from '../flows/session-host/host-testkit.ts';
import { type Bench, type Bencher, byteCount, heldBytes, median, medianMs, ms } from './harness.ts';

const placeCount = 10;
/** Launched one after another; the rest are rows of sessions that have rested since long before. */
const launchedCount = 40;
const sessionCount = 2_000;
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

/** Milliseconds from the call to the prompt on the wire, as the session's newest turn has it. */
async function wireMs(bench: HostBench, call: () => Promise<string>): Promise<number> {
  const at = Date.now();
  const session = await call();
  await untilRest(bench);
  const { rows } = await bench.daemon.ctx.db.query<{ at: Date }>(
    'select started_at as at from svc.turns where session_id = $1::uuid order by number desc limit 1',
    [session],
  );
  return (rows[0]?.at.getTime() ?? Number.NaN) - at;
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

async function run(bencher: Bencher): Promise<void> {
  const file = { sessions: { max: placeCount, unloadAfterSeconds: 0 } };
  const bench = await createHostBench({ config: { file } });
  bencher.atEnd(() => bench.stop());
  await bench.apply({ worker: {} });
  const launched: string[] = [];
  const start = async (): Promise<string> => {
    const session = await bench.start('worker', 'hello');
    launched.push(session);
    return session;
  };
  const fresh: number[] = [];
  // The first warms everything up.
  for (let n = 0; n < placeCount; n += 1) {
    const took = await wireMs(bench, start);
    if (n > 0) fresh.push(took);
  }
  const full = heldBytes();
  for (let n = placeCount; n < launchedCount; n += 1) await wireMs(bench, start);
  await addResting(bench, sessionCount - launchedCount);
  const again: number[] = [];
  for (let n = 0; n < runs; n += 1) {
    const session = launched[n] ?? '';
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
  const what = `${sessionCount} sessions over ${placeCount} places`;
  bencher.ratio(`${what}: a message on the wire, of a fresh launch`, ms(median(again)), medianMs(fresh), 1.5);
  bencher.ratio(
    `${what}: held by the daemon, of ${placeCount} sessions alone`,
    byteCount(heldBytes()),
    byteCount(full),
    1.1,
  );
}

export const places: Bench = { name: 'crowd-places', title: 'many sessions over few places', run };
