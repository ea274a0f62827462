import assert from 'node:assert/strict';
import { it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Fault } from '../../domain/fault.ts';
import { ByteSemaphore } from './byte-semaphore.ts';

const settledIn = async (promise: Promise<unknown>): Promise<boolean> =>
  Promise.race([promise.then(() => true), new Promise<boolean>((resolve) => setImmediate(() => resolve(false)))]);

it('bodies enter in the order of arrival, as many as fit, and one that is too large alone', async () => {
  const room = new ByteSemaphore({ bytes: 10, waitingMax: 10, waitMs: 60_000 });
  const first = await room.take(6);
  const second = await room.take(4);
  const large = room.take(50);
  const behind = room.take(1);
  first();
  first();
  assert.equal(await settledIn(large), false);
  second();
  const give = await large;
  assert.equal(await settledIn(behind), false, 'nobody beside it');
  give();
  (await behind)();
  (await room.take(10))();
});

it('those for whom there is no room in time, or too many before them, are turned away', async () => {
  const room = new ByteSemaphore({ bytes: 10, waitingMax: 1, waitMs: 1 });
  const give = await room.take(10);
  const late = room.take(1);
  await assert.rejects(room.take(1), (error) => error instanceof Fault && error.kind === 'unavailable');
  await assert.rejects(late, (error) => error instanceof Fault && error.kind === 'unavailable');
  give();
  (await room.take(10))();
});

it('an owner has its turn, and a place to wait, beside another one however many of that wait', async () => {
  const room = new ByteSemaphore({ bytes: 1, waitingMax: 3, waitMs: 1_000 });
  const isRefused = (error: unknown): boolean => error instanceof Fault && error.kind === 'unavailable';
  const give = await room.take(1, 'crowd');
  const [first, second, third] = [room.take(1, 'crowd'), room.take(1, 'crowd'), room.take(1, 'crowd')];
  await assert.rejects(room.take(1, 'crowd'), isRefused);
  const other = room.take(1, 'other');
  await assert.rejects(third, isRefused);
  give();
  (await first)();
  assert.equal(await settledIn(other), true);
  (await other)();
  (await second)();
});

it('who has had room for long and could not be asked for it back until now gives it to who waits, and nobody else does', async () => {
  const room = new ByteSemaphore({ bytes: 10, waitingMax: 10, waitMs: 60_000, lentMs: 30 });
  const asked: string[] = [];
  const lend = (name: string, bytes: number, gives: () => boolean) =>
    room.take(bytes, name, (why) => {
      assert.equal(why.kind, 'unavailable');
      asked.push(name);
      return gives();
    });
  let isThere = false;
  const giveWhole = await lend('whole', 4, () => false);
  const giveSlow = await lend('slow', 4, () => isThere);
  await sleep(60);
  assert.deepEqual(asked, [], 'nobody waits');
  const first = room.take(4);
  assert.deepEqual(asked, ['whole', 'slow']);
  isThere = true;
  const give = await first;
  assert.equal(asked.at(-1), 'slow');
  // It has given it back already.
  giveSlow();
  const young = await lend('young', 2, () => true);
  const second = room.take(2);
  assert.equal(await settledIn(second), false);
  (await second)();
  assert.equal(asked.at(-1), 'young');
  for (const one of [give, giveWhole, young]) one();
  (await room.take(10))();
});
