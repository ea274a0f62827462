// One request to the code host's API (REST and GraphQL), and what its answer means in our words. Nothing is sent twice
// here and no redirect is followed: a 302 is handed back where the call may end in one, for the caller to fetch without the
// token. No message holds a token, a value that was sent, or a host.

import { type Dispatcher, request as send } from 'undici';
import { AnswerTooLarge, answerJson, boundedBytes } from '../../../base/net/answer.ts';
import { Fault } from '../../../domain/fault.ts';
import { listAt, objectAt, textAt } from '../../../domain/fields.ts';
import type { Json } from '../../../domain/json.ts';
import { OutcomeUnknown, outsideFault } from '../../../domain/outside.ts';
import { dispatcherFor } from './guard.ts';
import { isLimit, isSpent, namedSeconds } from './limit.ts';
import { publicApiUrl } from './token.ts';
import { withoutEnd } from '../../../domain/text.ts';

export interface ApiRequest {
  /** Where the provider's API answers; absent: its public one. */
  readonly apiUrl?: string | undefined;
  readonly token: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** From the API's address on, encoded; of GraphQL `graphql`. */
  readonly path: string;
  readonly query?: { readonly [name: string]: string | number | boolean | undefined } | undefined;
  readonly body?: Json | undefined;
  readonly accept?: string | undefined;
  /** What answers well may be the address of it, which is handed back. */
  readonly leadsElsewhere?: boolean | undefined;
  /** What answers well is no JSON. */
  readonly isPlain?: boolean | undefined;
  /** It changes something: what becomes of a lost answer is not known. */
  readonly isWrite: boolean;
  /** Permissions of the token, for people. */
  readonly needs?: string | undefined;
  /** Bytes; default 8 MiB. */
  readonly mostBytes?: number | undefined;
  /** What the answer is made of, at most; absent: as any answer. */
  readonly mostValues?: number | undefined;
  /** What the call counts against at the provider. */
  readonly resource: 'core' | 'search' | 'code_search' | 'graphql';
  /** Loopback and private addresses, and plain http, may be asked. */
  readonly allowPrivate: boolean;
}

export interface ApiAnswer {
  readonly status: number;
  /** Parsed; null where there is none or it is no JSON. */
  readonly json: Json;
  readonly bytes: Buffer;
  /** Of a 302. */
  readonly location: string | undefined;
  /** Page that comes next, where the provider names one. */
  readonly nextPage: number | undefined;
}

/** The provider did nothing: it limits the caller, or did not take the token. It may be asked again. */
export class RefusedCall extends Error {
  readonly why:
    | { readonly kind: 'limited'; readonly resource: string; readonly seconds: number | undefined }
    | { readonly kind: 'unauthorized' };

  constructor(why: RefusedCall['why']) {
    super(why.kind === 'limited' ? 'the provider limits these calls' : 'the provider did not take the token');
    this.why = why;
  }
}

/** `wholeMs`: of all of a call, for an answer that trickles is never silent. */
const timeouts = { headersMs: 15_000, bodyMs: 15_000, wholeMs: 60_000 } as const;
const bytesMax = 8 * 1024 * 1024;
/** Nothing left this machine. */
const notSent = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|UND_ERR_CONNECT_TIMEOUT|EHOSTUNREACH|ENETUNREACH)$/;

/** The address of GraphQL beside a REST API. */
export function graphqlUrl(apiUrl: string | undefined): string {
  const base = withoutEnd(apiUrl ?? publicApiUrl, '/');
  return /\/api\/v3$/.test(base) ? base.replace(/v3$/, 'graphql') : `${base}/graphql`;
}

function addressOf({ apiUrl, path, query = {}, resource }: ApiRequest): URL {
  const url = new URL(
    resource === 'graphql' ? graphqlUrl(apiUrl) : `${withoutEnd(apiUrl ?? publicApiUrl, '/')}${path}`,
  );
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) url.searchParams.set(name, String(value));
  }
  return url;
}

