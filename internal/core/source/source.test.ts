import assert from 'node:assert/strict';
import { test } from 'node:test';
import { toPlain } from './node.ts';
import { isDocumentFile, printDiagnostics, readSource, type SourceLimits } from './source.ts';

const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);

/** Reads a text and prints each finding as `line:column code message`. */
function read(text: string, file = 'a.yaml', limits: Partial<SourceLimits> = {}) {
  const source = readSource(file, utf8(text), limits);
  const printed = printDiagnostics(source.findings, () => source.text);
  return {
    source,
    plain: source.documents.map((d) => JSON.parse(JSON.stringify(toPlain(d.root)))),
    problems: printed.map((d) => `${d.line ?? '-'}:${d.column ?? '-'} ${d.severity} ${d.code}`),
    messages: printed.map((d) => d.message),
  };
}

const problem = (name: string, text: string, expected: string[], file?: string): void => {
  test(name, () => assert.deepEqual(read(text, file).problems, expected));
};

test('a document becomes nodes that know where each key and value stands', () => {
  const { source } = read('name: a\nenv:\n  KEY: "v w"\n');
  const root = source.documents[0]?.root;
  const env = root?.entries.get('env');
  assert.deepEqual(env?.keyRange, { file: 'a.yaml', start: 8, end: 11 });
  assert.equal(env?.value.kind, 'map');
  const key = env?.value.kind === 'map' ? env.value.entries.get('KEY') : undefined;
  assert.deepEqual(key?.value, { kind: 'scalar', value: 'v w', range: { file: 'a.yaml', start: 20, end: 25 } });
});

test('only what YAML 1.2 core calls a number, boolean or null is one', () => {
  const text = 'a: no\nb: yes\nc: 2026-01-01\nd: 12:30:45\ne: 0o17\nf: 1.10\ng: True\nh: ~\ni:\nj: 010\nk: "1"\n';
  assert.deepEqual(read(text).plain, [
    { a: 'no', b: 'yes', c: '2026-01-01', d: '12:30:45', e: 15, f: 1.1, g: true, h: null, i: null, j: 10, k: '1' },
  ]);
});

test('several documents are indexed without the empty ones', () => {
  const { plain, problems, source } = read('---\n# nothing\n---\nname: a\n---\n---\nname: b\n...\n---\n');
  assert.deepEqual(plain, [{ name: 'a' }, { name: 'b' }]);
  assert.deepEqual(
    source.documents.map((d) => d.index),
    [0, 1],
  );
  assert.deepEqual(problems, []);
});

for (const [name, text] of [
  ['an empty file', ''],
  ['comments', '# a\n\n# b\n'],
  ['a bare marker', '---\n'],
  ['blank', ' \n\n'],
] as const) {
  test(`${name} holds no document and is no error`, () => {
    assert.deepEqual(read(text).source, { ...read(text).source, documents: [], findings: [], broken: false });
  });
}

test('a broken document leaves the others of its file readable, and keeps its index', () => {
  const { source, problems } = read('name: a\n---\nname: [\n---\nname: c\n');
  assert.deepEqual(
    source.documents.map((d) => d.index),
    [0, 2],
  );
  assert.equal(source.broken, true);
  assert.ok(
    problems.every((p) => p.endsWith('yaml-syntax')),
    problems.join(),
  );
});

test('anchors are shared, and an alias has the place where its anchor is declared', () => {
  const { plain, problems, source } = read('a: &x {k: [1, 2]}\nb: *x\nc: &x two\nd: *x\n*x : e\n');
  assert.deepEqual(problems, []);
  assert.deepEqual(plain, [{ a: { k: [1, 2] }, b: { k: [1, 2] }, c: 'two', d: 'two', two: 'e' }]);
  const entries = source.documents[0]?.root.entries;
  assert.equal(entries?.get('b')?.value, entries?.get('a')?.value);
});

