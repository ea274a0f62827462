// A repository that is read by a connection whose installation is another one from some moment on: the token of the one
// before reads nothing any more, also where its time is not over.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startPlanBench } from '../plans/plans-testkit.ts';
import { agentFile, syncNow, word } from './sync-testkit.ts';

test('a repository is read by the installation that its connection names now, not by the one before', async (t) => {
  const bench = await startPlanBench();
  t.after(() => bench.stop());
  const { sim, daemon } = bench;
  const repo = await bench.follow('moved');
  Object.assign(repo, { private: true });
  // Tokens of the first installation are good still, and see another owner's repositories.
  for (const token of sim.tokens.values()) Object.assign(token, { repositories: ['elsewhere'] });
  const unseen = await syncNow(daemon, 'moved');
  assert.deepEqual([word(unseen['status']), word(unseen['condition'])], ['failed', 'not-found']);
  sim.installationId = '7';
  const edited = await daemon.api('PATCH', 'P/connections/hub', { config: { installationId: '7' } });
  assert.equal(edited.status, 200, JSON.stringify(edited.body));
  const commit = await repo.git.commit({ '.svc/agents/second.yaml': agentFile('moved-second') });
  const run = await syncNow(daemon, 'moved');
  assert.deepEqual([word(run['status']), word(run['commit'])], ['applied', commit], JSON.stringify(run));
});
