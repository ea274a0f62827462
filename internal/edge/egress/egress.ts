// The one way out of a fenced sandbox (docs/reference/sessions.md#network): a proxy on a socket of the session's own,
// which lets through what its list of hosts allows, tells the agent what it does not and keeps a count of it, and adds
// the headers of injected secrets on HTTPS to their hosts. For those hosts alone TLS is ended here, under a certificate
// authority of the session, and the way on is verified. It keeps no body, follows no redirect, and no value of a secret
// is in a log or an error.

import { rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { getCACertificates } from 'node:tls';
import { noteDenied } from '../../adapters/store/sessions/egress.ts';
import { limitConnections, sessionConnectionsMax, tooManyConnections } from '../../base/net/connection-limit.ts';
import { allows, plainHost } from '../../core/egress/egress.ts';
import { patternOf } from '../../domain/host-entry.ts';
import type { FlowContext } from '../../flows/context.ts';
import type { EgressRoute, EgressRouteRequest, EgressRoutes } from '../../flows/ports.ts';
import { SessionAuthority } from './authority.ts';
import { intercept } from './intercept.ts';
import { dial, failureWord, requestHeaders, send, type Target } from './onward.ts';
import { answer, busy, relay, rawAnswer, refusal, type Refusal } from './answer.ts';

/** Counts of one session; further hosts are refused and not counted. */
const hostsMax = 100;
const noteMs = 500;
const established = 'HTTP/1.1 200 Connection established\r\n\r\n';
/** With which a TLS connection begins (RFC 8446, 5.1). */
const tlsHandshake = 0x16;

/** What a client says first, left where it is; undefined where it leaves. */
async function firstByte(near: Socket): Promise<number | undefined> {
  const chunk = await new Promise<Buffer | undefined>((resolve) => {
    near.once('data', (data: Buffer) => {
      near.pause();
      near.unshift(data);
      resolve(data);
    });
    near.once('close', () => resolve(undefined));
  });
  return chunk?.[0];
}

/** Starts the edges of sessions; `ctx` is asked for at each request. */
export function createEgressRoutes(ctx: () => FlowContext): EgressRoutes {
  const open = new Set<Edge>();
  return {
    async open(request) {
      const edge = await Edge.start(ctx, request);
      open.add(edge);
      return {
        ...(edge.trust !== undefined && { trust: edge.trust }),
        ...(edge.authority !== undefined && { authority: edge.authority.save() }),
        close: async () => {
          open.delete(edge);
          await edge.close();
        },
      } satisfies EgressRoute;
    },
    async stop() {
      await Promise.all([...open].map((edge) => edge.close()));
    },
  };
}

/** `host:port` or `[address]:port`; undefined for anything else. */
function authorityOf(text: string, port?: number): Target | undefined {
  const [, six, name = '', given] = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]/@\s]+))(?::(\d{1,5}))?$/.exec(text) ?? [];
  const host = six ?? plainHost(name);
  const number = given === undefined ? port : Number(given);
  if (host === '' || number === undefined || number < 1 || number > 65_535) return undefined;
  return patternOf(six === undefined ? host : `[${six.toLowerCase()}]`) === undefined
    ? undefined
    : { host, port: number };
}

class Edge {
  readonly trust: EgressRoute['trust'];
  readonly #ctx: () => FlowContext;
  readonly #of: EgressRouteRequest;
  readonly authority: SessionAuthority | undefined;
  readonly #server: Server;
  readonly #inner: Server;
  readonly #sockets = new Set<Duplex>();
  readonly #denied = new Map<string, number>();
  readonly #told = new Set<string>();
  #underWay = 0;
  #timer: NodeJS.Timeout | undefined;
  #noting: Promise<void> = Promise.resolve();

