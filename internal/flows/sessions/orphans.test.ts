import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';
import { lockRouting } from '../../adapters/store/routing/routing-lock.ts';
import { timeOrderedId } from '../../base/runtime.ts';
import { agentsTree, type Bench, createBench, joinBench } from '../sync/apply-testkit.ts';
import { archiveOrphans, bindSession, createSessions } from './sessions.ts';

let bench: Bench;
before(async () => {
  bench = await createBench();
});
after(() => bench.close());

const running = new AbortController().signal;

test('live sessions whose agent was deleted are archived once, with the reason, and what they held is free', async () => {
  await bench.apply(agentsTree({ stays: {}, goes: {} }));
  const { rows: agents } = await bench.db.query<{ id: string; name: string }>('select id, name from svc.agents');
  const make = async (name: string, slot: boolean): Promise<string> => {
    const id = timeOrderedId(bench.ctx.runtime);
    const agentId = agents.find((one) => one.name === name)?.id ?? randomUUID();
    await bench.db.tx(async (tx) =>
      createSessions(bench.ctx, await lockRouting(tx, bench.projectId), [
        {
          id,
          agentId,
          agent: name,
          revision: 1,
          origin: 'manual',
          displayTitle: 'Title',
          hiddenContext: null,
          mountRefs: {},
          slot,
          thread: null,
          start: { text: 'Begin', sender: 'operator' },
        },
      ]),
    );
    return id;
  };
  const kept = await make('stays', true);
  const orphans = [await make('goes', true)];
  // One after the other: those of one project wait for each other, and a hundred connections are not to be had.
  for (let n = 0; n < 120; n += 1) orphans.push(await make('goes', false));
  const target = { type: 'codehost.pull_request', key: 'r#1' } as const;
  const free = { lifecycle: 'manual', continuity: 'session', context: null, eventContext: null } as const;
  await bench.db.tx(async (tx) =>
    bindSession(bench.ctx, await lockRouting(tx, bench.projectId), { sessionId: orphans[0] ?? '', target, ...free }),
  );
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
