// The HTTP server, made from the table of routes (docs/reference/http-api.md#conventions): authentication, permission, limits, reading,
// answering. Deny by default: a route that names no permission fails the start. Every failure is problem+json, and what
// a caller may not see answers exactly like what does not exist. Holds no business rule; those are in flows.

import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { OneATurn } from '../../base/one-a-turn.ts';
import type { FlowContext } from '../../flows/context.ts';
import { orgRoles, type Permission, projectRoles, selfPermissions } from '../../domain/permission.ts';
import { afterFailure, askedFor, authorize, type Begun, FailureLimit, makeCall, mayStill } from './call.ts';
import { type DirectOptions, fastPath, hasRepeatedHeader, heavyFrom } from './fast-path.ts';
import { commonHeaders, corsHeaders, noteBug, noteOutcome, requestIdOf } from './outcome.ts';
import { addReaders, refuseRest, typeOf } from './large-body.ts';
import { closeServer, tellLast, watchIdle } from './drain.ts';
import { closeGently, endUnread } from './linger.ts';
import { withSizeLimit } from './size-limit.ts';
import { addMount, type Mount } from './mount.ts';
import { boundPipelining } from './pipelined.ts';
import { asFault, HttpFault, renderProblem } from './problem.ts';
import { checkLargeBody, requireNoEncoding } from './read.ts';
import type { Answer, Call, Route, Scope } from './route.ts';
import { type Readiness, watchReadiness } from './readiness.ts';
import { serverRoutes } from './routes/health.ts';
import { asSlugFault, noSuchResource } from './slug-path.ts';
import { OpenStreams } from './open-streams.ts';
import { refuseExpectation, refuseUnreadable } from './unreadable.ts';
import { jsonLines, sendEvents } from './sse.ts';

const mebibyte = 1_048_576;
const limits = {
  bodyBytes: mebibyte,
  /** What is read of a body that does not say how long it is before there has to be room for the rest. */
  unannouncedBytes: 65_536,
  headersMs: 10_000,
  idleMs: 10_000,
  requestMs: 30_000,
  /** How often the times of headers and requests are looked at: a slow sender is let go that much later. */
  checkMs: 2_000,
  drainMs: 10_000,
  /** How long connections stay open when the daemon stops: what is on its way is still answered. */
  lastCallMs: 300,
  /** How long an answer may wait for a reader that takes nothing of it. */
  unreadMs: 60_000,
  /** Open streams of one caller: beside three thousand the calls of others take several times as long. */
  streams: 1_000,
};

export interface HttpServer {
  /** Where it listens, `http://127.0.0.1:4400`. */
  readonly url: string;
  /** Is not ready from now on, so that whoever shares requests out sends none here; goes on as before. */
  leave(): void;
  /** Stops listening, ends streams, lets running requests finish for up to 10 s. Safe twice. */
  stop(): Promise<void>;
}

export interface HttpOptions {
  readonly routes: readonly Route[];
  readonly readiness: readonly Readiness[];
  readonly listen: { readonly host: string; readonly port: number };
  /** What speaks a protocol of its own, behind its own authentication. */
  readonly mounts?: readonly Mount[];
  /** What browsers look at; asked for a GET that no route takes. */
  readonly pages?: Pages;
  /** Milliseconds: of an answer that nobody reads, until its connection is closed (absent: a minute); of a stop, for last calls. */
  readonly unreadMs?: number;
  readonly lastCallMs?: number;
  /** Of one caller at a time (absent: 1,000). */
  readonly streamsMax?: number;
}

export interface Pages {
  takes(path: string): boolean;
  handle(request: IncomingMessage, response: ServerResponse, requestId: string): Promise<void>;
}

/** The whole table, the server's own routes included. Throws where two routes collide or one has no permission. */
export function routeTable(routes: readonly Route[], watch = watchReadiness([])): readonly Route[] {
  const table: Route[] = [...routes];
  table.push(...serverRoutes(watch, () => table));
  const seen = new Set<string>();
  for (const route of table) {
    const key = `${route.method} ${route.path}`;
    const shape = key.replaceAll(/:\w+/g, ':');
    if (seen.has(shape)) throw new Error(`two routes for ${key}`);
    seen.add(shape);
    if ((route.permission === null) !== (route.scope === 'public')) throw new Error(`${key} names no permission`);
    if (route.permission !== null && !grantable(route.scope).has(route.permission))
      throw new Error(`${key} names ${route.permission}, which nobody can hold there`);
    const needs = { public: [], self: [], org: [':org'], project: [':org', ':project'] }[route.scope];
    if (!needs.every((name) => route.path.split('/').includes(name)))
      throw new Error(`${key} has no ${needs.join(' and ')}`);
  }
  return table;
}

