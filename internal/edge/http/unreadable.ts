// Answers to what the framework never gets to see: what is no HTTP, or asks for what nobody does.

import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { messagesTable } from '../../domain/messages.ts';
import { endGently } from './linger.ts';
import { commonHeaders } from './outcome.ts';
import { HttpFault, renderProblem } from './problem.ts';
import { isUnreadableSlug } from './slug-path.ts';

/** An Expect header that is not 100-continue, which the framework never gets to see. */
export function refuseExpectation(_request: IncomingMessage, response: ServerResponse): void {
  const fault = new HttpFault(417, 'expectation-failed', 'No Expect but 100-continue can be met.');
  const { problem } = renderProblem(fault, randomUUID());
  response.writeHead(417, {
    'content-type': 'application/problem+json',
    'x-request-id': problem.requestId,
    ...commonHeaders,
    connection: 'close',
  });
  response.end(JSON.stringify(problem));
}

/** What is not even HTTP: too long headers, timeouts, garbage. */
export function refuseUnreadable(error: Error & { code?: string; rawPacket?: unknown }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy();
  const [status, code, detail] = isUnreadableSlug(error)
    ? ([404, 'not-found', messagesTable.noEndpoint] as const)
    : error.code === 'HPE_HEADER_OVERFLOW'
      ? ([431, 'headers-too-large', 'The headers are too large.'] as const)
      : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? ([408, 'request-timeout', 'The request took too long to arrive.'] as const)
        : ([400, 'invalid-request', 'The request is not valid HTTP.'] as const);
  const { problem } = renderProblem(new HttpFault(status, code, detail), randomUUID());
  const body = JSON.stringify(problem);
  const head = `HTTP/1.1 ${status} ${problem.title}\r\ncontent-type: application/problem+json\r\ncontent-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n`;
  endGently(socket, `${head}${body}`);
}
