// A tick becomes an event (docs/reference/schedules.md#ticks): claims what is due set-wise, has core/schedule judge each,
// records one event per `<scheduleId>:<scheduledAt>` and writes the next tick, all in one transaction. Whoever dies in
// between has done nothing; of several daemons one alone has the row. It never routes: the event asks for that itself. It
// never counts up ticks that passed while nobody looked.

import { sha256Bytes } from '../../base/hash.ts';
import type { Sql } from '../../adapters/store/store.ts';
import { enqueueRouting, recordEvents } from '../../adapters/store/events/events.ts';
import type { NewEvent } from '../../adapters/store/events/new-event.ts';
import {
  bringForward,
  claimDueSchedules,
  deleteSchedules,
  type DueSchedule,
  type JudgedTick,
  nextDueAt,
  readTickFacts,
  schedulePatterns,
  type TickStatus,
  writeTicks,
} from '../../adapters/store/resources/schedules.ts';
import { clearSuspects, endInHand, failNewEvents } from '../../adapters/store/operations/in-hand.ts';
import { mapInSlices } from '../../base/concurrency.ts';
import { failpoint } from '../../base/failpoint.ts';
import { timeOrderedId } from '../../base/runtime.ts';
import { noTick } from '../../domain/events.ts';
import { checkTimezone, followingTick, type Judgement, judge, nextTick } from '../../core/schedule/schedule.ts';
import type { FlowContext } from '../context.ts';
import { aloneAtEnds, endedTheProcess, gateOf, parkedAtEnds, takeInHandWithin } from '../in-hand.ts';

/** Schedules that one transaction holds. */
const batchLimit = 1_000;
/** So many full batches, one after the other, are a sign of many more. */
const manyBatches = 2;
const pauseMs = {
  /** A notification may be lost, and a clock may be set: look again at least so often. */
  most: 5_000,
  /** What is due is locked by another daemon, which is about to be done with it. */
  locked: 100,
} as const;

/** By less no clock is set back: that is how exactly it is known. */
const setBackMs = 1_000;

const statusOf: { readonly [verdict in Exclude<Judgement, 'delete'>]: TickStatus } = {
  fire: 'fired',
  'skip-late': 'skipped-late',
  'skip-overlap': 'skipped-overlap',
};

/** Ticks by what became of them. */
export type Ticked = { readonly [status in TickStatus | 'deleted']: number };

/** Fires what is due until nothing is; answers with the milliseconds until the next look. */
export async function tick(ctx: FlowContext, signal: AbortSignal): Promise<number> {
  await followClock(ctx);
  await fireDue(ctx, signal);
  const next = await nextDueAt(ctx.db);
  if (next === null) return pauseMs.most;
  const waitMs = next.getTime() - ctx.runtime.now().getTime();
  return waitMs <= 0 ? pauseMs.locked : Math.min(waitMs, pauseMs.most);
}

/** When a daemon last looked. */
const looked = new WeakMap<object, Date>();

/**
 * Where the clock was set back, or may have been while nobody looked, schedules go by the clock as it is: a while in which
 * it was far ahead has put them off until then. What comes again is recorded once.
 */
async function followClock({ db, runtime }: FlowContext): Promise<void> {
  const now = runtime.now();
  const before = looked.get(runtime);
  looked.set(runtime, now);
  if (before !== undefined && now.getTime() > before.getTime() - setBackMs) return;
  const patterns = await mapInSlices(await schedulePatterns(db), (pattern) => {
    // Of a zone that this runtime does not know others tell.
    const nextAt = checkTimezone(pattern.timezone) ? nextTick(pattern.cron, pattern.timezone, now) : null;
    return nextAt === null ? [] : [{ ...pattern, nextAt }];
  });
  const schedules = await bringForward(db, patterns.flat());
  if (schedules > 0) runtime.log.warn({ schedules }, 'heartbeat.clock_set_back');
}

/** Judges all that is due, batch after batch, each in a transaction of its own. */
export async function fireDue(ctx: FlowContext, signal: AbortSignal): Promise<Ticked> {
  const total = { ...none };
  const clock = rememberingClock();
  const unasked = new Set<string>();
  const suspects = new Set<string>();
  let lanes = 0;
  const turn = async (lane: string, only?: string): Promise<number> => {
    const done = await ctx.db.tx((tx) => fireBatch(ctx, tx, { clock, unasked, suspects, lane, only }));
    let claimed = 0;
    for (const status of Object.keys(total) as (keyof Ticked)[]) {
      total[status] += done[status];
      claimed += done[status];
    }
    if (claimed > 0) failpoint('heartbeat.after-commit');
    return claimed;
  };
  // To the empty batch: the tick that follows a missed one may be due as well.
  const rest = async (): Promise<void> => {
    const lane = `tick:${(lanes += 1)}`;
    while (!signal.aborted && (await beside(ctx, () => turn(lane))) > 0);
  };
  let claimed = batchLimit;
  let full = 0;
  for (; claimed === batchLimit && full < manyBatches && !signal.aborted; full += 1)
    claimed = await beside(ctx, () => turn('tick:0'));
  // Where there is much, one batch is judged while another one is written: no two claim the same schedule.
  const hands = claimed === 0 ? 0 : claimed < batchLimit ? 1 : 2;
  const ended = await Promise.allSettled(Array.from({ length: hands }, rest));
  for (const one of ended) if (one.status === 'rejected') throw one.reason;
  // One at a time, and not behind something else that is tried alone, which may take minutes: the ticks of all others come first
  // again. It stays due until then.
  const [suspect] = suspects;
  if (suspect !== undefined && !signal.aborted && !gateOf(ctx).isTaken) {
    ctx.runtime.log.warn({ scheduleId: suspect }, 'heartbeat.tried_alone');
    await gateOf(ctx).alone(() => turn('tick:alone', suspect));
    await clearSuspects(ctx.db, 'tick', [suspect]);
  }
  if (unasked.size > 0) await enqueueRouting(ctx.db, ctx.ingest, [...unasked]);
  report(ctx, total);
  return total;
}

