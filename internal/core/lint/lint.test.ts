import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventTargets, knownEvents, isKnownEvent, sourceOf, targetOf } from '../../domain/events.ts';
import { editDistance, nearest } from '../../domain/nearest.ts';
import type { Routing, Where } from '../../domain/spec.ts';
import { lint, lintFallbacks } from './lint.ts';
import { at, trigger } from './testkit.ts';
import type { LintTrigger } from './types.ts';

const warn = (...triggers: LintTrigger[]) => lint({ rootKeys: [], triggers, refs: [], texts: [] });
const codes = (...triggers: LintTrigger[]) => warn(...triggers).map(({ code }) => code);

test('every warning is a warning, with a place and a path', () => {
  for (const finding of warn(trigger(['codehost.pushed'], { where: { '$.chat.svc.authored': false } }))) {
    assert.equal(finding.severity, 'warning');
    assert.ok(finding.range !== undefined && finding.path !== undefined);
  }
});

test('a key that no source emits is named with the nearest that one does', () => {
  const cases = [
    ['codehost.pull_request.open', 'codehost.pull_request.opened'],
    ['codehost.pull_requests.opened', 'codehost.pull_request.opened'],
    ['chat.message.mention', 'chat.message.mentioned'],
    ['svc.session.binding.bonud', 'svc.session.binding.bound'],
    ['codehost.check_run.requested_action.', 'codehost.check_run.requested_action.<identifier>'],
    ['tracker.i.updated', 'tracker.issue.updated'],
  ] as const;
  for (const [key, near] of cases) {
    const [finding] = warn(trigger([key])).filter(({ code }) => code === 'event-unknown');
    assert.equal(finding?.hint, `Did you mean ${near}?`, key);
  }
  assert.equal(warn(trigger(['svc.zzzzzzzzzzzzzzzzzzzzzzzzz.qqqqqqqqqqqqqqqqqqqq']))[0]?.hint, undefined);
});

test('keys of every known source pass, aliases and open families too', () => {
  const passing = [
    ...knownEvents,
    'codehost.check_run.requested_action.rerun',
    'webhook.deploy.finished',
    'webhook.received',
  ];
  for (const key of passing) assert.ok(!codes(trigger([key])).includes('event-unknown'), key);
  assert.ok(isKnownEvent('codehost.pull_request_review.submitted'));
});

test('targets are those that the spec derives', () => {
  const cases = {
    'codehost.pull_request.opened': 'codehost.pull_request',
    'codehost.review.submitted': 'codehost.pull_request',
    'codehost.check_run.completed': 'codehost.pull_request',
    'codehost.issue_comment.created': 'codehost.pull_request',
    'codehost.issue.comment.created': 'codehost.issue',
    'codehost.issue.opened': 'codehost.issue',
    'tracker.issue.updated': 'tracker.issue',
    'chat.reaction.added': 'chat.thread',
    'svc.session.binding.unbound': 'svc.session',
    'codehost.push': null,
    'codehost.workflow_run.completed': null,
    'codehost.commit_comment.created': null,
    'webhook.received': null,
    'svc.project.onboarded': null,
  };
  for (const [event, target] of Object.entries(cases)) assert.equal(targetOf(event), target, event);
  assert.ok(eventTargets.every(([prefix]) => sourceOf(prefix) !== null));
  assert.equal(sourceOf('codehost'), null);
  assert.equal(sourceOf('x.y'), null);
});

test('authored is looked for where the payload of the source has it', () => {
  const paths = (event: string[], path: string) =>
    codes(trigger(event, { where: { [path]: false } })).filter((code) => code === 'authored-path');
  assert.deepEqual(paths(['codehost.issue.opened'], '$.codehost.svc.authored'), []);
  assert.deepEqual(paths(['codehost.issue.opened'], '$.svc.authored'), []);
  assert.deepEqual(paths(['chat.message.mentioned'], '$.svc.authored'), []);
  assert.deepEqual(paths(['webhook.received'], 'authored'), []);
  assert.deepEqual(paths(['chat.message.mentioned'], '$.codehost.svc.authored'), ['authored-path']);
  assert.deepEqual(paths(['chat.message.mentioned'], '$.chat.svc.authored'), ['authored-path']);
  assert.deepEqual(paths(['codehost.issue.opened'], '$.auto.authored'), ['authored-path']);
  assert.deepEqual(paths(['codehost.issue.opened', 'tracker.issue.created'], '$.codehost.svc.authored'), [
    'authored-path',
  ]);
  assert.deepEqual(paths([], '$.svc.authored'), ['authored-path']);
  const [finding] = warn(trigger(['tracker.issue.created'], { where: { '$.tracker.svc.authored': false } }));
  assert.equal(finding?.hint, 'Use $.svc.authored.');
});

