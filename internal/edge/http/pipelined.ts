// Requests that a client sends without waiting for answers (RFC 9112, section 9.3.2). One packet holds well over a thousand of
// them, and all would be taken up in one turn of the event loop.

import type { RequestListener } from 'node:http';
import type { Socket } from 'node:net';
import { closeGently } from './linger.ts';

/** Requests of one connection that wait for their answers. No client in use sends more than a few ahead. */
const unansweredMax = 64;

interface Waiting {
  unanswered: number;
  isOver: boolean;
}

/**
 * Hands on what a connection may have waiting. What is beyond is not taken up: nothing more is read, those before it are
 * answered, and the connection ends; the client sends the rest again, as after any close.
 */
export function boundPipelining(listener: RequestListener): RequestListener {
  const connections = new WeakMap<Socket, Waiting>();
  return (request, response) => {
    const { socket } = request;
    let waiting = connections.get(socket);
    if (waiting === undefined) connections.set(socket, (waiting = { unanswered: 0, isOver: false }));
    const of = waiting;
    if (of.isOver || of.unanswered >= unansweredMax) {
      if (!of.isOver) closeGently(socket);
      of.isOver = true;
      socket.pause();
      return;
    }
    of.unanswered += 1;
    response.once('close', () => {
      of.unanswered -= 1;
      if (of.isOver && of.unanswered === 0) socket.destroySoon();
    });
    listener(request, response);
  };
}
