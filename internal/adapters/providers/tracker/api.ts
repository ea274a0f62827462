// One query to the tracker's GraphQL, and what its answer means in our words. Nothing is sent twice here, and no redirect
// is followed. No message holds a token, a value that was sent, or a host.

import { Agent, type Dispatcher, request as send } from 'undici';
import { boundedText, guardedLookup, hostFault } from '../../../base/net/net.ts';
import { Fault } from '../../../domain/fault.ts';
import { listAt, objectAt, textAt } from '../../../domain/fields.ts';
import type { Json, JsonObject } from '../../../domain/json.ts';
import { OutcomeUnknown, outsideFault } from '../../../domain/outside.ts';

export interface TrackerRequest {
  /** Beside which `/graphql` is. */
  readonly apiUrl: string;
  /** A key of the API. */
  readonly key: string;
  readonly query: string;
  readonly variables: JsonObject;
  /** It changes something: what becomes of a lost answer is not known. */
  readonly isWrite: boolean;
  /** Loopback and private addresses, and plain http, may be asked. */
  readonly allowPrivate: boolean;
}

/** The provider did nothing, because it limits its callers. */
export class TrackerLimited extends Error {
  readonly seconds: number | undefined;
  constructor(seconds: number | undefined) {
    super('the tracker limits these calls');
    this.seconds = seconds;
  }
}

const timeouts = { headersMs: 15_000, bodyMs: 15_000 } as const;
const bytesMax = 8 * 1024 * 1024;
const notSent = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|UND_ERR_CONNECT_TIMEOUT|EHOSTUNREACH|ENETUNREACH)$/;
const open = new Agent();
const guarded = new Agent({ connect: { lookup: guardedLookup() } });

/** Asks once; answers with the data. Throws Fault, TrackerLimited, and OutcomeUnknown for a write. */
export async function callTracker(request: TrackerRequest): Promise<JsonObject> {
  const { key, query, variables, isWrite, allowPrivate } = request;
  const url = new URL(`${request.apiUrl.replace(/\/+$/, '')}/graphql`);
  if (!allowPrivate && (url.protocol !== 'https:' || hostFault(url.hostname) !== null)) {
    throw outsideFault('provider-unavailable', 'the address of the tracker is not a public https address');
  }
  let answer: Dispatcher.ResponseData;
  let text: string;
  try {
    answer = await send(url, {
      method: 'POST',
      headers: { authorization: key, 'content-type': 'application/json', 'user-agent': 'svc' },
      body: JSON.stringify({ query, variables }),
      headersTimeout: timeouts.headersMs,
      bodyTimeout: timeouts.bodyMs,
      dispatcher: allowPrivate ? open : guarded,
    });
    // Of a write with an answer beyond the bound nobody knows what became of it: the connection is given up.
    text = await boundedText(answer.body, bytesMax);
  } catch (error) {
    if (error instanceof Fault) throw error;
    const code = String((error as NodeJS.ErrnoException).code ?? '');
    if (isWrite && !notSent.test(code)) throw new OutcomeUnknown(code === '' ? 'the connection broke' : code);
    throw outsideFault('provider-unavailable', 'the tracker could not be reached; nothing was done');
  }
  return judge(request, answer, text);
}

function judge(
  { isWrite }: TrackerRequest,
  { statusCode, headers }: Dispatcher.ResponseData,
  text: string,
): JsonObject {
  let json: JsonObject = {};
  try {
    json = objectAt(JSON.parse(text) as Json);
  } catch {
    // What is no JSON says neither yes nor no.
  }
  const [error] = listAt(json['errors']).map(objectAt);
  const extensions = objectAt(error?.['extensions']);
  const type = (textAt(extensions['type']) ?? textAt(extensions['code']) ?? '').toLowerCase().replaceAll('_', ' ');
  if (statusCode === 429 || type === 'ratelimited') {
    const after = Number(headers['retry-after'] ?? Number.NaN);
    throw new TrackerLimited(Number.isNaN(after) ? undefined : after);
  }
  if (statusCode === 200 && error === undefined && json['data'] !== undefined) return objectAt(json['data']);
  if (statusCode === 401 || type === 'authentication error') {
    throw outsideFault('credential-refused', 'the tracker does not take the key of this connection');
  }
  if (statusCode === 403 || type === 'forbidden') {
    throw outsideFault('permission-missing', 'the key of this connection may not do this');
  }
  if (/not found/i.test(textAt(error?.['message']) ?? '')) {
    throw outsideFault('not-found', 'it is absent, or not visible to this connection');
  }
  const isRefused = error === undefined ? statusCode >= 400 && statusCode < 500 : refusals.test(type);
  if (isRefused) throw outsideFault('refused', `the tracker refused it: ${type === '' ? String(statusCode) : type}`);
  if (isWrite) throw new OutcomeUnknown(`an answer of ${statusCode}`);
  throw outsideFault('provider-unavailable', 'the tracker did not answer as it should');
}

const refusals =
  /^(invalid input|user error|graphql error|graphql validation failed|bad user input|feature not accessible|usage limit exceeded)$/;
