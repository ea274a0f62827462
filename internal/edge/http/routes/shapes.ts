// What several routes share: reading parts of a request, and showing parts of an answer.

import type * as v from 'valibot';
import type { contextVariables } from '../../../../schemas/api/common.ts';
import { type Page, readPage, readTextPage } from '../page.ts';
import { isExactNumber } from '../../../core/match/match.ts';
import { Fault } from '../../../domain/fault.ts';
import type { JsonObject } from '../../../domain/json.ts';
import { messagesTable } from '../../../domain/messages.ts';
import { isUuid } from '../../../domain/uuid.ts';
import type { Actor } from '../../../flows/context.ts';

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
    throw new Fault('invalid', 'invalid-cursor', messagesTable.foreignCursor);
  }
  return { limit, before: after };
}

/** `repository` is a repository's name, or null for `manual`. */
export const ownerOf = (repository: string | null) =>
  repository === null ? { kind: 'manual' as const } : { kind: 'repository' as const, name: repository };

export const contextText = (context: v.InferOutput<typeof contextVariables>): { readonly [name: string]: string } =>
  Object.fromEntries(Object.entries(context).map(([name, value]) => [name, String(value)]));

/** A page of a list whose key is an agent's name and an ordinal. */
export function readOrdinalPage(query: { limit?: string | undefined; cursor?: string | undefined }): {
  readonly limit: number;
  readonly after: readonly [agent: string, ordinal: number] | undefined;
} {
  const { limit, after }: Page = readPage(query);
  if (after === undefined) return { limit, after };
  const [agent, ordinal] = after;
  if (after.length !== 2 || typeof agent !== 'string' || !Number.isSafeInteger(ordinal)) {
    throw new Fault('invalid', 'invalid-cursor', messagesTable.foreignCursor);
  }
  return { limit, after: [agent, Number(ordinal)] };
}

/** Who acts, with why: `recordAudit` keeps it with whatever the act leaves. */
export const withReason = (actor: Actor, { reason }: { readonly reason?: string }): Actor =>
  reason === undefined || reason.trim() === '' ? actor : { ...actor, reason: reason.trim() };

/** Of a list's answer: how many there are, where it was asked for. */
export const counted = (total: number | undefined) => (total === undefined ? {} : { total });
