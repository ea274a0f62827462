// Tellings that go on behind the turn that began them: a loop waits a moment for what it tells, and no longer for a stranger's
// server. Of a project that has one in flight for longer than that no other of its kind is begun meanwhile, so that what
// waits of others is never more than a moment behind it, and their number has a bound.

import type { OutboundKind } from '../adapters/store/operations/in-hand.ts';
import type { FlowContext } from './context.ts';

/** In flight at a time, of one kind in one daemon. */
const flightMax = 200;

export interface Flight {
  /** Those that are not told yet, with their projects. */
  readonly pending: ReadonlyMap<unknown, string>;
  readonly over: Promise<void>;
}

const flights = new WeakMap<object, Map<OutboundKind, Set<Flight>>>();
/** Databases of daemons that stop. */
const landing = new WeakSet<object>();

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

/** How many a claim of that kind may take, `batch` at most, and the projects (ids) whose it leaves alone. */
export function roomFor(
  ctx: FlowContext,
  kind: OutboundKind,
  batch: number,
): { readonly limit: number; readonly busy: readonly string[] } {
  const pending = [...flightsOf(ctx, kind)].flatMap((flight) => [...flight.pending.values()]);
  return { limit: Math.max(0, Math.min(batch, flightMax - pending.length)), busy: [...new Set(pending)] };
}

/** The daemon stops: what waits in a flight for its turn is not begun any more. */
export const land = ({ db }: FlowContext): void => void landing.add(db.root);

export const isLanding = ({ db }: FlowContext): boolean => landing.has(db.root);

/** Resolves when nothing is in flight any more; of a daemon that stops and begins nothing. */
export async function landed({ db }: FlowContext): Promise<void> {
  const all = [...(flights.get(db.root)?.values() ?? [])].flatMap((some) => [...some]);
  await Promise.allSettled(all.map(({ over }) => over));
}
