import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { recordEvents } from '../../adapters/store/events/events.ts';
import { noteImpact } from '../../adapters/store/console/consequences.ts';
import type { AgentSpec } from '../../domain/spec.ts';
import { silent } from '../../base/testkit/postgres.ts';
import { applyPlan } from './apply.ts';
import { agentsTree, type Bench, createBench, hook, onCron, onEvent, requestOf } from './apply-testkit.ts';
import type { ImpactSides } from '../ports.ts';
import { type EventImpact, startAppliedImpacts } from './impact.ts';

describe('what a plan says of stored events', () => {
  let bench: Bench;
  const ids: { [name: string]: string } = {};
  const auth = { kind: 'none' };
  const high = { where: { severity: 'high' } };
  const low = { where: { severity: 'low' } };
  const now = new Date('2026-11-21T12:00:00Z');

  async function record(name: string, body: object, more: { key?: string; endpoint?: string; daysAgo?: number } = {}) {
    const id = randomUUID();
    const found = await bench.db.query<{ id: string }>('select id from svc.endpoints where name = $1::text', [
      more.endpoint ?? null,
    ]);
    ids[id] = name;
    const event = {
      id,
      projectId: bench.projectId,
      key: more.key ?? 'webhook.received',
      dedupHash: null,
      raw: Buffer.from(JSON.stringify(body)),
      payload: null,
      receivedAt: new Date(now.getTime() - (more.daysAgo ?? 0) * 86_400_000),
      ...(found.rows[0] && { endpointId: found.rows[0].id }),
    };
    await recordEvents(bench.db, [event], { routing: false });
  }

  before(async () => {
    bench = await createBench();
    await bench.apply(agentsTree({ triage: { triggers: [hook('in', { auth, ...high }), hook('other', { auth })] } }));
    await record('old', { severity: 'low' }, { endpoint: 'in', daysAgo: 8 });
    await record('high', { severity: 'high' }, { endpoint: 'in', daysAgo: 6 });
    await record('low', { severity: 'low' }, { endpoint: 'in' });
    await record('elsewhere', { severity: 'low' }, { endpoint: 'other' });
    await record('done', {}, { key: 'svc.connection.removed' });
  });
  after(() => bench.close());

  async function foresee(agents: { readonly [name: string]: Partial<AgentSpec> }) {
    const { eventImpact } = await bench.apply(agentsTree(agents), { dryRun: true, withImpact: true });
    return {
      events: eventImpact?.events,
      triggers: eventImpact?.triggers.map(
        ({ agent, ordinal, newly, stopped }) =>
          `${agent}#${ordinal} +${newly.eventIds.map((id) => ids[id]).join()} -${stopped.eventIds.map((id) => ids[id]).join()}`,
      ),
    };
  }

  it('counts those that a changed trigger would newly match and those that it would not match any more', async () => {
    const triggers = [hook('in', { auth, ...low }), hook('other', { auth })];
    assert.deepEqual(await foresee({ triage: { triggers } }), { events: 3, triggers: ['triage#0 +low -high'] });
  });

  it('says nothing of events that all match as before', async () => {
    const same = [hook('in', { auth, ...high }), hook('other', { auth })];
    assert.deepEqual(await foresee({ triage: { triggers: same } }), { events: 0, triggers: [] });
    const moved = [onCron('0 7 * * *'), ...same];
    assert.deepEqual(await foresee({ triage: { triggers: moved } }), { events: 3, triggers: [] });
  });

  it('looks at new agents, at deleted ones and at fallbacks of others', async () => {
    const triggers = [hook('in', { auth, ...high }), hook('other', { auth })];
    const fresh = { triggers: [onEvent('svc.connection.removed')] };
    assert.deepEqual(await foresee({ triage: { triggers }, fresh }), { events: 1, triggers: ['fresh#0 +done -'] });
    const rest = { triggers: [hook('in', { auth, fallback: true })] };
    assert.deepEqual(await foresee({ rest }), {
      events: 3,
      triggers: ['rest#0 +low,high -', 'triage#0 + -high', 'triage#1 + -elsewhere'],
    });
  });

  it('is worked out only where somebody asks, or where a plan is held', async () => {
    const tree = agentsTree({ triage: { triggers: [hook('in', { auth, ...low })] } });
    assert.equal((await bench.apply(tree, { dryRun: true })).eventImpact, undefined);
    const owner = await bench.addRepository('fleet');
    const fleet = Object.fromEntries(Array.from({ length: 8 }, (_, at) => [`f${at}`, {}]));
    const hearing = { triggers: [onEvent('svc.connection.removed')] };
    await bench.apply(agentsTree({ ...fleet, f0: hearing }), { owner });
    const held = await bench.apply(agentsTree({ f9: {} }), { owner, guard: {} });
    assert.equal(held.status, 'held');
    assert.deepEqual(
      held.eventImpact?.triggers.map(({ agent, stopped }) => [agent, stopped.count]),
      [['f0', 1]],
    );
  });

  describe('of an apply', () => {
    const offered: [run: string, sides: ImpactSides][] = [];
    let bare: Bench['ctx'];
    before(() => {
      bare = bench.ctx;
    });
    const applied = async (agents: { readonly [name: string]: Partial<AgentSpec> }, more: object = {}) => {
      const operationId = randomUUID();
      const ctx = { ...bare, impacts: { offer: (run: string, sides: ImpactSides) => void offered.push([run, sides]) } };
      const tree = agentsTree(agents);
      const result = await applyPlan(ctx, {
        ...requestOf(bench.projectId, tree, { operationId }),
        prune: false,
        ...more,
      });
      return { operationId, result };
    };
    const run = (id: string, status: string) =>
      bench.db.query(
        `insert into svc.reconciles (id, project_id, reason, status, started_at, finished_at, inputs, consequences)
         values ($1::uuid, $2::uuid, 'apply', $3::text, now(), now(), '{}', '{"triggers": {}}')`,
        [id, bench.projectId, status],
      );
    const noted = async (id: string): Promise<EventImpact | undefined> => {
      const { rows } = await bench.db.query<{ impact: EventImpact | null }>(
        `select consequences -> 'eventImpact' as impact from svc.reconciles where id = $1::uuid`,
        [id],
      );
      return rows[0]?.impact ?? undefined;
    };
    /** Until what was offered is done with, as a daemon does it. */
    const settle = async (): Promise<void> => {
      const impacts = startAppliedImpacts(bench.db, silent);
      const ids = offered.map(([id]) => id);
      for (const [id, sides] of offered.splice(0)) impacts.offer(id, sides);
      for (let tries = 0; tries < 3_000 && (await noted(ids.at(-1) ?? '')) === undefined; tries += 1) await sleep(20);
      await impacts.stop();
    };

    it('is worked out after its commit, from the triggers as they were before it, and noted once', async () => {
      await applied({ heard: { triggers: [hook('in', { auth, ...high })] } });
      offered.splice(0);
      const { operationId, result } = await applied({ heard: { triggers: [hook('in', { auth, ...low })] } });
      assert.deepEqual([result.status, result.eventImpact, offered.length], ['applied', undefined, 1]);
      await run(operationId, 'applied');
      assert.equal(await noted(operationId), undefined);
      await settle();
      const impact = await noted(operationId);
      assert.deepEqual(
        impact?.triggers.map(({ agent, newly, stopped }) => [agent, newly.count, stopped.count]),
        [['heard', 1, 1]],
      );
      const { rows } = await bench.db.query<{ version: number; kept: boolean }>(
        `select version, consequences ? 'triggers' as kept from svc.reconciles where id = $1::uuid`,
        [operationId],
      );
      assert.equal(rows[0]?.kept, true);
      await noteImpact(bench.db, operationId, { since: '' });
      assert.deepEqual(await noted(operationId), impact, 'nothing is written over');
    });

    it('is not looked for where nothing changes that events meet, nor noted of a run that did not apply', async () => {
      for (const agents of [
        { heard: { triggers: [hook('in', { auth, ...low })] } },
        { heard: { systemPrompt: 'Anew.', triggers: [hook('in', { auth, ...low })] } },
        { beats: { triggers: [onCron('0 7 * * *')] } },
      ])
        await applied(agents);
      await applied({ heard: { triggers: [hook('in', { auth, ...high })] } }, { dryRun: true });
      assert.equal(offered.length, 0);
      const id = randomUUID();
      await run(id, 'failed');
      await noteImpact(bench.db, id, { since: '' });
      assert.equal(await noted(id), undefined);
    });

    it('says why there is none where too much changes at once', async () => {
      const many = Object.fromEntries(
        Array.from({ length: 201 }, (_, at) => [`m${at}`, { triggers: [onEvent('svc.connection.suspended')] }]),
      );
      const { result } = await applied(many);
      assert.equal(offered.length, 0);
      assert.equal(result.eventImpact?.reason, '201 triggers change at once');
      assert.deepEqual([result.eventImpact?.events, result.eventImpact?.triggers], [0, []]);
    });
  });

  it('stays within its bounds, and says where there is more', async () => {
    const body = JSON.stringify({ severity: 'low' });
    await bench.db.query(
      `with made as (insert into svc.events (id, project_id, key, received_at)
         select gen_random_uuid(), $1::uuid, 'svc.connection.established', $2::timestamptz from generate_series(1, 2500)
         returning id)
       insert into svc.event_bodies (event_id, raw) select id, convert_to($3::text, 'UTF8') from made`,
      [bench.projectId, now, body],
    );
    const triggers = [onEvent('svc.connection.established', low)];
    const { eventImpact } = await bench.apply(agentsTree({ many: { triggers } }), {
      dryRun: true,
      withImpact: true,
      prune: false,
    });
    assert.deepEqual([eventImpact?.events, eventImpact?.truncated], [2_000, true]);
    assert.equal(eventImpact?.triggers[0]?.newly.count, 2_000);
    assert.equal(eventImpact?.triggers[0]?.newly.eventIds.length, 3);
  });
});
