// Tellings that go on behind the turn that began them: a loop waits a moment for what it tells, and no longer for a stranger's
// server. Of a project that has one in flight for longer than that no other of its kind is begun meanwhile, so that what
// waits of others is never more than a moment behind it, and their number has a bound.

import type { OutboundKind } from '../adapters/store/operations/in-hand.ts';
import { within } from '../base/waits.ts';
import type { FlowContext } from './context.ts';

/** In flight at a time, of one kind in one daemon. */
const flightMax = 200;

export interface Flight {
  /** Those that are not told yet, with their projects. */
  readonly pending: ReadonlyMap<unknown, string>;
  readonly over: Promise<void>;
}

/** How long a daemon that stops waits for strangers' servers: what they were sent is then looked for by whoever comes next. */
const landingMs = 8_000;

const flights = new WeakMap<object, Map<OutboundKind, Set<Flight>>>();

/** The stop of a daemon, as far as it has come. */
interface Landing {
  /** When nothing in flight is waited for any more, by the steady clock; undefined: it has not begun. */
  until: number | undefined;
  /** Wakes who waits for a turn. */
  readonly wakes: Set<() => void>;
}
/** By database. */
const landings = new WeakMap<object, Landing>();

function landingOf({ db }: FlowContext): Landing {
  let landing = landings.get(db.root);
  if (landing === undefined) {
    landing = { until: undefined, wakes: new Set() };
    landings.set(db.root, landing);
  }
  return landing;
}

function flightsOf({ db }: FlowContext, kind: OutboundKind): Set<Flight> {
  const byKind = flights.get(db.root) ?? new Map<OutboundKind, Set<Flight>>();
  flights.set(db.root, byKind);
  const all = byKind.get(kind) ?? new Set<Flight>();
  byKind.set(kind, all);
  return all;
}

/** Knows it until it is over. */
export function takeOff(ctx: FlowContext, kind: OutboundKind, flight: Flight): void {
  const all = flightsOf(ctx, kind);
  all.add(flight);
  const land = (): void => void all.delete(flight);
  flight.over.then(land, land);
}

/**
 * How many a claim of that kind may take, `batch` at most, and none where the daemon stops; and the projects (ids) whose it
 * leaves alone.
 */
export function roomFor(
  ctx: FlowContext,
  kind: OutboundKind,
  batch: number,
): { readonly limit: number; readonly busy: readonly string[] } {
  const pending = [...flightsOf(ctx, kind)].flatMap((flight) => [...flight.pending.values()]);
  const limit = isLanding(ctx) ? 0 : Math.max(0, Math.min(batch, flightMax - pending.length));
  return { limit, busy: [...new Set(pending)] };
}

/** The daemon stops: what waits in a flight for its turn is not begun any more. */
export function land(ctx: FlowContext): void {
  const landing = landingOf(ctx);
  landing.until ??= performance.now() + landingMs;
  for (const wake of landing.wakes) wake();
}

export const isLanding = (ctx: FlowContext): boolean => landingOf(ctx).until !== undefined;

/** Resolves after so many milliseconds, and as soon as the daemon stops: true where it does. */
export async function landsWithin(ctx: FlowContext, ms: number): Promise<boolean> {
  const landing = landingOf(ctx);
  if (landing.until === undefined) {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, ms);
    landing.wakes.add(resolve);
    await promise;
    landing.wakes.delete(resolve);
    clearTimeout(timer);
  }
  return isLanding(ctx);
}

/**
 * Resolves when nothing is in flight any more; of a daemon that stops and begins nothing. Where it does, what takes too long
 * is left as one that is killed leaves it: its claim is free, and its row in the outbox is resolved.
 */
export async function landed(ctx: FlowContext): Promise<void> {
  const all = [...(flights.get(ctx.db.root)?.values() ?? [])].flatMap((some) => [...some]);
  const over = Promise.allSettled(all.map((flight) => flight.over));
  const { until } = landingOf(ctx);
  await (until === undefined ? over : within(over, Math.max(0, until - performance.now())));
}
