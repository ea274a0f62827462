// Database work that a lost connection must not end: tried again while what it is about may still be its daemon's.

import { setTimeout as sleep } from 'node:timers/promises';
import { isAbandoned, isConnectionLoss } from '../adapters/store/store.ts';
import { leaseSeconds } from '../adapters/store/sessions/hosts.ts';

const pauseMs = 250;

/**
 * What `work` gives. It may have been done and not answered: what it writes names an epoch and a state, or is the same however
 * often it is done. Throws what it threw last where the database is still away at `until`, by the steady clock, as a session's lease
 * has it by default, or nobody waits any more (`isOver`).
 */
export async function withRetry<T>(
  work: () => Promise<T>,
  {
    until = performance.now() + leaseSeconds * 1_000,
    isOver = () => false,
  }: { until?: number; isOver?: () => boolean } = {},
): Promise<T> {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      const isInVain = !isConnectionLoss(error) || isAbandoned(error);
      if (isInVain || isOver() || performance.now() > until) throw error;
      await sleep(pauseMs);
    }
  }
}
