// When a heartbeat fires (docs/reference/schedules.md#cron and #ticks): checks cron expressions and time zones, gives the
// next tick, and judges a tick that is due. A fixed time that a clock change skips fires once right after the gap, one that
// it repeats fires once; jobs with a wildcard in minute or hour follow the wall clock. Never reads the clock: every instant
// is passed in, and a next tick is always later than the instant it follows.

import { Cron } from 'croner';
import { hasNoDay, parseCron } from './cron.ts';
import { nextFixedTick } from './fixed-time.ts';

/** What is wrong with a cron expression and what is accepted, or null where it is sound. */
export function checkCron(expression: string): string | null {
  const parsed = parseCron(expression);
  return 'problem' in parsed ? parsed.problem : null;
}

/** Names that have been accepted: asking the runtime costs more than all else about a heartbeat. Bounded, as names have many cases. */
const knownZones = new Set<string>();
const knownZonesMax = 1_000;
/** The runtime's own list, without links: a hundredth of the price of the first formatter, and most names are on it. */
let listedZones: ReadonlySet<string> | undefined;

/** True for a sound expression that never comes, such as 30 February. */
export function neverFires(expression: string): boolean {
  const parsed = parseCron(expression);
  return !('problem' in parsed) && hasNoDay(parsed);
}

/** True where the runtime's zone database has the zone by that name, links included. Offsets are refused. */
export function checkTimezone(name: string): boolean {
  if (knownZones.has(name)) return true;
  listedZones ??= new Set(Intl.supportedValuesOf('timeZone'));
  if (listedZones.has(name)) return true;
  // A name begins with a letter; `+01:00` is an offset, which the runtime would take.
  if (!/^[A-Za-z][A-Za-z0-9_+\-/]*$/.test(name)) return false;
  try {
    new Intl.DateTimeFormat('en-US', { timeZone: name });
  } catch (error) {
    if (error instanceof RangeError) return false;
    throw error;
  }
  if (knownZones.size < knownZonesMax) knownZones.add(name);
  return true;
}

/**
 * The first tick strictly after an instant, or null where none is left (30 February).
 * Throws a RangeError for an expression or a zone that the checks above refuse.
 */
export function nextTick(cron: string, timezone: string, after: Date): Date | null {
  return createTicker(cron, timezone)(after);
}

/** The next `count` ticks after an instant; fewer where there are no more. */
export function nextTicks(cron: string, timezone: string, after: Date, count: number): Date[] {
  const next = createTicker(cron, timezone);
  const ticks: Date[] = [];
  let at: Date | null = after;
  while (ticks.length < count) {
    at = next(at);
    if (at === null) return ticks;
    ticks.push(at);
  }
  return ticks;
}

export interface TimelineTick {
  readonly scheduleId: string;
  readonly at: Date;
}

export interface Timeline {
  readonly ticks: readonly TimelineTick[];
  readonly more: boolean;
}

/**
 * Ticks of schedules from `from` on and before `to`, by time and id: the first `most` of them, and whether there are more.
 * A tick costs up to a millisecond, so that no more are asked for than are told, and it stops after each for whoever waits.
 */
export function* timelineOf(
  schedules: readonly { readonly id: string; readonly cron: string; readonly timezone: string }[],
  { from, to, most }: { readonly from: Date; readonly to: Date; readonly most: number },
): Generator<void, Timeline> {
  /** The next tick of each schedule that has one. */
  const coming: { readonly id: string; readonly next: (after: Date) => Date | null; at: Date }[] = [];
  for (const { id, cron, timezone } of schedules) {
    const next = createTicker(cron, timezone);
    const at = next(new Date(from.getTime() - 1));
    if (at !== null && at < to) coming.push({ id, next, at });
    yield;
  }
  const ticks: TimelineTick[] = [];
  while (coming.length > 0 && ticks.length < most) {
    let first = 0;
    for (let at = 1; at < coming.length; at += 1) if (comesBefore(coming[at], coming[first])) first = at;
    const one = coming[first];
    if (one === undefined) break;
    ticks.push({ scheduleId: one.id, at: one.at });
    const after = one.next(one.at);
    if (after !== null && after < to) one.at = after;
    else coming.splice(first, 1);
    yield;
  }
  return { ticks, more: coming.length > 0 };
}

interface Coming {
  readonly id: string;
  readonly at: Date;
}
function comesBefore(one: Coming | undefined, other: Coming | undefined): boolean {
  if (one === undefined || other === undefined) return false;
  const ms = one.at.getTime() - other.at.getTime();
  return ms === 0 ? one.id < other.id : ms < 0;
}

const minuteMs = 60_000;
/** How often a scheduler that gives an instant not later than the last may be asked again from further on. */
const nudgesMax = 3 * 60;

function createTicker(cron: string, timezone: string): (after: Date) => Date | null {
  const parsed = parseCron(cron);
  if ('problem' in parsed) throw new RangeError(parsed.problem);
  if (!checkTimezone(timezone)) throw new RangeError(`${JSON.stringify(timezone)} is not a time zone`);
  const job = new Cron(parsed.pattern, {
    timezone: parsed.isFixed ? 'UTC' : timezone,
    mode: '5-part',
    paused: true,
    domAndDow: parsed.bothDays,
  });
  if (parsed.isFixed) return (after) => nextFixedTick((reading) => job.nextRun(reading), timezone, after);
  return (after) => {
    let from = after;
    for (let nudge = 0; nudge < nudgesMax; nudge++) {
      const next = job.nextRun(from);
      if (next === null || next.getTime() > after.getTime()) return next;
      from = new Date(from.getTime() + minuteMs);
    }
    return null;
  };
}

/** A tick that is due later than this after its time is missed (docs/reference/schedules.md#ticks). */
export const catchUpMs = 60_000;

/**
 * The tick that follows one that has been judged: the first later one that is not missed already. So the ticks that
 * passed while nobody looked are never counted up one by one, and each within the window keeps its own time.
 */
export function followingTick(
  next: (after: Date) => Date | null,
  tick: { readonly scheduledAt: Date; readonly now: Date },
): Date | null {
  const opened = tick.now.getTime() - catchUpMs - 1;
  return next(new Date(Math.max(tick.scheduledAt.getTime(), opened)));
}

export type Judgement = 'fire' | 'skip-late' | 'skip-overlap' | 'delete';

export interface DueTick {
  readonly scheduledAt: Date;
  readonly now: Date;
  /** True while the dispatch of the schedule's previous tick still runs. */
  readonly isDispatching: boolean;
  /** False where the agent is gone: such a schedule deletes itself. */
  readonly hasAgent: boolean;
}

/** What to do with a tick that is due. A tick at the edge of the window still fires. */
export function judge(tick: DueTick): Judgement {
  if (!tick.hasAgent) return 'delete';
  if (tick.now.getTime() - tick.scheduledAt.getTime() > catchUpMs) return 'skip-late';
  return tick.isDispatching ? 'skip-overlap' : 'fire';
}
