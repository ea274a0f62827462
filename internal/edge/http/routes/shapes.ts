// Shapes of stored resources in answers, shared by the routes that show them and by the API's description.

import * as v from 'valibot';
import { type Page, readPage, readTextPage } from '../page.ts';
import { isExactNumber } from '../../../core/match/match.ts';
import { Fault } from '../../../domain/fault.ts';
import type { JsonObject } from '../../../domain/json.ts';

export const project = '/api/v1/orgs/:org/projects/:project';

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
export const isUuid = (text: string): boolean => uuid.test(text);

/** A member of a body that has to be a JSON object, with every key that it has. Throws Fault `invalid`. */
export function requireObject(value: unknown, member: string, why: string): JsonObject {
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value) && !isExactNumber(value);
  if (isObject) return value as JsonObject;
  throw new Fault('invalid', 'invalid-body', `The body is not as expected. ${member}: a JSON object, ${why}.`);
}

/** A page of a list whose key is an id. */
export function readIdPage(query: { limit?: string | undefined; cursor?: string | undefined }): {
  readonly limit: number;
  readonly before: string | undefined;
} {
  const { limit, after } = readTextPage(query);
  if (after !== undefined && !isUuid(after)) {
    throw new Fault('invalid', 'invalid-cursor', 'The cursor was not made by this list; start again without one.');
  }
  return { limit, before: after };
}

/** Who owns a resource: the repository of that name, or `manual`, which is whatever people applied by hand. */
export const owner = v.variant('kind', [
  v.object({ kind: v.literal('repository'), name: v.string() }),
  v.object({ kind: v.literal('manual') }),
]);

/** `repository` is a repository's name, or null for `manual`. */
export const ownerOf = (repository: string | null) =>
  repository === null ? { kind: 'manual' as const } : { kind: 'repository' as const, name: repository };

/** Context variables of a tree; numbers and booleans are taken as in a document's own `variables`. */
export const contextVariables = v.record(
  v.pipe(v.string(), v.regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'Expected a name of letters, digits and _')),
  v.union([v.string(), v.number(), v.boolean()]),
);
export const contextText = (context: v.InferOutput<typeof contextVariables>): { readonly [name: string]: string } =>
  Object.fromEntries(Object.entries(context).map(([name, value]) => [name, String(value)]));

export const json = v.record(v.string(), v.unknown());
export const timestamp = v.pipe(v.string(), v.isoTimestamp());
export const source = v.object({ file: v.string(), document: v.number() });
export const status = v.picklist(['active', 'skipped']);

export const change = v.object({ path: v.string(), from: v.unknown(), to: v.unknown() });
export const action = v.object({
  op: v.picklist(['create', 'update', 'delete', 'unchanged']),
  kind: v.picklist(['Agent', 'Environment', 'Identity']),
  name: v.string(),
  changes: v.array(change),
});
export const receipt = v.object({
  event: v.string(),
  endpoint: v.string(),
  ingestUrl: v.string(),
  status: v.literal('ready'),
});
export const diagnostic = v.object({
  severity: v.picklist(['error', 'warning']),
  code: v.string(),
  message: v.string(),
  file: v.optional(v.string()),
  line: v.optional(v.number()),
  column: v.optional(v.number()),
  endLine: v.optional(v.number()),
  endColumn: v.optional(v.number()),
  path: v.optional(v.string()),
  hint: v.optional(v.string()),
  excerpt: v.optional(v.string()),
  related: v.optional(
    v.array(v.object({ message: v.string(), file: v.string(), line: v.number(), column: v.number() })),
  ),
});

/** A page of a list whose key is an agent's name and an ordinal. */
export function readOrdinalPage(query: { limit?: string | undefined; cursor?: string | undefined }): {
  readonly limit: number;
  readonly after: readonly [agent: string, ordinal: number] | undefined;
} {
  const { limit, after }: Page = readPage(query);
  if (after === undefined) return { limit, after };
  const [agent, ordinal] = after;
  if (after.length !== 2 || typeof agent !== 'string' || !Number.isSafeInteger(ordinal)) {
    throw new Fault('invalid', 'invalid-cursor', 'The cursor was not made by this list; start again without one.');
  }
  return { limit, after: [agent, Number(ordinal)] };
}

/** What an intake answers for an event that it has recorded, now (`created`) or before. */
export const recorded = v.object({
  eventRecordId: v.string(),
  created: v.boolean(),
  routerStatus: v.picklist(['pending', 'routed', 'unmatched', 'failed']),
});
