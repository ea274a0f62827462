// HTTPS to the hosts of injections, ended here: what is inside is an ordinary request, to which the header is added. One
// that carries the header already, or is for another host than the connection, is refused.

import { createServer, type IncomingMessage, type OutgoingHttpHeaders, type Server } from 'node:http';
import type { Socket } from 'node:net';
import { TLSSocket, type SecureContext } from 'node:tls';
import type { EdgeInjection } from '../../flows/ports.ts';
import { answer, busy, finalStatus, rawAnswer, refusal, type Refusal, relay } from './answer.ts';
import { failureWord, passedHeaders, requestHeaders, send, type Target } from './onward.ts';

interface Intercepting {
  readonly injections: readonly EdgeInjection[];
  readonly allowPrivate: () => boolean;
  /** Room for one request more, to be given back; undefined where there is none. */
  readonly take: () => (() => void) | undefined;
  readonly denied: (host: string) => void;
}

const targets = new WeakMap<object, Target>();

/** The server of what is inside; connections come through `intercept.take`. */
export function intercept(of: Intercepting): Server {
  const server = createServer((request, response) => {
    const give = of.take();
    if (give === undefined) return answer(response, busy());
    response.once('close', give);
    const made = onward(of, request, {});
    if ('status' in made) return answer(response, made);
    relay(request, response, made.sent, (error) => failed(of, error, made.target));
  });
  server.on('upgrade', (request: IncomingMessage, near: Socket, head: Buffer) => {
    const { upgrade = '' } = request.headers;
    const made = onward(of, request, { connection: 'upgrade', upgrade });
    if ('status' in made) return void near.end(rawAnswer(made));
    const { sent, target } = made;
    // A client that has ended waits no more, as with any other request.
    const gone = (): void => {
      sent.destroy();
      near.destroy();
    };
    near.once('end', gone).once('close', gone);
    sent.once('error', (error) => near.end(rawAnswer(failed(of, error, target))));
    sent.once('response', (came) => {
      // What else the host says is for nobody, and may never end.
      came.on('error', () => undefined);
      sent.destroy();
      near.end(rawAnswer(refusal(finalStatus(came) ?? 502, 'upgrade', 'the host did not change the protocol')));
    });
    sent.once('upgrade', (came, far: Socket, first: Buffer) => {
      near.off('end', gone);
      const lines = Object.entries({
        ...passedHeaders(came),
        connection: 'upgrade',
        upgrade: came.headers.upgrade ?? '',
      });
      near.write(
        `HTTP/1.1 101 Switching Protocols\r\n${lines.map(([name, value]) => `${name}: ${String(value)}\r\n`).join('')}\r\n`,
      );
      if (first.length > 0) near.write(first);
      if (head.length > 0) far.write(head);
      for (const socket of [near, far]) socket.on('error', () => socket.destroy());
      near.pipe(far).pipe(near);
      near.once('close', () => far.destroy());
      far.once('close', () => near.destroy());
    });
    sent.end();
  });
  return server;
}

/** Ends the TLS of a connection that the proxy has accepted for a host. */
intercept.take = (server: Server, near: Socket, target: Target, secureContext: SecureContext): void => {
  const inside = new TLSSocket(near, { isServer: true, secureContext, ALPNProtocols: ['http/1.1'] });
  // A client that does not trust the authority says so by leaving.
  inside.on('error', () => near.destroy());
  targets.set(inside, target);
  server.emit('connection', inside);
};

function failed({ denied }: Intercepting, error: unknown, { host }: Target): Refusal {
  const word = failureWord(error);
  if (word !== 'denied') {
    const text = word === 'tls' ? `the certificate of ${host} is not trusted` : `${host} cannot be reached`;
    return refusal(502, word, text);
  }
  denied(host);
  return refusal(403, 'denied', `${host} has a private address, and those are not reached from a session`);
}

/** The request that goes on, with the headers of the injections, or why none does. */
function onward(of: Intercepting, request: IncomingMessage, more: OutgoingHttpHeaders) {
  const target = targets.get(request.socket);
  if (target === undefined) return refusal(400, 'invalid', 'this connection has no host');
  const written = target.host.includes(':') ? `[${target.host}]` : target.host;
  const [, named = ''] = /^(\[[^\]]*\]|[^:]*)(?::\d+)?$/.exec(request.headers.host ?? '') ?? [];
  if (named.toLowerCase() !== written || !(request.url ?? '').startsWith('/')) {
    return refusal(403, 'host', `a request on a connection to ${target.host} is for that host alone`);
  }
  const here = of.injections.filter(({ hosts }) => hosts.includes(target.host));
  const taken = here.find(({ header }) => Object.hasOwn(request.headers, header.toLowerCase()));
  if (taken !== undefined) {
    const text = `the header ${taken.header} is added here for ${target.host}: send the request without it`;
    return refusal(403, 'header', text);
  }
  const added = here.map(({ header, value }) => [header.toLowerCase(), value.toString('latin1')] as const);
  const headers = { ...requestHeaders(request), ...Object.fromEntries(added), ...more };
  try {
    const { method = 'GET', url: path = '/' } = request;
    return { target, sent: send(target, of.allowPrivate(), { method, path, headers, isTls: true }) };
  } catch (error) {
    return failed(of, error, target);
  }
}
