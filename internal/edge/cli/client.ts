// The HTTP API from the command line: operations of schemas/api, one request at a time, problems as `Refusal`, pages,
// server-sent events.
// A token is put into one header and appears nowhere else; every text that leaves here is searched for it first.

import type { Answers, Given, Operation, ParamNames, Schema, Shape } from '../../../schemas/api/operation.ts';
import { readPayload } from '../../core/match/match.ts';
import { pathPart } from '../../domain/path-part.ts';
import { timeLimit } from '../../base/waits.ts';
import { type ProblemDetails, Refusal, refusal, trustHint } from './failure.ts';
import { findServer, type ServerSettings } from './settings.ts';
import { type SseMessage, sseMessages } from './sse.ts';
import type { Call } from './types.ts';

interface RequestOptions {
  readonly query?: { readonly [name: string]: string | number | boolean | undefined } | undefined;
  readonly body?: unknown;
  /** Default 60 s. */
  readonly timeoutMs?: number | undefined;
}

/** Parameters of a path that are not the server's own settings. */
type OwnParams<P extends string> = Exclude<ParamNames<P>, 'org' | 'project'>;
/** Another organization or project than that of the settings. */
interface Other {
  readonly org?: string;
  readonly project?: string;
}
type Params<P extends string> = [OwnParams<P>] extends [never]
  ? { readonly params?: Other }
  : { readonly params: { readonly [name in OwnParams<P>]: string } & Other };
/** Values are as people give them: the server says what is wrong with one. */
type Query<Q> = {
  readonly query?: Q extends Schema
    ? { readonly [name in keyof Given<Q>]?: string | number | boolean | undefined }
    : never;
};
type Body<B> = B extends Schema
  ? undefined extends Given<B>
    ? { readonly body?: Given<B> }
    : { readonly body: Given<B> }
  : { readonly body?: never };
/** What a call of an operation gives. */
export type Input<P extends string, Q, B> = Params<P> & Query<Q> & Body<B> & { readonly timeoutMs?: number };

/** What an operation answers where it does what it was asked, undefined for no JSON. */
export type Answered<A extends Answers> = {
  [S in keyof A & number]: A[S] extends Schema ? Shape<A[S]> : undefined;
}[keyof A & number];
type ItemOf<A extends Answers> = Answered<A> extends { readonly items: readonly (infer I)[] } ? I : never;

/** Of a query or a body: an operation may take none. */
type MaybeSchema = Schema | undefined;

export interface Page<I> {
  readonly items: readonly I[];
  readonly nextCursor: string | null;
}

export interface Client {
  readonly server: ServerSettings;
  /** JSON of a 2xx answer. Throws `Refusal` with the server's problem. */
  call<P extends string, Q extends MaybeSchema, B extends MaybeSchema, A extends Answers>(
    operation: Operation<P, Q, B, A>,
    ...input: {} extends Input<P, Q, B> ? [Input<P, Q, B>?] : [Input<P, Q, B>]
  ): Promise<Answered<A>>;
  /** Follows `nextCursor` until `limit` items are read (default: all). */
  list<P extends string, Q extends MaybeSchema, A extends Answers>(
    operation: Operation<P, Q, undefined, A>,
    input?: Input<P, Q, undefined>,
    limit?: number,
  ): Promise<Page<ItemOf<A>>>;
  /** Text of a 2xx answer as it arrives. Throws `Refusal`, also where it breaks off. */
  download<P extends string, Q extends MaybeSchema, B extends MaybeSchema, A extends Answers>(
    operation: Operation<P, Q, B, A>,
    input?: Input<P, Q, B>,
  ): AsyncGenerator<string>;
  /** Bytes of a 2xx answer. Throws `Refusal`. */
  bytes<P extends string, A extends Answers>(
    operation: Operation<P, undefined, undefined, A>,
    input: Input<P, undefined, undefined>,
  ): Promise<Buffer>;
  /**
   * Server-sent events, reconnecting with Last-Event-ID until the caller leaves or the process is asked to stop. Each time
   * that the server has taken it up, `onOpen` is told.
   */
  events<P extends string, Q extends MaybeSchema, A extends Answers>(
    operation: Operation<P, Q, undefined, A>,
    input?: Input<P, Q, undefined>,
    onOpen?: () => void,
  ): AsyncGenerator<SseMessage>;
}

