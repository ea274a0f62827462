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

test('owners of one key take turns, whoever asked first; what is urgent of any goes before', async () => {
  const limited = createLimiter(8, 1);
  const done: string[] = [];
  const ask = (owner: string, name: string, urgent = false) =>
    limited('server', async () => void done.push(name), { owner, urgent });
  let free: () => void = () => assert.fail('not started');
  const first = limited('server', () => new Promise<void>((resolve) => (free = resolve)), { owner: 'a' });
  const asked = ['a1', 'a2', 'a3', 'a4'].map((name) => ask('a', name));
  asked.push(ask('b', 'b1'), ask('b', 'b2'), ask('c', 'c1'), ask('a', 'a-urgent', true));
  const ending = new AbortController();
  const gone = limited('server', async () => void done.push('gone'), { owner: 'd', signal: ending.signal });
  ending.abort(new Error('it waits no more'));
  await assert.rejects(gone, /it waits no more/);
  free();
  await Promise.all([first, ...asked]);
  assert.deepEqual(done, ['a-urgent', 'a1', 'b1', 'c1', 'a2', 'b2', 'a3', 'a4']);
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
