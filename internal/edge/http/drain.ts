// The end of a server that stops. Each request that it has begun to take is answered, and so is one whose rest still comes, for as
// long as a stop may take; who has said nothing since the last answer is not waited for.

import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { setImmediate as arrived } from 'node:timers/promises';
import type { FastifyInstance, FastifyReply } from 'fastify';
import { Roster } from '../../base/roster.ts';
import { endsWith, isIdle } from './pipelined.ts';

/** How often connections are looked at whose last answer was begun before the stop, and did not say that it is the last. */
const lookMs = 50;
/** How long a new connection may say nothing: its request is on its way. */
const silentMs = 1_000;

/** Says of an answer that is about to go out whether it is the last of its connection. */
export function tellLast(reply: FastifyReply): void {
  reply.removeHeader('connection');
  reply.raw.removeHeader('connection');
  if (endsWith(reply.raw)) reply.header('connection', 'close');
}

/**
 * Has a server close those connections as idle that are. Its own way cuts an answer off that is not out yet, and leaves open who
 * has never said anything.
 */
export function watchIdle(server: Server): void {
  const open = new Roster<{ readonly socket: Socket; readonly since: number }>();
  server.on('connection', (socket: Socket) => {
    socket.once('close', open.add({ socket, since: performance.now() }));
  });
  server.closeIdleConnections = () => {
    const silentSince = performance.now() - silentMs;
    for (const { socket, since } of open)
      if (isIdle(socket) && (socket.bytesRead > 0 || since < silentSince)) socket.destroy();
  };
}

/** How long it may take until nobody comes. */
const comingMs = 2_000;
/** A look at what has arrived, in milliseconds, in which hardly anybody was answered, and so hardly anybody comes again. */
const quietMs = 1;

/**
 * Resolves in the moment behind a look at what has arrived in which nobody came: who waits to be let in when a server closes
 * is cut off by the system, and under load somebody always does but for such moments.
 */
async function nobodyComes(server: Server): Promise<void> {
  let came = 0;
  const count = (): void => void (came += 1);
  server.on('connection', count);
  const latest = performance.now() + comingMs;
  for (let isQuiet = false; !isQuiet && performance.now() < latest; ) {
    const [before, begun] = [came, performance.now()];
    // What has arrived is taken up first: who waits to be let in, and then what they have sent.
    for (let rounds = 0; rounds < 2; rounds += 1) await arrived();
    isQuiet = came === before && performance.now() - begun < quietMs;
  }
  server.off('connection', count);
}

/** Lets nobody in any more; resolves when all connections are closed, after `withinMs` by force. */
export async function closeServer(app: FastifyInstance, withinMs: number): Promise<void> {
  const { server } = app;
  const force = setTimeout(() => server.closeAllConnections(), withinMs);
  const looking = setInterval(() => setImmediate(() => server.closeIdleConnections()), lookMs);
  await nobodyComes(server);
  // Before the framework does, which asks its plugins first.
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  await app.close();
  await closed;
  clearTimeout(force);
  clearInterval(looking);
}
