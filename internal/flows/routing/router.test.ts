import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { recordEvents } from '../../adapters/store/events/events.ts';
import { type Bench, createBench } from '../sessions/sessions-testkit.ts';
import { settled } from './routing-testkit.ts';
import { orderedIds } from '../../base/ids.ts';
import { Router } from './router.ts';

describe('the router', () => {
  let bench: Bench;
  let router: Router;
  const agentId = randomUUID();
  const nextId = orderedIds({ now: () => new Date('2026-11-21T12:00:00Z'), randomBytes });
  before(async () => {
    bench = await createBench();
    router = new Router(bench.ctx);
    const { db, projectId } = bench;
    await db.query(
      `insert into svc.agents (id, project_id, name, revision, spec, spec_hash, source)
       values ($1::uuid, $2::uuid, 'a', 1, '{}', 'h', '{}')`,
      [agentId, projectId],
    );
    const spec = { kind: 'event', event: 'webhook.received', where: {}, fallback: false, routing: { kind: 'spawn' } };
    await db.query(
      `insert into svc.triggers (project_id, agent_id, ordinal, kind, event, spec, spec_hash, status)
       values ($1::uuid, $2::uuid, 0, 'event', 'webhook.received', $3::jsonb, 'h', 'active')`,
      [projectId, agentId, JSON.stringify(spec)],
    );
  });
  after(async () => {
    await router.stop();
    await bench.close();
  });

  async function record(count: number): Promise<string[]> {
    const { projectId, db, ctx } = bench;
    const events = Array.from({ length: count }, () => ({
      id: nextId(),
      projectId,
      key: 'webhook.received',
      dedupHash: null,
      raw: Buffer.from('{}'),
      payload: null,
      receivedAt: ctx.runtime.now(),
    }));
    await recordEvents(db, events, { routing: false });
    return events.map((event) => event.id);
  }
  const statuses = async (ids: readonly string[]) => {
    const { rows } = await bench.db.query<{ id: string; status: string; reason: string | null }>(
      'select id, router_status as status, reason from svc.events where id = any($1::uuid[]) order by seq',
      [ids],
    );
    return rows;
  };

  it('fails the one event that cannot be written, with its reason, and routes all others once', async () => {
    const ids = await record(20);
    const culprit = ids[13] ?? '';
    // What only somebody who routes without the lock could leave behind.
    await bench.db.query(
      `insert into svc.event_routes (event_id, agent_id, ordinal, agent, decision) values ($1::uuid, $2::uuid, 0, 'a', 'x')`,
      [culprit, agentId],
    );
    router.wake(bench.projectId);
    await settled(bench.db);
    const rows = await statuses(ids);
    assert.deepEqual(
      rows.filter((row) => row.status !== 'routed').map((row) => [row.id, row.status]),
      [[culprit, 'failed']],
    );
    assert.match(rows[13]?.reason ?? '', /^23505: .*event_routes/);
    const { rows: sessions } = await bench.db.query<{ event: string }>(
      'select event_id as event from svc.sessions order by id',
    );
    assert.deepEqual(
      sessions.map((row) => row.event),
      ids.filter((id) => id !== culprit),
    );
  });

  it('takes as many statements for many events as for few', async () => {
    const spent = async (count: number): Promise<number> => {
      await record(count);
      const before = bench.db.statements();
      router.wake(bench.projectId);
      await router.stop();
      router = new Router(bench.ctx);
      return bench.db.statements() - before;
    };
    await spent(1);
    const few = await spent(3);
    assert.equal(await spent(200), few);
  });

  it('an event whose body is gone is failed, saying so', async () => {
    const [id = ''] = await record(1);
    await bench.db.query('delete from svc.event_bodies where event_id = $1::uuid', [id]);
    router.wake(bench.projectId);
    await settled(bench.db);
    assert.deepEqual(await statuses([id]), [{ id, status: 'failed', reason: 'its body is not kept any more' }]);
  });

  it('an event whose stored body is damaged is failed, saying so, and the next is routed', async () => {
    const [id = '', next = ''] = await record(2);
    await bench.db.query('update svc.event_bodies set raw_bytes = 20000 where event_id = $1::uuid', [id]);
    router.wake(bench.projectId);
    await settled(bench.db);
    assert.deepEqual(await statuses([id]), [{ id, status: 'failed', reason: 'its stored body cannot be read' }]);
    assert.equal((await statuses([next]))[0]?.status, 'routed');
  });
});
