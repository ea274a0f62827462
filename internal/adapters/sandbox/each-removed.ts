// Removing what several sandboxes left: one that cannot be removed keeps none of the others.

import { createLimiter } from '../../base/concurrency.ts';

/** Gives those that were removed, `atOnce` at a time. What fails is told; without `failed` the first is thrown in the end. */
export async function eachRemoved(
  ids: readonly string[],
  atOnce: number,
  remove: (id: string) => Promise<void>,
  failed?: (id: string, error: unknown) => void,
): Promise<string[]> {
  const limited = createLimiter(atOnce, atOnce);
  const ends = await Promise.allSettled(ids.map((id) => limited('', () => remove(id))));
  const removed: string[] = [];
  for (const [at, end] of ends.entries()) {
    const id = ids[at] ?? '';
    if (end.status === 'fulfilled') removed.push(id);
    else if (failed === undefined) throw end.reason;
    else failed(id, end.reason);
  }
  return removed;
}
