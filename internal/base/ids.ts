// Ids of version 7 of which each sorts after the one before, also within a millisecond and when the clock goes back: who
// was made first is read from ids.

import type { Runtime } from './runtime.ts';

/** Makes them; of one process, one after the other. */
export function orderedIds(runtime: Pick<Runtime, 'now' | 'randomBytes'>): () => string {
  let lastMs = 0;
  let time = '';
  let count = 0;
  let pool = '';
  let taken = 0;
  /** Sixteen digits, drawn for many at a time: each draw costs more than all the rest. */
  const random = (): string => {
    if (taken >= pool.length) {
      pool = runtime.randomBytes(4_096).toString('hex');
      taken = 0;
    }
    taken += 16;
    return pool.slice(taken - 16, taken);
  };
  return () => {
    const nowMs = runtime.now().getTime();
    count = nowMs > lastMs ? 0 : count + 1;
    // Twelve bits count within the millisecond; beyond them, the next one is begun.
    const isNext = count > 0xfff;
    if (isNext) count = 0;
    const ms = Math.max(lastMs, nowMs) + (isNext ? 1 : 0);
    if (ms !== lastMs) {
      lastMs = ms;
      const digits = ms.toString(16).padStart(12, '0');
      time = `${digits.slice(0, 8)}-${digits.slice(8)}`;
    }
    const tail = random();
    const variant = '89ab'[Number.parseInt(tail[0] ?? '0', 16) & 3];
    const counted = count.toString(16).padStart(3, '0');
    return `${time}-7${counted}-${variant}${tail.slice(1, 4)}-${tail.slice(4)}`;
  };
}
