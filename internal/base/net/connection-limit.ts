// How many connections one party holds to a server of its own. Those beyond are told so and closed; to answer each of very
// many would cost what the limit is to save, so only some are answered at a time, and the others are closed at once.

import type { Server, Socket } from 'node:net';

/** How long whoever was refused has to read why. */
const lingerMs = 1_000;

/** Most connections that one session holds to one of its ways out (docs/reference/limits.md). */
export const sessionConnectionsMax = 256;

/**
 * Keeps a server from holding over `most` connections. `refusal` is what one beyond them is told, in the protocol of the
 * server. To be called before anything else listens for connections that are to count, and after the server's own listeners.
 */
export function limitConnections(server: Server, most: number, refusal: string): void {
  const listeners = server.listeners('connection');
  server.removeAllListeners('connection');
  const [held, refused] = [new Set<Socket>(), new Set<Socket>()];
  server.on('connection', (socket: Socket) => {
    const into = held.size < most ? held : refused.size < most ? refused : undefined;
    if (into === undefined) return void socket.destroy();
    into.add(socket);
    socket.once('close', () => into.delete(socket));
    if (into === held) {
      for (const listener of listeners) listener.call(server, socket);
      return;
    }
    socket.on('error', () => socket.destroy());
    // Read to its end, or the closing would take the answer with it.
    socket.resume();
    socket.end(refusal);
    const late = setTimeout(() => socket.destroy(), lingerMs);
    socket.once('close', () => clearTimeout(late));
  });
  // A server waits for its connections when it closes.
  const close = server.close.bind(server);
  server.close = (done) => {
    for (const socket of refused) socket.destroy();
    return close(done);
  };
}

/** What a client of HTTP is told that holds too many. */
export function tooManyConnections(most: number): string {
  const body = `svc: this session holds ${most} connections already; close some, then try again\n`;
  const lines = [
    'HTTP/1.1 503 Service Unavailable',
    'content-type: text/plain; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    'retry-after: 1',
    'cache-control: no-store',
    'x-svc-egress: busy',
    'connection: close',
  ];
  return `${lines.join('\r\n')}\r\n\r\n${body}`;
}
