import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import type { MapEntry, Node } from '../source/node.ts';
import { canonicalCap, checkAgent } from './check-agent.ts';
import { checkText, agentHead, toldOf, marked, mergedFrom, specOf, testCatalog } from './testkit.ts';

type Case = readonly [body: string, codes: string, message?: string];

const all: (readonly [body: string, head?: string])[] = [];

function holds(cases: readonly Case[], head?: string): void {
  all.push(...cases.map(([body]) => (head === undefined ? ([body] as const) : ([body, head] as const))));
  for (const [body, codes, message] of cases) {
    test(`refuses ${JSON.stringify(body.slice(0, 100))}`, () => {
      const { expected, found, messages } =
        head === undefined ? marked(body, codes) : marked(body, codes, 'error', head);
      assert.deepEqual(found, expected, messages.join('\n'));
      const { draft } = checkText(((head ?? agentHead) + body).replaceAll('§', ''));
      assert.deepEqual([draft.spec, draft.parts], [undefined, []]);
      assert.deepEqual(draft.name?.name, body.startsWith('name: ') ? undefined : 'a');
      if (message !== undefined) assert.ok(messages[0]?.startsWith(message), messages[0]);
    });
  }
}

const long = (count: number): string => 'x'.repeat(count);

test('missing name, harness and environment stand at the first key of the document', () => {
  const { expected, found, messages } = marked('§labels: {}\n', 'missing-field', 'error', '');
  assert.deepEqual(found, ['0 missing-field', '0 missing-harness', '0 missing-environment']);
  assert.deepEqual(expected, ['0 missing-field']);
  assert.deepEqual(messages, ['Agent requires name', 'Agent requires harness', 'Agent requires environment']);
});

holds(
  [
    ['name: §a b\n', 'name-invalid'],
    ['name: §""\n', 'name-invalid'],
    [`name: §${long(129)}\n`, 'name-invalid'],
    ['name: §[a]\n', 'invalid-type'],
  ],
  'harness: harness-a\nenvironment: {name: e, image: {kind: preset, name: base}}\n',
);

holds(
  [
    ['harness: §harness-c\n', 'invalid-value'],
    ['harness: §3\n', 'invalid-type'],
  ],
  'name: a\nenvironment: {name: e, image: {kind: preset, name: base}}\n',
);

holds([
  ['labels: §x\n', 'invalid-type'],
  ['labels: {a: §1}\n', 'invalid-type'],
  ['annotations: {§"": a}\n', 'invalid-value'],
  ['§reasoningEffort: minimal\n', 'effort-unsupported'],
  ['reasoningEffort: §hihg\n', 'invalid-value'],
  [`systemPrompt: §"  "\n`, 'invalid-value'],
  [`systemPrompt: §${long(100_001)}\n`, 'invalid-value'],
  [`initialPrompt: §${long(20_001)}\n`, 'invalid-value'],
  ['initialPrompt: §"see {{ payload.a }}"\n', 'payload-prefix'],
  ['displayTitle: §"{{payload.x.y}}"\n', 'payload-prefix'],
  ['displayTitle: §true\n', 'invalid-type'],
  ['workingDirectory: §" "\n', 'invalid-value'],
  ['workingDirectory: §/etc/app\n', 'invalid-value'],
  ['workingDirectory: §/usr/../usr/src\n', 'invalid-value'],
  ['workingDirectory: §//proc/self\n', 'invalid-value'],
  ['workingDirectory: §work/../../x\n', 'invalid-value'],
  ['env: {A: §"a\\0b"}\n', 'invalid-value'],
  ['session: {§archive: 1}\n', 'unknown-key'],
  ['session: {archiveAfterInactive: {seconds: §59}}\n', 'invalid-value'],
  ['session: {archiveAfterInactive: {seconds: §31536001}}\n', 'invalid-value'],
  ['session: {archiveAfterInactive: {seconds: §60.5}}\n', 'invalid-value'],
  ['session: {observeSpawnedSessions: §"yes"}\n', 'invalid-type'],
  ['spendCaps: {dailyUsd: §5}\n', 'spend-cap'],
  ['spendCaps: {dailyUsd: §"5."}\n', 'spend-cap'],
  ['spendCaps: {monthlyUsd: §".5"}\n', 'spend-cap'],
  ['spendCaps: {monthlyUsd: §"12345678901"}\n', 'spend-cap'],
  ['spendCaps: {maxPerSessionUsd: §"1.12345678901"}\n', 'spend-cap'],
  ['spendCaps: {§weeklyUsd: "1"}\n', 'unknown-key'],
  ['concurrency: §2\n', 'concurrency-invalid'],
  ['concurrency: §"1"\n', 'concurrency-invalid'],
  ['§replace: auto\n', 'replace-requires-concurrency', 'replace requires concurrency'],
  ['concurrency: 1\nreplace: §manual\n', 'invalid-value'],
  ['concurrency: 1\n§onReplace: hello\n', 'on-replace-requires-replace', 'onReplace requires replace: auto'],
  ['manages: [a, §"b c"]\n', 'name-invalid'],
  [`manages: §[${'a, '.repeat(65)}]\n`, 'invalid-value'],
  ['env: {§1A: x}\n', 'invalid-value'],
  ['env: {A: §1}\n', 'invalid-type'],
  ['env: {A: {$secret: §"a b"}}\n', 'name-invalid'],
  ['env: {A: {$secret: a, optional: §1}}\n', 'invalid-type'],
  ['env: §[]\n', 'invalid-type'],
]);

