// What each finding of a text, a ref and a root key says, to its last word.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { belongsOf, lint } from './lint.ts';
import { at, nothing, text, told, trigger } from './testkit.ts';
import type { LintText } from './types.ts';

const long = 'x'.repeat(100);

const prompts: readonly (readonly [LintText, readonly string[]])[] = [
  [
    text('{{ codehost.push.reff }}'),
    [
      'payload-path systemPrompt@7: {{ codehost.push.reff }} never exists in the payload of any event, and is rendered as nothing | Did you mean {{ codehost.push.ref }}?',
    ],
  ],
  [
    text('{{ codehost.xyz.login }}'),
    [
      'payload-path systemPrompt@7: {{ codehost.xyz.login }} never exists in the payload of any event, and is rendered as nothing | Did you mean {{ codehost.sender.login }}?',
    ],
  ],
  [
    text('{{ codehost.pullRequest.nothing }}'),
    [
      'payload-path systemPrompt@7: {{ codehost.pullRequest.nothing }} never exists in the payload of any event, and is rendered as nothing | Did you mean {{ codehost.pullRequest.author }}?',
    ],
  ],
  // A caller's own input may have any shape.
  [text('{{ customer.name }} {{ codehsot.push.ref }} {{ raw.x }} {{ codehost }}'), []],
  [text('{{ codehost.push.reff }}', { reads: 'nothing' }), []],
  [
    text('{{ $a }}', { reads: 'nothing', isOwn: true }),
    [
      'ignored-token systemPrompt@7: The token {{ $a }} stays as it is: variables are put into imported content only | Write the value itself here, or move the text into a fragment that is imported.',
    ],
  ],
  [
    text('{{ $a }} {{ codehost.push.reff }}', { isOwn: true }),
    [
      'ignored-token systemPrompt@7: The token {{ $a }} stays as it is: variables are put into imported content only | Write the value itself here, or move the text into a fragment that is imported.',
      'payload-path systemPrompt@7: {{ codehost.push.reff }} never exists in the payload of any event, and is rendered as nothing | Did you mean {{ codehost.push.ref }}?',
    ],
  ],
  [
    text('{{ a'),
    [
      'ignored-token systemPrompt@7: systemPrompt holds a {{ that nothing closes, which stays as it is: {{ a | Write {{ path }}.',
    ],
  ],
];
for (const [one, expected] of prompts) {
  test(`${one.reads}: ${one.text.slice(0, 120)}`, () => {
    assert.deepEqual(told(lint({ ...nothing, texts: [one] })), expected);
  });
}

test('a token of a ref that never resolves is told with its first 80 characters', () => {
  const ref = (of: string) => told(lint({ ...nothing, refs: [{ ref: of, range: at(1), path: 'mounts[0].ref' }] }));
  const said = (token: string): string[] => [
    `ignored-token mounts[0].ref@1: The token ${token} never resolves in ref, which reads { triggerEventId, payload } | Write {{ payload.path }} here.`,
  ];
  assert.deepEqual(ref('{{ branch }}'), said('{{ branch }}'));
  assert.deepEqual(ref('{{branch}}'), said('{{branch}}'));
  assert.deepEqual(ref(`{{ ${long} }}`), said(`{{ ${long.slice(0, 77)}`));
  assert.deepEqual(ref('{{ payload }} {{payload}}'), []);
});

test('suggestions of a document end after a hundred event keys and after fifty paths', () => {
  const keys = Array.from({ length: 101 }, () => 'codehost.pussh');
  const ofEvents = lint({ ...nothing, triggers: [trigger(keys)] }).map(({ hint }) => hint);
  assert.deepEqual([ofEvents[99], ofEvents[100]], ['Did you mean codehost.push?', undefined]);
  const texts = Array.from({ length: 51 }, () => text('{{ codehost.push.reff }}'));
  const ofPaths = lint({ ...nothing, texts }).map(({ hint }) => hint);
  assert.deepEqual([ofPaths[49], ofPaths[50]], ['Did you mean {{ codehost.push.ref }}?', undefined]);
});

const rootKeys: readonly (readonly [key: string, finding: string | undefined])[] = [
  ['tirggers', 'unknown-root-key tirggers@1: Unknown root key tirggers is ignored | Did you mean triggers?'],
  ['nme', 'unknown-root-key nme@1: Unknown root key nme is ignored | Did you mean name?'],
  // Half of it changed is another word: what it may have been is not guessed.
  ['knd', 'unknown-root-key knd@1: Unknown root key knd is ignored'],
  [
    'on',
    'unknown-root-key on@1: Unknown root key on is ignored | What wakes an agent stands under triggers, such as triggers: [{ event: codehost.push, routing: { kind: spawn } }].',
  ],
  ['nema', 'unknown-root-key nema@1: Unknown root key nema is ignored'],
  ['env', undefined],
  ['routing', undefined],
  ['toString', undefined],
];
test('a root key that is none says what is near, or where it belongs', () => {
  for (const [key, expected] of rootKeys)
    assert.deepEqual(
      told(lint({ ...nothing, rootKeys: [{ key, range: at(1) }] })),
      expected === undefined ? [] : [expected],
      key,
    );
});

const belongs: readonly (readonly [key: string, says: string | undefined])[] = [
  ['prompt', 'Write systemPrompt, or initialPrompt for a first message.'],
  ['instructions', 'Write systemPrompt.'],
  ['description', 'Write identity.description, or an annotation.'],
  ['where', 'It belongs to a trigger: triggers[].where.'],
  ['event', 'It belongs to a trigger: triggers[].event.'],
  ['events', 'It belongs to a trigger: triggers[].events.'],
  [
    'on',
    'What wakes an agent stands under triggers, such as triggers: [{ event: codehost.push, routing: { kind: spawn } }].',
  ],
  ['routing', 'It belongs to a trigger: triggers[].routing.'],
  ['schedule', 'Write a trigger: { kind: heartbeat, cron: … }.'],
  ['cron', 'Write a trigger: { kind: heartbeat, cron: … }.'],
  ['runs-on', 'Where sessions run is the environment: environment.image.'],
  ['image', 'It belongs to the environment: environment.image.'],
  ['secrets', 'Name a secret where it is used: env: { NAME: { $secret: name } }.'],
  ['mcpServers', 'Write tools.'],
  ['model', undefined],
  ['toString', undefined],
];
test('what other tools keep at the root is told where it belongs', () => {
  for (const [key, says] of belongs) assert.equal(belongsOf(key), says, key);
});

test('thousands of tokens of a text cost no more than their number, however many events its trigger has', (t) => {
  const actions = ['opened', 'closed', 'edited', 'synchronize', 'reopened', 'ready_for_review', 'labeled', 'unlabeled'];
  const many = trigger(
    actions.map((action) => `codehost.pull_request.${action}`),
    { message: text('{{a}}{{b.c}}{{codehost.pullRequest.title}}'.repeat(1_000), { reads: 'event' }) },
  );
  const split = t.mock.method(String.prototype, 'split');
  assert.deepEqual(told(lint({ ...nothing, triggers: [many] })), []);
  assert.ok(split.mock.callCount() < 10_000, `${split.mock.callCount()} texts were split`);
});
