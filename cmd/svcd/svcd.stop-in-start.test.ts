// A daemon that begins its work late, when its master keys have been put right, and is told to stop in the middle of that.

import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startTestDaemon } from '../../internal/base/testkit/daemon.ts';
import { type Service, services } from '../../internal/edge/jobs/services.ts';

test('what was being started when a daemon is stopped stops before its database does, and nothing is started behind it', async (t) => {
  const right = await startTestDaemon();
  t.after(() => right.stop());
  const dataDir = join(right.dataDir, 'other');
  await mkdir(dataDir);
  const late = await startTestDaemon({ database: right.database, token: right.token, dataDir });
  let isStopped = false;
  t.after(() => (isStopped ? undefined : late.stop()));

  const seen: string[] = [];
  const [begun, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const roles = ['api'] as const;
  const table = services as Service[];
  const added: Service[] = [
    {
      ...{ name: 'slow', roles },
      async start(ctx) {
        begun.resolve();
        await go.promise;
        return {
          async stop() {
            await ctx.db.query('select 1');
            seen.push('slow stopped, with a database');
          },
        };
      },
    },
    {
      ...{ name: 'behind', roles },
      async start() {
        seen.push('behind started');
        return { stop: async () => undefined };
      },
    },
  ];
  table.unshift(...added);
  t.after(() => table.splice(0, added.length));
  await writeFile(late.ctx.config.masterKeyFile, await readFile(right.ctx.config.masterKeyFile));
  await begun.promise;
  const stopping = late.stop();
  isStopped = true;
  await sleep(100);
  go.resolve();
  await stopping;
  assert.deepEqual(seen, ['slow stopped, with a database']);
});
