// What each finding of a trigger says, to its last word. A row is a trigger and what is found.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Routing } from '../../domain/spec.ts';
import { lint, lintFallbacks } from './lint.ts';
import { nothing, text, told, trigger } from './testkit.ts';
import type { LintText, LintTrigger } from './types.ts';

const deliver = (parts: object): Routing => ({ kind: 'deliver', onUnmatched: 'drop', ...parts }) as Routing;
const bindTo = (target: string): Routing => ({ kind: 'bind', target, onUnmatched: 'drop', release: false }) as Routing;
const long = 'x'.repeat(100);
const push = 'codehost.push';
const mail = (of: string, events: readonly string[] = [push], parts: Partial<LintText> = {}): LintTrigger =>
  trigger(events, { message: text(of, { path: 'triggers[0].message', reads: 'event', ...parts }) });
const where = (events: readonly string[], ...paths: string[]): LintTrigger =>
  trigger(events, { where: Object.fromEntries(paths.map((path) => [path, 'a'])) });

const triggers: readonly (readonly [LintTrigger, readonly string[]])[] = [
  [
    trigger([`codehost.${long}`]),
    [
      `event-unknown triggers[0].events[0]@0: No known source emits the event codehost.${'x'.repeat(71)}; the trigger applies and never fires`,
    ],
  ],
  [trigger(['webhook.receivd']), []],
  [
    trigger(['tracker.zzzzzzzzzzzz.opened', 'chat.zzzzzzzzzzzzz.created']),
    [
      'event-unknown triggers[0].events[0]@0: No known source emits the event tracker.zzzzzzzzzzzz.opened; the trigger applies and never fires',
      'event-unknown triggers[0].events[1]@1: No known source emits the event chat.zzzzzzzzzzzzz.created; the trigger applies and never fires',
    ],
  ],
  [
    trigger(['svc.zzzzzzzzzzzzzzzzzz.mentioned']),
    [
      'event-unknown triggers[0].events[0]@0: No known source emits the event svc.zzzzzzzzzzzzzzzzzz.mentioned; the trigger applies and never fires',
    ],
  ],
  [
    where(
      ['codehost.issue.opened'],
      '$.svc.authored',
      '$.codehost.svc.authored',
      '$.authored',
      'authored',
      '$.codehost.authored',
    ),
    [
      'authored-path triggers[0].where["$.authored"]@102: $.authored never exists in codehost payloads | Use $.svc.authored.',
      'authored-path triggers[0].where["authored"]@103: authored never exists in codehost payloads | Use $.svc.authored.',
      'authored-path triggers[0].where["$.codehost.authored"]@104: $.codehost.authored never exists in codehost payloads | Use $.svc.authored.',
    ],
  ],
  [
    where(['chat.message.mentioned'], '$.svc.authored', '$.chat.authored', '$.auto.authored'),
    [
      'authored-path triggers[0].where["$.chat.authored"]@101: $.chat.authored never exists in chat payloads | Use $.svc.authored.',
      'authored-path triggers[0].where["$.auto.authored"]@102: $.auto.authored never exists in chat payloads | Use $.svc.authored.',
    ],
  ],
  [
    where(['svc.session.binding.bound'], '$.svc.authored', '$.svc.svc.authored'),
    [
      'authored-path triggers[0].where["$.svc.svc.authored"]@101: $.svc.svc.authored never exists in svc payloads | Use $.svc.authored.',
    ],
  ],
  [
    where(['webhook.a', 'tracker.issue.created'], '$.svc.authored', '$.tracker.svc.authored'),
    [
      'authored-path triggers[0].where["$.tracker.svc.authored"]@101: $.tracker.svc.authored never exists in tracker payloads | Use $.svc.authored.',
    ],
  ],
  [
    where(['unheard.of', 'tracker.issue.created'], '$.codehost.svc.authored'),
    [
      'event-unknown triggers[0].events[0]@0: No known source emits the event unheard.of; the trigger applies and never fires',
      'authored-path triggers[0].where["$.codehost.svc.authored"]@100: $.codehost.svc.authored never exists in tracker payloads | Use $.svc.authored.',
    ],
  ],
  [
    where(['unheard.of'], '$.codehost.svc.authored'),
    [
      'event-unknown triggers[0].events[0]@0: No known source emits the event unheard.of; the trigger applies and never fires',
    ],
  ],
  [
    where([], '$.svc.authored', 'authored', 'trigger', '$.heartbeat.scheduledAt'),
    [
      'authored-path triggers[0].where["$.svc.authored"]@100: $.svc.authored never exists in heartbeat payloads',
      'authored-path triggers[0].where["authored"]@101: authored never exists in heartbeat payloads',
    ],
  ],
  [
    trigger([], { where: { '$.heartbeat.schedule': 'a', '$.other.thing': 'a' } }),
    [
      'payload-path triggers[0].where["$.heartbeat.schedule"]@100: $.heartbeat.schedule never exists in the tick of a heartbeat | Did you mean $.heartbeat.scheduleId?',
    ],
  ],
  [
    trigger([], { routing: bindTo('chat.thread') }),
    [
      'route-never-matches triggers[0].routing@300: A heartbeat has no target, so a bind route on chat.thread never matches',
    ],
  ],
  [
    trigger([], { routing: { kind: 'spawn', bind: { target: 'codehost.issue' } } }),
    [
      'bind-never-matches triggers[0].routing@300: A heartbeat has no target, so spawn.bind on codehost.issue never matches',
    ],
  ],
  [
    trigger([push], { routing: bindTo('codehost.issue') }),
    [
      'route-never-matches triggers[0].routing@300: The event codehost.push has no target, so a bind route on codehost.issue never matches',
    ],
  ],
  [
    trigger([`codehost.push.${long}`], { routing: bindTo('codehost.issue') }),
    [
      `event-unknown triggers[0].events[0]@0: No known source emits the event codehost.push.${'x'.repeat(66)}; the trigger applies and never fires`,
      `route-never-matches triggers[0].routing@300: The event codehost.push.${'x'.repeat(66)} has no target, so a bind route on codehost.issue never matches`,
    ],
  ],
  [
    trigger(['tracker.issue.updated'], { routing: { kind: 'spawn', bind: { target: 'codehost.issue' } } }),
    [
      'bind-never-matches triggers[0].routing@300: The event tracker.issue.updated has the target tracker.issue, so spawn.bind on codehost.issue never matches',
    ],
  ],
  [trigger(['tracker.issue.updated'], { routing: { kind: 'spawn', bind: { target: 'tracker.issue' } } }), []],
  [
    trigger(['tracker.issue.updated'], { routing: { kind: 'spawn', bind: { target: 'agent.singleton' } } }),
    [
      'bind-never-matches triggers[0].routing@300: No event has the target agent.singleton, so this spawn binds nothing',
    ],
  ],
  [
    trigger([], { routing: { kind: 'spawn', bind: { target: 'agent.singleton' } } }),
    [
      'bind-never-matches triggers[0].routing@300: No event has the target agent.singleton, so this spawn binds nothing',
    ],
  ],
  [
    trigger(['tracker.issue.updated'], { routing: deliver({ bind: { target: 'chat.thread' } }) }),
    [
      'route-never-matches triggers[0].routing@300: The event tracker.issue.updated has the target tracker.issue, so deliver.bind on chat.thread never matches',
    ],
  ],
  [trigger(['tracker.issue.updated'], { routing: deliver({ bind: { target: 'tracker.issue' } }) }), []],
  [
    trigger([push], { routing: deliver({ routeBy: { kind: 'attributedSessions' } }) }),
    [
      'route-never-matches triggers[0].routing@300: The event codehost.push has no target, so routeBy attributedSessions on chat.thread never matches',
    ],
  ],
  [
    trigger([], { routing: deliver({ routeBy: { kind: 'attributedSessions' } }) }),
    [
      'route-never-matches triggers[0].routing@300: A heartbeat has no target, so routeBy attributedSessions on chat.thread never matches',
    ],
  ],
  [trigger(['tracker.issue.updated'], { routing: deliver({ routeBy: { kind: 'attributedSessions' } }) }), []],
  [
    trigger(['codehost.issue.comment.created'], { where: {} }),
    [
      'loop-possible triggers[0].routing@300: A session that this spawns may cause codehost.issue.comment.created itself and so spawn the next | Add "$.svc.authored: false" to where.',
    ],
  ],
  ...['review.submitted', 'pull_request_review.submitted', 'pull_request_review_comment.created'].map(
    (said): readonly [LintTrigger, readonly string[]] => [
      trigger([`codehost.${said}`], { where: {} }),
      [
        `loop-possible triggers[0].routing@300: A session that this spawns may cause codehost.${said} itself and so spawn the next | Add "$.svc.authored: false" to where.`,
      ],
    ],
  ),
  [trigger(['tracker.comment.created'], { where: { '$.svc.authored': true } }), []],
  [trigger(['tracker.comment.created'], { where: {}, routing: deliver({}) }), []],
  [
    trigger(['chat.message.mentioned', 'chat.message.created'], { where: {} }),
    [
      'event-unknown triggers[0].events[1]@1: No known source emits the event chat.message.created; the trigger applies and never fires | Did you mean chat.message.edited?',
      'loop-possible triggers[0].routing@300: A session that this spawns may cause chat.message.created itself and so spawn the next | Add "$.svc.authored: false" to where.',
    ],
  ],
  [
    where(
      [push],
      '$.codehost.push.reff',
      '$.codehost.pushed.ref',
      '$.codehost.push.commits.0.id',
      '$.codehost.push.ref',
    ),
    [
      'payload-path triggers[0].where["$.codehost.push.reff"]@100: $.codehost.push.reff never exists in the payload of codehost.push | Did you mean $.codehost.push.ref?',
      'payload-path triggers[0].where["$.codehost.pushed.ref"]@101: $.codehost.pushed.ref never exists in the payload of codehost.push | Did you mean $.codehost.push.ref?',
    ],
  ],
  [
    where(
      [push],
      'codehost.push.reff',
      '$.codehost.{{ a }}.b',
      '$.mine.reff',
      '$.codehots.push.ref',
      '$.toString',
      'codehost',
    ),
    [
      'payload-path triggers[0].where["$.codehots.push.ref"]@103: $.codehots.push.ref never exists in the payload of codehost.push | Did you mean $.codehost.push.ref?',
    ],
  ],
  [
    where(
      [push, 'codehost.issue.opened'],
      '$.codehost.push.reff',
      '$.codehost.issue.number',
      '$.codehost.nothing.alike',
    ),
    [
      'payload-path triggers[0].where["$.codehost.push.reff"]@100: $.codehost.push.reff never exists in the payload of any of these events | Did you mean $.codehost.push.ref?',
      'payload-path triggers[0].where["$.codehost.nothing.alike"]@102: $.codehost.nothing.alike never exists in the payload of any of these events',
    ],
  ],
  [where([push, 'webhook.a'], '$.codehost.push.reff'), []],
  [
    where([push], `$.codehost.${long}.sha`, `$.codehost.${long}.defaultBranch`, '$.raww.x', '$.svd.x'),
    [
      `payload-path triggers[0].where["$.codehost.${'x'.repeat(69)}"]@100: $.codehost.${'x'.repeat(69)} never exists in the payload of codehost.push`,
      `payload-path triggers[0].where["$.codehost.${'x'.repeat(69)}"]@101: $.codehost.${'x'.repeat(69)} never exists in the payload of codehost.push | Did you mean $.codehost.repository.defaultBranch?`,
      'payload-path triggers[0].where["$.raww.x"]@102: $.raww.x never exists in the payload of codehost.push',
    ],
  ],
  [
    mail('{{ codehost.push.reff }} and {{ codehost.push.branchh }}'),
    [
      'payload-path triggers[0].message@7: {{ codehost.push.reff }} never exists in the payload of codehost.push, and is rendered as nothing | Did you mean {{ codehost.push.ref }}?',
    ],
  ],
  [
    mail('{{ codehost.push.ref }} {{ mine.a }} {{ payload.codehost.x }} {{ payload }} {{ codehost }} {{ nothing }}'),
    [],
  ],
  [mail('{{ codehost.push.reff }}', ['webhook.a']), []],
  [mail('{{ codehost.push.reff }}', [push], { reads: 'nothing' }), []],
  [
    mail('{{ heartbeat.scheduleId }} {{ heartbeat.nothing }}', []),
    [
      'payload-path triggers[0].message@7: {{ heartbeat.nothing }} never exists in the tick of a heartbeat, and is rendered as nothing',
    ],
  ],
  [
    mail('{{ codehost.push.reff }}', [push, 'codehost.issue.opened']),
    [
      'payload-path triggers[0].message@7: {{ codehost.push.reff }} never exists in the payload of any of these events, and is rendered as nothing | Did you mean {{ codehost.push.ref }}?',
    ],
  ],
  [
    mail(`{{ codehost.${long} }}`),
    [
      `payload-path triggers[0].message@7: {{ codehost.${'x'.repeat(71)} }} never exists in the payload of codehost.push, and is rendered as nothing`,
    ],
  ],
  [
    mail('{{ codehost.push.ref'),
    [
      'ignored-token triggers[0].message@7: triggers[0].message holds a {{ that nothing closes, which stays as it is: {{ codehost.push.ref | Write {{ path }}.',
    ],
  ],
  [
    mail('{{ codehost.push.ref }} {{'),
    [
      'ignored-token triggers[0].message@7: triggers[0].message holds a {{ that nothing closes, which stays as it is: {{ | Write {{ path }}.',
    ],
  ],
  [
    mail(`{{ ${long}`),
    [
      `ignored-token triggers[0].message@7: triggers[0].message holds a {{ that nothing closes, which stays as it is: {{ ${'x'.repeat(37)} | Write {{ path }}.`,
    ],
  ],
  [mail('{{ open', [push], { reads: 'nothing' }), []],
  [
    mail('{{ $branch }}', [push], { isOwn: true }),
    [
      'ignored-token triggers[0].message@7: The token {{ $branch }} stays as it is: variables are put into imported content only | Write the value itself here, or move the text into a fragment that is imported.',
    ],
  ],
  [
    mail('{{$branch}} {{ open', [push], { isOwn: true }),
    [
      'ignored-token triggers[0].message@7: The token {{$branch}} stays as it is: variables are put into imported content only | Write the value itself here, or move the text into a fragment that is imported.',
      'ignored-token triggers[0].message@7: triggers[0].message holds a {{ that nothing closes, which stays as it is: {{ open | Write {{ path }}.',
    ],
  ],
  [
    mail(`{{ $${long} }}`, [push], { isOwn: true }),
    [
      `ignored-token triggers[0].message@7: The token {{ $${'x'.repeat(76)} stays as it is: variables are put into imported content only | Write the value itself here, or move the text into a fragment that is imported.`,
    ],
  ],
  [mail(`{{ $${'x'.repeat(121)} }}`, [push], { isOwn: true }), []],
  [mail('{{ $branch }}'), []],
  [mail('no token'), []],
  [
    trigger(['webhok.received']),
    [
      'event-unknown triggers[0].events[0]@0: No known source emits the event webhok.received; the trigger applies and never fires | Did you mean webhook.received?',
    ],
  ],
  [
    trigger(['chat.zzzzzzzzzzzzzzzz.mentioned', 'codehost.zzzzzzzzzzzzzzzz.mentioned']),
    [
      'event-unknown triggers[0].events[0]@0: No known source emits the event chat.zzzzzzzzzzzzzzzz.mentioned; the trigger applies and never fires | Did you mean chat.message.mentioned?',
      'event-unknown triggers[0].events[1]@1: No known source emits the event codehost.zzzzzzzzzzzzzzzz.mentioned; the trigger applies and never fires',
    ],
  ],
  [mail('{{ codehost.issue.number }}', [push, 'codehost.issue.opened']), []],
  [mail('{{ trigge }}', []), []],
  [
    where([], '$.trigger.x'),
    [
      'payload-path triggers[0].where["$.trigger.x"]@100: $.trigger.x never exists in the tick of a heartbeat | Did you mean trigger?',
    ],
  ],
  [
    trigger([`codehost.push.${long}`], { where: { '$.codehost.push.reff': 'a' } }),
    [
      `event-unknown triggers[0].events[0]@0: No known source emits the event codehost.push.${'x'.repeat(66)}; the trigger applies and never fires`,
      `payload-path triggers[0].where["$.codehost.push.reff"]@100: $.codehost.push.reff never exists in the payload of codehost.push.${'x'.repeat(66)} | Did you mean $.codehost.push.ref?`,
    ],
  ],
];
for (const [one, expected] of triggers) {
  const { events, message, where, routing } = one;
  test(
    JSON.stringify({ events: events.map(({ key }) => key), where, routing, message: message?.text }).slice(0, 200),
    () => {
      assert.deepEqual(told(lint({ ...nothing, triggers: [one] })), expected);
    },
  );
}

