import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  catchUpMs,
  checkCron,
  checkTimezone,
  followingTick,
  judge,
  neverFires,
  nextTick,
  nextTicks,
} from './schedule.ts';

const accepted = [
  '* * * * *',
  '*/5 * * * *',
  '0 9 * * 1-5',
  '0 9 * * MON-FRI',
  '0 9 * * mon,wed,Fri',
  '15,45 8-18/2 1,15 jan-jun/2 *',
  '0 0 * * 0',
  '0 0 * * 7',
  '0 0 * * 5-7',
  '0 0 * * fri-sun',
  '05 04 01 12 *',
  '*/60 * * * *',
  '*/100 * * * *',
  '  0   9\t* * *  ',
  '59 23 31 12 *',
  '0-59/7 0 * * *',
  '0 0 29 2 *',
  '0 0 * * sun-tue',
];
const refused = [
  '',
  '   ',
  '* * * *',
  '* * * * * *',
  '0 0 0 * * * *',
  '@daily',
  '@every 5m',
  'TZ=UTC 0 0 * * *',
  'CRON_TZ=UTC 0 9 * * *',
  '60 * * * *',
  '* 24 * * *',
  '* * 0 * *',
  '* * 32 * *',
  '* * * 0 *',
  '* * * 13 *',
  '* * * * 8',
  '*/0 * * * *',
  '5/10 * * * *',
  '5-1 * * * *',
  '0 0 * * sat-mon',
  '0 0 L * *',
  '0 0 15W * *',
  '0 0 * * 5L',
  '0 0 * * 1#2',
  '0 0 ? * *',
  '0 0 * * ?',
  '1,,2 * * * *',
  ',1 * * * *',
  '1, * * * *',
  '-1 * * * *',
  '1- * * * *',
  '* * * foo *',
  'mon * * * *',
  '0 0 * * monday',
  '1.5 * * * *',
  '+1 * * * *',
  '0x1 * * * *',
  '*/* * * * *',
  '**/2 * * * *',
  '*5 * * * *',
  '001 * * * *',
  '٣ * * * *',
  '0\n0 * * *',
  '0-70 * * * *',
];
test('cron expressions have five fields of names, ranges, lists and steps', () => {
  for (const cron of accepted) assert.equal(checkCron(cron), null, cron);
  for (const cron of refused) assert.notEqual(checkCron(cron), null, JSON.stringify(cron));
});

const shapes = 'ranges a-b, lists a,b and steps */n or a-b/n';
const refusals: readonly (readonly [cron: string, problem: string])[] = [
  ['', 'a cron expression must not be empty'],
  ['  ', 'a cron expression must not be empty'],
  ['@daily', '"@daily" is a nickname; write five fields, such as "0 9 * * 1-5"'],
  ['TZ=UTC 0 0 * * *', 'TZ= is not accepted in a cron expression; use the field timezone'],
  ['CRON_TZ=UTC 0 9 * * *', 'TZ= is not accepted in a cron expression; use the field timezone'],
  ['tz = UTC 0 9 * * *', 'TZ= is not accepted in a cron expression; use the field timezone'],
  ['0 0 * * * *', 'a cron expression has five fields (minute, hour, day of month, month, day of week), not 6'],
  ['61 * * * *', `"61" is no minute; accepted are *, 0 to 59, ${shapes}`],
  ['0 24 * * *', `"24" is no hour; accepted are *, 0 to 23, ${shapes}`],
  ['0 0 32 * *', `"32" is no day of month; accepted are *, 1 to 31, ${shapes}`],
  ['0 0 * foo *', `"foo" is no month; accepted are *, 1 to 12, names such as feb, ${shapes}`],
  ['0 0 * * TZ=UTC', `"TZ=UTC" is no day of week; accepted are *, 0 to 7, names such as mon, ${shapes}`],
  [`${'9'.repeat(50)} * * * *`, `"${'9'.repeat(40)}" is no minute; accepted are *, 0 to 59, ${shapes}`],
];
test('the text of a refusal says what is accepted', () => {
  for (const [cron, problem] of refusals) assert.equal(checkCron(cron), problem);
});

test('zones are known by name, links included, and offsets are refused', () => {
  for (const name of [
    'UTC',
    'Etc/UTC',
    'Europe/Berlin',
    'Asia/Kolkata',
    'Asia/Calcutta',
    'America/Argentina/Buenos_Aires',
    'US/Pacific',
    'Etc/GMT+5',
    'GMT',
  ]) {
    assert.equal(checkTimezone(name), true, name);
  }
  for (const name of [
    '',
    ' ',
    'Mars/Base',
    '+01:00',
    '-0530',
    'UTC+1',
    'Europe/Berlin ',
    'Europe',
    'local',
    '../etc',
    '1',
  ]) {
    assert.equal(checkTimezone(name), false, name);
  }
});

