import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { agentHead, checkText, toldOf, marked, specOf } from './testkit.ts';

const on = (routing: string, event = 'codehost.pull_request.opened', more = ''): string =>
  `{event: ${event}, ${more}routing: {${routing}}}`;
const one = (routing: string, event?: string, more?: string): string => `triggers: [${on(routing, event, more)}]\n`;
const chat = 'chat.message.mentioned';
const notMine = 'where: {$.svc.authored: false}, ';
const session = 'svc.session.binding.bound';

const refused: readonly (readonly [body: string, codes: string, message?: string])[] = [
  ['triggers: [{event: codehost.push, routing: §spawn}]\n', 'invalid-type'],
  ['triggers: [{event: codehost.push, routing: §{}}]\n', 'missing-field'],
  [one('kind: §spawns'), 'routing-invalid'],
  [one('kind: spawn, §target: chat.thread'), 'routing-invalid'],
  [one('kind: spawn, §onUnmatched: drop'), 'routing-invalid'],
  [one('kind: spawn, §foo: 1'), 'unknown-key'],
  [one('kind: spawn, bind: {§context: {}}'), 'missing-field'],
  [one('kind: spawn, bind: {target: §slack.thread}'), 'binding-target'],
  [one('kind: spawn, bind: {target: codehost.pull_request, §policy: x}'), 'unknown-key'],
  [one('kind: spawn, bind: {target: codehost.pull_request, lifecycle: §forever}'), 'invalid-value'],
  [one('kind: spawn, bind: {target: agent.singleton, §lifecycle: manual, §continuity: agent}'), 'binding-target'],
  [one('kind: spawn, bind: {target: codehost.pull_request, context: §x}'), 'invalid-type'],
  [one('kind: spawn, bind: {target: codehost.pull_request, eventContext: {§other: {}}}'), 'unknown-key'],
  [one('kind: spawn, bind: {target: codehost.pull_request, eventContext: {bound: §1}}'), 'invalid-type'],
  [one('kind: §deliver'), 'deliver-without-slot'],
  [
    `triggers: [${[on('kind: §deliver'), on('kind: bind, target: agent.singleton'), on('kind: bind, target: chat.thread, onUnmatched: spawn', chat), on('kind: deliver, routeBy: {kind: attributedSessions}, onUnmatched: spawn')].join(', ')}]\n`,
    'deliver-without-slot',
  ],
  [one('kind: deliverOrSpawn, onUnmatched: §bogus'), 'invalid-value'],
  ['triggers: [{event: codehost.push, routing: §x}]\n', 'invalid-type'],
  [
    `triggers: [${on('kind: §spawn', chat)}, ${on('kind: §spawn', chat)}, ${on('kind: spawn', chat, 'where: {$.svc.attributions: §null}, ')}, ${on('kind: §deliver, routeBy: {kind: attributedSessions}', chat, notMine)}]\n`,
    'attributions-exclusive',
  ],
  [
    one('kind: deliver, routeBy: {kind: §singleton}').replace('§', '').replace('kind: deliver', 'kind: §deliver'),
    'deliver-without-slot',
  ],
  [one('kind: deliver, routeBy: §attributedSessions'), 'invalid-type'],
  [one('kind: deliver, routeBy: {kind: §all}'), 'routing-invalid'],
  [one('kind: deliver, routeBy: {kind: allLiveSessions, §artifactType: chat.thread}'), 'unknown-key'],
  [one('kind: deliver, routeBy: {§kind: ownedArtifact}'), 'missing-field'],
  [one('kind: deliver, routeBy: {kind: ownedArtifact, artifactType: §x}'), 'binding-target'],
  [
    one('kind: deliver, routeBy: {kind: ownedArtifact, artifactType: chat.thread}, §bind: {target: chat.thread}', chat),
    'routing-invalid',
  ],
  [one('kind: deliver, routeBy: {kind: allLiveSessions}, onUnmatched: §ignore'), 'invalid-value'],
  [one('kind: deliver, routeBy: {kind: allLiveSessions}, §release: true'), 'routing-invalid'],
  [one('kind: deliver, routeBy: {kind: allLiveSessions}, bind: {target: §codehost.issue}'), 'binding-target'],
  [one('kind: deliver, routeBy: {kind: allLiveSessions}, bind: {target: §agent.singleton}'), 'binding-target'],
  [one('kind: deliverOrSpawn, onUnmatched: §drop'), 'routing-invalid'],
  [one('§kind: bind'), 'missing-field'],
  [one('kind: bind, target: §codehost.pr'), 'binding-target'],
  [one('kind: bind, target: codehost.pull_request, onUnmatched: §x'), 'invalid-value'],
  [one('kind: bind, target: codehost.pull_request, §routeBy: {kind: allLiveSessions}'), 'routing-invalid'],
  [one('kind: bind, target: codehost.pull_request, release: §"true"'), 'invalid-type'],
  [one('kind: bind, target: codehost.pull_request, release: {§reason: x}'), 'unknown-key'],
  [one('kind: bind, target: codehost.pull_request, release: {context: §x}'), 'invalid-type'],
  [one('kind: bind, target: agent.singleton, §release: true'), 'release-singleton'],
  [one('kind: bind, target: agent.singleton, §lifecycle: held'), 'binding-target'],
  [one('kind: bind, target: codehost.pull_request, §observedTarget: {action: unbind}'), 'observed-target'],
  [one('kind: bind, target: codehost.pull_request, §observedTarget: {action: unbind}', session), 'observed-target'],
  [
    one('kind: bind, target: svc.session, §observedTarget: {action: unbind}', 'svc.project.onboarded'),
    'observed-target',
  ],
  [one('kind: bind, target: svc.session, observedTarget: {action: §move}', session), 'observed-target'],
  [one('kind: bind, target: svc.session, observedTarget: {action: unbind, §context: {}}', session), 'unknown-key'],
  [one('kind: bind, target: svc.session, observedTarget: §{}', session), 'missing-field'],
  [
    'triggers: [{kind: heartbeat, cron: "0 0 * * *", routing: {kind: bind, target: svc.session, §observedTarget: {action: bind}}}]\n',
    'observed-target',
  ],
  [one('kind: bind, target: codehost.pull_request, lifecycle: §held'), 'binding-held'],
  ['bindings: {codehost.issue: {lifecycle: §held}}\n', 'binding-held'],
  [
    'bindings: {codehost.pull_request: {lifecycle: §held}}\n' + one('kind: bind, target: codehost.pull_request'),
    'binding-held',
  ],
  ['bindings: §[]\n', 'invalid-type'],
  ['bindings: {§agent.singleton: {}}\n', 'binding-target'],
  ['bindings: {§codehost.pull_requests: {}}\n', 'binding-target'],
  ['bindings: {codehost.issue: §held}\n', 'invalid-type'],
  ['bindings: {codehost.issue: {§life: held}}\n', 'unknown-key'],
  ['bindings: {codehost.issue: {bind: §onAttributedEvent}}\n', 'binding-mode'],
  ['bindings: {codehost.pull_request: {bind: §onMention}}\n', 'binding-mode'],
  ['bindings: {codehost.pull_request: {bind: §always}}\n', 'invalid-value'],
  ['bindings: {codehost.pull_request: {context: §[]}}\n', 'invalid-type'],
  [
    'bindings: {codehost.pull_request: {continuity: §agent}}\n' +
      one('kind: spawn, bind: {target: codehost.pull_request, continuity: §session}'),
    'binding-conflict',
  ],
  [
    `triggers: [${on('kind: spawn, bind: {target: codehost.pull_request, continuity: §session}')}, ${on('kind: bind, target: codehost.pull_request, continuity: §agent')}]\n`,
    'binding-conflict',
  ],
  [one('kind: deliver, routeBy: {kind: §attributedSessions}', chat), 'attributed-authored'],
  [
    one('kind: deliver, routeBy: {kind: attributedRuns}', chat, 'where: {$.svc.authored: {in: §[false]}}, ')
      .replace('§[false]', '[false]')
      .replace('{in', '§{in'),
    'attributed-authored',
  ],
  [
    one('kind: deliver, routeBy: {kind: attributedSessions}', chat, 'where: {$.svc.authored: §true}, '),
    'attributed-authored',
  ],
  [
    one('kind: deliver, routeBy: {kind: §attributedSessions}', chat, 'where: {authored: false}, '),
    'attributed-authored',
  ],
  [
    `triggers: [${on('kind: §spawn', chat)}, ${on('kind: §deliver, routeBy: {kind: attributedSessions}', chat, notMine)}]\n`,
    'attributions-exclusive',
  ],
  [
    `triggers: [${on('kind: §spawn', 'codehost.review.edited')}, ${on('kind: §deliver, routeBy: {kind: attributedSessions}', 'codehost.pull_request_review.edited')}]\n`,
    'attributions-exclusive',
  ],
  [
    `triggers: [${on('kind: spawn', chat, 'where: {$.svc.attributions: §{exists: true}}, ')}, ${on('kind: deliver, routeBy: {kind: attributedSessions}', chat, 'where: {$.svc.authored: false, $.svc.attributions: §{exists: true}}, ')}]\n`,
    'attributions-exclusive',
  ],
  [
    `triggers: [${on('kind: spawn', chat, 'where: {$.svc.attributions: §{exists: false}}, ')}, ${on('kind: §deliver, routeBy: {kind: attributedSessions}', chat, notMine)}]\n`,
    'attributions-exclusive',
  ],
  // What rests on the kind of a route alone is told beside another mistake in it.
  [
    one('kind: deliver, routeBy: {kind: allLiveSessions}, §foo: 1', undefined, '§attachedUserPrompt: x, '),
    'attached-prompt unknown-key',
  ],
  [one('kind: bind, target: §codehost.pr', undefined, '§attachedUserPrompt: x, '), 'attached-prompt binding-target'],
  [
    one('kind: deliver, routeBy: {kind: §attributedSessions}, onUnmatched: §ignore', chat),
    'attributed-authored invalid-value',
  ],
  [
    `triggers: [${on('kind: §spawn, §foo: 1', chat)}, ${on('kind: §deliver, routeBy: {kind: attributedRuns}, bind: {target: §x}', chat, notMine)}]\n`,
    'attributions-exclusive unknown-key attributions-exclusive binding-target',
  ],
];
for (const [body, codes] of refused) {
  test(`refuses ${JSON.stringify(body.slice(0, 200))}`, () => {
    const { expected, found, messages } = marked(body, codes);
    assert.deepEqual(found, expected, messages.join('\n'));
  });
}
test('each of them is told in these words', (t) => {
  const file = join(import.meta.dirname, '../../../testdata/messages/check-routing.txt');
  t.assert.fileSnapshot(
    toldOf([
      ...refused.map(([body]) => [body] as const),
      [
        `triggers: [${['kind: spawn', 'kind: deliver, routeBy: {kind: attributedSessions}'].map((routing) => on(routing, `codehost.${'x'.repeat(80)}`)).join(', ')}]\n`,
      ],
      [`bindings: {${'k'.repeat(81)}: {}}\n`],
      ['bindings: {agent.singleton: {}}\n'],
      ['bindings: {chat.thred: {}}\n'],
      ['bindings: {chat.thread: {lifecycle: x, continuity: [y], bind: z}}\n'],
      ['bindings: {chat.thread: {bind: onMention}, codehost.pull_request: {bind: onMention}}\n'],
      ['bindings: x\n'],
      ['bindings: {chat.thread: x, other: {lifecycle: held}}\n'],
    ]),
    file,
    { serializers: [String] },
  );
});