test('each of them is told in these words', (t) => {
  const file = join(import.meta.dirname, '../../../testdata/messages/check-agent.txt');
  t.assert.fileSnapshot(
    toldOf([
      ...all,
      ...['/srv/etc/x', '/etcetera', '/libx/y', '/lib/y', '/lib64', '/etc', 'etc', '/srv/a:b'].map(
        (path) => [`workingDirectory: ${path}\n`] as const,
      ),
      [`displayTitle: "{{ payload.${'a'.repeat(66)} }}"\n`],
      [`displayTitle: "{{ payload.${'a'.repeat(67)} }}"\n`],
      ['displayTitle: "{{ a"\n'],
      ['displayTitle: "}} {{ a }}"\n'],
      ['spendCaps: {dailyUsd: [5], monthlyUsd: 1.5, maxPerSessionUsd: null}\n'],
      ['spendCaps: {dailyUsd: "1.", monthlyUsd: "1.0", maxPerSessionUsd: "01"}\n'],
      ['concurrency: 1\nreplace: auto\nonReplace: x\n'],
      ['replace: auto\nonReplace: x\n'],
      ...['" a  b--"', '"--"', '"-a-"', 'ä b', '" a"', '"a.b c"', '"-"'].map(
        (name) => [`manages: [${name}]\n`] as const,
      ),
      ['concurrency: 1\nreplace: auto\nonReplace: "{{ a }} {{ $b }}"\n'],
      ['initialPrompt: "{{ $b }} {{ triggerEventId }} {{ a.b }}"\nsystemPrompt: "{{ $b }} {{ c }}"\n'],
      ['observe: yes\nsession: {observeSpawnedSessions: On}\n'],
      ['labels: {a: 1.50, b: yes, c: null}\nannotations: {a: {b: [1, x, true, null, 12345678901234567890]}}\n'],
      ['environment:\n', 'name: a\nharness: harness-a\n'],
      ['environment: [e]\nidentity: 1\n', 'name: a\nharness: harness-a\n'],
      ['environment: {name: "e e"}\nidentity: {name: "i i"}\n', 'name: a\nharness: harness-a\n'],
      ['environment: "e e"\nidentity: "i i"\n', 'name: " a "\nharness: harness-x\n'],
    ]),
    file,
    { serializers: [String] },
  );
});

test('what others refer to is given where it can be read, and by its name alone where it is wrong', () => {
  const given = (body: string) => {
    const { name, environment, environmentRef, brokenEnvironment } = checkText(`harness: harness-a\n${body}`).draft;
    return { name, environment: environment?.name, ref: environmentRef, broken: brokenEnvironment };
  };
  const image = 'image: {kind: preset, name: base}';
  const name = { name: 'a', range: { file: '.svc/agents/a.yaml', start: 25, end: 29 }, path: 'name' };
  const none = { name, environment: undefined, ref: undefined, broken: undefined };
  assert.deepEqual(given(`name: " a"\nenvironment: {name: e, ${image}}\n`), { ...none, environment: 'e' });
  const ref = { name: 'e', range: { ...name.range, start: 43, end: 44 }, path: 'environment' };
  assert.deepEqual(given('name: " a"\nenvironment: e\n'), { ...none, ref });
  assert.deepEqual(given('name: " a"\nenvironment: "e e"\n'), none);
  assert.deepEqual(given('name: " a"\nenvironment: {name: e}\n'), { ...none, broken: 'e' });
  assert.deepEqual(given(`name: [a]\nenvironment: {name: 3, ${image}}\n`), { ...none, name: undefined });
});

