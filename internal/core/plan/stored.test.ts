import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Diagnostic } from '../../domain/diagnostic.ts';
import { sortDiagnostics } from './stored.ts';

/** `file:line:column`, a code, a message and a path, of which any may be left out. */
const at = (text: string): Diagnostic => {
  const [place = '', code = 'c', message = 'm', path = ''] = text.split(' ');
  const [file = '', line, column] = place.split(':');
  return {
    severity: 'error',
    code: code as Diagnostic['code'],
    message,
    ...(file === '' ? {} : { file }),
    ...(line === undefined ? {} : { line: Number(line), column: Number(column ?? 1) }),
    ...(path === '' ? {} : { path }),
  };
};

test('diagnostics are in order of file, line, column, code, message and path; what has none comes first', () => {
  const rows: readonly (readonly string[])[] = [
    ['', '.svc/a', 'B', 'a'],
    ['a', 'a:1', 'a:2', 'a:3', 'a:10'],
    ['a:1:1', 'a:1:2', 'a:1:3', 'a:1:10'],
    ['a:1 a', 'a:1 b', 'a:1 c'],
    ['a:1 c a', 'a:1 c b', 'a:1 c c'],
    ['a c m', 'a c m A', 'a c m ["x"]', 'a c m a', 'a c m b'],
    ['', 'a:9 c l', 'a:9 c m', 'b:1', 'b:2'],
  ];
  for (const row of rows) {
    const sorted = row.map(at);
    for (const given of [sorted, sorted.toReversed(), [...sorted.slice(1), ...sorted.slice(0, 1)]]) {
      assert.deepEqual(sortDiagnostics(given), sorted, row.join(', '));
    }
  }
});

test('one mistake at one place is told once', () => {
  const rows: readonly (readonly [first: string, second: string, told: number])[] = [
    ['a:1', 'a:1', 1],
    ['a:1', 'b:1', 2],
    ['a:1', 'a:2', 2],
    ['a:1:1', 'a:1:2', 2],
    ['a:1 c', 'a:1 d', 2],
    ['a:1 c m', 'a:1 c n', 2],
    // The place says more than the path does; without one the path is the place.
    ['a:1 c m p', 'a:1 c m q', 1],
    ['a c m p', 'a c m q', 2],
    ['a c m p', 'a c m p', 1],
    ['a c m', 'a c m p', 2],
  ];
  for (const [first, second, told] of rows) {
    assert.equal(sortDiagnostics([at(first), at(second)]).length, told, `${first} and ${second}`);
  }
});