const canonicalList: readonly (readonly [written: string, canonical: unknown, event?: string])[] = [
  ['kind: spawn', { kind: 'spawn' }],
  [
    'kind: spawn, bind: {target: codehost.pull_request, context: {a: [1]}, eventContext: {bound: {}}, continuity: agent}',
    { kind: 'spawn', bind: { target: 'codehost.pull_request', context: { a: [1] }, eventContext: { bound: {} } } },
  ],
  ['kind: deliver, onUnmatched: spawn', { kind: 'deliver', onUnmatched: 'spawn' }],
  ['kind: deliver, routeBy: {kind: singleton}, onUnmatched: spawn', { kind: 'deliver', onUnmatched: 'spawn' }],
  [
    'kind: deliver, routeBy: {kind: allLiveRuns}',
    { kind: 'deliver', routeBy: { kind: 'allLiveSessions' }, onUnmatched: 'drop' },
  ],
  [
    'kind: deliver, routeBy: {kind: attributedRuns}, onUnmatched: warn',
    { kind: 'deliver', routeBy: { kind: 'attributedSessions' }, onUnmatched: 'warn' },
  ],
  [
    'kind: deliver, routeBy: {kind: ownedArtifact, artifactType: codehost.pull_request}, onUnmatched: error',
    { kind: 'bind', target: 'codehost.pull_request', onUnmatched: 'error', release: false },
  ],
  ['kind: deliverOrSpawn', { kind: 'deliver', onUnmatched: 'spawn' }],
  [
    'kind: deliverOrSpawn, onUnmatched: spawn, routeBy: {kind: attributedSessions}',
    { kind: 'deliver', routeBy: { kind: 'attributedSessions' }, onUnmatched: 'spawn' },
  ],
  [
    'kind: deliver, routeBy: {kind: allLiveSessions}, bind: {target: chat.thread}',
    { kind: 'deliver', routeBy: { kind: 'allLiveSessions' }, onUnmatched: 'drop', bind: { target: 'chat.thread' } },
    'chat.reaction.added',
  ],
  [
    'kind: bind, target: codehost.pull_request',
    { kind: 'bind', target: 'codehost.pull_request', onUnmatched: 'drop', release: false },
  ],
  [
    'kind: bind, target: codehost.pull_request, release: true',
    { kind: 'bind', target: 'codehost.pull_request', onUnmatched: 'drop', release: { context: null } },
  ],
  [
    'kind: bind, target: codehost.pull_request, release: {}',
    { kind: 'bind', target: 'codehost.pull_request', onUnmatched: 'drop', release: { context: null } },
  ],
  [
    'kind: bind, target: codehost.pull_request, release: {context: {why: done}}',
    { kind: 'bind', target: 'codehost.pull_request', onUnmatched: 'drop', release: { context: { why: 'done' } } },
  ],
  [
    'kind: bind, target: agent.singleton, onUnmatched: spawn, release: false',
    { kind: 'bind', target: 'agent.singleton', onUnmatched: 'spawn', release: false },
  ],
  [
    'kind: bind, target: svc.session, observedTarget: {action: bind, context: {a: 1}, eventContext: {unbound: {}}}',
    {
      kind: 'bind',
      target: 'svc.session',
      onUnmatched: 'drop',
      release: false,
      observedTarget: { action: 'bind', context: { a: 1 }, eventContext: { unbound: {} } },
    },
    session,
  ],
  [
    'kind: bind, target: svc.session, observedTarget: {action: unbind}',
    { kind: 'bind', target: 'svc.session', onUnmatched: 'drop', release: false, observedTarget: { action: 'unbind' } },
    session,
  ],
];
for (const [written, canonical, event] of canonicalList) {
  test(`reads {${written}}`, () => {
    assert.deepEqual(specOf(one(written, event)).triggers[0]?.routing, canonical);
  });
}

