// Vectors of ticks around clock changes, worked out without any scheduler: every minute of some days before and after a
// change is asked for its wall clock by the runtime's own zone rules (Intl), and a tick is counted where the reference
// says that it fires. The years are past ones, whose rules change no more. Only tests import this.

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMinutes = 1_440;
/** Walked from so long before a change; what is looked at begins and ends so long from it. */
const leadMs = 30 * hourMs;
const fixedWindowMs = 26 * hourMs;
const wildcardWindowMs = 3 * hourMs;

/** A clock change, and the ticks of expressions around it. */
export interface Change {
  readonly zone: string;
  /** ISO 8601: the first minute of the new offset. */
  readonly at: string;
  /** By cron expression: ticks strictly after `from` minutes and up to `to`, all in minutes from the change. */
  readonly vectors: {
    readonly [cron: string]: { readonly from: number; readonly to: number; readonly ticks: number[] };
  };
}

/** A clock reading in minutes since 1970 as if it were UTC. */
type Wall = number;
type WallClock = (atMs: number) => Wall;

function wallClock(zone: string): WallClock {
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone: zone,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
  });
  return (atMs) => {
    const found = /^(\d+)\/(\d+)\/(\d+), (\d+):(\d+)$/.exec(format.format(atMs));
    if (found === null) throw new Error(`no wall clock in ${zone}`);
    const [month = 0, day = 0, year = 0, hour = 0, minute = 0] = found.slice(1).map(Number);
    return Date.UTC(year, month - 1, day, hour, minute) / minuteMs;
  };
}

const offsetAt = (wall: WallClock, atMs: number): number => wall(atMs) - atMs / minuteMs;

/** Instants between two at which the zone's offset changes, to the minute. */
function changesOf(wall: WallClock, fromMs: number, toMs: number): number[] {
  const found: number[] = [];
  const step = 12 * hourMs;
  for (let at = fromMs; at < toMs; at += step) {
    if (offsetAt(wall, at) === offsetAt(wall, at + step)) continue;
    let [low, high] = [at, at + step];
    while (high - low > minuteMs) {
      const middle = Math.floor((low + high) / 2 / minuteMs) * minuteMs;
      if (offsetAt(wall, middle) === offsetAt(wall, at)) low = middle;
      else high = middle;
    }
    found.push(high);
  }
  return found;
}

interface Pattern {
  readonly cron: string;
  /** No wildcard in minute or hour: such a time fires once, also where it is skipped or repeated. */
  readonly isFixed: boolean;
  readonly fits: (wall: Wall) => boolean;
}

/** Expressions about the very readings that a change skips or repeats. */
function patternsAt(before: Wall, after: Wall): Pattern[] {
  // The readings skipped are those between the two; the ones repeated go from the new one to the old one.
  const [first, last] = after > before ? [before + 1, after - 1] : [after, before];
  const middle = Math.floor((first + last) / 2);
  const read = (wall: Wall) => {
    const date = new Date(wall * minuteMs);
    return {
      minute: date.getUTCMinutes(),
      hour: date.getUTCHours(),
      day: date.getUTCDate(),
      month: date.getUTCMonth() + 1,
      weekday: date.getUTCDay(),
    };
  };
  const daily = (wall: Wall): Pattern => {
    const { minute, hour } = read(wall);
    const time = ((wall % dayMinutes) + dayMinutes) % dayMinutes;
    return { cron: `${minute} ${hour} * * *`, isFixed: true, fits: (one) => one % dayMinutes === time };
  };
  const { minute, hour, day, month, weekday } = read(middle);
  const inHour = (wall: Wall): boolean => read(wall).hour === hour;
  return [
    daily(middle),
    daily(first),
    daily(last),
    daily(after),
    daily(before),
    { cron: `0,30 ${hour} * * *`, isFixed: true, fits: (one) => inHour(one) && read(one).minute % 30 === 0 },
    {
      cron: `${minute} ${hour} * * ${weekday}`,
      isFixed: true,
      fits: (one) => daily(middle).fits(one) && read(one).weekday === weekday,
    },
    {
      cron: `${minute} ${hour} ${day} ${month} *`,
      isFixed: true,
      fits: (one) => daily(middle).fits(one) && read(one).day === day && read(one).month === month,
    },
    { cron: `${minute} * * * *`, isFixed: false, fits: (one) => read(one).minute === minute },
    { cron: `*/20 * * * *`, isFixed: false, fits: (one) => read(one).minute % 20 === 0 },
    { cron: `*/15 ${hour} * * *`, isFixed: false, fits: (one) => inHour(one) && read(one).minute % 15 === 0 },
  ];
}

function ticksAround(walls: ReadonlyMap<number, Wall>, changeMs: number, pattern: Pattern) {
  const windowMs = pattern.isFixed ? fixedWindowMs : wildcardWindowMs;
  const ticks: number[] = [];
  let highest = Number.NEGATIVE_INFINITY;
  for (const [at, wall] of walls) {
    const passed: Wall[] = [];
    if (!pattern.isFixed || highest === Number.NEGATIVE_INFINITY) passed.push(wall);
    else for (let one = highest + 1; one <= wall; one += 1) passed.push(one);
    highest = Math.max(highest, wall);
    if (Math.abs(at - changeMs) > windowMs || at === changeMs - windowMs) continue;
    if (passed.some(pattern.fits)) ticks.push((at - changeMs) / minuteMs);
  }
  return { from: -windowMs / minuteMs, to: windowMs / minuteMs, ticks };
}

function changeOf(zone: string, wall: WallClock, changeMs: number): Change {
  const walls = new Map<number, Wall>();
  for (let at = changeMs - leadMs; at <= changeMs + leadMs; at += minuteMs) walls.set(at, wall(at));
  const patterns = patternsAt(wall(changeMs - minuteMs), wall(changeMs));
  const vectors = Object.fromEntries(patterns.map((one) => [one.cron, ticksAround(walls, changeMs, one)]));
  return { zone, at: new Date(changeMs).toISOString(), vectors };
}

/** Every change of the zone from one instant to another, with its vectors. */
export function vectorsOf(zone: string, from: string, to: string): Change[] {
  const wall = wallClock(zone);
  return changesOf(wall, Date.parse(from), Date.parse(to)).map((at) => changeOf(zone, wall, at));
}