problem('anchors end with their document', 'a: &x 1\n---\nb: *x\n', ['3:4 error yaml-alias']);
problem('an alias without an anchor is an error', 'a: *nope\n', ['1:4 error yaml-alias']);
problem('an alias inside its own anchor is an error', 'a: &x\n  b: *x\n', ['2:6 error yaml-alias']);
problem('duplicate keys are errors at the later key', 'a: 1\nb: 2\na: 3\n', ['3:1 error duplicate-key']);
problem('duplicate keys are seen in flow maps and through quotes', 'x: {a: 1, "a": 2}\n', ['1:11 error duplicate-key']);
problem('a number as key is an error', 'labels:\n  1: x\n', ['2:3 error non-string-key']);
problem('a list, a null and a boolean as key are errors', '[a]: 1\nnull: 2\ntrue: 3\n', [
  '1:1 error non-string-key',
  '2:1 error non-string-key',
  '3:1 error non-string-key',
]);
problem('a map as key is an error', '? {a: 1}\n: 2\n', ['1:3 error non-string-key']);
problem('the merge key is refused by name', 'a: &x {b: 1}\nc:\n  <<: *x\n', ['3:3 error yaml-merge-key']);
problem('a quoted merge key is a key like any other', '"<<": 1\n', []);
problem('YAML 1.1 is refused', '%YAML 1.1\n---\na: no\n', ['1:1 error yaml-version']);
problem('YAML 1.2 may be named', '%YAML 1.2\n---\na: no\n', []);
problem('a version that does not exist is refused', '%YAML 9.9\n---\na: no\n', ['1:1 error yaml-version']);
problem('a TAG directive is refused', '%TAG !e! tag:example.org,2000:\n---\na: !e!x 1\n', [
  '1:1 error yaml-tag',
  '3:4 error yaml-tag',
]);
problem('directives with nothing behind them are no document', '%FOO bar\n', [
  '1:1 warning yaml-syntax',
  '2:1 error yaml-syntax',
]);
problem('an unknown directive is a warning', '%FOO bar\n---\na: 1\n', ['1:1 warning yaml-syntax']);
problem(
  'tags of the core schema are accepted',
  'a: !!str 1\nb: !!map {}\nc: !!int "3"\nd: ! x\ne: !<tag:yaml.org,2002:seq> []\n',
  [],
);
problem(
  'binary, set, timestamp and local tags are refused',
  'a: !!binary aGk=\nb: !!set {x}\nc: !!timestamp 2026-01-01\nd: !local x\ne: !local |\n  x\n',
  ['1:4 error yaml-tag', '2:4 error yaml-tag', '3:4 error yaml-tag', '4:4 error yaml-tag', '5:4 error yaml-tag'],
);
problem('a tag on the document and on a key are refused too', '--- !x\n!y k: v\n', [
  '1:5 error yaml-tag',
  '2:1 error yaml-tag',
]);
problem('a core tag that does not fit its value is an error', 'a: !!int foo\n', ['1:4 error yaml-tag']);
problem('infinity and not-a-number are refused', 'a: .inf\nb: .nan\n', [
  '1:4 error invalid-value',
  '2:4 error invalid-value',
]);
problem('an escaped NUL is an error', 'a: "x\\0y"\n', ['1:4 error nul-byte']);
problem('an escaped half of a surrogate pair is an error', 'a: "\\ud800"\n', ['1:4 error invalid-utf8']);
problem('a root list is an error', '- a\n- b\n', ['1:1 error document-not-a-map']);
problem('a root scalar is an error', 'just text\n', ['1:1 error document-not-a-map']);
problem('tabs as indentation are an error', 'a:\n\tb: 1\n', ['2:1 error yaml-syntax']);
problem('a colon inside a plain value is an error', 'a: b: c\n', ['1:4 error yaml-syntax']);

problem('a quote that nothing closes is told where it opens', 'a: b\nc: "d\ne: f\n', ['2:4 error yaml-syntax']);
problem('a bracket that nothing closes is told where it opens, once', 'a: [\n  b,\n  {c: d}\ne: f\n', [
  '1:4 error yaml-syntax',
]);
problem('what a quote upsets behind it is not told too', 'a: {b: "c\n  d"}\ne: [x, {y: z}]\n', []);
problem('an unclosed quote in a flow map is told once', 'a: {b: "{{\n  $x}}}\nm: [{k: g, r: "o"}]\n', [
  '1:8 error yaml-syntax',
]);

test('a document with a repeated key keeps the rest, and says that it is partial', () => {
  const { documents, broken } = readSource('a.yaml', utf8('a: 1\na: 2\nb: 3\n---\nc: 4\n'));
  assert.equal(broken, true);
  assert.deepEqual(
    documents.map(({ isPartial, root }) => [isPartial, JSON.stringify(toPlain(root))]),
    [
      [true, '{"a":1,"b":3}'],
      [false, '{"c":4}'],
    ],
  );
});

test('syntax errors say what to do', () => {
  const hints = readSource('a.yaml', utf8('a: b: c\n')).findings.map((f) => f.hint);
  assert.match(String(hints[0]), /quotes/);
});

