// Whatever is read without the library is what the library reads, to the last offset: over the files of the tree, over
// pieces of YAML put together at random, and over files that were changed at random.

import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { defaultLimits, type SourceLimits } from './limits.ts';
import { readPlainYaml } from './plain.ts';
import { composeYaml } from './yaml.ts';

/** True where it was read, and then as the library reads it. */
function isPlain(text: string): boolean {
  const read = readPlainYaml('a.yaml', text, defaultLimits);
  if (read === null) return false;
  assert.deepEqual(read, composeYaml('a.yaml', text, defaultLimits), JSON.stringify(text));
  return true;
}

const root = join(import.meta.dirname, '../../..');
const corpus = globSync('{testdata,templates}/**/*.{yaml,yml}', { cwd: root })
  .sort()
  .map((path) => readFileSync(join(root, path), 'utf8'));

const agent = `# An agent of the kind that people write.
imports:
  - ../fragments/environment.yaml
name: triage
labels: { team: a, of: "b", empty: {} }
systemPrompt: |
  Look at what is reported: say

    what is wrong, # and where
  then stop.

session:
  archiveAfterInactive:
    seconds: 3600
mcp: []
triggers:
- name: reports # the first
  event: webhook.received
  where:
    $.severity: { in: [high, critical, 3], not: [null, true] }
  message: 'It''s {{title}}'
  # Nobody else may.
  auth: { kind: none }
- kind: heartbeat
  cron: '0 3 * * *'
  enabled: false
  note: |-
    one line
`;

test('what people write is read without the library, as it reads it', () => {
  assert.ok(isPlain(agent));
  for (const text of corpus) isPlain(text);
  for (let length = 0; length < agent.length; length += 1) isPlain(agent.slice(0, length));
});

/** What the reader must read itself: each is a text that files of agents hold. */
const plain: readonly string[] = [
  'a: b',
  'a: b # c',
  'a: b, c {d} [e]\n',
  'a: { bcd: e }\n',
  'a: b\n  ',
  'a:\n\n  # b\n  c: d\n',
  '# a\n# b\nc: d\n',
  'a: b\n# c\n',
  'a: |\n  b\n  \n  c\n',
  'a:  b\n',
  'a: b \n',
  'a: ~\nb: null\nc: Null\nd: NULL\n',
  'a: true\nb: True\nc: TRUE\nd: false\ne: False\nf: FALSE\n',
  'a: 0\nc: 999999999999999\n',
  'a: 1 day\nc: v1.2\n',
  'a: "b c"\n',
  'a: ""\n',
  "a: ''\nb: 'c'\nd: 'e''f'\n",
  'a: ["b c", d]\n',
  "a: { b: 'c', d: e:f }\n",
  'a: []\nb: {}\n',
  'a: [b , c ]\n',
  'a: [  b,  c  ]\n',
  'a: { b:  c , d: [e, { f: g }] }\n',
  'a:\n  b:\n    c: d\n',
  'a:\n  b: c\n\n# d\ne: f\n',
  '# a\n\nb: c\n',
  'a:\n  # b\n  c: d\n',
  'a:\n- b\n- c: d\n  e: f\n- g\nh: i\n',
  'a:\n  - b\n  - c:\n      - d\n',
  'a:\n  -   b: c\n      d: e\n',
  'a: |\n  b\n',
  'a: |-\n  b\n',
  'a: |\n\n\n  b\n',
  'a: |\n  b\n\n\n  c\n\nd: e\n',
  'a: |\n  b\n    c\n  d\n',
  'a: |\n  b\n',
  `${'k'.repeat(251)}: a\n`,
  '$a: b\n_c: d\ne/f.g-h: i\n',
];
/** So many maps and lists in each other, written in each of the ways. */
const nested: { readonly [name: string]: (levels: number) => string } = {
  brackets: (levels) => `a: ${'['.repeat(levels - 1)}b${']'.repeat(levels - 1)}\n`,
  braces: (levels) => `${'a: { '.repeat(levels - 1)}a: b${' }'.repeat(levels - 1)}\n`,
  'brackets in a list': (levels) => `a:\n  - ${'['.repeat(levels - 2)}b${']'.repeat(levels - 2)}\n`,
  'block maps': (levels) => `${Array.from({ length: levels }, (_, k) => `${' '.repeat(k)}a:`).join('\n')} b\n`,
  'block lists': (levels) =>
    `${Array.from({ length: levels / 2 }, (_, k) => `${' '.repeat(2 * k)}${k === 0 ? '' : '- '}a:`).join('\n')}\n${' '.repeat(levels)}- b\n`,
};
for (const [name, write] of Object.entries(nested)) {
  test(`${name} that are too deep are left to the library`, () => {
    assert.deepEqual([isPlain(write(30)), isPlain(write(32))], [true, false]);
    const isRead = (maxDepth: number) => readPlainYaml('a.yaml', write(6), { ...defaultLimits, maxDepth }) !== null;
    assert.deepEqual([isRead(6), isRead(5)], [true, false]);
  });
}