/** Permissions that somebody may hold at a scope. */
function grantable(scope: Scope): ReadonlySet<Permission> {
  if (scope === 'self') return new Set<Permission>(selfPermissions);
  return new Set(scope === 'org' ? orgRoles.admin : projectRoles.admin);
}

/** Starts listening. `ctx` is asked for at each request: its base address is known only once this resolves. */
export async function startHttp(ctx: () => FlowContext, options: HttpOptions): Promise<HttpServer> {
  const leaving = new AbortController();
  const draining = new AbortController();
  const watch = watchReadiness(options.readiness, leaving.signal);
  const table = routeTable(options.routes, watch);
  const app = createApp(ctx, table, draining.signal, options);
  const heavy = new OneATurn();
  takeDirectly(app.server, table, {
    heavy,
    ctx,
    bodyBytes: limits.bodyBytes,
    draining: draining.signal,
  });
  const callers = {
    failures: new FailureLimit(),
    streams: new OpenStreams(options.streamsMax ?? limits.streams),
    heavy,
  };
  for (const route of table) addRoute(app, ctx, route, callers, draining.signal);
  for (const mount of options.mounts ?? []) addMount(app, mount);
  const address = await app.listen({ host: options.listen.host, port: options.listen.port });
  watch.start(() => ctx().runtime.log);
  let stopping: Promise<void> | undefined;
  const stop = async (): Promise<void> => {
    leaving.abort();
    draining.abort();
    // Whoever is about to send on a connection that it holds open meets an answer, and hears that it is the last.
    if (await hasConnections(app.server)) await sleep(options.lastCallMs ?? limits.lastCallMs);
    await closeServer(app, limits.drainMs);
  };
  return { url: address, leave: () => leaving.abort(), stop: () => (stopping ??= stop()) };
}

const hasConnections = (server: Server): Promise<boolean> =>
  new Promise((resolve) => server.getConnections((error, count) => resolve(error === null && count > 0)));

function createApp(
  ctx: () => FlowContext,
  table: readonly Route[],
  draining: AbortSignal,
  { pages, unreadMs = limits.unreadMs }: HttpOptions,
): FastifyInstance {
  const app = Fastify({
    logger: false,
    // What comes on a connection that is still open when it stops is answered like what came before.
    return503OnClosing: false,
    // Refused below, with a problem; the server's own refusal has no body.
    http: { requireHostHeader: false, connectionsCheckingInterval: limits.checkMs },
    bodyLimit: limits.bodyBytes,
    requestTimeout: limits.requestMs,
    keepAliveTimeout: limits.idleMs,
    forceCloseConnections: 'idle',
    genReqId: (request) => requestIdOf(request.headers),
    routerOptions: { maxParamLength: 300 },
    clientErrorHandler: refuseUnreadable,
    frameworkErrors: (error, request, reply) => {
      fail(ctx(), error, request, reply as FastifyReply);
    },
  });
  app.server.headersTimeout = limits.headersMs;
  watchIdle(app.server);
  app.server.on('checkExpectation', refuseExpectation);
  addReaders(app);
  app.setErrorHandler((error, request, reply) => fail(ctx(), error, request, reply));
  app.setNotFoundHandler(async (request, reply) => {
    const path = request.url.split('?', 1)[0] ?? '';
    if ((request.method === 'GET' || request.method === 'HEAD') && pages?.takes(path) === true) {
      reply.hijack();
      return pages.handle(request.raw, reply.raw, request.id);
    }
    const there = table.filter((route) => matches(route.path, path, route.tail));
    if (there.length === 0) throw noSuchResource();
    // Whatever answers GET answers HEAD.
    const methods = there.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method]));
    const allow = [...new Set(methods)].sort().join(', ');
    const headers = { allow, ...(there.some((route) => route.cors) && corsHeaders) };
    throw new HttpFault(405, 'method-not-allowed', `This resource takes ${allow}.`, headers);
  });
  app.addHook('onRequest', async (request, reply) => {
    if (request.headers.host === undefined && request.raw.httpVersion === '1.1')
      throw new HttpFault(400, 'invalid-request', 'A request of HTTP/1.1 names its Host.');
    if (hasRepeatedHeader(request.raw))
      throw new HttpFault(400, 'invalid-request', 'Host and Authorization are said once.');
    endUnread(reply.raw, unreadMs);
    reply.header('x-request-id', request.id);
    reply.headers(commonHeaders);
    if (draining.aborted) reply.header('connection', 'close');
  });
  app.addHook('onSend', (_request, reply, _payload, done) => {
    if (draining.aborted) tellLast(reply);
    done();
  });
  return app;
}

