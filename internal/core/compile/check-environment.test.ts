import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Catalog } from '../../domain/catalog.ts';
import { escapedLength } from './read-field.ts';
import { checkText, toldOf, marked, testCatalog } from './testkit.ts';

const head = 'name: a\nharness: harness-a\n';
const env = (inner: string): string => `environment: {name: e, image: {kind: preset, name: base}, ${inner}}\n`;
const named = (inner: string): string => `environment: {name: e, image: {kind: preset, name: base}}\n${inner}`;
const hash = 'a'.repeat(64);

const refused: readonly (readonly [body: string, codes: string])[] = [
  ['environment: §3\n', 'invalid-type'],
  ['environment: §"a b"\n', 'name-invalid'],
  ['environment: {§image: {kind: preset, name: base}}\n', 'missing-field'],
  ['environment: {§name: e}\n', 'missing-field'],
  ['environment: {name: §"", image: {kind: preset, name: base}}\n', 'name-invalid'],
  ['environment: {name: e, image: {kind: §docker, name: base}}\n', 'invalid-value'],
  ['environment: {name: e, image: {kind: preset, name: §node42}}\n', 'environment-preset'],
  ['environment: {name: e, image: {§kind: preset}}\n', 'missing-field'],
  ['environment: {name: e, image: {kind: preset, name: base, §tag: x}}\n', 'unknown-key'],
  ['environment: {name: e, image: §base}\n', 'invalid-type'],
  ['environment: {name: e, image: {kind: preset, name: §3}}\n', 'invalid-type'],
  [env('resources: {§foo: 1}'), 'unknown-key'],
  [env('setup: §x'), 'invalid-type'],
  [env('setup: [{§commands: [b]}, {§commands: [c]}]'), 'missing-field'],
  [env('§foo: 1'), 'unknown-key'],
  [env('env: {A: §1}'), 'invalid-type'],
  [env('labels: {a: §[]}'), 'invalid-type'],
  [env('resources: §{}'), 'missing-field'],
  [env('resources: {cpuCount: §0}'), 'invalid-value'],
  [env('resources: {memoryMB: §127}'), 'invalid-value'],
  [env('resources: {memoryMB: §"512"}'), 'invalid-type'],
  [env(`env: {A: §${'x'.repeat(131_072)}}`), 'invalid-value'],
  [env(`env: §{${[...Array(5).keys()].map((n) => `V${n}: ${'x'.repeat(130_000)}`).join(', ')}}`), 'invalid-value'],
  [env(`steps: [a, §${'x'.repeat(131_072)}]`), 'invalid-value'],
  [env(`setup: [{name: a, commands: [§${'x'.repeat(131_072)}]}]`), 'invalid-value'],
  [env('steps: §echo'), 'invalid-type'],
  [env('steps: [a, §1]'), 'invalid-type'],
  [env('setup: [{§name: a}]'), 'missing-field'],
  [env('setup: [{name: a, commands: §[]}]'), 'invalid-value'],
  [env('setup: [{name: a, commands: [§""]}]'), 'invalid-value'],
  [env('setup: [{name: a, commands: [x]}, {name: §a, commands: [y]}]'), 'invalid-value'],
  [env('setup: [{name: a, commands: [x], cache: {files: [§/abs]}}]'), 'invalid-value'],
  [env('setup: [{name: a, commands: [x], cache: {files: [§a/../b]}}]'), 'invalid-value'],
  [env('setup: [{name: a, commands: [x], cache: {files: [§""]}}]'), 'invalid-value'],
  [env('setup: [{name: a, commands: [x], cache: {paths: [§/home/other]}}]'), 'invalid-value'],
  [env('setup: [{name: a, commands: [x], cache: {paths: [§/home/user/../x]}}]'), 'invalid-value'],
  [env('setup: [{name: a, commands: [x], cache: {paths: [§/home/username]}}]'), 'invalid-value'],
  [env('setup: [{name: a, commands: [x], cache: {key: §"a b"}}]'), 'name-invalid'],
  [env('setupCache: §{}'), 'missing-field'],
  [env('setupCache: {ttl: §0h}'), 'invalid-value'],
  [env('setupCache: {ttl: §1w}'), 'invalid-value'],
  [env('setupCache: {ttl: §3}'), 'invalid-type'],
  [env('approvals: §ask'), 'invalid-value'],
  [named('identity: §{}\n'), 'missing-field'],
  [named('identity: §{name: x}\n'), 'missing-field'],
  [named('identity: {§labels: {}, username: x}\n'), 'unknown-key'],
  [named(`identity: {displayName: §${'x'.repeat(81)}}\n`), 'invalid-value'],
  [named('identity: {username: §" "}\n'), 'invalid-value'],
  [named(`identity: {description: §"${'x'.repeat(141)}"}\n`), 'identity-description'],
  [named(`identity: {description: §"${'—'.repeat(24)}"}\n`), 'identity-description'],
  [named('identity: {avatar: §{}}\n'), 'missing-field'],
  [named('identity: {avatar: {asset: §/x.png}}\n'), 'invalid-value'],
  [named('identity: {avatar: {asset: §.svc/assets/../x.png}}\n'), 'invalid-value'],
  [named('identity: {avatar: {asset: §.svc/assets/x.gif}}\n'), 'invalid-value'],
  [named('identity: {avatar: {asset: §"C:/x.png"}}\n'), 'invalid-value'],
  [named('identity: {avatar: {asset: §assets/x.png}}\n'), 'invalid-value'],
  [named(`identity: {avatar: {asset: .svc/assets/x.png, sha256: §${hash.toUpperCase()}}}\n`), 'invalid-value'],
  [named('identity: {avatar: {asset: .svc/assets/x.png, §url: y}}\n'), 'unknown-key'],
  [named('identity: §[]\n'), 'invalid-type'],
];
for (const [body, codes] of refused) {
  test(`refuses ${JSON.stringify(body.slice(0, 130))}`, () => {
    const { expected, found, messages } = marked(body, codes, 'error', head);
    assert.deepEqual(found, expected, messages.join('\n'));
    const { draft } = checkText((head + body).replaceAll('§', ''));
    const isIdentity = body.includes('identity: ');
    assert.deepEqual([draft.environment?.name, draft.identity], [isIdentity ? 'e' : undefined, undefined]);
  });
}
/** What a preset may have at most, and one that has no image; and what is just short enough. */
const limited = {
  ...testCatalog,
  presetLimits: { base: { cpuCount: 2, memoryMB: 4096 } },
  presetsWithoutImage: ['node24'],
};
const imageOf = (name: string, inner = ''): string =>
  `environment: {name: e, image: {kind: preset, name: ${name}}${inner}}\n`;
