import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Semaphore } from './semaphore.ts';

/** Work that says when it begins and ends when it is told to. */
function worker(gate: Semaphore, begun: string[]) {
  return (owner: string) => {
    const { promise, resolve: end } = Promise.withResolvers<void>();
    const ended = gate.run(owner, () => {
      begun.push(owner);
      return promise;
    });
    return { ended, end };
  };
}
const settle = (): Promise<void> => sleep(5);

test('of several owners those have the next turn who have the least inside', async () => {
  const begun: string[] = [];
  const start = worker(new Semaphore(2, 60_000), begun);
  const [first, second] = [start('a'), start('a'), start('a'), start('a'), start('b')];
  await settle();
  assert.deepEqual(begun, ['a', 'a']);
  first?.end();
  await first?.ended;
  await settle();
  assert.deepEqual(begun, ['a', 'a', 'b']);
  second?.end();
  await second?.ended;
  await settle();
  assert.deepEqual(begun, ['a', 'a', 'b', 'a']);
});

test('what takes longer than a moment holds up its owner alone, whose width is what it was', async () => {
  const begun: string[] = [];
  const start = worker(new Semaphore(2, 20), begun);
  const slow = [start('a'), start('a'), start('a')];
  const other = start('b');
  await settle();
  assert.deepEqual(begun, ['a', 'a']);
  await sleep(60);
  assert.deepEqual(begun, ['a', 'a', 'b']);
  slow[0]?.end();
  await slow[0]?.ended;
  await settle();
  assert.deepEqual(begun, ['a', 'a', 'b', 'a']);
  for (const one of [...slow, other]) one.end();
  await Promise.all([...slow, other].map((one) => one.ended));
});

test('what fails gives its place up', async () => {
  const gate = new Semaphore(1, 60_000);
  await assert.rejects(
    gate.run('a', () => Promise.reject(new Error('no'))),
    /no/,
  );
  assert.equal(await gate.run('b', () => Promise.resolve(1)), 1);
});
