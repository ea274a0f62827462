// Work beside other work. What would hold up the event loop is done a slice at a time, and expensive work has a budget of so
// many at once.

import { setImmediate } from 'node:timers/promises';
import { Turns } from './turns.ts';

/** Longest slice between two turns of the event loop. */
const sliceMs = 10;

/** Lets the event loop take one turn: what waits for this process gets its own. */
export const yieldToEventLoop = (): Promise<void> => setImmediate();

/**
 * Lets timers and everything that has arrived run first. `yieldToEventLoop` is not enough for that in a callback of something
 * that has just arrived: it goes on at the end of the same turn of the loop.
 */
export async function takeWholeTurn(): Promise<void> {
  await yieldToEventLoop();
  await yieldToEventLoop();
}

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

/** Characters between two turns of the event loop: a few milliseconds. */
const slice = 1024 * 1024;

/** `JSON.stringify(rows)`, without holding up anybody, for what has to be one value. */
export async function jsonRows(rows: readonly object[]): Promise<string> {
  const parts: string[] = [];
  let since = 0;
  for (const row of rows) {
    const text = JSON.stringify(row);
    parts.push(text);
    since += text.length;
    if (since < slice) continue;
    since = 0;
    await yieldToEventLoop();
  }
  return `[${parts.join(',')}]`;
}

// A budget of concurrent work: so many at once in all, and so many per key. Within a key owners take turns, and what is urgent goes
// before the rest; of one owner goes first what came first. A key whose own budget is used up holds nobody else up.

interface Waiting {
  readonly lane: undefined;
  readonly owner: string;
  readonly start: () => void;
}

interface Key {
  busy: number;
  readonly urgent: Turns<undefined, Waiting>;
  readonly waiting: Turns<undefined, Waiting>;
}

export interface LimitOptions {
  /** For whom it is, such as a project: of one key each has its turn. */
  readonly owner?: string;
  /** Goes before what waits for the same key. */
  readonly urgent?: boolean;
  /** Ends the wait for a place with the signal's reason; what runs has to look at it itself. */
  readonly signal?: AbortSignal;
}

export type Limiter = <T>(key: string, fn: () => Promise<T>, options?: LimitOptions) => Promise<T>;

function takeNext({ urgent, waiting }: Key): Waiting | undefined {
  const queue = urgent.size > 0 ? urgent : waiting;
  const next = queue.first(() => true);
  if (next !== undefined) queue.take(next);
  return next;
}

/** A function that runs what it is given when there is room. Rejections pass through and free their place. */
export function createLimiter(total: number, perKey: number): Limiter {
  const keys = new Map<string, Key>();
  /** Keys that have room and somebody who waits for the whole budget, in the order in which they began to. */
  const ready = new Set<string>();
  let running = 0;

  const keyOf = (name: string): Key => {
    const key = keys.get(name) ?? { busy: 0, urgent: new Turns(), waiting: new Turns() };
    keys.set(name, key);
    return key;
  };
  const settle = (name: string, key: Key): void => {
    const isWanted = key.urgent.size + key.waiting.size > 0;
    if (isWanted && key.busy < perKey) ready.add(name);
    else ready.delete(name);
    if (!isWanted && key.busy === 0) keys.delete(name);
  };
  const startNext = (): void => {
    while (running < total) {
      const [name] = ready;
      if (name === undefined) return;
      const key = keyOf(name);
      const next = takeNext(key);
      // To the end of the line: one key's long queue must not take every place that comes free.
      ready.delete(name);
      if (next !== undefined) {
        running += 1;
        key.busy += 1;
        next.start();
      }
      settle(name, key);
    }
  };
  const place = (name: string, { owner = '', urgent = false, signal }: LimitOptions): Promise<void> =>
    new Promise((resolve, reject) => {
      if (signal?.aborted === true) return reject(signal.reason);
      const key = keyOf(name);
      const queue = urgent ? key.urgent : key.waiting;
      const leave = (): void => {
        queue.remove(entry);
        settle(name, key);
        reject(signal?.reason);
      };
      const entry: Waiting = {
        ...{ lane: undefined, owner },
        start: () => {
          signal?.removeEventListener('abort', leave);
          resolve();
        },
      };
      signal?.addEventListener('abort', leave, { once: true });
      queue.add(entry);
      settle(name, key);
      startNext();
    });

  return async (name, fn, options = {}) => {
    await place(name, options);
    try {
      return await fn();
    } finally {
      const key = keyOf(name);
      running -= 1;
      key.busy -= 1;
      settle(name, key);
      startNext();
    }
  };
}
