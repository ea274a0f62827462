import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Finding } from '../../domain/diagnostic.ts';
import type { Node } from './node.ts';
import { readSource, type Source, type SourceLimits, tooLarge } from './source.ts';

// What a person reads of each mistake, word by word, and what is read all the same: testdata/source/messages.txt. A row is a text,
// and the limits that are not the usual ones.

type Row = readonly [text: string, limits?: Partial<SourceLimits>];

const json: readonly Row[] = [
  ['["a"]'],
  ['"a"'],
  ['{} {}'],
  ['{} x'],
  ['{"a": 1,}'],
  ['{"a": [1,]}'],
  ["{'a': 1}"],
  ['{"a": \'b\'}'],
  ['{"a" 1}'],
  ['{"a": 1'],
  ['{"a": [1'],
  ['{"a": [1 2]}'],
  ['{"a": 1 "b": 2}'],
  ['{"a": "x'],
  ['{"a": "x\ty"}'],
  ['{"a": "\\x"}'],
  ['{"a": "\\u12"}'],
  ['{"a": "\\u12345"}'],
  ['{"a": "\\u00zz0000"}'],
  ['{"a": "\\'],
  ['{"a": +1}'],
  ['{"a": 😀}'],
  [`{"a": 1${'0'.repeat(400)}}`],
  ['{"a": "\\u0000"}'],
  ['{"a": "\\ud800"}'],
  ['{"a": 1, "a": 3}'],
  [`{"${'k'.repeat(60)}": 1, "${'k'.repeat(60)}": 2}`],
  [`{"${'k'.repeat(61)}": 1, "${'k'.repeat(61)}": 2}`],
  ['{"a": 1, "a": 2, "a": 3, "a": 4}', { maxFindings: 2 }],
  ['{"a": 1, "a": 2, "a": 3}', { maxFindings: 2 }],
  ['{ // no\n}'],
  ['/* no */ {}'],
  ['{"a": [1], "b": [2]}', { maxNodes: 3 }],
  ['{"a": {"b": {}}}', { maxDepth: 2 }],
  ['{"a": {"b": 1}}', { maxDepth: 2 }],
  ['{\r\n\t"a" : [ 1 , 2 ]\r\n}'],
  ['\t'],
  ['{"a": 1 // no\n}'],
  ['{"a": 12345678901234567890}'],
  ['{"a": 1, // b\n"c": 2}'],
  ['{]'],
  ['{a: 1}'],
  ['{"a": "\\x0041"}'],
  [' {"a": 1}'],
];

