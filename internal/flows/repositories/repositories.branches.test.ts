// Names of branches: what the API takes is read, and what could not be is refused at the door.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { agentFile, agentNames, type Bench, startBench, word } from '../sync/sync-testkit.ts';

describe('the branch of a repository', () => {
  let bench: Bench;
  before(async () => {
    bench = await startBench();
  });
  after(() => bench.stop());

  it('is followed whatever its length, as far as it may be given', async () => {
    const branch = `${'a'.repeat(120)}/${'b'.repeat(134)}`;
    const repo = await bench.repository('long');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('long-a') }, { branch });
    const run = await bench.watch('long', { branch });
    assert.deepEqual([word(run['status']), word(run['detail'])], ['applied', 'undefined']);
    assert.deepEqual(await agentNames(bench.daemon), ['long-a']);
  });

  it('is refused where git has none of that name', async () => {
    const names = [
      'a..b',
      'a.lock',
      'a.lock/b',
      'a/',
      '/a',
      'a//b',
      '.a',
      'a/.b',
      'a.',
      'a@{b',
      'a b',
      'a\u007fb',
      'refs/heads/',
    ];
    for (const branch of [...names, 'x'.repeat(256)]) {
      const body = { name: 'odd', url: bench.server.url('odd.git'), branch };
      const { status, body: problem } = await bench.daemon.api('POST', 'P/repositories', body);
      assert.equal(status, 400, branch);
      assert.match(word(problem['detail']), / branch: /, branch);
    }
  });
});
