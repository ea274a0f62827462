// One request: who calls, what they may, what they sent; then the route's handler.

import type { FastifyRequest } from 'fastify';
import type { FlowContext } from '../../flows/context.ts';
import { type Access, notVisible, resolveAccess } from '../../flows/tenancy/tenancy.ts';
import { Fault } from '../../words/fault.ts';
import { check, readJson, requirePlain } from './read.ts';
import type { Call, Route } from './route.ts';

/** Failures of authentication per address in a minute, after which more of them are told to wait. */
const failuresMax = 100;
const windowMs = 60_000;
const addressesMax = 10_000;

/** Counts failed authentications. A valid token is never held back: many callers may share an address. */
export class FailureLimit {
  readonly #failures = new Map<string, { count: number; since: number }>();

  /** Notes a failure at `nowMs`; throws Fault `rate_limited` above the limit. */
  note(address: string, nowMs: number): void {
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
      'Too many requests without a valid token; wait and try again.',
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

/** Authenticates and authorises before the body is read. Undefined for a public route. */
export async function authorize(
  ctx: FlowContext,
  route: Route,
  request: FastifyRequest,
  limit: FailureLimit,
): Promise<Access | undefined> {
  const params = request.params as Record<string, string>;
  requirePlain(Object.values(params));
  if (route.scope === 'public') return undefined;
  let access: Access;
  try {
    access = await resolveAccess(ctx, bearer(request.headers.authorization), {
      ...(route.scope !== 'self' && { org: params['org'] ?? '' }),
      ...(route.scope === 'project' && { project: params['project'] ?? '' }),
    });
  } catch (error) {
    if (error instanceof Fault && error.kind === 'unauthenticated') limit.note(request.ip, ctx.runtime.now().getTime());
    throw error;
  }
  // The start refuses a route without a permission; if one came by all the same, nobody holds it.
  if (route.permission === null || !access.permissions.has(route.permission)) {
    throw new Fault('forbidden', 'forbidden', `This needs the permission ${route.permission}.`);
  }
  const changes = route.method !== 'GET' && route.permission !== 'project:write';
  if (access.project?.archived && changes) {
    throw new Fault(
      'conflict',
      'project-archived',
      'The project is archived; bring it back before changing anything in it.',
    );
  }
  return access;
}

/** Builds what the handler is given. Throws the faults of a query or body that is not as declared. */
export function makeCall(
  ctx: FlowContext,
  route: Route,
  request: FastifyRequest,
  access: Access | undefined,
  contentType: string | undefined,
  signal: AbortSignal,
): Call {
  const raw = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
  const query = request.query as Record<string, unknown>;
  requirePlain(Object.values(query).flat());
  const headers = request.headers as Record<string, string | undefined>;
  const required = <T>(value: T | undefined): T => {
    if (value === undefined) throw notVisible();
    return value;
  };
  return {
    ctx,
    params: request.params as Record<string, string>,
    query: route.query === undefined ? {} : check(route.query, query, 'query'),
    body:
      route.rawBody || route.body === undefined
        ? undefined
        : check(route.body, readJson(raw, contentType) ?? {}, 'body'),
    raw,
    headers: contentType === undefined ? headers : { ...headers, 'content-type': contentType },
    requestId: request.id,
    log: ctx.runtime.log.child({ requestId: request.id }),
    signal,
    lastEventId: headers['last-event-id'],
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
