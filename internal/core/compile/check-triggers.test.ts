import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { toldOf, marked, specOf } from './testkit.ts';

const on = (inner: string, extra = ''): string => `${extra}triggers: [{${inner}}]\n`;
const spawn = 'routing: {kind: spawn}';
const event = (inner: string, extra?: string): string => on(`event: codehost.push, ${spawn}, ${inner}`, extra);
const hook = (inner: string): string => on(`event: webhook.received, ${spawn}, ${inner}`);
const pull = (inner: string): string => on(`event: codehost.pull_request.opened, ${spawn}, checks: ${inner}`);
const beat = (inner: string): string => on(`kind: heartbeat, ${spawn}, ${inner}`);
const where = (inner: string): string => event(`where: {${inner}}`);
/** A key that some source may emit, longer than what is shown of one. */
const long = `codehost.${'k'.repeat(80)}`;
const observing = (target: string): string =>
  `routing: {kind: bind, target: ${target}, observedTarget: {action: unbind}}`;
const check = 'name: c, displayName: C, description: d';

const refused: readonly (readonly [body: string, codes: string, message?: string])[] = [
  ['triggers: §{}\n', 'invalid-type'],
  ['triggers: [§x]\n', 'invalid-type'],
  [
    on(`§event: codehost.push, §events: [codehost.push], ${spawn}`),
    'event-and-events',
    'Use either event or events, not both',
  ],
  [on(`§routing: {kind: spawn}`), 'event-missing', 'Trigger requires event or events'],
  [on(`event: §github.push, ${spawn}`), 'event-provider', 'Unsupported trigger event provider'],
  [on(`event: §push, ${spawn}`), 'event-provider', 'Unsupported trigger event provider'],
  [on(`event: §errtrack.issue.created, ${spawn}`), 'event-provider'],
  [on(`event: §heartbeat.x.0, ${spawn}`), 'event-provider'],
  [on(`events: [codehost.push, §gitlab.push], ${spawn}`), 'event-provider'],
  [on(`event: §"", ${spawn}`), 'invalid-value'],
  [on(`events: §[], ${spawn}`), 'invalid-value'],
  [on(`events: [codehost.push, §codehost.push], ${spawn}`), 'invalid-value'],
  [
    on(`events: [codehost.review.submitted, §codehost.pull_request_review.submitted], ${spawn}`),
    'invalid-value',
    'triggers[0].events[1] repeats codehost.pull_request_review.submitted, another spelling of codehost.review.submitted; name each event once',
  ],
  [on(`§event: codehost.push`), 'missing-field'],
  [on(`kind: §cron, event: codehost.push, ${spawn}`), 'invalid-value'],
  [event('§cron: x'), 'trigger-field'],
  [event('§filter: {}'), 'unknown-key'],
  [event('connection: §"a b"'), 'name-invalid'],
  [event('optional: §1'), 'invalid-type'],
  [event('fallback: §"true"'), 'invalid-type'],
  [event('message: §""'), 'invalid-value'],
  [event('message: §"{{ payload.x }}"'), 'payload-prefix'],
  [event(`message: §${'x'.repeat(20_001)}`), 'invalid-value'],
  [event('attachedUserPrompt: §"  "'), 'invalid-value'],
  [event(`attachedUserPrompt: §${'x'.repeat(20_001)}`), 'invalid-value'],
  [
    on('event: codehost.push, §attachedUserPrompt: x, routing: {kind: deliver, routeBy: {kind: allLiveSessions}}'),
    'attached-prompt',
    'Attached user prompt is supported only for spawn routing',
  ],
  [on(`event: svc.project.onboarded, §connection: c, ${spawn}`), 'trigger-field'],
  [hook('§connection: c, endpoint: e'), 'trigger-field'],
  [on(`events: [codehost.push, tracker.issue.created], §connection: c, ${spawn}`), 'event-families'],
  [on(`event: §webhook.received, ${spawn}`), 'trigger-endpoint'],
  [event('§endpoint: e'), 'trigger-endpoint'],
  [event('§auth: {kind: none}'), 'trigger-endpoint'],
  [hook('endpoint: §"a b"'), 'name-invalid'],
  [hook('endpoint: e, auth: {§kind: hmac_sha256}'), 'missing-field'],
  [hook('endpoint: e, auth: {kind: none, §secretRef: s}'), 'trigger-endpoint'],
  [hook('endpoint: e, auth: {kind: §basic}'), 'invalid-value'],
  [hook('endpoint: e, auth: {kind: bearer_token, secretRef: §"a b"}'), 'name-invalid'],
  [hook('endpoint: e, auth: §none'), 'invalid-type'],
  [where('§a.b: 1'), 'where-path', 'Trigger filter paths must be a single bare key or use $.path.segments'],
  [where('§"": 1'), 'where-path'],
  [where('§"$.": 1'), 'where-path'],
  [where('§$.a..b: 1'), 'where-path'],
  [where('§"$.a. b": 1'), 'where-path'],
  [where('§" a": 1'), 'where-path'],
  [where('a: §[1]'), 'invalid-type'],
  [where('a: §{}'), 'where-clause'],
  [where('a: {§equals: 1}'), 'where-clause'],
  [where('a: {exists: true, §in: [1]}'), 'where-clause'],
  [where('a: {exists: §1}'), 'invalid-type'],
  [where('a: {in: §[]}'), 'where-clause'],
  [where('a: {notIn: §x}'), 'invalid-type'],
  [where('a: {in: [§[1]]}'), 'invalid-type'],
  [where('a: {contains: §{}}'), 'invalid-type'],
  [where('a: {changedTo: §[]}'), 'invalid-type'],
  [event('where: §x'), 'invalid-type'],
  [
    on(`event: codehost.push, §checks: [{${check}}], ${spawn}`),
    'checks-event',
    'Trigger checks are only supported for code host pull request events',
  ],
  [on(`events: [codehost.pull_request.opened, codehost.push], §checks: [{${check}}], ${spawn}`), 'checks-event'],
  [pull('§[]'), 'check-invalid'],
  [pull('[{§name: c, displayName: C}]'), 'missing-field'],
  [pull('[{name: §"a b", displayName: C, description: d}]'), 'name-invalid'],
  [pull(`[{name: c, displayName: §${'x'.repeat(257)}, description: d}]`), 'invalid-value'],
  [pull(`[{name: c, displayName: C, description: §${'x'.repeat(65_536)}}]`), 'invalid-value'],
  [pull(`[{${check}}, {name: §c, displayName: D, description: d}]`), 'check-invalid'],
  [pull(`[{${check}}, {name: d, displayName: §C, description: d}]`), 'check-invalid'],
  [
    pull(`[{${check}, §timeout: {seconds: 1, conclusion: failure}, §beginTimeout: {seconds: 1, conclusion: failure}}]`),
    'check-invalid',
  ],
  [pull(`[{${check}, timeout: {seconds: §604801, conclusion: failure}}]`), 'invalid-value'],
  [pull(`[{${check}, completeTimeout: {seconds: 1, conclusion: §neutral}}]`), 'invalid-value'],
  [pull(`[{${check}, §required: true}]`), 'unknown-key'],
  [on('§kind: heartbeat, routing: {kind: spawn}'), 'missing-field'],
  [beat('cron: "0 9 * * *", §event: codehost.push'), 'trigger-field'],
  [beat('cron: "0 9 * * *", §checks: []'), 'checks-event', 'Trigger checks are only supported'],
  [beat('cron: "0 9 * * *", §attachedUserPrompt: x'), 'trigger-field'],
  [beat('cron: "0 9 * * *", §zone: x'), 'unknown-key'],
  [beat('cron: §"0 9 * *"'), 'cron-invalid'],
  [beat('cron: §"0 0 9 * * *"'), 'cron-invalid'],
  [beat('cron: §"@daily"'), 'cron-invalid'],
  [beat('cron: §""'), 'invalid-value'],
  [beat(`cron: §"${'0,'.repeat(260)}0 0 * * *"`), 'invalid-value'],
  [beat('cron: §5'), 'invalid-type'],
  [beat('cron: "0 9 * * *", timezone: §Mars/Base'), 'timezone-invalid'],
  [beat('cron: "0 9 * * *", timezone: §"+01:00"'), 'timezone-invalid'],
  [beat('cron: "0 9 * * *", timezone: §""'), 'invalid-value'],
];
for (const [body, codes, message] of refused) {
  test(`refuses ${JSON.stringify(body.slice(0, 140))}`, () => {
    const { expected, found, messages } = marked(body, codes);
    assert.deepEqual(found, expected, messages.join('\n'));
    if (message !== undefined) assert.ok(messages[0]?.startsWith(message), messages[0]);
  });
}
test('each of them is told in these words', (t) => {
  const file = join(import.meta.dirname, '../../../testdata/messages/check-triggers.txt');
  t.assert.fileSnapshot(
    toldOf([
      ...refused.map(([body]) => [body] as const),
      ...[
        '[codehost.push]',
        'codehost',
        'codehost.',
        'codhost.push',
        'codhost.nothing.like.it',
        'codehots',
        'github.psh',
        'pul_request.opened',
        'code.push',
        'x.y',
        'codehost.psh',
        'pull_request.opened',
      ].map((key) => [on(`event: ${key}, ${spawn}`)] as const),
      [on(`events: codehost.push, ${spawn}`)],
      [on(`events: [codehost.push, codehost.push, [a]], ${spawn}`)],
      [on(`event: codehost.push, events: [codehost.push], ${spawn}`)],
      [on(`event: ${'e'.repeat(81)}, ${spawn}`)],
      [on(`event: chat.message.mentioned, endpoint: e, auth: {kind: none}, ${spawn}`)],
      [on('event: codehost.push')],
      [on(spawn)],
      [on('')],
      [on(`events: [${long}, ${long}], ${spawn}`)],
      [on(`event: webhook.${'w'.repeat(80)}, ${spawn}`)],
      [on(`event: ${long}, checks: [{${check}}], ${spawn}`)],
      [on(`events: [svc.project.onboarded, webhook.x], connection: c, endpoint: e, ${spawn}`)],
      [on(`events: [codehost.push, svc.project.onboarded], endpoint: e, ${spawn}`)],
      [on(`events: [svc.session.binding.bound, svc.project.onboarded], ${observing('svc.session')}`)],
      // Of a trigger without one key that can be read nothing is known, not even that it has no event.
      [on(`events: [x], ${observing('codehost.issue')}`)],
      [
        on(
          'events: [chat.message.mentioned, codehost.push], routing: {kind: deliver, routeBy: {kind: attributedSessions}}',
        ),
      ],
      // What reads no payload may hold what it likes.
      [event('attachedUserPrompt: "{{ x"', 'concurrency: 1\nreplace: auto\nonReplace: "{{ x"\n')],
      ['triggers: [x, {kind: y}]\n'],
      ...[
        '@hourly',
        '@daily',
        '@midnight',
        '@weekly',
        '@monthly',
        '@yearly',
        '@annually',
        ' @Daily ',
        '@reboot',
        'TZ=Europe/Berlin 0 9 * * *',
        'CRON_TZ=Nowhere 0 9 * * *',
        'TZ=UTC 0 99 * * *',
        '@every 5m',
        ' 0  0 9 * * *',
        '0 0 99 * * *',
        '0 0 30 2 *',
      ].map((cron) => [beat(`cron: "${cron}"`)] as const),
      [beat('timezone: x')],
      [on('kind: heartbeat, cron: "0 9 * * *", routing: {kind: x}')],
      [beat('cron: "0 9 * * *", timezone: "europe/berlin"')],
      ...['x', '{}', '{name: a}', '{displayName: b}', '{description: c}', '{name: a, displayName: b}'].map(
        (one) => [pull(`[${one}]`)] as const,
      ),
      [pull(`[{${check}}, {${check}}]`)],
      [pull(`[{${check}, beginTimeout: {seconds: 1, conclusion: failure}}]`)],
      [pull('[{name: a b, displayName: [], description: d}, {name: a b, displayName: [], description: d}]')],
      [pull(`[${`{name: ${'n'.repeat(81)}, displayName: C, description: d}, `.repeat(2)}]`)],
      [pull(`[{${check}, beginTimeout: {seconds: 1}, timeout: {seconds: 2}, completeTimeout: x}]`)],
      [event(`checks: [{${check}}]`)],
      [hook('auth: {kind: hmac_sha256}')],
      [hook('endpoint: e, auth: x')],
      [event('message: "{{ codehost.psh }} {{ $x }}", attachedUserPrompt: "{{ nope }} {{ $x }}"')],
      [hook('endpoint: e, auth: {kind: none}, message: "{{ any.path }}", attachedUserPrompt: "{{ any.path }}"')],
    ]),
    file,
    { serializers: [String] },
  );
});

