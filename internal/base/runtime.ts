// What flows take from the outside besides the database: the clock, identifiers, randomness and the log.
// Passed in, so that a test can hold them still.

import type { Logger } from 'pino';

export interface Runtime {
  readonly now: () => Date;
  readonly uuid: () => string;
  readonly randomBytes: (count: number) => Buffer;
  readonly log: Logger;
}
