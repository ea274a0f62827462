// Whatever is read without the library is what the library reads, to the last offset: over the files of the tree, over
// pieces of YAML put together at random, and over files that were changed at random.

import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { DEFAULT_LIMITS } from './limits.ts';
import { readPlainYaml } from './plain.ts';
import { composeYaml } from './yaml.ts';

/** True where it was read, and then as the library reads it. */
function isPlain(text: string): boolean {
  const read = readPlainYaml('a.yaml', text, DEFAULT_LIMITS);
  if (read === null) return false;
  assert.deepEqual(read, composeYaml('a.yaml', text, DEFAULT_LIMITS), JSON.stringify(text));
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
    `a: ${'['.repeat(40)}b${']'.repeat(40)}\n`,
    `a: ${'{ a: '.repeat(40)}b${' }'.repeat(40)}\n`,
    Array.from({ length: 40 }, (_, depth) => `${' '.repeat(depth)}a:\n`).join('') + `${' '.repeat(41)}b: c\n`,
  ];
  for (const text of others) assert.equal(isPlain(text), false, JSON.stringify(text));
  const few = { ...DEFAULT_LIMITS, maxNodes: 10 };
  assert.equal(readPlainYaml('a.yaml', agent, few), null, 'near a limit');
  assert.equal(readPlainYaml('a.yaml', 'a:\n  b:\n    - c\n', { ...DEFAULT_LIMITS, maxDepth: 2 }), null, 'too deep');
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
