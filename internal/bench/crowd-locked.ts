// One project is held for a minute by somebody who says nothing, and two real daemons stand on the database: those who want
// that project knock, events come in for it, and sessions of it and of another one are in a turn. What the other project's
// callers wait, and what became of daemons, leases and events.

import { setTimeout as sleep } from 'node:timers/promises';
import { lockRouting } from '../adapters/store/routing/routing-lock.ts';
import type { Database } from '../adapters/store/store.ts';
import type { Api } from '../base/testkit/daemon.ts';
import { applyAgents, countOf, type Daemons, done, hook, post, startDaemons } from './crowd-daemons.ts';
import { type Bench, type Bencher, ms, steadyMs } from './harness.ts';

const heldSeconds = 60;
const quietSeconds = 20;
/** Who wants the locked project of one daemon, at any time. */
const knocking = 6;
/** Between two events of the locked project at one daemon. */
const eventMs = 500;
const free = '/api/v1/orgs/default/projects/free';

/** One of the answers that the other project's callers wait for. */
const kinds = ['an event', 'a list', 'the start and the end of a session'] as const;
type Times = Record<(typeof kinds)[number], number[]>;

interface Scene extends Daemons {
  readonly projectId: string;
  /** In a turn, one on each daemon: of the project that is locked, and of the other one. */
  readonly sessions: readonly string[];
  /** Where each project takes events. */
  readonly paths: { readonly held: string; readonly free: string };
}

async function setUp(bench: Bencher): Promise<Scene> {
  const { all, db } = await startDaemons(bench, 2, 1);
  const api = all[0]?.api as Api;
  await done(api('POST', '/api/v1/orgs/default/projects', { slug: 'free', name: 'Free' }));
  const agents = (more: object): { readonly bench: object } => ({ bench: { triggers: [hook('bench', more)] } });
  const held = await applyAgents(api, 'P', agents({}));
  // What it takes in is no work: only how long that takes is asked.
  const other = await applyAgents(api, free, agents({ where: { never: true } }));
  const sessions: string[] = [];
  for (const project of ['P', free]) {
    const { id } = await done(api('POST', `${project}/agents/bench/sessions`, { message: '!sleep 3600000' }));
    sessions.push(String(id));
  }
  const running = `select count(*)::int as n from svc.sessions where state = 'running'`;
  while ((await countOf(db, running)) < sessions.length) await sleep(50);
  const { rows } = await db.query<{ id: string }>(`select id from svc.projects where slug = 'default'`);
  return {
    ...{ all, db, sessions, projectId: rows[0]?.id ?? '' },
    paths: { held: held['bench'] ?? '', free: other['bench'] ?? '' },
  };
}

/** What callers of the other project wait, one at each daemon, until then; and how many of them were refused. */
async function callers(
  { all, paths }: Scene,
  until: number,
): Promise<{ readonly times: Times; readonly refused: number }> {
  const times: Times = { 'an event': [], 'a list': [], 'the start and the end of a session': [] };
  let refused = 0;
  const calls = all.map(async ({ url, api }) => {
    const ask = async (kind: keyof Times, call: () => Promise<boolean>): Promise<void> => {
      const start = performance.now();
      if (!(await call())) refused += 1;
      times[kind].push(performance.now() - start);
    };
    while (performance.now() < until) {
      await ask('an event', () => post(`${url}${paths.free}`, {}));
      await ask('a list', async () => (await api('GET', `${free}/agents`)).status === 200);
      await ask('the start and the end of a session', async () => {
        const { status, body } = await api('POST', `${free}/agents/bench/sessions`, { message: 'hello' });
        return status === 201 && (await api('POST', `${free}/sessions/${String(body['id'])}/archive`)).status === 200;
      });
    }
  });
  await Promise.all(calls);
  return { times, refused };
}

/** Those who want the locked project: how many heard that it is busy, and how many of its events were taken in. */
async function strangers({ all, paths, sessions: [held] }: Scene, until: number) {
  const counts = { busy: 0, taken: 0 };
  const knock = async (api: Api): Promise<void> => {
    while (performance.now() < until) {
      const { status, body } = await api('POST', `P/sessions/${held}/messages`, { text: 'x' });
      if (status < 300) throw new Error('a message was taken while its project was locked');
      if (String(body['code']) === 'busy') counts.busy += 1;
    }
  };
  const send = async (url: string): Promise<void> => {
    for (; performance.now() < until; await sleep(eventMs))
      if (await post(`${url}${paths.held}`, {})) counts.taken += 1;
  };
  const knocks = all.flatMap(({ api }) => Array.from({ length: knocking }, () => knock(api)));
  await Promise.all([...knocks, ...all.map(({ url }) => send(url))]);
  return counts;
}

