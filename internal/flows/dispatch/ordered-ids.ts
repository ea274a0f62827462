// Ids of version 7 of which each sorts after the one before, also within a millisecond and when the clock goes back: who
// was made first is read from ids.

import type { Runtime } from '../../base/runtime.ts';

/** Makes them; of one process, one after the other. */
export function orderedIds(runtime: Pick<Runtime, 'now' | 'randomBytes'>): () => string {
  let lastMs = 0;
  let count = 0;
  let pool: Buffer = Buffer.alloc(0);
  let taken = 0;
  /** Drawn for many at a time: each draw costs more than all the rest. */
  const eightBytes = (): Buffer => {
    if (taken >= pool.length) {
      pool = runtime.randomBytes(4_096);
      taken = 0;
    }
    taken += 8;
    return pool.subarray(taken - 8, taken);
  };
  return () => {
    const nowMs = runtime.now().getTime();
    count = nowMs > lastMs ? 0 : count + 1;
    lastMs = Math.max(lastMs, nowMs);
    // Twelve bits count within the millisecond; beyond them, the next one is begun.
    if (count > 0xfff) {
      lastMs += 1;
      count = 0;
    }
    const bytes = Buffer.alloc(16);
    eightBytes().copy(bytes, 8);
    bytes.writeUIntBE(lastMs, 0, 6);
    bytes.writeUInt16BE(0x7000 | count, 6);
    bytes[8] = 0x80 | ((bytes[8] ?? 0) & 0x3f);
    const hex = bytes.toString('hex');
    return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
  };
}
