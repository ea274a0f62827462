// A route is data: method, path, who may call it, what it takes, what it answers. The server, the authorisation and
// the OpenAPI document are made from the same table (contract, section 3). Handlers hold no business rule: they call
// a flow and shape its answer. What a route does not declare it does not get.

import type * as v from 'valibot';
import type { Logger } from 'pino';
import type { Actor, FlowContext, ProjectRef } from '../../flows/context.ts';
import type { Permission } from '../../domain/permission.ts';

export type Schema = v.GenericSchema;

export interface Principal {
  readonly id: string;
  readonly kind: 'user' | 'service_account';
  readonly name: string;
  readonly email: string | null;
  /** The organization a service account belongs to. */
  readonly orgId: string | null;
  readonly tokenId: string;
  /** The one organization that the token opens, null for all of the principal's. */
  readonly tokenOrgId: string | null;
  readonly tokenExpiresAt: Date | null;
}

export interface OrgRef {
  readonly id: string;
  readonly slug: string;
  readonly name: string;
}

export interface SseEvent {
  /** Sent back by the client as Last-Event-ID when it reconnects. */
  readonly id?: string;
  readonly event?: string;
  readonly data: unknown;
}

export interface Answer {
  readonly status: number;
  /** JSON, unless `contentType` says otherwise and it is a string or Buffer. Absent: no body. */
  readonly body?: unknown;
  readonly contentType?: string;
  readonly headers?: { readonly [name: string]: string };
  /** Server-sent events; only where the route declares `stream`. Ended by the daemon's drain. */
  readonly stream?: AsyncIterable<SseEvent>;
  /** JSON lines, one document each; only where the route declares `lines`. An error breaks the answer off. */
  readonly lines?: AsyncIterable<unknown>;
}

export interface Call<Q = unknown, B = unknown> {
  readonly ctx: FlowContext;
  readonly params: { readonly [name: string]: string };
  readonly query: Q;
  readonly body: B;
  /** The received bytes; empty unless the route declares `rawBody`. */
  readonly raw: Buffer;
  readonly headers: { readonly [name: string]: string | undefined };
  readonly requestId: string;
  readonly log: Logger;
  /** Aborted when the caller goes away or the daemon drains. */
  readonly signal: AbortSignal;
  readonly lastEventId: string | undefined;
  /** Whoever calls; throws on a public route. */
  readonly principal: Principal;
  readonly actor: Actor;
  /** Resolved from `:org`; throws where the route's scope has none. */
  readonly org: OrgRef;
  /** Resolved from `:project`; throws where the route's scope has none. */
  readonly project: ProjectRef;
  /** Whether the caller holds a permission at this route's scope, beyond the one that the route demands. */
  can(permission: Permission): boolean;
}

/** Of a call, what `direct` gets. */
export interface Direct extends Pick<Call, 'ctx' | 'raw' | 'headers'> {
  /** The value of the route's one parameter. */
  readonly param: string;
}

export type Scope =
  /** No token. */
  | 'public'
  /** Any valid token. */
  | 'self'
  /** A token whose principal can see `:org`. */
  | 'org'
  /** A token whose principal can see `:project` of `:org`. */
  | 'project';

export interface RouteSpec<Q extends Schema | undefined, B extends Schema | undefined> {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Parameters as `:name`; `/api/v1/orgs/:org/projects/:project/agents`. */
  readonly path: string;
  readonly summary: string;
  readonly scope: Scope;
  /** Null only for a public route. */
  readonly permission: Permission | null;
  /** Strict object of strings; use `pageQuery` for a list. */
  readonly query?: Q;
  readonly body?: B;
  /** Bytes; default 1 MiB. */
  readonly bodyLimitBytes?: number;
  /** The handler gets the bytes as received, whatever the content type; no JSON is parsed. */
  readonly rawBody?: boolean;
  /** Numbers of the body that a double cannot hold keep their digits, as in events (core/match, `readPayload`). */
  readonly exactNumbers?: boolean;
  /** Status → schema of the JSON it answers, null for no JSON. Problems need not be listed. */
  readonly answers: { readonly [status: number]: Schema | null };
  /** What is sent holds secrets: problems name no key that they do not expect. */
  readonly confidential?: boolean;
  readonly stream?: boolean;
  /** Answers 200 with JSON lines; the schema of that answer is a line's. */
  readonly lines?: boolean;
  /**
   * Asked before any of the body is read, with its announced size in bytes; may throw Fault `unavailable`. What it
   * answers is called when the request is over.
   */
  admit?(ctx: FlowContext, bytes: number | undefined): () => void;
  /**
   * Asked beside `admit` where a body goes beyond what that has counted: where it announces more than is common, before
   * any of it is read; where it announces nothing (`bytes` is undefined), when it goes on past 64 KiB. The body waits for
   * the answer, which gives the room back. May throw Fault `unavailable` or `not_found`.
   */
  admitMore?(ctx: FlowContext, params: Call['params'], bytes: number | undefined): Promise<() => void>;
  /**
   * The same as `handle`, from nothing but this: what is in the plain form comes here without the framework (see
   * direct.ts). Only where a route is public, takes its body raw, has one parameter, and always answers with JSON.
   */
  direct?(at: Direct): Promise<Answer>;
  /** `Access-Control-Allow-Origin: *` and an answer to preflights. */
  readonly cors?: boolean;
  handle(
    call: Call<
      Q extends Schema ? v.InferOutput<Q> : Record<string, never>,
      B extends Schema ? v.InferOutput<B> : undefined
    >,
  ): Promise<Answer>;
}

/** A route of the table, its own types forgotten. */
export type Route = Omit<RouteSpec<Schema | undefined, Schema | undefined>, 'handle'> & {
  handle(call: Call): Promise<Answer>;
};

/** Declares a route; inside `handle`, query and body have the types of their schemas. */
export function defineRoute<
  const Q extends Schema | undefined = undefined,
  const B extends Schema | undefined = undefined,
>(spec: RouteSpec<Q, B>): Route {
  // The server calls handle only with what the same record's schemas have produced.
  return spec as unknown as Route;
}

/** 200 with JSON. */
export function ok(body: unknown): Answer {
  return { status: 200, body };
}

/** 201 with JSON. */
export function created(body: unknown): Answer {
  return { status: 201, body };
}

/** 204. */
export const noContent: Answer = { status: 204 };
