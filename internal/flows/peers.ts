// One daemon asks another of the installation over its API, in the name of whoever asked it. Before the credential is
// sent, the other one has to show that it is the daemon that the database names: an address may be another's by now.

import { type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';
import type { Peer } from '../adapters/store/operations/peers.ts';
import { timeLimit } from '../base/waits.ts';
import { Fault } from '../domain/fault.ts';
import type { FlowContext } from './context.ts';

export type { Peer } from '../adapters/store/operations/peers.ts';

/** In which a daemon says which one it is. */
export const daemonHeader = 'x-svc-daemon';
/** A request with it was handed on once, and is not handed on again. */
export const forwardedHeader = 'x-svc-handed-on';
const introduceMs = 3_000;
const answerMs = 20_000;

/** Of a request, what another daemon needs to do it. */
export interface ForwardedRequest {
  /** `Authorization` as it was received. */
  readonly authorization: string;
  readonly signal: AbortSignal;
}

/** What a request says of handing it on; undefined where it was handed on already, or has no token. */
export function forwardedRequest(
  headers: { readonly [name: string]: string | undefined },
  signal: AbortSignal,
): ForwardedRequest | undefined {
  const { authorization } = headers;
  return authorization === undefined || headers[forwardedHeader] !== undefined ? undefined : { authorization, signal };
}

const unreachable = (peer: Peer, why: string): Fault =>
  new Fault(
    'unavailable',
    'daemon-unreachable',
    `The daemon on ${peer.host} (${peer.address}) is not reached: ${why}.`,
  );

function open(
  url: URL,
  options: { method?: string; headers?: { [name: string]: string }; signal: AbortSignal; body?: string },
): Promise<IncomingMessage> {
  const { method = 'GET', headers = {}, signal, body } = options;
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, headers, signal, agent: false });
    sent.once('response', resolve).once('error', reject);
    sent.end(body);
  });
}

async function introduce(peer: Peer): Promise<void> {
  const signal = AbortSignal.timeout(introduceMs);
  const answer = await open(new URL('/healthz', peer.address), { signal }).catch((error: NodeJS.ErrnoException) => {
    throw unreachable(peer, error.code ?? error.message);
  });
  answer.resume();
  if (answer.headers[daemonHeader] !== peer.id) throw unreachable(peer, 'another program answers there');
}

/** The answer as it comes. Throws Fault: what the other one refuses, in its words, and `unavailable` where it is not reached. */
export async function askPeer(
  peer: Peer,
  what: { readonly method: 'GET' | 'POST'; readonly path: string; readonly body?: unknown },
  { authorization, signal }: ForwardedRequest,
): Promise<IncomingMessage> {
  await introduce(peer);
  const body = what.body === undefined ? undefined : JSON.stringify(what.body);
  const answer = await open(new URL(what.path, peer.address), {
    method: what.method,
    headers: {
      authorization,
      [forwardedHeader]: '1',
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    signal,
    ...(body !== undefined && { body }),
  }).catch((error: NodeJS.ErrnoException) => {
    throw unreachable(peer, error.code ?? error.message);
  });
  const { statusCode = 500 } = answer;
  if (statusCode < 300) return answer;
  const problem = JSON.parse((await text(answer)) || '{}') as { code?: string; detail?: string };
  const kind = statusCode === 404 ? 'not_found' : statusCode === 409 ? 'conflict' : 'unavailable';
  throw new Fault(
    kind,
    problem.code ?? 'daemon-refused',
    problem.detail ?? `The daemon on ${peer.host} answered ${statusCode}.`,
  );
}

/** Asks every one; those that are not reached are left out, and named. */
export async function askAll<T>(
  ctx: FlowContext,
  peers: readonly Peer[],
  what: Parameters<typeof askPeer>[1],
  on: ForwardedRequest,
): Promise<{ readonly answers: T[]; readonly unreachable: string[] }> {
  const limited = { ...on, signal: timeLimit(answerMs, on.signal) };
  const asked = peers.map(async (peer) => JSON.parse(await text(await askPeer(peer, what, limited))) as T);
  const settled = await Promise.allSettled(asked);
  const unreachable = settled.flatMap((one, index): string[] =>
    one.status === 'rejected' ? [peers[index]?.host ?? ''] : [],
  );
  if (unreachable.length > 0) ctx.runtime.log.warn({ hosts: unreachable }, 'daemon.peers_not_reached');
  return { answers: settled.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : [])), unreachable };
}
