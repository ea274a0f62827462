import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLimiter } from '../base/concurrency.ts';

test('never more than the budget of a key and of all, and everything is run', async () => {
  const limited = createLimiter(4, 2);
  const now = new Map<string, number>();
  let all = 0;
  let most = 0;
  const done: string[] = [];
  const work = (key: string) =>
    limited(key, async () => {
      now.set(key, (now.get(key) ?? 0) + 1);
      all += 1;
      most = Math.max(most, all);
      assert.ok((now.get(key) ?? 0) <= 2 && all <= 4);
      await new Promise((resolve) => setImmediate(resolve));
      now.set(key, (now.get(key) ?? 0) - 1);
      all -= 1;
      done.push(key);
    });
  await Promise.all(['a', 'a', 'a', 'a', 'b', 'b', 'b', 'c', 'd', 'e'].map(work));
  assert.equal(done.length, 10);
  assert.equal(most, 4);
});

test('a failure frees its place', async () => {
  const limited = createLimiter(1, 1);
  await assert.rejects(limited('a', async () => assert.fail('planted')));
  assert.equal(await limited('a', async () => 7), 7);
});

test('a host that hangs holds no other host up', async () => {
  const limited = createLimiter(32, 1);
  let free: () => void = () => assert.fail('not started');
  const stuck = limited('slow', () => new Promise<void>((resolve) => (free = resolve)));
  const queued = limited('slow', async () => 'later');
  assert.equal(await limited('quick', async () => 'now'), 'now');
  free();
  await stuck;
  assert.equal(await queued, 'later');
});
