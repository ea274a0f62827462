// What flows take from the outside besides the database: the clock, identifiers, randomness and the log.
// Passed in, so that a test can hold them still.

import type { Logger } from 'pino';

export interface Runtime {
  readonly now: () => Date;
  readonly uuid: () => string;
  readonly randomBytes: (count: number) => Buffer;
  readonly log: Logger;
}

/** A version 7 UUID: ids made later sort later, to the millisecond. */
export function timeOrderedId(runtime: Pick<Runtime, 'now' | 'randomBytes'>): string {
  const bytes = Buffer.concat([Buffer.alloc(6), runtime.randomBytes(10)]);
  bytes.writeUIntBE(runtime.now().getTime(), 0, 6);
  bytes[6] = 0x70 | ((bytes[6] ?? 0) & 0x0f);
  bytes[8] = 0x80 | ((bytes[8] ?? 0) & 0x3f);
  const hex = bytes.toString('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}