test('a plain delivery is fine with a slot, whichever delivery or setting gives it', () => {
  assert.equal(specOf(`concurrency: 1\n${one('kind: deliver')}`).triggers.length, 1);
  assert.equal(
    specOf(`triggers: [${on('kind: deliver')}, ${on('kind: deliver, onUnmatched: spawn')}]\n`).triggers.length,
    2,
  );
  assert.equal(
    specOf(`triggers: [${on('kind: deliver')}, ${on('kind: bind, target: agent.singleton, onUnmatched: spawn')}]\n`)
      .triggers.length,
    2,
  );
});

test('inline policies fold into bindings with defaults, beside explicit ones', () => {
  const body =
    'bindings: {codehost.pull_request: {bind: onAttributedEvent, context: {a: 1}, eventContext: {updated: {b: 2}}}, tracker.issue: {}}\n' +
    `triggers: [${on('kind: spawn, bind: {target: codehost.pull_request, lifecycle: held}')}, ` +
    `${on('kind: bind, target: codehost.pull_request, release: {}, continuity: agent, lifecycle: held')}, ` +
    `${on('kind: deliver, routeBy: {kind: allLiveSessions}, bind: {target: chat.thread, continuity: agent}', chat)}, ` +
    `${on('kind: spawn, bind: {target: codehost.issue}', 'codehost.issue.opened')}]\n`;
  assert.deepEqual(specOf(body).bindings, {
    'codehost.pull_request': {
      lifecycle: 'held',
      continuity: 'agent',
      bind: 'onAttributedEvent',
      context: { a: 1 },
      eventContext: { updated: { b: 2 } },
    },
    'chat.thread': { lifecycle: 'manual', continuity: 'agent', bind: 'onMention' },
    'tracker.issue': { lifecycle: 'manual', continuity: 'session' },
  });
});

