// The API of Kubernetes over undici: one object at a time, lists, and connections that are upgraded. What is refused is
// an ApiError with the server's own Status; what cannot be reached is an UnreachableError. After a 401 credentials are
// read again, once a request; after a 429 a request waits as long as the server says, a few times.

import type { IncomingHttpHeaders } from 'node:http';
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, type Dispatcher } from 'undici';
import { AccessError, type ClusterAccess } from './kubernetes-access.ts';
import { retryAfterOf } from '../../base/net/retry-after.ts';
import { withoutEnd } from '../../domain/text.ts';

/** The `Status` object that the API answers with where it refuses. */
export interface ApiStatus {
  readonly reason?: string;
  readonly message?: string;
  readonly code?: number;
  readonly details?: {
    readonly kind?: string;
    readonly causes?: readonly { readonly reason?: string; readonly message?: string; readonly field?: string }[];
    readonly retryAfterSeconds?: number;
  };
}

export class ApiError extends Error {
  readonly code: number;
  readonly status: ApiStatus;

  constructor(code: number, status: ApiStatus) {
    super(status.message ?? status.reason ?? `the API server answered ${code}`);
    this.name = 'ApiError';
    this.code = code;
    this.status = status;
  }
}

/** No answer, or none that can be read: the API server may work again later. */
export class UnreachableError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'UnreachableError';
  }
}

export interface ApiRequest {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** With the leading `/api` or `/apis`. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string | readonly string[]>>;
  readonly body?: unknown;
  readonly signal?: AbortSignal | undefined;
  /** Of the answer as a whole; default 30 s. */
  readonly timeoutMs?: number;
}

const requestMs = 30_000;
const connectMs = 10_000;
/** The largest answer that is read: a list of some thousand pods. */
const answerBytesMax = 64 << 20;
const refusalBytesMax = 64 << 10;
const busyTries = 4;
const busyMsMax = 10_000;

function pathOf({ path, query = {} }: ApiRequest, prefix: string): string {
  const params = Object.entries(query).flatMap(([key, value]) =>
    (typeof value === 'string' ? [value] : value).map((one): [string, string] => [key, one]),
  );
  const search = new URLSearchParams(params).toString();
  return `${prefix}${path}${search === '' ? '' : `?${search}`}`;
}

