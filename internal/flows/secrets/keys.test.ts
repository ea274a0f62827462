import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { appendFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { countStale, listKeyVersions, rotationById } from '../../adapters/store/secrets/keys.ts';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import type { FlowContext } from '../context.ts';
import { runRotation, startRotation } from './keys.ts';
import { writeSecret } from './manage.ts';

const actor = { kind: 'system', id: null, name: 'test' } as const;
const running = new AbortController().signal;

let daemon: TestDaemon;
before(async () => {
  // None that runs jobs: rotations run here.
  daemon = await startTestDaemon({ config: { roles: ['sync'] } });
});
after(() => daemon.stop());

const appendKey = (version: number): Promise<void> =>
  appendFile(daemon.ctx.config.masterKeyFile, `${version}:${randomBytes(32).toString('base64')}\n`);

/** The context of the daemon, where `act` runs before the first transaction for which nothing is left to be sealed. */
function beforeTheEnd(ctx: FlowContext, toVersion: number, act: () => Promise<unknown>): FlowContext {
  let isDue = true;
  const tx: FlowContext['db']['tx'] = async (fn, options) => {
    if (isDue && (await countStale(ctx.db, toVersion)) === 0) {
      isDue = false;
      await act();
    }
    return ctx.db.tx(fn, options);
  };
  const db = new Proxy(ctx.db, {
    get(target, name) {
      if (name === 'tx') return tx;
      const found: unknown = Reflect.get(target, name, target);
      return typeof found === 'function' ? found.bind(target) : found;
    },
  });
  return { ...ctx, db };
}

test('a rotation that is asked for again at the end of the one under way goes on to the newer key, and retires that no more', async () => {
  const { ctx } = daemon;
  const { rows } = await ctx.db.query<{ orgId: string }>('select id as "orgId" from svc.orgs');
  const orgId = String(rows[0]?.orgId);
  await writeSecret(ctx, { orgId, projectId: null }, actor, 'A', { value: 'sealed' });
  await appendKey(2);
  const rotation = await startRotation(ctx, actor);
  assert.equal(rotation.toVersion, 2);
  const again = beforeTheEnd(ctx, 2, async () => {
    await appendKey(3);
    assert.equal((await startRotation(ctx, actor)).id, rotation.id);
  });
  const job = { rotationId: rotation.id, signal: running };
  assert.equal(await runRotation(again, job), 'later');
  const taken = await rotationById(ctx.db, rotation.id);
  assert.deepEqual([taken?.status, taken?.toVersion], ['running', 3]);
  assert.equal(await runRotation(ctx, job), 'done');
  const done = await rotationById(ctx.db, rotation.id);
  assert.deepEqual([done?.status, done?.toVersion, done?.retired], ['done', 3, [1, 2]]);
  const versions = await listKeyVersions(ctx.db);
  assert.deepEqual(
    versions.map((one) => [one.version, one.rows, one.retiredAt === null]),
    [
      [1, 0, false],
      [2, 0, false],
      [3, 1, true],
    ],
  );
});
