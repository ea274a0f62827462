// A budget of concurrent work: so many at once in all, and so many per key. First come, first served within a key, what
// is urgent before the rest; a key whose own budget is used up holds nobody else up.

interface Waiting {
  readonly start: () => void;
}

interface Key {
  busy: number;
  readonly urgent: Waiting[];
  readonly waiting: Waiting[];
}

export interface LimitOptions {
  /** Goes before what waits for the same key. */
  readonly urgent?: boolean;
  /** Ends the wait for a place with the signal's reason; what runs has to look at it itself. */
  readonly signal?: AbortSignal;
}

export type Limiter = <T>(key: string, fn: () => Promise<T>, options?: LimitOptions) => Promise<T>;

/** A function that runs what it is given when there is room. Rejections pass through and free their place. */
export function createLimiter(total: number, perKey: number): Limiter {
  const keys = new Map<string, Key>();
  /** Keys that have room and somebody who waits for the whole budget, in the order in which they began to. */
  const ready = new Set<string>();
  let running = 0;

  const keyOf = (name: string): Key => {
    const known = keys.get(name);
    if (known !== undefined) return known;
    const made = { busy: 0, urgent: [], waiting: [] };
    keys.set(name, made);
    return made;
  };
  const settle = (name: string, key: Key): void => {
    const isWanted = key.urgent.length + key.waiting.length > 0;
    if (isWanted && key.busy < perKey) ready.add(name);
    else ready.delete(name);
    if (!isWanted && key.busy === 0) keys.delete(name);
  };
  const startNext = (): void => {
    while (running < total) {
      const [name] = ready;
      if (name === undefined) return;
      const key = keyOf(name);
      const next = key.urgent.shift() ?? key.waiting.shift();
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
  const place = (name: string, { urgent = false, signal }: LimitOptions): Promise<void> =>
    new Promise((resolve, reject) => {
      if (signal?.aborted === true) return reject(signal.reason);
      const key = keyOf(name);
      const queue = urgent ? key.urgent : key.waiting;
      const leave = (): void => {
        queue.splice(queue.indexOf(entry), 1);
        settle(name, key);
        reject(signal?.reason);
      };
      const entry: Waiting = {
        start: () => {
          signal?.removeEventListener('abort', leave);
          resolve();
        },
      };
      signal?.addEventListener('abort', leave, { once: true });
      queue.push(entry);
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