const more: readonly (readonly [body: string, head: string, catalog?: Catalog])[] = [
  [env('resources: {cpuCount: 2, memoryMB: 4096}'), head, limited],
  [env('resources: {cpuCount: 3}'), head, limited],
  [env('resources: {memoryMB: 8192}'), head, limited],
  [env('resources: {cpuCount: 3, memoryMB: 8192}'), head, limited],
  [env('resources: x'), head, limited],
  ['environment: {name: e, image: {kind: docker, name: base}, resources: {cpuCount: 3}}\n', head, limited],
  [env('steps: []'), head, limited],
  [imageOf('node24', ', resources: {cpuCount: 3}'), head, { ...limited, presetsWithoutImage: [] }],
  [imageOf('node24'), head, limited],
  [imageOf('nod24'), head, limited],
  [imageOf('other'), head, limited],
  [env(`steps: [a, ${'x'.repeat(131_071)}]`), head],
  [env(`steps: [a, ${'x'.repeat(131_072)}]`), head],
  [env(`setup: [{name: a, commands: [b, ${'x'.repeat(131_072)}]}]`), head],
  [env('setup: [{name: a, commands: [b]}, {name: a, commands: [c]}]'), head],
  [env('setup: [{commands: [b]}, {name: a}, x]'), head],
  ...[131_067, 131_068, 131_069, 131_070, 131_071].map(
    (count) => [env(`env: {A: ${'x'.repeat(count)}}`), head] as const,
  ),
  [env(`env: {${['A', 'B', 'C', 'D'].map((name) => `${name}: ${'x'.repeat(131_069)}`).join(', ')}}`), head],
  [env(`env: {${['A', 'B', 'C', 'D'].map((name) => `${name}: ${'x'.repeat(131_069)}`).join(', ')}, E: ''}`), head],
  [env('env: {A: b, C: "d\\0e"}'), head],
];
test('each of them is told in these words', (t) => {
  const file = join(import.meta.dirname, '../../../testdata/messages/check-environment.txt');
  t.assert.fileSnapshot(toldOf([...refused.map(([body]) => [body, head] as const), ...more]), file, {
    serializers: [String],
  });
});

