// Ticks around clock changes against a reference that walks every minute and knows nothing of the scheduler.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { nextTick } from './schedule.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

/** An instant of each clock change, read from the zones' own rules. */
const changes = [
  ['America/New_York', '2026-03-08T07:00:00Z'],
  ['America/New_York', '2026-11-01T06:00:00Z'],
  ['Europe/London', '2026-03-29T01:00:00Z'],
  ['Europe/London', '2026-10-25T01:00:00Z'],
  ['Australia/Lord_Howe', '2026-04-04T15:00:00Z'],
  ['Australia/Lord_Howe', '2026-10-03T15:30:00Z'],
  ['America/Santiago', '2026-09-06T04:00:00Z'],
  ['America/Santiago', '2026-04-05T03:00:00Z'],
  ['Africa/Casablanca', '2026-02-15T02:00:00Z'],
] as const;

/** The wall clock at an instant, in minutes since 1970 as if it were UTC. */
function wallMinute(zone: Intl.DateTimeFormat, at: number): number {
  const parts = Object.fromEntries(zone.formatToParts(at).map(({ type, value }) => [type, Number(value)]));
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0 } = parts;
  return Date.UTC(year, month - 1, day, hour, minute) / minuteMs;
}

/** Fixed times fire once, also when skipped; times with a wildcard whenever the wall clock shows them. */
function reference(
  zoneName: string,
  isFixed: boolean,
  fits: (minuteOfDay: number) => boolean,
  after: number,
): number | null {
  const zone = new Intl.DateTimeFormat('en-US', {
    timeZone: zoneName,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
  });
  const from = after - 12 * hourMs;
  let highest = wallMinute(zone, from - minuteMs);
  for (let at = from; at < after + 60 * hourMs; at += minuteMs) {
    const wall = wallMinute(zone, at);
    const fresh: number[] = [];
    for (let minute = isFixed ? highest + 1 : wall; minute <= wall; minute++) fresh.push(minute);
    highest = Math.max(highest, wall);
    if (at > after && fresh.some((minute) => fits(((minute % 1440) + 1440) % 1440))) return at;
  }
  return null;
}

test('ticks around clock changes are those of a walk over every minute', () => {
  const arbitrary = fc.record({
    change: fc.constantFrom(...changes),
    offset: fc.integer({ min: -5 * 60, max: 3 * 60 }),
    minute: fc.oneof(
      fc.constant('*'),
      fc.constantFrom('*/20', '*/30'),
      fc.integer({ min: 0, max: 59 }).map(String),
      fc.constantFrom('0,30', '15,45'),
    ),
    hour: fc.oneof(
      fc.constant('*'),
      fc.constantFrom('*/2', '*/3'),
      fc.integer({ min: 0, max: 4 }).map(String),
      fc.constantFrom('1,2', '0,2,3', '23,0'),
    ),
  });
  const matches = (field: string, value: number): boolean => {
    if (field.startsWith('*')) return value % Number(field.slice(2) || 1) === 0;
    return field.split(',').map(Number).includes(value);
  };
  fc.assert(
    fc.property(arbitrary, ({ change: [zone, instant], offset, minute, hour }) => {
      const after = new Date(Date.parse(instant) + offset * minuteMs);
      const isFixed = !minute.startsWith('*') && !hour.startsWith('*');
      const fits = (at: number): boolean => matches(minute, at % 60) && matches(hour, Math.floor(at / 60));
      const expected = reference(zone, isFixed, fits, after.getTime());
      const found = nextTick(`${minute} ${hour} * * *`, zone, after);
      const shown = (time: number | undefined | null) => (time == null ? 'never' : new Date(time).toISOString());
      assert.equal(
        shown(found?.getTime()),
        shown(expected),
        `${minute} ${hour} in ${zone} after ${after.toISOString()}`,
      );
    }),
    { numRuns: 120 },
  );
});
