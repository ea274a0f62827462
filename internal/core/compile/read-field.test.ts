// What each kind of description reads and refuses, word by word, in testdata/messages/fields.txt: a row is a description and
// texts; of each text its value is told, or what is wrong with it and where. Below stand the examples of all fields.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { agent } from '../../../schemas/agent.ts';
import type { Desc } from '../../../schemas/grammar.ts';
import {
  choice,
  either,
  flag,
  free,
  group,
  list,
  name,
  record,
  scalar,
  text,
  variants,
  whole,
} from '../../../schemas/grammar.ts';
import type { Finding } from '../../domain/diagnostic.ts';
import type { Node, PathStep } from '../source/node.ts';
import { readSource } from '../source/source.ts';
import { exampleAt } from './examples.ts';
import { createCheck, show } from './read.ts';
import { reading } from './read-field.ts';

const of = 'what it is for';
const misplaced = {
  code: 'unknown-key',
  message: '{path}: {key} is of {owners}, not of {own}; {other} stays',
} as const;
const shapes = variants(
  'kind',
  {
    round: group({ radius: whole(1, 5, of), colour: text(of, { misplaced }) }, of, { others: misplaced }),
    square: group({ side: whole(1, 5, of), colour: text(of, { misplaced }), kind: text(of) }, of),
    deep: variants('sort', { one: group({ sort: text(of), kind: text(of), depth: flag(of) }, of) }, of),
  },
  of,
  { absent: 'round', legacy: { box: 'square' } },
);
const long = 'k'.repeat(81);

