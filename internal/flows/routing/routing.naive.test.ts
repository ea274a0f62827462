import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { after, before, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import * as fc from 'fast-check';
import { recordEvents } from '../../adapters/store/events/events.ts';
import type { NewEvent } from '../../adapters/store/events/new-event.ts';
import { lockRouting } from '../../adapters/store/routing/routing-lock.ts';
import { type ActiveTrigger, activeTriggersOn } from '../../adapters/store/resources/triggers.ts';
import { isLong } from '../../base/testkit/long.ts';
import type { Target } from '../../core/route/route.ts';
import { endSession } from '../sessions/sessions.ts';
import { type Bench, createBench } from '../sessions/sessions-testkit.ts';
import { Naive } from './naive-testkit.ts';
import { Router } from './router.ts';
import { orderedIds } from '../../base/ids.ts';

let bench: Bench;
let nextId: () => string;
before(async () => {
  bench = await createBench();
  nextId = orderedIds({ now: () => new Date('2026-11-21T12:00:00Z'), randomBytes });
});
after(() => bench.close());

const keys = [
  'chat.message.mentioned',
  'chat.message.subscribed',
  'codehost.pull_request.opened',
  'codehost.review.submitted',
  'webhook.x',
  'svc.session.binding.bound',
  'svc.session.binding.updated',
  'svc.session.binding.unbound',
];
const typeOf = (key: string): Target['type'] | null =>
  key.startsWith('chat.') ? 'chat.thread' : key.startsWith('codehost.') ? 'codehost.pull_request' : null;

const target = fc.constantFrom('chat.thread', 'codehost.pull_request', 'svc.session');
const onUnmatched = fc.constantFrom('drop', 'warn', 'error', 'spawn');
const context = fc.option(fc.record({ c: fc.integer({ min: 0, max: 2 }) }), { nil: undefined });
const routing = fc.oneof(
  fc.record({ kind: fc.constant('spawn'), bind: fc.option(fc.record({ target, context }), { nil: undefined }) }),
  fc.record({
    kind: fc.constant('deliver'),
    onUnmatched,
    routeBy: fc.option(fc.record({ kind: fc.constantFrom('attributedSessions', 'allLiveSessions') }), {
      nil: undefined,
    }),
  }),
  fc.record({
    kind: fc.constant('bind'),
    target: fc.oneof({ weight: 3, arbitrary: target }, fc.constant('agent.singleton')),
    onUnmatched,
    release: fc.constantFrom(false, false, { context: null }, { context: { r: 1 } }),
    observedTarget: fc.constantFrom(undefined, { action: 'bind' }, { action: 'unbind' }),
  }),
);
const where = fc.constantFrom(
  {},
  {},
  { k: 1 },
  { '$.svc.attributions': { exists: true } },
  { '$.svc.attributions': { exists: false } },
);
const trigger = fc.record({ event: fc.constantFrom(...keys), where, fallback: fc.boolean(), routing });
const policy = fc.record({
  lifecycle: fc.constantFrom('manual', 'held'),
  continuity: fc.constantFrom('session', 'agent'),
  eventContext: fc.constantFrom(undefined, { bound: { b: 1 }, updated: { u: 1 }, unbound: { x: 1 } }),
});
const agent = fc.record({
  concurrency: fc.constantFrom(undefined, 1),
  bindings: fc.record(
    {
      'chat.thread': fc.tuple(policy, fc.boolean()).map(([one, on]) => ({ ...one, ...(on && { bind: 'onMention' }) })),
      'codehost.pull_request': fc
        .tuple(policy, fc.boolean())
        .map(([one, on]) => ({ ...one, ...(on && { bind: 'onAttributedEvent' }) })),
      'svc.session': policy,
    },
    { requiredKeys: [] },
  ),
  triggers: fc.array(trigger, { minLength: 1, maxLength: 5 }),
});
const event = fc.record({
  key: fc.constantFrom(...keys.slice(0, 5)),
  place: fc.integer({ min: 0, max: 2 }),
  k: fc.integer({ min: 0, max: 1 }),
});
type Agent = typeof agent extends fc.Arbitrary<infer T> ? T : never;
type Event = typeof event extends fc.Arbitrary<infer T> ? T : never;

async function makeProject(agents: readonly Agent[]): Promise<string> {
  const id = randomUUID();
  const { db } = bench;
  await db.query(
    `insert into svc.projects (id, org_id, slug, name) select $1::uuid, org_id, $2::text, $2::text from svc.projects limit 1`,
    [id, id.slice(0, 8)],
  );
  for (const [n, { triggers, ...spec }] of agents.entries()) {
    const agentId = randomUUID();
    await db.query(
      `insert into svc.agents (id, project_id, name, revision, spec, spec_hash, source)
       values ($1::uuid, $2::uuid, $3::text, 1, $4::jsonb, 'h', '{}')`,
      [agentId, id, `agent-${n}`, JSON.stringify(spec)],
    );
    for (const [ordinal, one] of triggers.entries()) {
      await db.query(
        `insert into svc.triggers (project_id, agent_id, ordinal, kind, event, spec, spec_hash, status)
         values ($1::uuid, $2::uuid, $3::int, 'event', $4::text, $5::jsonb, 'h', 'active')`,
        [id, agentId, ordinal, one.event, JSON.stringify({ kind: 'event', ...one })],
      );
    }
  }
  return id;
}

const targetAt = ({ key, place }: Event): Target | null => {
  const type = typeOf(key);
  return type === null ? null : { type, key: `t${place}` };
};

async function recordAll(projectId: string, events: readonly Event[], from: number): Promise<Map<string, string>> {
  const names = new Map<string, string>();
  const rows = events.map((one, n): NewEvent => {
    const id = nextId();
    names.set(id, `event ${from + n}`);
    const at = targetAt(one);
    return {
      id,
      projectId,
      key: one.key,
      dedupHash: null,
      raw: Buffer.from(JSON.stringify({ k: one.k })),
      payload: null,
      receivedAt: bench.ctx.runtime.now(),
      ...(at !== null && { target: at }),
    };
  });
  if (rows.length > 0) await recordEvents(bench.db, rows, { routing: false });
  return names;
}

async function drain(router: Router, projectId: string): Promise<void> {
  router.wake(projectId);
  for (;;) {
    const { rows } = await bench.db.query(
      `select 1 from svc.events where project_id = $1::uuid and router_status = 'pending' limit 1`,
      [projectId],
    );
    if (rows.length === 0) return;
    await sleep(2);
  }
}

/** What the database holds, in the words of the naive one. */
async function stored(projectId: string, given: ReadonlyMap<string, string>) {
  const { db } = bench;
  const names = new Map(given);
  const emitted = await db.query<{ id: string; key: string; depth: number; target: string; payload: Buffer }>(
    `select e.id, e.key, e.depth, e.target_key as target, b.payload from svc.events e
       join svc.event_bodies b on b.event_id = e.id
      where project_id = $1::uuid and key like 'svc.session.binding.%' order by seq`,
    [projectId],
  );
  emitted.rows.forEach((row, n) => names.set(row.id, `emitted ${n + 1}`));
  const sessions = await db.query<{
    id: string;
    event: string;
    trigger: string;
    live: boolean;
    heard: string[] | null;
  }>(
    `select s.id, s.event_id as event, s.agent_id || '#' || s.ordinal as trigger, s.live,
            (select array_agg(i.event_id || ' ' || i.agent_id || '#' || i.ordinal order by i.seq) from svc.inbox i
              where i.session_id = s.id) as heard
       from svc.sessions s where project_id = $1::uuid order by id`,
    [projectId],
  );
  const sessionNames = new Map(sessions.rows.map((row) => [row.id, `${names.get(row.event)}/${row.trigger}`]));
  const named = (text: string): string =>
    text.replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, (id) => sessionNames.get(id) ?? names.get(id) ?? id);
  const routes = await db.query<{ event: string; trigger: string; decision: string; to: string[] }>(
    `select r.event_id as event, r.agent_id || '#' || r.ordinal as trigger, r.decision, r.session_ids as to
       from svc.event_routes r join svc.events e on e.id = r.event_id where e.project_id = $1::uuid`,
    [projectId],
  );
  const bindings = await db.query<{ agent: string; type: string; key: string; session: string | null }>(
    `select agent_id as agent, target_type as type, target_key as key, session_id as session
       from svc.bindings where project_id = $1::uuid and state = 'active'`,
    [projectId],
  );
  return {
    log: [
      ...routes.rows.map((row) => named(`${row.event} ${row.trigger} ${row.decision} → ${row.to.join(', ')}`)),
      ...emitted.rows.map((row, n) => {
        const { binding } = JSON.parse(String(row.payload)) as { binding: { target: Target; agent: string } };
        const kind = row.key.slice('svc.session.binding.'.length);
        const { target: at } = binding;
        return named(`emitted ${n + 1} ${kind} ${binding.agent} ${at.type}:${at.key} ${row.target} ${row.depth}`);
      }),
    ].sort(),
    heard: sessions.rows.map((row) => [sessionNames.get(row.id), row.live, (row.heard ?? []).map(named)]),
    bindings: bindings.rows.map((row) => named(`${row.agent} ${row.type}:${row.key} ${row.session}`)).sort(),
    ids: sessions.rows.map((row) => row.id),
    sessionNames,
  };
}

