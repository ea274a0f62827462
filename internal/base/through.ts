// What a stream gives, sent through another one.

import { type Duplex, pipeline, Readable } from 'node:stream';

/**
 * What `source` gives, through `by`. Where one of them breaks, the reader of the result hears of it; where the reader leaves,
 * both end. `Readable.compose` is not used for it: once `by` has taken all in, and still holds some of it, nobody listens
 * there for errors any more, and a reader that leaves then ends the process.
 */
export function pipeThrough(source: AsyncIterable<Buffer>, by: Duplex): Readable {
  by.on('error', () => undefined); // Its reader is told by its own listener.
  return pipeline(Readable.from(source), by, () => undefined) as Duplex;
}
