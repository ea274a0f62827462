import assert from 'node:assert/strict';
import { it } from 'node:test';
import * as v from 'valibot';
import { parseOutside } from './parse.ts';

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
