// An operation of the HTTP API as data: where it stands, who may call it, what it takes and what it answers. Each is
// stated once, in the file of its resource beside this one; the server, the OpenAPI document and the command line's
// client read the same record.

import * as v from 'valibot';
import type { Permission } from '../../internal/domain/permission.ts';

export type Schema = v.GenericSchema;
export type Answers = { readonly [status: number]: Schema | null };

export type Scope =
  /** No token. */
  | 'public'
  /** Any valid token. */
  | 'self'
  /** A token whose principal can see `:org`. */
  | 'org'
  /** A token whose principal can see `:project` of `:org`. */
  | 'project';

export interface Operation<
  P extends string = string,
  Q extends Schema | undefined = Schema | undefined,
  B extends Schema | undefined = Schema | undefined,
  A extends Answers = Answers,
> {
  /** `listRepositories`: its name in the OpenAPI document and in clients made from that. */
  readonly id: string;
  /** The resource that it belongs to; groups operations in the OpenAPI document. */
  readonly tag: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Parameters as `:name`; `/api/v1/orgs/:org/projects/:project/agents`. */
  readonly path: P;
  readonly summary: string;
  /** What the summary has no room for. */
  readonly description?: string;
  readonly scope: Scope;
  /** Null only for a public operation. */
  readonly permission: Permission | null;
  /** Strict object of strings; use `pageQuery` for a list. */
  readonly query?: Q;
  readonly body?: B;
  /** Headers beside the token that a caller may send, with what they are for. */
  readonly headers?: { readonly [name: string]: string };
  /** The handler gets the bytes as received, whatever the content type; no JSON is parsed. */
  readonly rawBody?: boolean;
  /** What a raw body holds, for readers: the server does not hold it against this. */
  readonly sends?: Schema;
  /** What `sends` is comes as a form (application/x-www-form-urlencoded). */
  readonly form?: boolean;
  /** Numbers of the body that a double cannot hold keep their digits, as in events. */
  readonly exactNumbers?: boolean;
  /** What is sent holds secrets: problems name no key that they do not expect. */
  readonly confidential?: boolean;
  /** The last parameter of the path takes what follows, with its slashes. */
  readonly tail?: boolean;
  /** Answers 200 with server-sent events. */
  readonly stream?: boolean;
  /** Answers 200 with JSON lines; the schema of that answer is a line's. */
  readonly lines?: boolean;
  /** Its thing has a version: answers with one carry it as ETag, and a change may name it in If-Match. */
  readonly versioned?: boolean;
  /** `Access-Control-Allow-Origin: *` and an answer to preflights. */
  readonly cors?: boolean;
  /** Status → schema of the JSON it answers, null for no JSON. Problems need not be listed. */
  readonly answers: A;
}

/** Declares an operation; its path, query, body and answers keep their own types. */
export function operation<
  const P extends string,
  const A extends Answers,
  const Q extends Schema | undefined = undefined,
  const B extends Schema | undefined = undefined,
>(spec: Operation<P, Q, B, A>): Operation<P, Q, B, A> {
  return spec;
}

/** Names of the parameters in a path. */
export type ParamNames<P extends string> = string extends P
  ? string
  : P extends `${string}:${infer Name}/${infer Rest}`
    ? Name | ParamNames<`/${Rest}`>
    : P extends `${string}:${infer Name}`
      ? Name
      : never;

type Deep<T> = T extends readonly (infer I)[]
  ? readonly Deep<I>[]
  : T extends object
    ? { readonly [K in keyof T]: Deep<T[K]> }
    : T;

/** What a value of a schema is, read-only all the way down. */
export type Shape<S extends Schema> = Deep<v.InferOutput<S>>;

/** What is given for a schema, before it is read. */
export type Given<S extends Schema> = Deep<v.InferInput<S>>;

/** Gives a shape its name: the component in the OpenAPI document, and the type in clients made from that. */
export function named<const S extends Schema>(name: string, shape: S) {
  return v.pipe(shape, v.metadata({ component: name }));
}

/** The name that `named` gave, undefined for a shape without one. */
export function nameOf(schema: Schema): string | undefined {
  const { component } = v.getMetadata(schema);
  return typeof component === 'string' ? component : undefined;
}

/** The answer of a list: a page of items, and the cursor of the next, null on the last. */
export function pageOf<const S extends Schema>(name: string, item: S) {
  return named(
    name,
    v.object({
      items: v.array(item),
      nextCursor: v.nullable(v.string()),
      total: v.optional(
        v.pipe(v.number(), v.integer(), v.description('How many there are on all pages; with counts=true.')),
      ),
    }),
  );
}

/** Most items of a page. */
export const pageLimitMax = 200;
/**
 * Entries for the strict query of a list, of which each can be asked for narrow rows, where it has any, and for how many
 * there are: `v.strictObject({...pageQuery, status: …})`.
 */
export const pageQuery = {
  limit: v.optional(
    v.pipe(
      v.string(),
      v.regex(/^[1-9]\d{0,2}$/, `Expected 1 to ${pageLimitMax}`),
      v.description(`Items of a page, 1 to ${pageLimitMax}; 50 where it is left out.`),
    ),
  ),
  cursor: v.optional(
    v.pipe(v.string(), v.maxLength(1_000), v.description('`nextCursor` of the page before, as it came.')),
  ),
  view: v.optional(v.pipe(v.literal('row'), v.description('`row`: without what a line of a table does not show.'))),
  counts: v.optional(v.pipe(v.picklist(['true', 'false']), v.description('`true`: `total` says how many there are.'))),
};