test('an environment carries its defaults and only the fields that were set', () => {
  const plain = checkText(head + named('')).draft.environment;
  assert.equal(plain?.name, 'e');
  assert.deepEqual(plain?.spec, {
    image: { kind: 'preset', name: 'base' },
    env: {},
    steps: [],
    setup: [],
    approvals: 'bypass',
  });
});

test('an environment in full comes out as written', () => {
  const full = env(
    'labels: {a: b}, annotations: {c: d}, env: {A: {$secret: s}}, resources: {cpuCount: 2, memoryMB: 128}, steps: [x], ' +
      'setup: [{name: i, commands: [npm ci], cache: {key: k, files: [package-lock.json], paths: [/home/user, /home/user/.npm]}}], setupCache: {ttl: 24h}, approvals: prompt',
  );
  const spec = JSON.parse(JSON.stringify(checkText(head + full).draft.environment?.spec));
  assert.deepEqual(spec, {
    labels: { a: 'b' },
    annotations: { c: 'd' },
    image: { kind: 'preset', name: 'base' },
    env: { A: { $secret: 's' } },
    resources: { cpuCount: 2, memoryMB: 128 },
    steps: ['x'],
    setup: [
      {
        name: 'i',
        commands: ['npm ci'],
        cache: { key: 'k', files: ['package-lock.json'], paths: ['/home/user', '/home/user/.npm'] },
      },
    ],
    setupCache: { ttl: '24h' },
    approvals: 'prompt',
  });
});

test('an identity without a name takes the agent’s, and texts are trimmed', () => {
  const { draft } = checkText(head + named('identity: {displayName: " D ", username: u, description: " d "}\n'));
  assert.equal(draft.identity?.name, 'a');
  assert.deepEqual(draft.identity?.spec, { displayName: 'D', username: 'u', description: 'd' });
  assert.equal(draft.spec?.identity, 'a');
  const wrong = checkText(head + named('identity: {username: " ", avatar: {asset: .svc/assets/x.png}}\n')).draft;
  assert.equal(wrong.identity?.isSound, false);
  assert.equal(checkText(`harness: harness-a\n${named('identity: {username: u}\n')}`).draft.identity, undefined);
  assert.equal(checkText(head + named('identity: {name: other, username: u}\n')).draft.spec?.identity, 'other');
});

test('a description counts in JSON-escaped form', () => {
  const counts: readonly (readonly [string, number])[] = [
    ['abc', 3],
    ['—', 6],
    ['😀', 12],
    ['"', 2],
    ['\\', 2],
    ['/', 2],
    ['\n', 2],
    ['\t', 2],
    ['\u0001', 6],
    ['👩‍💻', 30],
    ['\u007f', 1],
  ];
  for (const [text, length] of counts) assert.equal(escapedLength(text), length, JSON.stringify(text));
});
