// Requests to authorization servers and to what they protect: to public addresses by https, without redirects, bounded in
// time and size. Whoever gives an address here may be anybody.

import { Agent, request } from 'undici';
import { guardedLookup, hostFault, PrivateAddressError } from '../../../base/net/net.ts';

export interface Reach {
  /** Loopback and private addresses, and plain http, may be asked. */
  readonly allowPrivate: boolean;
}

/**
 * Why nothing came of a step. `unsent`: nothing left this machine, or nothing that a server acts upon. `refused`: the server
 * said no, `detail` is its error code. `unknown`: it was sent, and what became of it is not known.
 */
export type FailureWord =
  | 'discovery-failed'
  | 'pkce-missing'
  | 'issuer-mismatch'
  | 'client-needed'
  | 'unsent'
  | 'refused'
  | 'unknown';

/** The message holds nothing of an answer but an error code of RFC 6749. */
export class OauthFailure extends Error {
  readonly word: FailureWord;
  readonly detail: string | undefined;

  constructor(word: FailureWord, message: string, detail?: string) {
    super(message);
    this.name = 'OauthFailure';
    this.word = word;
    this.detail = detail;
  }
}

/** Shorter than the lease of whoever waits for the answer. */
const timeoutMs = 10_000;
const answerBytesMax = 1_048_576;
const open = new Agent({ connect: { timeout: 5_000 } });
const guarded = new Agent({ connect: { timeout: 5_000, lookup: guardedLookup() } });

/** Why an address is not asked; undefined where it may be. */
export function addressFault(reach: Reach, address: string): string | undefined {
  const url = URL.parse(address);
  if (url === null || (url.protocol !== 'https:' && url.protocol !== 'http:')) return 'it is no https address';
  if (url.username !== '' || url.password !== '' || url.hash !== '') return 'it holds a credential or a fragment';
  if (reach.allowPrivate) return undefined;
  if (url.protocol !== 'https:') return 'it is no https address';
  return hostFault(url.hostname) ?? undefined;
}

export interface Sent {
  readonly method: string;
  readonly headers: { readonly [name: string]: string };
  readonly body?: string | undefined;
  /** The body of the answer is let go: it may be a stream without an end. */
  readonly headOnly?: boolean;
}

/** One request; the answer is whole. Throws OauthFailure `unsent` or `unknown`. */
export async function send(
  reach: Reach,
  address: string,
  { method, headers, body, headOnly }: Sent,
): Promise<Response> {
  const fault = addressFault(reach, address);
  if (fault !== undefined) throw new OauthFailure('unsent', `it cannot be called: ${fault}`);
  try {
    const answer = await request(address, {
      method: method as 'GET' | 'POST',
      headers: { 'user-agent': 'svc', ...headers },
      ...(body !== undefined && { body }),
      headersTimeout: timeoutMs,
      bodyTimeout: timeoutMs,
      signal: AbortSignal.timeout(1.5 * timeoutMs),
      dispatcher: reach.allowPrivate ? open : guarded,
    });
    if (headOnly === true) answer.body.once('error', () => undefined).destroy();
    return new Response(headOnly === true || isBodiless(answer.statusCode) ? null : await whole(answer.body), {
      status: answer.statusCode,
      headers: Object.entries(answer.headers).flatMap(([name, value]) =>
        [value ?? []].flat().map((one): [string, string] => [name, one]),
      ),
    });
  } catch (error) {
    if (error instanceof OauthFailure) throw error;
    throw wasUnsent(error)
      ? new OauthFailure('unsent', 'it cannot be reached')
      : new OauthFailure('unknown', 'it was asked, and no answer came');
  }
}

/** What a tool server answers to a greeting, with a token or without: its status and headers. Throws as `send`. */
export function initialize(reach: Reach, address: string, token?: string): Promise<Response> {
  const hello = {
    jsonrpc: '2.0',
    id: 0,
    method: 'initialize',
    params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'svc', version: '1' } },
  };
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    ...(token !== undefined && { authorization: `Bearer ${token}` }),
  };
  return send(reach, address, { method: 'POST', headers, body: JSON.stringify(hello), headOnly: true });
}

const isBodiless = (status: number): boolean => [204, 205, 304].includes(status);

async function whole(body: AsyncIterable<unknown>): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += (chunk as Buffer).length;
    if (size > answerBytesMax) throw new Error('the answer is too large');
    chunks.push(chunk as Buffer);
  }
  return Uint8Array.from(Buffer.concat(chunks));
}

const unsent =
  /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT|ERR_TLS_.+|.*CERT.*)$/;
function wasUnsent(error: unknown): boolean {
  for (let at: unknown = error, depth = 0; at instanceof Error && depth < 5; at = at.cause, depth += 1) {
    const { code } = at as { readonly code?: unknown };
    if (at instanceof PrivateAddressError || (typeof code === 'string' && unsent.test(code))) return true;
    if (at instanceof AggregateError && at.errors.length > 0 && at.errors.every(wasUnsent)) return true;
  }
  return false;
}