function expected(naive: Naive, triggers: readonly ActiveTrigger[]) {
  const agentOf = new Map(triggers.map((one) => [one.agentId, one.agent]));
  return {
    // Emitted events tell the agent by name.
    log: naive.log
      .map((line) => (line.startsWith('emitted') && !line.includes('→') ? named(line, agentOf) : line))
      .sort(),
    heard: naive.sessions.map((one) => [one.name, one.live, one.heard]),
    bindings: naive.bindings.map((one) => `${one.agentId} ${one.target.type}:${one.target.key} ${one.session}`).sort(),
  };
}
/** The first identifier alone: others belong to names of sessions. */
const named = (line: string, names: ReadonlyMap<string, string>): string =>
  line.replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/, (id) => names.get(id) ?? id);

const mention = (place: number): Event => ({ key: 'chat.message.mentioned', place, k: 0 });
const onMention = { event: 'chat.message.mentioned', fallback: false };
/** One that asks for all live sessions, and matches only because of a session which the same batch has made. */
const lateListener: [Agent[], Event[], Event[], number[]] = [
  [
    {
      concurrency: undefined,
      bindings: {},
      triggers: [
        {
          ...onMention,
          where: { '$.svc.attributions': { exists: true } },
          routing: { kind: 'deliver', onUnmatched: 'drop', routeBy: { kind: 'allLiveSessions' } },
        },
        {
          ...onMention,
          where: {},
          routing: {
            kind: 'bind',
            target: 'chat.thread',
            onUnmatched: 'spawn',
            release: false,
            observedTarget: undefined,
          },
        },
      ],
    },
  ],
  [mention(0), mention(1), mention(0)],
  [],
  [],
];