test('a spawn and an attributed delivery that exclude each other pass, and so do other events', () => {
  const body =
    `triggers: [${on('kind: spawn', chat, 'where: {$.svc.attributions: {exists: false}}, ')}, ` +
    `${on('kind: deliver, routeBy: {kind: attributedSessions}', chat, 'where: {$.svc.authored: false, $.svc.attributions: {exists: true}}, ')}, ` +
    `${on('kind: deliver, routeBy: {kind: attributedSessions}', 'chat.message.subscribed', notMine)}, ` +
    `${on('kind: bind, target: chat.thread', 'chat.message.subscribed')}, ` +
    `${on('kind: spawn')}, ${on('kind: deliver, routeBy: {kind: allLiveSessions}')}]\n`;
  assert.equal(specOf(body).triggers.length, 6);
});

test('a key left over from another layer names the two layers', async () => {
  const { checkRouting } = await import('./check-routing.ts');
  const { createCheck } = await import('./read.ts');
  const at = (file: string, start: number) => ({ file, start, end: start + 1 });
  const scalar = (value: string, file: string) => ({ kind: 'scalar', value, range: at(file, 3) }) as const;
  const entries = new Map([
    ['kind', { keyRange: at('top.yaml', 1), value: scalar('spawn', 'top.yaml') }],
    ['onUnmatched', { keyRange: at('base.yaml', 2), value: scalar('drop', 'base.yaml') }],
  ]);
  const messages: string[] = [];
  const spot = {
    node: { kind: 'map', entries, range: at('top.yaml', 0) },
    key: at('top.yaml', 0),
    trail: null,
  } as const;
  checkRouting(
    createCheck((finding) => messages.push(finding.message)),
    spot,
  );
  assert.deepEqual(messages, [
    'onUnmatched belongs to deliver and bind routing and is not accepted with kind spawn; the key comes from base.yaml, the kind from top.yaml',
  ]);
});

test('thousands of triggers on one event cost findings that stay in proportion', () => {
  const spawns = Array.from({ length: 1000 }, () => on('kind: spawn', chat)).join(', ');
  const delivers = Array.from({ length: 1000 }, () =>
    on('kind: deliver, routeBy: {kind: attributedSessions}', chat, notMine),
  ).join(', ');
  const { findings } = checkText(`${agentHead}triggers: [${spawns}, ${delivers}]\n`);
  assert.ok(findings.length < 10_000, String(findings.length));
});
