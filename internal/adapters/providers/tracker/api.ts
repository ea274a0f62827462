// One query to the tracker's GraphQL, and what its answer means in our words. Nothing is sent twice here, and no redirect
// is followed. No message holds a token, a value that was sent, or a host.

import { type Posted, postOnce } from '../../../base/net/post-once.ts';
import { listAt, objectAt, textAt } from '../../../domain/fields.ts';
import type { Json, JsonObject } from '../../../domain/json.ts';
import { OutcomeUnknown, outsideFault, ProviderLimited } from '../../../domain/outside.ts';

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

/** Asks once; answers with the data. Throws Fault, ProviderLimited, and OutcomeUnknown for a write. */
export async function callTracker(request: TrackerRequest): Promise<JsonObject> {
  const { key, query, variables, isWrite, allowPrivate } = request;
  const url = new URL(`${request.apiUrl.replace(/\/+$/, '')}/graphql`);
  const headers = { authorization: key, 'content-type': 'application/json' };
  const body = JSON.stringify({ query, variables });
  return judge(request, await postOnce({ url, headers, body, isWrite, allowPrivate, who: 'the tracker' }));
}

function judge({ isWrite }: TrackerRequest, { statusCode, text, retryAfterSeconds }: Posted): JsonObject {
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
    throw new ProviderLimited(retryAfterSeconds);
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
