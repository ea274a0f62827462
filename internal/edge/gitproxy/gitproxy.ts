// Git over HTTP for sessions (docs/reference/tools.md#the-code-host): one port a session, which knows the repositories of its
// mounts and no other, puts the credential on, and passes git's bytes through as they come. Decides which requests are git's
// and how a refusal is told so that git shows it; who may do what is in flows/broker. Never follows a redirect, never keeps a
// pack, never answers for a session that has ended.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { rm } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { pipeline } from 'node:stream/promises';
import { Agent, type Dispatcher, request as send } from 'undici';
import { limitConnections, sessionConnectionsMax, tooManyConnections } from '../../base/net/connection-limit.ts';
import { guardedLookup, hostFault } from '../../base/net/net.ts';
import { Fault } from '../../domain/fault.ts';
import { outsideFault } from '../../domain/outside.ts';
import { gitUpstream, type GitUpstream, noteRefusedPush } from '../../flows/broker/broker.ts';
import type { FlowContext } from '../../flows/context.ts';
import type { GitRoute, GitRoutes } from '../../flows/ports.ts';
import { type Exchange, judge, reached } from './exchange.ts';
import { inPieces } from './pieces.ts';
import { passPush } from './push.ts';

const address = /^\/git\/([A-Za-z0-9_.-]+)\/([A-Za-z0-9_.-]+?)\.git\/(info\/refs|git-upload-pack|git-receive-pack)$/;
const hosts = /^(127\.0\.0\.1|localhost)(:\d+)?$/;
const timeouts = { connectMs: 10_000, headersMs: 600_000, bodyMs: 600_000 } as const;
/** How long a stop waits for what the code host has been sent: of a push that it has not answered then, the outbox finds out. */
const lastAnswersMs = 3_000;

/** Starts the ways of sessions; `ctx` is asked for at each request. */
export function createGitRoutes(ctx: () => FlowContext, settings: { readonly pushMaxBytes: number }): GitRoutes {
  const connect = { timeout: timeouts.connectMs };
  const guarded = new Agent({ connect: { ...connect, lookup: guardedLookup() } });
  const open = new Agent({ connect });
  const servers = new Set<Server>();
  const forwarder = (request: IncomingMessage, response: ServerResponse): Exchange['forward'] => {
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    return async (way, path, body) => {
      const url = new URL(`${way.upstream}${path}`);
      const { allowPrivateNetwork } = ctx().config;
      const isOpen = allowPrivateNetwork || (url.protocol === 'https:' && hostFault(url.hostname) === null);
      if (!isOpen) throw outsideFault('provider-unavailable', 'the code host is not at a public https address');
      const headers = await headersOf(request, way);
      return send(url, {
        method: request.method === 'POST' ? 'POST' : 'GET',
        headers,
        ...(body !== undefined && { body: body as Buffer }),
        // What becomes of a push is to be known, whoever has left.
        ...(!path.startsWith('/git-receive-pack') && { signal: gone.signal }),
        headersTimeout: timeouts.headersMs,
        bodyTimeout: timeouts.bodyMs,
        dispatcher: allowPrivateNetwork ? open : guarded,
      });
    };
  };
  return {
    async open(of) {
      let underWay = 0;
      const server = createServer((request, response) => {
        // One connection carries many.
        if (underWay >= sessionConnectionsMax)
          return refuse(response, 503, 'this session has too many requests under way');
        underWay += 1;
        response.once('close', () => (underWay -= 1));
        const { pushMaxBytes } = settings;
        const own = ctx();
        const asked = { ...own, db: own.db.ownedBy(of.sessionId) };
        const exchange = { ctx: asked, of, request, response, pushMaxBytes, forward: forwarder(request, response) };
        handle(exchange).catch((error: unknown) => {
          ctx().runtime.log.error({ err: error, sessionId: of.sessionId }, 'git.failed');
          response.destroy();
        });
      });
      limitConnections(server, sessionConnectionsMax, tooManyConnections(sessionConnectionsMax));
      // A pack may take long to come.
      server.requestTimeout = 0;
      servers.add(server);
      return listen(server, of.socketPath, () => servers.delete(server));
    },
    async stop() {
      await Promise.all([...servers].map((server) => closeServer(server)));
      const agents = [guarded, open];
      const late = setTimeout(() => void Promise.all(agents.map((agent) => agent.destroy())), lastAnswersMs);
      await Promise.all(agents.map((agent) => agent.close()));
      clearTimeout(late);
    },
  };
}

