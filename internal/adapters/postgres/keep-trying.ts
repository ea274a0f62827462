// Tries something that fails for a while again and again, with growing pauses.

import { setTimeout as sleep } from 'node:timers/promises';

const pause = { firstMs: 250, mostMs: 5_000 } as const;

/**
 * What `act` gives in the end. Throws its error where it has failed for `forMs` milliseconds, or was to be given up;
 * `onError` hears of each.
 */
export async function keepTrying<T>(
  act: () => Promise<T>,
  forMs: number,
  signal: AbortSignal,
  onError: (error: unknown) => void,
): Promise<T> {
  const until = performance.now() + forMs;
  for (let pauseMs: number = pause.firstMs; ; pauseMs = Math.min(pauseMs * 2, pause.mostMs)) {
    try {
      return await act();
    } catch (error) {
      onError(error);
      if (signal.aborted || performance.now() > until) throw error;
      await sleep(pauseMs, undefined, { signal: signal });
    }
  }
}
