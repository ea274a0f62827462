import assert from 'node:assert/strict';
import { it } from 'node:test';
import { Demand } from './demand.ts';

/** `n` at once from `at` for `ms`. */
function spans(demand: Demand, list: readonly (readonly [n: number, at: number, ms: number])[]): void {
  for (const [n, at, ms] of list) {
    demand.change(n, at);
    demand.change(-n, at + ms);
  }
}

const cases: readonly (readonly [name: string, list: readonly (readonly [number, number, number])[], kept: number])[] =
  [
    ['nothing wants any', [], 1],
    ['one at a time', [[1, 0, 4_000]], 1],
    ['three that meet for moments', Array.from({ length: 5 }, (_, n) => [3, n * 1_000, 9] as const), 1],
    ['three for a hundredth of the time', [[3, 0, 50]], 3],
    [
      'what more wanted counts for fewer as well',
      [
        [7, 0, 25],
        [4, 100, 30],
      ],
      4,
    ],
    ['all of the time', [[7, 0, 5_000]], 7],
  ];

for (const [name, list, kept] of cases)
  it(`as many are kept as are wanted long enough: ${name}`, () => {
    const demand = new Demand(0);
    spans(demand, list);
    assert.equal(demand.worthKeeping(5_000), kept);
    assert.equal(demand.worthKeeping(10_000), 1, 'what was, is over');
  });

it('as many are kept as are wanted long enough: what is still wanted', () => {
  const demand = new Demand(0);
  demand.change(2, 4_000);
  assert.equal(demand.worthKeeping(5_000), 2);
  assert.equal(demand.worthKeeping(10_000), 2);
  demand.change(-2, 10_005);
  assert.equal(demand.worthKeeping(15_000), 1);
});