async function listen(server: Server, socketPath: string | undefined, onClose: () => void): Promise<GitRoute> {
  // What a daemon that died has left there.
  if (socketPath !== undefined) await rm(socketPath, { force: true });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    if (socketPath === undefined) server.listen(0, '127.0.0.1', resolve);
    else server.listen(socketPath, resolve);
  });
  const own = socketPath === undefined ? (server.address() as AddressInfo).port : 0;
  return {
    baseUrl: (port) => `http://127.0.0.1:${port ?? own}/git`,
    async close() {
      onClose();
      await closeServer(server);
    },
  };
}

async function closeServer(server: Server): Promise<void> {
  if (!server.listening) return;
  const closed = new Promise((resolve) => server.close(resolve));
  server.closeAllConnections();
  await closed;
}

async function headersOf(request: IncomingMessage, way: GitUpstream): Promise<{ [name: string]: string }> {
  const passed = ['accept', 'content-type', 'content-encoding', 'git-protocol', 'accept-encoding'];
  const headers: { [name: string]: string } = { 'user-agent': 'git/svc' };
  for (const name of passed) {
    const value = request.headers[name];
    if (typeof value === 'string') headers[name] = value;
  }
  const held = await way.authorization();
  if (held !== undefined) headers['authorization'] = held.header;
  return headers;
}

/** A line that git shows its user. */
function refuse(response: ServerResponse, status: number, line: string): void {
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store' });
  response.end(`svc: ${line}\n`);
}

async function handle(exchange: Exchange): Promise<void> {
  const { request, response } = exchange;
  const url = URL.parse(request.url ?? '/', 'http://127.0.0.1');
  // The path as it came: an encoded one is another spelling, and there is none.
  const path = (request.url ?? '').split('?')[0] ?? '';
  const [, owner = '', repo = '', what = ''] = address.exec(path) ?? [];
  const service = what === 'info/refs' ? (url?.searchParams.get('service') ?? '') : what;
  const isKnown = service === 'git-upload-pack' || service === 'git-receive-pack';
  const method = what === 'info/refs' ? 'GET' : 'POST';
  if (!hosts.test(request.headers.host ?? '') || what === '' || !isKnown || request.method !== method) {
    return refuse(response, 404, 'there is no such repository among the mounts of this session');
  }
  const isPush = service === 'git-receive-pack';
  try {
    const way = await gitUpstream(exchange.ctx, exchange.of, { owner, repo, service: isPush ? 'push' : 'fetch' });
    if (way === undefined) return refuse(response, 404, 'there is no such repository among the mounts of this session');
    if (what === 'info/refs') return await passRefs(exchange, way, service);
    if (isPush) return await passPush(exchange, way);
    await passFetch(exchange, way);
  } catch (error) {
    if (!(error instanceof Fault) || response.headersSent) throw error;
    const line = `${error.code}: ${error.message}`;
    // Where the database is away there is nowhere to note it.
    if (error.code === 'unavailable') return refuse(response, 503, line);
    if (isPush) await noteRefusedPush(exchange.ctx, exchange.of, error.code);
    refuse(response, error.code === 'capability-missing' ? 403 : 502, line);
  }
}

/** The first request of every conversation: here a token that is not taken any more is replaced. */
async function passRefs(exchange: Exchange, way: GitUpstream, service: string): Promise<void> {
  const path = `/info/refs?service=${service}`;
  let answer = await reached(exchange.forward(way, path));
  if (answer.statusCode === 401) {
    await answer.body.dump();
    await way.authorization(await way.authorization());
    answer = await reached(exchange.forward(way, path));
  }
  await passAnswer(exchange, way, answer);
}

async function passFetch(exchange: Exchange, way: GitUpstream): Promise<void> {
  const { request } = exchange;
  // One of a known length comes in pieces of its own, and goes on with that length.
  const body = request.headers['content-length'] === undefined ? inPieces(request) : request;
  await passAnswer(exchange, way, await reached(exchange.forward(way, '/git-upload-pack', body)));
}

async function passAnswer({ response }: Exchange, way: GitUpstream, answer: Dispatcher.ResponseData): Promise<void> {
  const fault = judge(answer, way);
  if (fault !== undefined) {
    await answer.body.dump();
    throw fault;
  }
  const headers: { [name: string]: string } = { 'cache-control': 'no-store' };
  for (const name of ['content-type', 'content-encoding']) {
    const value = answer.headers[name];
    if (typeof value === 'string') headers[name] = value;
  }
  response.writeHead(200, headers);
  response.once('close', () => answer.body.destroy());
  await pipeline(inPieces(answer.body), response).catch((error: NodeJS.ErrnoException) => {
    // Whoever asked has left, or the code host broke off: git says so itself.
    if (!response.destroyed) response.destroy(error);
  });
}
