// A daemon that is told to stop while its upkeep is at the sessions of a fleet, one after the other.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLog } from '../../base/log/log.ts';
import { startTestDaemon } from '../../base/testkit/daemon.ts';
import { applyAgents } from '../routing/routing-testkit.ts';
import { upkeepTurn } from './upkeep.ts';

test('upkeep of a fleet ends between two sessions when its daemon stops, and the rest is done by whoever is next', async () => {
  const daemon = await startTestDaemon({ config: { roles: ['api'] } });
  try {
    const { ctx } = daemon;
    const agents = ['one', 'two', 'three'];
    const fleet = (more: object) =>
      Object.fromEntries(agents.map((name) => [name, { concurrency: 1, replace: 'auto', ...more }]));
    await applyAgents(daemon.api, fleet({}));
    for (const name of agents) {
      const { status } = await daemon.api('POST', `P/agents/${name}/sessions`, { message: 'go' });
      assert.equal(status, 201);
    }
    // All of them are stale.
    await applyAgents(daemon.api, fleet({ systemPrompt: 'Anew.' }));
    const stopping = new AbortController();
    const log = createLog('info', {
      write: (line: string) => {
        if (line.includes('session.replaced')) stopping.abort();
      },
    });
    const replaced = async (): Promise<number> =>
      (await ctx.db.query(`select from svc.sessions where origin = 'replacement'`)).rowCount;
    await upkeepTurn({ ...ctx, runtime: { ...ctx.runtime, log } }, stopping.signal);
    assert.equal(await replaced(), 1);
    await upkeepTurn(ctx);
    assert.equal(await replaced(), agents.length);
  } finally {
    await daemon.stop();
  }
});
