// Events that somebody insists on while everything dies, and what must have become of them. Only tests import this.

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Database } from '../../adapters/store/store.ts';
import type { Api } from '../../base/testkit/daemon.ts';
import { applyAgents, hook, settled } from './routing-testkit.ts';

export interface Load {
  /** Events that were answered: these must not be lost. */
  answered(): number;
  /** Posts so many events, by 16 senders, each until it is answered; `urls` are the daemons that may be there. */
  post(name: string, count: number, urls: () => readonly string[]): Promise<void>;
  /** Nothing lost, nothing twice, everything in order. */
  requireOnce(db: Database): Promise<void>;
}

/** Applies an agent that has a session for each event, and a capped one that is told of all. */
export async function startLoad(api: Api): Promise<Load> {
  const trigger = hook('load', { kind: 'spawn' }, { message: '{{ key }}' });
  const paths = await applyAgents(api, { each: { triggers: [trigger] }, one: { concurrency: 1, triggers: [trigger] } });
  const path = paths['load'] ?? '';
  const answered = new Set<string>();

  async function insist(key: string, urls: () => readonly string[]): Promise<void> {
    for (let tries = 0; tries < 2_000; tries += 1) {
      const open = urls();
      const url = open[tries % Math.max(1, open.length)];
      const body = JSON.stringify({ dedupKey: key, key });
      const answer =
        url === undefined ? undefined : await fetch(`${url}${path}`, { method: 'POST', body }).catch(() => undefined);
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

  async function post(name: string, count: number, urls: () => readonly string[]): Promise<void> {
    let next = 0;
    const sender = async (): Promise<void> => {
      while (next < count) await insist(`${name}-${next++}`, urls);
    };
    await Promise.all(Array.from({ length: 16 }, sender));
  }

  return { answered: () => answered.size, post, requireOnce: (db) => requireOnce(db, answered.size) };
}

async function requireOnce(db: Database, n: number): Promise<void> {
  await settled(db, 60_000);
  const count = async (sql: string): Promise<number> => (await db.query<{ n: number }>(sql)).rows[0]?.n ?? -1;
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