/** Puts the short way in front of the framework. */
function takeDirectly(server: Server, table: readonly Route[], options: DirectOptions): void {
  const [framework, ...others] = server.listeners('request') as RequestListener[];
  if (framework === undefined || others.length > 0) throw new Error('the framework listens in another way than known');
  server.removeListener('request', framework);
  server.on('request', boundPipelining(fastPath(table, options, framework)));
}

function matches(pattern: string, path: string, tail = false): boolean {
  const want = pattern.split('/');
  const have = path.split('/');
  return (
    (want.length === have.length || (tail && want.length < have.length)) &&
    want.every((part, at) => part === have[at] || (part.startsWith(':') && have[at] !== ''))
  );
}

function addRoute(
  app: FastifyInstance,
  ctx: () => FlowContext,
  route: Route,
  callers: { readonly failures: FailureLimit; readonly streams: OpenStreams; readonly heavy: OneATurn },
  draining: AbortSignal,
): void {
  const requests = new WeakMap<FastifyRequest, Begun>();
  const begunOf = (request: FastifyRequest): Begun => requests.get(request) ?? { ctx: ctx() };
  const isApi = route.path.startsWith('/api/');
  const cors = route.cors ? corsHeaders : {};
  if (route.cors) {
    const preflight = {
      ...cors,
      'access-control-allow-methods': route.method,
      // The star does not cover Authorization.
      'access-control-allow-headers': 'authorization, content-type, x-svc-signature-256, *',
      'access-control-max-age': '600',
    };
    app.options(route.path, async (_request, reply) => reply.code(204).headers(preflight).send());
  }
  app.route({
    method: route.method,
    url: route.tail === true ? route.path.replace(/:\w+$/, '*') : route.path,
    bodyLimit: route.bodyLimitBytes ?? limits.bodyBytes,
    config: { takesTexts: route.takesTexts === true },
    onRequest: async (request, reply) => {
      const own = ctx();
      reply.headers(cors);
      requireNoEncoding(request.headers['content-encoding']);
      if (route.admit !== undefined) await admit(route, own, request, reply);
      const access = await authorize(own, route, request, callers.failures);
      if (route.stream === true && access !== undefined) callers.streams.count(access.principal.id, reply.raw);
      // Health and metrics answer under any load: whoever asks has to see it.
      const asked = isApi ? askedFor(own, access) : own;
      // One reading of a body whatever it is called: the route decides what it takes, not the framework's parsers.
      requests.set(request, { ctx: asked, access, contentType: request.headers['content-type'] });
      if (request.headers['content-type'] !== undefined) request.raw.headers['content-type'] = typeOf(request);
    },
    ...(route.admitMore !== undefined && {
      preParsing: async (request: FastifyRequest, reply: FastifyReply, body: Readable) => {
        if (sizeOf(request) !== undefined) return body;
        return withSizeLimit(body, limits.unannouncedBytes, () =>
          admitMore(route, begunOf(request).ctx, request, reply),
        );
      },
    }),
    ...(route.refused !== undefined && {
      onError: async (request: FastifyRequest, _reply: FastifyReply, error: Error) =>
        route.refused?.(ctx(), Object.values(request.params as Call['params'])[0] ?? '', asFault(error)),
    }),
    onResponse: async (request, reply) =>
      noteOutcome(ctx(), {
        requestId: request.id,
        method: route.method,
        path: route.path,
        status: reply.statusCode,
        ms: reply.elapsedTime,
      }),
    handler: async (request, reply) => {
      await heavyTurn(callers.heavy, begunOf(request).access, request);
      if (route.rawBody !== true) request.body = await checkLargeBody(request.body, route.takesTexts === true);
      const call = makeCall(begunOf(request), route, request, () => goneOf(reply, draining));
      const answer = await route.handle(call).catch(async (error: unknown) => {
        throw await afterFailure(ctx(), route, request, error);
      });
      return send(call, answer, reply, route.scope === 'public' ? undefined : () => mayStill(ctx(), route, request));
    },
  });
}