const yaml: readonly Row[] = [
  ['a: &x 1\n---\nb: *x\n'],
  ['a: *nope\n'],
  ['a: &x\n  b: *x\n'],
  ['a: 1\nb: 2\na: 3\n'],
  ['labels:\n  1: x\n'],
  ['[a]: 1\nnull: 2\ntrue: 3\n'],
  ['? {a: 1}\n: 2\n'],
  ['a: &x {b: 1}\nc:\n  <<: *x\n'],
  ['"<<": 1\n'],
  ['%YAML 1.1\n---\na: no\n'],
  ['%YAML 1.2\n---\na: no\n'],
  ['%TAG !e! tag:example.org,2000:\n---\na: !e!x 1\n'],
  ['%FOO bar\n---\na: 1\n'],
  ['a: !!binary aGk=\nb: !!set {x}\nc: !local |\n  x\n'],
  ['--- !x\n!y k: v\n'],
  ['a: !!int foo\n'],
  ['a: .inf\nb: .nan\nc: -.inf\n'],
  ['a: "x\\0y"\n'],
  ['a:\n  b: c\n\ufeff  d: e\n'],
  ['a: "\\ud800"\n'],
  ['- a\n- b\n'],
  ['just text\n'],
  ['a:\n\tb: 1\n'],
  ['a: b: c\n'],
  ['a: b\nc: "d\ne: f\n'],
  ["a: b\nc: 'd\ne: f\n"],
  ['a: [\n  b,\n  {c: d}\ne: f\n'],
  ['a: {b: c\n'],
  ['a: {b: "{{\n  $x}}}\nm: [{k: g, r: "o"}]\n'],
  ['a: {{ x }}\n'],
  ['a: {{x}} and more\n'],
  ['- {{ x }} y\n'],
  ["a: {{ it's }} z\n"],
  [`a: {{ ${'x'.repeat(90)} }} z\n`],
  ['a: *\n'],
  ['cron: * * * * *\n'],
  ['cron: */5 * * * *\n'],
  ['a: **bold** text\n'],
  ['- * x\n'],
  ['a: b\n  c: d\n'],
  ['  a: b\n    c: d\n'],
  [' a: b\n   c: d\n'],
  ['a: b\n  c\n  d: e\n'],
  ['x:\n  - a: b\n      c: d\n'],
  ['a: "b" c\n'],
  ['a: b\n]\n'],
  ['a: @b\n'],
  ['a: `b`\n'],
  ['a\nb: c\n'],
  ['a: b\nc\n'],
  ['a: "\\q"\n'],
  ['x:\n  - a\n  b\n'],
  ['x:\n  - a: 1\n b: 2\n'],
  ['x:\n - a\n- b\n'],
  ['a: |x\n  b\n'],
  ['a: &\n'],
  ['a: [b\nc]\n'],
  ['a: ]\n'],
  ['a: "b\n'],
  ['{a: 1\n'],
  ['[a, b'],
  ['a: [b}\n'],
  ['? a\n'],
  [': a\n'],
  ['a:b\n'],
  ['a:b\nc: d\n'],
  ['a: %b\n'],
  ['a: ,b\n'],
  ['a: - b\n'],
  ['a: ? b\n'],
  ['a: !!map [1]\n'],
  ['a: !<x y\n'],
  ['name: a\n---\nname: [\n---\nname: c\n'],
  ['a: 1\n---\nb: 1\n---\nc: 1\n', { maxDocuments: 2 }],
  ['a: [[[1]]]\n', { maxDepth: 3 }],
  ['a: [[1]]\n', { maxDepth: 3 }],
  ['a: 1\nb: 2\nc: 3\n', { maxNodes: 4 }],
  ['a:\n\n\n\n\n\n', { maxTokens: 5 }],
  ['a: &a [x, x, x]\nb: [*a, *a, *a]\n', { maxAliasNodes: 10 }],
  ['a: &a [x, x, x]\nb: [*a, *a, *a]\n', { maxAliasNodes: 12 }],
  ['a: &a [x, x, x]\nb: [*a, *a, *a]\n', { maxAliasNodes: 11 }],
  ['a: &a xxxx\nb: [*a, *a]\n', { maxAliasCharacters: 7 }],
  ['a: &a xxxx\nb: [*a, *a]\n', { maxAliasCharacters: 8 }],
  ['a: &a [[1]]\nb: [*a]\n', { maxDepth: 4 }],
  ['a: &a [[1]]\nb: [*a]\n', { maxDepth: 3 }],
  ['1: a\n2: b\n3: c\n', { maxFindings: 2 }],
  [']\n]\n]\n]\n', { maxFindings: 2 }],
  ['%x\n%y\n%z\n---\na: 1\n', { maxFindings: 2 }],
  ['a: !x 1\nb: !x 1\nc: !x 1\n', { maxFindings: 2 }],
  ['a: 12345678901234567890\n'],
  ['a: &x two\n*x : e\n'],

  // A template without quotes, and where on its line it stands.
  [`a: {{ ${'x'.repeat(72)} }} z\n`],
  [`a: {{ ${'x'.repeat(73)} }} z\n`],
  [`a: {{ ${'x'.repeat(2_100)} }} z\n`],
  ['a: {{ x }} y'],
  ['a: {{ x }} y\r\n'],
  ['a: {{ x\ry }} z\n'],
  ['a b: {{ x }} y\n'],
  ['a:\n  b: {{ x }} y\n'],
  ['-  {{ x }} y\n'],
  ['name:  {{ x }} y\n'],
  ["'a'b: {{ x }} y\n"],
  ['a: b\n{{ x }} y\n'],
  ['a:\n  {{x}}: 1\n'],
  ['a:\n  ? {b: c}\n  : {{x}}'],
  ['a: {{ x }} y\nb: {{ z }} w\n'],
  ['a: {{ "\\q" }}\n'],

  // A star.
  ['a b: *x* y\n'],
  ['a:\n  b: **x** y\n'],
  ['-  *x* y\n'],
  ['name:  *x* y\n'],
  ['a: * x\nb: * y\n'],

  // A key that is indented too far below one that has its value.
  ['a b: c\n    d: e\n'],
  ['x:\n  -  a: b\n       c: d\n'],
  ['name: b\n  other: d\n'],
  ['"a b": c\n  "d e": f\n'],
  ["'a b': c\n  'd e': f\n"],
  ['a: b\n  c:\n    d: e\n'],
  ['a: b: c\nd: e\n'],
  ['a: b: c\n\n  d: e\n'],
  ['a: b: c\n\nd: e\n'],
  ['a: b\n  - c: d\n    e: f\n'],
  [`${'k'.repeat(81)}: b\n  ${'l'.repeat(81)}: d\n`],
  [`a: b\n${'  c\n'.repeat(19)}  d: e\n`],
  [`a: b\n${'  c\n'.repeat(20)}  d: e\n`],
  ['  p: q\n---\na: b: c\n'],

  // A line out of its column, and what is made of the lines behind it.
  ['x:\n   a: 1\n  b: 2\nc:\n   d: 1\n  e: 2\n'],
  ['x:\n  a:\n    - b\n    - c:\n        d: 1\n   # e\n\n   f: 2\n'],
  ['x:\n  a: 1\n # b\n c: 2\n'],
  ['x: []\n  b: 2\n'],
  ['  x: a\ny: b\n'],
  ['  x: a\n  # b\n- c\n'],
  ['x:\n  - a: 1\n   - b: 2\n'],
  ['x:\n\ta: 1\n\tb: 2\n'],
  ['text: |\n  one\n two: three\n four "five" six\n@seven\n'],
  ['a:\n  One "two" three.\n  Four: five\n  - six\nb: @c\n'],
  [`x:\n${'  # a\n'.repeat(21)} b: 2\n`],
  ['x:\n- - a\n - b\n'],
  ['x: {a: 1 b: 2}\n'],
  ['x: {a, , b}\n'],
  ['x: "a\nb"\n'],
  ['x: [|]\n'],
  ['x: |\n   \n  a\n'],
  ['x: |\n\ta\n'],
  ['x: |\n  a\n\t\n  b\n'],
  ['x:\n  - "a" b: c\n'],
  ['x: "a"#b\n'],

  // What is not closed, beside what is.
  ['a: "'],
  ['a: [b, "c"\nd: e\n'],
  ['a: [b, ""\nd: e\n'],
  ['a: [b\nc: [d\n'],
  ['a: [b\n---\nc: "d\n'],
  ['a: {b: c: d, e\n'],
  ['a: {b: c: d, e: [f\n'],
  ['a: b: c\nd: [\n  e\n]\n'],
  ['a: ["b" "c"]\n'],
  ['a: ["b\n c": d]\n'],
  ['a: b: c\nd: "e" f\n'],

  // Documents that hold nothing, and such as hold no map.
  [']\n---\nb: 1\n'],
  ['---\n""\n'],
  ['~\n'],
  ['&a\n'],
  ['%YAML 1.2\n'],

  // Directives and tags.
  ['%YAML  1.1 \n---\na: 1\n'],
  ['%YAML  1.2\n---\na: 1\n'],
  ['%YAML 1.2\r\n---\r\na: 1\r\n'],
  ['a: !e! x\n'],
  ['a: !x!!str y\n'],
  ['? {a: !x b}\n: c\n'],

  // Bounds: each mark of a value counts, and so does each level below a key and behind an alias.
  ['a: [[[]]]\n', { maxNodes: 4 }],
  ['a: {b: {}}\n', { maxNodes: 5 }],
  ['- - - a\n', { maxNodes: 3 }],
  ['a: [b, c, d]\n', { maxNodes: 7 }],
  ['? a\n? b\n', { maxNodes: 3 }],
  ['---\n---\n---\n', { maxNodes: 2 }],
  ['a: 1\n? [[]]\n: x\n', { maxDepth: 2 }],
  ['a: &a [[[1]], 2]\nb: [*a]\n', { maxDepth: 5 }],
  ['a: &a [[[1]], 2]\nb: [*a]\n', { maxDepth: 6 }],
  ['a: &a [[[1]], &b x]\nb: [*a]\n', { maxDepth: 5 }],
  ['a: &a\n  ? [[1]]\n  : b\nc: [*a]\n', { maxDepth: 5 }],
  ['a: &a xxxx\nb: &b [*a, *a]\nc: [*b]\n', { maxAliasCharacters: 15 }],
  ['a: &a xxxx\nb: &b [*a, *a]\nc: [*b]\n', { maxAliasCharacters: 16 }],

  // Of many findings the first, and how many more there are, as far as it was read.
  ['%x\n%y\n---\na: 1\n', { maxFindings: 2 }],
  ['a: 1\n---\nb: 1\n---\nc: 1\n---\nd: 1\n', { maxFindings: 2 }],
  ['a: @x\n'.repeat(12), { maxFindings: 2 }],
  [`a: 1\n---\n${'a: @x\n'.repeat(12)}`, { maxFindings: 2 }],
  [`a: [\n---\n${'b: "c" d\n'.repeat(12)}`, { maxFindings: 2 }],
  ['a: {b: c}}, d: e\nf: g\n---\nh: [i]] ]\n', { maxFindings: 2 }],
];

