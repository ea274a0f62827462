import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { settlesWithin, timeLimit, unlessAborted, within } from './waits.ts';

const never = new Promise<never>(() => undefined);
const timers = (): number => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;

test('work that ends in time gives what it gives or throws, and no timer stays behind', async () => {
  const before = timers();
  assert.deepEqual(await within(Promise.resolve(1), 60_000), { value: 1 });
  assert.deepEqual(await within(Promise.resolve(undefined), 60_000), { value: undefined });
  await assert.rejects(within(Promise.reject(new Error('it failed')), 60_000), /it failed/);
  assert.equal(timers(), before);
});

test('work that takes longer is waited for no more, and may fail unheard', async () => {
  const late = Promise.withResolvers<void>();
  assert.equal(await within(late.promise, 1), undefined);
  late.reject(new Error('nobody hears it'));
  await turn();
});

test('work that fails in time has ended, and work that takes longer has not', async () => {
  assert.equal(await settlesWithin(Promise.resolve(), 60_000), true);
  assert.equal(await settlesWithin(Promise.reject(new Error('its owner hears it')), 60_000), true);
  assert.equal(await settlesWithin(never, 1), false);
});

test('a limit of time ends also where the caller leaves, with the reason of whichever comes first', async () => {
  const caller = new AbortController();
  const limit = timeLimit(60_000, caller.signal);
  caller.abort(new Error('the caller left'));
  assert.throws(() => limit.throwIfAborted(), /the caller left/);
  const late = timeLimit(1);
  await assert.rejects(unlessAborted(never, late), { name: 'TimeoutError' });
});

test('work that ends before anybody wants it no more gives what it gives or throws, and no listener stays behind', async () => {
  const { signal } = new AbortController();
  assert.equal(await unlessAborted(Promise.resolve(1), signal), 1);
  await assert.rejects(unlessAborted(Promise.reject(new Error('it failed')), signal), /it failed/);
  assert.equal(getEventListeners(signal, 'abort').length, 0);
});

test('work that nobody wants any more, or wanted from the beginning, is waited for no more and may fail unheard', async () => {
  const wanted = new AbortController();
  const late = Promise.withResolvers<void>();
  const waiting = unlessAborted(late.promise, wanted.signal);
  wanted.abort(new Error('the daemon stops'));
  await assert.rejects(waiting, /the daemon stops/);
  await assert.rejects(unlessAborted(never, wanted.signal), /the daemon stops/);
  assert.equal(getEventListeners(wanted.signal, 'abort').length, 0);
  late.reject(new Error('nobody hears it'));
  await turn();
});
