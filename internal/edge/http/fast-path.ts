// The short way of a delivery: events arrive by the thousand a second, and the framework costs more than verifying and
// recording them. A request in the plain form (a known length within the limit, nothing encoded, no query) for a route
// that declares `direct` is read and answered here, as the framework's hooks would; every other form takes the long way,
// where it is refused or read with care. One handler, one table of problems, one set of headers for both.

import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { Joined } from '../../base/joined.ts';
import type { OneATurn } from '../../base/one-a-turn.ts';
import type { FlowContext } from '../../flows/context.ts';
import { Fault } from '../../domain/fault.ts';
import { messagesTable } from '../../domain/messages.ts';
import { commonHeaders, corsHeaders, noteBug, noteOutcome, requestIdOf } from './outcome.ts';
import { closeGently } from './linger.ts';
import { endsWith } from './pipelined.ts';
import { asFault, renderProblem } from './problem.ts';
import type { Answer, Route } from './route.ts';

interface DirectRoute {
  readonly route: Route;
  readonly direct: NonNullable<Route['direct']>;
  /** Around its one parameter. */
  readonly prefix: string;
  readonly suffix: string;
  readonly headers: readonly string[];
}

export interface DirectOptions {
  readonly ctx: () => FlowContext;
  readonly bodyBytes: number;
  /** For bodies that take milliseconds to read. */
  readonly heavy: OneATurn;
  readonly draining: AbortSignal;
}

/** A body of so many bytes is read in a turn of the event loop of its own. */
export const heavyFrom = 65_536;

const paramShape = /^[A-Za-z0-9_-]{1,200}$/;
const lengthShape = /^[1-9]\d{0,8}$/;

/** Takes what is in the plain form for one of `routes`, and hands everything else to `other`. */
export function fastPath(routes: readonly Route[], options: DirectOptions, other: RequestListener): RequestListener {
  const table = routes.flatMap((route) => directRoute(route) ?? []);
  return (request, response) => {
    const found = options.draining.aborted ? undefined : match(table, request);
    if (found === undefined || !isPlain(request, options.bodyBytes)) return other(request, response);
    new FastRequest(options, found.at, found.value, request, response).start();
  };
}

function directRoute(route: Route): DirectRoute | undefined {
  const parts = /^(.*\/):\w+(\/.*)?$/.exec(route.path);
  if (route.direct === undefined || parts === null) return undefined;
  return {
    route,
    direct: route.direct,
    prefix: parts[1] ?? '',
    suffix: parts[2] ?? '',
    headers: Object.entries({ ...commonHeaders, ...(route.cors && corsHeaders) }).flat(),
  };
}

function match(
  table: readonly DirectRoute[],
  { url = '', method }: IncomingMessage,
): { readonly at: DirectRoute; readonly value: string } | undefined {
  for (const at of table) {
    if (method !== at.route.method || !url.startsWith(at.prefix) || !url.endsWith(at.suffix)) continue;
    const value = url.slice(at.prefix.length, url.length - at.suffix.length);
    if (paramShape.test(value)) return { at, value };
  }
  return undefined;
}

/** Two proxies may read such a request differently: which name or whose right counts is not for us to choose. */
export function hasRepeatedHeader({ rawHeaders }: IncomingMessage): boolean {
  let hosts = 0;
  let rights = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? '';
    if (name.length === 4 && name.toLowerCase() === 'host') hosts += 1;
    else if (name.length === 13 && name.toLowerCase() === 'authorization') rights += 1;
  }
  return hosts > 1 || rights > 1;
}

function isPlain(request: IncomingMessage, bodyBytes: number): boolean {
  const { headers, httpVersion } = request;
  return (
    httpVersion === '1.1' &&
    headers.host !== undefined &&
    !hasRepeatedHeader(request) &&
    headers['content-encoding'] === undefined &&
    headers['transfer-encoding'] === undefined &&
    headers.expect === undefined &&
    lengthShape.test(headers['content-length'] ?? '') &&
    Number(headers['content-length']) <= bodyBytes
  );
}