/** Bytes that are no text, or too many. */
const broken: readonly (readonly number[])[] = [
  [0x61, 0x00],
  [0x61, 0xff],
  [0x61, 0x0f, 0xc2],
  [0xc2, 0x7f],
  [0xc2, 0xc0],
  [0xc1, 0x80],
  [0xc2, 0x80, 0xff],
  [0xc3, 0xbf, 0xff],
  [0xdf, 0xbf, 0xff],
  [0xe1, 0x80, 0x80, 0xff],
  [0xe0, 0xa0, 0x80, 0xff],
  [0xec, 0xbf, 0xbf, 0xff],
  [0xee, 0xbf, 0xbf, 0xff],
  [0xed, 0x9f, 0xbf, 0xff],
  [0xe1, 0x80, 0xc0],
  [0xe1, 0x80, 0x7f],
  [0xf1, 0x80, 0x80, 0x80, 0xff],
  [0xf1, 0xbf, 0xbf, 0xbf, 0xff],
  [0xf0, 0x90, 0x80, 0x80, 0xff],
  [0xf4, 0x8f, 0xbf, 0xbf, 0xff],
  [0xf4, 0x80, 0x80, 0x80, 0xff],
  [0xf5, 0x80, 0x80, 0x80],
  [0xff, 0xfe, 0x61, 0x00],
  [0xfe, 0xff, 0x00, 0x61],
  [0xff, 0x61],
  [0xff, 0xff],
  [0xfe, 0x61],
  [0xfe, 0xfe],
  [0x61, 0xfe, 0xff],
  [0x80, 0xfe],
  [0x80, 0xff],
];