test('a path is doubted where no payload of the event has it, and nowhere else', () => {
  const doubted = (event: string, ...paths: string[]): string[] =>
    warn(trigger([event], { where: Object.fromEntries(paths.map((path) => [`$.${path}`, 'a'])) }))
      .filter(({ code }) => code === 'payload-path')
      .map(({ path = '' }) => path.slice(path.indexOf('$.') + 2, -2));
  const [pull, issue, svc] = ['codehost.pullRequest', 'codehost.issue', 'svc.mentioned'];
  const resolved = ['errtrack.release.version', 'errtrack.commit.id', 'errtrack.commit.repository'];
  assert.deepEqual(doubted('svc.errtrack.issue.resolved', ...resolved, 'errtrack.issue.previous.status', svc), [
    'errtrack.issue.previous.status',
    svc,
  ]);
  // As the host tells of an issue; and what changed is told where it changed.
  const parts = ['number', 'state', 'labelNames', 'head.sha', 'base.ref', 'merged', 'mergeable', 'previous.state'];
  const asIssue = doubted('codehost.issue_comment.created', ...parts.map((part) => `${pull}.${part}`));
  assert.deepEqual(
    asIssue,
    parts.slice(3).map((part) => `${pull}.${part}`),
  );
  for (const event of ['codehost.review.submitted', 'codehost.pull_request_review_comment.created']) {
    const asked = [`${pull}.head.sha`, `${pull}.merged`, `${pull}.previous.state`, `${pull}.head.previous.sha`, svc];
    assert.deepEqual(doubted(event, ...asked), asked.slice(2));
  }
  assert.deepEqual(doubted('codehost.pull_request.closed', ...parts.map((part) => `${pull}.${part}`)), []);
  assert.deepEqual(doubted('codehost.issue.comment.edited', `${issue}.title`, `${issue}.previous.title`), [
    `${issue}.previous.title`,
  ]);
  assert.deepEqual(doubted('codehost.issue.edited', `${issue}.previous.title`, 'codehost.svc.mentioned', svc), [svc]);
  assert.deepEqual(doubted('chat.message.mentioned', 'message.text', svc), [svc]);
  assert.deepEqual(doubted('chat.reaction.added', 'reaction.emoji', 'chat.messageId', 'svc.attributions'), []);
  const before = ['tracker.updatedFrom.labelNames', 'tracker.issue.previous.state'];
  assert.deepEqual(doubted('tracker.issue.updated', ...before, svc), []);
  assert.deepEqual(doubted('tracker.comment.created', ...before, svc), before);
});

const bind = (target: 'chat.thread' | 'codehost.issue' | 'agent.singleton'): Routing => ({
  kind: 'bind',
  target,
  onUnmatched: 'drop',
  release: false,
});

test('routes that no event of the trigger can match are named', () => {
  const attributed: Routing = { kind: 'deliver', routeBy: { kind: 'attributedSessions' }, onUnmatched: 'drop' };
  const cases: readonly (readonly [LintTrigger, readonly string[]])[] = [
    [trigger(['codehost.push'], { routing: bind('codehost.issue') }), ['route-never-matches']],
    [trigger(['codehost.issue.opened'], { routing: bind('codehost.issue') }), []],
    [trigger(['codehost.issue.opened', 'codehost.push'], { routing: bind('codehost.issue') }), ['route-never-matches']],
    [trigger(['codehost.push'], { routing: bind('agent.singleton') }), []],
    [trigger([], { routing: bind('chat.thread') }), ['route-never-matches']],
    [trigger([], { routing: attributed }), ['route-never-matches']],
    [trigger(['codehost.push'], { routing: attributed }), ['route-never-matches']],
    [trigger(['chat.message.edited'], { routing: attributed }), []],
    [
      trigger(['codehost.push'], { routing: { kind: 'spawn', bind: { target: 'codehost.issue' } } }),
      ['bind-never-matches'],
    ],
    [
      trigger(['codehost.issue.opened'], { routing: { kind: 'spawn', bind: { target: 'agent.singleton' } } }),
      ['bind-never-matches'],
    ],
    [
      trigger(['codehost.issue.opened'], {
        routing: { kind: 'deliver', onUnmatched: 'drop', bind: { target: 'chat.thread' } },
      }),
      ['route-never-matches'],
    ],
    [trigger(['codehost.issue.opened'], { routing: { kind: 'deliver', onUnmatched: 'drop' } }), []],
  ];
  for (const [one, expected] of cases) assert.deepEqual(codes(one), expected, JSON.stringify(one.routing));
});

