// The commonest mistakes of authors, each with the place that is wrong and what to write instead.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Diagnostic } from '../../domain/diagnostic.ts';
import { compile } from './compile.ts';
import { agentHead, inputWith, png } from './testkit.ts';

const encoder = new TextEncoder();
function diagnose(
  body: string,
  files: { readonly [path: string]: Uint8Array } = {},
  head = agentHead,
): readonly Diagnostic[] {
  return compile(inputWith({ '.svc/agents/a.yaml': encoder.encode(head + body), ...files })).diagnostics;
}
const told = (diagnostics: readonly Diagnostic[]) =>
  diagnostics.map(({ line, column, code, message, hint }) => `${line}:${column} ${code} ${message} | ${hint ?? ''}`);
const trigger = (rest: string, event = 'codehost.push') =>
  `triggers: [{event: ${event}, routing: {kind: spawn}, ${rest}}]\n`;

/** Body under HEAD, whose first line is line 4; what is told of it. */
const cases: readonly (readonly [name: string, body: string, ...told: string[]])[] = [
  [
    'a template without quotes',
    'triggers:\n  - event: codehost.push\n    message: {{ codehost.push.ref }}\n    routing: {kind: spawn}\n',
    "6:14 non-string-key A value that begins with {{ is a map to YAML | Put it in quotes: '{{ codehost.push.ref }}'",
  ],
  [
    'a template without quotes, and text behind it',
    "initialPrompt: {{ a }} isn't\n",
    "4:16 yaml-syntax A value that begins with {{ is a map to YAML | Put it in quotes: '{{ a }} isn''t'",
  ],
  [
    'the same with a comment behind it, which is no part of the value',
    'initialPrompt: {{ a }} of {{ b }} # which is a list\n',
    "4:16 yaml-syntax A value that begins with {{ is a map to YAML | Put it in quotes: '{{ a }} of {{ b }}'",
  ],
  [
    'and one with a number behind it, which is no comment',
    'initialPrompt: {{ a }} #{{ b }}\n',
    "4:16 non-string-key A value that begins with {{ is a map to YAML | Put it in quotes: '{{ a }} #{{ b }}'",
  ],
  [
    'a cron expression without quotes, and a comment behind it',
    'triggers:\n  - kind: heartbeat\n    cron: */5 * * * *  # every five minutes\n    routing: {kind: spawn}\n',
    "6:11 yaml-syntax A value that begins with * is an alias to YAML | Put it in quotes: '*/5 * * * *'",
  ],
  [
    'a key that begins with a star',
    'labels:\n  *: x\n',
    "5:3 yaml-syntax A key that begins with * is an alias to YAML | Put it in quotes: '*'",
    '5:4 yaml-syntax Alias ending in : is ambiguous | ',
  ],
  [
    'a text that begins with a star and holds a colon',
    'systemPrompt: *Note*: be brief\n',
    "4:15 yaml-syntax A value that begins with * is an alias to YAML | Put it in quotes: '*Note*: be brief'",
    '4:21 yaml-syntax Alias ending in : is ambiguous | ',
  ],
  [
    'a template without quotes as a key, told of once',
    'labels:\n  {{ a }}: b\n',
    "5:3 non-string-key A value that begins with {{ is a map to YAML | Put it in quotes: '{{ a }}'",
  ],
  [
    'a key that is indented too far below a scalar',
    'session:\n  observeSpawnedSessions: true\n    archiveAfterInactive: {seconds: 60}\n',
    '6:5 yaml-syntax The key archiveAfterInactive is indented below observeSpawnedSessions, which has a value already | Indent it by 2 spaces, as observeSpawnedSessions is.',
  ],
  [
    'the same at the root',
    'workingDirectory: /w\n  concurrency: 1\n',
    '5:3 yaml-syntax The key concurrency is indented below workingDirectory, which has a value already | Begin it at the left margin, as workingDirectory does.',
  ],
  [
    'a text that begins on the line of its sign',
    'systemPrompt: | You sort reports.\n  Be brief.\n',
    '4:17 yaml-syntax There is more than "|" or ">" on the line where a text begins | Begin the text on the next line, indented further than its key.',
  ],
  [
    'a dash without a space behind it',
    'triggers:\n  -event: codehost.push\n    routing: {kind: spawn}\n',
    '5:3 yaml-syntax The "-" of -event has no space behind it | Write "- event", so that it begins an entry of a list.',
  ],
  [
    'the same of keys that line up behind it',
    'mounts:\n  -kind: git\n   repository: a/b\n   mountPath: /m\n',
    '5:3 yaml-syntax The "-" of -kind has no space behind it | Write "- kind", so that it begins an entry of a list.',
  ],
  [
    'a path in a message that no payload has',
    trigger('message: "{{codehost.psh.ref}}"'),
    '4:68 payload-path {{ codehost.psh.ref }} never exists in the payload of codehost.push, and is rendered as nothing | Did you mean {{ codehost.push.ref }}?',
  ],
  [
    'a path in a filter that no payload has',
    trigger('where: {$.codehost.repo.fullName: x}'),
    '4:67 payload-path $.codehost.repo.fullName never exists in the payload of codehost.push | Did you mean $.codehost.repository.fullName?',
  ],
  [
    'a template that is not closed',
    trigger('message: "x {{ codehost.push.ref"'),
    '4:68 ignored-token triggers[0].message holds a {{ that nothing closes, which stays as it is: {{ codehost.push.ref | Write {{ path }}.',
  ],
  [
    'a variable in the own body',
    'variables: {repo: x}\nsystemPrompt: "of {{ $repo }}"\n',
    '5:15 ignored-token The token {{ $repo }} stays as it is: variables are put into imported content only | Write the value itself here, or move the text into a fragment that is imported.',
  ],
  [
    'an event key with the name of a product',
    trigger('message: x', 'github.pull_request.opened'),
    '4:20 event-provider Unsupported trigger event provider: "github.pull_request.opened" | Did you mean codehost.pull_request.opened? Event keys begin with codehost. tracker. chat. webhook. svc.',
  ],
  [
    'a filter without $.',
    trigger('where: {codehost.push.ref: x}'),
    '4:67 where-path Trigger filter paths must be a single bare key or use $.path.segments: "codehost.push.ref" | Write $.codehost.push.ref',
  ],
  ['a short root key of its own', 'base: 1\n', '4:1 unknown-root-key Unknown root key base is ignored | '],
  ...['displayTitle: x', 'labels: {}\nharness:'].map((rest): [string, string, ...string[]] => [
    `a line --- within an agent, before ${rest}`,
    `labels: {a: b}\n---\n${rest}\n`,
    ...[
      'missing-environment Agent requires environment',
      'missing-field Agent requires name',
      'missing-harness Agent requires harness',
    ].map((told) => `6:1 ${told} | A line --- begins another agent; remove it if this belongs to the one above.`),
  ]),
  [
    'an agent behind a line --- that lacks something',
    '---\nname: b\n',
    '5:1 missing-environment Agent requires environment | For example: environment: { name: node, image: { kind: preset, name: base } }',
    '5:1 missing-harness Agent requires harness | For example: harness: harness-a',
  ],
  [
    'an agent behind a line --- of imports alone',
    '---\nimports: []\n',
    '5:1 missing-environment Agent requires environment | For example: environment: { name: node, image: { kind: preset, name: base } }',
    '5:1 missing-field Agent requires name | For example: name: triage',
    '5:1 missing-harness Agent requires harness | For example: harness: harness-a',
  ],
  [
    'a slip in the route that releases what is held',
    'bindings: { codehost.issue: { lifecycle: held } }\ntriggers:\n  - event: codehost.issue.closed\n    routing: { kind: bind, target: codehost.issue, release: true, onUnmatched: spwan }\n',
    '7:80 invalid-value triggers[0].routing.onUnmatched must be one of drop, warn, error, spawn, not "spwan" | Did you mean spawn?',
  ],
  [
    'a slip in a route that releases another target',
    'bindings: { codehost.issue: { lifecycle: held } }\ntriggers:\n  - event: codehost.pull_request.closed\n    routing: { kind: bind, target: codehost.pull_request, release: true, onUnmatched: spwan }\n',
    '4:42 binding-held lifecycle: held on codehost.issue requires a bind trigger on that target with release: true | ',
    '7:87 invalid-value triggers[0].routing.onUnmatched must be one of drop, warn, error, spawn, not "spwan" | Did you mean spawn?',
  ],
  [
    'a slip in the delivery that spawns the member of the slot',
    'triggers:\n  - { event: codehost.push, routing: { kind: deliver } }\n  - { event: codehost.issue.opened, routing: { kind: deliver, onUnmatched: spwan } }\n',
    '6:76 invalid-value triggers[1].routing.onUnmatched must be one of drop, warn, error, spawn, not "spwan" | Did you mean spawn?',
  ],
  [
    'a slip in a delivery that spawns none',
    'triggers:\n  - { event: codehost.push, routing: { kind: deliver } }\n  - { event: codehost.issue.opened, routing: { kind: deliver, onUnmatched: warn, routeby: x } }\n',
    '5:46 deliver-without-slot deliver without routeBy requires concurrency: 1, or a slot delivery with onUnmatched: spawn | Add concurrency: 1 to the agent, or name the sessions with routeBy.',
    '6:82 unknown-key Unknown key "routeby" in triggers[1].routing | Did you mean routeBy?',
  ],
];
for (const [name, body, ...expected] of cases) {
  test(name, () => assert.deepEqual(told(diagnose(body)), expected));
}

