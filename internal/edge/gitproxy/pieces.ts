// Bytes in pieces that are worth a write. Whoever sends may cut them as small as it likes, and each chunk that is passed on by
// itself costs a turn through two parsers and a socket: very many of a byte would hold up everything else of the daemon.

import { finished, type Readable } from 'node:stream';
import { yieldToEventLoop } from '../../base/concurrency.ts';

/** What is smaller waits for what else comes in this turn of the event loop. */
const smallBytes = 16_384;

/** What `source` gives, to its end; leaving off early leaves the rest of it unread. */
export async function* inPieces(source: Readable): AsyncGenerator<Buffer, undefined> {
  let wake = (): void => undefined;
  let end: { readonly error: Error | null | undefined } | undefined;
  const onReadable = (): void => wake();
  const stop = finished(source, { writable: false }, (error) => {
    end = { error };
    wake();
  });
  // One that is ended after this has left off has nobody else to hear of it.
  source.on('readable', onReadable).on('error', () => undefined);
  try {
    for (;;) {
      if (source.readableLength > 0 && source.readableLength < smallBytes) await yieldToEventLoop();
      const piece = source.destroyed ? null : (source.read() as Buffer | null);
      if (piece !== null) yield piece;
      else if (end === undefined) await new Promise<void>((resolve) => (wake = resolve));
      else if (end.error) throw end.error;
      else return undefined;
    }
  } finally {
    source.off('readable', onReadable);
    stop();
  }
}