  private constructor(ctx: () => FlowContext, of: EgressRouteRequest, authority: SessionAuthority | undefined) {
    this.#ctx = ctx;
    this.#of = of;
    this.authority = authority;
    if (authority !== undefined) {
      const all = [...new Set([...getCACertificates('default'), ...getCACertificates('system')])];
      this.trust = {
        ca: authority.certificate,
        all: [...all.map((one) => one.trim()), authority.certificate].join('\n'),
      };
    }
    this.#server = createServer((request, response) => this.#plain(request, response));
    limitConnections(this.#server, sessionConnectionsMax, tooManyConnections(sessionConnectionsMax));
    this.#server.on('connect', (request, socket, head) => {
      // What came with the question belongs into the tunnel: not every client waits for the answer.
      if (head.length > 0) socket.unshift(head);
      this.#connect(request, socket as Socket).catch((error: unknown) => {
        ctx().runtime.log.warn({ err: error, sessionId: of.sessionId }, 'egress.failed');
        socket.destroy();
      });
    });
    this.#inner = intercept({
      injections: of.injections,
      take: () => this.#take(),
      allowPrivate: () => ctx().config.allowPrivateNetwork,
      denied: (host) => this.#note(host),
    });
    // Uploads and streamed answers take as long as they take.
    for (const server of [this.#server, this.#inner]) {
      server.requestTimeout = 0;
      server.on('connection', (socket) => this.#keep(socket));
    }
  }

  static async start(ctx: () => FlowContext, of: EgressRouteRequest): Promise<Edge> {
    const { now } = ctx().runtime;
    const authority =
      of.injections.length === 0 ? undefined : await SessionAuthority.make(of.sessionId, now, of.authority);
    const edge = new Edge(ctx, of, authority);
    // What a daemon that died has left there.
    await rm(of.socketPath, { force: true });
    await new Promise<void>((resolve, reject) => {
      edge.#server.once('error', reject);
      edge.#server.listen(of.socketPath, resolve);
    });
    return edge;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    if (this.#server.listening) await new Promise((resolve) => this.#server.close(resolve));
    clearTimeout(this.#timer);
    await this.#write();
  }

  #keep(socket: Duplex): void {
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    socket.on('error', () => socket.destroy());
  }

  /** Room for one request more; undefined where as many are under way as a session may have: one connection carries many. */
  #take(): (() => void) | undefined {
    if (this.#underWay >= sessionConnectionsMax) return undefined;
    this.#underWay += 1;
    return () => {
      this.#underWay -= 1;
    };
  }

  /** Why a target is not reached; undefined where it may be. */
  #judge(target: Target | undefined): Refusal | undefined {
    if (target === undefined) return refusal(400, 'invalid', 'a request to the proxy names a host and a port');
    const written = target.host.includes(':') ? `[${target.host.toLowerCase()}]` : target.host;
    if (allows(this.#of.allow, written, target.port)) return undefined;
    return this.#denies(target);
  }

  #denies({ host, port }: Target): Refusal {
    this.#note(host);
    const what = `${host}:${port} is not among the hosts that this session may reach`;
    return refusal(403, 'denied', `${what}; an operator adds it to the network of the project or the installation`);
  }

  #failed(error: unknown, target: Target): Refusal {
    const word = failureWord(error);
    if (word === 'denied') {
      this.#note(target.host);
      return refusal(403, 'denied', `${target.host} has a private address, and those are not reached from a session`);
    }
    return refusal(
      502,
      word,
      word === 'tls' ? `the certificate of ${target.host} is not trusted` : `${target.host} cannot be reached`,
    );
  }

  #plain(request: IncomingMessage, response: ServerResponse): void {
    const url = URL.canParse(request.url ?? '') ? new URL(request.url ?? '') : undefined;
    const target = url?.protocol === 'http:' ? authorityOf(url.host, 80) : undefined;
    const refused = this.#judge(target);
    if (refused !== undefined || url === undefined || target === undefined) {
      return answer(response, refused ?? refusal(400, 'invalid', 'this is a proxy'));
    }
    const give = this.#take();
    if (give === undefined) return answer(response, busy());
    response.once('close', give);
    const { allowPrivateNetwork } = this.#ctx().config;
    try {
      const sent = send(target, allowPrivateNetwork, {
        method: request.method ?? 'GET',
        path: `${url.pathname}${url.search}`,
        headers: { ...requestHeaders(request), host: url.host },
        isTls: false,
      });
      relay(request, response, sent, (error) => this.#failed(error, target));
    } catch (error) {
      answer(response, this.#failed(error, target));
    }
  }

  async #connect(request: IncomingMessage, near: Socket): Promise<void> {
    this.#keep(near);
    const target = authorityOf(request.url ?? '');
    const refused = this.#judge(target);
    if (refused !== undefined || target === undefined) return void near.end(rawAnswer(refused as Refusal));
    const isInjected = this.#of.injections.some(({ hosts }) => hosts.includes(target.host));
    if (isInjected && this.authority !== undefined) {
      const context = this.authority.contextOf(target.host);
      near.write(established);
      const first = await firstByte(near);
      if (first === undefined) return void near.destroy();
      if (first === tlsHandshake) return intercept.take(this.#inner, near, target, context);
      return this.#tunnel(near, target, '');
    }
    await this.#tunnel(near, target, established);
  }

  /** Bytes as they are; `greeting` goes back once the way is open. */
  async #tunnel(near: Socket, target: Target, greeting: string): Promise<void> {
    let far: Socket;
    try {
      far = await dial(target, this.#ctx().config.allowPrivateNetwork);
    } catch (error) {
      return void near.end(rawAnswer(this.#failed(error, target)));
    }
    // Who has gone while the way was being opened closes it no more: the host could hold it open for ever.
    if (near.destroyed) return void far.destroy();
    this.#keep(far);
    if (greeting !== '') near.write(greeting);
    near.pipe(far).pipe(near);
    near.once('close', () => far.destroy());
    far.once('close', () => near.destroy());
  }

  #note(host: string): void {
    const name = plainHost(host);
    if (!this.#told.has(name)) {
      if (this.#told.size >= hostsMax) return;
      this.#told.add(name);
      this.#ctx().runtime.log.info({ sessionId: this.#of.sessionId, host: name }, 'egress.denied');
    }
    this.#denied.set(name, (this.#denied.get(name) ?? 0) + 1);
    this.#timer ??= setTimeout(() => void this.#write(), noteMs);
  }

  #write(): Promise<void> {
    this.#timer = undefined;
    const counts = [...this.#denied].map(([host, count]) => ({ host, count }));
    this.#denied.clear();
    if (counts.length === 0) return this.#noting;
    const { db, runtime } = this.#ctx();
    this.#noting = this.#noting.then(() =>
      noteDenied(db, this.#of.sessionId, counts, hostsMax).catch((error: unknown) => {
        runtime.log.warn({ err: error, sessionId: this.#of.sessionId }, 'egress.not_noted');
      }),
    );
    return this.#noting;
  }
}
