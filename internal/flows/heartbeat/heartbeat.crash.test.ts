import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { isLong } from '../../base/testkit/long.ts';
import { agentsTree, type Bench, createBench, joinBench, onCron } from '../sync/apply-testkit.ts';
import { fireDue } from './heartbeat.ts';

// Ticking that is killed outright, at each of its points and anywhere: a tick is an event and the schedule has moved on,
// or neither, and whoever comes after fires each tick once.

let bench: Bench;
before(async () => {
  bench = await createBench();
});
after(() => bench.close());

const schedules = 1_200;
const running = new AbortController().signal;
const minute = (n: number): string => new Date(Date.parse('2026-11-21T12:00:00Z') + n * 60_000).toISOString();

async function declare(): Promise<void> {
  const triggers = Array.from({ length: 100 }, () => onCron('* * * * *'));
  const names = Array.from({ length: schedules / 100 }, (_, index) => `a${index}`);
  bench.setNow(minute(-0.5));
  await bench.apply(agentsTree({}));
  await bench.db.query(`delete from svc.events where key like 'heartbeat.%'`);
  await bench.apply(agentsTree(Object.fromEntries(names.map((name) => [name, { triggers }]))));
}

const here = (file: string): string => JSON.stringify(pathToFileURL(join(import.meta.dirname, file)).href);

/** Ticks at an instant in a process of its own; `point` is where it kills itself. */
function ticking(now: string, point?: string) {
  const { url, orgId, projectId } = bench;
  const script = `
    import { armFailpoint } from ${here('../../base/failpoint.ts')};
    import { joinBench } from ${here('../sync/apply-testkit.ts')};
    import { fireDue } from ${here('heartbeat.ts')};
    const { place, now, point } = JSON.parse(process.argv[1]);
    const bench = joinBench(place);
    armFailpoint(point);
    bench.setNow(now);
    process.stdout.write('up');
    await fireDue(bench.ctx, new AbortController().signal);
    await bench.close();
  `;
  const input = JSON.stringify({ place: { url, orgId, projectId }, now, point });
  const child = spawn(process.execPath, ['--input-type=module', '-e', script, input], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const up = once(child.stdout, 'data');
  const ended = once(child, 'exit').then(([, signal]) => signal as string | null);
  return { child, up, ended };
}

/** Recorded ticks, and schedules that have moved past `now`. */
async function counts(now: string): Promise<{ ticks: number; distinct: number; moved: number }> {
  const { rows } = await bench.db.query<{ ticks: number; distinct: number; moved: number }>(
    `select (select count(*)::int from svc.events where key like 'heartbeat.%') as ticks,
            (select count(distinct (key, convert_from(payload, 'utf8')))::int from svc.events e
               join svc.event_bodies b on b.event_id = e.id where key like 'heartbeat.%') as distinct,
            (select count(*)::int from svc.schedules
              where next_at > $1::timestamptz and last_status = 'fired' and last_at = $1::timestamptz) as moved`,
    [now],
  );
  assert.ok(rows[0]);
  return rows[0];
}

test('killed at any point, a batch of ticks has happened wholly or not at all, and the next daemon fires the rest', async () => {
  for (const { point, wrote } of [
    { point: 'heartbeat.claimed', wrote: 0 },
    { point: 'heartbeat.written', wrote: 0 },
    { point: 'heartbeat.before-commit', wrote: 0 },
    { point: 'heartbeat.after-commit', wrote: 1_000 },
    { point: 'heartbeat.before-commit:2', wrote: 1_000 },
    { point: 'heartbeat.after-commit:2', wrote: schedules },
  ]) {
    await declare();
    assert.equal(await ticking(minute(0), point).ended, 'SIGKILL', point);
    // The server notices that its client is gone when it next speaks to it.
    for (let waits = 0; waits < 6_000 && (await counts(minute(0))).moved < wrote; waits += 1) await sleep(10);
    assert.deepEqual(await counts(minute(0)), { ticks: wrote, distinct: wrote, moved: wrote }, point);
    const next = joinBench(bench);
    next.setNow(minute(0));
    let fired = 0;
    // What the dead one had claimed is free once the server has noticed.
    for (let tries = 0; tries < 6_000 && fired < schedules - wrote; tries += 1) {
      fired += (await fireDue(next.ctx, running)).fired;
      if (fired < schedules - wrote) await sleep(10);
    }
    await next.close();
    assert.equal(fired, schedules - wrote, point);
    assert.deepEqual(await counts(minute(0)), { ticks: schedules, distinct: schedules, moved: schedules }, point);
  }
});

test('of two daemons killed anywhere in between, minute after minute, no tick is lost and none fires twice', async () => {
  await declare();
  let state = 7;
  const random = (): number => (state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 1) >>> 8;
  const minutes = isLong ? 40 : 4;
  for (let n = 0; n < minutes; n += 1) {
    const pair = [ticking(minute(n)), ticking(minute(n))];
    for (const { child, up } of pair) {
      await up;
      setTimeout(() => child.kill('SIGKILL'), random() % 120);
    }
    await Promise.all(pair.map((one) => one.ended));
    bench.setNow(minute(n));
    for (let tries = 0; tries < 6_000 && (await counts(minute(n))).moved < schedules; tries += 1) {
      await fireDue(bench.ctx, running);
      await sleep(5);
    }
    const all = (n + 1) * schedules;
    assert.deepEqual(await counts(minute(n)), { ticks: all, distinct: all, moved: schedules });
    await bench.db.query(`update svc.events set router_status = 'routed'`);
  }
});
