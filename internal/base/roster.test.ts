import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { Roster } from './roster.ts';

test('who is there is told in the order of coming, and who has left is not', () => {
  const roster = new Roster<string>();
  const leave = new Map(['a', 'b', 'c', 'd'].map((name) => [name, roster.add(name)]));
  assert.deepEqual([roster.size, [...roster]], [4, ['a', 'b', 'c', 'd']]);
  leave.get('b')?.();
  leave.get('b')?.();
  assert.deepEqual([roster.size, [...roster]], [3, ['a', 'c', 'd']]);
  leave.get('a')?.();
  leave.get('d')?.();
  roster.add('e');
  assert.deepEqual([roster.size, [...roster]], [2, ['c', 'e']]);
  leave.get('c')?.();
  assert.deepEqual([...roster], ['e']);
});

test('who leaves while all are gone through is not met any more', () => {
  const roster = new Roster<number>();
  const leave = [1, 2, 3, 4].map((n) => roster.add(n));
  const met: number[] = [];
  for (const n of roster) {
    met.push(n);
    if (n === 1) for (const one of [0, 2]) leave[one]?.();
  }
  assert.deepEqual(met, [1, 2, 4]);
  leave[1]?.();
  leave[3]?.();
  assert.deepEqual([roster.size, [...roster]], [0, []]);
});

const churn = `
import { PerformanceObserver } from 'node:perf_hooks';
import { Roster } from ${JSON.stringify(new URL('roster.ts', import.meta.url).href)};
const roster = new Roster();
const there = [];
const come = (n) => {
  const item = { of: new Array(200).fill(n) };
  there.push([item, roster.add(item)]);
  if (there.length > 256) there.shift()[1]();
};
for (let n = 0; n < 20_000; n += 1) come(n);
global.gc();
global.gc();
const before = process.memoryUsage().heapUsed;
for (let n = 0; n < 100_000; n += 1) come(n);
// What is left behind by quick collections alone: 160 MB have come and gone.
global.gc({ type: 'minor' });
console.log(Math.round((process.memoryUsage().heapUsed - before) / 1_048_576));
`;

test('nothing of who has left outlives a quick collection, once all of it is old', async () => {
  const args = ['--expose-gc', '--input-type=module-typescript', '-e', churn];
  const { stdout } = await promisify(execFile)(process.execPath, args, { maxBuffer: 1_048_576 });
  assert.ok(Number(stdout) < 20, `${stdout.trim()} MB are held`);
});
