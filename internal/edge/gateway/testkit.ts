// A model provider for tests: a real HTTP server that answers as it is told and keeps what it was asked; and the streams
// of each wire. Only tests and benches import this.

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Asked {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: { readonly [key: string]: unknown };
  /** Resolves when the connection of this request ends before its answer does. */
  readonly brokenOff: Promise<void>;
}
export type ModelAnswer = (response: ServerResponse, asked: Asked) => void | Promise<void>;

export interface StubProvider {
  readonly url: string;
  readonly asked: Asked[];
  /** The next answers, in order; the last one stays. */
  answers(...answers: ModelAnswer[]): void;
  stop(): Promise<void>;
}

export async function startStubProvider(): Promise<StubProvider> {
  const asked: Asked[] = [];
  let queue: ModelAnswer[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const text = Buffer.concat(chunks).toString('utf8');
      const brokenOff = new Promise<void>((resolve) =>
        response.on('close', () => (response.writableFinished ? undefined : resolve())),
      );
      const one: Asked = {
        method: request.method ?? '',
        path: request.url ?? '',
        headers: request.headers,
        body: text === '' ? {} : (JSON.parse(text) as Asked['body']),
        brokenOff,
      };
      asked.push(one);
      const answer = queue.length > 1 ? queue.shift() : queue[0];
      void answer?.(response, one);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    answers: (...answers) => {
      queue = answers;
    },
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

const event = (data: object | string, name?: string): string =>
  `${name === undefined ? '' : `event: ${name}\n`}data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`;

const typed = (data: { readonly type: string; readonly [key: string]: unknown }): string => event(data, data.type);

/** A stream of the messages wire: its events, one to a chunk. */
export const messagesStream = (
  texts: readonly string[],
  usage: { readonly start?: object; readonly end?: object } = {},
  model = 'm-1',
): string[] => [
  typed({
    type: 'message_start',
    message: {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      model,
      content: [],
      usage: usage.start ?? { input_tokens: 100, output_tokens: 1, cache_read_input_tokens: 0 },
    },
  }),
  typed({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }),
  ...texts.map((text) => typed({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } })),
  typed({ type: 'content_block_stop', index: 0 }),
  typed({
    type: 'message_delta',
    delta: { stop_reason: 'end_turn' },
    usage: usage.end ?? { output_tokens: 50 },
  }),
  typed({ type: 'message_stop' }),
];

/** A stream of the responses wire. */
export const responsesStream = (texts: readonly string[], usage: object | null, model = 'm-1'): string[] => [
  typed({ type: 'response.created', response: { id: 'resp_1', model, status: 'in_progress', usage: null } }),
  ...texts.map((delta) => typed({ type: 'response.output_text.delta', item_id: 'i', delta })),
  typed({ type: 'response.completed', response: { id: 'resp_1', model, status: 'completed', output: [], usage } }),
];

/** A stream of the chat wire. */
export const chatStream = (texts: readonly string[], usage: object | null, model = 'v/m'): string[] => [
  ': PROCESSING\n\n',
  ...texts.map((content) => event({ id: 'gen-1', model, choices: [{ index: 0, delta: { content } }] })),
  ...(usage === null ? [] : [event({ id: 'gen-1', model, choices: [], usage })]),
  event('[DONE]'),
];

/** Resolves when there is room again, or nobody reads any more. */
export const drained = (response: ServerResponse): Promise<void> =>
  new Promise((resolve) => {
    const end = (): void => {
      response.off('drain', end).off('close', end);
      resolve();
    };
    response.on('drain', end).on('close', end);
  });

/** Answers with a stream; each chunk after a turn of the event loop, or after `gapMs`. */
export const streams =
  (chunks: readonly (string | Buffer)[], gapMs = 0): ModelAnswer =>
  async (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'request-id': 'req_1' });
    for (const chunk of chunks) {
      if (response.destroyed) return;
      if (!response.write(chunk)) await drained(response);
      await new Promise((resolve) => (gapMs === 0 ? setImmediate(resolve) : setTimeout(resolve, gapMs)));
    }
    response.end();
  };

/** Answers with a JSON document. */
export const json =
  (status: number, body: object, headers: { readonly [name: string]: string } = {}): ModelAnswer =>
  (response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
  };
