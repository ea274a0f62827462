// Answers that come a piece at a time. Server-sent events: heartbeats as comments, waiting for slow readers, an end when the daemon drains, and when whoever
// reads has lost the right to; and JSON by the line.

import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import type { SseEvent } from './route.ts';

const heartbeatMs = 15_000;
/** A stream ends within 5 s of the loss of its right (docs/reference/http-api.md#errors). */
const rightMs = 2_000;

/** One event as text. Data is JSON on one line, so that no line break can end a field early. */
export function formatEvent(event: SseEvent): string {
  const oneLine = (text: string): string => text.replaceAll(/[\r\n\0]/g, ' ');
  const id = event.id === undefined ? '' : `id: ${oneLine(event.id)}\n`;
  const name = event.event === undefined ? '' : `event: ${oneLine(event.event)}\n`;
  return `${id}${name}data: ${JSON.stringify(event.data)}\n\n`;
}

export interface SendOptions {
  readonly signal: AbortSignal;
  /** Whether the reader may still read; absent: everybody may. */
  readonly isAllowed?: (() => Promise<boolean>) | undefined;
}

type End = 'ended' | 'signed-out';

/** Calls `lost` once a look finds the right gone. The answer ends the looking. */
function watchRight(isAllowed: SendOptions['isAllowed'], lost: () => void): () => void {
  let isLooking = false;
  const look = async (): Promise<void> => {
    if (isLooking) return;
    isLooking = true;
    if ((await isAllowed?.()) === false) lost();
    isLooking = false;
  };
  const timer = setInterval(() => void look(), rightMs);
  return () => clearInterval(timer);
}

/**
 * What ends a stream: `signal` aborts, or a look finds the right gone. `or` gives the end instead of what is waited for, once
 * there is one; `stop` ends the looking. One promise of the end, raced against each event, would keep all of them.
 */
function endOf({ signal, isAllowed }: SendOptions): { or<T>(wait: Promise<T>): Promise<T | End>; stop(): void } {
  let end: End | undefined;
  let wake: ((end: End) => void) | undefined;
  const resolve = (how: End): void => {
    end ??= how;
    wake?.(end);
  };
  const onAbort = (): void => resolve('ended');
  if (signal.aborted) onAbort();
  signal.addEventListener('abort', onAbort, { once: true });
  const stopLooking = watchRight(isAllowed, () => resolve('signed-out'));
  return {
    or: <T>(wait: Promise<T>) =>
      new Promise<T | End>((settle, reject) => {
        wake = settle;
        wait.then(settle, reject);
        if (end !== undefined) settle(end);
      }),
    stop: () => {
      stopLooking();
      signal.removeEventListener('abort', onAbort);
    },
  };
}

/**
 * Writes the events until they end, the reader leaves or loses its right, or `signal` aborts. A reader that does not read
 * holds back the source: at most one event waits here. Rejects with what the source throws.
 */
export async function sendEvents(
  response: ServerResponse,
  headers: { readonly [name: string]: string },
  events: AsyncIterable<SseEvent>,
  options: SendOptions,
): Promise<void> {
  response.writeHead(200, {
    ...headers,
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-store',
    'x-accel-buffering': 'no',
  });
  response.write(': open\n\n');
  const heartbeat = setInterval(() => response.write(': alive\n\n'), heartbeatMs);
  const { or, stop } = endOf(options);
  const iterator = events[Symbol.asyncIterator]();
  try {
    for (;;) {
      const next = await or(iterator.next());
      if (next === 'signed-out') response.write(formatEvent({ event: next, data: {} }));
      if (next === 'ended' || next === 'signed-out' || next.done) break;
      if (response.write(formatEvent(next.value))) continue;
      const drained = new Promise<'drained'>((resolve) => response.once('drain', () => resolve('drained')));
      const met = await or(drained);
      if (met === 'signed-out') response.write(formatEvent({ event: met, data: {} }));
      if (met !== 'drained') break;
    }
  } finally {
    clearInterval(heartbeat);
    stop();
    // Not awaited: a generator that waits for its next value ends when that wait does, by the same signal.
    iterator.return?.()?.then(undefined, () => undefined);
    response.end();
  }
}

/**
 * A JSON document a line, read as fast as the caller takes it. `response` is broken off when its reader loses the right to
 * it, as if the reader had gone: whatever makes the lines may be silent for long, and ends by that.
 */
export function jsonLines(
  documents: AsyncIterable<unknown>,
  response: ServerResponse,
  isAllowed: SendOptions['isAllowed'],
): Readable {
  async function* lines(): AsyncGenerator<string> {
    for await (const document of documents) yield `${JSON.stringify(document)}\n`;
  }
  const stop = watchRight(isAllowed, () => response.destroy());
  if (response.closed) stop();
  else response.once('close', stop);
  return Readable.from(lines(), { objectMode: false });
}
