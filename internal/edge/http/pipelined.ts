// Requests that a client sends without waiting for answers (RFC 9112, section 9.3.2). One packet holds well over a thousand of
// them, and all would be taken up in one turn of the event loop.

import type { RequestListener, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { closeGently } from './linger.ts';

/** Requests of one connection that wait for their answers. No client in use sends more than a few ahead. */
const unansweredMax = 64;

interface Waiting {
  unanswered: number;
  /** Nothing more is taken up. */
  isOver: boolean;
  /** Something came all the same. */
  isBeyond: boolean;
  /** The answer to what was taken up last. */
  last: ServerResponse | undefined;
  /** Bytes that had been read when the last answer was out. */
  readBytes: number;
}

const connections = new WeakMap<Socket, Waiting>();

function waitingOf(socket: Socket): Waiting {
  let of = connections.get(socket);
  if (of === undefined) {
    of = { unanswered: 0, isOver: false, isBeyond: false, last: undefined, readBytes: 0 };
    connections.set(socket, of);
  }
  return of;
}

/**
 * Hands on what a connection may have waiting. What is beyond is not taken up: nothing more is read, those before it are
 * answered, and the connection ends; the client sends the rest again, as after any close.
 */
export function boundPipelining(listener: RequestListener): RequestListener {
  return (request, response) => {
    const { socket } = request;
    const of = waitingOf(socket);
    if (of.isOver || of.unanswered >= unansweredMax) {
      if (!of.isBeyond) closeGently(socket);
      of.isOver = true;
      of.isBeyond = true;
      socket.pause();
      return;
    }
    of.unanswered += 1;
    of.last = response;
    response.once('close', () => {
      of.unanswered -= 1;
      of.readBytes = socket.bytesRead;
      if (of.isOver && of.unanswered === 0) socket.destroySoon();
    });
    listener(request, response);
  };
}

/**
 * Whether an answer that is about to go out may say that it is the last of its connection: none is owed behind it, and what
 * comes from now on is not taken up. Asked only for one that does say so.
 */
export function endsWith(response: ServerResponse): boolean {
  const of = waitingOf(response.req.socket);
  if (of.last !== response) return false;
  of.isOver = true;
  return true;
}

/** Whether nothing of a request has come since the last answer was out. */
export function isIdle(socket: Socket): boolean {
  const { unanswered, readBytes } = waitingOf(socket);
  return unanswered === 0 && socket.bytesRead === readBytes;
}