test('what is surely plain is read without the library', () => {
  for (const text of plain) assert.ok(isPlain(text), JSON.stringify(text));
  const text = 'a: b\n';
  const read = (limits: Partial<SourceLimits>) =>
    readPlainYaml('a.yaml', text, { ...defaultLimits, ...limits }) !== null;
  assert.deepEqual(
    [read({ maxNodes: 10 }), read({ maxNodes: 9 }), read({ maxTokens: 10 }), read({ maxTokens: 9 })],
    [true, false, true, false],
  );
});

test('what is not surely plain is left to the library', () => {
  const others = [
    ...['', '# nothing\n', 'text\n', '- a\n', 'a:\n', 'a: b: c\n', 'a: b:\n', 'a: &x b\n', 'a: *x\n', 'a: !!str b\n'],
    ...[
      'a: b\n  c\n',
      'a:\n  b: c\n d: e\n',
      'a: b\n c: d\n',
      'a: 1.5\n',
      'a: 0x1f\n',
      'a: .inf\n',
      'a: -x\n',
      'a: ? b\n',
    ],
    ...[
      'a: "b\\n"\n',
      'a: "b\n',
      "a: 'b\n",
      "a: 'b' c\n",
      'a: [b\n',
      'a: [b,c]\n',
      'a: [b: c]\n',
      'a: {b}\n',
      'a: {b: c}x\n',
    ],
    ...[
      'a: [b, ]\n',
      'a: { b: c, }\n',
      'a: >\n  b\n',
      'a: |+\n  b\n',
      'a: |\nb: c\n',
      'a: |\n',
      'a: |2\n    b\n',
      'a: |\n  b',
    ],
    ...[
      'a: |\n    b\n  c\n',
      'a: |\n  b\n    \n  c\n',
      'a: |\n   \n  b\n',
      'a:\n  - b\n c: d\n',
      'a:\n  -\n    b: c\n',
    ],
    ...[
      'a: b\na: c\n',
      'null: b\n',
      'true: b\n',
      '1: b\n',
      '<<: b\n',
      '"a": b\n',
      'a:\tb\n',
      'a: b\r\n',
      '---\na: b\n',
    ],
    ...[
      'a: b\n...\n',
      '%YAML 1.2\n',
      '\ufeffa: b\n',
      'a: b\0\n',
      ' a: b\n',
      'a:\n  b: c\n  # in\n',
      'a: [{ b: c }, *d]\n',
    ],
    ...[
      'a:\n  b: c\n # between\nd: e\n',
      'a:\n  # one\n # two\n  b: c\n',
      'a:\n  - - b\n',
      'a: { b: c, b: d }\n',
      'a: @b\n',
    ],
    ...['a:\nb: c\n', 'a:\n  b:\n- c\n', 'a:\n  b:\nx y\n', 'a: ', 'a: [&anchor-in-a-list]\n', '\na: "b\\n"\n'],
    'a: |\n  \n    b\n',
    `a: ${'['.repeat(40)}b${']'.repeat(40)}\n`,
    `a: ${'{ a: '.repeat(40)}b${' }'.repeat(40)}\n`,
    Array.from({ length: 40 }, (_, depth) => `${' '.repeat(depth)}a:\n`).join('') + `${' '.repeat(41)}b: c\n`,
  ];
  for (const text of others) assert.equal(isPlain(text), false, JSON.stringify(text));
  const few = { ...defaultLimits, maxNodes: 10 };
  assert.equal(readPlainYaml('a.yaml', agent, few), null, 'near a limit');
  assert.equal(readPlainYaml('a.yaml', 'a:\n  b:\n    - c\n', { ...defaultLimits, maxDepth: 2 }), null, 'too deep');
});

