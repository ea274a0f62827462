// A project that is brought back: what happened while it was archived was told to nobody.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { agentFile, type Bench, settled, startBench, word } from '../sync/sync-testkit.ts';

describe('the repositories of a project that is back', () => {
  let bench: Bench;
  before(async () => {
    bench = await startBench();
  });
  after(() => bench.stop());
  const archive = async (archived: boolean): Promise<void> => {
    assert.equal((await bench.daemon.api('PATCH', 'P', { archived })).status, 200);
  };

  it('are looked at at once, and tried again where what they lacked has come', async () => {
    const repo = await bench.repository('moves');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('moves-a') });
    await bench.watch('moves');
    const needy = await bench.repository('needs');
    await needy.commit({ '.svc/agents/a.yaml': agentFile('needs-a', 'env: { TOKEN: { $secret: late } }') });
    assert.equal(word((await bench.watch('needs'))['status']), 'failed');
    await archive(true);
    const commit = await repo.commit({ '.svc/agents/a.yaml': agentFile('moves-b') });
    const given = await bench.daemon.api('PUT', '/api/v1/orgs/default/secrets/late', { value: 'v' });
    assert.equal(given.status, 201, JSON.stringify(given.body));
    await archive(false);
    await settled(bench.daemon, 'moves', (run) => word(run['commit']) === commit && word(run['status']) === 'applied');
    await settled(bench.daemon, 'needs', (run) => word(run['status']) === 'applied');
  });
});
