// Work that would hold up everybody else's, done a slice at a time.

import { setImmediate } from 'node:timers/promises';

/** Longest slice between two turns of the event loop. */
const sliceMs = 10;

/** Lets the event loop take one turn: what waits for this process gets its own. */
export const yieldToEventLoop = (): Promise<void> => setImmediate();

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