const triggers = (body: string) => specOf(body).triggers;

test('events expand to one trigger per key, in the order declared', () => {
  const body =
    `triggers:\n- {name: x, events: [codehost.push, " codehost.issue.opened "], connection: c, optional: true, message: " m ", where: {a: {in: [1, null]}}, ${spawn}}\n` +
    `- {kind: event, event: svc.project.onboarded, fallback: true, attachedUserPrompt: " p ", ${spawn}}\n`;
  const shared = {
    kind: 'event',
    connection: 'c',
    optional: true,
    where: { a: { in: [1, null] } },
    message: ' m ',
    fallback: false,
    routing: { kind: 'spawn' },
  };
  assert.deepEqual(triggers(body), [
    { ...shared, event: 'codehost.push' },
    { ...shared, event: 'codehost.issue.opened' },
    {
      kind: 'event',
      event: 'svc.project.onboarded',
      where: {},
      attachedUserPrompt: ' p ',
      fallback: true,
      routing: { kind: 'spawn' },
    },
  ]);
});

test('a heartbeat has a zone, and its expression stands verbatim', () => {
  assert.deepEqual(triggers(beat('cron: "*/5 9-17 * jan MON-fri", name: x')), [
    {
      kind: 'heartbeat',
      cron: '*/5 9-17 * jan MON-fri',
      timezone: 'UTC',
      where: {},
      fallback: false,
      routing: { kind: 'spawn' },
    },
  ]);
  assert.deepEqual(
    triggers(beat('cron: "0 0 * * 7", timezone: Asia/Kolkata')).map((one) => 'timezone' in one && one.timezone),
    ['Asia/Kolkata'],
  );
});