/** Many schedules share expression and zone, and asking the scheduler costs more than all else about a tick. */
type Clock = (schedule: DueSchedule, now: Date) => Date;
function rememberingClock(): Clock {
  const known = new Map<string, Date>();
  return ({ cron, timezone, scheduledAt }, now) => {
    const next = (after: Date): Date => {
      const key = `${timezone} ${cron} ${after.getTime()}`;
      const found = known.get(key) ?? nextTick(cron, timezone, after) ?? noTick;
      known.set(key, found);
      return found;
    };
    return followingTick(next, { scheduledAt, now }) ?? noTick;
  };
}

/**
 * When each is due next; by reason, those of which this runtime cannot tell: another one that knew their zone has stored them,
 * and they keep no tick of others.
 */
function followingOf(clock: Clock, ticks: readonly DueSchedule[], now: Date) {
  const following = new Map<string, Date>();
  const untold = new Map<string, DueSchedule[]>();
  for (const schedule of ticks)
    try {
      following.set(schedule.id, clock(schedule, now));
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      untold.set(error.message, [...(untold.get(error.message) ?? []), schedule]);
    }
  return { due: ticks.filter(({ id }) => following.has(id)), following, untold };
}

interface Firing {
  readonly clock: Clock;
  /**
   * Projects whose routing is asked for when all is recorded, of many ticks at once: routing does not run beside the
   * recording of the rest then. Should this process die before, whoever sweeps finds them.
   */
  readonly unasked: Set<string>;
  /** Schedules that were in hand when the process ended, more than once: each is tried by itself, after the others. */
  readonly suspects: Set<string>;
  readonly lane: string;
  /** The one schedule that is tried by itself. */
  readonly only: string | undefined;
}

const none: Ticked = { fired: 0, 'skipped-late': 0, 'skipped-overlap': 0, failed: 0, deleted: 0 };

async function beside(ctx: FlowContext, act: () => Promise<number>): Promise<number> {
  const leave = await gateOf(ctx).enter();
  return act().finally(leave);
}

/** Of what is claimed, what may be judged now: what has ended the process three times is parked, what has twice waits. */
async function takeTicks(
  ctx: FlowContext,
  tx: Sql,
  claimed: readonly DueSchedule[],
  { lane, only, suspects }: Firing,
): Promise<{ readonly due: readonly DueSchedule[]; readonly parked: number }> {
  const ids = claimed.map((one) => one.id);
  const ends = await takeInHandWithin(ctx, { kind: 'tick', lane, ids, alone: only !== undefined });
  const endsOf = ({ id }: DueSchedule): number => ends.get(id) ?? 0;
  const parked = claimed.filter((one) => endsOf(one) >= parkedAtEnds);
  await park(ctx, tx, parked, endedTheProcess);
  const others = claimed.filter((one) => endsOf(one) < parkedAtEnds);
  if (only !== undefined) return { due: others, parked: parked.length };
  for (const one of others) if (endsOf(one) >= aloneAtEnds) suspects.add(one.id);
  return { due: others.filter((one) => endsOf(one) < aloneAtEnds), parked: parked.length };
}

/** The tick is recorded as failed; its schedule stands still until somebody replays it. */
async function park(ctx: FlowContext, tx: Sql, ticks: readonly DueSchedule[], reason: string): Promise<void> {
  if (ticks.length === 0) return;
  const failed = ticks.map((schedule) => ({ schedule, event: tickEvent(ctx, schedule) }));
  const recorded = await recordEvents(
    tx,
    failed.map((one) => one.event),
    { routing: false },
  );
  const ids = recorded.map((one) => one.id);
  await failNewEvents(tx, ids, reason);
  await writeTicks(
    tx,
    failed.map(({ schedule: { id, scheduledAt } }, at) => ({
      id,
      scheduledAt,
      status: 'failed',
      nextAt: noTick,
      eventId: ids[at] ?? null,
    })),
  );
  for (const { schedule } of failed) ctx.runtime.log.error({ scheduleId: schedule.id, reason }, 'heartbeat.parked');
}

