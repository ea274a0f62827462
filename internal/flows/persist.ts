// What is known by now and must not be lost: written again while the database is away. The work has to be the same however
// often it is done, since it may have been done and not answered.

import { setTimeout as sleep } from 'node:timers/promises';
import { isAbandoned, isConnectionLoss } from '../adapters/store/store.ts';
import { Fault } from '../domain/fault.ts';

const stepsMs = [100, 500, 2_000, 5_000, 10_000] as const;

/** What `work` gives; throws what it throws, and Fault `unavailable` where the database stays away, or busy. */
export async function persist<T>(work: () => Promise<T>): Promise<T> {
  for (const stepMs of stepsMs) {
    try {
      return await work();
    } catch (error) {
      const isBusy = error instanceof Fault && error.kind === 'unavailable';
      if ((!isBusy && !isConnectionLoss(error)) || isAbandoned(error)) throw error;
      await sleep(stepMs);
    }
  }
  return work();
}
