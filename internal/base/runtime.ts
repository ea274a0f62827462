// What flows take from the outside besides the database: the clock, identifiers, randomness and the log.
// Passed in, so that a test can hold them still.

import type { Logger } from 'pino';

export interface Runtime {
  readonly now: () => Date;
  readonly uuid: () => string;
  readonly randomBytes: (count: number) => Buffer;
  readonly log: Logger;
}

/** A version 7 UUID: ids of a later millisecond sort later; within one their order is random. */
export function timeOrderedId(runtime: Pick<Runtime, 'now' | 'uuid'>, now: Date = runtime.now()): string {
  const ms = now.getTime();
  if (ms !== last.ms) {
    const hex = ms.toString(16).padStart(12, '0');
    last = { ms, head: `${hex.slice(0, 8)}-${hex.slice(8)}-7` };
  }
  return last.head + runtime.uuid().slice(15);
}

/** The beginning that the ids of one millisecond share, kept because thousands are made a second. */
let last = { ms: -1, head: '' };
