import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { SimRequest } from '../../base/testkit/codehost-simulator.ts';
import type { SimRepository } from '../../base/testkit/codehost-state.ts';
import { agentFile, syncNow, until, word } from '../sync/sync-testkit.ts';
import type { CheckReport } from '../ports.ts';
import { databaseUnavailable } from '../../adapters/store/store.ts';
import { againAfterMs } from './hub.ts';
import { codehostChecks } from './plans.ts';
import { branchOff, callsOf, delivery, openPull, type PlanBench, startPlanBench } from './plans-testkit.ts';

it('a telling that the database broke off is told again: nobody would wish for it anew', () => {
  assert.equal(againAfterMs(databaseUnavailable(), 0), 3_000);
  assert.equal(againAfterMs(databaseUnavailable(), 8), null);
});

const isWrite = ({ method, path }: SimRequest): boolean => method !== 'GET' && !/access_tokens|\.git\//.test(path);

describe('what a pull request is told', () => {
  let bench: PlanBench;
  before(async () => {
    bench = await startPlanBench();
  });
  after(() => bench.stop());

  const writesSince = (from: number): string[] =>
    bench.sim.log
      .slice(from)
      .filter(isWrite)
      .map(({ method, path }) => `${method} ${path}`);
  const checksOf = (repo: SimRepository, head: string) => repo.checks.filter((one) => one.fields['head_sha'] === head);

  it('is one comment, edited in place, and a check of each head; the same head again is told nothing', async () => {
    const repo = await bench.follow('app');
    await bench.quiet();
    const routing = 'routing: { kind: spawn }';
    const cron = `triggers: [{ kind: heartbeat, cron: "0 9 * * *", message: go, ${routing} }]`;
    const files = {
      '.svc/agents/second.yaml': agentFile('second', cron),
      '.svc/agents/first.yaml': agentFile('app-first', 'displayTitle: New'),
    };
    const { number, head } = await bench.pull(repo, { branch: 'topic', files });
    await bench.quiet();
    const [comment, ...others] = repo.comments.filter((one) => one.number === number);
    assert.ok(comment, bench.log().slice(-3000));
    assert.equal(others.length, 0);
    const { body: shown } = await bench.daemon.api('GET', 'P/repositories/app');
    const [first, ...rest] = comment.body.split('\n');
    assert.equal(first, `<!-- svc:plan v=1 repository=${word(shown['id'])} -->`);
    const said = rest.join('\n');
    assert.match(said, /\*\*\d to create, 1 to update\*\* at `/);
    assert.match(said, /\+ Agent second/);
    assert.match(said, /! Agent app-first\n {4}displayTitle: .*"New"/);
    assert.match(said, /new schedule `second#0`: `0 9 \* \* \*` `UTC`, next \d{4}-/);
    const [check] = checksOf(repo, head);
    assert.equal(check?.fields['name'], 'svc/default/app');
    assert.equal(check?.fields['conclusion'], 'success');
    const order = bench.sim.log.filter(({ path, method }) => method !== 'GET' && /check-runs/.test(path));
    assert.deepEqual(
      order.map(({ body }) => (body as { status: string }).status),
      ['in_progress', 'completed'],
    );
    const from = bench.sim.log.length;
    await bench.pull(repo, { branch: 'topic', files: {}, action: 'edited' });
    await bench.quiet();
    assert.equal(bench.sim.log.length, from);
    const next = await bench.pull(repo, { branch: 'topic', files: { '.svc/agents/second.yaml': agentFile('second') } });
    await bench.quiet();
    assert.equal(repo.comments.filter((one) => one.number === number).length, 1);
    assert.ok(!comment.body.includes('schedule'));
    assert.equal(checksOf(repo, next.head)[0]?.fields['conclusion'], 'success');
    assert.deepEqual(bench.sim.schemaRefusals, []);
  });

  it('tells mistakes as annotations at their lines, fifty a request and none twice, without what looks like a credential', async () => {
    const repo = await bench.follow('wrong', { root: 'deploy' });
    await bench.quiet();
    const token = 'ghp_0123456789abcdefghijklmnopqrstuvwxyzAB';
    const files = Array.from({ length: 60 }, (_, n): [string, string] => [
      `deploy/.svc/agents/bad${n}.yaml`,
      agentFile(`bad${n}`, `description: ${token}`, `mounts: ${token}`),
    ]);
    const { number, head } = await bench.pull(repo, { branch: 'topic', files: Object.fromEntries(files) });
    await bench.quiet();
    const [check] = checksOf(repo, head);
    assert.equal(check?.fields['conclusion'], 'failure', bench.log().slice(-3000));
    const annotations = check?.annotations as { path: string; start_line: number; message: string }[];
    assert.ok(annotations.length >= 60, String(annotations.length));
    const keys = annotations.map((one) => JSON.stringify(one));
    assert.equal(new Set(keys).size, keys.length);
    assert.ok(annotations.every((one) => /^deploy\/\.svc\/agents\/bad\d+\.yaml$/.test(one.path)));
    assert.ok(annotations.some((one) => one.start_line === 5));
    const all = JSON.stringify([repo.checks, repo.comments]);
    assert.ok(!all.includes(token));
    assert.equal(repo.comments.filter((one) => one.number === number).length, 1);
    assert.deepEqual(bench.sim.schemaRefusals, []);
  });

  it('ends also where the host tells of fewer annotations than none, behind a telling that broke off', async () => {
    const repo = await bench.follow('odd-count');
    await bench.quiet();
    const wrong = (n: number) => [`.svc/agents/odd${n}.yaml`, agentFile(`odd${n}`, 'mounts: none')];
    const files = Object.fromEntries(Array.from({ length: 60 }, (_, n) => wrong(n))) as { [path: string]: string };
    let changes = 0;
    bench.sim.fault = ({ method, path }) => {
      if (!/\/check-runs\/\d+$/.test(path)) return null;
      if (method === 'GET') return { kind: 'after', status: 200, body: '{"output":{"annotations_count":-1}}' };
      changes += 1;
      return changes === 1 ? { kind: 'status', status: 502 } : null;
    };
    const { head } = await bench.pull(repo, { branch: 'topic', files });
    await until('the check to be concluded', async () => {
      assert.ok(changes < 20, 'the check is changed again and again');
      return checksOf(repo, head)[0]?.fields['conclusion'] === 'failure';
    });
    await bench.quiet();
    bench.sim.fault = () => null;
    assert.equal(checksOf(repo, head)[0]?.annotations.length, 60);
  });

  it('plans a change of what is read above the directory that the tree begins at, with its mistakes at their places', async () => {
    const repo = await bench.follow('above', { root: 'deploy' });
    await repo.git.commit({
      'deploy/.svc/agents/up.yaml': agentFile('up', 'imports: ../../../shared/f.yaml'),
      'shared/f.yaml': 'labels: {a: b}\n',
    });
    assert.equal((await syncNow(bench.daemon, 'above'))['status'], 'applied');
    const good = await bench.pull(repo, { branch: 'topic', files: { 'shared/f.yaml': 'labels: {a: c}\n' } });
    await bench.quiet();
    assert.equal(checksOf(repo, good.head)[0]?.fields['conclusion'], 'success', bench.log().slice(-3000));
    assert.match(repo.comments[0]?.body ?? '', /Agent up/);
    const bad = await bench.pull(repo, { branch: 'topic', files: { 'shared/f.yaml': 'labels: {a: 1}\n' } });
    await bench.quiet();
    const [check] = checksOf(repo, bad.head);
    const annotations = check?.annotations as { path: string; start_line: number }[];
    assert.deepEqual(
      annotations.map((one) => [one.path, one.start_line]),
      [['shared/f.yaml', 1]],
    );
  });

  it('is neutral where the sync would be held, and edits the comment of a plan that became empty', async () => {
    const repo = await bench.follow('held', { guard: { deleteMax: 0 } });
    const first = await bench.pull(repo, {
      branch: 'topic',
      files: { '.svc/agents/first.yaml': null, '.svc/agents/y.yaml': agentFile('held-y') },
    });
    await bench.quiet();
    assert.equal(checksOf(repo, first.head)[0]?.fields['conclusion'], 'neutral', bench.log().slice(-3000));
    const back = { '.svc/agents/first.yaml': agentFile('held-first'), '.svc/agents/y.yaml': null };
    const second = await bench.pull(repo, { branch: 'topic', files: back });
    await bench.quiet();
    const comments = repo.comments.filter((one) => one.number === second.number);
    assert.equal(comments.length, 1);
    assert.match(comments[0]?.body ?? '', /changes no file that is read/);
  });

  it('leaves alone what changes nothing that is read, other bases, forks, and what is switched off', async () => {
    const repo = await bench.follow('quiet');
    await bench.quiet();
    const from = bench.sim.log.length;
    const agent = { '.svc/agents/z.yaml': agentFile('z') };
    await bench.pull(repo, { branch: 'docs', files: { 'README.md': '# other\n' } });
    await repo.git.git(['update-ref', 'refs/heads/release', 'refs/heads/main']);
    await bench.pull(repo, { branch: 'elsewhere', files: agent, base: 'release' });
    await bench.pull(repo, { branch: 'forked', files: agent, fork: true });
    await bench.quiet();
    assert.deepEqual(writesSince(from), []);
    const plan = { comment: false, forks: true };
    const { body, status } = await bench.daemon.api('PATCH', 'P/repositories/quiet', { plan });
    assert.deepEqual([status, body['plan']], [200, plan]);
    const { head } = await bench.pull(repo, {
      branch: 'forked',
      files: { '.svc/agents/z2.yaml': agentFile('z2') },
      fork: true,
    });
    await bench.quiet();
    assert.equal(checksOf(repo, head).length, 1);
    assert.equal(repo.comments.length, 0);
  });

  it('edits the comment that it finds by author and marker, not a copy by somebody else', async () => {
    const repo = await bench.follow('found');
    const { body: shown } = await bench.daemon.api('GET', 'P/repositories/found');
    const marker = `<!-- svc:plan v=1 repository=${word(shown['id'])} -->`;
    const at = { number: 1, created: bench.sim.time(), reactions: [] };
    const ann = { login: 'ann', id: 5, type: 'User' } as const;
    for (let n = 0; n < 120; n += 1) repo.comments.push({ ...at, id: bench.sim.nextId(), user: ann, body: 'words' });
    repo.comments.push({ ...at, id: bench.sim.nextId(), user: ann, body: `${marker}\ncopied` });
    repo.comments.push({ ...at, id: bench.sim.nextId(), user: bench.sim.bot, body: `${marker}\nold` });
    await bench.pull(repo, { branch: 'topic', files: { '.svc/agents/f.yaml': agentFile('f') } });
    await bench.quiet();
    assert.equal(repo.comments.length, 122);
    assert.match(repo.comments.at(-1)?.body ?? '', /Agent f\n/);
    assert.match(repo.comments.at(-2)?.body ?? '', /copied/);
  });

  it('is told by checks of sessions: made once also where answers are lost, and changed from then on', async () => {
    const repo = await bench.follow('checked');
    await bench.quiet();
    const { ctx } = bench.daemon;
    const { body: hub } = await bench.daemon.api('GET', 'P/connections/hub');
    const port = codehostChecks(() => ctx);
    const id = ctx.runtime.uuid();
    const report: CheckReport = {
      id,
      connectionId: word(hub['id']),
      targetKey: 'acme/checked#1',
      headSha: (await repo.branch('main')) ?? '',
      externalId: null,
      displayName: 'Review',
      description: 'Reads it',
      state: 'queued',
      conclusion: null,
      title: null,
      summary: null,
    };
    const before = (await callsOf(bench.daemon)).length;
    let isLost = false;
    bench.sim.fault = ({ method, path }) => {
      if (isLost || method !== 'POST' || !path.endsWith('/check-runs')) return null;
      isLost = true;
      return { kind: 'lose' };
    };
    const made = await port.report(report);
    bench.sim.fault = () => null;
    assert.equal(made.outcome, 'done');
    const [run, ...others] = repo.checks.filter((one) => one.fields['external_id'] === id);
    assert.ok(run !== undefined && others.length === 0);
    // Whoever died before it noted the answer tells again, by then of a later state.
    const begun = await port.report({ ...report, state: 'in_progress' });
    assert.deepEqual(begun, made);
    const externalId = 'externalId' in made ? made.externalId : null;
    const concluded: CheckReport = {
      ...report,
      externalId,
      state: 'concluded',
      conclusion: 'success',
      title: 'Fine',
      summary: 'All good',
    };
    for (let time = 0; time < 2; time += 1) {
      assert.equal((await port.report(concluded)).outcome, 'done');
    }
    assert.equal((await port.report({ ...report, externalId, state: 'superseded' })).outcome, 'done');
    assert.deepEqual([run.fields['status'], run.fields['conclusion']], ['completed', 'success']);
    assert.equal(repo.checks.filter((one) => one.fields['external_id'] === id).length, 1);
    const calls = (await callsOf(bench.daemon)).slice(before).filter((one) => word(one['alias']) === 'checks');
    assert.deepEqual(
      calls.map((one) => [word(one['tool']), word(one['status']), one['session'] as unknown]),
      [
        // One whose answer was lost may have been made of another state.
        ['create_check_run', 'done', null],
        ['update_check_run', 'done', null],
        ['update_check_run', 'done', null],
        ['update_check_run', 'done', null],
      ],
    );
    assert.deepEqual(bench.sim.schemaRefusals, []);
  });

  it('is told also where no delivery comes, and again when its base has moved; the same head and plan are not', async () => {
    const repo = await bench.follow('polled');
    await bench.quiet();
    await branchOff(repo, 'topic');
    const { number } = await openPull(bench.sim, repo, {
      branch: 'topic',
      files: { '.svc/agents/p.yaml': agentFile('polled-p') },
    });
    const { db } = bench.daemon.ctx;
    const looked = async (): Promise<void> => {
      const since = bench.sim.log.length;
      await db.query('update svc.pull_polls set next_at = now()');
      await until('it is looked', async () =>
        bench.sim.log.slice(since).some((one) => one.path === '/repos/acme/polled/pulls'),
      );
      await bench.quiet();
    };
    const comments = () => repo.comments.filter((one) => one.number === number);
    await looked();
    assert.match(comments()[0]?.body ?? '', /\+ Agent polled-p/);
    const before = writesSince(0).length;
    await looked();
    assert.equal(writesSince(0).length, before, 'the same head is told nothing');
    await repo.git.commit({ '.svc/agents/q.yaml': agentFile('polled-q') });
    await syncNow(bench.daemon, 'polled');
    await bench.quiet();
    assert.equal(comments().length, 1);
    assert.match(comments()[0]?.body ?? '', /- Agent polled-q/, 'a head behind its base would undo what that has');
    // A delivery is told of: nobody looks by the clock.
    await bench.pull(repo, { branch: 'topic', files: {}, action: 'edited' });
    await bench.quiet();
    const since = bench.sim.log.length;
    await db.query('update svc.pull_polls set next_at = now()');
    const { rows } = await db.query<{ delivered: boolean }>(
      `select p.delivered_at is not null as delivered from svc.pull_polls p join svc.repositories r on r.id = p.repository_id
        where r.name = 'polled'`,
    );
    assert.equal(rows[0]?.delivered, true);
    assert.ok(bench.sim.log.slice(since).every((one) => one.path !== '/repos/acme/polled/pulls'));
  });

  it('each write whose answer was lost is there once, and told truly', async () => {
    const repo = await bench.follow('lost');
    await bench.quiet();
    const known = (await callsOf(bench.daemon)).length;
    const lost = new Set<string>();
    bench.sim.fault = (request) => {
      const name = `${request.method} ${request.operation ?? ''}`;
      if (!isWrite(request) || lost.has(name)) return null;
      lost.add(name);
      return { kind: 'lose' };
    };
    const { number, head } = await bench.pull(repo, {
      branch: 'topic',
      files: { '.svc/agents/l.yaml': agentFile('l') },
    });
    await bench.quiet();
    bench.sim.fault = () => null;
    assert.ok(lost.size >= 3, [...lost].join(', '));
    assert.equal(repo.comments.filter((one) => one.number === number).length, 1);
    assert.equal(checksOf(repo, head).length, 1);
    assert.equal(checksOf(repo, head)[0]?.fields['conclusion'], 'success');
    const calls = (await callsOf(bench.daemon)).slice(known);
    assert.ok(
      calls.every((one) => word(one['status']) === 'done' && one['session'] === null),
      JSON.stringify(calls),
    );
  });

  it('shows of a commit that its sync has begun, and how it ended; what is shown already is not sent again', async () => {
    const repo = await bench.follow('status');
    await bench.quiet();
    const commit = (await repo.branch('main')) ?? '';
    const shown = () => repo.statuses.filter((one) => one.sha === commit).map((one) => one.fields);
    assert.deepEqual(
      shown().map((one) => [one['state'], one['context']]),
      [
        ['pending', 'svc/default/status'],
        ['success', 'svc/default/status'],
      ],
    );
    const address = String(shown()[1]?.['target_url']);
    // Whoever follows it comes with a browser.
    const { body: runs } = await bench.daemon.api('GET', 'P/reconciles?repository=status&limit=1');
    assert.equal(address, `${bench.daemon.url}/default/default/reconciles/${String(runs['items']?.[0]?.['id'])}`);
    // It is a page: who is not signed in yet is taken there by signing in.
    const { pathname } = new URL(address);
    const { status, headers } = await bench.daemon.api('GET', pathname);
    assert.deepEqual([status, headers.get('location')], [303, `/signin?next=${encodeURIComponent(pathname)}`]);
    const bad = await repo.git.commit({ '.svc/agents/first.yaml': 'nonsense: [' });
    await syncNow(bench.daemon, 'status');
    await bench.quiet();
    const [pending, failed] = repo.statuses.filter((one) => one.sha === bad).map((one) => one.fields);
    assert.equal(pending?.['state'], 'pending');
    assert.equal(failed?.['state'], 'failure');
    assert.match(String(failed?.['description']), /^\d+ errors?: /);
    assert.ok(String(failed?.['description']).length <= 140);
    assert.deepEqual(bench.sim.schemaRefusals, []);
  });

  it('a connection without the permission for one of them tells the other', async () => {
    const repo = await bench.follow('few');
    const { checks, ...granted } = bench.sim.granted;
    bench.sim.granted = granted;
    const { number, head } = await bench.pull(repo, {
      branch: 'topic',
      files: { '.svc/agents/g.yaml': agentFile('g') },
    });
    await bench.quiet();
    bench.sim.granted = { ...granted, ...(checks && { checks }) };
    assert.equal(checksOf(repo, head).length, 0);
    assert.equal(repo.comments.filter((one) => one.number === number).length, 1);
    assert.ok(!/ghs_/.test(bench.log()));
  });

  it('a number or a time that no pull request has asks for no plan, and its delivery is an event like any other', async () => {
    const repo = await bench.follow('odd');
    await branchOff(repo, 'topic');
    const { body } = await openPull(bench.sim, repo, { branch: 'topic', files: {} });
    const { body: hub } = await bench.daemon.api('GET', 'P/connections/hub');
    const intake = new URL(String(hub['intakeUrl'])).pathname;
    const odd = [
      { number: 3e9 },
      { number: 1.5 },
      { number: -1 },
      { number: 2 ** 60 },
      { updated_at: '-200000-01-01T00:00:00Z' },
    ];
    for (const more of odd) {
      for (const state of ['open', 'closed']) {
        const pull_request = { ...body.pull_request, ...more, state };
        const { headers, text } = delivery('pull_request', { ...body, pull_request });
        const answer = await bench.daemon.api('POST', intake, text, { token: null, headers });
        assert.equal(answer.status, 202, JSON.stringify([more, answer.body]));
      }
    }
  });
});
