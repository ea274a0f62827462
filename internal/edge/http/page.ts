// Pages of a list: `limit` 1 to 200 and an opaque `cursor`; an answer is `{items, nextCursor}` (docs/reference/http-api.md#conventions).

import { pageLimitMax } from '../../../schemas/api/operation.ts';
import { Fault } from '../../domain/fault.ts';
import { messagesTable } from '../../domain/messages.ts';

const limitDefault = 50;

export interface Page {
  readonly limit: number;
  /** What `cursorOf` was given for the last item of the page before. */
  readonly after: readonly (string | number)[] | undefined;
}

/** Reads the two; throws Fault `invalid` for a limit out of range or a cursor that was not made here. */
export function readPage(query: { limit?: string | undefined; cursor?: string | undefined }): Page {
  const limit = query.limit === undefined ? limitDefault : Number(query.limit);
  if (limit > pageLimitMax)
    throw new Fault('invalid', 'invalid-query', `The query is not as expected. limit: Expected 1 to ${pageLimitMax}`);
  return { limit, after: query.cursor === undefined ? undefined : readCursor(query.cursor) };
}

/** Like `readPage`, for a list whose key is one number. */
export function readNumberPage(query: { limit?: string | undefined; cursor?: string | undefined }): {
  limit: number;
  before?: number;
} {
  const { limit, after } = readPage(query);
  if (after === undefined) return { limit };
  const [before] = after;
  if (after.length !== 1 || typeof before !== 'number' || !Number.isSafeInteger(before)) throw badCursor();
  return { limit, before };
}

/** Like `readPage`, for a list whose key is one text. */
export function readTextPage(query: { limit?: string | undefined; cursor?: string | undefined }): {
  limit: number;
  after?: string;
} {
  const { limit, after } = readPage(query);
  if (after === undefined) return { limit };
  const [text] = after;
  if (after.length !== 1 || typeof text !== 'string') throw badCursor();
  return { limit, after: text };
}

/**
 * The answer for a page. Ask the store for `limit + 1` rows: the extra one says that there is more.
 * `keyOf` gives what the store needs to go on behind an item; `isCut`: there are more, though they are not that many.
 */
export function pageOf<R, T>(
  rows: readonly R[],
  limit: number,
  keyOf: (row: R) => readonly (string | number)[],
  show: (row: R) => T,
  isCut = false,
): { items: T[]; nextCursor: string | null } {
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  const more = (rows.length > limit || isCut) && last !== undefined;
  return {
    items: shown.map(show),
    nextCursor: more ? cursorOf(keyOf(last)) : null,
  };
}

/** A cursor behind the item of this key. */
export const cursorOf = (key: readonly (string | number)[]): string =>
  Buffer.from(JSON.stringify(key)).toString('base64url');

function badCursor(): Fault {
  return new Fault('invalid', 'invalid-cursor', messagesTable.foreignCursor);
}

function readCursor(text: string): readonly (string | number)[] {
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(text, 'base64url').toString('utf8'));
  } catch {
    throw badCursor();
  }
  if (
    !Array.isArray(value) ||
    !value.every((part) => typeof part === 'number' || (typeof part === 'string' && !part.includes('\0')))
  ) {
    throw badCursor();
  }
  return value;
}