/** Where a body takes milliseconds to read, waits for a turn of its own; those of one project, or caller, one after the other. */
async function heavyTurn(heavy: OneATurn, access: Begun['access'], { body, params }: FastifyRequest): Promise<void> {
  if (!Buffer.isBuffer(body) || body.length < heavyFrom) return;
  await heavy.turn(access?.project?.id ?? access?.principal.id ?? Object.values(params as Call['params'])[0] ?? '');
}

/** Aborted when whoever asked goes away, or the server stops. */
function goneOf({ raw }: FastifyReply, draining: AbortSignal): AbortSignal {
  const controller = new AbortController();
  if (raw.closed) controller.abort();
  else raw.once('close', () => controller.abort());
  return AbortSignal.any([controller.signal, draining]);
}

/** What a body announces, in bytes. */
function sizeOf(request: FastifyRequest): number | undefined {
  const size = Number(request.headers['content-length'] ?? Number.NaN);
  return Number.isNaN(size) ? undefined : size;
}

/** Makes room before any of the body is read. What is over the route's limit is refused for that, by whoever reads it. */
async function admit(route: Route, ctx: FlowContext, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  const size = sizeOf(request);
  const [param = ''] = Object.values(request.params as Call['params']);
  const give = route.admit?.(ctx, size, (why) => refuseRest(request, why), param);
  if (give !== undefined) reply.raw.once('close', give);
  const { bodyLimitBytes = limits.bodyBytes } = route;
  if (size !== undefined && size > limits.bodyBytes && size <= bodyLimitBytes) {
    await admitMore(route, ctx, request, reply);
  }
}

async function admitMore(route: Route, ctx: FlowContext, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  if (route.admitMore === undefined) return;
  const params = request.params as Call['params'];
  const give = await route.admitMore(ctx, params, sizeOf(request), (why) => refuseRest(request, why));
  // Whoever went away while it waited hears nothing more.
  if (reply.raw.closed || reply.raw.destroyed) give();
  else reply.raw.once('close', give);
}

async function send(
  call: Call,
  answer: Answer,
  reply: FastifyReply,
  isAllowed: (() => Promise<boolean>) | undefined,
): Promise<FastifyReply> {
  if (answer.stream !== undefined && reply.request.method !== 'HEAD') {
    const headers = Object.fromEntries(
      Object.entries(reply.getHeaders()).map(([name, value]) => [name, String(value)]),
    );
    reply.hijack();
    try {
      await sendEvents(reply.raw, { ...headers, ...answer.headers }, answer.stream, { signal: call.signal, isAllowed });
    } catch (error) {
      // The status has long been sent; the reader sees the end and comes back with its last id.
      call.log.error({ err: error }, 'http.stream_failed');
    }
    return reply;
  }
  reply.code(answer.status).headers(answer.headers ?? {});
  if (answer.stream !== undefined) return reply.type('text/event-stream; charset=utf-8').send();
  if (answer.lines) return reply.type('application/x-ndjson').send(jsonLines(answer.lines, reply.raw, isAllowed));
  if (answer.body === undefined) return reply.send();
  if (answer.contentType !== undefined) return reply.type(answer.contentType).send(answer.body);
  const json = answer.pieces && Readable.from(answer.pieces, { objectMode: false });
  return reply.type('application/json; charset=utf-8').send(json ?? JSON.stringify(answer.body));
}

function fail(ctx: FlowContext, thrown: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const error = asSlugFault(thrown, request.url);
  const { problem, headers, isBug } = renderProblem(error, request.id);
  reply.headers({ 'x-request-id': request.id, ...commonHeaders });
  const isGone = request.raw.destroyed && !request.raw.complete;
  // Whoever hangs up in the middle of a body is no failure of ours.
  if (isBug && !isGone)
    noteBug(ctx, error, { requestId: request.id, method: request.method, route: request.routeOptions.url });
  if (reply.raw.headersSent) {
    // A stream broke after its start: the only way to say so is to end it short.
    reply.raw.destroy();
    return;
  }
  // The rest of a refused body is not read.
  if (problem.status === 413) {
    reply.header('connection', 'close');
    closeGently(request.raw.socket);
  }
  reply
    .code(problem.status)
    .headers(headers)
    .type('application/problem+json')
    .send(Buffer.from(JSON.stringify(problem)));
}
