import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Finding } from '../../domain/diagnostic.ts';
import { LineStarts, printDiagnostics, renderDiagnostic } from './source.ts';

const finding = (file: string, start: number, end: number, more: Partial<Finding> = {}): Finding => ({
  severity: 'error',
  code: 'invalid-value',
  message: 'wrong',
  range: { file, start, end },
  ...more,
});

test('an offset becomes a line and a column, also at line ends and past the end', () => {
  const text = 'ab\r\n\ncd';
  const table = new LineStarts(text);
  const positions = [0, 2, 3, 4, 5, 6, 7, 99, -1].map((offset) => table.at(offset));
  assert.deepEqual(
    positions.map(({ line, column }) => `${line}:${column}`),
    ['1:1', '1:3', '1:4', '2:1', '3:1', '3:2', '3:3', '3:3', '1:1'],
  );
  assert.deepEqual(
    [1, 2, 3, 4].map((line) => table.line(text, line, 10)),
    ['ab', '', 'cd', ''],
  );
  assert.equal(new LineStarts('a\rb\r\n').line('a\rb\r\n', 1, 10), 'a\rb');
});

test('an excerpt is cut, and holds neither NUL nor half a pair', () => {
  const text = `a\0${'x'.repeat(197)}\u{1f600}`;
  assert.equal(new LineStarts(text).line(text, 1, 200), `a\u2400${'x'.repeat(197)}\ufffd`);
});

test('diagnostics are sorted by file, line, column, and each stands once', () => {
  const text = 'one\ntwo\n';
  const printed = printDiagnostics(
    [
      finding('b', 4, 7),
      finding('b', 1, 2),
      finding('a', 4, 5),
      finding('b', 4, 7),
      finding('b', 4, 7, { message: 'also' }),
      finding('b', 4, 7, { code: 'invalid-type' }),
      finding('b', 4, 7, { severity: 'warning', message: 'later' }),
      { severity: 'error', code: 'no-svc-directory', message: 'none' },
      { severity: 'error', code: 'legacy-directory', message: 'dir', file: 'b' },
    ],
    () => text,
  );
  assert.deepEqual(
    printed.map((d) => `${d.file ?? ''} ${d.line ?? ''}:${d.column ?? ''} ${d.code} ${d.message}`),
    [
      ' : no-svc-directory none',
      'a 2:1 invalid-value wrong',
      'b : legacy-directory dir',
      'b 1:2 invalid-value wrong',
      'b 2:1 invalid-type wrong',
      'b 2:1 invalid-value also',
      'b 2:1 invalid-value wrong',
      'b 2:1 invalid-value later',
    ],
  );
});

test('a diagnostic carries path, hint, excerpt and related places', () => {
  const related = [{ message: 'first here', range: { file: 'b', start: 0, end: 1 } }];
  const [printed] = printDiagnostics([finding('a', 4, 7, { path: 'x[0]', hint: 'Do it.', related })], (file) =>
    file === 'a' ? 'one\ntwo\n' : undefined,
  );
  assert.deepEqual(printed, {
    severity: 'error',
    code: 'invalid-value',
    message: 'wrong',
    file: 'a',
    line: 2,
    column: 1,
    endLine: 2,
    endColumn: 4,
    excerpt: { line: 1, lines: ['one', 'two'], column: 1, length: 3 },
    path: 'x[0]',
    hint: 'Do it.',
    related: [{ message: 'first here', file: 'b', line: 1, column: 1 }],
  });
});

test('an excerpt counts code points, a tab as one, and the first of its lines', () => {
  const text = 'a: 1\nb: 2\nc: 3\n\t\u{1f600}\u{1f600}d: yy\n';
  const start = text.indexOf('yy');
  const [printed] = printDiagnostics([finding('a', start, start + 2)], () => text);
  assert.deepEqual(printed?.excerpt, {
    line: 2,
    lines: ['b: 2', 'c: 3', '\t\u{1f600}\u{1f600}d: yy'],
    column: 7,
    length: 2,
  });
});

test('a file whose text is unknown is named without a line', () => {
  assert.deepEqual(
    printDiagnostics([finding('a', 4, 7)], () => undefined),
    [{ severity: 'error', code: 'invalid-value', message: 'wrong', file: 'a' }],
  );
});

test('a rendered diagnostic shows the line and a caret under the value', () => {
  const related = [{ message: 'first written here', range: { file: 'a.yaml', start: 0, end: 4 } }];
  const text = 'name: x\n\tname: yy zz\n';
  const [printed] = printDiagnostics([finding('a.yaml', 15, 20, { hint: 'Keep one.', related })], () => text);
  assert.equal(
    renderDiagnostic(printed ?? assert.fail()),
    [
      'a.yaml:2:8: error [invalid-value] wrong',
      '  2 | \tname: yy zz',
      '    | \t      ^^^^^',
      '  a.yaml:1:1: first written here',
      '  hint: Keep one.',
    ].join('\n'),
  );
});

