import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type Amount,
  type Bencher,
  heldAgainst,
  isKept,
  median,
  medianMs,
  ms,
  printRows,
  type Row,
  runBench,
  steadyMs,
} from './harness.ts';

/** The row that a bench makes of two measurements. */
async function rowOf(subject: Amount, baseline: Amount, bound: number): Promise<Row> {
  const run = async (bench: Bencher): Promise<void> => bench.ratio('this / that', subject, baseline, bound);
  const [row] = await runBench({ name: 'one', title: 'One', run });
  assert.ok(row);
  return row;
}
const verdictOf = (row: Row): string | undefined => /^\S+/.exec(printRows('', [row]).trim())?.[0];

const calm = medianMs([95, 100, 105]);
const wild = medianMs([90, 100, 111]);
const cases: readonly (readonly [string, Amount, Amount, number, 'ok' | 'MISS' | 'noisy', number])[] = [
  ['what is under its bound', ms(120), calm, 1.3, 'ok', 1.2],
  ['what is just at it', ms(130), calm, 1.3, 'ok', 1.3],
  ['what is over it', ms(131), calm, 1.3, 'MISS', 1.31],
  ['what is over it where the baseline spreads over a fifth', ms(500), wild, 1.3, 'noisy', 5],
  ['a baseline that spreads a fifth and no more', ms(500), medianMs([90, 100, 110]), 1.3, 'MISS', 5],
  ['what is kept is ok whatever the baseline says', ms(120), wild, 1.3, 'ok', 1.2],
  ['the runs of the subject excuse nothing', medianMs([100, 200, 500]), calm, 1.3, 'MISS', 2],
  ['a baseline of one run says nothing of itself', ms(200), medianMs([100]), 1.3, 'MISS', 2],
  ['a measurement that was not made', ms(Number.NaN), calm, 1.3, 'MISS', Number.NaN],
  ['nor is it excused by noise', ms(Number.NaN), wild, 1.3, 'MISS', Number.NaN],
  ['a baseline of nothing', ms(1), ms(0), 1.3, 'MISS', Number.POSITIVE_INFINITY],
];
for (const [what, subject, baseline, bound, verdict, value] of cases) {
  test(what, async () => {
    const row = await rowOf(subject, baseline, bound);
    assert.deepEqual([verdictOf(row), isKept(row)], [verdict, verdict !== 'MISS']);
    assert.equal(row.value, value);
  });
}

test('a count has no noise, and what was skipped is held against nothing', async () => {
  const rows = await runBench({
    name: 'counts',
    title: 'Counts',
    run: async (bench) => {
      bench.atMost('lost', 0, 0, 'events');
      bench.atMost('late', 1, 0, 'events');
      bench.skipped('in a cluster', 'there is none');
    },
  });
  assert.deepEqual(rows.map(isKept), [true, false, true]);
  const [title, lost, late, skipped] = printRows('Counts', rows).split('\n');
  assert.equal(title, 'Counts');
  assert.match(lost ?? '', /^ {2}ok .*lost +0 events +at most 0 events$/);
  assert.match(late ?? '', /^ {2}MISS .*late +1 events +at most 0 events$/);
  assert.match(skipped ?? '', /^ {2}skipped: there is none +in a cluster$/);
});

test('a median is the middle one, or between the two that are', () => {
  assert.deepEqual([median([3, 1, 2]), median([4, 1, 3, 2]), median([])], [2, 2.5, Number.NaN]);
  const order = [3, 1, 2];
  median(order);
  assert.deepEqual(order, [3, 1, 2]);
});

test('samples that drift are noise, though each beside its neighbour looks calm', () => {
  const drifting = steadyMs([10, 10, 11, 11, 12, 12, 13, 13]);
  assert.deepEqual(drifting.runs, [10, 11, 12, 13]);
  assert.equal(drifting.value, 11.5);
  assert.deepEqual(steadyMs([5, 5, 5, 5, 5, 5, 5, 5]).runs, [5, 5, 5, 5]);
});

test('what a time is held against that nobody measured is as noisy as what was measured with it', async () => {
  assert.deepEqual(heldAgainst(1_000, medianMs([90, 100, 111])), {
    value: 1_000,
    unit: 'ms',
    runs: [900, 1_000, 1_110],
  });
  assert.equal((await rowOf(ms(2_000), heldAgainst(1_000, wild), 1)).isNoisy, true);
  assert.equal((await rowOf(ms(2_000), heldAgainst(1_000, calm), 1)).isNoisy, false);
});