test('a fallback that another trigger leaves nothing is named', () => {
  type Parts = Parameters<typeof trigger>[1];
  const fallback = (where: Where, parts: Parts = {}) => trigger(['webhook.x'], { ...parts, where, fallback: true });
  const plain = (where: Where, parts: Parts = {}) => trigger(['webhook.x'], { ...parts, where });
  const dead = (...triggers: LintTrigger[]) => lintFallbacks(triggers).length;
  assert.equal(dead(fallback({ a: 1 }), plain({})), 1);
  assert.equal(dead(plain({ b: 2, a: 1 }), fallback({ a: 1, b: 2 })), 1);
  assert.equal(dead(plain({ a: 1 }), fallback({})), 0);
  assert.equal(dead(plain({}, { endpoint: 'one' }), fallback({}, { endpoint: 'two' })), 0);
  assert.equal(dead(plain({}, { endpoint: 'one' }), fallback({}, { endpoint: 'one' })), 1);
  assert.equal(dead(plain({}, { connection: 'one' }), fallback({})), 0);
  assert.equal(dead(plain({}, { isOptional: true }), fallback({})), 0);
  assert.equal(dead(fallback({}), fallback({})), 0);
});

test('a spawn on what sessions write themselves may go round', () => {
  const loops = (event: string, where: Where) => codes(trigger([event], { where })).includes('loop-possible');
  assert.equal(loops('codehost.issue_comment.created', {}), true);
  assert.equal(loops('codehost.issue_comment.created', { '$.codehost.svc.authored': false }), false);
  assert.equal(loops('chat.message.mentioned', {}), false);
  assert.equal(loops('chat.message.subscribed', {}), true);
  assert.equal(loops('codehost.issue.opened', {}), false);
});

test('near-miss root keys are named, far ones and known ones are not', () => {
  const rootKeys = ['tirggers', 'enviroment', 'Model', 'description', 'x-team', 'imports', 'remove', 'kind'].map(
    (key, index) => ({ key, range: at(index) }),
  );
  const found = lint({ rootKeys, triggers: [], refs: [], texts: [] }).map(({ path, hint }) => `${path}: ${hint}`);
  assert.deepEqual(found, [
    'tirggers: Did you mean triggers?',
    'enviroment: Did you mean environment?',
    'Model: Did you mean model?',
  ]);
});

test('of thousands of unknown root keys the first are looked at', () => {
  const rootKeys = Array.from({ length: 3_000 }, (_, index) => ({ key: `trigger${index}`, range: at(index) }));
  const slips = rootKeys.map((one, index) => (index === 999 || index === 1_000 ? { ...one, key: 'tirggers' } : one));
  const found = lint({ rootKeys: slips, triggers: [], refs: [], texts: [] }).map(({ range }) => range?.start);
  assert.deepEqual([found.includes(at(999).start), found.includes(at(1_000).start)], [true, false]);
});

test('edit distance counts a swap of neighbours once and stops at its limit', () => {
  assert.equal(editDistance('kind', 'kind', 2), 0);
  assert.equal(editDistance('knid', 'kind', 2), 1);
  assert.equal(editDistance('', 'ab', 2), 2);
  assert.equal(editDistance('abc', 'xyz', 1), 2);
  assert.equal(editDistance('abcdef', 'a', 2), 3);
  assert.equal(nearest('x'.repeat(65), ['x'.repeat(64)]), undefined);
  assert.equal(nearest('evnt', ['event', 'events']), 'event');
});

test('a token in ref that does not begin with payload is named', () => {
  const found = (ref: string) =>
    lint({ rootKeys: [], triggers: [], refs: [{ ref, range: at(0), path: 'mounts[0].ref' }], texts: [] }).map(
      ({ code }) => code,
    );
  assert.deepEqual(found('refs/pull/{{codehost.pullRequest.number}}/head'), ['ignored-token']);
  assert.deepEqual(found('{{ payload.a }}/{{ b }}'), ['ignored-token']);
  assert.deepEqual(found(`{{${'a'.repeat(1_000_000)}`), []);
  for (const ref of ['main', '{{ payload.codehost.x }}', '{{triggerEventId}}', '{{', '{{ payload }}', '{{}}'])
    assert.deepEqual(found(ref), [], ref);
});