/** Any input, its operation forgotten. */
interface Loose extends RequestOptions {
  readonly params?: { readonly [name: string]: string | undefined } | undefined;
}

const pageLimit = 200;
const pagesMax = 500;

export async function connect(call: Call): Promise<Client> {
  const server = await findServer(call);
  if (server.token === undefined) {
    throw refusal('no-token', `no token is known for ${server.url}`, 'give --token or SVC_TOKEN');
  }
  call.spoken.to = server.url;
  return createClient(server, call.io.signal);
}

/** A client for settings that were found already; without a token the header is left out. */
export function createClient(server: ServerSettings, signal: AbortSignal): Client {
  const pathOf = (operation: Pick<Operation, 'path'>, input: Loose): string => {
    const params = { org: server.org, project: server.project, ...input.params };
    return operation.path.replaceAll(/:(\w+)/g, (_, name: keyof typeof params) => pathPart(params[name]));
  };
  const request = async (operation: Pick<Operation, 'method' | 'path'>, input: Loose): Promise<unknown> => {
    const stop = timeLimit(input.timeoutMs ?? 60_000, signal);
    const sent = { ...input, method: operation.method, path: pathOf(operation, input), signal: stop };
    return readJson(await send(server, sent), server);
  };
  return {
    server,
    // The types of the operation are those of what its own record says: what comes is as the server of that API sends it.
    call: (operation, ...[input]) => request(operation, (input ?? {}) as Loose) as Promise<never>,
    list: (operation, given, limit) => {
      const input = (given ?? {}) as Loose;
      const read = (query: Loose['query']): Promise<unknown> => request(operation, { ...input, query });
      return readPages(read, pathOf(operation, input), input.query ?? {}, limit) as Promise<never>;
    },
    download: (operation, given) => {
      const input = (given ?? {}) as Loose;
      return download(server, { ...input, method: operation.method, path: pathOf(operation, input), signal });
    },
    bytes: async (operation, given) => {
      const input = given as Loose;
      const headers = { accept: 'application/octet-stream, application/problem+json' };
      const response = await sendForOk(server, { method: 'GET', path: pathOf(operation, input), signal, headers });
      try {
        return Buffer.from(await response.arrayBuffer());
      } catch (error) {
        throw unreachable(server, error);
      }
    },
    events: (operation, given, onOpen) => {
      const input = (given ?? {}) as Loose;
      const path = withQuery(pathOf(operation, input), input.query);
      return sseMessages(async (lastEventId) => {
        const response = await openStream(server, path, lastEventId, signal);
        onOpen?.();
        return response;
      }, signal);
    },
  };
}

async function* download(server: ServerSettings, request: SentRequest): AsyncGenerator<string> {
  const headers = { accept: 'application/x-ndjson, application/problem+json' };
  const response = await sendForOk(server, { ...request, headers });
  const decoder = new TextDecoder();
  try {
    for await (const chunk of response.body ?? []) yield decoder.decode(chunk as Uint8Array, { stream: true });
  } catch (error) {
    throw unreachable(server, error);
  }
}

async function readPages(
  request: (query: NonNullable<RequestOptions['query']>) => Promise<unknown>,
  path: string,
  query: NonNullable<RequestOptions['query']>,
  limit: number | undefined,
): Promise<Page<unknown>> {
  const items: unknown[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < pagesMax; page++) {
    const want = limit === undefined ? pageLimit : Math.min(pageLimit, limit - items.length);
    const answer = (await request({ ...query, limit: want, cursor })) as Partial<Page<unknown>> | undefined;
    if (!Array.isArray(answer?.items)) throw refusal('unexpected-answer', `${path} did not answer with a list`);
    items.push(...answer.items);
    cursor = answer.nextCursor ?? undefined;
    if (cursor === undefined || (limit !== undefined && items.length >= limit)) break;
  }
  return { items, nextCursor: cursor ?? null };
}

function withQuery(path: string, query: RequestOptions['query']): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) if (value !== undefined) search.set(name, String(value));
  return search.size === 0 ? path : `${path}?${search}`;
}

