// Fixed times in a zone (docs/reference/schedules.md#cron): one that a clock change skips fires once right after the gap, one that it
// repeats fires once. So a reading of the clock fires when it is first reached or passed, and readings can be walked as
// if there were no zones: the library that walks them in a zone loses what a gap over midnight skips.

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
/** No zone is further from UTC than 14 hours ahead or 12 behind: a reading is reached between these. */
const earliestMs = 15 * hourMs;
const latestMs = 13 * hourMs;
/** A change that turned the clock back has an effect for as long as it turned back: at most a day. */
const lookBackMs = 25 * hourMs;

/** Milliseconds that the zone's clock is ahead of UTC at an instant. */
type Offset = (atMs: number) => number;

/** One formatter a zone: making one costs a hundred times what it is asked. Bounded, as names have many cases. */
const offsets = new Map<string, Offset>();
const offsetsMax = 1_000;

function offsetIn(zone: string): Offset {
  const known = offsets.get(zone);
  if (known !== undefined) return known;
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone: zone,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
  });
  const offset: Offset = (atMs) => {
    const [month = 0, day = 0, year = 0, hour = 0, minute = 0] = format.format(atMs).split(/\D+/).map(Number);
    const wall = Date.UTC(year, month - 1, day, hour, minute);
    return wall - Math.floor(atMs / minuteMs) * minuteMs;
  };
  if (offsets.size < offsetsMax) offsets.set(zone, offset);
  return offset;
}

/** The first instant, on a minute, that has the offset of the later of two between which it changes once. */
function changeBetween(offset: Offset, earlier: number, later: number): number {
  const before = offset(earlier);
  let [low, high] = [Math.floor(earlier / minuteMs), Math.ceil(later / minuteMs)];
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (offset(middle * minuteMs) === before) low = middle;
    else high = middle;
  }
  return high * minuteMs;
}

/** The latest reading that the zone's clock has shown up to an instant, in milliseconds as if it were UTC. */
function latestReading(offset: Offset, atMs: number): number {
  const now = offset(atMs);
  const before = offset(atMs - lookBackMs);
  if (before <= now) return atMs + now;
  const change = changeBetween(offset, atMs - lookBackMs, atMs);
  return Math.max(atMs + now, change + before - 1);
}

/** The instant at which the zone's clock first shows a reading, or has passed it. */
function whenReached(offset: Offset, reading: number): number {
  const [earliest, latest] = [reading - earliestMs, reading + latestMs];
  const [before, after] = [offset(earliest), offset(latest)];
  if (before === after) return reading - before;
  const change = changeBetween(offset, earliest, latest);
  return reading - before < change ? reading - before : Math.max(change, reading - after);
}

/**
 * The first tick after an instant of an expression without a wildcard in minute and hour; `nextReading` gives the
 * reading that fits it after another one, both as if they were UTC.
 */
export function nextFixedTick(nextReading: (after: Date) => Date | null, zone: string, after: Date): Date | null {
  const offset = offsetIn(zone);
  const reading = nextReading(new Date(latestReading(offset, after.getTime())));
  return reading === null ? null : new Date(whenReached(offset, reading.getTime()));
}
