// Memory that threads share. The engine does not count it, so that it sees no reason to look for what of it is not needed any
// more: bodies of tens of megabytes, one after the other, would all lie about until something else makes it look.

import { type Collect, collector } from './collector.ts';

/** Given out between two looks. */
const uncountedBytes = 64 * 1_048_576;

let collect: Collect | undefined;
let given = 0;

/** So many bytes, zeroed, that every thread of the process may hold. */
export function sharedRoom(bytes: number): Buffer {
  noteShared(bytes);
  return Buffer.from(new SharedArrayBuffer(bytes));
}

/** Counts such bytes that this thread was given; looks for what is not needed any more where they are many. */
export function noteShared(bytes: number): void {
  given += bytes;
  if (given <= uncountedBytes) return;
  given = bytes;
  collect ??= collector();
  collect();
}
