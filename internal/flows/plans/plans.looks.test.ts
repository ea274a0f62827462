// Looks at open pull requests that somebody wishes for while one is under way, that fail, and that are passed over.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { SimRepository } from '../../base/testkit/codehost-state.ts';
import { agentFile, ended, syncNow, until, word } from '../sync/sync-testkit.ts';
import { branchOff, delivery, openPull, type PlanBench, startPlanBench } from './plans-testkit.ts';

describe('a look at pull requests', () => {
  let bench: PlanBench;
  let intake = '';
  before(async () => {
    bench = await startPlanBench();
    const { body } = await bench.daemon.api('GET', 'P/connections/hub');
    intake = new URL(String(body['intakeUrl'])).pathname;
  });
  after(() => bench.stop());

  const forMs = 20_000;
  const deliver = async (event: string, body: object): Promise<void> => {
    const { headers, text } = delivery(event, body);
    const { status } = await bench.daemon.api('POST', intake, text, { token: null, headers });
    assert.ok(status < 300);
  };
  const commentsOf = (repo: SimRepository, number: number) => repo.comments.filter((one) => one.number === number);
  const file = (name: string) => ({ [`.svc/agents/${name}.yaml`]: agentFile(name) });
  /** A repository of which deliveries come, so that nobody looks by the clock. */
  const heard = async (name: string, settings: object = {}): Promise<SimRepository> => {
    const repo = await bench.follow(name, settings);
    await bench.pull(repo, { branch: 'first', files: file(`${name}-first-pull`) });
    await bench.quiet();
    return repo;
  };
  /** A pull request that no delivery tells of. */
  const missed = async (repo: SimRepository, branch: string): Promise<number> => {
    await branchOff(repo, branch);
    return (await openPull(bench.sim, repo, { branch, files: file(`${repo.name}-${branch}`) })).number;
  };
  const isTold = (repo: SimRepository, number: number): Promise<unknown> =>
    until('its plan', async () => commentsOf(repo, number).length === 1, forMs);
  const asksFor = (repo: SimRepository) => (path: string) => path === `/repos/${repo.fullName}/pulls`;
  const looked = (repo: SimRepository): number => bench.sim.log.filter(({ path }) => asksFor(repo)(path)).length;
  const patch = async (name: string, body: object): Promise<void> => {
    assert.equal((await bench.daemon.api('PATCH', `P/repositories/${name}`, body)).status, 200);
  };

  it('that is under way does not stand for one that is wished for meanwhile', async () => {
    const repo = await heard('wished');
    await branchOff(repo, 'forked');
    const forked = await openPull(bench.sim, repo, { branch: 'forked', files: file('wished-forked'), fork: true });
    const isLook = asksFor(repo);
    const asked = bench.sim.log.length;
    bench.sim.fault = ({ path }) => (isLook(path) ? { kind: 'slow', delayMs: 3_000 } : null);
    await repo.git.commit(file('wished-second'));
    await syncNow(bench.daemon, 'wished');
    await until('the look', async () => bench.sim.log.slice(asked).some(({ path }) => isLook(path)), forMs);
    await patch('wished', { plan: { forks: true } });
    bench.sim.fault = () => null;
    await isTold(repo, forked.number);
  });

  it('that failed is made up for, though deliveries come', async () => {
    const repo = await heard('failing');
    const isLook = asksFor(repo);
    bench.sim.fault = ({ path }) => (isLook(path) ? { kind: 'status', status: 502 } : null);
    const asked = bench.sim.log.length;
    await repo.git.commit(file('failing-second'));
    await syncNow(bench.daemon, 'failing');
    const isOver = `select from svc.pull_polls p join svc.repositories r on r.id = p.repository_id
      where r.name = 'failing' and p.claimed_by is null`;
    await until('the look that fails', async () => {
      const isAsked = bench.sim.log.slice(asked).some(({ path, status }) => isLook(path) && status >= 400);
      return isAsked && (await bench.daemon.ctx.db.query(isOver)).rowCount === 1;
    });
    await bench.quiet();
    bench.sim.fault = () => null;
    // As after ten minutes.
    await bench.daemon.ctx.db.query('update svc.pull_polls set next_at = now()');
    const said = () => repo.comments.map(({ body }) => body).join();
    await until('the plan onto the new base', async () => /- Agent failing-second/.test(said()), forMs);
  });

  it('that is wished for does not hide that the base has moved', async () => {
    const repo = await heard('moved');
    await bench.daemon.api('POST', 'P/repositories/moved/suspend');
    const commit = await repo.git.commit(file('moved-second'));
    const { body } = await bench.daemon.api('POST', 'P/repositories/moved/pin', { commit });
    assert.equal(word((await ended(bench.daemon, word(body['reconcileId'])))['status']), 'applied');
    await bench.daemon.api('POST', 'P/repositories/moved/resume');
    const said = () => repo.comments.map(({ body: text }) => text).join();
    await until('the plan onto the new base', async () => /- Agent moved-second/.test(said()), forMs);
  });

  it('tells what nobody wanted to be told when it was heard of', async () => {
    const repo = await heard('unwanted', { plan: { comment: false, check: false } });
    assert.deepEqual([repo.comments, repo.checks], [[], []]);
    await patch('unwanted', { plan: { comment: true, check: true } });
    await until('its plan', async () => repo.comments.length === 1 && repo.checks.length === 1, forMs);
  });

  it('is had once a project is back that was archived', async () => {
    const repo = await heard('archived');
    assert.equal((await bench.daemon.api('PATCH', 'P', { archived: true })).status, 200);
    const number = await missed(repo, 'unheard');
    assert.equal((await bench.daemon.api('PATCH', 'P', { archived: false })).status, 200);
    await isTold(repo, number);
  });

  it('is had once a connection is back that was suspended', async () => {
    const repo = await heard('back');
    await deliver('installation', { action: 'suspend', installation: { id: 1 } });
    bench.sim.state = 'suspended';
    const number = await missed(repo, 'unheard');
    bench.sim.state = 'active';
    await deliver('installation', { action: 'unsuspend', installation: { id: 1 } });
    await isTold(repo, number);
  });

  it('tells what was not wanted of a head, or not permitted, and nothing of it a second time', async () => {
    const repo = await heard('half', { plan: { comment: false } });
    const counts = () => [repo.comments.length, repo.checks.length];
    assert.deepEqual(counts(), [0, 1]);
    const { pull_requests: _kept, ...others } = bench.sim.granted;
    bench.sim.granted = { ...others, pull_requests: 'read' };
    await patch('half', { plan: { comment: true } });
    await until('the look', async () => looked(repo) > 0, forMs);
    await bench.quiet();
    assert.deepEqual(counts(), [0, 1]);
    bench.sim.granted = { ...others, pull_requests: 'write' };
    const granted = { id: 1, permissions: { ...bench.sim.granted } };
    await deliver('installation', { action: 'new_permissions_accepted', installation: granted });
    await until('the comment', async () => repo.comments.length === 1, forMs);
    await bench.quiet();
    assert.deepEqual(counts(), [1, 1]);
  });

  it('is had where another branch is followed that holds the same commit', async () => {
    const repo = await heard('branches');
    await repo.git.git(['update-ref', 'refs/heads/trunk', 'refs/heads/main']);
    await branchOff(repo, 'onto-trunk');
    const files = file('branches-onto-trunk');
    const { number } = await openPull(bench.sim, repo, { branch: 'onto-trunk', files, base: 'trunk' });
    await patch('branches', { branch: 'trunk' });
    await isTold(repo, number);
  });

  it('takes no pull request for the one of its number where the repository was before', async () => {
    const other = await bench.sim.repository('acme/other', { '.svc/agents/first.yaml': agentFile('other-first') });
    const number = await missed(other, 'unheard');
    Object.assign(other.issues.get(number) ?? {}, { updated: '2025-01-01T00:00:00Z' });
    const repo = await heard('before');
    assert.equal([...repo.issues.keys()].at(-1), number);
    await patch('before', { url: `${bench.sim.origin}/acme/other.git` });
    await isTold(other, number);
  });
});
