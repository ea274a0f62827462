// A gateway before a stub provider, with money that is kept in memory. Only tests import this.

import { randomBytes, randomUUID } from 'node:crypto';
import { Writable } from 'node:stream';
import { createUpstream, type ModelUpstreamOptions } from '../../adapters/providers/model/model.ts';
import { createLog } from '../../base/log/log.ts';
import { createMetrics } from '../../base/metrics/metrics.ts';
import type { ModelEvent, ModelRoute, ModelRouteRequest } from '../../flows/ports.ts';
import type { Authorization, CallIntent, CallOutcome } from '../../flows/sessions/sessions.ts';
import { ModelGateway, type GatewayOptions } from './gateway.ts';
import { startStubProvider, type StubProvider } from './testkit.ts';

export const providerKey = 'sk-provider-key-that-nobody-may-see';

export interface Bench {
  readonly stub: StubProvider;
  readonly gateway: ModelGateway;
  /** Settled calls, in order. */
  readonly settled: { readonly call: CallIntent; readonly outcome: CallOutcome | null }[];
  readonly events: ModelEvent[];
  /** Everything that was logged. */
  log(): string;
  /** What the next calls get; by default all are allowed. */
  verdict: (call: CallIntent, signal: AbortSignal) => Promise<Authorization> | Authorization;
  /** Before what a call has cost is in the ledger. */
  entering: () => Promise<void>;
  open(changes?: Partial<ModelRouteRequest>): Promise<ModelRoute>;
  stop(): Promise<void>;
}

export async function startBench(
  options: { readonly limits?: GatewayOptions['limits']; readonly upstream?: Partial<ModelUpstreamOptions> } = {},
): Promise<Bench> {
  const stub = await startStubProvider();
  const settled: Bench['settled'] = [];
  const events: ModelEvent[] = [];
  let log = '';
  const sink = new Writable({
    write(chunk: Buffer, _encoding, done) {
      log += chunk.toString('utf8');
      done();
    },
  });
  const gateway = new ModelGateway({
    upstream: createUpstream({
      addresses: { 'provider-a': stub.url, 'provider-b': `${stub.url}/b/`, 'provider-c': `${stub.url}/api` },
      key: () => Promise.resolve(providerKey),
      allowPrivate: true,
      ...options.upstream,
    }),
    money: {
      authorize: async (call, signal) => bench.verdict(call, signal),
      settle: async (call, outcome) => {
        await bench.entering();
        settled.push({ call, outcome });
        return null;
      },
      takeOver: () => Promise.resolve(),
    },
    check: () => Promise.resolve(null),
    runtime: { now: () => new Date(0), uuid: randomUUID, randomBytes, log: createLog('trace', sink) },
    metrics: createMetrics(),
    ...(options.limits && { limits: options.limits }),
  });
  await gateway.start();
  const bench: Bench = {
    stub,
    gateway,
    settled,
    events,
    log: () => log,
    verdict: () => ({ allowed: true }),
    entering: () => Promise.resolve(),
    open: (changes = {}) =>
      gateway.open({
        spender: { projectId: randomUUID(), agentId: randomUUID(), agentName: 'a', sessionId: randomUUID() },
        model: { provider: 'provider-a', id: 'm-1' },
        onEvent: (event) => events.push(event),
        ...changes,
      }),
    async stop() {
      await gateway.stop();
      await stub.stop();
    },
  };
  return bench;
}

export interface Got {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** One call of a harness, with credentials of its own. */
export async function ask(route: ModelRoute, path: string, body?: unknown, init: RequestInit = {}): Promise<Got> {
  const response = await fetch(`${route.baseUrl()}${path}`, {
    method: body === undefined ? 'GET' : 'POST',
    headers: {
      'content-type': 'application/json',
      authorization: 'Bearer of-the-harness',
      'x-api-key': 'of-the-harness',
    },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    ...init,
  });
  return { status: response.status, headers: response.headers, text: await response.text() };
}
