// The model gateway (docs/reference/sessions.md#model-gateway): an HTTP server on a loopback address, and on a socket for a
// sandbox without a network, where a session's harness finds its model under a token of its own. It takes the harness's
// credentials off and puts the provider's on, binds each call to the declared model, asks before and tells after about money,
// and passes the answer on byte by byte as it comes. It decides nothing about prices and caps (flows do) and knows no
// provider's words (the adapter does). It keeps no body, follows no redirect, and no token or key reaches its log or an
// error.

import { rm } from 'node:fs/promises';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { ModelUpstream } from '../../adapters/providers/model/model.ts';
import { createUpstream } from '../../adapters/providers/model/model.ts';
import type { ModelSettings } from '../../base/config/model-settings.ts';
import { limitConnections, sessionConnectionsMax, tooManyConnections } from '../../base/net/connection-limit.ts';
import type { FlowContext } from '../../flows/context.ts';
import type { ModelRoute, ModelRouteRequest, ModelRoutes } from '../../flows/ports.ts';
import { checkMoney, modelKey, type MoneyPorts, moneyPorts } from '../../flows/sessions/sessions.ts';
import { answerCall } from './answer.ts';
import { BodyRoom } from './body-room.ts';
import { type Deps, limits, type Limits, SessionRoute } from './route.ts';

export interface GatewayOptions {
  readonly upstream: ModelUpstream;
  readonly money: MoneyPorts;
  readonly check: ModelRoutes['check'];
  readonly runtime: FlowContext['runtime'];
  readonly metrics: FlowContext['metrics'];
  readonly limits?: Partial<Limits>;
}

/** The gateway of a daemon: real providers, the ledger, the keys of its configuration. Resolves when it listens. */
export async function startModelGateway(ctx: FlowContext, settings: ModelSettings): Promise<ModelGateway> {
  const gateway = new ModelGateway({
    upstream: createUpstream({
      addresses: settings.addresses,
      key: (provider, projectId) =>
        modelKey({ ...ctx, db: ctx.db.ownedBy(projectId).oneCall() }, settings.keys, provider, projectId),
      allowPrivate: ctx.config.allowPrivateNetwork,
    }),
    money: moneyPorts(ctx, settings.prices),
    check: ({ spender, model, caps }) => checkMoney(ctx, settings.prices, { spender, model, caps }),
    runtime: ctx.runtime,
    metrics: ctx.metrics,
  });
  await gateway.start();
  return gateway;
}

export class ModelGateway implements ModelRoutes {
  readonly check: ModelRoutes['check'];
  readonly #deps: Deps;
  readonly #money: MoneyPorts;
  /** By the hexadecimal SHA-256 of the token: the token itself is not kept. */
  readonly #routes = new Map<string, SessionRoute>();
  readonly #server: Server;
  #port = 0;
  #stopping: Promise<void> | undefined;

  constructor(options: GatewayOptions) {
    const { upstream, money, check, runtime, metrics } = options;
    this.check = check;
    this.#money = money;
    const own = { ...limits, ...options.limits };
    this.#deps = { upstream, money, runtime, limits: own, bodies: new BodyRoom(own.heldMaxBytes), metrics };
    this.#server = serve((request, response) => void answerCall(this.#deps, this.#routes, request, response));
  }

  /** Listens on a free loopback port. */
  async start(): Promise<void> {
    await listening(this.#server, { host: '127.0.0.1', port: 0 });
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  async open({ token: known, ...request }: ModelRouteRequest): Promise<ModelRoute> {
    if (this.#stopping !== undefined) throw new Error('the model gateway has stopped');
    await this.#money.takeOver(request.spender.sessionId);
    const token = known ?? this.#deps.runtime.randomBytes(32).toString('base64url');
    const route = new SessionRoute(token, request);
    const socket = await this.#openSocket(route, request.socketPath);
    this.#routes.set(route.id, route);
    let closing: Promise<void> | undefined;
    const close = async (): Promise<void> => {
      this.#routes.delete(route.id);
      await route.end();
      if (socket !== undefined) await closed(socket);
    };
    route.close = () => (closing ??= close());
    const { provider } = request.model;
    return {
      baseUrl: (port) => `http://127.0.0.1:${port ?? this.#port}/s/${token}/${provider}`,
      keyed: (port) => ({ baseUrl: `http://127.0.0.1:${port ?? this.#port}/s/-/${provider}`, key: token }),
      scrub: (text) => text.replaceAll(token, '[removed]'),
      last: () => route.last,
      settled: () => route.settled(),
      close: () => route.close(),
    };
  }

  /** Breaks off what is in flight and waits until it is in the ledger. */
  stop(): Promise<void> {
    const stop = async (): Promise<void> => {
      await Promise.all([...this.#routes.values()].map((route) => route.close()));
      await closed(this.#server);
      await this.#deps.upstream.close();
    };
    return (this.#stopping ??= stop());
  }

  async #openSocket(route: SessionRoute, path: string | undefined): Promise<Server | undefined> {
    if (path === undefined) return undefined;
    const only = new Map([[route.id, route]]);
    const server = serve((request, response) => void answerCall(this.#deps, only, request, response));
    limitConnections(server, sessionConnectionsMax, tooManyConnections(sessionConnectionsMax));
    // What a daemon that died has left there.
    await rm(path, { force: true });
    await listening(server, { path });
    return server;
  }
}

function serve(listener: RequestListener): Server {
  const server = createServer({ keepAliveTimeout: 65_000, headersTimeout: 30_000, requestTimeout: 120_000 }, listener);
  // Upgrades are not spoken here.
  server.on('upgrade', (_request, socket) => socket.destroy());
  server.on('clientError', (_error, socket) => socket.destroy());
  return server;
}

const listening = (server: Server, at: { host: string; port: number } | { path: string }): Promise<void> =>
  new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(at, () => {
      server.off('error', reject);
      resolve();
    });
  });

async function closed(server: Server): Promise<void> {
  if (!server.listening) return;
  const ended = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeAllConnections();
  await ended;
}
