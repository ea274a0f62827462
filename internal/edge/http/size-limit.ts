// A body that does not say how long it is: it goes on past a bound only when somebody has made room for the rest.

import { Readable } from 'node:stream';

/** `body` as it comes; what is beyond `bytes` waits unread for `more`, and a failure of that is the stream's. */
export function withSizeLimit(body: Readable, bytes: number, more: () => Promise<void>): Readable {
  async function* parts(): AsyncGenerator<Buffer> {
    let seen = 0;
    let isAsked = false;
    // The connection outlives a refusal: it carries the answer.
    for await (const part of body.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      seen += part.length;
      if (!isAsked && seen > bytes) {
        isAsked = true;
        await more();
      }
      yield part;
    }
  }
  return Readable.from(parts(), { objectMode: false });
}
