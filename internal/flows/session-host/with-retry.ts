// Database work of a host that a lost connection must not end: tried again while the session's lease may still stand.

import { setTimeout as sleep } from 'node:timers/promises';
import { isConnectionLoss } from '../../adapters/store/store.ts';
import { leaseSeconds } from '../../adapters/store/sessions/hosts.ts';
import type { FlowContext } from '../context.ts';

const pauseMs = 250;

/** What `work` gives. It may have been done and not answered: what it writes names an epoch and a state. */
export async function withRetry<T>({ runtime }: Pick<FlowContext, 'runtime'>, work: () => Promise<T>): Promise<T> {
  const until = runtime.now().getTime() + leaseSeconds * 1_000;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!isConnectionLoss(error) || runtime.now().getTime() > until) throw error;
      await sleep(pauseMs);
    }
  }
}
