// Sessions that their host lets go of before they rest: another daemon goes on with their files.

import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { startTestDaemon } from '../../base/testkit/daemon.ts';
import { eventually, processesOf } from './host-crash-testkit.ts';
import { createHostBench, type HostBench, type SessionView } from './host-testkit.ts';
import { startModelStub } from './model-testkit.ts';

const model = { provider: 'provider-a', id: 'claude-opus-4-8' };
const isReady = ({ state, said }: SessionView): boolean => state === 'idle' && said.includes('ready');

test('a session that is blocked, and one whose harness ends, go on at another daemon with what they had made', async () => {
  const stub = await startModelStub();
  const owner = await startTestDaemon({ config: { roles: ['api', 'route', 'schedule'] } });
  const { database, token, ctx } = owner;
  const { masterKeyFile } = ctx.config;
  const host = async (name: string): Promise<HostBench> => {
    const dataDir = join(owner.dataDir, name);
    await mkdir(dataDir);
    return createHostBench({
      ...{ database, token, dataDir },
      config: {
        ...{ masterKeyFile, roles: ['api', 'session'], allowPrivateNetwork: true },
        file: { sandboxes: { snapshots: { maxMB: 2 } }, providers: { model: { 'provider-a': { baseUrl: stub.url } } } },
        secretEnv: () => 'a-key-of-the-provider',
      },
    });
  };
  const capped = (on: HostBench, maxPerSessionUsd: string): Promise<void> =>
    on.apply({ plain: {}, spender: { model, spendCaps: { maxPerSessionUsd } } });
  let on = await host('first');
  try {
    await capped(on, '30');
    const makes = '!exec echo of-the-first > work\n!say ready';
    const [ended, blocked] = [await on.start('plain', makes), await on.start('spender', makes)];
    for (const session of [ended, blocked]) await on.until(session, isReady);
    await on.send(blocked, '!model first\n!sleep 30000');
    await on.until(blocked, ({ state, body }) => state === 'blocked' && body['loaded'] === (false as never));
    for (const pid of processesOf(ended)) process.kill(pid, 'SIGKILL');
    await on.until(ended, ({ state, body }) => state === 'idle' && body['loaded'] === (false as never));
    await on.stop();
    on = await host('second');
    await on.send(ended, '!read work\n!say ready again');
    const went = await on.until(ended, ({ state, said }) => state === 'idle' && said.includes('ready again'));
    assert.ok(went.said.includes('of-the-first'), went.said);
    await capped(on, '100');
    await eventually('it is taken up', async () => (await on.view(blocked)).state === 'running');
    await on.send(blocked, '!read work\n!say went on');
    const goes = await on.until(blocked, ({ state, said }) => state === 'idle' && said.includes('went on'));
    assert.ok(goes.said.includes('of-the-first'), goes.said);
  } finally {
    await on.stop();
    await owner.stop();
    await stub.stop();
  }
});
