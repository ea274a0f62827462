import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { agentFile, agentNames, type Bench, startBench, word } from './sync-testkit.ts';

describe('a repository over HTTP', () => {
  let bench: Bench;
  before(async () => {
    bench = await startBench();
  });
  after(() => bench.stop());

  it('becomes agents with its first sync, in stages', async () => {
    const repo = await bench.repository('first');
    const commit = await repo.commit({ '.svc/agents/a.yaml': agentFile('first-a') });
    const run = await bench.watch('first');
    assert.equal(word(run['status']), 'applied', JSON.stringify(run));
    assert.equal(word(run['commit']), commit);
    const stages = run['stages'] as unknown as { name: string; ms: number }[];
    assert.deepEqual(
      stages.map((stage) => stage.name),
      ['resolve', 'snapshot', 'compile', 'apply'],
    );
    assert.ok((await agentNames(bench.daemon)).includes('first-a'));
  });
});
