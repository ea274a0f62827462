// What the edge answers itself, and how it passes on what others answer.

import { type ClientRequest, type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import { pipeline } from 'node:stream';
import { passedHeaders } from './onward.ts';

export interface Refusal {
  readonly status: number;
  readonly headers: { readonly [name: string]: string };
  readonly body: string;
}

/** `word` stands in `x-svc-egress`; the text is for the agent. */
export function refusal(status: number, word: string, text: string): Refusal {
  const body = `svc: ${text}\n`;
  const headers = {
    'x-svc-egress': word,
    'content-type': 'text/plain; charset=utf-8',
    'content-length': String(Buffer.byteLength(body)),
    'cache-control': 'no-store',
    connection: 'close',
  };
  return { status, headers, body };
}

/** For a request beyond those that a session may have under way. */
export function busy(): Refusal {
  const { headers, ...rest } = refusal(503, 'busy', 'this session has as many requests under way as it may have');
  return { ...rest, headers: { ...headers, 'retry-after': '1' } };
}

export function answer(response: ServerResponse, { status, headers, body }: Refusal): void {
  if (response.headersSent) return void response.destroy();
  response.writeHead(status, headers);
  response.end(body);
}

/** The same on a connection of which nobody speaks HTTP yet. */
export function rawAnswer({ status, headers, body }: Refusal): string {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${lines.join('')}\r\n${body}`;
}

/** The status of an answer; undefined for one that answers nothing, or is no status: hosts send what they like. */
export function finalStatus({ statusCode = 0 }: IncomingMessage): number | undefined {
  return statusCode >= 200 && statusCode <= 999 ? statusCode : undefined;
}

/** Passes a request's body on and the answer back, as they come. */
export function relay(
  request: IncomingMessage,
  response: ServerResponse,
  sent: ClientRequest,
  failed: (error: unknown) => Refusal,
): void {
  // A broken way on is told as such; a broken way back ends both.
  sent.once('error', (error) => answer(response, failed(error)));
  // Of a protocol that was changed unasked there is neither an answer nor an error.
  sent.once('close', () => {
    if (!response.headersSent && !response.destroyed) answer(response, failed(new Error('it broke off')));
  });
  sent.once('response', (came) => {
    const status = finalStatus(came);
    if (status === undefined) {
      came.on('error', () => undefined);
      return void sent.destroy();
    }
    response.writeHead(status, passedHeaders(came));
    pipeline(came, response, () => sent.destroy());
  });
  response.once('close', () => sent.destroy());
  request.pipe(sent);
}