test('an endpoint and its auth stand on the trigger', () => {
  const [one] = triggers(hook('endpoint: e, auth: {kind: hmac_sha256, secretRef: s}'));
  assert.deepEqual(one?.kind === 'event' && [one.endpoint, one.auth], ['e', { kind: 'hmac_sha256', secretRef: 's' }]);
  assert.equal(triggers(hook('endpoint: e')).length, 1);
  assert.equal(triggers(hook('endpoint: e, auth: {kind: none}')).length, 1);
});

test('timeout comes out as beginTimeout', () => {
  const [one] = triggers(
    pull(
      `[{${check}, instructions: i, timeout: {seconds: 1, conclusion: skipped}, completeTimeout: {seconds: 604800, conclusion: success}}]`,
    ),
  );
  assert.deepEqual(one?.kind === 'event' && one.checks, [
    {
      name: 'c',
      displayName: 'C',
      description: 'd',
      instructions: 'i',
      beginTimeout: { seconds: 1, conclusion: 'skipped' },
      completeTimeout: { seconds: 604_800, conclusion: 'success' },
    },
  ]);
});

test('filters of every kind stay as they were written', () => {
  const inner =
    'a: 1, "$.a": x, "$.b.c [0]": null, d: true, e: {contains: x}, f: {exists: false}, g: {notIn: [a]}, h: {changedTo: null}';
  assert.deepEqual(triggers(where(inner))[0]?.where, {
    a: 1,
    '$.a': 'x',
    '$.b.c [0]': null,
    d: true,
    e: { contains: 'x' },
    f: { exists: false },
    g: { notIn: ['a'] },
    h: { changedTo: null },
  });
});

test('a token payload without a path, and an unclosed one, pass', () => {
  assert.equal(triggers(event('message: "{{ payload }} {{payloads.x}} {{ payload.x"')).length, 1);
  assert.equal(triggers(event('attachedUserPrompt: "{{ payload.x }}"')).length, 1);
});

test('a webhook event needs its endpoint also beside other events', () => {
  const { expected, found } = marked(on(`events: [codehost.push, §webhook.x], ${spawn}`), 'trigger-endpoint');
  assert.deepEqual(found, expected);
});

test('a heartbeat that never comes is a warning at its expression', () => {
  const { expected, found } = marked(beat('cron: §"0 0 30 2 *"'), 'cron-never-fires', 'warning');
  assert.deepEqual(found, expected);
});
