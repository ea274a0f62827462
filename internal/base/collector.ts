// The engine looks by itself for what is not needed any more when it has no room left, which is late where nobody needs much
// that it made, or where it does not count it.

import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Has the engine look in this thread: at everything, at what is young alone, or at everything so that its room is given back. */
export type Collect = (
  options?: { readonly type: 'minor' } | { readonly type: 'major'; readonly flavor: 'last-resort' },
) => void;

/** The engine's collector for this thread, whatever flags it was started with. */
export function collector(): Collect {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as Collect;
  setFlagsFromString('--no-expose-gc');
  return gc;
}
