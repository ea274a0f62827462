// What flows take from the outside besides the database: the clock, identifiers, randomness and the log.
// Passed in, so that a test can hold them still.

import type { Logger } from 'pino';

export interface Runtime {
  readonly now: () => Date;
  readonly uuid: () => string;
  readonly randomBytes: (count: number) => Buffer;
  readonly log: Logger;
}

/** A version 7 UUID: ids made later sort later, to the millisecond. The rest is that of a random one. */
export function timeOrderedId(runtime: Pick<Runtime, 'now' | 'uuid'>): string {
  const ms = runtime.now().getTime().toString(16).padStart(12, '0');
  return `${ms.slice(0, 8)}-${ms.slice(8)}-7${runtime.uuid().slice(15)}`;
}