test('origins are of documents without an error, and where they are asked for', () => {
  const origins = (text: string, asked: object): boolean =>
    checkAgent(mergedFrom(text), { catalog: testCatalog, ...asked }, () => {}).origins !== undefined;
  assert.equal(origins(agentHead, { origins: 'all' }), true);
  assert.equal(origins(agentHead, {}), false);
  assert.equal(origins(`${agentHead}labels: x\n`, { origins: 'all' }), false);
});

test('a misspelled key and the missing one that it was meant for are two errors', () => {
  const { found } = marked('env: {A: {§secret: x}}\n', 'unknown-key');
  assert.deepEqual(
    found.map((line) => line.split(' ')[1]),
    ['unknown-key', 'missing-field'],
  );
});

test('defaults are written, and nothing that was not declared', () => {
  assert.deepEqual(specOf(''), {
    harness: 'harness-a',
    environment: 'e',
    env: {},
    mounts: [],
    tools: {},
    triggers: [],
    session: {},
    bindings: {},
  });
});

test('every simple field comes out canonical', () => {
  const body =
    'labels: {a: b}\nannotations: {c: ""}\nreasoningEffort: max\nsystemPrompt: "  hi  "\ninitialPrompt: "{{ payload }} {{a.b}}"\n' +
    'displayTitle: infer\nenv: {A: b, C: {$secret: s, optional: true}, D: {$secret: s, optional: false}}\nidentity: someone\n' +
    'session: {archiveAfterInactive: {seconds: 60}, observeSpawnedSessions: false}\nconcurrency: 1\nreplace: auto\nonReplace: " x "\n' +
    'spendCaps: {dailyUsd: "0012.500", monthlyUsd: "0.0", maxPerSessionUsd: "7"}\nmanages: [b, b]\nworkingDirectory: " /w "\n' +
    'whatever: [1]\n';
  assert.deepEqual(specOf(body), {
    labels: { a: 'b' },
    annotations: { c: '' },
    harness: 'harness-a',
    reasoningEffort: 'max',
    systemPrompt: 'hi',
    initialPrompt: '{{ payload }} {{a.b}}',
    displayTitle: 'infer',
    environment: 'e',
    env: { A: 'b', C: { $secret: 's', optional: true }, D: { $secret: 's' } },
    identity: 'someone',
    mounts: [],
    tools: {},
    triggers: [],
    session: { archiveAfterInactive: { seconds: 60 }, observeSpawnedSessions: false },
    spendCaps: { dailyUsd: '12.5', monthlyUsd: '0', maxPerSessionUsd: '7' },
    concurrency: 1,
    replace: 'auto',
    onReplace: 'x',
    manages: ['b', 'b'],
    bindings: {},
    workingDirectory: '/w',
  });
});

test('a bare root key counts as not written', () => {
  assert.deepEqual(Object.keys(specOf('model:\ntriggers:\nreplace:\nlabels: null\n')).includes('model'), false);
});

test('characters are code points', () => {
  assert.equal(specOf(`initialPrompt: "${'😀'.repeat(20_000)}"\n`).initialPrompt?.length, 40_000);
  assert.equal(checkText(`${agentHead}initialPrompt: "${'😀'.repeat(20_001)}"\n`).of('error').length, 1);
});

test('keys that mean something to JavaScript are data', () => {
  const { draft } = checkText(`${agentHead}labels: {__proto__: x, constructor: y}\nenv: {__proto__: z}\n`);
  assert.deepEqual(Object.entries(draft.spec?.labels ?? {}), [
    ['__proto__', 'x'],
    ['constructor', 'y'],
  ]);
  assert.deepEqual(Object.entries(draft.spec?.env ?? {}), [['__proto__', 'z']]);
  assert.equal(checkText(`${agentHead}session: {__proto__: 1}\n`).of('error')[0]?.code, 'unknown-key');
});

test('independent errors come out of one run', () => {
  const { expected, found } = marked(
    'concurrency: §3\n§reasoningEffort: minimal\nspendCaps: {dailyUsd: §1}\nmounts: [{kind: §svn, repository: §x, mountPath: §y}]\n',
    'concurrency-invalid effort-unsupported spend-cap invalid-value invalid-value invalid-value',
  );
  assert.deepEqual(found, expected);
});

test('an unknown root key is ignored, with a warning where it is close to a known one', () => {
  const { draft, findings } = checkText(`${agentHead}trigers: []\nimprots: x\nx-own: 1\nkind: Agent\n`);
  assert.ok(draft.spec !== undefined);
  assert.deepEqual(
    findings.map((f) => [f.severity, f.code, f.hint]),
    [
      ['warning', 'unknown-root-key', 'Did you mean triggers?'],
      ['warning', 'unknown-root-key', 'Did you mean imports?'],
    ],
  );
});

