// Server-sent events: heartbeats as comments, waiting for slow readers, an end when the daemon drains.

import type { ServerResponse } from 'node:http';
import type { SseEvent } from './route.ts';

const heartbeatMs = 15_000;

/** One event as text. Data is JSON on one line, so that no line break can end a field early. */
export function formatEvent(event: SseEvent): string {
  const oneLine = (text: string): string => text.replaceAll(/[\r\n\0]/g, ' ');
  const id = event.id === undefined ? '' : `id: ${oneLine(event.id)}\n`;
  const name = event.event === undefined ? '' : `event: ${oneLine(event.event)}\n`;
  return `${id}${name}data: ${JSON.stringify(event.data)}\n\n`;
}

/**
 * Writes the events until they end, the reader leaves or `signal` aborts. A reader that does not read holds back the
 * source: at most one event waits here. Rejects with what the source throws.
 */
export async function sendEvents(
  response: ServerResponse,
  headers: { readonly [name: string]: string },
  events: AsyncIterable<SseEvent>,
  signal: AbortSignal,
): Promise<void> {
  response.writeHead(200, {
    ...headers,
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-store',
    'x-accel-buffering': 'no',
  });
  response.write(': open\n\n');
  const heartbeat = setInterval(() => response.write(': alive\n\n'), heartbeatMs);
  const ended = new Promise<'ended'>((resolve) => {
    if (signal.aborted) resolve('ended');
    signal.addEventListener('abort', () => resolve('ended'), { once: true });
  });
  const iterator = events[Symbol.asyncIterator]();
  try {
    for (;;) {
      const next = await Promise.race([iterator.next(), ended]);
      if (next === 'ended' || next.done) break;
      if (response.write(formatEvent(next.value))) continue;
      const drained = new Promise<'drained'>((resolve) => response.once('drain', () => resolve('drained')));
      if ((await Promise.race([drained, ended])) === 'ended') break;
    }
  } finally {
    clearInterval(heartbeat);
    // Not awaited: a generator that waits for its next value ends when that wait does, by the same signal.
    iterator.return?.()?.then(undefined, () => undefined);
    response.end();
  }
}
