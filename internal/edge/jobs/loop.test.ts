import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fault } from '../../domain/fault.ts';
import type { FlowContext } from '../../flows/context.ts';
import { loop } from './loop.ts';

test('what fails the turns of loops is told once a minute, and of all loops once where it is the database', async () => {
  let nowMs = 1_000;
  const told: { err: Error; service: string; more?: number }[] = [];
  const log = { warn: (line: (typeof told)[number]) => void told.push(line) };
  const ctx = { runtime: { now: () => new Date(nowMs), log } } as unknown as FlowContext;
  const lost = new Fault('unavailable', 'unavailable', 'The database cannot be reached.');
  /** So many turns of a loop, the last of which ends it. */
  const turns = async (name: string, errors: readonly Error[]): Promise<void> => {
    const { promise: over, resolve } = Promise.withResolvers<void>();
    const left = [...errors];
    const running = loop(ctx, name, 0, async () => {
      const error = left.shift();
      if (error !== undefined) throw error;
      resolve();
    });
    await over;
    await running.stop();
  };
  const seen = () => told.splice(0).map(({ err, service, more }) => [service, err.message, more ?? 0]);
  const first = new Error('first');
  await Promise.all([turns('a', Array(20).fill(lost)), turns('b', Array(20).fill(lost))]);
  assert.deepEqual(seen(), [['a', lost.message, 0]]);
  await turns('a', [first, first, new Error('second'), first, lost]);
  await turns('b', [first]);
  assert.deepEqual(seen(), [
    ['a', 'first', 0],
    ['a', 'second', 0],
    ['b', 'first', 0],
  ]);
  nowMs += 60_000;
  await turns('b', [lost, lost]);
  assert.deepEqual(seen(), [['b', lost.message, 40]]);
  // A clock that is set back keeps nothing quiet.
  nowMs -= 3_600_000;
  await turns('b', [lost]);
  assert.deepEqual(seen(), [['b', lost.message, 1]]);
});