type Vector = readonly [cron: string, timezone: string, after: string, ...ticks: string[]];
/** Written by hand from the zones' rules: 2026-03-08 and 11-01 in the United States, 03-29 and 10-25 in Europe. */
const vectors: readonly Vector[] = [
  ['*/15 * * * *', 'UTC', '2026-01-01T00:00:00Z', '2026-01-01T00:15:00Z', '2026-01-01T00:30:00Z'],
  ['*/15 * * * *', 'UTC', '2026-01-01T00:14:59.999Z', '2026-01-01T00:15:00Z'],
  ['0 0 1 1 *', 'UTC', '2026-01-01T00:00:00Z', '2027-01-01T00:00:00Z'],
  ['0 0 29 2 *', 'UTC', '2026-01-01T00:00:00Z', '2028-02-29T00:00:00Z', '2032-02-29T00:00:00Z'],
  ['59 23 31 12 *', 'Asia/Kolkata', '2026-01-01T00:00:00Z', '2026-12-31T18:29:00Z'],
  ['0 9 * * 1-5', 'America/New_York', '2026-03-06T15:00:00Z', '2026-03-09T13:00:00Z'],
  ['0 0 * * 7', 'UTC', '2026-11-21T00:00:00Z', '2026-11-22T00:00:00Z'],
  ['0 0 * * 0', 'UTC', '2026-11-21T00:00:00Z', '2026-11-22T00:00:00Z'],
  [
    '0 0 * * fri-sun',
    'UTC',
    '2026-11-19T12:00:00Z',
    '2026-11-20T00:00:00Z',
    '2026-11-21T00:00:00Z',
    '2026-11-22T00:00:00Z',
    '2026-11-27T00:00:00Z',
  ],
  // From a day to itself is that day, also the one that begins the week and ends it.
  ['0 0 * * sun-Sun', 'UTC', '2026-11-16T00:00:00Z', '2026-11-22T00:00:00Z', '2026-11-29T00:00:00Z'],
  ['0 0 1 jan-jan *', 'UTC', '2026-02-01T00:00:00Z', '2027-01-01T00:00:00Z'],
  // A step over the whole field reaches its first value alone.
  ['*/100 * * * *', 'UTC', '2026-01-01T00:00:00Z', '2026-01-01T01:00:00Z'],
  ['0 0 */100 * *', 'UTC', '2026-01-01T00:00:00Z', '2026-02-01T00:00:00Z'],
  ['0 0 * * */100', 'UTC', '2026-11-16T00:00:00Z', '2026-11-22T00:00:00Z', '2026-11-29T00:00:00Z'],
  // Day of month or day of week where both are restricted, and both where one begins with a star.
  ['0 0 13 * 5', 'UTC', '2026-11-01T00:00:00Z', '2026-11-06T00:00:00Z', '2026-11-13T00:00:00Z', '2026-11-20T00:00:00Z'],
  ['0 0 */2 * 1', 'UTC', '2026-11-01T00:00:00Z', '2026-11-09T00:00:00Z', '2026-11-23T00:00:00Z'],
  // A fixed time that the gap of 8 March (02:00 to 03:00) skips fires once, right after it.
  ['30 2 * * *', 'America/New_York', '2026-03-07T07:30:00Z', '2026-03-08T07:00:00Z', '2026-03-09T06:30:00Z'],
  ['0,30 2 * * *', 'America/New_York', '2026-03-07T08:00:00Z', '2026-03-08T07:00:00Z', '2026-03-09T06:00:00Z'],
  [
    '30 1,2,3 * * *',
    'America/New_York',
    '2026-03-08T06:00:00Z',
    '2026-03-08T06:30:00Z',
    '2026-03-08T07:00:00Z',
    '2026-03-08T07:30:00Z',
  ],
  ['0 3 * * *', 'America/New_York', '2026-03-08T06:00:00Z', '2026-03-08T07:00:00Z', '2026-03-09T07:00:00Z'],
  ['30 2 * * *', 'Europe/Berlin', '2026-03-28T12:00:00Z', '2026-03-29T01:00:00Z', '2026-03-30T00:30:00Z'],
  // One that the repeated hour of 1 November (01:00 to 02:00) brings twice fires once.
  ['30 1 * * *', 'America/New_York', '2026-10-31T12:00:00Z', '2026-11-01T05:30:00Z', '2026-11-02T06:30:00Z'],
  ['30 2 * * *', 'Europe/Berlin', '2026-10-24T12:00:00Z', '2026-10-25T00:30:00Z', '2026-10-26T01:30:00Z'],
  [
    '0,30 1 * * *',
    'America/New_York',
    '2026-11-01T04:00:00Z',
    '2026-11-01T05:00:00Z',
    '2026-11-01T05:30:00Z',
    '2026-11-02T06:00:00Z',
  ],
  ['30 1 * * *', 'America/New_York', '2026-11-01T05:45:00Z', '2026-11-02T06:30:00Z'],
  // Asked within the hour's second half, what its first half had is over, and what comes behind it is not.
  ['30 1 * * *', 'America/New_York', '2026-11-01T06:15:00Z', '2026-11-02T06:30:00Z'],
  ['0 2 * * *', 'America/New_York', '2026-11-01T06:15:00Z', '2026-11-01T07:00:00Z'],
  // Wildcards follow the wall clock: nothing in the gap, both halves of the repeated hour.
  ['30 * * * *', 'America/New_York', '2026-03-08T06:00:00Z', '2026-03-08T06:30:00Z', '2026-03-08T07:30:00Z'],
  [
    '30 * * * *',
    'America/New_York',
    '2026-11-01T05:00:00Z',
    '2026-11-01T05:30:00Z',
    '2026-11-01T06:30:00Z',
    '2026-11-01T07:30:00Z',
  ],
  ['*/30 2 * * *', 'America/New_York', '2026-03-08T06:00:00Z', '2026-03-09T06:00:00Z'],
  // A zone that skips midnight, one of half an hour, one that skips up to midnight, and one that skipped a whole day.
  ['0 0 * * *', 'America/Santiago', '2026-09-05T05:00:00Z', '2026-09-06T04:00:00Z', '2026-09-07T03:00:00Z'],
  ['15 2 * * *', 'Australia/Lord_Howe', '2026-10-03T00:00:00Z', '2026-10-03T15:30:00Z'],
  ['30 23 * * *', 'America/Godthab', '2025-03-29T12:00:00Z', '2025-03-30T01:00:00Z', '2025-03-31T00:30:00Z'],
  [
    '0 12 * * *',
    'Pacific/Apia',
    '2011-12-29T12:00:00Z',
    '2011-12-29T22:00:00Z',
    '2011-12-30T10:00:00Z',
    '2011-12-30T22:00:00Z',
  ],
];
for (const [cron, timezone, after, ...ticks] of vectors) {
  test(`${cron} in ${timezone} after ${after}`, () => {
    const found = nextTicks(cron, timezone, new Date(after), ticks.length);
    assert.deepEqual(
      found.map((tick) => tick.toISOString()),
      ticks.map((tick) => new Date(tick).toISOString()),
    );
    assert.deepEqual(nextTick(cron, timezone, new Date(after)), found[0]);
  });
}