interface SentRequest extends RequestOptions {
  readonly method: string;
  readonly path: string;
  readonly signal: AbortSignal;
  /** In place of those that ask for JSON. */
  readonly headers?: { readonly [name: string]: string };
}

/** Sends a request, whatever its answer. Throws `Refusal` where none comes. */
async function send(server: ServerSettings, request: SentRequest): Promise<Response> {
  const { method, path, query, body, signal, headers = {} } = request;
  try {
    return await fetch(`${server.url}${withQuery(path, query)}`, {
      method,
      // A redirect would carry the token to wherever it points.
      redirect: 'manual',
      headers: {
        accept: 'application/json, application/problem+json',
        ...(server.token !== undefined && { authorization: `Bearer ${server.token}` }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal,
    });
  } catch (error) {
    throw unreachable(server, error);
  }
}

/** The answer where it is a 2xx, unread. Throws `Refusal` with the server's problem where it is not. */
async function sendForOk(server: ServerSettings, request: SentRequest): Promise<Response> {
  const response = await send(server, request);
  if (!response.ok) await readJson(response, server);
  return response;
}

function unreachable(server: ServerSettings, error: unknown): Refusal {
  if (error instanceof DOMException && error.name === 'TimeoutError') {
    return refusal('timeout', `${server.url} did not answer in time`, '`svc doctor` looks further');
  }
  if (error instanceof DOMException && error.name === 'AbortError') return refusal('interrupted', 'interrupted');
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const code = (cause as NodeJS.ErrnoException | undefined)?.code ?? '';
  const why = redact(code !== '' ? code : cause instanceof Error ? cause.message : 'unknown', server.token);
  const local = server.from === 'client.json' ? 'is svcd running? ' : '';
  const hint = trustHint(why) ?? `${local}\`svc doctor\` looks further`;
  return refusal('unreachable', `cannot reach ${server.url} (${why})`, hint);
}

const redact = (text: string, token: string | undefined): string =>
  token === undefined || token.length < 8 ? text : text.replaceAll(token, '[token]');

async function readJson(response: Response, server: ServerSettings): Promise<unknown> {
  const text = await response.text().catch((error: unknown) => {
    throw unreachable(server, error);
  });
  const type = response.headers.get('content-type') ?? '';
  let value: unknown;
  if (text !== '' && /[/+]json\b/.test(type)) {
    try {
      // Events hold numbers that a double does not: they are shown with the digits they came with.
      value = readPayload(text);
    } catch {
      throw refusal('unexpected-answer', `${server.url} answered ${response.status} with broken JSON`);
    }
  }
  if (response.ok && (text === '' || value !== undefined)) return value;
  const problem = toProblem(response, value, server);
  throw new Refusal(problem, hintFor(response.status, problem.code, server));
}

function toProblem(response: Response, value: unknown, server: ServerSettings): ProblemDetails {
  const { detail, title } = Object(value) as { readonly detail?: unknown; readonly title?: unknown };
  if (!response.ok && (typeof detail === 'string' || typeof title === 'string')) {
    return JSON.parse(
      redact(JSON.stringify({ status: response.status, ...(value as object) }), server.token),
    ) as ProblemDetails;
  }
  const what = response.ok ? 'with something that is not JSON' : `${response.status} ${response.statusText}`.trim();
  return {
    type: 'about:blank',
    title: 'Unexpected answer',
    status: response.status,
    code: 'unexpected-answer',
    detail: `${server.url} answered ${what}`,
  };
}

function hintFor(status: number, code: string | undefined, server: ServerSettings): string | undefined {
  // Of a whole project or organization that is not there, or not visible, the server says no more.
  if (status === 404 && code === 'not-found')
    return `looked in project ${server.project} of organization ${server.org}`;
  if (status === 401) return 'the token is not valid there: check --token, SVC_TOKEN or client.json';
  if (status === 403 && code === 'forbidden') return '`svc whoami --json` shows what this token may do';
  return undefined;
}

async function openStream(
  server: ServerSettings,
  path: string,
  lastEventId: string | undefined,
  signal: AbortSignal,
): Promise<Response> {
  const headers = {
    accept: 'text/event-stream',
    'cache-control': 'no-store',
    ...(lastEventId !== undefined && { 'last-event-id': lastEventId }),
  };
  return sendForOk(server, { method: 'GET', path, signal, headers });
}
