// Frames of the git wire protocol as a server sends them, with turns for everybody else between them.

import { yieldToEventLoop } from '../../base/concurrency.ts';
import { type Pkt, PktDecoder } from './protocol.ts';

/** Frames that are given in one turn of the event loop. */
const turnFrames = 2_048;

/** All frames of a stream, in order. What has come already comes without a turn, however many frames of a few bytes that are. */
export async function* readPkts(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Pkt> {
  const decoder = new PktDecoder();
  let given = 0;
  for await (const chunk of chunks) {
    for (const pkt of decoder.push(chunk)) {
      yield pkt;
      given += 1;
      if (given % turnFrames === 0) await yieldToEventLoop();
    }
  }
  decoder.finish();
}
