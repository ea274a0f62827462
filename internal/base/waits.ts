// Waits with an end, for work that may take longer than its caller has time, or than anybody wants it. The work itself goes
// on then, and a failure of it is not heard any more.

/** What the work gives; undefined where it has not within so many milliseconds. Throws what it throws in that time. */
export async function within<T>(work: Promise<T>, ms: number): Promise<{ readonly value: T } | undefined> {
  const late = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => late.resolve(undefined), ms);
  try {
    return await Promise.race([work.then((value) => ({ value })), late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** Whether the work has ended within so many milliseconds; that it failed stays the business of whoever began it. */
export async function settlesWithin(work: Promise<unknown>, ms: number): Promise<boolean> {
  const settled = work.then(
    () => true,
    () => true,
  );
  return (await within(settled, ms)) !== undefined;
}

/** A signal that aborts after so many milliseconds, with a TimeoutError, or with `signal` where that aborts first. */
export function timeLimit(ms: number, signal?: AbortSignal): AbortSignal {
  const limit = AbortSignal.timeout(ms);
  return signal === undefined ? limit : AbortSignal.any([limit, signal]);
}

/** What the work gives. Throws the signal's reason where that comes first, or has come before; else what the work throws. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  const end = (): void => aborted.reject(signal.reason);
  if (signal.aborted) end();
  else signal.addEventListener('abort', end, { once: true });
  try {
    return await Promise.race([work, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', end);
  }
}
