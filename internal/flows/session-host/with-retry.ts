// Database work of a host that a lost connection must not end: tried again while the session's lease may still stand.

import { setTimeout as sleep } from 'node:timers/promises';
import { isConnectionLoss } from '../../adapters/store/store.ts';
import { leaseSeconds } from '../../adapters/store/sessions/hosts.ts';

const pauseMs = 250;

/** What `work` gives. It may have been done and not answered: what it writes names an epoch and a state. */
export async function withRetry<T>(work: () => Promise<T>): Promise<T> {
  const until = performance.now() + leaseSeconds * 1_000;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!isConnectionLoss(error) || performance.now() > until) throw error;
      await sleep(pauseMs);
    }
  }
}
