import assert from 'node:assert/strict';
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
  await upkeepTurn(daemon.ctx);
  const { rows } = await db.query<{ refs: unknown }>(
    `select mount_refs as refs from svc.sessions where origin = 'replacement'`,
  );
  assert.deepEqual(rows, [{ refs: { '/work': 'refs/pull/12/merge', '/new': 'refs/pull/12/head' } }]);
});