test('a fallback that nothing is left to says on which event', () => {
  const fallback = (event: string, parts: object = {}) =>
    trigger([event], { ...parts, where: { a: 1 }, fallback: true });
  const plain = (event: string, parts: object = {}) => trigger([event], { ...parts, where: { a: 1 } });
  const dead = (event: string): string =>
    `fallback-unreachable triggers[0].fallback@200: This fallback is never reached on ${event}: another trigger takes every event that it would`;
  assert.deepEqual(told(lintFallbacks([plain('webhook.a'), fallback('webhook.a')])), [dead('webhook.a')]);
  assert.deepEqual(told(lintFallbacks([plain(`webhook.${long}`), fallback(`webhook.${long}`)])), [
    dead(`webhook.${long.slice(0, 72)}`),
  ]);
  const spellings = ['codehost.review.submitted', 'codehost.pull_request_review.submitted'];
  for (const one of spellings)
    for (const other of spellings) assert.deepEqual(told(lintFallbacks([plain(one), fallback(other)])), [dead(other)]);
  // What scopes one trigger is never taken for what scopes another, however it is spelled.
  const scopes = [
    {},
    { endpoint: 'a' },
    { connection: 'a' },
    { endpoint: 'aa' },
    { endpoint: 'a', connection: 'a' },
    { connection: 'aa' },
  ];
  for (const one of scopes)
    for (const other of scopes)
      assert.equal(
        lintFallbacks([plain('webhook.a', one), fallback('webhook.a', other)]).length,
        one === other ? 1 : 0,
      );
  assert.deepEqual(lintFallbacks([plain('webhook.a'), { ...fallback('webhook.a'), fallbackRange: undefined }]), []);
});