async function fireBatch(ctx: FlowContext, tx: Sql, firing: Firing): Promise<Ticked> {
  const { clock, unasked } = firing;
  const now = ctx.runtime.now();
  const claimed = await claimDueSchedules(tx, now, batchLimit, firing.only);
  if (claimed.length === 0) return none;
  const taken = await takeTicks(ctx, tx, claimed, firing);
  if (taken.due.length === 0) return { ...none, failed: taken.parked };
  const { due, following, untold } = followingOf(clock, taken.due, now);
  for (const [reason, ticks] of untold) await park(ctx, tx, ticks, reason);
  failpoint('heartbeat.claimed');
  const { agents, pending } = await readTickFacts(tx, due);
  const verdicts = due.map((schedule) => {
    failpoint('heartbeat.tick', schedule.id);
    // The tick before is still being dispatched while its event is not routed. The session that it led to may run for days,
    // and is no part of that.
    const isDispatching = schedule.lastEventId !== null && pending.has(schedule.lastEventId);
    const { scheduledAt } = schedule;
    return { schedule, verdict: judge({ scheduledAt, now, isDispatching, hasAgent: agents.has(schedule.agentId) }) };
  });
  const events = new Map(
    verdicts.flatMap(({ schedule, verdict }) =>
      verdict === 'fire' ? [[schedule.id, tickEvent(ctx, schedule)] as const] : [],
    ),
  );
  const judged = verdicts.flatMap(({ schedule, verdict }): JudgedTick[] => {
    if (verdict === 'delete') return [];
    const { id, scheduledAt } = schedule;
    const eventId = events.get(id)?.id ?? null;
    return [{ id, scheduledAt, status: statusOf[verdict], nextAt: following.get(id) ?? noTick, eventId }];
  });
  await writeTicks(tx, judged);
  failpoint('heartbeat.written');
  const orphans = verdicts.filter(({ verdict }) => verdict === 'delete').map(({ schedule }) => schedule.id);
  await deleteSchedules(tx, orphans);
  // Last: routing waits for whoever records, until the commit.
  const isFull = claimed.length === batchLimit;
  await recordTicks(tx, judged, [...events.values()], !isFull);
  if (isFull) for (const { projectId } of events.values()) unasked.add(projectId);
  const ids = taken.due.map(({ id }) => id);
  await endInHand(tx, { daemonId: ctx.daemonId, lane: firing.lane, kind: 'tick', ids });
  failpoint('heartbeat.before-commit');
  const count = (status: TickStatus): number => judged.filter((one) => one.status === status).length;
  return {
    fired: count('fired'),
    'skipped-late': count('skipped-late'),
    'skipped-overlap': count('skipped-overlap'),
    failed: taken.parked + taken.due.length - due.length,
    deleted: orphans.length,
  };
}

/** A tick that is recorded already keeps the event that it has: its schedule is told of that one. */
async function recordTicks(
  tx: Sql,
  judged: readonly JudgedTick[],
  events: readonly NewEvent[],
  routing: boolean,
): Promise<void> {
  if (events.length === 0) return;
  const recorded = await recordEvents(tx, events, { routing });
  const known = new Map(events.map((event, at) => [event.id, recorded[at]?.id ?? event.id]));
  const other = judged.flatMap((one) => {
    const eventId = one.eventId === null ? null : (known.get(one.eventId) ?? null);
    return eventId === one.eventId ? [] : [{ ...one, eventId }];
  });
  await writeTicks(tx, other);
}

/** Spec, Heartbeat schedule: key, payload and deduplication of a tick. */
function tickEvent(ctx: FlowContext, schedule: DueSchedule): NewEvent {
  const { id: scheduleId, agentId, ordinal } = schedule;
  const scheduledAt = schedule.scheduledAt.toISOString();
  const heartbeat = { scheduleId, agentResourceId: agentId, triggerOrdinal: ordinal, scheduledAt };
  return {
    id: timeOrderedId(ctx.runtime),
    projectId: schedule.projectId,
    key: `heartbeat.${agentId}.${ordinal}`,
    dedupHash: sha256Bytes(`heartbeat\0${scheduleId}:${scheduledAt}`),
    raw: null,
    payload: JSON.stringify({ trigger: 'heartbeat', heartbeat }),
    receivedAt: ctx.runtime.now(),
  };
}

function report(ctx: FlowContext, ticked: Ticked): void {
  const counter = ctx.metrics.counter('svc_ticks_total', 'Heartbeat ticks by what became of them', ['status']);
  const some = Object.entries(ticked).filter(([, count]) => count > 0);
  for (const [status, count] of some) counter.inc({ status }, count);
  // Without its agent a schedule cannot be there but by a repair by hand: worth a look.
  const isOdd = ticked['skipped-late'] > 0 || ticked.deleted > 0;
  if (some.length > 0) ctx.runtime.log[isOdd ? 'warn' : 'info'](Object.fromEntries(some), 'heartbeat.ticked');
}
