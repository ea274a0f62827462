// A model provider for tests of running sessions: answers each call with a few words at a price, and keeps what it was asked.

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface ModelStub {
  readonly url: string;
  readonly asked: {
    readonly headers: IncomingMessage['headers'];
    readonly body: { readonly [key: string]: unknown };
  }[];
  /** The next calls are answered so instead, one each. */
  readonly instead: ((response: ServerResponse) => void)[];
  stop(): Promise<void>;
}

/** A million tokens in and out: 30 USD of `claude-opus-4-8` at the price that ships. */
const usage = { input_tokens: 1_000_000, output_tokens: 1_000_000 };
const events = [
  {
    type: 'message_start',
    message: {
      id: 'm',
      type: 'message',
      role: 'assistant',
      model: 'claude-opus-4-8',
      content: [],
      usage: { ...usage, output_tokens: 1 },
    },
  },
  { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
  { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'paid' } },
  { type: 'content_block_stop', index: 0 },
  { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: usage.output_tokens } },
  { type: 'message_stop' },
];

export async function startModelStub(): Promise<ModelStub> {
  const asked: ModelStub['asked'] = [];
  const instead: ModelStub['instead'] = [];
  const server = createServer((request, response) => {
    let text = '';
    request.on('data', (chunk: Buffer) => (text += chunk.toString()));
    request.on('end', () => {
      asked.push({ headers: request.headers, body: JSON.parse(text) as { readonly [key: string]: unknown } });
      const other = instead.shift();
      if (other !== undefined) return other(response);
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      for (const event of events) response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
      response.end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    instead,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
