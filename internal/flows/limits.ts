// A budget of concurrent work: so many at once in all, and so many per key. First come, first served within a key; a key
// whose own budget is used up holds nobody else up.

interface Waiting {
  readonly key: string;
  readonly start: () => void;
}

/** A function that runs what it is given when there is room. Rejections pass through and free their place. */
export function createLimiter(total: number, perKey: number): <T>(key: string, fn: () => Promise<T>) => Promise<T> {
  const busy = new Map<string, number>();
  const waiting: Waiting[] = [];
  let running = 0;

  const hasRoom = (key: string): boolean => running < total && (busy.get(key) ?? 0) < perKey;
  const take = (key: string): void => {
    running += 1;
    busy.set(key, (busy.get(key) ?? 0) + 1);
  };
  const release = (key: string): void => {
    running -= 1;
    const left = (busy.get(key) ?? 1) - 1;
    if (left === 0) busy.delete(key);
    else busy.set(key, left);
    const next = waiting.findIndex((entry) => hasRoom(entry.key));
    if (next < 0) return;
    const [entry] = waiting.splice(next, 1);
    if (entry === undefined) return;
    take(entry.key);
    entry.start();
  };

  return async (key, fn) => {
    if (hasRoom(key)) take(key);
    else await new Promise<void>((start) => waiting.push({ key, start }));
    try {
      return await fn();
    } finally {
      release(key);
    }
  };
}