it('whatever triggers, sessions and events: the rows are those of one event after the other', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(agent, { minLength: 1, maxLength: 3 }),
      fc.array(event, { maxLength: 25 }),
      fc.array(event, { maxLength: 10 }),
      fc.array(fc.nat({ max: 5 }), { maxLength: 3 }),
      async (agents, first, second, ends) => {
        const projectId = await makeProject(agents);
        const triggers = await activeTriggersOn(bench.db, projectId, keys);
        const naive = new Naive(triggers);
        const router = new Router(bench.ctx);
        const names = new Map<string, string>();
        const round = async (events: readonly Event[], from: number): Promise<void> => {
          for (const [id, name] of await recordAll(projectId, events, from)) names.set(id, name);
          events.forEach((one, n) =>
            naive.queue.push({
              name: `event ${from + n}`,
              key: one.key,
              target: targetAt(one),
              payload: { k: one.k },
              depth: 0,
            }),
          );
          fc.pre(naive.run());
          await drain(router, projectId);
        };
        await round(first, 0);
        const between = await stored(projectId, names);
        for (const n of ends) {
          const id = between.ids[n];
          if (id === undefined) continue;
          await bench.db.tx(async (tx) =>
            endSession(bench.ctx, await lockRouting(tx, projectId), id, 'archived', 'over'),
          );
          naive.end(between.sessionNames.get(id) ?? '');
        }
        await round(second, first.length);
        await router.stop();
        const { ids: _ids, sessionNames: _names, ...rows } = await stored(projectId, names);
        assert.deepEqual(rows, expected(naive, triggers));
      },
    ),
    { numRuns: isLong ? 2_000 : 80, examples: [lateListener] },
  );
});