test('an unknown key is never taken for one that its map has already', () => {
  for (const [body, hint] of [
    ['bindings: {chat.thread: {}}\nmounts: [{kind: git, repository: a/b, mountPath: /m, knd: git}]', 'Accepted here: '],
    [
      'triggers: [{event: codehost.issue.opened, routing: {kind: spawn, ind: {target: codehost.issue}}}]',
      'Did you mean bind?',
    ],
    ['session: {observeSpawnedSessions: true, observeSpawnedSession: true}', 'Accepted here: '],
  ] as const) {
    const [found, ...more] = diagnose(`${body}\n`);
    assert.deepEqual([found?.code, more], ['unknown-key', []]);
    assert.ok(found?.hint?.startsWith(hint), `${body}: ${found?.hint}`);
  }
  const [over] = diagnose('imports: ../fragments/f.yaml\nsession: {observeSpawnedSession: false}\n', {
    '.svc/fragments/f.yaml': encoder.encode('session: {observeSpawnedSessions: true}\n'),
  });
  assert.equal(over?.hint, 'Did you mean observeSpawnedSessions?');
});

test('an example in a hint is one that stands where it is given', () => {
  for (const [body, hint] of [
    [
      'tools: {t: {kind: local, implementation: chat, auth: team-chat}}',
      'For example: auth: { kind: connection, provider: chat, connection: team-chat }',
    ],
    [
      'concurrency: 1\ntriggers: [{event: chat.message.mentioned, routing: {kind: deliver, bind: chat.thread}}]',
      'For example: bind: { target: chat.thread }',
    ],
    ['bindings: {tracker.issue: agent}', 'For example: tracker.issue: { continuity: agent }'],
  ] as const) {
    assert.deepEqual(
      diagnose(`${body}\n`).map((one) => one.hint),
      [hint],
    );
  }
});

