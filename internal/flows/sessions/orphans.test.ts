import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';
import type { Binding } from '../../adapters/store/routing/bindings.ts';
import { lockRouting, type RoutingTx } from '../../adapters/store/routing/routing-lock.ts';
import { timeOrderedId } from '../../base/runtime.ts';
import { agentsTree, type Bench, createBench, joinBench } from '../sync/apply-testkit.ts';
import { archiveOrphans, bindSession, createSessions, endSession } from './sessions.ts';

let bench: Bench;
before(async () => {
  bench = await createBench();
});
after(() => bench.close());

const running = new AbortController().signal;

/** A session of an agent as it is now. */
async function make(name: string, slot: boolean): Promise<string> {
  const { rows: agents } = await bench.db.query<{ id: string }>('select id from svc.agents where name = $1', [name]);
  const id = timeOrderedId(bench.ctx.runtime);
  const session = {
    id,
    agentId: agents[0]?.id ?? randomUUID(),
    agent: name,
    revision: 1,
    origin: 'manual',
    displayTitle: 'Title',
    hiddenContext: null,
    mountRefs: {},
    slot,
    threads: [],
    start: { text: 'Begin', sender: 'operator' },
  } as const;
  await inRouting((tx) => createSessions(bench.ctx, tx, [session]));
  return id;
}

const inRouting = <T>(act: (tx: RoutingTx) => Promise<T>): Promise<T> =>
  bench.db.tx(async (tx) => act(await lockRouting(tx, bench.projectId)));

test('live sessions whose agent was deleted are archived once, with the reason, and what they held is free', async () => {
  await bench.apply(agentsTree({ stays: {}, goes: {} }));
  const kept = await make('stays', true);
  const orphans = [await make('goes', true)];
  // One after the other: those of one project wait for each other, and a hundred connections are not to be had.
  for (let n = 0; n < 120; n += 1) orphans.push(await make('goes', false));
  const target = { type: 'codehost.pull_request', key: 'r#1' } as const;
  const free = { lifecycle: 'manual', continuity: 'session', context: null, eventContext: null } as const;
  await inRouting((tx) => bindSession(bench.ctx, tx, { sessionId: orphans[0] ?? '', target, ...free }));
  assert.equal(await archiveOrphans(bench.ctx, running), 0);
  await bench.apply(agentsTree({ stays: {} }));
  const other = joinBench(bench);
  // A project that somebody holds is left to the next turn: nobody else's work waits behind it.
  await other.db.tx(async (tx) => {
    await lockRouting(tx, bench.projectId);
    assert.equal(await archiveOrphans(bench.ctx, running), 0);
  });
  const counts = await Promise.all([archiveOrphans(bench.ctx, running), archiveOrphans(other.ctx, running)]);
  await other.close();
  assert.equal(counts[0] + counts[1], orphans.length);
  const { rows } = await bench.db.query(
    `select state, reason, count(*)::int as n from svc.sessions group by 1, 2 order by n`,
  );
  assert.deepEqual(rows, [
    { state: 'queued', reason: null, n: 1 },
    { state: 'archived', reason: 'agent-deleted', n: orphans.length },
  ]);
  const live = await bench.db.query<{ id: string }>('select session_id as id from svc.session_claims');
  assert.deepEqual(live.rows, [{ id: kept }]);
  const bound = await bench.db.query(`select from svc.bindings where state = 'active'`);
  assert.equal(bound.rowCount, 0);
});

test('what an agent claimed for itself ends with the agent, with its event, and stands beside no claim of a later one', async () => {
  const target = { type: 'codehost.issue', key: 'r#2' } as const;
  const eventContext = { unbound: { why: 'gone' } };
  const claim = { target, lifecycle: 'held', continuity: 'agent', context: { phase: 'review' }, eventContext } as const;
  const claims = async () =>
    (
      await bench.db.query(
        `select session_id as holder, state from svc.bindings where target_key = 'r#2' order by state desc`,
      )
    ).rows;
  await bench.apply(agentsTree({ claims: {} }));
  const holder = await make('claims', false);
  await inRouting((tx) => bindSession(bench.ctx, tx, { sessionId: holder, ...claim }));
  await inRouting((tx) => endSession(bench.ctx, tx, holder, 'archived', 'by hand'));
  await archiveOrphans(bench.ctx, running);
  assert.deepEqual(
    await claims(),
    [{ holder: null, state: 'active' }],
    'a claim waits for as long as its agent is there',
  );

  await bench.apply(agentsTree({}));
  await bench.apply(agentsTree({ claims: {} }));
  const live = await make('claims', false);
  await inRouting((tx) => bindSession(bench.ctx, tx, { sessionId: live, ...claim }));
  await archiveOrphans(bench.ctx, running);
  assert.deepEqual(await claims(), [
    { holder: null, state: 'released' },
    { holder: live, state: 'active' },
  ]);
  const { rows } = await bench.db.query<{ payload: string }>(
    `select convert_from(b.payload, 'UTF8') as payload from svc.events e join svc.event_bodies b on b.event_id = e.id
      where e.key = 'svc.session.binding.unbound'`,
  );
  const told = rows.map(({ payload }) => JSON.parse(payload) as { binding: Binding });
  assert.deepEqual(
    told.filter(({ binding }) => binding.target.key === target.key).map(({ binding }) => binding.eventContext),
    [eventContext.unbound],
  );
});
