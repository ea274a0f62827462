import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { after, before, test } from 'node:test';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { applyAgents, hook, post, settled } from '../routing/routing-testkit.ts';
import { upkeepTurn } from './upkeep.ts';

let daemon: TestDaemon;
before(async () => {
  daemon = await startTestDaemon();
});
after(() => daemon.stop());

test('the mounts of a successor are at what the latest spec makes of the event that the work began with', async () => {
  const { db } = daemon.ctx;
  const mount = (mountPath: string, ref: string): object => ({
    kind: 'git',
    repository: 'o/r',
    mountPath,
    ref,
    auth: { kind: 'none' },
  });
  const keeper = (...mounts: object[]): object => ({
    concurrency: 1,
    replace: 'auto',
    mounts,
    triggers: [hook('keeper', { kind: 'spawn' })],
  });
  const paths = await applyAgents(daemon.api, {
    keeper: keeper(mount('/work', 'refs/pull/{{ payload.n }}/head'), mount('/gone', 'main')),
  });
  await post(daemon.url, paths['keeper'] ?? '', { n: 12, padding: 'x'.repeat(20_000) });
  await settled(db);
  await applyAgents(daemon.api, {
    keeper: keeper(mount('/work', 'refs/pull/{{ payload.n }}/merge'), mount('/new', 'refs/pull/{{ payload.n }}/head')),
  });
  const replacements = async (): Promise<{ refs: unknown }[]> =>
    (await db.query<{ refs: unknown }>(`select mount_refs as refs from svc.sessions where origin = 'replacement'`))
      .rows;
  // A project whose lock somebody has is left to the next turn.
  for (let turn = 0; turn < 100 && (await replacements()).length === 0; turn += 1) {
    await upkeepTurn(daemon.ctx);
    await sleep(50);
  }
  assert.deepEqual(await replacements(), [{ refs: { '/work': 'refs/pull/12/merge', '/new': 'refs/pull/12/head' } }]);
});

test('a session that may go on is let go however many are held back before it', async () => {
  const { db } = daemon.ctx;
  const { rows: agents } = await db.query<{ id: string; projectId: string }>(
    'select id, project_id as "projectId" from svc.agents limit 1',
  );
  const { rows } = await db.query<{ id: string }>(
    `insert into svc.sessions (id, project_id, agent_id, agent, revision, origin, state, display_title, created_at, active_at)
     select ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, $2::uuid, $1::uuid, 'keeper', 1, 'manual', 'blocked', 't',
            now(), now() from generate_series(1, 450) as n returning id`,
    [agents[0]?.id, agents[0]?.projectId],
  );
  const free = rows.at(-1)?.id;
  const ctx: typeof daemon.ctx = {
    ...daemon.ctx,
    models: {
      check: async ({ spender }: { spender: { sessionId: string } }) =>
        spender.sessionId === free ? null : ({ code: 'capped' } as never),
    } as never,
  };
  const blocked = async (): Promise<number> =>
    (await db.query(`select from svc.sessions where state = 'blocked' and agent = 'keeper'`)).rowCount;
  for (let turn = 0; turn < 2; turn += 1) await upkeepTurn(ctx);
  assert.equal(await blocked(), 450);
  await upkeepTurn(ctx);
  assert.equal(await blocked(), 449);
  await upkeepTurn(ctx);
  assert.equal(await blocked(), 449);
});