test('an avatar is judged beside another error of its identity', () => {
  const body = `identity: {description: ${'x'.repeat(141)}, avatar: {asset: .svc/assets/a.png}}\n`;
  const codes = diagnose(body, { '.svc/assets/a.png': png(100, 100) }).map(({ code }) => code);
  assert.deepEqual(codes.toSorted(), ['avatar-invalid', 'identity-description']);
});

test('what is meant by a path that names no file is told as it is written there', () => {
  const files = {
    '.svc/agents/prompts/base.md': encoder.encode('You sort.\n'),
    '.svc/agents/queue.yaml': encoder.encode(agentHead.replace('name: a', 'name: queue')),
    '.svc/assets/base.png': png(512, 512),
    '.svc/fragments/base.yaml': encoder.encode('labels: {a: b}\n'),
    '.svc/fragments/deep/@inner.yaml': encoder.encode('labels: {a: b}\n'),
    '.svc/fragments/deep/inner.yaml': encoder.encode('imports: base.yaml\n'),
  };
  for (const [body, hint] of [
    ['imports: ../fragments/bse.yaml', 'Did you mean ../fragments/base.yaml?'],
    ['imports: fragments/base.yaml', 'Did you mean ../fragments/base.yaml?'],
    ['imports: .svc/fragments/base.yml', 'Did you mean ../fragments/base.yaml?'],
    ['imports: ../queue.yaml', 'Did you mean queue.yaml?'],
    ['imports: [../fragments/deep/inner.yaml]', 'Did you mean ../base.yaml?'],
    ['imports: ../fragments/@inner.yaml', 'Did you mean ../fragments/deep/@inner.yaml?'],
    ['systemPrompt: {file: ../prompts/base.md}', 'Did you mean prompts/base.md?'],
    ['imports: ../a.yaml', 'Create it, or correct the path, which begins at the folder of this file.'],
  ] as const) {
    const found = diagnose(`${body}\n`, files).find(({ severity }) => severity === 'error');
    assert.equal(found?.hint, hint, body);
  }
});

