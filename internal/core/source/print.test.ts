import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Finding } from '../../domain/diagnostic.ts';
import { LineTable, printDiagnostics, renderDiagnostic } from './source.ts';

const finding = (file: string, start: number, end: number, more: Partial<Finding> = {}): Finding => ({
  severity: 'error',
  code: 'invalid-value',
  message: 'wrong',
  range: { file, start, end },
  ...more,
});

test('an offset becomes a line and a column, also at line ends and past the end', () => {
  const table = new LineTable('ab\r\n\ncd');
  const positions = [0, 2, 3, 4, 5, 6, 7, 99, -1].map((offset) => table.at(offset));
  assert.deepEqual(
    positions.map(({ line, column }) => `${line}:${column}`),
    ['1:1', '1:3', '1:4', '2:1', '3:1', '3:2', '3:3', '3:3', '1:1'],
  );
  assert.deepEqual(
    [1, 2, 3, 4].map((line) => table.line(line, 10)),
    ['ab', '', 'cd', ''],
  );
});

test('an excerpt is cut, and holds neither NUL nor half a pair', () => {
  const table = new LineTable(`a\0${'x'.repeat(197)}\u{1f600}`);
  assert.equal(table.line(1, 200), `a\u2400${'x'.repeat(197)}\ufffd`);
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