/** A value stands under the key `v` of a document, but for those that are told to be a whole document. */
const rows: readonly (readonly [what: string, desc: Desc, ...texts: string[]])[] = [
  ['a whole number without end', whole(2, undefined, of), '2', '1', '9007199254740991', '9007199254740993', '2.5'],
  ['a whole number', whole(1, 10, of), '10', '11', '"5"', '" -5 "', '5x', 'x5', '[5]', 'true', '~'],
  ['a flag', flag(of), 'true', '"true"', 'yes', 'Off', 'N', 'yesterday', 'enough', 'reason', 'y y', '1', '~', '[]'],
  ['a scalar', scalar(of), '12345678901234567890', 'a', '~', '[a]', '{}'],
  ['an exact scalar', scalar(of, { exact: true }), '12345678901234567890', '5', '[a]'],
  ['an object', free(of), '{a: [1, {b: ~}]}', '~', '[a]', 'x'],
  ['an object or nothing', free(of, { orNull: true }), '~', '{a: 1}', '[]'],
  ['a name', name(of), 'a.b', '[a]', '~', `" ${' '.repeat(201)}a b"`, `"a${' '.repeat(250)}b"`, '"--a b"', '"--"'],
  ['a choice', choice(['ab', 'left', 'right'], of), 'left', 'lfet', 'ac', 'cd', '5', '[]'],
  ['a choice of one, with a code', choice(['only'], of, { code: 'event-provider', hint: 'There is one.' }), 'other'],
  [
    'a choice with an older spelling',
    choice(['new'], of, { legacy: ['old'], form: 'new, always' }),
    'old',
    'odd',
    'xyz',
  ],
  ['a choice of numbers', choice([1, 2], of), '2', '3', '"2"'],
  ['a list', list(text(of), of), '[a, b]', '[a, 1]', '{a: b}', 'a'],
  [
    'a list with bounds',
    list(text(of), of, { least: 1, most: 2, what: 'names' }),
    '[]',
    '[a]',
    '[a, b]',
    '[a, b, c, 1]',
  ],
  [
    'a list of just two',
    list(text(of), of, { least: 2, most: 2, code: 'event-missing' }),
    '[1]',
    '[a, b]',
    '[a, b, 1]',
  ],
  ['a list of one', list(text(of), of, { most: 1 }), `[${'a, '.repeat(100)}1]`, `[${'a, '.repeat(101)}1]`],
  ['a record', record('key', text(of), of), '{a: b, __proto__: c}', '{"": 5}', '[a]', '{a: 5}'],
  [
    'a record with a pattern',
    record('key', text(of), of, { pattern: '[a-z_]+', what: 'a map of words', keyCode: 'event-missing' }),
    '{a: b}',
    '{a-b: 5}',
    '{A: b}',
    `{${long}5: a}`,
    'x',
  ],
  [
    'a record with a message, and a prefix',
    record('key', text(of), of, { pattern: '[$].(?:.*)', keyPrefix: '$.', keyMessage: '{path} has {key}, {none}' }),
    '{$.a: b}',
    '{a: b}',
    '{"$😀": b}',
  ],
  ['a text', text(of), 'a', '"  "', '""', '5', '~', '[a]'],
  ['a text of some characters', text(of, { most: 2 }), 'ab', '😀😀', 'abc', '😀😀😀', 'abcde'],
  ['a text that may be empty', text(of, { least: 0 }), '""', '5'],
  ['a text that is trimmed', text(of, { trim: true, most: 2, pattern: '[a-z ]*' }), '" ab "', '"  "', '" A "'],
  ['a text that is not blank', text(of, { blank: false }), '" a "', '"  "'],
  ['a text with a pattern', text(of, { pattern: 'a.' }), 'a😀', 'b', 'xab', 'abx'],
  ['a text with a form', text(of, { pattern: 'a+', what: 'a word', form: 'the letter a', hint: 'Write a.' }), 'b', '5'],
  ['a text with words for it', text(of, { pattern: 'a+', what: 'a word', code: 'event-missing' }), 'b'],
  [
    'a text that JSON escapes',
    text(of, { counted: 'escaped', most: 16 }),
    String.raw`"/\"\\ ~\t\u0001"`,
    String.raw`"/\"\\ ~\t\u0001\x7f"`,
    String.raw`"\x80\x1f\n\n\n"`,
    '"é😀"',
  ],
  ['one with words of its own', text(of, { counted: 'escaped', most: 1, code: 'event-missing', hint: 'Less.' }), 'ab'],
  [
    'a template',
    text(of, { tokens: 'payload', pattern: '[^!]*' }),
    '"{{ title }}"',
    '"{{ payload.title }}"',
    '"{{ payload.title }}!"',
  ],
  ['a group', group({ a: text(of), b: flag(of, { default: false }) }, of), '{a: x}', '{}', '{a: 5, b: 1}', 'x'],
  ['a group of one', group({ only: text(of) }, of), '[]', '{only: a, onyl: b}', `{${long}: a}`],
  [
    'a group with what must be there',
    group({ a: text(of, { required: true, lacking: 'Write a.' }), b: text(of, { stored: false }) }, of, {
      what: 'a b',
    }),
    '{a: x, b: y}',
    '{b: y}',
    '{}',
    '5',
  ],
  [
    'a group with one of its keys',
    group({ is: text(of), isNot: text(of), in: list(text(of), of) }, of, {
      alone: { noun: 'operator', code: 'where-clause' },
      what: 'an operator',
    }),
    '{is: a}',
    '{is: 5}',
    '{}',
    '{is: a, isNot: b, in: c}',
    '{isNt: a}',
    '{is: a, zzz: b}',
    `{${long}: a}`,
    'a',
    '[a]',
  ],
  [
    'a group of several',
    shapes,
    '{kind: square, side: 2, colour: red}',
    '{kind: square, side: 9}',
    '{radius: 2, colour: red}',
    '{side: 2}',
    '{kind: box, side: 2}',
    '{kind: round, side: 2, rest: 1}',
    '{kind: square, radius: 2}',
    '{kind: square, depth: 2}',
    '{kind: deep, sort: one, depth: true}',
    '{kind: deep, depth: true}',
    '{kind: suqare}',
    '{kind: [a]}',
    '{kind: ~}',
    'x',
  ],
  [
    'a group of several that must say which',
    variants('kind', { one: group({ kind: text(of) }, of) }, of, { code: 'event-missing', choose: 'Say which.' }),
    '{}',
    '{kind: two}',
    '{kind: one}',
  ],
  ['one that does not say how', variants('kind', { a: group({}, of), b: group({}, of) }, of), '{}'],
  ['a flag or a list', either(flag(of), list(text(of), of), of), 'true', '[a]', '{a: b}', 'x'],
  [
    'a flag or a map, with words for both',
    either(flag(of), record('key', text(of), of), of, { what: 'true, false or a map', hint: 'Choose.' }),
    'true',
    '{a: b}',
    '[a]',
    'x',
    '~',
  ],
  [
    'a scalar or a list, with words for both',
    either(scalar(of), list(scalar(of), of), of, { what: 'one or several' }),
    '5',
    '[5]',
    '{a: b}',
  ],
  [
    'a name or a group, with words for both',
    either(name(of), group({ a: text(of) }, of), of, { what: 'a name or a group' }),
    'a',
    'a b',
    '{a: b}',
    '5',
    '[a]',
  ],
];

/** What stands where a secret belongs, or as the whole document: its text is never told. */
const documents: readonly (readonly [what: string, desc: Desc, ...texts: string[]])[] = [
  ['a document', group({ a: text(of) }, of), 'b: 1\n', 'a: 1\n'],
  ['a secret', group({ $secret: name(of), token: name(of) }, of), '$secret: "a b"\n', 'token: "a b"\n'],
  [
    'a token',
    group({ token: group({ $secret: name(of), kind: text(of) }, of) }, of),
    'token: {$secrt: key}\n',
    'token: {other: key}\n',
    'token: key\n',
    'token: [key]\n',
  ],
  [
    'variables',
    group({ env: record('key', text(of), of) }, of),
    'env: A=key\n',
    'env: [A=key]\n',
    'env: {A: [key]}\n',
    'env: {A: {b: key}}\n',
  ],
];