/** What nothing is said of. */
const silent: readonly string[] = [
  trigger('where: {$.codehost.repository.fullName: x, $.svc.attributions: {exists: false}, $.raw.anything.at.all: 1}'),
  trigger('where: {$.codehost.push.commits.0.message: {exists: true}, team: x}'),
  trigger('message: "{{ title }} {{ codehost.push.commits.0.id }} {{ svc.authored }}"'),
  trigger('where: {$.codehost.pullRequest.labelNames: {contains: x}}', 'codehost.pull_request.labeled'),
  trigger(
    'where: {$.svc.authored: false, $.codehost.review.state: {changedTo: approved}}',
    'codehost.review.submitted',
  ),
  trigger('where: {$.tracker.updatedFrom.labelNames.added: {contains: x}}', 'tracker.issue.updated'),
  trigger('where: {$.binding.context.phase: x, $.binding.target.type: y}', 'svc.session.binding.bound'),
  trigger('endpoint: e, where: {any: 1, $.codehost.thing: 2}, message: "{{ codehost.x.y }}"', 'webhook.x'),
  'initialPrompt: "{{ title }} {{ codehost.push.ref }} {{ codehost.issue.title }}"\n',
  'systemPrompt: "{{ codehost.nothing }} {{ unclosed"\n',
];
test('what is wrong with one of several texts that make a prompt is told in the file that holds it', () => {
  const layers = (base: string, middle: string, own: string) =>
    diagnose(`imports: ../fragments/middle.yaml\ninitialPrompt: {append: " ${own}"}\n`, {
      '.svc/fragments/base.yaml': encoder.encode(`initialPrompt: "  ${base}"\n`),
      '.svc/fragments/middle.yaml': encoder.encode(`imports: base.yaml\ninitialPrompt: {append: " ${middle}"}\n`),
    }).map(({ code, file, line, column }) => `${code} ${file} ${line}:${column}`);
  const wrong = {
    'payload-prefix': '{{ payload.x }}',
    'payload-path': '{{ codehost.psh.ref }}',
  };
  for (const [code, text] of Object.entries(wrong)) {
    assert.deepEqual(layers(text, 'b', 'c'), [`${code} .svc/fragments/base.yaml 1:16`]);
    assert.deepEqual(layers('a', text, 'c'), [`${code} .svc/fragments/middle.yaml 2:25`]);
    assert.deepEqual(layers('a', 'b', text), [`${code} .svc/agents/a.yaml 5:25`]);
  }
  assert.deepEqual(layers('a', '{{ b', 'c'), ['ignored-token .svc/fragments/middle.yaml 2:25']);
});