const pieces = [
  ...[
    'a: b\n',
    'k:\n',
    '- x\n',
    '  - a: 1\n',
    '  ',
    '\n',
    '\n\n',
    '# c\n',
    '  # d\n',
    ' # c',
    '#',
    ': ',
    ' : ',
    '- ',
    '-',
    'key',
    '$x',
  ],
  ...[
    '|',
    '|-',
    '|\n    l1\n     l2\n\n    l3\n',
    '|-\n  x\n',
    '|\n\n\n  y\n\n\n',
    '"q"',
    "'it''s'",
    '[a, b]',
    '{ a: b, c: [d] }',
  ],
  ...[
    '{}',
    '[]',
    '{ a, b }',
    '[a: b]',
    '{a: b}',
    '[a,b]',
    '[ a , b ]',
    '{ a: b , c: d }',
    'a]',
    'b}',
    "b'c",
    'q"r',
    ',',
    '?',
  ],
  ...[
    'null',
    'true',
    '~',
    '12',
    '-3',
    '0x1f',
    '1.5',
    '1e3',
    '.5',
    '+1',
    '0o7',
    '12 a',
    'a b',
    'a, b',
    'a:b',
    'http://x.y/z',
  ],
  ...['&a', '*a', '!t', '>', '...', '---\n', 'é', '\\', '"a\\n"', '<<', '@x', '`', '%', '=', '    t\n', "''"],
];
const changes = fc.array(
  fc.record({
    at: fc.nat(),
    how: fc.constantFrom('insert', 'cut', 'indent', 'break'),
    piece: fc.constantFrom(...pieces),
    count: fc.nat(4),
  }),
  { maxLength: 4 },
);
const bases = [agent, ...corpus.filter((text) => text.length < 3_000)].map((text) => text.split('\n'));

/** Some lines of a file, changed. */
const changed = fc
  .tuple(fc.constantFrom(...bases), fc.nat(), fc.integer({ min: 1, max: 12 }), changes)
  .map(([lines, begin, count, all]) => {
    const from = begin % lines.length;
    let text = `${lines.slice(from, from + count).join('\n')}\n`;
    for (const { at, how, piece, count: few } of all) {
      const place = at % (text.length + 1);
      if (how === 'insert') text = text.slice(0, place) + piece + text.slice(place);
      else if (how === 'cut') text = text.slice(0, place) + text.slice(place + 1 + few);
      else if (how === 'break') text = `${text.slice(0, place)}\n${' '.repeat(few)}${piece}${text.slice(place)}`;
      else {
        const all = text.split('\n');
        const line = at % all.length;
        all[line] = ' '.repeat(few) + (all[line] ?? '').trimStart();
        text = all.join('\n');
      }
    }
    return text;
  });
const put = fc.array(fc.constantFrom(...pieces), { minLength: 1, maxLength: 14 }).map((some) => some.join(''));

test('any mixture and any change of what people write is declined, or read as the library reads it', () => {
  const numRuns = Number(process.env['SVC_LONG'] ?? 0) > 0 ? 300_000 : 5_000;
  let plain = 0;
  fc.assert(
    fc.property(fc.oneof(put, changed), (text) => void (plain += isPlain(text) ? 1 : 0)),
    { numRuns },
  );
  assert.ok(plain > numRuns / 50, `${plain} of ${numRuns} were read`);
});
