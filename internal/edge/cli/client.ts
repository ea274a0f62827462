// The HTTP API from the command line: one request at a time, problems as `Refusal`, pages, server-sent events.
// A token is put into one header and appears nowhere else; every text that leaves here is searched for it first.

import { readPayload } from '../../core/match/match.ts';
import { type Problem, Refusal, refusal } from './failure.ts';
import { findServer, type ServerSettings } from './settings.ts';
import { type SseMessage, sseMessages } from './sse.ts';
import type { Call } from './types.ts';

export interface RequestOptions {
  readonly query?: { readonly [name: string]: string | number | boolean | undefined };
  readonly body?: unknown;
  /** Default 60 s. */
  readonly timeoutMs?: number;
}

export interface Page {
  readonly items: readonly unknown[];
  readonly nextCursor: string | null;
}

export interface Client {
  readonly server: ServerSettings;
  /** Path under the project: `/agents` → `/api/v1/orgs/{o}/projects/{p}/agents`. */
  project(path: string): string;
  org(path: string): string;
  /** JSON of a 2xx answer, undefined for none. Throws `Refusal` with the server's problem. */
  request(method: string, path: string, options?: RequestOptions): Promise<unknown>;
  /** Follows `nextCursor` until `limit` items are read (default: all). */
  list(path: string, query?: RequestOptions['query'], limit?: number): Promise<Page>;
  /** Text of a 2xx answer as it arrives. Throws `Refusal`, also where it breaks off. */
  download(path: string, query?: RequestOptions['query']): AsyncGenerator<string>;
  /**
   * Server-sent events, reconnecting with Last-Event-ID until the caller leaves or the process is asked to stop. Each time
   * that the server has taken it up, `onOpen` is told.
   */
  events(path: string, query?: RequestOptions['query'], onOpen?: () => void): AsyncGenerator<SseMessage>;
}

const PAGE_LIMIT = 200;
const MAX_PAGES = 500;

export async function connect(call: Call): Promise<Client> {
  const server = await findServer(call);
  if (server.token === undefined) {
    throw refusal('no-token', `no token is known for ${server.url}`, 'give --token or SVC_TOKEN');
  }
  return createClient(server, call.io.signal);
}

/** A client for settings that were found already; without a token the header is left out. */
export function createClient(server: ServerSettings, signal: AbortSignal): Client {
  const base = `/api/v1/orgs/${encodeURIComponent(server.org)}`;
  const client: Client = {
    server,
    project: (path) => `${base}/projects/${encodeURIComponent(server.project)}${path}`,
    org: (path) => `${base}${path}`,
    request: async (method, path, options = {}) => {
      const timeout = AbortSignal.timeout(options.timeoutMs ?? 60_000);
      const response = await send(server, method, path, options, AbortSignal.any([signal, timeout]));
      return readJson(response, server);
    },
    list: (path, query, limit) => readPages(client, path, query ?? {}, limit),
    download: (path, query) => download(server, path, query, signal),
    events: (path, query, onOpen) =>
      sseMessages(async (lastEventId) => {
        const response = await openStream(server, withQuery(path, query), lastEventId, signal);
        onOpen?.();
        return response;
      }, signal),
  };
  return client;
}

async function* download(
  server: ServerSettings,
  path: string,
  query: RequestOptions['query'],
  signal: AbortSignal,
): AsyncGenerator<string> {
  const accept = { accept: 'application/x-ndjson, application/problem+json' };
  const response = await send(server, 'GET', path, query === undefined ? {} : { query }, signal, accept);
  if (!response.ok) await readJson(response, server);
  const decoder = new TextDecoder();
  try {
    for await (const chunk of response.body ?? []) yield decoder.decode(chunk as Uint8Array, { stream: true });
  } catch (error) {
    throw unreachable(server, error);
  }
}

async function readPages(
  client: Client,
  path: string,
  query: NonNullable<RequestOptions['query']>,
  limit: number | undefined,
): Promise<Page> {
  const items: unknown[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < MAX_PAGES; page++) {
    const want = limit === undefined ? PAGE_LIMIT : Math.min(PAGE_LIMIT, limit - items.length);
    const answer = (await client.request('GET', path, { query: { ...query, limit: want, cursor } })) as Partial<Page>;
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

async function send(
  server: ServerSettings,
  method: string,
  path: string,
  options: RequestOptions,
  signal: AbortSignal,
  headers: { readonly [name: string]: string } = {},
): Promise<Response> {
  try {
    return await fetch(`${server.url}${withQuery(path, options.query)}`, {
      method,
      // A redirect would carry the token to wherever it points.
      redirect: 'manual',
      headers: {
        accept: 'application/json, application/problem+json',
        ...(server.token !== undefined && { authorization: `Bearer ${server.token}` }),
        ...(options.body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(options.body !== undefined && { body: JSON.stringify(options.body) }),
      signal,
    });
  } catch (error) {
    throw unreachable(server, error);
  }
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
  return refusal('unreachable', `cannot reach ${server.url} (${why})`, `${local}\`svc doctor\` looks further`);
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
  throw new Refusal(problem, hintFor(response.status, problem.code));
}

function toProblem(response: Response, value: unknown, server: ServerSettings): Problem {
  const { detail, title } = Object(value) as { readonly detail?: unknown; readonly title?: unknown };
  if (!response.ok && (typeof detail === 'string' || typeof title === 'string')) {
    return JSON.parse(
      redact(JSON.stringify({ status: response.status, ...(value as object) }), server.token),
    ) as Problem;
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

function hintFor(status: number, code: string | undefined): string | undefined {
  if (status === 401) return 'the token is not valid there: check --token, SVC_TOKEN or client.json';
  if (status === 403 && code === 'forbidden') return '`svc doctor` shows what this token may do';
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
  const response = await send(server, 'GET', path, {}, signal, headers);
  if (!response.ok) {
    await readJson(response, server);
  }
  return response;
}
