// The work of several projects that is kept at once, of which one's takes its time.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { openSandboxes, type Sandbox } from '../../adapters/sandbox/sandbox.ts';
import type { ClaimedSession } from '../../adapters/store/sessions/hosts.ts';
import { startTestDaemon } from '../../base/testkit/daemon.ts';
import { isWithin } from '../../base/testkit/parsing.ts';
import { createHostBench } from './host-testkit.ts';
import { keepWork } from './snapshots.ts';

const sleeping = (sandbox: Sandbox): Sandbox['spawn'] => {
  const spawn = sandbox.spawn.bind(sandbox);
  return () => spawn({ argv: ['sleep', '18'], cwd: sandbox.home });
};

test('what a session leaves is kept at once, though those of another project take all of their time, and no connection with it', async () => {
  const owner = await startTestDaemon({ config: { roles: ['api', 'route', 'schedule'] } });
  const { database, token, ctx } = owner;
  const file = { sandboxes: { snapshots: { maxMB: 2 } } };
  const config = { masterKeyFile: ctx.config.masterKeyFile, file, roles: ['api', 'session'] } as const;
  const bench = await createHostBench({ database, token, config });
  const stops: (() => Promise<void>)[] = [];
  try {
    await bench.apply({ plain: {} });
    const sessions = await Promise.all(Array.from({ length: 6 }, () => bench.start('plain', '!say ready')));
    for (const session of sessions) await bench.until(session, ({ state, said }) => state === 'idle' && said !== '');
    const { rows } = await database.db.query<{ id: string; orgId: string; epoch: string }>(
      `select p.id, p.org_id as "orgId", s.epoch::text as epoch from svc.sessions s join svc.projects p on p.id = s.project_id`,
    );
    const [own] = rows;
    assert.ok(own);
    const { provider } = await openSandboxes({
      dataDir: owner.dataDir,
      sandbox: 'process',
      host: { PATH: process.env['PATH'] ?? '' },
    });
    const sandboxes = await Promise.all(sessions.map((id) => provider.create({ id })));
    const keep = (sandbox: Sandbox, projectId: string, isLast = false): Promise<void> => {
      stops.push(() => sandbox.stop());
      const session = { sessionId: sandbox.id, epoch: own.epoch } as unknown as ClaimedSession;
      return keepWork(bench.daemon.ctx, { session, project: { id: projectId, orgId: own.orgId }, sandbox, isLast });
    };
    const last = sandboxes.pop();
    assert.ok(last);
    for (const one of sandboxes) one.spawn = sleeping(one);
    const slow = sandboxes.map((one) => keep(one, own.id));
    const begun = performance.now();
    await keep(last, 'another');
    const ms = performance.now() - begun;
    assert.ok(isWithin(ms, 8_000), `after ${Math.round(ms)} ms`);
    // None of those that are still being packed has a connection meanwhile.
    const held = `select count(*)::int as held from pg_stat_activity where datname = current_database()
        and state = 'idle in transaction' and xact_start < now() - interval '2 seconds'`;
    await sleep(2_500);
    assert.deepEqual((await database.db.query(held)).rows, [{ held: 0 }]);
    const kept = await database.db.query<{ id: string }>('select session_id as id from svc.session_snapshots');
    assert.deepEqual(
      kept.rows.map(({ id }) => id),
      [last.id],
    );
    for (const stop of stops) await stop();
    await Promise.all(slow);
    // A daemon that stops has one time for all that it keeps: those that wait for others have it with them.
    const left = await Promise.all(sandboxes.map(() => provider.create({ id: randomUUID() })));
    for (const one of left) one.spawn = sleeping(one);
    const stopped = performance.now();
    await Promise.all(left.map((one) => keep(one, own.id, true)));
    const allMs = performance.now() - stopped;
    for (const one of left) await one.stop();
    assert.ok(isWithin(allMs, 25_000), `all after ${Math.round(allMs)} ms`);
  } finally {
    await bench.stop();
    await owner.stop();
  }
});
