// What the thin clients share: a page as a table, an object as lines, JSON as it is stored.

import type { Answers, Operation, Schema } from '../../../schemas/api/operation.ts';
import { isExactNumber } from '../../core/match/match.ts';
import type { Answered, Client, Input, Page } from './client.ts';
import { refusal } from './failure.ts';
import { wholeNumber } from './input.ts';
import { type Cell, clean, cut, table } from './text.ts';
import type { Call } from './types.ts';

/** Dotted paths to the members of a shape. */
type Paths<T> = T extends readonly unknown[]
  ? never
  : T extends object
    ? { [K in keyof T & string]: K | `${K}.${Paths<NonNullable<T[K]>>}` }[keyof T & string]
    : never;
type At<T, P extends string> = T extends unknown
  ? P extends `${infer K}.${infer Rest}`
    ? K extends keyof T
      ? At<NonNullable<T[K]>, Rest>
      : undefined
    : P extends keyof T
      ? T[P]
      : undefined
  : never;

/** Members of an answer by their paths, which the shape of the answer has; an older server may leave one out. */
export interface Row<T> {
  readonly value: T;
  /** Text of a member; '-' where it is absent or null. */
  text(field: Paths<T>): string;
  /** The member as it is. */
  at<const P extends Paths<T>>(field: P): At<T, P> | undefined;
}

export function rowOf<T>(value: T): Row<T> {
  const record = Object(value) as { readonly [field: string]: unknown };
  const at = (field: string): unknown =>
    field
      .split('.')
      .reduce<unknown>(
        (found, step) =>
          found === null || found === undefined ? undefined : (Object(found) as { [key: string]: unknown })[step],
        record,
      );
  return {
    value,
    at: at as Row<T>['at'],
    text: (field) => {
      const found = at(field);
      if (found === null || found === undefined || found === '') return '-';
      return typeof found === 'string' ? found : JSON.stringify(found);
    },
  };
}

export interface ListSpec<P extends string, Q extends Schema | undefined, A extends Answers> {
  readonly operation: Operation<P, Q, undefined, A>;
  /** Absent: everything is listed as it stands. */
  readonly input?: Input<P, Q, undefined>;
  /** Default of --limit; absent: everything is listed. */
  readonly limit?: number;
  readonly empty: string;
  readonly head: readonly string[];
  readonly row: (row: Row<ListItem<A>>) => readonly (string | Cell)[];
  /** Columns more, with `-o wide`. */
  readonly wide?: {
    readonly head: readonly string[];
    readonly row: (row: Row<ListItem<A>>) => readonly (string | Cell)[];
  };
  /** The agent that an item belongs to, for `--selector`. */
  readonly agentOf?: (row: Row<ListItem<A>>) => string;
  /** The agent whose items are asked for: one that is not there is refused rather than told to have none. */
  readonly ofAgent?: string | undefined;
  /** Asked where nothing is found; throws where that would mislead. */
  readonly whenEmpty?: () => Promise<void>;
  /** Which items are meant, beside what the server filters. */
  readonly keep?: (row: Row<ListItem<A>>) => boolean;
}
export type ListItem<A extends Answers> = Answered<A> extends { readonly items: readonly (infer I)[] } ? I : never;

/** Reads the list and prints it; with --watch goes on to print what changes. */
export async function showList<P extends string, Q extends Schema | undefined, A extends Answers>(
  call: Call,
  client: Client,
  spec: ListSpec<P, Q, A>,
): Promise<number> {
  const limit = spec.limit === undefined ? undefined : (wholeNumber(call, 'limit', 1, 10_000) ?? spec.limit);
  const read = await readerOf(call, client, spec, limit);
  const { paint, width, format } = call.screen;
  const wide = format === 'wide' ? spec.wide : undefined;
  const head = [...spec.head, ...(wide?.head ?? [])];
  const rows = (items: readonly ListItem<A>[]) =>
    items.map((item) => [...spec.row(rowOf(item)), ...(wide?.row(rowOf(item)) ?? [])]);
  const page = await read();
  if (page.items.length === 0 && spec.ofAgent !== undefined) {
    const { requireAgent } = await import('./selector.ts');
    await requireAgent(client, spec.ofAgent);
  }
  if (page.items.length === 0) await spec.whenEmpty?.();
  const text = (): string => (page.items.length === 0 ? spec.empty : table(head, rows(page.items), { paint, width }));
  if (!call.flag('watch')) {
    call.screen.emit(page, text);
    return 0;
  }
  const { watchList } = await import('./watch.ts');
  const isFiltered = call.list('selector').length > 0 || spec.keep !== undefined || hasFilter(spec.input);
  return watchList(call, {
    first: page.items,
    read: async (most) => (await read(most)).items,
    text,
    limit,
    isFiltered,
    head,
    rows,
  });
}

/** Members of a query that choose how much is told of a thing, not which things. */
const views: ReadonlySet<string> = new Set(['view', 'origins', 'matches']);

function hasFilter(input: object | undefined): boolean {
  const { query } = Object(input) as { readonly query?: { readonly [name: string]: unknown } };
  return Object.entries(query ?? {}).some(([name, value]) => value !== undefined && !views.has(name));
}

/** Reads what is meant: filtered by the server, and here by labels and by name where the command takes these. */
async function readerOf<P extends string, Q extends Schema | undefined, A extends Answers>(
  call: Call,
  client: Client,
  spec: ListSpec<P, Q, A>,
  limit: number | undefined,
): Promise<(most?: number) => Promise<Page<ListItem<A>>>> {
  const { agentOf } = spec;
  const selectors = call.list('selector');
  const only = call.only;
  if (selectors.length === 0 && only === undefined && spec.keep === undefined)
    return (most = limit) => client.list(spec.operation, spec.input, most) as Promise<Page<ListItem<A>>>;
  const { agentsWith, isCalled } = await import('./selector.ts');
  return async (most = limit) => {
    const agents = selectors.length === 0 || agentOf === undefined ? undefined : await agentsWith(client, selectors);
    const page = (await client.list(spec.operation, spec.input)) as Page<ListItem<A>>;
    const items = page.items.filter((item) => {
      const row = rowOf(item);
      if (agents !== undefined && agentOf !== undefined && !agents.has(agentOf(row))) return false;
      return (only === undefined || isCalled(item, only)) && (spec.keep?.(row) ?? true);
    });
    if (only !== undefined && items.length === 0)
      throw refusal('not-found', `there is no ${call.command.words[0]} ${only}`);
    return { items: most === undefined ? items : items.slice(0, most), nextCursor: null };
  };
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
