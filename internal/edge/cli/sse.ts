// Server-sent events: a reader that reconnects where it left off.

import { createParser } from 'eventsource-parser';
import { Refusal } from './failure.ts';

export interface SseMessage {
  readonly id: string | undefined;
  readonly event: string;
  readonly data: string;
}

const firstWaitMs = 250;
const waitMsMax = 15_000;
const lineCharsMax = 16 * 1024 * 1024;

/** Feeds text in pieces, gives complete messages. Keeps the last id and the server's `retry`. Throws over a line that is too long. */
export function createSseParser(): {
  feed(text: string): SseMessage[];
  lastId(): string | undefined;
  retryMs(): number | undefined;
} {
  let out: SseMessage[] = [];
  let lastId: string | undefined;
  let retry: number | undefined;
  /** A \r at the end may be half of \r\n. */
  let half = '';
  const parser = createParser({
    maxBufferSize: lineCharsMax,
    onEvent: ({ id = lastId, event = 'message', data }) => {
      lastId = id;
      out.push({ id, event, data });
    },
    onRetry: (ms) => {
      retry = ms;
    },
    // A field that is not known is passed over, as the format wants it.
    onError: ({ type }) => {
      if (type === 'max-buffer-size-exceeded') throw new Error('an event is longer than 16 MiB');
    },
  });
  return {
    feed: (text) => {
      const whole = half + text;
      half = whole.endsWith('\r') ? '\r' : '';
      // The package keeps a line that a lone \r has ended until another line ends.
      parser.feed((half === '' ? whole : whole.slice(0, -1)).replaceAll(/\r\n?/g, '\n'));
      const found = out;
      out = [];
      return found;
    },
    lastId: () => lastId,
    retryMs: () => retry,
  };
}

/**
 * Messages of a stream that is opened again, from the last id, whenever it breaks. Ends when `signal` is aborted;
 * a refusal by the server (a 4xx problem) is thrown, an unreachable server is waited for with growing pauses.
 */
export async function* sseMessages(
  open: (lastEventId: string | undefined) => Promise<Response>,
  signal: AbortSignal,
): AsyncGenerator<SseMessage> {
  let lastId: string | undefined;
  let waitMs = firstWaitMs;
  let opened = false;
  stream: while (!signal.aborted) {
    const parser = createSseParser();
    try {
      const response = await open(lastId);
      opened = true;
      const decoder = new TextDecoder();
      for await (const chunk of response.body ?? []) {
        for (const message of parser.feed(decoder.decode(chunk as Uint8Array, { stream: true }))) {
          // Opened again, the server says why.
          if (message.event === 'signed-out') continue stream;
          lastId = message.id ?? lastId;
          waitMs = parser.retryMs() ?? firstWaitMs;
          yield message;
        }
      }
    } catch (error) {
      if (signal.aborted) return;
      // The first opening tells the user at once; later ones are the network's business, but for a refusal.
      if (!opened || (error instanceof Refusal && isFinal(error))) throw error;
    }
    if (signal.aborted) return;
    await pause(waitMs, signal);
    waitMs = Math.min(waitMs * 2, waitMsMax);
  }
}

function isFinal(error: Refusal): boolean {
  const status = error.problem.status;
  return status !== undefined && status >= 400 && status < 500 && status !== 408 && status !== 429;
}

/** Waits, or ends at once when aborted. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', done, { once: true });
  });
}
