import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { parse } from 'yaml';
import { yamlOf } from './formats.ts';
import type { CliIo } from './io.ts';
import { createScreen } from './screen.ts';
import {
  clean,
  colourPaint,
  count,
  cut,
  durationText,
  nearest,
  parseDurationSeconds,
  plainPaint,
  relativeTime,
  table,
  widthOf,
} from './text.ts';

const now = new Date('2026-01-02T00:00:00Z');

test('durations of options are seconds', () => {
  const cases: readonly [string, number | undefined][] = [
    ['60s', 60],
    ['60', 60],
    ['5m', 300],
    ['2h', 7200],
    ['1d', 86_400],
    ['', undefined],
    ['s', undefined],
    ['-5s', undefined],
    ['1.5m', undefined],
    ['60sec', undefined],
  ];
  for (const [text, seconds] of cases) assert.equal(parseDurationSeconds(text), seconds, text);
});

test('relative times show the smaller unit only while it matters', () => {
  const cases: readonly [string | null, string][] = [
    ['2026-01-02T00:00:00Z', 'now'],
    ['2026-01-01T23:59:48Z', '12s ago'],
    ['2026-01-02T00:02:30Z', 'in 2m30s'],
    ['2026-01-01T23:15:10Z', '44m ago'],
    ['2026-01-02T03:20:00Z', 'in 3h20m'],
    ['2025-12-20T00:00:00Z', '13d ago'],
    [null, '-'],
    ['soon', 'soon'],
  ];
  for (const [at, text] of cases) assert.equal(relativeTime(at, now), text);
});

test('spans of a run are short', () => {
  assert.deepEqual([8, 999.4, 1240, 12_345, 125_000].map(durationText), ['8ms', '999ms', '1.24s', '12.3s', '2m5s']);
});

test('text from outside cannot drive a terminal', () => {
  assert.equal(clean('a\u001b[2Jb\u0007\u202ec'), 'a\\x1b[2Jb\\x07\\u202ec');
  assert.equal(clean('a\u061cb'), 'a\\u061cb');
  assert.equal(clean('a\nb\tc'), 'a\nb\tc');
  assert.equal(clean('a\r\nb\tc', true), 'a\\x0d⏎b c');
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      const shown = clean(text, true);
      assert.ok(![...shown].some((each) => each < ' ' || (each >= '\u007f' && each <= '\u009f')));
    }),
  );
});

test('widths count columns, not code units, and no colour', () => {
  assert.equal(widthOf('abc'), 3);
  assert.equal(widthOf('日本'), 4);
  assert.equal(widthOf('👩‍👩‍👧'), 2);
  assert.equal(widthOf(colourPaint('red', 'abc')), 3);
});

test('cut text fits and says that it was cut', () => {
  assert.equal(cut('abcdef', 4), 'abc…');
  assert.equal(cut('日本語', 4), '日…');
  assert.equal(cut('abc', 3), 'abc');
  fc.assert(
    fc.property(fc.string(), fc.integer({ min: 1, max: 40 }), (text, width) => widthOf(cut(text, width)) <= width),
  );
});

test('a table is aligned, and is cut only for a terminal', () => {
  const rows = [
    ['short', 'a rather long source that does not fit', 'ok'],
    ['a-longer-name', 'x', 'failed'],
  ];
  assert.equal(
    table(['name', 'source', 'state'], rows, { paint: plainPaint }),
    [
      'NAME           SOURCE                                  STATE',
      'short          a rather long source that does not fit  ok',
      'a-longer-name  x                                       failed',
    ].join('\n'),
  );
  const narrow = table(['name', 'source', 'state'], rows, { paint: plainPaint, width: 40 });
  assert.equal(
    narrow,
    [
      'NAME           SOURCE             STATE',
      'short          a rather long so…  ok',
      'a-longer-name  x                  failed',
    ].join('\n'),
  );
});

test('a column of ids is never cut, however narrow the terminal', () => {
  const id = '019ab3c4-0000-7000-8000-00000000000a';
  const text = table(['title', 'id'], [['a title that is long enough to be cut', id]], {
    paint: plainPaint,
    width: 50,
  });
  assert.ok(text.endsWith(id), text);
  assert.match(text, /^a title tha…  019ab3c4/m);
});

test('a table of any text keeps to the width of a terminal that has room for its columns', () => {
  const cell = fc.string({ unit: 'grapheme', maxLength: 60 });
  fc.assert(
    fc.property(fc.array(fc.tuple(cell, cell, cell), { minLength: 1, maxLength: 5 }), (rows) => {
      const text = table(['a', 'b', 'c'], rows, { paint: plainPaint, width: 50 });
      assert.equal(text.split('\n').length, rows.length + 1);
      for (const line of text.split('\n')) assert.ok(widthOf(line) <= 50, line);
    }),
  );
});

test('the nearest word is offered, and a far one is not', () => {
  assert.equal(nearest('lst', ['list', 'show', 'sync']), 'list');
  assert.equal(nearest('--jsn', ['--json', '--org']), '--json');
  assert.equal(nearest('frobnicate', ['list', 'show']), undefined);
  assert.equal(nearest('agnet', ['get', 'agent']), 'agent');
  assert.equal(nearest('al', ['ag', 'repos']), 'ag');
  assert.equal(nearest('xy', ['ag', 'ep']), undefined);
});

test('nouns are counted', () => {
  assert.deepEqual(
    [count(1, 'agent'), count(2, 'identity'), count(0, 'error')],
    ['1 agent', '2 identities', '0 errors'],
  );
});

test('documents write as escapes what would steer a terminal, and mean the same', () => {
  const hostile = '\u001b]0;x\u0007\r\u007f\u009b2J\u061c\u200f\u202e\u2066 é\n';
  const value = { [hostile]: [hostile, 'plain'] };
  for (const format of ['json', 'yaml'] as const) {
    for (const way of ['emit', 'stream'] as const) {
      let written = '';
      const stdout = { write: (text: string) => (written += text) };
      const io = { stdout, stderr: stdout, env: {} } as unknown as CliIo;
      const screen = createScreen(io, format, { yaml: yamlOf });
      screen[way](value, () => '');
      assert.equal(clean(written), written, `${format} ${way}`);
      assert.deepEqual(parse(written), value);
    }
  }
});