test('a key that a layer left over in a map within another says where the kind of that one comes from', () => {
  const event = 'event: chat.message.mentioned';
  const base = `triggers: [{${event}, routing: {kind: spawn, bind: {target: chat.thread, context: {a: 1}}}}]\n`;
  const own = `triggers: [{${event}, routing: {kind: deliver, routeBy: {kind: allLiveSessions}}}]\n`;
  const [found, ...more] = diagnose(`imports: ../fragments/base.yaml\n${own}`, {
    '.svc/fragments/base.yaml': encoder.encode(base),
  });
  assert.deepEqual(more, []);
  assert.equal(
    found?.message,
    'Unknown key "context" in triggers[0].routing.bind; the key comes from .svc/fragments/base.yaml, the kind from .svc/agents/a.yaml',
  );
});

test('so it is where appends were joined before they found their base', () => {
  const layers = (inner: string, outer: string) =>
    diagnose('imports: [../fragments/base.yaml, ../fragments/outer.yaml]\n', {
      '.svc/fragments/base.yaml': encoder.encode('initialPrompt: a text that is longer than both\n'),
      '.svc/fragments/outer.yaml': encoder.encode(`imports: inner.yaml\ninitialPrompt: {append: " ${outer}"}\n`),
      '.svc/fragments/inner.yaml': encoder.encode(`initialPrompt: {append: " ${inner}"}\n`),
    }).map(({ code, file, line, column }) => `${code} ${file} ${line}:${column}`);
  assert.deepEqual(layers('{{ payload.x }}', 'b'), ['payload-prefix .svc/fragments/inner.yaml 1:25']);
  assert.deepEqual(layers('b', '{{ payload.x }}'), ['payload-prefix .svc/fragments/outer.yaml 2:25']);
});

test('what a variable puts in is text, also where true, false or a number is wanted, and the hint says so', () => {
  const wanted = {
    'session: {observeSpawnedSessions: "{{ $x }}"}': 'true',
    'tools: {t: {kind: codehost, disabled: "{{ $x }}"}}': 'false',
    'session: {archiveAfterInactive: {seconds: "{{ $x }}"}}': '60',
  };
  for (const [body, value] of Object.entries(wanted)) {
    const hints = diagnose(`imports: ../fragments/f.yaml\nvariables: {x: ${value}}\n`, {
      '.svc/fragments/f.yaml': encoder.encode(body),
    }).map(({ code, hint }) => `${code} ${hint}`);
    assert.equal(hints.length, 1, body);
    assert.match(hints[0] ?? '', /^invalid-type .*what a variable puts in is always text, so it cannot stand here/);
  }
});

test('paths that payloads have, and those that a caller may add, are not told', () => {
  for (const body of silent) assert.deepEqual(told(diagnose(body)), [], body);
});

test('a fallback beside a trigger that takes every event is told, but where one of the two may be skipped or listens elsewhere', () => {
  for (const [first, second, isTold] of [
    ['', 'fallback: true', true],
    ['', 'fallback: false', false],
    ['optional: true, connection: c', 'fallback: true, connection: c', false],
    ['connection: c', 'fallback: true, connection: d', false],
    ['connection: c', 'fallback: true, connection: c', true],
  ] as const) {
    const each = [first, second].map((inner) => `{event: codehost.push, routing: {kind: spawn}, ${inner}}`);
    const codes = diagnose(`triggers: [${each.join(', ')}]\n`).map(({ code }) => code);
    assert.deepEqual(codes, isTold ? ['fallback-unreachable'] : [], `${first} | ${second}`);
  }
});