async function bytesOf(body: AsyncIterable<Uint8Array>, max: number): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of body) {
    bytes += part.length;
    if (bytes > max) throw new UnreachableError(`the API server's answer is larger than ${max} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts);
}

/** What stands before the API may answer in its own words, without a Status. */
function statusOf(text: string): ApiStatus {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && 'kind' in value && value.kind === 'Status')
      return value as ApiStatus;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  const words = text.replaceAll(/\s+/g, ' ').trim().slice(0, 300);
  return words === '' ? {} : { message: words };
}

function unreachable(error: unknown, server: string): Error {
  if (error instanceof ApiError || error instanceof UnreachableError || error instanceof AccessError) return error;
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const { code, message } =
    cause instanceof Error ? (cause as NodeJS.ErrnoException) : { code: undefined, message: '' };
  return new UnreachableError(`${server} does not answer: ${code ?? message}`, { cause: error });
}

export interface Upgraded {
  readonly socket: Duplex;
  /** The subprotocol that the server chose. */
  readonly protocol: string;
}

export class KubernetesClient {
  readonly #access: ClusterAccess;
  readonly #origin: string;
  readonly #prefix: string;
  #agent: Agent;
  #token: string | undefined;

  constructor(access: ClusterAccess) {
    this.#access = access;
    const url = new URL(access.server);
    this.#origin = url.origin;
    this.#prefix = withoutEnd(url.pathname, '/');
    this.#agent = this.#connect();
  }

  get server(): string {
    return this.#access.server;
  }

  /** One answer as JSON. Throws ApiError or UnreachableError. */
  async request<T>(request: ApiRequest): Promise<T> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.#once<T>(request);
      } catch (error) {
        if (!(error instanceof ApiError) || error.code !== 429 || tries === busyTries) throw error;
        const ms = Math.min(busyMsMax, (error.status.details?.retryAfterSeconds ?? 1) * 1_000);
        await sleep(ms, undefined, { signal: request.signal });
      }
    }
  }

  /** A GET whose answer goes on: JSON documents, one a line. Ends where the server ends it. Throws as `request`. */
  async *lines(request: Omit<ApiRequest, 'method' | 'body'>): AsyncGenerator<unknown, void, undefined> {
    try {
      const { body } = await this.#open({ method: 'GET', ...request }, 0);
      const decoder = new TextDecoder();
      let rest = '';
      for await (const part of body as AsyncIterable<Uint8Array>) {
        rest += decoder.decode(part, { stream: true });
        for (let end = rest.indexOf('\n'); end !== -1; end = rest.indexOf('\n')) {
          const line = rest.slice(0, end);
          rest = rest.slice(end + 1);
          if (line.trim() !== '') yield JSON.parse(line);
        }
        if (rest.length > answerBytesMax) throw new UnreachableError('one event of a watch is too large');
      }
    } catch (error) {
      if (request.signal?.aborted === true) return;
      throw unreachable(error, this.server);
    }
  }

  /** An upgraded connection. Throws ApiError with the server's words where it refuses. */
  async upgrade(request: Omit<ApiRequest, 'method' | 'body'>, protocol: string): Promise<Upgraded> {
    return this.#authorized(() => this.#upgrade({ method: 'GET', ...request }, protocol));
  }

  /** Ends what is under way. Safe to call twice. */
  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  #connect(): Agent {
    const { verifies, ca, serverName } = this.#access;
    const { token, cert, key } = this.#access.credentials();
    this.#token = token;
    return new Agent({
      allowH2: false,
      // A watch and an exec have a connection each.
      connections: null,
      connect: {
        timeout: connectMs,
        keepAlive: true,
        keepAliveInitialDelay: 15_000,
        rejectUnauthorized: verifies,
        ...(ca !== undefined && { ca }),
        ...(cert !== undefined && { cert }),
        ...(key !== undefined && { key }),
        ...(serverName !== undefined && { servername: serverName }),
      },
    });
  }

  /** Again after a 401, with credentials that are read again. */
  async #authorized<T>(act: () => Promise<T>): Promise<T> {
    const before = this.#agent;
    try {
      return await act();
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== 401) throw unreachable(error, this.server);
      // Of several at once the first has done it.
      if (this.#agent === before) {
        this.#agent = this.#connect();
        // What runs on the old one, such as a wire, goes on to its end.
        before.close().catch(() => before.destroy());
      }
      try {
        return await act();
      } catch (again) {
        throw unreachable(again, this.server);
      }
    }
  }

  #headers(extra: Readonly<Record<string, string>>): Record<string, string> {
    return { ...extra, ...(this.#token !== undefined && { authorization: `Bearer ${this.#token}` }) };
  }

  #options(request: ApiRequest): Dispatcher.DispatchOptions {
    const { method, body } = request;
    return {
      origin: this.#origin,
      path: pathOf(request, this.#prefix),
      method,
      headers: this.#headers({
        accept: 'application/json',
        'user-agent': 'svc',
        ...(body !== undefined && { 'content-type': 'application/json' }),
      }),
      ...(body !== undefined && { body: JSON.stringify(body) }),
    };
  }

  async #open(request: ApiRequest, bodyTimeout: number): Promise<Dispatcher.ResponseData> {
    return this.#authorized(async () => {
      const found = await this.#agent.request({
        ...this.#options(request),
        headersTimeout: request.timeoutMs ?? requestMs,
        bodyTimeout,
        ...(request.signal !== undefined && { signal: request.signal }),
      } as Dispatcher.RequestOptions);
      if (found.statusCode < 300) return found;
      const text = (await bytesOf(found.body, answerBytesMax)).subarray(0, refusalBytesMax).toString('utf8');
      const after = retryAfterOf(found.headers);
      const status = statusOf(text);
      throw new ApiError(
        found.statusCode,
        after === undefined ? status : { ...status, details: { retryAfterSeconds: after, ...status.details } },
      );
    });
  }

  async #once<T>(request: ApiRequest): Promise<T> {
    const timeoutMs = request.timeoutMs ?? requestMs;
    const { body } = await this.#open(request, timeoutMs);
    try {
      return JSON.parse((await bytesOf(body, answerBytesMax)).toString('utf8')) as T;
    } catch (error) {
      if (error instanceof SyntaxError) throw new UnreachableError(`${this.server} answered with what is no JSON`);
      throw unreachable(error, this.server);
    }
  }

  #upgrade(request: ApiRequest, protocol: string): Promise<Upgraded> {
    const { promise, resolve, reject } = Promise.withResolvers<Upgraded>();
    const parts: Buffer[] = [];
    const { signal } = request;
    let code = 0;
    const key = Buffer.from(crypto.getRandomValues(new Uint8Array(16))).toString('base64');
    const headers = this.#headers({
      'user-agent': 'svc',
      'sec-websocket-version': '13',
      'sec-websocket-key': key,
      'sec-websocket-protocol': protocol,
    });
    this.#agent.dispatch(
      {
        ...this.#options(request),
        headers,
        upgrade: 'websocket',
        headersTimeout: request.timeoutMs ?? requestMs,
        bodyTimeout: requestMs,
      },
      {
        onRequestStart: (controller) => {
          if (signal?.aborted === true) return controller.abort(signal.reason as Error);
          signal?.addEventListener('abort', () => controller.abort(signal.reason as Error), { once: true });
        },
        onRequestUpgrade: (_controller, status, found: IncomingHttpHeaders, socket) => {
          const chosen = found['sec-websocket-protocol'];
          if (status === 101 && chosen === protocol) return resolve({ socket, protocol: chosen });
          socket.destroy();
          reject(new UnreachableError(`${this.server} does not speak ${protocol}`));
        },
        onResponseStart: (_controller, status) => void (code = status),
        onResponseData: (_controller, chunk) => {
          if (parts.length < 64) parts.push(chunk);
        },
        onResponseEnd: () => reject(new ApiError(code, statusOf(Buffer.concat(parts).toString('utf8')))),
        onResponseError: (_controller, error) => reject(error),
      },
    );
    return promise;
  }
}
