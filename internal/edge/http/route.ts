// A route is an operation of the API (schemas/api) and the handler that does it. The server, the authorisation and the
// OpenAPI document are made from the same table (docs/reference/http-api.md#conventions). Handlers hold no business rule: they call a flow
// and shape its answer. What an operation does not declare, its handler does not get.

import type * as v from 'valibot';
import type { Logger } from 'pino';
import type { Answers, Operation, ParamNames, Schema, Shape } from '../../../schemas/api/operation.ts';
import type { Actor, FlowContext, ProjectRef } from '../../flows/context.ts';
import type { Access, Principal } from '../../flows/tenancy/access.ts';
import { type Condition, versionTag } from '../../domain/version.ts';
import type { Fault } from '../../domain/fault.ts';
import type { Permission } from '../../domain/permission.ts';

export type { Schema, Scope } from '../../../schemas/api/operation.ts';
export type { Principal } from '../../flows/tenancy/access.ts';

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
  /** The body as JSON in pieces, where it is too large to be one text. */
  readonly pieces?: Iterable<Uint8Array>;
}

export interface Call<Q = unknown, B = unknown, N extends string = string> {
  readonly ctx: FlowContext;
  readonly params: { readonly [name in N]: string };
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
  /** Where the request comes from. */
  readonly address: string;
  /** Of the browser that calls; undefined where a token does. */
  readonly session:
    | { readonly id: string; readonly method: string; readonly expiresAt: Date; readonly installation: boolean }
    | undefined;
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

/** How a route is served, beside what its operation says. */
export interface Serving {
  /** Bytes; default 1 MiB. */
  readonly bodyLimitBytes?: number;
  /** Whether long texts of `files` are taken out of a large body: they are `textsOf` its raw bytes (large-body.ts). */
  readonly takesTexts?: boolean;
  /**
   * Asked before any of the body is read, with its announced size in bytes and the value of the route's one parameter; may
   * throw Fault `unavailable`. What it answers is called when the request is over. `giveUp` refuses a body that is still coming,
   * for this reason; false where none is read yet, or all of it is there.
   */
  admit?(ctx: FlowContext, bytes: number | undefined, giveUp: (why: Fault) => boolean, param: string): () => void;
  /** Asked when the caller is known, before any of the body is read, where more than a permission lets a call in. */
  enter?(ctx: FlowContext, access: Access): Promise<void>;
  /**
   * Asked beside `admit` where a body goes beyond what that has counted: where it announces more than is common, before
   * any of it is read; where it announces nothing (`bytes` is undefined), when it goes on past 64 KiB. The body waits for
   * the answer, which gives the room back. May throw Fault `unavailable` or `not_found`. `giveUp`: as above.
   */
  admitMore?(
    ctx: FlowContext,
    params: Call['params'],
    bytes: number | undefined,
    giveUp: (why: Fault) => boolean,
  ): Promise<() => void>;
  /**
   * The same as `handle`, from nothing but this: what is in the plain form comes here without the framework (see
   * fast-path.ts). Only where a route is public, takes its body raw, has one parameter, and always answers with JSON.
   */
  direct?(at: Direct): Promise<Answer>;
  /** Told of every answer that is a failure, with the value of the route's one parameter; also where the caller never came to `handle`. */
  refused?(ctx: FlowContext, param: string, fault: Fault): void;
}

/** A route of the table, its own types forgotten. */
export type Route = Operation & Serving & { handle(call: Call): Promise<Answer> };

/** What becomes JSON of a shape: a time may still be a Date. */
type Sent<T> = T extends string
  ? string extends T
    ? T | Date
    : T
  : T extends object
    ? { readonly [K in keyof T]: Sent<T[K]> }
    : T;

/** What a handler of an operation answers: one of its statuses, with what the operation says of it. */
export type Reply<A extends Answers> = {
  [S in keyof A & number]: A[S] extends Schema
    ?
        | (Pick<Answer, 'headers'> & { readonly status: S; readonly body: Sent<Shape<A[S]>> })
        | (Pick<Answer, 'headers'> & { readonly status: S; readonly lines: AsyncIterable<Sent<Shape<A[S]>>> })
    : Answer & { readonly status: S };
}[keyof A & number];

type Handled<P extends string, Q, B> = Call<
  Q extends Schema ? v.InferOutput<Q> : Record<string, never>,
  B extends Schema ? v.InferOutput<B> : undefined,
  ParamNames<P>
>;

/** Joins an operation and its handler; inside it, parameters, query and body have the types that the operation gives. */
export function serve<P extends string, Q extends Schema | undefined, B extends Schema | undefined, A extends Answers>(
  operation: Operation<P, Q, B, A>,
  handle: (call: Handled<P, Q, B>) => Promise<Reply<A>>,
  serving: Serving = {},
): Route {
  // The server calls handle only with what the operation's own schemas and path have produced.
  return { ...operation, ...serving, handle } as unknown as Route;
}

type OldSpec<Q extends Schema | undefined, B extends Schema | undefined> = Omit<Operation<string, Q, B>, 'id' | 'tag'> &
  Serving & { handle(call: Handled<string, Q, B>): Promise<Answer> };

/** A route whose operation stands in the route itself, under a name made from its path. New ones go into schemas/api. */
export function defineRoute<
  const Q extends Schema | undefined = undefined,
  const B extends Schema | undefined = undefined,
>(spec: OldSpec<Q, B>): Route {
  const words = spec.path.replaceAll(/[^A-Za-z0-9]+(\w)?/g, (_, next: string | undefined) =>
    (next ?? '').toUpperCase(),
  );
  const tag = spec.path.split('/').findLast((part) => /^[a-z-]+$/.test(part)) ?? 'server';
  return { id: `${spec.method.toLowerCase()}${words}`, tag, ...spec } as unknown as Route;
}

/** 200 with JSON. */
export function ok<const T>(body: T): { readonly status: 200; readonly body: T } {
  return { status: 200, body };
}

/** What a change is asked for on, see `versioned` of its operation. */
export const conditionOf = ({ headers }: Pick<Call, 'headers'>): Condition => ({
  match: headers['if-match'],
  noneMatch: headers['if-none-match'],
});

/** An answer with the version of what it shows. */
export const tagged = <const T extends object>(
  version: number | string,
  answer: T,
): T & { readonly headers: { readonly etag: string } } => ({ ...answer, headers: { etag: versionTag(version) } });

/** 201 with JSON. */
export function created<const T>(body: T): { readonly status: 201; readonly body: T } {
  return { status: 201, body };
}

/** 202 with JSON. */
export function accepted<const T>(body: T): { readonly status: 202; readonly body: T } {
  return { status: 202, body };
}

/** 200 with server-sent events. */
export function streaming(stream: AsyncIterable<SseEvent>): { readonly status: 200; readonly stream: typeof stream } {
  return { status: 200, stream };
}

/** 200 with an object, and one more member of it whose JSON comes in pieces. */
export function okWith<const T extends object, N extends string>(
  body: T,
  name: N,
  value: Iterable<Uint8Array>,
): {
  readonly status: 200;
  readonly body: T & { readonly [name in N]: unknown };
  readonly pieces: Iterable<Uint8Array>;
} {
  function* pieces(): Generator<Uint8Array> {
    yield Buffer.from(`${JSON.stringify(body).slice(0, -1)},${JSON.stringify(name)}:`);
    yield* value;
    yield Buffer.from('}');
  }
  return { status: 200, body: body as T & { readonly [name in N]: unknown }, pieces: pieces() };
}

/** 204. */
export const noContent = { status: 204 } as const satisfies Answer;
