// Work that grows with a tree, done a slice at a time, so that a thousand agents hold up nobody else's request.

import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import type { Current, Desired, PlanOptions } from '../../core/plan/types.ts';
import { nextTick, nextTicks } from '../../core/schedule/schedule.ts';

/** Longest slice between two turns of the event loop. */
const sliceMs = 10;
/** As many fires as a plan tells of a schedule. */
const fires = 3;

/** `items.map(change)`, with a turn of the event loop every few milliseconds. */
export async function mapInSlices<T, R>(items: readonly T[], change: (item: T) => R): Promise<R[]> {
  const changed: R[] = [];
  let begun = performance.now();
  for (const item of items) {
    changed.push(change(item));
    if (performance.now() - begun < sliceMs) continue;
    await yieldToEventLoop();
    begun = performance.now();
  }
  return changed;
}

/** Runs something that stops after each of its parts to its end, with a turn of the event loop every few milliseconds. */
export async function inSlices<R>(steps: Generator<void, R>): Promise<R> {
  let begun = performance.now();
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
    if (performance.now() - begun < sliceMs) continue;
    await yieldToEventLoop();
    begun = performance.now();
  }
}

const keyOf = (cron: string, timezone: string): string => `${timezone} ${cron}`;

/** The clock of a plan at `now`: what it will ask of schedules that are not stored yet is worked out beforehand. */
export async function clockOf(desired: Desired, state: Current, now: Date): Promise<PlanOptions['nextTick']> {
  const stored = new Set(state.schedules.map(({ cron, timezone }) => keyOf(cron, timezone)));
  const fresh = new Map<string, { readonly cron: string; readonly timezone: string }>();
  for (const resource of desired.resources) {
    if (resource.kind !== 'Agent') continue;
    for (const trigger of resource.spec.triggers) {
      if (trigger.kind !== 'heartbeat') continue;
      const key = keyOf(trigger.cron, trigger.timezone);
      if (!stored.has(key)) fresh.set(key, trigger);
    }
  }
  const pairs = await mapInSlices([...fresh], ([key, { cron, timezone }]) => {
    return [key, nextTicks(cron, timezone, now, fires)] as const;
  });
  const known = new Map(pairs);
  return (cron, timezone, after) => {
    const key = keyOf(cron, timezone);
    const ticks = after >= now ? (known.get(key) ?? remember(known, key, nextTicks(cron, timezone, now, fires))) : [];
    const next = ticks.find((tick) => tick > after);
    return next ?? (ticks.length > 0 && ticks.length < fires ? null : nextTick(cron, timezone, after));
  };
}

function remember<V>(map: Map<string, V>, key: string, value: V): V {
  map.set(key, value);
  return value;
}
