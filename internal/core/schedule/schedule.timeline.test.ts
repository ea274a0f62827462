import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Timeline, timelineOf } from './schedule.ts';

/** A timeline, and how often it stopped on the way. */
function steps(...of: Parameters<typeof timelineOf>): { readonly timeline: Timeline; readonly stops: number } {
  const going = timelineOf(...of);
  for (let stops = 0; ; stops += 1) {
    const step = going.next();
    if (step.done) return { timeline: step.value, stops };
  }
}
const timeline = (...of: Parameters<typeof timelineOf>): Timeline => steps(...of).timeline;

test('a timeline costs as many ticks as it tells, and one of each schedule', () => {
  const schedules = Array.from({ length: 50 }, (_, at) => ({ id: `s${at}`, cron: '* * * * *', timezone: 'UTC' }));
  const from = new Date('2026-03-28T00:00:00Z');
  const found = steps(schedules, { from, to: new Date('2026-04-04T00:00:00Z'), most: 100 });
  assert.equal(found.stops, 150);
  assert.equal(found.timeline.more, true);
  assert.deepEqual(found.timeline.ticks.at(-1)?.at, new Date('2026-03-28T00:01:00Z'));
});

test('a timeline has the ticks of all schedules in order, over clock changes, up to its bound', () => {
  const from = new Date('2026-03-28T00:00:00Z');
  const to = new Date('2026-03-30T00:00:00Z');
  const schedules = [
    { id: 'b', cron: '30 2 * * *', timezone: 'Europe/Berlin' },
    { id: 'a', cron: '30 1 28 3 *', timezone: 'UTC' },
  ];
  const at = ({ scheduleId, at: time }: { scheduleId: string; at: Date }): string =>
    `${scheduleId} ${time.toISOString()}`;
  // 02:30 is not there on the 29th: it fires right after the gap, at 03:00 of the summer.
  assert.deepEqual(timeline(schedules, { from, to, most: 3 }), {
    ticks: [
      { scheduleId: 'a', at: new Date('2026-03-28T01:30:00.000Z') },
      { scheduleId: 'b', at: new Date('2026-03-28T01:30:00.000Z') },
      { scheduleId: 'b', at: new Date('2026-03-29T01:00:00.000Z') },
    ],
    more: false,
  });
  const cut = timeline(schedules, { from, to, most: 2 });
  assert.deepEqual([cut.ticks.map(at).length, cut.more], [2, true]);
  // The first instant is within, the last is not.
  const edge = { from: new Date('2026-03-28T01:30:00Z'), to: new Date('2026-03-29T01:00:00Z'), most: 9 };
  assert.deepEqual(timeline(schedules, edge).ticks.map(at), [
    'a 2026-03-28T01:30:00.000Z',
    'b 2026-03-28T01:30:00.000Z',
  ]);
  // Those of one instant by id; one that never fires has none.
  const together = ['c', 'a', 'd', 'b'].map((id) => ({ id, cron: '30 1 28 3 *', timezone: 'UTC' }));
  const never = { id: '0', cron: '0 0 30 2 *', timezone: 'UTC' };
  assert.deepEqual(
    timeline([...together, never], { from, to, most: 9 }).ticks.map((tick) => tick.scheduleId),
    ['a', 'b', 'c', 'd'],
  );
  // Of a long time no more is drawn up than is shown.
  const minutely = [{ id: 'm', cron: '* * * * *', timezone: 'UTC' }];
  const long = timeline(minutely, { from, to: new Date('9999-01-01T00:00:00Z'), most: 2 });
  assert.deepEqual([long.ticks.length, long.more], [2, true]);
});