test('what never comes is null, and ends a list', () => {
  assert.equal(nextTick('0 0 30 2 *', 'UTC', new Date(0)), null);
  assert.deepEqual(nextTicks('0 0 31 4,6 *', 'UTC', new Date(0), 3), []);
});

test('an expression or a zone that the checks refuse is a range error', () => {
  assert.throws(() => nextTick('@daily', 'UTC', new Date(0)), RangeError);
  assert.throws(() => nextTick('0 0 * * *', '', new Date(0)), RangeError);
  assert.throws(() => nextTick('0 0 * * *', '+01:00', new Date(0)), new RangeError('"+01:00" is not a time zone'));
});

test("a tick follows the schedule's zone, whatever the process's own is", () => {
  const own = process.env['TZ'];
  process.env['TZ'] = 'Asia/Tokyo';
  try {
    for (const [cron, at] of [
      ['30 9 * * *', '2026-01-01T14:30:00.000Z'],
      ['30 * * * *', '2026-01-01T00:30:00.000Z'],
    ] as const) {
      assert.equal(nextTick(cron, 'America/New_York', new Date('2026-01-01T00:00:00Z'))?.toISOString(), at);
    }
  } finally {
    if (own === undefined) delete process.env['TZ'];
    else process.env['TZ'] = own;
  }
});