const short = (value: string): string =>
  value.replace(/(.{1,9}?)\1{29,}/gs, (run, unit: string) => `${unit}×${run.length / unit.length}`);

/** Reads a node by its description, and tells its value, or each finding with the text that it points at. */
function told(desc: Desc, node: Node, source: string, isDocument: boolean): string[] {
  const findings: Finding[] = [];
  const trail = isDocument ? null : { parent: null, step: 'v' };
  const check = createCheck((finding) => findings.push(finding));
  const value = reading(desc)(check, { node, key: node.range, trail });
  const at = ({ start, end }: { start: number; end: number }): string => JSON.stringify(source.slice(start, end));
  const lines = findings.flatMap((one) => [
    `    ${one.code} at ${one.range === undefined ? '' : at(one.range)} ${one.path ?? ''}: ${one.message}`,
    ...(Object.hasOwn(one, 'hint') ? [`      ${one.hint}`] : []),
    ...(one.hides === undefined ? [] : [`      hides ${at(one.hides)}`]),
  ]);
  return [...(value === undefined && lines.length > 0 ? [] : [`    is ${JSON.stringify(value)}`]), ...lines];
}

function read(row: readonly [what: string, desc: Desc, ...texts: string[]], isDocument: boolean): string[] {
  const [what, desc, ...texts] = row;
  const lines = texts.flatMap((one) => {
    const source = isDocument ? one : `v: ${one}\n`;
    const root = readSource('f.yaml', Buffer.from(source)).documents[0]?.root;
    const node = isDocument ? root : root?.entries.get('v')?.value;
    assert.ok(node !== undefined, source);
    return [`  ${one.trim()}`, ...told(desc, node, source, isDocument)];
  });
  return [what, ...lines].map(short);
}

/** The example of each field of the agent document, by its path. */
function examples(desc: Desc, path: readonly PathStep[], depth = 0): string[] {
  const own = path.length === 0 ? [] : [`  ${path.join('.')}: ${exampleAt(path) ?? ''}`];
  if (depth > 6) return own;
  const go = (next: Desc, ...more: PathStep[]): string[] => examples(next, [...path, ...more], depth + 1);
  switch (desc.kind) {
    case 'list':
      return [...own, ...go(desc.item, 0)];
    case 'record':
      return [...own, ...go(desc.value, 'key')];
    case 'either':
      return [...own, ...go(desc.single), ...go(desc.parts)];
    case 'group':
      return [...own, ...Object.entries(desc.fields).flatMap(([key, field]) => go(field, key))];
    case 'variants':
      return [...own, ...Object.values(desc.variants).flatMap((variant) => go(variant))];
    default:
      return own;
  }
}

test('what a description reads and refuses stands in these words', (t) => {
  const lines = [...rows.flatMap((row) => read(row, false)), ...documents.flatMap((row) => read(row, true))];
  const none = [['none'], [0], ['name', 0], ['manages', 'x'], ['imports', 'x'], ['env', 'A', 'x'], ['toString'], []];
  const shown = [
    ...new Set(examples(agent, [])),
    ...none.map((path) => `  ${path.join('.')}: ${exampleAt(path) ?? 'none'}`),
  ];
  const text = [...lines, 'examples', ...shown].join('\n');
  const file = join(import.meta.dirname, '../../../testdata/messages/fields.txt');
  t.assert.fileSnapshot(`${text}\n`, file, { serializers: [String] });
});

test('a number that is none is refused, where no file can have it', () => {
  const range = { file: 'f', start: 0, end: 1 };
  for (const value of [Number.NaN, Number.POSITIVE_INFINITY]) {
    const lines = told(scalar(of), { kind: 'scalar', value, range }, 'x', false);
    assert.deepEqual(lines, [`    invalid-value at "x" v: v must be a finite number, not ${value}`]);
  }
});

test('a value is shown with at most forty characters, and never a credential', () => {
  const range = { file: 'f', start: 0, end: 1 };
  const shown = (value: string): string => show({ kind: 'scalar', value, range });
  assert.equal(shown('x'.repeat(40)), `"${'x'.repeat(40)}"`);
  assert.equal(shown('x'.repeat(41)), `"${'x'.repeat(40)}…"`);
});

test('of many errors the first two hundred come with a suggestion or an example', () => {
  const hints = (desc: Desc, item: string): number => {
    const source = `imports: [${`${item}, `.repeat(210)}]\n`;
    const root = readSource('f.yaml', Buffer.from(source)).documents[0]?.root;
    assert.ok(root !== undefined);
    const findings: Finding[] = [];
    const check = createCheck((finding) => findings.push(finding));
    reading(group({ imports: list(desc, of) }, of))(check, { node: root, key: root.range, trail: null });
    assert.equal(findings.length, 210);
    return findings.filter(({ hint }) => hint !== undefined).length;
  };
  assert.equal(hints(choice(['left'], of), 'lfet'), 201);
  assert.equal(hints(text(of), '{}'), 201);
});
