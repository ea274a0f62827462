// Two daemons of one installation whose data directories have the same path, as in two containers: what one of them has of a
// session from before is not what the session goes on with.

import assert from 'node:assert/strict';
import { mkdir, rm, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { startTestDaemon } from '../../base/testkit/daemon.ts';
import { createHostBench, type HostBench } from './host-testkit.ts';

test('a session goes on with what it made last, also at a daemon that had it before under the path of the one between', async () => {
  const owner = await startTestDaemon({ config: { roles: ['api', 'route', 'schedule'] } });
  const { database, token, ctx } = owner;
  const dataDir = join(owner.dataDir, 'data');
  const file = { sandboxes: { snapshots: { maxMB: 2 } } };
  const { masterKeyFile } = ctx.config;
  const at = async (directory: string): Promise<HostBench> => {
    await mkdir(join(owner.dataDir, directory), { recursive: true });
    await rm(dataDir, { force: true });
    await symlink(join(owner.dataDir, directory), dataDir);
    return createHostBench({ database, token, dataDir, config: { masterKeyFile, file, roles: ['api', 'session'] } });
  };
  const said = async (on: HostBench, session: string, word: string): Promise<string> =>
    (await on.until(session, (seen) => seen.state === 'idle' && seen.said.includes(word))).said;
  let on = await at('first');
  try {
    await on.apply({ plain: {} });
    const session = await on.start('plain', '!exec echo of-the-first > work\n!say ready');
    await said(on, session, 'ready');
    for (const [directory, before, made] of [
      ['second', 'of-the-first', 'of-the-second'],
      ['first', 'of-the-second', 'of-the-first-again'],
      ['first', 'of-the-first-again', 'of-the-last'],
    ] as const) {
      await on.stop();
      on = await at(directory);
      await on.send(session, `!read work\n!exec echo ${made} > work\n!say ${made}`);
      const words = await said(on, session, made);
      assert.match(words, new RegExp(`${before}\\s*exit 0${made}$`));
    }
  } finally {
    await on.stop();
    await owner.stop();
  }
});
