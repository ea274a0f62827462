// What is made by the megabyte and thrown away at once, such as the rows of a fleet as text. The engine looks for it when there
// is as much of it as it has room for, and takes more room when some of it is in use just then: a burst of tens of
// megabytes has the process grow by several times that. A look at what is young, every few megabytes, takes a millisecond.

import { type Collect, collector } from './collector.ts';

/** Bytes between two looks. */
const lookBytes = 4 * 1024 * 1024;

let collect: Collect | undefined;
let passedBytes = 0;

/** Says that so many bytes have been made that nobody needs any more, or will in a moment. */
export function passed(bytes: number): void {
  passedBytes += bytes;
  if (passedBytes < lookBytes) return;
  passedBytes = 0;
  collect ??= collector();
  collect({ type: 'minor' });
}