/** What others see of the daemons and of the sessions, looked at again and again. */
async function watch({ db, sessions }: Scene, until: number) {
  const look = async () => {
    const { rows } = await db.query<{ daemons: readonly string[] | null; leases: readonly string[] | null }>(
      `select (select array_agg(id || ' ' || started_at) from svc.daemons) as daemons,
              (select array_agg(s.id || ' ' || s.epoch) from svc.sessions s join svc.session_leases l on l.session_id = s.id
                where s.id = any($1::uuid[]) and s.state = 'running' and l.epoch = s.epoch and l.until > now()) as leases`,
      [sessions],
    );
    return { daemons: rows[0]?.daemons ?? [], leases: rows[0]?.leases ?? [] };
  };
  const first = await look();
  const gone = { daemons: new Set<string>(), leases: new Set<string>() };
  for (; performance.now() < until; await sleep(250)) {
    const now = await look();
    for (const which of ['daemons', 'leases'] as const)
      for (const one of first[which]) if (!now[which].includes(one)) gone[which].add(one);
  }
  return { buried: gone.daemons.size, lapsed: sessions.length - first.leases.length + gone.leases.size };
}

/** Holds the project for as long as `work` takes. */
const whileHeld = <T>(db: Database, projectId: string, work: () => Promise<T>): Promise<T> =>
  db.tx(async (tx) => {
    await lockRouting(tx, projectId);
    // The server ends a transaction in which nothing happens for a minute.
    const stirring = setInterval(() => void tx.query('select 1'), 5_000);
    try {
      return await work();
    } finally {
      clearInterval(stirring);
    }
  });

export const locked: Bench = {
  name: 'crowd-locked',
  title: `one project is locked for ${heldSeconds} s, and two daemons serve others`,
  run: async (bench) => {
    const scene = await setUp(bench);
    const { db, projectId, sessions } = scene;
    const p99 = (times: readonly number[]): number =>
      times.toSorted((a, b) => a - b)[Math.floor(times.length * 0.99)] ?? NaN;
    await callers(scene, performance.now() + 5_000);
    const { times: quiet } = await callers(scene, performance.now() + quietSeconds * 1_000);
    const [{ times, refused }, { busy, taken }, { buried, lapsed }] = await whileHeld(db, projectId, () => {
      const until = performance.now() + heldSeconds * 1_000;
      return Promise.all([callers(scene, until), strangers(scene, until), watch(scene, until)]);
    });
    if (busy === 0) throw new Error('nobody was told that the project is busy');
    for (const kind of kinds) {
      const what = `p99 of ${kind} of another project, one locked / none`;
      bench.ratio(what, ms(p99(times[kind])), steadyMs(quiet[kind], p99), 2);
    }
    bench.atMost('calls of another project that were refused', refused, 0, 'calls');
    bench.atMost('daemons that were taken for dead', buried, 0, 'daemons');
    bench.atMost('sessions in a turn that lost their lease', lapsed, 0, 'sessions');
    const waiting = `select count(*)::int as n from svc.events where router_status = 'pending'`;
    while ((await countOf(db, waiting)) > 0) await sleep(50);
    const begun = `select count(*)::int as n, count(distinct event_id)::int as events from svc.sessions where event_id is not null`;
    const { rows } = await db.query<{ n: number; events: number }>(begun);
    const [{ n, events } = { n: 0, events: 0 }] = rows;
    bench.atMost(
      `of ${taken} events of the locked project, lost or routed twice`,
      taken - events + (n - events),
      0,
      'events',
    );
    const cut = await countOf(
      db,
      `select count(*)::int as n from svc.turns where session_id = any($1::uuid[]) and (number > 1 or state <> 'running')`,
      [sessions],
    );
    bench.atMost('turns that were cut off', cut, 0, 'turns');
  },
};
