import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Budget, Merging, weightOf } from './budget.ts';
import { documentWorkMax, treeWorkMax } from './limits.ts';
import { mergedFrom } from './testkit.ts';

/** Sixteen for each value, and three for each 32 characters that are begun, of keys and texts. */
const weights: readonly (readonly [text: string, weight: number])[] = [
  ['a: 1\n', 2 * 16 + 3],
  ['a: [1, 2]\n', 4 * 16 + 3],
  ['a: {b: c}\n', 3 * 16 + 3],
  [`a: ${'x'.repeat(31)}\n`, 2 * 16 + 3],
  [`a: ${'x'.repeat(32)}\n`, 2 * 16 + 6],
  [`${'k'.repeat(32)}: 1\n`, 2 * 16 + 3],
  [`${'k'.repeat(33)}: 1\n`, 2 * 16 + 6],
  ['a: 123456789012345678901234567890123456789\n', 2 * 16 + 3],
];
for (const [text, weight] of weights) {
  test(`${JSON.stringify(text)} weighs ${weight}`, () => assert.equal(weightOf(mergedFrom(text).root), weight));
}

test('what has one name is paid for once, and all that there is may be spent', () => {
  const budget = new Budget();
  budget.pay({ name: 'a', work: treeWorkMax });
  budget.pay({ name: 'a', work: treeWorkMax });
  assert.equal(budget.isSpent, false);
  budget.pay({ name: 'b', work: 1 });
  assert.equal(budget.isSpent, true);
});

test('merging counts what it copies, and copies nothing twice', () => {
  const merging = new Merging();
  const map = new Map([
    ['a', 1],
    ['b', 2],
  ]);
  const own = merging.ownMap(map);
  assert.deepEqual([own, merging.work], [map, 2]);
  assert.notEqual(own, map);
  assert.equal(merging.ownMap(own), own);
  const list = merging.ownList([1, 2, 3]);
  assert.deepEqual(list, [1, 2, 3]);
  assert.equal(merging.ownList(list), list);
  assert.equal(merging.work, 5);
  merging.text(32);
  merging.text(33);
  assert.equal(merging.work, 8);
  merging.text(32 * (documentWorkMax - 8));
  assert.equal(merging.isSpent, false);
  merging.text(1);
  assert.equal(merging.isSpent, true);
});
