// The end of connections that are held open from outside: by a reader that takes nothing of its answer, whose memory and
// descriptor it would keep for good, and by a sender that is still sending (RFC 9112, section 9.6). To close it at once makes the sender's
// next packet meet a reset, and whoever meets that while writing never reads the answer.

import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

const lingerMs = 2_000;

/**
 * Lets the connection be closed behind its answer without a reset: its own side ends, nothing more is read, and it goes
 * when the sender has had time to read.
 */
export function closeGently(socket: Socket): void {
  socket.destroySoon = () => {
    // Gone already, or closed by a stop: then there is nobody to wait for.
    if (socket.destroyed) return;
    socket.end();
    // Behind the server's own turn, which goes on reading to be rid of the rest.
    setImmediate(() => socket.pause());
    const timer = setTimeout(() => socket.destroy(), lingerMs);
    socket.once('close', () => clearTimeout(timer));
  };
}

/** Sends the last that is said on a connection, which goes when the other side has had time to read, whether or not it closes. */
export function endGently(socket: Socket, text: string): void {
  socket.end(text);
  const timer = setTimeout(() => socket.destroy(), lingerMs);
  socket.once('close', () => clearTimeout(timer));
}

/** Closes the connection once nothing of the answer has gone out for `ms`, though some of it waits to. */
export function endUnread(response: ServerResponse, ms: number): void {
  response.setTimeout(ms, () => {
    if ((response.socket?.writableLength ?? 0) > 0) response.socket?.destroy();
  });
}