const nothing = (): void => undefined;

/** One request and its answer. */
class FastRequest {
  readonly #options: DirectOptions;
  readonly #ctx: FlowContext;
  readonly #at: DirectRoute;
  readonly #value: string;
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #requestId: string;
  readonly #since = performance.now();
  #release = nothing;
  #isGivenUp = false;

  constructor(
    options: DirectOptions,
    at: DirectRoute,
    value: string,
    request: IncomingMessage,
    response: ServerResponse,
  ) {
    this.#options = options;
    this.#ctx = options.ctx();
    this.#at = at;
    this.#value = value;
    this.#request = request;
    this.#response = response;
    this.#requestId = requestIdOf(request.headers);
  }

  start(): void {
    const { headers } = this.#request;
    const size = Number(headers['content-length']);
    try {
      if (this.#ctx.db.isCrowded()) throw overloaded();
      const giveUp = (why: Fault): boolean => this.#giveUp(why);
      this.#release = this.#at.route.admit?.(this.#ctx, size, giveUp, this.#value) ?? nothing;
    } catch (error) {
      return this.#fail(error);
    }
    const body = new Joined();
    this.#request.on('data', (chunk: Buffer) => {
      if (!this.#isGivenUp) body.add(chunk);
    });
    // Whoever goes away in the middle gets no answer, and the server has closed what was between us.
    this.#request.on('error', () => this.#giveRoomBack());
    this.#request.on('end', () => {
      if (this.#isGivenUp) return;
      const raw = body.take();
      if (raw.length < heavyFrom) this.#take(raw);
      else this.#options.heavy.add(this.#value, () => this.#take(raw));
    });
  }

  #take(raw: Buffer): void {
    const headers = this.#request.headers as { readonly [name: string]: string | undefined };
    this.#at.direct({ ctx: this.#ctx, param: this.#value, raw, headers }).then(
      (answer) => this.#answer(answer),
      (error: unknown) => this.#fail(error),
    );
  }

  /** Refuses a body that is still coming, and reads no more of it; false where all of it is there. */
  #giveUp(why: Fault): boolean {
    if (this.#request.complete || this.#request.destroyed) return false;
    this.#isGivenUp = true;
    closeGently(this.#request.socket);
    this.#fail(why);
    return true;
  }

  #giveRoomBack(): void {
    const release = this.#release;
    this.#release = nothing;
    release();
  }

  #answer({ status, body }: Answer): void {
    this.#send(status, 'application/json; charset=utf-8', JSON.stringify(body), []);
  }

  #fail(error: unknown): void {
    const { problem, headers, isBug } = renderProblem(error, this.#requestId);
    const { method, path } = this.#at.route;
    this.#at.route.refused?.(this.#ctx, this.#value, asFault(error));
    if (isBug) noteBug(this.#ctx, error, { requestId: this.#requestId, method, route: path });
    this.#send(problem.status, 'application/problem+json', JSON.stringify(problem), Object.entries(headers).flat());
  }

  #send(status: number, type: string, text: string, more: readonly string[]): void {
    this.#giveRoomBack();
    const response = this.#response;
    const size = Buffer.byteLength(text);
    const headers = ['content-type', type, 'content-length', String(size)];
    headers.push('x-request-id', this.#requestId, ...this.#at.headers, ...more);
    if (this.#isGivenUp || (this.#options.draining.aborted && endsWith(response))) headers.push('connection', 'close');
    response.writeHead(status, headers);
    // Of one byte each, characters go out as they are.
    response.end(text, size === text.length ? 'latin1' : 'utf8');
    const { method, path } = this.#at.route;
    const ms = performance.now() - this.#since;
    noteOutcome(this.#ctx, { requestId: this.#requestId, method, path, status, ms });
  }
}

/** Turned away before any of the body is read. */
export function overloaded(): Fault {
  return new Fault('unavailable', 'overloaded', messagesTable.overloaded, {
    retryAfterSeconds: 1,
  });
}
