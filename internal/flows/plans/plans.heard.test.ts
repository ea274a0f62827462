// What is told of pull requests that deliveries tell of late, or tell nobody of, and of those whose base changes.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Issue, SimRepository } from '../../base/testkit/codehost-state.ts';
import { agentFile, syncNow, until } from '../sync/sync-testkit.ts';
import { delivery, openPull, type PlanBench, startPlanBench } from './plans-testkit.ts';

describe('a pull request', () => {
  let bench: PlanBench;
  let intake = '';
  before(async () => {
    bench = await startPlanBench();
    const { body } = await bench.daemon.api('GET', 'P/connections/hub');
    intake = new URL(String(body['intakeUrl'])).pathname;
  });
  after(() => bench.stop());
  const deliver = async (body: object): Promise<void> => {
    const { headers, text } = delivery('pull_request', body);
    const { status } = await bench.daemon.api('POST', intake, text, { token: null, headers });
    assert.ok(status < 300);
  };
  const commentsOf = (repo: SimRepository, number: number) => repo.comments.filter((one) => one.number === number);
  const issueOf = (repo: SimRepository, number: number): Issue => {
    const issue = repo.issues.get(number);
    assert.ok(issue);
    return issue;
  };
  /** A pull request whose first telling fails and waits for its next try; call the answer to let that succeed. */
  const waiting = async (repo: SimRepository): Promise<{ number: number; goOn: () => Promise<void> }> => {
    let isAsked = false;
    bench.sim.fault = ({ path }) => {
      if (!/\/pulls\/\d+\/files$/.test(path)) return null;
      isAsked = true;
      return { kind: 'status', status: 502 };
    };
    const files = { '.svc/agents/second.yaml': agentFile(`${repo.name}-second`) };
    const { number } = await bench.pull(repo, { branch: 'topic', files });
    const { db } = bench.daemon.ctx;
    await until('the first try to be over', async () => {
      const { rows } = await db.query('select from svc.pull_plans where attempts > 0 and claimed_by is null');
      return isAsked && rows.length > 0;
    });
    return {
      number,
      goOn: async () => {
        bench.sim.fault = () => null;
        await db.query('update svc.pull_plans set due_at = now() where due_at is not null');
        await bench.quiet();
      },
    };
  };

  it('that is to be merged elsewhere by now is told nothing, and is told its plan where it comes back', async () => {
    const repo = await bench.follow('elsewhere');
    await bench.quiet();
    await repo.git.git(['update-ref', 'refs/heads/dev', 'refs/heads/main']);
    const { number, goOn } = await waiting(repo);
    const { pull } = issueOf(repo, number);
    assert.ok(pull);
    const retarget = async (base: string): Promise<void> => {
      Object.assign(pull, { base });
      await deliver((await openPull(bench.sim, repo, { branch: 'topic', files: {}, action: 'edited' })).body);
    };
    await retarget('dev');
    await goOn();
    assert.deepEqual([commentsOf(repo, number), repo.checks], [[], []]);
    await retarget('main');
    await bench.quiet();
    assert.equal(commentsOf(repo, number).length, 1);
  });

  it('that is over is told nothing by what is heard of it late', async () => {
    const repo = await bench.follow('over');
    await bench.quiet();
    const { number, goOn } = await waiting(repo);
    const late = await openPull(bench.sim, repo, { branch: 'topic', files: {}, action: 'edited' });
    const issue = issueOf(repo, number);
    const second = new Date(Date.parse(issue.updated) + 1_000).toISOString();
    Object.assign(issue, { state: 'closed', updated: second.replace('.000', '') });
    const end = await openPull(bench.sim, repo, { branch: 'topic', files: {}, action: 'closed' });
    assert.ok(end.body.pull_request.updated_at > late.body.pull_request.updated_at);
    await deliver(end.body);
    await deliver(late.body);
    await goOn();
    assert.deepEqual(commentsOf(repo, number), []);
  });

  it('that is closed before its plan was told leaves no check under way, and has one where it is opened again', async () => {
    const repo = await bench.follow('closed');
    await bench.quiet();
    bench.sim.fault = ({ path, method }) =>
      method === 'GET' && /\/issues\/\d+\/comments$/.test(path) ? { kind: 'status', status: 502 } : null;
    const { number } = await bench.pull(repo, {
      branch: 'topic',
      files: { '.svc/agents/second.yaml': agentFile('closed-second') },
    });
    await until('the first try to be over', async () => {
      const { rows } = await bench.daemon.ctx.db.query(
        'select from svc.pull_plans where attempts > 0 and claimed_by is null and check_id is not null',
      );
      return rows.length > 0;
    });
    const states = () =>
      repo.checks.map(({ fields }) => `${String(fields['status'])} ${String(fields['conclusion'] ?? '')}`);
    assert.deepEqual(states(), ['in_progress ']);
    const issue = issueOf(repo, number);
    const move = async (state: 'open' | 'closed', seconds: number, action: string): Promise<void> => {
      const at = new Date(Date.parse(issue.created) + seconds * 1_000).toISOString();
      Object.assign(issue, { state, updated: at.replace('.000', '') });
      await deliver((await openPull(bench.sim, repo, { branch: 'topic', files: {}, action })).body);
    };
    bench.sim.fault = () => null;
    await move('closed', 5, 'closed');
    await bench.quiet();
    assert.deepEqual([states(), commentsOf(repo, number)], [['completed cancelled'], []]);
    await move('open', 10, 'reopened');
    await bench.quiet();
    assert.deepEqual([states(), commentsOf(repo, number).length], [['completed cancelled', 'completed success'], 1]);
  });

  it('that is to be merged elsewhere by now is told that its plan is none any more, and its plan where it comes back', async () => {
    const repo = await bench.follow('leaves');
    await bench.quiet();
    await repo.git.git(['update-ref', 'refs/heads/dev', 'refs/heads/main']);
    const broken = { '.svc/agents/second.yaml': 'name: leaves-second\n' };
    const { number } = await bench.pull(repo, { branch: 'topic', files: broken });
    await bench.quiet();
    const conclusions = () => repo.checks.map(({ fields }) => fields['conclusion']);
    const said = () => commentsOf(repo, number).map(({ body }) => /\*\*(.*)\*\*/.exec(body)?.[1]);
    assert.deepEqual([conclusions(), said()], [['failure'], ['2 errors; it would not be applied']]);
    const { pull } = issueOf(repo, number);
    assert.ok(pull);
    const retarget = async (base: string): Promise<void> => {
      Object.assign(pull, { base });
      await deliver((await openPull(bench.sim, repo, { branch: 'topic', files: {}, action: 'edited' })).body);
      await bench.quiet();
    };
    await retarget('dev');
    assert.deepEqual([conclusions(), said()], [['neutral'], ['To be merged elsewhere']]);
    const writes = repo.checks.length + bench.sim.log.filter(({ method }) => method === 'PATCH').length;
    await retarget('dev');
    assert.equal(repo.checks.length + bench.sim.log.filter(({ method }) => method === 'PATCH').length, writes, 'once');
    await retarget('main');
    assert.deepEqual([conclusions(), said()], [['neutral', 'failure'], ['2 errors; it would not be applied']]);
  });

  it('is looked at again where its base begins to read what it changes', async () => {
    const repo = await bench.follow('reads');
    await bench.quiet();
    const { number } = await bench.pull(repo, { branch: 'topic', files: { 'shared/f.yaml': 'labels: {a: b}\n' } });
    await bench.quiet();
    assert.deepEqual(commentsOf(repo, number), []);
    await repo.git.commit({
      '.svc/agents/up.yaml': agentFile('reads-up', 'imports: ../../shared/f.yaml'),
      'shared/f.yaml': 'labels: {a: c}\n',
    });
    assert.equal((await syncNow(bench.daemon, 'reads'))['status'], 'applied');
    await bench.quiet();
    assert.equal(commentsOf(repo, number).length, 1);
  });

  it('that came while its repository was suspended, or unwanted, is told once it is not', async () => {
    const repo = await bench.follow('resumed');
    await bench.quiet();
    const file = (name: string) => ({ [`.svc/agents/${name}.yaml`]: agentFile(`resumed-${name}`) });
    // Deliveries come: nobody looks by the clock.
    await bench.pull(repo, { branch: 'first', files: file('a') });
    await bench.quiet();
    await bench.daemon.api('POST', 'P/repositories/resumed/suspend');
    const missed = await bench.pull(repo, { branch: 'missed', files: file('b') });
    await bench.daemon.api('POST', 'P/repositories/resumed/resume');
    await until('the plan of the one that was missed', async () => commentsOf(repo, missed.number).length === 1);
    await bench.quiet();
    const forked = await bench.pull(repo, { branch: 'forked', files: file('c'), fork: true });
    await bench.quiet();
    assert.deepEqual(commentsOf(repo, forked.number), []);
    await bench.daemon.api('PATCH', 'P/repositories/resumed', { plan: { forks: true } });
    await until('the plan of the one of a fork', async () => commentsOf(repo, forked.number).length === 1);
  });
});
