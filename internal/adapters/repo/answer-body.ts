// The body of an answer, for a reader who stops where git's answer ends: mostly that is a moment before HTTP's does, and a
// connection that is cut there serves no second request. Where more comes than an end, or none comes soon, it is cut.

import type { Readable } from 'node:stream';

/** What may come behind the end of git's answer, and how long it is waited for, with nobody waiting. */
const rest = { bytes: 4_096, ms: 1_000 } as const;

/** The chunks of a body. Whoever stops early goes on at once; what is left of it is taken in the background, or cut off. */
export async function* chunksOf(body: Readable): AsyncGenerator<Uint8Array> {
  try {
    yield* body.iterator({ destroyOnReturn: false }) as AsyncIterable<Uint8Array>;
  } finally {
    if (!body.destroyed && !body.readableEnded) takeRest(body);
  }
}

const beginningBytes = 65_536;

/** What a body that is not git's begins with; as much of it as came, where it breaks off. */
export async function beginningOf(body: Readable): Promise<string> {
  let text = '';
  try {
    for await (const chunk of chunksOf(body)) {
      text += Buffer.from(chunk).toString('latin1');
      if (text.length >= beginningBytes) break;
    }
  } catch {
    return text;
  }
  return text;
}

function takeRest(body: Readable): void {
  const timer = setTimeout(() => body.destroy(), rest.ms);
  timer.unref();
  let left: number = rest.bytes;
  body.on('error', () => undefined);
  body.on('close', () => clearTimeout(timer));
  body.on('data', (chunk: Uint8Array) => {
    left -= chunk.length;
    if (left < 0) body.destroy();
  });
  body.resume();
}