test('a NUL byte and invalid UTF-8 are errors at their place and give no document', () => {
  const nul = readSource('a.yaml', utf8('a: 1\nb: \0\n'));
  assert.deepEqual(nul.findings[0]?.range, { file: 'a.yaml', start: 8, end: 9 });
  assert.equal(nul.findings[0]?.code, 'nul-byte');
  assert.deepEqual(nul.documents, []);
  for (const [bytes, offset] of [
    [[0x61, 0xff], 1],
    [[0xc3], 0],
    [[0xe2, 0x82], 0],
    [[0xed, 0xa0, 0x80], 0],
    [[0xf4, 0x90, 0x80, 0x80], 0],
    [[0xe0, 0x80, 0x80], 0],
    [[0xf0, 0x80, 0x80, 0x80], 0],
    [[0xc3, 0xa9, 0xc0, 0x80], 2],
    [[0xf0, 0x9f, 0x98, 0x80, 0x80], 4],
    [[0xe2, 0x82, 0xac, 0xfe], 3],
  ] as const) {
    const [finding] = readSource('a.yaml', Uint8Array.from(bytes)).findings;
    assert.equal(finding?.code, 'invalid-utf8');
    assert.match(finding.message, new RegExp(`at offset ${offset}$`));
  }
  assert.match(String(readSource('a.yaml', Uint8Array.of(0xff, 0xfe, 0x61, 0)).findings[0]?.hint), /UTF-16/);
});

test('a byte order mark is accepted and counts for nothing', () => {
  for (const file of ['a.yaml', 'a.json']) {
    const { source, plain } = read('\ufeff{"a": 1}', file);
    assert.deepEqual(plain, [{ a: 1 }]);
    assert.equal(source.documents[0]?.root.range.start, 0);
  }
});

problem(
  'a byte order mark at the beginning of another line does not take the line out of its map',
  'a:\n  b: 1\n\ufeff  c: 2\n',
  ['3:1 error yaml-syntax'],
);
problem(
  'nor in a key, a value, a list or before a comment',
  'a\ufeff: 1\nb: \ufeffx\nc:\n- d\n\ufeff- e\n\ufeff# f\n',
  ['1:2 error yaml-syntax', '2:4 error yaml-syntax', '5:1 error yaml-syntax'],
);
problem('text in quotes and in blocks may hold one', 'a: "\ufeffx"\nb: |\n  \ufeffx\n', []);

test('a file over its bound is not even decoded', () => {
  const source = readSource('a.yaml', new Uint8Array(1024 * 1024 + 1));
  assert.deepEqual(
    source.findings.map((f) => [f.code, f.file]),
    [['file-too-large', 'a.yaml']],
  );
});

test('__proto__ is a key like any other and reaches no prototype', () => {
  for (const [file, text] of [
    ['a.yaml', '__proto__: {polluted: 1}\nconstructor: x\n'],
    ['a.json', '{"__proto__": {"polluted": 1}}'],
  ] as const) {
    const root = readSource(file, utf8(text)).documents[0]?.root;
    assert.ok(root?.entries.has('__proto__'));
    assert.equal(({} as Record<string, unknown>)['polluted'], undefined);
    assert.equal(Object.getPrototypeOf(toPlain(root ?? assert.fail())), null);
  }
});

test('each bound has its own finding', () => {
  const many = Array.from({ length: 8 }, (_, k) => `k${k}: v`).join('\n');
  assert.deepEqual(
    read(many, 'a.yaml', { maxNodes: 10 }).problems.map((p) => p.split(' ')[2]),
    ['yaml-too-large'],
  );
  assert.deepEqual(
    read('a:\n\n\n\n\n\n', 'a.yaml', { maxTokens: 5 }).problems.map((p) => p.split(' ')[2]),
    ['yaml-too-large'],
  );
  assert.deepEqual(read('{"a": [1, 2, 3]}', 'a.json', { maxNodes: 3 }).problems, ['1:11 error yaml-too-large']);
  assert.deepEqual(read('a: 1\n---\nb: 1\n---\nc: 1\n', 'a.yaml', { maxDocuments: 2 }).problems, [
    '1:1 error too-many-documents',
  ]);
  const nested = (levels: number): string => `a: ${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}\n`;
  assert.deepEqual(read(nested(100)).problems, []);
  assert.deepEqual(read(nested(101)).problems, ['1:103 error yaml-too-deep']);
  assert.deepEqual(
    read(nested(5000)).problems.map((p) => p.split(' ')[2]),
    ['yaml-too-deep'],
  );
  const json = (levels: number): string => `{"a": ${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`;
  assert.deepEqual(read(json(100), 'a.json').problems, []);
  assert.deepEqual(read(json(101), 'a.json').problems, ['1:106 error yaml-too-deep']);
  const laughs = 'a: &a [x, x, x, x]\nb: &b [*a, *a, *a, *a]\nc: &c [*b, *b, *b, *b]\nd: [*c, *c, *c, *c]\n';
  assert.deepEqual(read(laughs).problems, []);
  assert.deepEqual(
    read(laughs, 'a.yaml', { maxAliasNodes: 100 })
      .problems.map((p) => p.split(' ')[2])
      .at(0),
    'yaml-aliases',
  );
  const long = `a: &a ${'x'.repeat(100)}\nb: [*a, *a, *a]\n`;
  assert.deepEqual(read(long, 'a.yaml', { maxAliasCharacters: 250 }).problems, ['2:13 error yaml-aliases']);
  const deep = 'a: &a [[[[1]]]]\nb: &b [[[*a]]]\nc: [[[*b]]]\n';
  assert.deepEqual(read(deep, 'a.yaml', { maxDepth: 10 }).problems, ['3:7 error yaml-too-deep']);
});

