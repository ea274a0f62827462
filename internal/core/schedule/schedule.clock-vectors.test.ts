// Over two thousand vectors around the clock changes of every zone in a past year, and of some that moved oddly. The file
// comes from clock-vectors-testkit.ts, which knows no scheduler; `make golden` writes it anew.

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type Change, vectorsOf } from './clock-vectors-testkit.ts';
import { nextTick } from './schedule.ts';

const file = join(import.meta.dirname, '../../../testdata/cron/clock-changes.json');
const minuteMs = 60_000;
const year = ['2025-01-01T00:00:00Z', '2026-01-01T00:00:00Z'] as const;
/** Half an hour, a whole day, a change that stays, and one over midnight. */
const odd = [
  ['Pacific/Apia', '2011-12-01T00:00:00Z', '2012-01-15T00:00:00Z'],
  ['Pacific/Fakaofo', '2011-12-01T00:00:00Z', '2012-01-15T00:00:00Z'],
  ['Pacific/Kwajalein', '1993-08-01T00:00:00Z', '1993-09-01T00:00:00Z'],
  ['Asia/Pyongyang', '2018-04-01T00:00:00Z', '2018-06-01T00:00:00Z'],
  ['America/Caracas', '2016-04-01T00:00:00Z', '2016-06-01T00:00:00Z'],
  ['Africa/Juba', '2021-01-01T00:00:00Z', '2021-03-01T00:00:00Z'],
] as const;

const generate = (zones: readonly string[]): Change[] => zones.flatMap((zone) => vectorsOf(zone, ...year));

if (process.execArgv.includes('--test-update-snapshots')) {
  const all = [
    ...generate(Intl.supportedValuesOf('timeZone')),
    ...odd.flatMap(([zone, from, to]) => vectorsOf(zone, from, to)),
  ];
  writeFileSync(file, `[\n${all.map((one) => JSON.stringify(one)).join(',\n')}\n]\n`);
}
const golden = JSON.parse(readFileSync(file, 'utf8')) as Change[];

test('every tick around a clock change is that of a walk over every minute', () => {
  let vectors = 0;
  for (const { zone, at, vectors: byCron } of golden) {
    const change = Date.parse(at);
    for (const [cron, { from, to, ticks }] of Object.entries(byCron)) {
      vectors += 1;
      const found: number[] = [];
      for (let minute = from; ; ) {
        const next = nextTick(cron, zone, new Date(change + minute * minuteMs));
        if (next === null || next.getTime() > change + to * minuteMs) break;
        minute = (next.getTime() - change) / minuteMs;
        found.push(minute);
      }
      assert.deepEqual(found, ticks, `${cron} in ${zone} around ${at}`);
    }
  }
  assert.ok(vectors >= 2_000, `${vectors} vectors`);
});

test('the file holds what the walk gives', () => {
  const zones = ['America/New_York', 'Europe/Berlin', 'America/Godthab', 'Australia/Lord_Howe', 'Africa/Casablanca'];
  assert.deepEqual(
    golden.filter(({ zone, at }) => zones.includes(zone) && at.startsWith('2025')),
    generate(zones.toSorted()),
  );
  for (const [zone, from, to] of odd) {
    const made = vectorsOf(zone, from, to);
    assert.deepEqual(golden.filter((one) => one.zone === zone).slice(-made.length), made);
  }
});
