// Server-sent events: the parser of the event-stream format, and a reader that reconnects where it left off.

import { Refusal } from './failure.ts';

export interface SseMessage {
  readonly id: string | undefined;
  readonly event: string;
  readonly data: string;
}

const firstWaitMs = 250;
const waitMsMax = 15_000;
const lineCharsMax = 16 * 1024 * 1024;

/** Feeds text in pieces, gives complete messages. Keeps the last id and the server's `retry`. */
export function createSseParser(): {
  feed(text: string): SseMessage[];
  lastId(): string | undefined;
  retryMs(): number | undefined;
} {
  let rest = '';
  let data: string[] = [];
  let event = '';
  let id: string | undefined;
  let retry: number | undefined;
  const line = (text: string, out: SseMessage[]): void => {
    if (text === '') {
      if (data.length > 0) out.push({ id, event: event === '' ? 'message' : event, data: data.join('\n') });
      data = [];
      event = '';
      return;
    }
    const colon = text.indexOf(':');
    if (colon === 0) return;
    const field = colon === -1 ? text : text.slice(0, colon);
    const value = colon === -1 ? '' : text.slice(colon + 1).replace(/^ /, '');
    if (field === 'data') data.push(value);
    else if (field === 'event') event = value;
    else if (field === 'id' && !value.includes('\0')) id = value;
    else if (field === 'retry' && /^\d+$/.test(value)) retry = Number(value);
  };
  return {
    feed: (text) => {
      const out: SseMessage[] = [];
      rest += text;
      // A lone \r at the end may be half of \r\n: wait for the rest.
      for (let match = /\r\n|\n|\r(?!$)/.exec(rest); match !== null; match = /\r\n|\n|\r(?!$)/.exec(rest)) {
        const whole = rest.slice(0, match.index);
        rest = rest.slice(match.index + match[0].length);
        line(whole, out);
      }
      if (rest.length > lineCharsMax) throw new Error('an event line is longer than 16 MiB');
      return out;
    },
    lastId: () => id,
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
