import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fault } from '../../domain/fault.ts';
import { createMetrics } from '../../base/metrics/metrics.ts';
import type { FlowContext } from '../context.ts';
import { logRefused, logUnreadable } from './rejected.ts';

test('a burst of refused deliveries is told once, and its number ten seconds later without one more', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout', 'Date'], now: 1_000 });
  const told: object[] = [];
  const log = { warn: (line: object, msg: string) => told.push({ ...line, msg }) };
  const ctx = { runtime: { now: () => new Date(), log }, metrics: createMetrics() } as unknown as FlowContext;
  const at = { kind: 'endpoint', id: 'e1', name: 'reports', projectId: 'p1' } as const;
  const large = new Fault('too_large', 'body-too-large', 'The body is too large.');
  const busy = new Fault('unavailable', 'overloaded', 'Too much to do.');
  const line = { endpoint: 'reports', endpointId: 'e1', projectId: 'p1', msg: 'delivery.rejected' };
  for (let turn = 0; turn < 5; turn += 1) {
    logRefused(ctx, at, large);
    t.mock.timers.tick(100);
  }
  // Another reason is another line, also where the endpoint is not known; and one that is ours is told elsewhere.
  logRefused(ctx, { kind: 'endpoint' }, busy);
  logUnreadable(ctx, at, new Error('broken'));
  const first = { ...line, why: large.message };
  const none = { intake: 'endpoint', name: undefined, why: busy.message, msg: 'delivery.rejected' };
  assert.deepEqual(told, [first, none]);
  t.mock.timers.tick(9_499);
  assert.equal(told.length, 2);
  t.mock.timers.tick(1);
  assert.deepEqual(told[2], { ...first, more: 4 });
  // Nothing came meanwhile: nothing more is told. What comes now is told at once.
  t.mock.timers.tick(60_000);
  assert.equal(told.length, 3);
  logRefused(ctx, at, large);
  assert.equal(told.length, 4);
});

test('a clock that is set back keeps no refusal quiet', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout', 'Date'], now: 7_200_000 });
  const told: object[] = [];
  const log = { warn: (line: object) => told.push(line) };
  const ctx = { runtime: { now: () => new Date(), log }, metrics: createMetrics() } as unknown as FlowContext;
  const at = { kind: 'endpoint', id: 'e1', name: 'reports', projectId: 'p1' } as const;
  const large = new Fault('too_large', 'body-too-large', 'The body is too large.');
  logRefused(ctx, at, large);
  t.mock.timers.tick(10_000);
  t.mock.timers.setTime(3_600_000);
  logRefused(ctx, at, large);
  assert.equal(told.length, 2);
});
