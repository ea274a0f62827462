import assert from 'node:assert/strict';
import { test } from 'node:test';
import { WorkGate } from './in-hand.ts';

test('of two that are tried alone one comes after the other, though the first takes so long that others are let in', async () => {
  const gate = new WorkGate(1);
  const first = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  const seen: string[] = [];
  const slow = gate.alone(async () => {
    seen.push('slow begins');
    begun.resolve();
    await first.promise;
    seen.push('slow ends');
  });
  await begun.promise;
  const next = gate.alone(async () => {
    seen.push('next');
  });
  // What is not alone waits only so long.
  const leave = await gate.enter();
  seen.push('beside');
  leave();
  first.resolve();
  await Promise.all([slow, next]);
  assert.deepEqual(seen, ['slow begins', 'beside', 'slow ends', 'next']);
  await assert.rejects(
    gate.alone(() => Promise.reject(new Error('it failed'))),
    /it failed/,
  );
  assert.equal(await gate.alone(async () => 'after a failure'), 'after a failure');
});
