// What the thin clients share: a page as a table, an object as lines, JSON as it is stored.

import { isExactNumber } from '../../core/match/match.ts';
import type { Client, RequestOptions } from './client.ts';
import { wholeNumber } from './input.ts';
import { type Cell, clean, cut, table } from './text.ts';
import type { Call } from './types.ts';

/** Fields of an answer, read without trusting their types. */
export interface Row {
  /** Text of a field; '-' where it is absent or null. */
  text(field: string): string;
  /** The field as it is. */
  raw(field: string): unknown;
}

export function rowOf(value: unknown): Row {
  const record = Object(value) as { readonly [field: string]: unknown };
  const raw = (field: string): unknown =>
    field
      .split('.')
      .reduce<unknown>(
        (at, step) => (at === null || at === undefined ? undefined : (Object(at) as { [key: string]: unknown })[step]),
        record,
      );
  return {
    raw,
    text: (field) => {
      const found = raw(field);
      if (found === null || found === undefined || found === '') return '-';
      return typeof found === 'string' ? found : JSON.stringify(found);
    },
  };
}

export interface ListSpec {
  readonly path: string;
  readonly query?: RequestOptions['query'];
  /** Default of --limit; absent: everything is listed. */
  readonly limit?: number;
  readonly empty: string;
  readonly head: readonly string[];
  readonly row: (row: Row) => readonly (string | Cell)[];
}

/** Reads the list and prints it. */
export async function showList(call: Call, client: Client, spec: ListSpec): Promise<number> {
  const limit = spec.limit === undefined ? undefined : (wholeNumber(call, 'limit', 1, 10_000) ?? spec.limit);
  const page = await client.list(spec.path, spec.query, limit);
  const { paint, width } = call.screen;
  call.screen.emit(page, () =>
    page.items.length === 0
      ? spec.empty
      : table(
          spec.head,
          page.items.map((item) => spec.row(rowOf(item))),
          { paint, width },
        ),
  );
  return 0;
}

/** JSON for people to read: one field a line, long strings as blocks, in the order given. */
export function jsonLines(value: unknown, indent = ''): string {
  if (value === null || typeof value !== 'object' || isExactNumber(value)) return scalarText(value, indent);
  const entries = Object.entries(value).filter(([, member]) => member !== undefined);
  if (entries.length === 0) return Array.isArray(value) ? '[]' : '{}';
  return entries
    .map(([key, member]) => {
      const nested =
        member !== null && typeof member === 'object' && !isExactNumber(member) && Object.keys(member).length > 0;
      const text = jsonLines(member, `${indent}  `);
      const name = Array.isArray(value) ? '-' : `${clean(key, true)}:`;
      if (!nested) return `${indent}${name} ${text}`;
      return Array.isArray(value) ? `${indent}- ${text.trimStart()}` : `${indent}${name}\n${text}`;
    })
    .join('\n');
}

function scalarText(value: unknown, indent: string): string {
  if (typeof value !== 'string') return JSON.stringify(value) ?? 'null';
  if (!value.includes('\n')) return isPlain(value) ? value : clean(JSON.stringify(value), true);
  return `|\n${clean(value.replace(/\n$/, '')).replace(/^(?=.)/gm, indent)}`;
}

// Text that nobody could take for a number, a word of JSON or a line of its own.
const isPlain = (text: string): boolean =>
  /^[\w./@+$][\w./@:+ -]*$/.test(text) && !/: |[: ]$|^(true|false|null)$/.test(text) && Number.isNaN(Number(text));

export const short = (text: string, width = 60): string => cut(clean(text, true), width);