const zones = [
  'UTC',
  'America/New_York',
  'Europe/London',
  'Australia/Lord_Howe',
  'America/Santiago',
  'Africa/Casablanca',
  'Asia/Kathmandu',
  'Pacific/Apia',
];
test('a next tick is later than what it follows, on a whole minute', () => {
  const field = (least: number, most: number) =>
    fc.oneof(
      fc.constant('*'),
      fc.integer({ min: 1, max: most }).map((step) => `*/${step}`),
      fc.integer({ min: least, max: most }).map(String),
      fc
        .tuple(fc.integer({ min: least, max: most }), fc.integer({ min: least, max: most }))
        .map(([a, b]) => `${Math.min(a, b)}-${Math.max(a, b)}`),
    );
  const cron = fc
    .tuple(field(0, 59), field(0, 23), field(1, 28), field(1, 12), field(0, 7))
    .map((fields) => fields.join(' '));
  const after = fc.date({ min: new Date('2020-01-01'), max: new Date('2035-01-01'), noInvalidDate: true });
  fc.assert(
    fc.property(cron, fc.constantFrom(...zones), after, (expression, zone, from) => {
      assert.equal(checkCron(expression), null, expression);
      const tick = nextTick(expression, zone, from);
      assert.ok(tick === null || tick.getTime() > from.getTime());
      assert.equal((tick?.getTime() ?? 0) % 60_000, 0);
    }),
    { numRuns: 300 },
  );
});

test('no text whatever makes the checks throw, and what they accept can be scheduled', () => {
  const texts = fc.oneof(fc.string(), fc.stringMatching(/^[-*/,0-9a-zA-Z#?LW@ ]{0,30}$/));
  fc.assert(
    fc.property(texts, texts, (cron, zone) => {
      const isZone = checkTimezone(zone);
      if (checkCron(cron) === null) nextTick(cron, isZone ? zone : 'UTC', new Date(0));
    }),
  );
});

test('a due tick fires, is skipped or deletes its schedule', () => {
  const scheduledAt = new Date('2026-01-01T00:00:00Z');
  const at = (ms: number) => new Date(scheduledAt.getTime() + ms);
  const cases = [
    [{ now: at(0), isDispatching: false, hasAgent: true }, 'fire'],
    [{ now: at(catchUpMs), isDispatching: false, hasAgent: true }, 'fire'],
    [{ now: at(catchUpMs + 1), isDispatching: false, hasAgent: true }, 'skip-late'],
    [{ now: at(catchUpMs + 1), isDispatching: true, hasAgent: true }, 'skip-late'],
    [{ now: at(10), isDispatching: true, hasAgent: true }, 'skip-overlap'],
    [{ now: at(catchUpMs * 9), isDispatching: true, hasAgent: false }, 'delete'],
  ] as const;
  for (const [tick, expected] of cases) assert.equal(judge({ scheduledAt, ...tick }), expected);
});

test('an expression that no month has a day for is known to never fire, and only such', () => {
  const never = ['0 0 30 2 *', '0 0 31 4,6,9,11 *', '0 0 30,31 feb *', '0 0 31 4-6/2 *', '0 0 30 2 */2', '* * 30 2 *'];
  const some = [
    '0 0 29 2 *',
    '0 0 30 2 1',
    '0 0 31 * *',
    '0 0 1,31 2 *',
    '0 0 */30 2 *',
    '0 0 31 */5 *',
    '0 0 31 3-6 *',
    '0 0 30 2,4 *',
    '0 0 31 4-7/3 *',
    '@daily',
  ];
  for (const cron of never) {
    assert.equal(neverFires(cron), true, cron);
    assert.equal(nextTick(cron, 'UTC', new Date(0)), null, cron);
  }
  for (const cron of some) assert.equal(neverFires(cron), false, cron);
});

test('the tick that follows a judged one is the first that is not missed already, whatever has passed in between', () => {
  const next = (after: Date): Date | null => nextTick('* * * * *', 'UTC', after);
  const following = (scheduledAt: string, now: string): string | undefined =>
    followingTick(next, { scheduledAt: new Date(scheduledAt), now: new Date(now) })?.toISOString();
  assert.equal(following('2026-01-01T00:00:00Z', '2026-01-01T00:00:01Z'), '2026-01-01T00:01:00.000Z');
  assert.equal(following('2026-01-01T00:00:00Z', '2026-01-01T00:02:00Z'), '2026-01-01T00:01:00.000Z');
  assert.equal(following('2026-01-01T00:00:00Z', '2026-01-01T00:02:00.001Z'), '2026-01-01T00:02:00.000Z');
  assert.equal(following('2026-01-01T00:00:00Z', '2027-01-01T00:00:30Z'), '2027-01-01T00:00:00.000Z');
  // A clock that was set back does not have it fire again.
  assert.equal(following('2026-01-01T00:05:00Z', '2026-01-01T00:00:30Z'), '2026-01-01T00:06:00.000Z');
});
