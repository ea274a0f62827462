// What is to be compared anew, and meets a source that cannot be read at that moment.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { agentFile, type Bench, settled, startBench, until, word } from './sync-testkit.ts';

describe('a repository that is tried again for what has come', () => {
  let bench: Bench;
  before(async () => {
    bench = await startBench();
  });
  after(() => bench.stop());

  it('is tried as soon as it can be read, where it could not be read at first', async () => {
    const { api } = bench.daemon;
    const repo = await bench.repository('needs');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('needs-a', 'env: { TOKEN: { $secret: late } }') });
    assert.equal(word((await bench.watch('needs', { intervalSeconds: 1 }))['status']), 'failed');
    bench.server.fault = () => ({ kind: 'status', status: 503 });
    assert.equal((await api('PUT', 'P/secrets/late', { value: 'v' })).status, 201);
    const condition = async () => word((await api('GET', 'P/repositories/needs')).body['condition']);
    await until('the read that fails', async () => (await condition()) === 'unreachable');
    bench.server.fault = () => null;
    const run = await settled(bench.daemon, 'needs', (latest) => word(latest['status']) === 'applied');
    assert.equal(word(run['reason']), 'resync');
  });
});
