// A sandbox that answers, and takes its time over each program that reads what is in it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startTestDaemon } from '../../base/testkit/daemon.ts';
import { isWithin } from '../../base/testkit/parsing.ts';
import { createHostBench } from './host-testkit.ts';

test('all that a daemon that stops keeps of a session has one time, however many parts take theirs', async () => {
  const owner = await startTestDaemon({ config: { roles: ['api', 'route', 'schedule'] } });
  const { database, token, ctx } = owner;
  const file = { sandboxes: { snapshots: { maxMB: 2 } } };
  const { masterKeyFile } = ctx.config;
  const bench = await createHostBench({ database, token, config: { masterKeyFile, file, roles: ['api', 'session'] } });
  let stopping: Promise<void> | undefined;
  try {
    const opened = await bench.daemon.ctx.host?.sandboxes();
    assert.ok(opened);
    const { provider } = opened;
    const create = provider.create.bind(provider);
    let isSlow = false;
    provider.create = async (...of) => {
      const sandbox = await create(...of);
      const spawn = sandbox.spawn.bind(sandbox);
      sandbox.spawn = (options) => {
        const isReading = isSlow && options.argv[2] !== ':';
        return spawn(isReading ? { ...options, argv: ['sleep', '60'] } : options);
      };
      return sandbox;
    };
    await bench.apply({ plain: {} });
    const session = await bench.start('plain', '!say ready');
    await bench.until(session, ({ state, said }) => state === 'idle' && said.includes('ready'));
    isSlow = true;
    const began = performance.now();
    stopping = bench.stop();
    await stopping;
    const ms = performance.now() - began;
    assert.ok(isWithin(ms, 23_000), `after ${Math.round(ms)} ms`);
  } finally {
    await (stopping ?? bench.stop());
    await owner.stop();
  }
});