test('a file of nothing but errors reports the first of them', () => {
  const text = Array.from({ length: 200 }, (_, k) => `${k}: x`).join('\n');
  const { findings: keys } = readSource('a.yaml', utf8(text));
  assert.equal(keys.length, 51);
  assert.equal(keys.at(-1)?.message, '… and 150 more in this file');
  for (const flood of ['a: [b]]\n---\n', '%x\n']) {
    const { findings } = readSource('a.yaml', utf8(flood.repeat(1000)));
    assert.deepEqual(
      [findings.length, findings[0]?.code, findings[50]?.code],
      [51, 'yaml-syntax', 'too-many-findings'],
    );
  }
  const tags = Array.from({ length: 200 }, (_, k) => `a${k}: !x 1`).join('\n');
  assert.equal(readSource('a.yaml', utf8(tags)).findings.length, 51);
  const values = `a: x\n---\n${Array.from({ length: 5_000 }, (_, k) => `k${k}: @a\n`).join('')}`;
  const flood = readSource('a.yaml', utf8(values));
  assert.deepEqual([flood.findings.length, flood.documents.length], [51, 1]);
});

test('one mistake is told once, however much of the document it makes unreadable', () => {
  const mistake = 'env: {A: x-{{ title }}, B: c';
  const [short, long] = [1, 40].map((rows) => {
    const text = `${mistake}}\n${'labels: {a: b, c: d}\n'.repeat(rows)}`;
    return readSource('a.yaml', utf8(text)).findings.map(({ message, hint, range }) => [message, hint, range?.start]);
  });
  assert.equal(short?.length, 1);
  assert.deepEqual(long, short);
  assert.equal(readSource('a.yaml', utf8(']\n'.repeat(1000))).findings.length, 1);
});

test('whatever is done to one line of a file, little is told of it, and nothing in the words of the library', () => {
  const text = [
    'name: a',
    'model:',
    '  id: m',
    'identity:',
    '  displayName: A "b" c',
    '  avatar:',
    '    asset: x.png',
    'imports:',
    '  - ../a.yaml',
    'systemPrompt: |',
    '  You are: one, @two and *three*.',
    '',
    '  Intake:',
    '  - "Four" five: six',
    '    seven {{ eight }}, [nine',
    'triggers:',
    '  - event: e',
    '    where:',
    '      $.a: b',
    '      $.c: {in: [d, e]}',
    '    routing:',
    '      kind: spawn',
  ];
  const library = /mapping items|implicit|sequence|scalar|node|token|flow collection/i;
  const changes: ((line: string) => readonly string[])[] = [
    () => [],
    (line) => [` ${line}`],
    (line) => [`  ${line}`],
    (line) => [line.slice(1)],
    (line) => [line.slice(2)],
    (line) => [`\t${line.trimStart()}`],
    (line) => [line.replace(':', '')],
    (line) => [line.replace(/:.*/, ': []')],
    (line) => [line.replace(/:.*/, ': x')],
    (line) => [line.replace(/:/, ': @')],
    (line) => [line.replace(/(\w)/, '- $1')],
  ];
  for (const [index, line] of text.entries())
    for (const change of changes) {
      const changed = text.toSpliced(index, 1, ...change(line)).join('\n');
      const messages = readSource('a.yaml', utf8(changed)).findings.map(({ message }) => message);
      const isBrief = messages.length <= 2 && !messages.some((message) => library.test(message));
      assert.ok(isBrief, `${JSON.stringify(changed)}\n${messages.join('\n')}`);
    }
});

test('only .yaml, .yml and .json hold documents', () => {
  assert.deepEqual(['a.yaml', 'a.yml', 'a.json', 'a.YAML', 'a.md', 'yaml', 'a.yaml.bak'].filter(isDocumentFile), [
    'a.yaml',
    'a.yml',
    'a.json',
  ]);
});
