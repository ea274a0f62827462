// The ways out of a sandbox that the daemon opens: to the model, through its gateway, and to the tools. On loopback, or,
// where the sandbox is fenced, through sockets of its own.

import { rm } from 'node:fs/promises';
import { connect as connectSocket, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Sandbox } from '../../adapters/sandbox/sandbox.ts';
import type { ClaimedSession } from '../../adapters/store/sessions/hosts.ts';
import { limitConnections, sessionConnectionsMax, tooManyConnections } from '../../base/net/connection-limit.ts';
import { Fault } from '../../domain/fault.ts';
import type { AgentSpec, ModelSpec } from '../../domain/spec.ts';
import type { FlowContext, ProjectRef } from '../context.ts';
import type { Address } from '../host-ports.ts';
import type { ModelCallEnd, ModelRoute } from '../ports.ts';
import type { Mask } from './mask.ts';

/** Ports inside a fenced sandbox, where it is alone. */
export const channelPorts = { model: 4401, tools: 4402, git: 4403, egress: 4404 } as const;
/** Calls that have ended are in the ledger within this, or a moment later. */
const settledMs = 5_000;

/** A spend cap is reached: the session waits until there is room again. */
export class Capped extends Error {}

export interface Cap {
  /** Names the cap. */
  readonly message: string;
  /** True where a call was turned away by it: the turn cannot go on. */
  readonly refused: boolean;
}

export interface ModelBudget {
  /** A secret. */
  readonly baseUrl: string;
  /** The same by an address that is none, and a key. */
  readonly keyed: { readonly baseUrl: string; readonly key: string };
  /** How the last call to the model went. */
  lastCall(): ModelCallEnd | undefined;
  /** The cap that is reached, as far as this launch has heard. */
  capped(): Cap | undefined;
  /** Resolves when every call that has ended is in the ledger; waits for a bounded time. */
  settled(): Promise<void>;
}

export interface MoneyRequest {
  readonly session: ClaimedSession;
  readonly spec: AgentSpec;
  readonly model: ModelSpec;
  readonly sandbox: Sandbox;
  readonly mask: Mask;
  readonly stops: (() => Promise<void> | void)[];
  /** Hears when a cap is reached. */
  readonly onCapped: () => void;
  /** Of the way that the sandbox knows. */
  readonly token: string | undefined;
}

/** Opens the way to the model. Throws Capped where a cap is reached, Fault where a price is unknown under one. */
export async function openModelRoute(ctx: FlowContext, of: MoneyRequest): Promise<ModelBudget> {
  const { models } = ctx;
  if (models === undefined) throw new Error('this daemon was wired without its model gateway');
  const { session, spec, model, sandbox, mask, stops } = of;
  const { sessionId, projectId, agentId, agent } = session;
  const request = {
    spender: { sessionId, projectId, agentId, agentName: agent },
    model,
    ...(spec.spendCaps !== undefined && { caps: spec.spendCaps }),
  };
  const refused = await models.check(request);
  if (refused?.refusal !== undefined) throw new Capped(refused.message);
  if (refused !== null) throw new Fault('unprocessable', 'price-unknown', refused.message);
  let cap: Cap | undefined;
  const route: ModelRoute = await models.open({
    ...request,
    token: of.token,
    ...(sandbox.fenced && { socketPath: sandbox.socketOf('model') }),
    onEvent: (event) => {
      if (event.kind !== 'capped') return;
      cap = { message: event.refusal.message, refused: event.refused || cap?.refused === true };
      of.onCapped();
    },
  });
  stops.push(() => route.close());
  const port = sandbox.fenced ? channelPorts.model : undefined;
  const baseUrl = route.baseUrl(port);
  const keyed = route.keyed(port);
  mask.hide([baseUrl, keyed.key]);
  mask.scrubWith((text) => route.scrub(text));
  return {
    baseUrl,
    keyed,
    lastCall: () => route.last(),
    capped: () => cap,
    settled: () => Promise.race([route.settled(), sleep(settledMs, undefined, { ref: false })]),
  };
}

/** Where the sandbox reaches its tools. */
export async function openTools(
  address: Address,
  sandbox: Sandbox,
  stops: (() => Promise<void> | void)[],
): Promise<string> {
  if (!sandbox.fenced) return `http://${address.host}:${address.port}`;
  const server = await pipeSocket(sandbox.socketOf('tools'), address);
  stops.push(() => new Promise<void>((resolve) => server.close(resolve)));
  return `http://127.0.0.1:${channelPorts.tools}`;
}

/** Where the sandbox's git reaches its mounts; undefined where the session has none. */
export async function openGit(
  ctx: FlowContext,
  of: {
    readonly session: ClaimedSession;
    readonly spec: AgentSpec;
    readonly project: ProjectRef;
    readonly sandbox: Sandbox;
    readonly stops: (() => Promise<void> | void)[];
  },
): Promise<string | undefined> {
  const { session, spec, project, sandbox, stops } = of;
  if (ctx.git === undefined || spec.mounts.length === 0) return undefined;
  const { sessionId, agent } = session;
  const socket = sandbox.fenced ? { socketPath: sandbox.socketOf('git') } : {};
  const route = await ctx.git.open({ sessionId, agent, project, spec, ...socket });
  stops.push(() => route.close());
  return route.baseUrl(sandbox.fenced ? channelPorts.git : undefined);
}

/** Everything that connects to the socket speaks to the address. */
async function pipeSocket(path: string, address: Address): Promise<{ close(done: () => void): void }> {
  // What a daemon that died has left there.
  await rm(path, { force: true });
  const open = new Set<Socket>();
  const server = createServer((near) => {
    const far = connectSocket(address.port, address.host);
    open.add(near);
    near.pipe(far).pipe(near);
    near.on('error', () => far.destroy());
    far.on('error', () => near.destroy());
    near.on('close', () => {
      open.delete(near);
      far.destroy();
    });
    far.on('close', () => near.destroy());
  });
  limitConnections(server, sessionConnectionsMax, tooManyConnections(sessionConnectionsMax));
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(path, () =>
      resolve({
        close: (done) => {
          for (const socket of open) socket.destroy();
          server.close(() => done());
        },
      }),
    );
  });
}