test('a caret is one character at least, ends with its line, and is left out past the excerpt', () => {
  const render = (start: number, end: number, text: string): string => {
    const [printed] = printDiagnostics([finding('a', start, end)], () => text);
    return (
      renderDiagnostic(printed ?? assert.fail())
        .split('\n')
        .at(-1) ?? ''
    );
  };
  assert.equal(render(2, 2, 'ab'), '    |   ^');
  assert.equal(render(0, 9, 'abc\ndefghi'), '    | ^^^');
  assert.equal(render(0, 9, 'abcdef\nxy'), '    | ^^^^^^');
  assert.equal(render(1, 3, 'abcdef'), '    |  ^^');
  assert.equal(render(190, 300, 'x'.repeat(400)), `    | ${' '.repeat(190)}${'^'.repeat(10)}`);
  assert.equal(render(300, 301, 'x'.repeat(400)), `  1 | ${'x'.repeat(200)}`);
});

test('what an author wrote cannot steer the terminal, and styles are the caller’s', () => {
  const [printed] = printDiagnostics([finding('a', 0, 1, { message: 'bad \u001b[31m key' })], () => '\u001b]0;x\u0007');
  const text = renderDiagnostic(printed ?? assert.fail(), (part, value) => `<${part}>${value}</${part}>`);
  assert.ok(!text.includes('\u001b') && !text.includes('\u0007'));
  assert.match(text, /^<place>a:1:1<\/place>: <error>error<\/error> <code>\[invalid-value\]<\/code>/);
  assert.equal(
    renderDiagnostic({ severity: 'warning', code: 'ignored-file', message: 'm' }),
    'warning [ignored-file] m',
  );
});

/** Each finding as its place, code and excerpt, line by line. */
const excerpts = (findings: readonly Finding[], texts: { readonly [file: string]: string }): readonly string[] =>
  printDiagnostics(findings, (file) => texts[file]).flatMap(({ file, line, column, excerpt }) => [
    `${file}:${line}:${column}`,
    ...(excerpt?.lines ?? []),
  ]);

const hiding = 'first: a\nkey: secret, more\nlast: b\n';
const block = 'k: |\n  one and more\n  two\n  three\nlast: b\n';
/** A text, the parts of it that are hidden, what the finding is about; and what is shown. */
const hidden: readonly (readonly [
  name: string,
  text: string,
  hides: readonly string[],
  at: string,
  ...shown: string[],
])[] = [
  ['a value', hiding, ['secret'], 'key', 'first: a', 'key: ******, more'],
  ['for a finding on a later line', hiding, ['secret'], 'last', 'first: a', 'key: ******, more', 'last: b'],
  ['two values of one line', hiding, ['secret', 'more'], 'key', 'first: a', 'key: ******, ****'],
  ['a value of several lines', block, ['one and more\n  two\n  thr'], 'last', '*****', '*****ee', 'last: b'],
  ['the first line of such a value', block, ['one and more\n  two\n  thr'], 'one', 'k: |', `  ${'*'.repeat(12)}`],
  ['no line but those', block, ['one and more\n  two'], 'last', '*****', '  three', 'last: b'],
];
for (const [name, text, hides, at, ...shown] of hidden) {
  test(`hidden in excerpts: ${name}`, () => {
    const range = (part: string) => ({ file: 'a', start: text.indexOf(part), end: text.indexOf(part) + part.length });
    const all = hides.map((part) => finding('a', 0, 1, { hides: range(part) }));
    const { start, end } = range(at);
    const lines = excerpts([...all, finding('a', start, end, { code: 'invalid-type' })], { a: text });
    assert.deepEqual(lines.slice(-shown.length), shown);
  });
}

test('of a value of very many lines nothing is shown behind it, and of a line with very many hidden values nothing', () => {
  const lines = Array.from({ length: 300 }, (_, n) => `  line ${n} of a key`);
  const text = `k: |\n${lines.join('\n')}\nlast: b\n`;
  const hides = { file: 'a', start: 7, end: text.indexOf('\nlast') };
  const at = (part: string): Finding =>
    finding('a', text.indexOf(part), text.indexOf(part) + 1, { code: 'invalid-type' });
  assert.deepEqual(excerpts([finding('a', 0, 1, { hides }), at('last')], { a: text }).slice(-3), [
    '*'.repeat(19),
    '*'.repeat(19),
    'last: b',
  ]);
  const many = `k: ${'ab '.repeat(120)}\n`;
  const parts = Array.from({ length: 120 }, (_, n) => ({ file: 'a', start: 3 + 3 * n, end: 5 + 3 * n }));
  const shown = excerpts([...parts.map((one) => finding('a', 0, 1, { hides: one }))], { a: many });
  assert.doesNotMatch(shown.join('\n'), /ab/);
});