/**
 * Sends a request, once. Throws Fault for a refusal and for what was never sent, RefusedCall, and OutcomeUnknown for a write
 * whose answer was lost or cannot be read.
 */
export async function callApi(request: ApiRequest): Promise<ApiAnswer> {
  const url = addressOf(request);
  const { token, method, body, accept, isWrite, isPlain = false } = request;
  let answer: Dispatcher.ResponseData;
  let bytes: Buffer;
  let read: Json | undefined;
  try {
    answer = await send(url, {
      method,
      headers: {
        accept: accept ?? 'application/vnd.github+json',
        authorization: `Bearer ${token}`,
        'user-agent': 'svc',
        'x-github-api-version': '2022-11-28',
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      headersTimeout: timeouts.headersMs,
      bodyTimeout: timeouts.bodyMs,
      signal: AbortSignal.timeout(timeouts.wholeMs),
      dispatcher: dispatcherFor(url, request.allowPrivate),
    });
    bytes = await boundedBytes(answer.body, request.mostBytes ?? bytesMax);
    read = isPlain && answer.statusCode === 200 ? undefined : answerJson(bytes, request.mostValues);
  } catch (error) {
    throw lost(error, isWrite);
  }
  const shown = { status: answer.statusCode, headers: answer.headers, json: read ?? null };
  if (answer.statusCode >= 200 && answer.statusCode < 300) {
    // A page of whatever stands before the host is no list without items.
    if (read === undefined && bytes.length > 0 && !isPlain) throw unreadable(isWrite);
    if (request.resource === 'graphql') judgeGraphql(request, shown);
  } else if (answer.statusCode !== 302 || request.leadsElsewhere !== true) throw refusalOf(request, shown);
  const { location, link } = answer.headers;
  return {
    status: answer.statusCode,
    json: read ?? null,
    bytes,
    location: typeof location === 'string' ? location : undefined,
    nextPage: nextPageOf(link),
  };
}

function lost(error: unknown, isWrite: boolean): Error {
  if (error instanceof Fault) return error;
  if (error instanceof AnswerTooLarge && !isWrite) return tooLarge();
  const isLate = (error as Error).name === 'TimeoutError';
  const { code: said, cause } = error as NodeJS.ErrnoException;
  const code = isLate ? 'it took too long' : String(said ?? cause ?? '');
  if (
    isWrite &&
    !notSent.test(code) &&
    !/is not a public https address|private address/.test((error as Error).message)
  ) {
    return new OutcomeUnknown(code === '' ? 'the connection broke' : code);
  }
  return outsideFault('provider-unavailable', 'the code host could not be reached; nothing was done');
}

const unreadable = (isWrite: boolean): Error =>
  isWrite
    ? new OutcomeUnknown('the answer cannot be read')
    : outsideFault('provider-unavailable', 'the code host did not answer as it should');

/** Of an answer beyond what is read of one. */
export const tooLarge = (): Fault =>
  outsideFault('too-large', 'the code host answered with more than can be read; ask for less');

function nextPageOf(link: string | string[] | undefined): number | undefined {
  const found = /<([^<>]+)>;\s*rel="next"/.exec(String(link ?? ''))?.[1];
  const page = found === undefined ? null : (URL.parse(found)?.searchParams.get('page') ?? null);
  return page === null || !/^\d+$/.test(page) ? undefined : Number(page);
}

interface Shown {
  readonly status: number;
  readonly headers: Dispatcher.ResponseData['headers'];
  readonly json: Json;
}

function refusalOf(request: ApiRequest, shown: Shown): Error {
  const { status, json } = shown;
  const message = textAt(objectAt(json)['message']) ?? '';
  const limit = limitOf(request, shown, message);
  if (limit !== undefined) return new RefusedCall(limit);
  switch (status) {
    case 401:
      return new RefusedCall({ kind: 'unauthorized' });
    case 403:
      return permissionMissing(request, shown.headers);
    case 301:
    case 307:
    case 308:
      return outsideFault('not-found', 'the repository has moved');
    case 302:
    case 303:
      // A page where people sign in, of whatever stands before the host.
      return unreadable(request.isWrite);
    case 404:
    case 410:
      return outsideFault('not-found', 'it is absent, or not visible to this installation');
    case 405:
    case 409:
      return outsideFault('conflict', knownWords(message) ?? 'the code host cannot do this in the state that it is in');
    case 413:
      return outsideFault('too-large', 'the code host takes less');
    case 422:
      if (request.resource === 'search' || request.resource === 'code_search')
        return outsideFault('not-found', 'it cannot be searched');
      return judge422(json, message);
    default:
      if (status < 500) return outsideFault('refused', knownWords(message) ?? `the code host refused it (${status})`);
      if (request.isWrite) return new OutcomeUnknown(`an answer of ${status}`);
      return outsideFault('provider-unavailable', `the code host answered with ${status}`);
  }
}

/** The host says which permissions would do, where it knows; else it is one of those that the call has asked for. */
function permissionMissing({ needs }: ApiRequest, headers: Shown['headers']): Fault {
  const accepted = String(headers['x-accepted-github-permissions'] ?? '');
  const named = /^[a-z_]+=[a-z]+(?:[;,] ?[a-z_]+=[a-z]+){0,20}$/.test(accepted)
    ? accepted.replaceAll('=', ': ').replaceAll(/[;,] ?/g, ', ')
    : needs;
  return outsideFault(
    'permission-missing',
    `the installation may not do this${named ? `; it lacks one of ${named}` : ''}`,
  );
}

function limitOf(request: ApiRequest, { status, headers }: Shown, message: string) {
  if (!isLimit(status, headers, message)) return undefined;
  const seconds = namedSeconds(headers);
  // The secondary limit counts what creates; the primary one names its resource.
  const named = headers['x-ratelimit-resource'];
  const resource = isSpent(headers)
    ? typeof named === 'string' && /^[a-z0-9_]{1,64}$/.test(named)
      ? named
      : request.resource
    : request.isWrite
      ? 'write'
      : request.resource;
  return { kind: 'limited' as const, resource, seconds };
}

/** Words of the provider that hold no value, with ours for each. */
const knownRefusals: readonly (readonly [RegExp, string, 'conflict' | 'refused' | 'too-large'])[] = [
  [/already[ _]exists/i, 'it exists already', 'conflict'],
  [/No commits between/i, 'there are no commits between base and head', 'conflict'],
  [/not mergeable/i, 'the pull request is not mergeable', 'conflict'],
  [/Head branch was modified|expected_head_sha|head (sha|branch) .*match/i, 'the head has moved', 'conflict'],
  [/not a fast forward/i, 'the branch has moved', 'conflict'],
  [/Auto[- ]?merge is not allowed/i, 'auto merge is not allowed for this repository', 'conflict'],
  [/in clean status/i, 'the pull request can be merged now: merge it', 'conflict'],
  [/approve your own/i, 'nobody approves a pull request of their own', 'refused'],
  [/requested from pull request author/i, 'the author of a pull request cannot review it', 'refused'],
  [/Body is too long/i, 'the body is too long', 'too-large'],
  [/sha"? wasn't supplied/i, 'the file exists: its sha is needed', 'conflict'],
];
const known = (message: string) => knownRefusals.find(([pattern]) => pattern.test(message));
const knownWords = (message: string): string | undefined => known(message)?.[1];

/** The field and the provider's code of each mistake; never a value. */
function judge422(json: Json, message: string): Fault {
  const errors = listAt(objectAt(json)['errors']).map((one) =>
    typeof one === 'string' ? { message: one } : objectAt(one),
  );
  const said = [message, ...errors.map((one) => textAt(one['message']) ?? '')].join('\n');
  const found = known(said);
  if (found !== undefined) return outsideFault(found[2], found[1]);
  if (errors.some((one) => one['code'] === 'already_exists')) return outsideFault('conflict', 'it exists already');
  const parts = errors.flatMap((one) => {
    const [field, code] = [textAt(one['field']), textAt(one['code'])].map((word) =>
      word !== undefined && /^[\w.-]{1,64}$/.test(word) ? word : undefined,
    );
    return field === undefined && code === undefined
      ? []
      : [[field, code].filter((word) => word !== undefined).join(': ')];
  });
  return outsideFault('refused', parts.length === 0 ? 'the code host refused it (422)' : parts.join('; '));
}

/** GraphQL tells mistakes with 200. */
function judgeGraphql(request: ApiRequest, { json, headers }: Shown): void {
  const errors = listAt(objectAt(json)['errors']).map(objectAt);
  const [first] = errors;
  if (first === undefined) return;
  const message = errors.map((one) => textAt(one['message']) ?? '').join('\n');
  const types = errors.map((one) => textAt(one['type']));
  const seconds = namedSeconds(headers);
  if (types.includes('RATE_LIMITED')) throw new RefusedCall({ kind: 'limited', resource: 'graphql', seconds });
  // The secondary limit has no type.
  if (/secondary rate limit/i.test(message))
    throw new RefusedCall({ kind: 'limited', resource: request.isWrite ? 'write' : 'graphql', seconds });
  // It broke off, or took too long, wherever it was by then.
  if (/^(?:Something went wrong while executing|We couldn't respond to) your/.test(message))
    throw unreadable(request.isWrite);
  if (types.includes('FORBIDDEN')) throw permissionMissing(request, headers);
  if (types.includes('NOT_FOUND')) throw outsideFault('not-found', 'it is absent, or not visible to this installation');
  const found = known(message);
  throw outsideFault(found?.[2] ?? 'refused', found?.[1] ?? 'the code host refused it');
}

/** In lower case, without its parameters. */
const mimeTypeOf = (header: string | string[] | undefined): string =>
  (String(header ?? 'application/octet-stream').split(';')[0] ?? '').trim().toLowerCase();

/**
 * Fetches what a signed address names, without any credential. Undefined: it redirects further, to `location`. Throws
 * Fault.
 */
export async function fetchSigned(
  address: string,
  of: { readonly allowPrivate: boolean; readonly mostBytes: number; readonly authorization?: string },
): Promise<{ readonly bytes: Buffer; readonly mimeType: string } | { readonly location: string }> {
  const url = URL.parse(address);
  if (url === null) throw outsideFault('provider-unavailable', 'the code host named an address that is none');
  try {
    const { statusCode, headers, body } = await send(url, {
      headers: { 'user-agent': 'svc', ...(of.authorization !== undefined && { authorization: of.authorization }) },
      headersTimeout: timeouts.headersMs,
      bodyTimeout: timeouts.bodyMs,
      signal: AbortSignal.timeout(timeouts.wholeMs),
      dispatcher: dispatcherFor(url, of.allowPrivate),
    });
    if (statusCode >= 300 && statusCode < 400 && typeof headers['location'] === 'string') {
      await body.dump();
      return { location: new URL(headers['location'], url).href };
    }
    if (statusCode !== 200) {
      await body.dump();
      if (statusCode === 404 || statusCode === 410) throw outsideFault('not-found', 'there is nothing at this address');
      throw outsideFault('provider-unavailable', `the address answered with ${statusCode}`);
    }
    const bytes = await boundedBytes(body, of.mostBytes);
    return { bytes, mimeType: mimeTypeOf(headers['content-type']) };
  } catch (error) {
    if (error instanceof Fault) throw error;
    if (error instanceof AnswerTooLarge) throw tooLarge();
    throw outsideFault('provider-unavailable', 'the address could not be reached');
  }
}
