// A repository that is read by a connection whose installation is another one from some moment on: the token of the one
// before reads nothing any more, also where its time is not over.

import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { type PlanBench, startPlanBench } from '../plans/plans-testkit.ts';
import { agentFile, syncNow, until, word } from './sync-testkit.ts';

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

test('what the code host says of the installation before, behind the change, is not said of the one that is named now', async (t) => {
  const bench = await startPlanBench();
  t.after(() => bench.stop());
  const { sim, daemon } = bench;
  const repo = await bench.follow('late');
  await bench.quiet();
  let isAsked = false;
  sim.fault = ({ path }) => {
    if (!path.includes('/installations/1/')) return null;
    isAsked = true;
    return { kind: 'slow', delayMs: 1_500 };
  };
  await daemon.ctx.db.query('delete from svc.installation_tokens');
  await bench.pull(repo, { branch: 'topic', files: { '.svc/agents/third.yaml': agentFile('late-third') } });
  await until('the old installation to be asked for a token', async () => isAsked);
  sim.installationId = '7';
  const edited = await daemon.api('PATCH', 'P/connections/hub', { config: { installationId: '7' } });
  assert.equal(edited.status, 200, JSON.stringify(edited.body));
  await until('its answer to be heard', async () => bench.log().includes('plan.not_told'));
  assert.equal((await daemon.api('GET', 'P/connections/hub')).body['status'], 'active');
  const commit = await repo.git.commit({ '.svc/agents/second.yaml': agentFile('late-second') });
  const run = await syncNow(daemon, 'late');
  assert.deepEqual([word(run['status']), word(run['commit'])], ['applied', commit], JSON.stringify(run));
});

test('a repository is read by a token that reads contents and does nothing else, whatever the installation may do', async (t) => {
  const bench = await startPlanBench();
  t.after(() => bench.stop());
  await bench.follow('plain');
  assert.equal(word((await syncNow(bench.daemon, 'plain'))['status']), 'unchanged');
  // What is told of a repository goes by tokens of its own, each of that repository alone.
  const reading = [...bench.sim.tokens.values()].filter(({ repositories }) => repositories === null);
  assert.deepEqual(
    reading.map(({ permissions }) => permissions),
    [{ metadata: 'read', contents: 'read' }],
  );
});

/** A repository whose first run finds the code host so; its run. */
async function firstRun(t: TestContext, prepare: (bench: PlanBench) => void) {
  const bench = await startPlanBench();
  t.after(() => bench.stop());
  prepare(bench);
  await bench.follow('first');
  const { body } = await bench.daemon.api('GET', 'P/reconciles?repository=first&limit=1');
  const connection = (await bench.daemon.api('GET', 'P/connections/hub')).body;
  return { bench, run: body['items']?.[0] ?? assert.fail(), connection };
}

test('a repository that waits for a limit of new tokens is rate-limited, and its connection is left alone for that long', async (t) => {
  const { bench, run, connection } = await firstRun(t, ({ sim }) => {
    const body = { message: 'You have exceeded a secondary rate limit' };
    sim.fault = ({ path }) =>
      path.endsWith('/access_tokens') ? { kind: 'status', status: 403, headers: { 'retry-after': '900' }, body } : null;
  });
  assert.deepEqual([word(run['status']), word(run['condition'])], ['failed', 'rate-limited'], JSON.stringify(run));
  assert.equal(word(connection['status']), 'active');
  assert.ok(connection['rateLimitedUntil'] !== undefined, JSON.stringify(connection));
  const minted = () => bench.sim.log.filter(({ path }) => path.endsWith('/access_tokens')).length;
  const before = minted();
  assert.equal(word((await syncNow(bench.daemon, 'first'))['condition']), 'rate-limited');
  assert.equal(minted(), before, 'nobody asks before');
});

test('an installation that gives a repository no token any more is suspended, or gone, though no delivery said so', async (t) => {
  for (const [state, status] of [
    ['suspended', 'suspended'],
    ['deleted', 'removed'],
  ] as const) {
    const { run, connection } = await firstRun(t, ({ sim }) => (sim.state = state));
    assert.deepEqual([word(run['status']), word(run['condition'])], ['failed', 'auth-failed'], JSON.stringify(run));
    assert.equal(word(connection['status']), status);
  }
});

test('an answer in the place of a token that is none is told without anything that it says', async (t) => {
  const { run } = await firstRun(t, ({ sim }) => {
    sim.fault = ({ path }) =>
      path.endsWith('/access_tokens') ? { kind: 'after', status: 201, body: 'ghs_secret-of-the-host' } : null;
  });
  assert.deepEqual([word(run['status']), word(run['condition'])], ['failed', 'unreachable'], JSON.stringify(run));
  assert.ok(!JSON.stringify(run).includes('ghs_'), JSON.stringify(run));
});
