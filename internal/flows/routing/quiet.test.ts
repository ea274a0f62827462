import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';
import { insertBindings } from '../../adapters/store/routing/bindings.ts';
import { lockRouting } from '../../adapters/store/routing/routing-lock.ts';
import { recordEvents } from '../../adapters/store/events/events.ts';
import { orderedIds } from '../../base/ids.ts';
import { createSessions } from '../sessions/sessions.ts';
import { type Bench, createBench } from '../sessions/sessions-testkit.ts';
import { Router } from './router.ts';
import { settled } from './routing-testkit.ts';

let bench: Bench;
const nextId = orderedIds({ now: () => new Date('2026-11-21T12:00:00Z'), randomBytes });
before(async () => {
  bench = await createBench();
});
after(() => bench.close());

/** A project with one agent of one session at a time, which gives up a claim when another agent's claim on the thing ends. */
async function observerIn(projectId: string): Promise<{ readonly agentId: string; readonly session: string }> {
  const { ctx, db } = bench;
  const [agentId, session] = [randomUUID(), nextId()];
  const key = 'svc.session.binding.unbound';
  const where = { '$.binding.sessionId': null };
  const observedTarget = { action: 'unbind' };
  const routing = { kind: 'bind', target: 'svc.session', onUnmatched: 'spawn', release: false, observedTarget };
  await db.query(
    `insert into svc.agents (id, project_id, name, revision, spec, spec_hash, source)
     values ($1::uuid, $2::uuid, 'a', 1, '{"concurrency": 1}', 'h', '{}')`,
    [agentId, projectId],
  );
  await db.query(
    `insert into svc.triggers (project_id, agent_id, ordinal, kind, event, spec, spec_hash, status)
     values ($1::uuid, $2::uuid, 0, 'event', $3::text, $4::jsonb, 'h', 'active')`,
    [projectId, agentId, key, JSON.stringify({ kind: 'event', event: key, where, fallback: false, routing })],
  );
  await db.tx(async (sql) => {
    const tx = await lockRouting(sql, projectId);
    const own = { id: session, agentId, agent: 'a', revision: 1, origin: 'manual', slot: true, threads: [] } as const;
    const said = { displayTitle: 't', hiddenContext: null, mountRefs: {} };
    await createSessions(ctx, tx, [{ ...own, ...said, start: { text: 'go', sender: 'operator' } }]);
    const terms = { lifecycle: 'manual', continuity: 'session', context: null, eventContext: null } as const;
    const claim = {
      id: nextId(),
      agentId,
      agent: 'a',
      sessionId: session,
      target: pull,
      state: 'active',
      ...terms,
    } as const;
    await insertBindings(tx, [claim], ctx.runtime.now());
  });
  return { agentId, session };
}
const pull = { type: 'codehost.pull_request', key: 'o/r#1' } as const;

test('an observer gives up its claim also where many projects are routed together', async () => {
  const { ctx, db } = bench;
  const projects = Array.from({ length: 30 }, () => randomUUID());
  await db.query(
    `insert into svc.projects (id, org_id, slug, name)
     select u.id, o.id, 'p-' || u.id, 'p' from unnest($1::uuid[]) as u (id), svc.orgs o`,
    [projects],
  );
  const observers = await Promise.all(projects.map(observerIn));
  // Of an agent's claim that nobody held: the event is about no session.
  const payload = JSON.stringify({ binding: { target: pull, sessionId: null } });
  const events = projects.map((projectId) => ({
    ...{ id: nextId(), projectId, key: 'svc.session.binding.unbound', dedupHash: null, raw: null, payload },
    receivedAt: ctx.runtime.now(),
  }));
  await recordEvents(db, events, { routing: false });
  const router = new Router(ctx);
  for (const id of projects) router.wake(id);
  await settled(db);
  await router.stop();
  const { rows } = await db.query<{ session: string; state: string; decision: string }>(
    `select b.session_id as session, b.state, r.decision from svc.bindings b
       join svc.events e on e.project_id = b.project_id and e.id = any($1::uuid[])
       join svc.event_routes r on r.event_id = e.id order by b.session_id`,
    [events.map(({ id }) => id)],
  );
  assert.deepEqual(
    rows,
    observers
      .map(({ session }) => ({ session, state: 'released', decision: 'converted' }))
      .sort((a, b) => (a.session < b.session ? -1 : 1)),
  );
});