test('a string where a number stands says what variables give', () => {
  const { of } = checkText(`${agentHead}mounts: [{kind: git, repository: a/b, mountPath: /a, depth: "1"}]\n`);
  assert.match(of('error')[0]?.hint ?? '', /variable/);
});

test('a document of nothing but slips is read in proportion, with suggestions for the first of them', () => {
  const keys = Array.from({ length: 3000 }, (_, index) => `dailyUsb${index}: x`).join(', ');
  const events = Array.from({ length: 3000 }, (_, index) => `codehost.pull_request.opend${index}`).join(', ');
  const { findings } = checkText(
    `${agentHead}spendCaps: {${keys}}\ntriggers: [{events: [${events}], routing: {kind: spawn}}]\n`,
  );
  assert.equal(findings.length, 6000);
  assert.ok(findings.filter(({ hint }) => hint?.startsWith('Did you mean')).length <= 400);
});

test('a value in env is not repeated in the message', () => {
  const { of } = checkText(`${agentHead}env: {A: 12345}\n`);
  assert.ok(!of('error')[0]?.message.includes('12345'));
});

test('spend caps keep their value whatever their spelling', () => {
  const digits = fc.stringMatching(/^[0-9]{1,10}$/);
  fc.assert(
    fc.property(digits, fc.option(digits, { nil: undefined }), (whole, fraction) => {
      const written = fraction === undefined ? whole : `${whole}.${fraction}`;
      const cap = canonicalCap(written) ?? 'none';
      assert.match(cap, /^(0|[1-9]\d*)(\.\d*[1-9])?$/);
      const scaled = (text: string): bigint => {
        const [left = '', right = ''] = text.split('.');
        return BigInt(left + right.padEnd(10, '0'));
      };
      assert.equal(scaled(cap), scaled(written));
      assert.equal(canonicalCap(cap), cap);
    }),
  );
});

/** Nodes of any shape, with the words of agent documents among their keys and values. */
const words = `
  name harness harness-a harness-b environment image kind preset base triggers event events routing spawn
  deliver bind target chat.thread agent.singleton chat.message.mentioned where $.svc.authored exists in mounts
  git auth codehostApp capabilities merge write tools local codehost svc implementation model id provider
  gateway models fallbacks bindings lifecycle held identity avatar asset heartbeat cron timezone checks release
  observedTarget action context env $secret session concurrency replace auto routeBy ownedArtifact
  deliverOrSpawn artifactType onUnmatched __proto__ constructor setup cache description fallback connection
`
  .trim()
  .split(/\s+/)
  .concat('* * * * *');
const range = { file: 'f', start: 0, end: 1 };
const { node } = fc.letrec<{ node: Node }>((tie) => ({
  node: fc.oneof(
    { maxDepth: 6, withCrossShrink: true },
    fc
      .oneof(fc.constantFrom(...words), fc.string(), fc.double(), fc.integer(), fc.boolean(), fc.constant(null))
      .map((value): Node => ({ kind: 'scalar', value, range })),
    fc.array(tie('node'), { maxLength: 4 }).map((items): Node => ({ kind: 'seq', items, range })),
    fc
      .array(fc.tuple(fc.oneof({ weight: 9, arbitrary: fc.constantFrom(...words) }, fc.string()), tie('node')), {
        maxLength: 8,
      })
      .map(
        (pairs): Node => ({
          kind: 'map',
          entries: new Map(pairs.map(([key, value]): [string, MapEntry] => [key, { keyRange: range, value }])),
          range,
        }),
      ),
  ),
}));

test('no merged document whatever makes the checks throw', () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.tuple(fc.constantFrom(...words), node), { selector: ([key]) => key }), (pairs) => {
      const entries = new Map(pairs.map(([key, value]): [string, MapEntry] => [key, { keyRange: range, value }]));
      const root = { kind: 'map', entries, range } as const;
      let errors = 0;
      const draft = checkAgent({ file: 'f', document: 0, root, own: root }, { catalog: testCatalog }, (finding) => {
        if (finding.severity === 'error') errors += 1;
        assert.ok(finding.range !== undefined && finding.message.length < 1000);
      });
      assert.equal(draft.spec === undefined, errors > 0);
    }),
    { numRuns: 400 },
  );
});

test('what was read once reads the same again', () => {
  const doc = mergedFrom(agentHead);
  const first = checkAgent(doc, { catalog: testCatalog }, () => {});
  assert.deepEqual(
    checkAgent(doc, { catalog: testCatalog }, () => {}),
    first,
  );
});