/** A value as JSON, and behind a number the digits that a double does not hold. */
function valueOf(node: Node): string {
  if (node.kind === 'seq') return `[${node.items.map(valueOf).join(',')}]`;
  if (node.kind === 'map')
    return `{${[...node.entries].map(([key, { value }]) => `${JSON.stringify(key)}:${valueOf(value)}`).join(',')}}`;
  assert.equal(node.kind, 'scalar');
  return `${JSON.stringify(node.value)}${node.exact === undefined ? '' : ` (${node.exact})`}`;
}
/** What is repeated, once, and how often. */
const short = (text: string): string =>
  text.replace(/(.{1,9}?)\1{17,}/g, (run, unit: string) => `${unit}×${run.length / unit.length}`);

const finding = (told: Finding): string => {
  const { severity, code, range, message, hint, related = [] } = told;
  const place = range === undefined ? '' : ` ${range.start}-${range.end}`;
  const others = related.map((one) => ` (${one.message} ${one.range?.start}-${one.range?.end})`).join('');
  return `  ${severity} ${code}${place}: ${message}${others}${Object.hasOwn(told, 'hint') ? `\n    ${hint}` : ''}`;
};
const shown = (input: string, { documents, findings, nodes, broken: isBroken }: Source): string => {
  const read = documents.map(
    ({ index, root, isPartial }) =>
      `  ${index}${isPartial ? ' in part' : ''}: ${valueOf(root)} at ${root.range.start}-${root.range.end}`,
  );
  return [
    `${short(input)} (${nodes}${isBroken ? ', broken' : ''})`,
    ...read,
    ...findings.map((one) => short(finding(one))),
  ].join('\n');
};
const readRow = (file: string, [text, limits]: Row): string =>
  shown(
    `${file} ${JSON.stringify(text)}${limits === undefined ? '' : ` ${JSON.stringify(limits)}`}`,
    readSource(file, new TextEncoder().encode(text), limits),
  );

test('every mistake is told in these words, at this place', (t) => {
  const told = [
    ...json.map((row) => readRow('a.json', row)),
    ...yaml.map((row) => readRow('a.yaml', row)),
    ...broken.map((bytes) =>
      shown(
        bytes.map((byte) => byte.toString(16).padStart(2, '0')).join(' '),
        readSource('a.yaml', Uint8Array.from(bytes)),
      ),
    ),
    shown('5 bytes of 4', readSource('a.yaml', new TextEncoder().encode('a: bc'), { maxBytes: 4 })),
    shown('4 bytes of 4', readSource('a.yaml', new TextEncoder().encode('a: b'), { maxBytes: 4 })),
  ];
  t.assert.fileSnapshot(told.join('\n'), join(import.meta.dirname, '../../../testdata/source/messages.txt'), {
    serializers: [(value) => `${String(value)}\n`],
  });
});

test('of a file that is too large nothing is kept', () => {
  assert.equal(readSource('a.yaml', new TextEncoder().encode('a: bc'), { maxBytes: 4 }).text, '');
});

test('what was meant is looked for at the first few errors of a file alone', () => {
  const text = Array.from({ length: 24 }, (_, k) => `k${k}: * x\n`).join('');
  const messages = readSource('a.yaml', new TextEncoder().encode(text)).findings.map(({ message }) => message);
  const meant = 'A value that begins with * is an alias to YAML';
  assert.deepEqual([messages.filter((one) => one === meant).length, messages.length], [21, 24]);
});

test('a file whose size nobody knows is told to be too large all the same', () => {
  assert.equal(tooLarge('a.yaml', 4).message, 'The file is larger than 4 bytes');
});
