import assert from 'node:assert/strict';
import { it } from 'node:test';
import * as v from 'valibot';
import { mapOf, parseOutside, withKeysMax } from './parse.ts';

const names = v.strictObject({ names: v.pipe(v.array(v.pipe(v.string(), v.minLength(1))), v.maxLength(100_000)) });
const told = (value: unknown): number => parseOutside(names, value).issues?.length ?? 0;

it('every mistake of a value is told, and the first of one with very many parts', () => {
  assert.equal(told({ names: ['a', 1, '', 'b', []], more: 1 }), 4);
  assert.equal(told({ names: Array.from({ length: 1_000 }, () => []) }), 1_000);
  assert.equal(told({ names: Array.from({ length: 50_000 }, () => []) }), 1);
  assert.equal(told({ names: [Array.from({ length: 50_000 }, () => 0)] }), 1);
  assert.equal(told({ names: Array.from({ length: 100_001 }, () => 'a') }), 1);
});

it('a value that is as it should be is taken, however large', () => {
  const value = { names: Array.from({ length: 50_000 }, (_, at) => `n${at}`) };
  assert.deepEqual(parseOutside(names, value).output, value);
});

it('a map is taken up to its number of keys, and none of them is looked at beyond', () => {
  let looked = 0;
  const seen = v.pipe(
    v.string(),
    v.check(() => (looked += 1) > 0),
  );
  const map = withKeysMax(v.record(seen, v.number()), 3, 'things');
  const holding = v.strictObject({ map: v.exactOptional(map) });
  const told = (value: unknown) => parseOutside(holding, value).issues?.map((issue) => issue.message);
  assert.equal(told({ map: { a: 1, b: 2, c: 3 } }), undefined);
  assert.equal(looked, 3);
  assert.deepEqual(told({ map: { a: 1, b: 2, c: 3, d: 4 } }), ['Expected at most 3 things']);
  assert.equal(looked, 3);
  for (const value of [[1, 2, 3, 4], null, 'abcd', { a: 'x' }]) assert.equal(told({ map: value })?.length, 1);
});

it('names that mean something to the language are names as any others in a map', () => {
  const short = v.pipe(v.string(), v.maxLength(2, 'Expected a short one'));
  const map = v.strictObject({
    map: withKeysMax(
      mapOf(v.pipe(v.string(), v.regex(/^(?!prototype)[_a-z]+$/, 'Expected a name')), short),
      4,
      'things',
    ),
  });
  const read = (text: string) => parseOutside(map, JSON.parse(`{"map":${text}}`));
  const { output } = read('{"__proto__":"p","constructor":"c","a":"b"}');
  assert.equal(JSON.stringify(output), '{"map":{"a":"b","__proto__":"p","constructor":"c"}}');
  const made = (output as { readonly map: object }).map;
  assert.equal(Object.getPrototypeOf(made), Object.prototype);
  const mistakes = (text: string) => read(text).issues?.map((one) => `${v.getDotPath(one)}: ${one.message}`);
  assert.deepEqual(mistakes('{"__proto__":"long","prototype":"p","a":"long"}'), [
    'map.a: Expected a short one',
    'map.__proto__: Expected a short one',
    'map.prototype: Expected a name',
  ]);
  for (const other of ['[1]', '"a"', 'null', '1']) assert.equal(read(other).success, false, other);
});