test('what is hidden in one file is shown in another, and hides nothing where its text is unknown', () => {
  const range = { file: 'a', start: 0, end: 3 };
  const findings = [finding('a', 4, 5, { hides: range }), finding('b', 4, 5, { hides: { ...range, file: 'c' } })];
  assert.deepEqual(excerpts(findings, { a: 'abc de', b: 'abc de' }), ['a:1:5', '*** de', 'b:1:5', 'abc de']);
});

test('a long line is cut before it is masked, and a value that ends behind the cut is hidden to it', () => {
  const text = `${'x'.repeat(4_090)}${'y'.repeat(20)}\n`;
  const [printed] = printDiagnostics(
    [finding('a', 0, 1, { hides: { file: 'a', start: 190, end: 4_110 } })],
    () => text,
  );
  assert.deepEqual(printed?.excerpt?.lines, ['x'.repeat(190) + '*'.repeat(10)]);
});

test('the text of a file is asked for once', () => {
  const asked: string[] = [];
  const textOf = (file: string): string => {
    asked.push(file);
    return 'one\ntwo\n';
  };
  printDiagnostics([finding('a', 0, 1), finding('a', 4, 5), finding('b', 0, 1)], textOf);
  assert.deepEqual(asked, ['a', 'b']);
});

test('of two findings at one place the first is kept, with what it says beside; those at other columns are others', () => {
  const printed = printDiagnostics(
    [
      finding('a', 0, 1, { hint: 'first' }),
      finding('a', 0, 1, { hint: 'second' }),
      finding('a', 1, 2, { related: [] }),
    ],
    () => 'abc',
  );
  assert.deepEqual(
    printed.map(({ column, hint }) => [column, hint]),
    [
      [1, 'first'],
      [2, undefined],
    ],
  );
  assert.ok(printed.every((one) => !Object.hasOwn(one, 'related')));
});

test('what has no file comes before what has one, whatever that is called', () => {
  const nowhere: Finding = { severity: 'error', code: 'no-svc-directory', message: 'none' };
  for (const findings of [
    [nowhere, finding('!', 0, 1)],
    [finding('!', 0, 1), nowhere],
  ]) {
    const printed = printDiagnostics(findings, () => 'x');
    assert.deepEqual(
      printed.map((one) => (Object.hasOwn(one, 'file') ? one.file : 'nowhere')),
      ['nowhere', '!'],
    );
  }
});

test('a message of a diagnostic is cut to 4,096 characters', () => {
  const [printed] = printDiagnostics([finding('a', 0, 1, { message: 'm'.repeat(5_000) })], () => 'x');
  assert.equal(printed?.message.length, 4_096);
});

test('each part of a rendered diagnostic can be styled', () => {
  const related = [{ message: 'first here', range: { file: 'b', start: 0, end: 1 } }];
  const [printed] = printDiagnostics([finding('a', 4, 7, { hint: 'Do it.', related })], () => 'one\ntwo\n');
  assert.equal(
    renderDiagnostic(printed ?? assert.fail(), (part, text) => `<${part}>${text}</${part}>`),
    [
      '<place>a:2:1</place>: <error>error</error> <code>[invalid-value]</code> <message>wrong</message>',
      '  2 | <excerpt>two</excerpt>',
      '    | <caret>^^^</caret>',
      '  <related>b:1:1: first here</related>',
      '  <hint>hint: Do it.</hint>',
    ].join('\n'),
  );
});

test('what has no excerpt is rendered as one line', () => {
  const base = { severity: 'error', code: 'invalid-value', message: 'wrong' } as const;
  assert.equal(renderDiagnostic(base), 'error [invalid-value] wrong');
  assert.equal(renderDiagnostic({ ...base, file: 'a' }), 'a: error [invalid-value] wrong');
  assert.equal(renderDiagnostic({ ...base, file: 'a', line: 2, column: 3 }), 'a:2:3: error [invalid-value] wrong');
});

test('control characters and direction marks are shown as what they are', () => {
  const shown = renderDiagnostic({ severity: 'error', code: 'invalid-value', message: 'a\u0007b\u202ec\td' });
  assert.equal(shown, 'error [invalid-value] a\\u0007b\\u202ec\td');
});
