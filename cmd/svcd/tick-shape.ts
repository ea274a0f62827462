// process.nextTick makes one object a tick, by a literal with computed keys. V8 keeps the shape of such objects only as long
// as one of them lives: a full collection in a moment without a pending tick, which is any moment, takes the shape, the
// next tick gets another, and from then on the literal takes the slow way for good (300 ns instead of 50). A request
// makes seven.

import { executionAsyncResource } from 'node:async_hooks';

/** Keeps one tick for as long as the process lives, and with it the shape of all. */
export function holdTickShape(): void {
  process.nextTick(() => held.push(executionAsyncResource()));
}

const held: object[] = [];
