import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import {
  applyAgents,
  archive,
  bindingsOf,
  codehostDoor,
  emittedBy,
  eventState,
  routesOf,
  type SessionState,
  sessionsOf,
} from './routing-testkit.ts';

const repository = { id: 1, full_name: 'o/r', name: 'r', owner: { login: 'o' } };
const ann = { login: 'ann', id: 1, type: 'User' };
const app = { login: 'svc-app[bot]', id: 2, type: 'Bot' };
const pull = (number: number, more: object = {}) => ({
  number,
  title: 'A change',
  body: '',
  state: 'open',
  head: { ref: 'topic', sha: `sha-${number}` },
  base: { ref: 'main', sha: 'base' },
  user: ann,
  labels: [],
  ...more,
});
const opened = (number: number, more: object = {}) => ({
  action: 'opened',
  repository,
  sender: ann,
  pull_request: pull(number),
  ...more,
});
const comment = (number: number, body: string, more: object = {}) => ({
  action: 'created',
  repository,
  sender: ann,
  issue: { number, title: 'A change', user: ann, pull_request: {} },
  comment: { id: 5, body, user: ann },
  ...more,
});
const marker = (session: string, agent: string): string => `<!-- svc:v=1 session=${session} agent=${agent} -->`;

describe('pull requests and their sessions', () => {
  let daemon: TestDaemon;
  let arrive: (event: string, body: object) => Promise<string>;
  before(async () => {
    daemon = await startTestDaemon();
    arrive = await codehostDoor(daemon);
  });
  after(() => daemon.stop());
  const only = async (agents: { readonly [name: string]: object }): Promise<void> => {
    await applyAgents(daemon.api, agents, true);
  };
  const decided = async (event: string): Promise<string[]> =>
    (await routesOf(daemon.ctx.db, event)).map((one) => `${one.agent}#${one.ordinal} ${one.decision}`);
  const heard = (session: SessionState | undefined): string[] => session?.messages.map(({ text }) => text) ?? [];
  const reviewer = {
    initialPrompt: 'Review {{ codehost.pullRequest.number }}.',
    bindings: {
      'codehost.pull_request': { lifecycle: 'held', eventContext: { unbound: { phase: 'over', by: 'us' } } },
    },
    triggers: [
      {
        event: 'codehost.pull_request.opened',
        routing: { kind: 'bind', target: 'codehost.pull_request', onUnmatched: 'spawn' },
        message: 'Opened',
      },
      {
        events: ['codehost.pull_request.synchronize', 'codehost.issue_comment.created', 'codehost.check_run.completed'],
        routing: { kind: 'bind', target: 'codehost.pull_request' },
        message: '{{ codehost.event }}',
      },
      {
        event: 'codehost.pull_request.closed',
        routing: { kind: 'bind', target: 'codehost.pull_request', release: { context: { by: 'close' } } },
        message: 'Closed',
      },
    ],
  };

  it('an unmatched bind spawns and binds, later events are delivered to the holder, the close releases', async () => {
    const { db } = daemon.ctx;
    await only({ reviewer });
    const first = await arrive('pull_request', opened(1));
    assert.deepEqual(await decided(first), ['reviewer#0 unmatched-spawn']);
    const [session] = await sessionsOf(db, 'reviewer');
    assert.deepEqual(heard(session), ['Review 1.'], 'the initial prompt comes before the message of a bind route');
    await arrive('pull_request', { ...opened(1), action: 'synchronize' });
    await arrive('issue_comment', comment(1, 'hello'));
    const checkRun = { id: 3, name: 'ci', head_sha: 'sha-1', pull_requests: [{ number: 1, head: { sha: 'sha-1' } }] };
    await arrive('check_run', { action: 'completed', repository, sender: ann, check_run: checkRun });
    assert.deepEqual(await decided(await arrive('issue_comment', comment(9, 'elsewhere'))), [
      'reviewer#2 unmatched-drop',
    ]);
    const closed = await arrive('pull_request', { ...opened(1), action: 'closed' });
    assert.deepEqual(await decided(closed), ['reviewer#4 released']);
    const [after] = await sessionsOf(db, 'reviewer');
    assert.deepEqual(
      after?.messages.map(({ text, mode }) => [text, mode]),
      [
        ['Review 1.', 'interrupt'],
        ['pull_request', 'interrupt'],
        ['issue_comment', 'interrupt'],
        ['check_run', 'defer'],
        ['Closed', 'interrupt'],
      ],
    );
    const [binding, ...others] = await bindingsOf(db, 'reviewer');
    assert.equal(others.length, 0);
    assert.deepEqual(
      [binding?.session, binding?.target, binding?.state, binding?.lifecycle],
      [session?.id, 'codehost.pull_request:o/r#1', 'released', 'held'],
    );
    const told = await emittedBy(db, 'reviewer');
    assert.deepEqual(
      told.map(({ key, status, depth, target, binding: { eventContext } }) => [
        key,
        status,
        depth,
        target,
        eventContext,
      ]),
      [
        ['svc.session.binding.bound', 'unmatched', 1, session?.id, null],
        ['svc.session.binding.unbound', 'unmatched', 1, session?.id, { phase: 'over', by: 'close' }],
      ],
    );
    const again = await arrive('pull_request', { ...opened(1), action: 'closed' });
    assert.deepEqual(await decided(again), ['reviewer#4 unmatched-drop'], 'nothing is bound any more');
    await archive(daemon, session?.id ?? '');
  });

  it('an agent-level claim waits for the next session, which takes it over', async () => {
    const { db } = daemon.ctx;
    const keeper = {
      bindings: { 'codehost.pull_request': { continuity: 'agent', context: { role: 'keeper' } } },
      triggers: [
        {
          events: ['codehost.pull_request.opened', 'codehost.pull_request.synchronize'],
          routing: { kind: 'bind', target: 'codehost.pull_request', onUnmatched: 'spawn' },
        },
      ],
    };
    await only({ keeper });
    await arrive('pull_request', opened(2));
    const [first] = await sessionsOf(db, 'keeper');
    await archive(daemon, first?.id ?? '');
    assert.deepEqual(await bindingsOf(db, 'keeper').then((all) => all.map((one) => [one.session, one.state])), [
      [null, 'active'],
    ]);
    const next = await arrive('pull_request', { ...opened(2), action: 'synchronize' });
    assert.deepEqual(await decided(next), ['keeper#1 unmatched-spawn']);
    const [, second] = await sessionsOf(db, 'keeper');
    const all = await bindingsOf(db, 'keeper');
    assert.deepEqual(
      all.map((one) => [one.session, one.state, one.context]),
      [[second?.id, 'active', { role: 'keeper' }]],
    );
    assert.deepEqual(
      (await emittedBy(db, 'keeper')).map((one) => one.key),
      ['svc.session.binding.bound', 'svc.session.binding.updated'],
    );
  });

  it('a spawn binds its event target; another spawn on it is a delivery to the holder', async () => {
    const { db } = daemon.ctx;
    const maker = {
      triggers: [
        {
          events: ['codehost.pull_request.opened', 'codehost.pull_request.reopened'],
          routing: { kind: 'spawn', bind: { target: 'codehost.pull_request', context: { n: 1 } } },
          message: '{{ codehost.action }}',
        },
      ],
    };
    await only({ maker });
    await arrive('pull_request', opened(3));
    const second = await arrive('pull_request', { ...opened(3), action: 'reopened' });
    const [session, ...others] = await sessionsOf(db, 'maker');
    assert.equal(others.length, 0);
    assert.deepEqual(heard(session), ['opened', 'reopened']);
    const [route] = await routesOf(db, second);
    assert.deepEqual([route?.decision, route?.because], ['converted', 'target']);
    assert.deepEqual((await bindingsOf(db, 'maker'))[0]?.context, { n: 1 });
    const { attributions } = await eventState(db, second);
    assert.deepEqual(
      attributions?.map((one) => [one.sessionId, one.relation]),
      [[session?.id, 'bound']],
    );
  });

  it('a marker of the application itself ties its session, binds it where the agent says so, and nobody else can', async () => {
    const { db } = daemon.ctx;
    const author = {
      bindings: { 'codehost.pull_request': { bind: 'onAttributedEvent' } },
      triggers: [
        { event: 'codehost.issue.opened', routing: { kind: 'spawn' }, message: 'Fix it' },
        {
          events: ['codehost.review.submitted', 'codehost.issue_comment.created'],
          routing: { kind: 'bind', target: 'codehost.pull_request' },
          message: '{{ codehost.issueComment.body }}{{ codehost.review.body }}',
        },
      ],
    };
    await only({
      author,
      other: { triggers: [{ event: 'codehost.pull_request.opened', routing: { kind: 'spawn' } }] },
    });
    const issue = { action: 'opened', repository, sender: ann, issue: { number: 8, title: 'Bug', user: ann } };
    await arrive('issues', issue);
    const id = (await sessionsOf(db, 'author'))[0]?.id ?? '';
    const mine = marker(id, 'author');
    const bound = async () => (await bindingsOf(db, 'author')).map((one) => one.target);
    await arrive('pull_request', opened(10, { pull_request: pull(10, { body: mine }) }));
    await arrive('issue_comment', comment(11, `I am ${mine}`));
    await arrive('pull_request', opened(12, { sender: app, pull_request: pull(12, { body: marker(id, 'other') }) }));
    assert.deepEqual(await bound(), [], 'written by somebody else, or naming another agent');
    const made = await arrive(
      'pull_request',
      opened(13, { sender: app, pull_request: pull(13, { body: `Fixes it. ${mine}`, user: app }) }),
    );
    assert.deepEqual(await bound(), ['codehost.pull_request:o/r#13']);
    assert.deepEqual(
      (await eventState(db, made)).attributions?.map((one) => [one.sessionId, one.relation]),
      [[id, 'created']],
    );
    const review = { id: 1, state: 'approved', body: 'Nice', user: ann };
    await arrive('pull_request_review', { ...opened(13), action: 'submitted', review });
    assert.deepEqual(heard((await sessionsOf(db, 'author'))[0]), ['Fix it', 'Nice']);
    await arrive('issue_comment', comment(14, 'x', { sender: app, comment: { id: 1, body: mine, user: app } }));
    assert.deepEqual(await bound(), ['codehost.pull_request:o/r#13', 'codehost.pull_request:o/r#14']);
    const { rows } = await db.query<{ target: string; relation: string }>(
      'select target_key as target, relation from svc.session_ties order by target_key',
    );
    assert.deepEqual(rows, [
      { target: 'o/r#13', relation: 'created' },
      { target: 'o/r#14', relation: 'posted' },
    ]);
  });

  it('triggers read attributions, and none where there are none', async () => {
    const where = (exists: boolean) => ({ '$.svc.attributions': { exists } });
    const twin = {
      triggers: [
        {
          events: ['codehost.pull_request.opened', 'codehost.pull_request.labeled'],
          where: where(false),
          routing: { kind: 'spawn', bind: { target: 'codehost.pull_request' } },
          message: 'new',
        },
        {
          events: ['codehost.pull_request.opened', 'codehost.pull_request.labeled'],
          where: where(true),
          routing: { kind: 'deliver', routeBy: { kind: 'attributedSessions' } },
          message: 'by {{ svc.attributions }}',
        },
      ],
    };
    await only({ twin });
    await arrive('pull_request', opened(20));
    await arrive('pull_request', { ...opened(20), action: 'labeled', label: { name: 'x' } });
    const [session, ...others] = await sessionsOf(daemon.ctx.db, 'twin');
    assert.equal(others.length, 0);
    const told = JSON.stringify([{ sessionId: session?.id, agent: 'twin', relation: 'bound' }]);
    assert.deepEqual(heard(session), ['new', `by ${told}`]);
  });

  it('a routed pull request queues the checks of its trigger on its head, for the session that got it', async () => {
    const checks = [{ name: 'lint', displayName: 'Lint', description: 'Looks at style' }];
    const events = ['codehost.pull_request.opened', 'codehost.pull_request.synchronize'];
    const routing = { kind: 'spawn', bind: { target: 'codehost.pull_request' } };
    await only({ checker: { triggers: [{ events, routing, checks }] } });
    await arrive('pull_request', opened(30));
    await arrive('pull_request', {
      ...opened(30, { pull_request: pull(30, { head: { ref: 't', sha: 'two' } }) }),
      action: 'synchronize',
    });
    const [session] = await sessionsOf(daemon.ctx.db, 'checker');
    const { rows } = await daemon.ctx.db.query<object>(
      `select name, cycle, head_sha as head, state, session_id as session from svc.checks order by cycle`,
    );
    assert.deepEqual(rows, [
      { name: 'lint', cycle: 1, head: 'sha-30', state: 'superseded', session: session?.id },
      { name: 'lint', cycle: 2, head: 'two', state: 'queued', session: session?.id },
    ]);
  });

  it('a check goes aside with its cycle where its agent declares it no more, wherever its trigger stands by then', async () => {
    const check = (name: string) => ({ name, displayName: name, description: 'Looks' });
    const on = (events: string[], checks: string[], where = {}) => ({
      events: events.map((event) => `codehost.pull_request.${event}`),
      routing: { kind: 'spawn' },
      where,
      checks: checks.map(check),
    });
    const labeled = (name: string) => on(['labeled'], [name], { '$.codehost.label.name': name });
    const say = (action: string, name?: string) => arrive('pull_request', { ...opened(22), action, label: { name } });
    await only({
      judge: { triggers: [on(['opened', 'reopened'], ['lint', 'unit']), labeled('docs'), labeled('perf')] },
    });
    await say('opened');
    await say('labeled', 'docs');
    await say('labeled', 'perf');
    const first = { event: 'codehost.pull_request.edited', routing: { kind: 'spawn' } };
    await only({
      judge: { triggers: [first, on(['opened', 'reopened'], ['lint']), labeled('docs'), labeled('perf')] },
    });
    const standing = async () =>
      (
        await daemon.ctx.db.query<{ shown: string }>(
          `select concat_ws(' ', name, cycle, state) as shown from svc.checks where agent = 'judge' order by name, cycle`,
        )
      ).rows.map((row) => row.shown);
    // What was the place of `perf` is that of `docs` now.
    await say('labeled', 'docs');
    assert.deepEqual((await standing()).slice(0, 2), ['docs 1 superseded', 'docs 2 queued']);
    assert.deepEqual((await standing()).slice(3, 4), ['perf 1 queued']);
    await say('reopened');
    assert.deepEqual((await standing()).slice(2), [
      'lint 1 superseded',
      'lint 2 queued',
      'perf 1 queued',
      'unit 1 superseded',
    ]);
  });

  it('a head that is no commit has no check, and its event is routed all the same', async () => {
    const checks = [{ name: 'lint', displayName: 'Lint', description: 'Looks at style' }];
    await only({ odd: { triggers: [{ event: 'codehost.pull_request.opened', routing: { kind: 'spawn' }, checks }] } });
    for (const sha of ['two\0', 'x'.repeat(65)]) {
      await arrive('pull_request', opened(31, { pull_request: pull(31, { head: { ref: 't', sha } }) }));
    }
    assert.equal((await sessionsOf(daemon.ctx.db, 'odd')).length, 2);
    const { rows } = await daemon.ctx.db.query<object>(`select 1 from svc.checks where agent = 'odd'`);
    assert.deepEqual(rows, []);
  });
});
