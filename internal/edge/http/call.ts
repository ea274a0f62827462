// One request: who calls, what they may, what they sent; then the route's handler.

import type { FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import { errorCode } from '../../adapters/store/store.ts';
import type { FlowContext } from '../../flows/context.ts';
import { type Access, notVisible, resolveAccess, resolveSession, TokenFault } from '../../flows/tenancy/tenancy.ts';
import { Fault } from '../../domain/fault.ts';
import { parseJson } from '../../domain/json-text.ts';
import { messagesTable } from '../../domain/messages.ts';
import { nameOfPart } from '../../domain/path-part.ts';
import { readPayload } from '../../core/match/match.ts';
import { overloaded } from './fast-path.ts';
import { check, readJson, requireNone, requirePlain } from './read.ts';
import type { Call, Route } from './route.ts';
import { keyHeader, requireOwnHost, requireOwnOrigin, sessionCookieOf } from './session.ts';

/** Unknown tokens per address in a minute, after which more of them are told to wait. */
const failuresMax = 100;
const windowMs = 60_000;
const addressesMax = 10_000;

/**
 * Counts what was presented as a token and never was one. A valid token is never held back: many callers may share an
 * address. A request without a token, or with one that has been revoked or has expired, guesses nothing and is refused as
 * it is.
 */
export class FailureLimit {
  readonly #failures = new Map<string, { count: number; since: number }>();

  /** Notes a failure; throws Fault `rate_limited` above the limit. */
  note(address: string): void {
    const nowMs = performance.now();
    const known = this.#failures.get(address);
    const entry = known === undefined || nowMs - known.since > windowMs ? { count: 0, since: nowMs } : known;
    entry.count += 1;
    if (this.#failures.size >= addressesMax) this.#failures.clear();
    this.#failures.set(address, entry);
    if (entry.count <= failuresMax) return;
    const retryAfterSeconds = Math.max(1, Math.ceil((entry.since + windowMs - nowMs) / 1_000));
    throw new Fault(
      'rate_limited',
      'too-many-failures',
      'Too many requests with tokens that are none; wait and try again.',
      {
        retryAfterSeconds,
      },
    );
  }
}

/** The token of `Authorization: Bearer …`, undefined for anything else. */
export function bearer(header: string | undefined): string | undefined {
  return /^Bearer +([^\s]+) *$/i.exec(header ?? '')?.[1];
}

/** By their names, also one that takes the rest of a path. */
function paramsOf(route: Route, request: FastifyRequest): Record<string, string> {
  const { '*': rest = '', ...params } = request.params as Record<string, string>;
  const named = Object.fromEntries(Object.entries(params).map(([name, part]) => [name, nameOfPart(part)]));
  const name = route.tail === true ? /:(\w+)$/.exec(route.path)?.[1] : undefined;
  return name === undefined ? named : { ...named, [name]: rest };
}

/**
 * Authenticates and authorises before the body is read. Undefined for a public route. `isLook`: nobody asks for anything,
 * and a browser that is not used goes idle.
 */
export async function authorize(
  ctx: FlowContext,
  route: Route,
  request: FastifyRequest,
  limit: FailureLimit,
  isLook = false,
): Promise<Access | undefined> {
  const params = paramsOf(route, request);
  requirePlain(Object.values(params));
  if (route.scope === 'public') return undefined;
  let access: Access;
  try {
    const scope = {
      ...(route.scope !== 'self' && { org: params['org'] ?? '' }),
      ...(route.scope === 'project' && { project: params['project'] ?? '' }),
    };
    access = await resolve(ctx, request, scope, isLook);
  } catch (error) {
    if (error instanceof TokenFault && error.isGuess) limit.note(request.ip);
    throw error;
  }
  // The start refuses a route without a permission; if one came by all the same, nobody holds it.
  if (route.permission === null || !access.permissions.has(route.permission)) {
    throw new Fault('forbidden', 'forbidden', `This needs the permission ${route.permission}.`);
  }
  // What asks no more than to read changes nothing, by whichever method.
  const isKept = route.method === 'GET' || route.permission.endsWith(':read') || route.permission === 'project:write';
  if (access.project?.archived && !isKept) {
    throw new Fault('conflict', 'project-archived', messagesTable.projectArchived);
  }
  await route.enter?.(ctx, access);
  return access;
}

/** By token, or by a browser's session; with a token, cookies say nothing. */
async function resolve(
  ctx: FlowContext,
  request: FastifyRequest,
  scope: { readonly org?: string; readonly project?: string },
  isLook: boolean,
): Promise<Access> {
  const headers = request.headers as Record<string, string | undefined>;
  const cookie = headers['authorization'] === undefined ? sessionCookieOf(headers) : undefined;
  if (cookie === undefined) {
    const token = bearer(headers['authorization']);
    return resolveAccess(askedBy(ctx, token), token, scope);
  }
  requireOwnHost(ctx, headers);
  if (request.method !== 'GET' && request.method !== 'HEAD') requireOwnOrigin(ctx, headers);
  return resolveSession(askedBy(ctx, cookie), { cookie, key: headers[keyHeader], isLook }, scope);
}

/** As long as nobody knows who it is, whoever presents one thing is one. Throws Fault `unavailable` where that asks for too much. */
function askedBy(ctx: FlowContext, presented = ''): FlowContext {
  const db = ctx.db.ownedBy(presented);
  if (db.isCrowded()) throw overloaded();
  return { ...ctx, db };
}

/**
 * What is asked for a project takes turns with what is asked for others; what is of none, by who asks. Throws Fault `unavailable`
 * where too much waits already, and it has its share of that.
 */
export function askedFor(ctx: FlowContext, access: Access | undefined): FlowContext {
  const db = access === undefined ? ctx.db : ctx.db.ownedBy(access.project?.id ?? access.principal.id);
  if (db.isCrowded()) throw overloaded();
  return { ...ctx, db };
}

/** What takes a right away; whatever else goes wrong with a look says nothing of it. */
const losses: readonly string[] = ['unauthenticated', 'forbidden', 'not_found'];

/** Whether whoever made a request would still be let in, by the same look as at its beginning. */
export async function mayStill(ctx: FlowContext, route: Route, request: FastifyRequest): Promise<boolean> {
  try {
    await authorize({ ...ctx, db: ctx.db.looks }, route, request, new FailureLimit(), true);
    return true;
  } catch (error) {
    if (error instanceof Fault && losses.includes(error.kind)) return false;
    ctx.runtime.log.debug({ err: error, route: route.path }, 'http.right_not_seen');
    return true;
  }
}

/**
 * What a call answers that has failed. Where what it names was removed under it, nothing was done, and it is told what it
 * would have been told a moment later.
 */
export async function afterFailure(
  ctx: FlowContext,
  route: Route,
  request: FastifyRequest,
  error: unknown,
): Promise<unknown> {
  // A row names one that is not there any more.
  if (errorCode(error) !== '23503') return error;
  ctx.runtime.log.warn({ err: error, requestId: request.id, route: route.path }, 'http.removed_meanwhile');
  try {
    await authorize(ctx, route, request, new FailureLimit(), true);
  } catch (refusal) {
    return refusal;
  }
  return new Fault('conflict', 'removed-meanwhile', 'Something that this names was removed just now; look again.');
}

/** What is known of a request before its body is read. */
export interface Begun {
  /** Its own: what it waits for the database is counted there. */
  readonly ctx: FlowContext;
  readonly access?: Access | undefined;
  readonly contentType?: string | undefined;
}

/** Builds what the handler is given. Throws the faults of a query or body that is not as declared. */
export function makeCall(
  { ctx, access, contentType }: Begun,
  route: Route,
  request: FastifyRequest,
  gone: () => AbortSignal,
): Call {
  // Most handlers ask for neither, and both cost more than parsing a small body.
  let log: Logger | undefined;
  let signal: AbortSignal | undefined;
  const raw = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
  const query = request.query as Record<string, unknown>;
  requirePlain(Object.values(query).flat());
  const isOpen = route.scope === 'public';
  const json =
    route.rawBody || (isOpen && route.body === undefined)
      ? undefined
      : readJson(raw, contentType, route.exactNumbers ? readPayload : parseJson);
  // What a call does not take is refused, not passed over: it may name another tenant than the path does.
  if (route.query === undefined && !isOpen) requireNone(query, 'query');
  if (route.body === undefined) requireNone(json === undefined ? {} : json, 'body');
  const headers = request.headers as Record<string, string | undefined>;
  const required = <T>(value: T | undefined): T => {
    if (value === undefined) throw notVisible();
    return value;
  };
  return {
    ctx,
    params: paramsOf(route, request),
    query: route.query === undefined ? {} : check(route.query, query, 'query', route.confidential),
    body:
      route.body === undefined
        ? undefined
        : check(route.body, json === undefined ? {} : json, 'body', route.confidential),
    raw,
    headers: contentType === undefined ? headers : { ...headers, 'content-type': contentType },
    requestId: request.id,
    get log() {
      return (log ??= ctx.runtime.log.child({ requestId: request.id }));
    },
    get signal() {
      return (signal ??= gone());
    },
    lastEventId: headers['last-event-id'],
    address: request.ip,
    session: access?.session,
    get principal() {
      return required(access?.principal);
    },
    get actor() {
      const { kind, id, name } = required(access?.principal);
      return { kind, id, name, requestId: request.id };
    },
    get org() {
      return required(access?.org);
    },
    get project() {
      return required(access?.project);
    },
    can: (permission) => access?.permissions.has(permission) ?? false,
  };
}
