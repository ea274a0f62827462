import assert from 'node:assert/strict';
import { test } from 'node:test';
import { environment } from '../../core/plan/fixture.ts';
import type { Current, Desired } from '../../core/plan/types.ts';
import { nextTick } from '../../core/schedule/schedule.ts';
import { mapInSlices } from '../../base/concurrency.ts';
import { clockOf } from './plan.ts';

test('long work lets others have their turn before it ends', async () => {
  let turns = 0;
  let isDone = false;
  const count = (): void => {
    turns += 1;
    if (!isDone) setImmediate(count);
  };
  setImmediate(count);
  const busy = (item: number): number => {
    const end = performance.now() + 12;
    while (performance.now() < end);
    return item * 2;
  };
  assert.deepEqual(await mapInSlices([1, 2, 3], busy), [2, 4, 6]);
  isDone = true;
  assert.ok(turns >= 3, `${turns} turns`);
});

test('the clock of a plan tells what the scheduler tells, also of a schedule that ends', async () => {
  const crons = ['*/5 * * * *', '0 9 * * mon', '0 0 29 2 *', '0 0 30 2 *'];
  const triggers = crons.map((cron) => ({ kind: 'heartbeat', cron, timezone: 'Europe/Berlin' }));
  const agent = { ...environment('plain', {}), kind: 'Agent', spec: { triggers: triggers.slice(0, 3) } };
  const desired = { resources: [agent], assets: [], hasSvc: true } as unknown as Desired;
  const now = new Date('2026-03-28T12:00:00Z');
  const clock = await clockOf(desired, { schedules: [] } as unknown as Current, now);
  for (const cron of crons) {
    let after: Date | null = now;
    for (let step = 0; step < 6 && after !== null; step += 1) {
      const expected: Date | null = nextTick(cron, 'Europe/Berlin', after);
      assert.deepEqual(clock(cron, 'Europe/Berlin', after), expected, `${cron} after ${after.toISOString()}`);
      after = expected;
    }
  }
});
