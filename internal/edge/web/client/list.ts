// A list: a page of fifty from the API by its cursor, filters in the address and on the server, and nothing that moves
// under the reader. A row that is shown changes where it stands; rows that are new wait behind a button.

import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { call } from './api.ts';
import { quoted } from './command.ts';
import {
  capital,
  Command,
  type Content,
  Empty,
  Failure,
  Field,
  html,
  kindOf,
  type Markup,
  Status,
  Time,
  useRead,
} from './kit.ts';
import { type Topic, useDue, useLive, usePolled } from './live.ts';
import { pageHref, type PageProps, type Place, setQuery } from './pages.ts';

export interface Filter {
  /** Of the API and of the address. */
  readonly field: string;
  readonly label: string;
  /** Absent: free text. */
  readonly options?: readonly string[];
  /** What stands for no choice, `any` where absent, and what the options are called where not by themselves. */
  readonly none?: string;
  readonly words?: { readonly [option: string]: string };
  /** What free text looks like. */
  readonly example?: string;
  /** Of the command line, where it is not the field's; null: it has none. */
  readonly option?: string | null;
}

export interface ListColumn<R> {
  readonly title: string;
  readonly cell: (row: R, place: Place) => Content;
}

export interface List<R> {
  /** The page's name, as in its address. */
  readonly page: string;
  readonly title: string;
  /** The singular, as in `row-{kind}-{id}`. */
  readonly kind: string;
  readonly idOf: (row: R) => string;
  readonly columns: readonly ListColumn<R>[];
  readonly filters?: readonly Filter[];
  /** Below the project's API; the page's name where it is absent. */
  readonly path?: string;
  /** Where it is read from, where that is not in the project's API. */
  readonly address?: (place: Place) => string;
  /** Members of the query that are always sent: `view=row`. */
  readonly fixed?: { readonly [name: string]: string };
  /** Whether the API counts it: `counts=true`. */
  readonly isCounted?: boolean;
  /** Absent, with `slowly`: no topic tells of it, and it is read again every few seconds. */
  readonly topics?: readonly Topic[];
  /** Topics whose changes are seen within seconds. */
  readonly slowly?: readonly Topic[];
  /** When a row changes by the clock, of which nothing tells. */
  readonly dueAt?: (row: R) => string | null;
  /** The same on the command line, without its filters. */
  readonly command: string;
  readonly empty: string;
  /** Of what a row leads to; absent: its detail page, null: nothing. */
  readonly href?: ((row: R, place: Place) => string) | null;
  /** Above the table. */
  readonly above?: (props: PageProps) => Content;
  /** Before its filters, in their line. */
  readonly choice?: () => Content;
  /** What the pages after and before this one are called, where rows do not stand by age. */
  readonly pages?: readonly [after: string, before: string];
}

interface ListAnswer<R> {
  readonly items: readonly R[];
  readonly nextCursor: string | null;
  readonly total?: number;
}

/** A state of the API: shape, word and colour. */
export const statusCell = (word: string | null | undefined): Content =>
  word === null || word === undefined ? '–' : html`<${Status} kind=${kindOf(word)} text=${word} />`;
export const timeCell = (at: string | null | undefined): Content =>
  at === null || at === undefined ? '–' : html`<${Time} at=${at} />`;
/** Short enough for a row; the whole where it is pointed at. */
export const shortCell = (text: string | null | undefined, most = 8): Content =>
  text === null || text === undefined
    ? '–'
    : html`<code class="short" title=${text}>${text.length > most ? text.slice(0, most) : text}</code>`;

const pageSize = 50;
const addressOf = <R>(list: List<R>, place: Place): string =>
  list.address?.(place) ?? `${place.api}/${list.path ?? list.page}`;

function queryOf<R>(list: List<R>, query: URLSearchParams): string {
  const asked = new URLSearchParams({ limit: String(pageSize), ...list.fixed });
  for (const { field } of list.filters ?? []) {
    const value = query.get(field);
    if (value !== null && value !== '') asked.set(field, value);
  }
  const cursor = query.get('cursor');
  if (cursor !== null) asked.set('cursor', cursor);
  return asked.toString();
}

function commandOf<R>(list: List<R>, query: URLSearchParams): string {
  const flags = (list.filters ?? []).flatMap(({ field, option = field }) => {
    const value = query.get(field) ?? '';
    if (value === '' || value === 'false' || option === null) return [];
    return value === 'true' ? [`--${option}`] : [`--${option}${value.startsWith('-') ? '=' : ' '}${quoted(value)}`];
  });
  return [list.command, ...flags].join(' ');
}

/**
 * What has come to a page of a list since it was shown, and what has gone from it: a row is gone where one that stood behind
 * it is still there, or the page is the last. One that is merely pushed out by those before it is not, and what moves up
 * from the next page is not new. Where rows overtake each other, only the last page tells.
 */
function compare(
  shown: readonly string[],
  latest: readonly string[],
  { isRead, isLast, keepsOrder }: { readonly [fact in 'isRead' | 'isLast' | 'keepsOrder']: boolean },
) {
  const isThere = new Set(latest);
  const isShown = new Set(shown);
  const lastKept = shown.findLastIndex((id) => isThere.has(id));
  const isGone = (id: string, index: number): boolean =>
    isRead && !isThere.has(id) && (isLast || (keepsOrder && index < lastKept));
  const gone = shown.filter(isGone);
  const end = latest.indexOf(shown[lastKept] ?? '');
  const isMovedUp = (index: number): boolean => shown.length >= pageSize && end !== -1 && index > end;
  const waiting = shown.length === 0 ? [] : latest.filter((id, index) => !isShown.has(id) && !isMovedUp(index));
  return { waiting, gone: new Set(gone) };
}

/** When the first of the rows is due, in milliseconds; never, where none is. */
const firstDue = <R>({ dueAt }: List<R>, rows: readonly R[]): number =>
  Math.min(...rows.map((row) => Date.parse(dueAt?.(row) ?? '') || Number.POSITIVE_INFINITY));

/** The rows of a page of a list as they are shown, what waits, and what has gone. */
function useRows<R>(list: List<R>, { place, query }: PageProps) {
  const asked = queryOf(list, query);
  const path = addressOf(list, place);
  const read = useRead((signal) => call<ListAnswer<R>>('GET', `${path}?${asked}`, { signal }), `${path}?${asked}`);
  const [shown, setShown] = useState<{
    readonly key: string;
    readonly ids: readonly string[];
    readonly rows: ReadonlyMap<string, R>;
  }>();
  const { value } = read;
  const latest = new Map((value?.items ?? []).map((row) => [list.idOf(row), row]));
  useEffect(() => {
    if (value === undefined) return;
    setShown((before) => {
      if (before === undefined || before.key !== asked || before.ids.length === 0)
        return { key: asked, ids: [...latest.keys()], rows: latest };
      // What has gone from the page because newer ones pushed it out stays as it was seen.
      const rows = new Map(before.ids.map((id) => [id, latest.get(id) ?? before.rows.get(id)] as const));
      return { key: asked, ids: before.ids, rows: rows as ReadonlyMap<string, R> };
    });
  }, [value]);
  useLive(list.topics ?? [], read.again, undefined, list.slowly);
  usePolled(read.again, list.topics === undefined && list.slowly === undefined);
  useDue(firstDue(list, value?.items ?? []), read.again);
  const [round, setRound] = useState(0);
  const isCurrent = shown !== undefined && shown.key === asked;
  const ids = isCurrent ? shown.ids : [];
  const next = value?.nextCursor ?? null;
  const { waiting, gone } = compare(ids, [...latest.keys()], {
    isRead: value !== undefined,
    isLast: next === null,
    keepsOrder: list.pages === undefined,
  });
  const release = (): void => {
    setShown({ key: asked, ids: [...latest.keys()], rows: latest });
    setRound((before) => before + 1);
  };
  const rows = isCurrent ? ids.flatMap((id) => shown.rows.get(id) ?? []) : [];
  return { rows, waiting, gone, release, round, isRead: isCurrent, error: read.error, next, asked };
}

/** How many there are in all, read after the rows, and again when the reader takes what has changed among them. */
function useTotal<R>(list: List<R>, place: Place, { asked, isRead, round }: ReturnType<typeof useRows<R>>) {
  const [total, setTotal] = useState<number | undefined>(undefined);
  useEffect(() => setTotal(undefined), [asked]);
  useEffect(() => {
    if (list.isCounted !== true || !isRead) return undefined;
    const stop = new AbortController();
    const query = new URLSearchParams(asked);
    query.delete('cursor');
    query.set('limit', '1');
    query.set('counts', 'true');
    call<ListAnswer<R>>('GET', `${addressOf(list, place)}?${query}`, { signal: stop.signal }).then(
      (answer) => setTotal(answer.total),
      // The rows say what is wrong, if anything is.
      () => undefined,
    );
    return () => stop.abort();
  }, [asked, isRead, round]);
  return total;
}

function Filters(props: {
  readonly filters: readonly Filter[];
  readonly choice: Content;
  readonly query: URLSearchParams;
}): Markup {
  const change = (field: string) => (event: Event) =>
    setQuery({ [field]: (event.currentTarget as HTMLInputElement | HTMLSelectElement).value.trim() });
  return html`<form class="filters" aria-label="Filters" onSubmit=${(event: Event) => event.preventDefault()}>${props.choice}
    ${props.filters.map(({ field, label, options, none = 'any', words, example }) => {
      const value = props.query.get(field) ?? '';
      const input =
        options === undefined
          ? html`<${TextFilter} field=${field} value=${value} example=${example} onChange=${change(field)} />`
          : html`<select value=${value} data-testid=${`filter-${field}`} onChange=${change(field)}><option value="">${none}</option>
            ${options.map((one) => html`<option value=${one} selected=${one === value}>${words?.[one] ?? one}</option>`)}</select>`;
      return html`<${Field} label=${label}>${input}<//>`;
    })}
  </form>`;
}

/** What is typed and not asked for yet stays while rows come in; another value of the address takes its place. */
function TextFilter(props: {
  readonly field: string;
  readonly value: string;
  readonly example: string | undefined;
  readonly onChange: (event: Event) => void;
}): Markup {
  const { field, value, example, onChange } = props;
  const input = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => {
    if (input.current !== null) input.current.value = value;
  }, [value]);
  return html`<input ref=${input} type="search" placeholder=${example} data-testid=${`filter-${field}`} autocomplete="off" spellcheck=${false} onChange=${onChange} />`;
}

function Row<R>(props: {
  readonly list: List<R>;
  readonly row: R;
  readonly place: Place;
  /** Where it stands among all rows, where not all of them are in the document. */
  readonly at: number | undefined;
  /** Said of a row that is no part of the list any more. */
  readonly gone: string | undefined;
}): Markup {
  const { list, row, place, gone } = props;
  const id = list.idOf(row);
  const href = list.href === null ? undefined : (list.href?.(row, place) ?? pageHref(place, list.page, id));
  return html`<tr data-testid=${`row-${list.kind}-${id}`} data-row class=${gone === undefined ? undefined : 'gone'} tabIndex=${-1} aria-rowindex=${props.at}>
    ${list.columns.map(({ title, cell }, index) => {
      const content = cell(row, place);
      return html`<td data-title=${capital(title)}>${index === 0 && href !== undefined ? html`<a href=${href}>${content}</a>` : content}${index > 0 || gone === undefined ? null : html` <${Status} kind="off" text=${gone} />`}</td>`;
    })}</tr>`;
}

/** Pages before this one, as far as this document knows them. */
type Step = { readonly before?: readonly (string | null)[] } | null;

/** Rows before those of a page; undefined where a reader came to it by its address alone. */
function rowsBefore(cursor: string | null): number | undefined {
  const before = (history.state as Step)?.before ?? [];
  return cursor === null ? 0 : before[0] === null ? before.length * pageSize : undefined;
}

function Pager(props: {
  readonly next: string | null;
  readonly cursor: string | null;
  readonly names: readonly [after: string, before: string];
  /** The button that was pressed goes with the page: the focus has to stand somewhere else. */
  readonly onStep: () => void;
}): Markup {
  const { next, cursor, names, onStep } = props;
  const before = (history.state as Step)?.before ?? [];
  const older = (): void => {
    setQuery({ cursor: next });
    history.replaceState({ before: [...before, cursor] } satisfies Step, '', location.href);
    onStep();
  };
  const newer = (): void => {
    setQuery({ cursor: before.at(-1) ?? null });
    history.replaceState({ before: before.slice(0, -1) } satisfies Step, '', location.href);
    onStep();
  };
  return html`<p class="pager">
    ${cursor === null ? null : html`<button type="button" data-testid="page-newer" onClick=${newer}>${names[1]}</button>`}
    ${next === null ? null : html`<button type="button" data-testid="page-older" onClick=${older}>${names[0]}</button>`}</p>`;
}

export function ListPage<R>(props: PageProps & { readonly list: List<R> }): Markup {
  const { list, place, query } = props;
  const shown = useRows(list, props);
  const { error } = shown;
  const total = useTotal(list, place, shown);
  const heading = useRef<HTMLHeadingElement>(null);
  return html`<section data-testid=${`page-${list.page}`}>
    <div class="title"><h1 ref=${heading} tabIndex=${-1}>${list.title}</h1>${total === undefined ? null : html`<span data-testid="total">${total.toLocaleString('en')} in all</span>`}
      <${Command} command=${commandOf(list, query)} /></div>
    ${error === undefined ? null : html`<${Failure} error=${error} />`}
    ${list.above?.(props)}
    ${list.filters === undefined ? null : html`<${Filters} filters=${list.filters} choice=${list.choice?.()} query=${query} />`}
    <${Shown} list=${list} place=${place} query=${query} shown=${shown} total=${total} onRelease=${() => heading.current?.focus()} /></section>`;
}

/** A list as a part of another page, without a heading of its own; nothing of it is in that page's address but its cursor. */
export function ListPart<R>(props: PageProps & { readonly list: List<R> }): Markup {
  const { list, place, query } = props;
  const shown = useRows(list, props);
  const part = useRef<HTMLDivElement>(null);
  return html`<div ref=${part} tabIndex=${-1}>${shown.error === undefined ? null : html`<${Failure} error=${shown.error} />`}
    <${Shown} list=${list} place=${place} query=${query} shown=${shown} onRelease=${() => part.current?.focus()} /></div>`;
}

interface ShownProps<R> {
  readonly list: List<R>;
  readonly place: Place;
  readonly query: URLSearchParams;
  readonly shown: ReturnType<typeof useRows<R>>;
  /** Rows in all, where that is known. */
  readonly total?: number | undefined;
  /** What had the focus has gone with what is shown instead: it has to stand somewhere else. */
  readonly onRelease: () => void;
}

/** The rows of a page of a list, what waits above them, and the way to the others. */
function Shown<R>(props: ShownProps<R>): Markup {
  const { list, place, query } = props;
  const { rows, waiting, gone, release, isRead, error, next } = props.shown;
  const cursor = query.get('cursor');
  // Not all rows are in the document: who hears them hears how many there are, and where each stands. The first is the head.
  const isPart = props.total !== undefined && (cursor !== null || next !== null);
  const before = isPart ? rowsBefore(cursor) : undefined;
  const showNew = (): void => {
    // Newer rows stand on the first page.
    if (cursor === null) release();
    else setQuery({ cursor: null });
    props.onRelease();
  };
  const isFiltered = (list.filters ?? []).some(({ field }) => (query.get(field) ?? '') !== '');
  // What is no filter stays: what the sums are grouped by, or the page that the list is a part of.
  const unfiltered = (): void => {
    setQuery(Object.fromEntries((list.filters ?? []).map(({ field }) => [field, null] as const)));
    props.onRelease();
  };
  const news = [
    ...(waiting.length === 0 ? [] : [`${waiting.length} new`]),
    ...(gone.size === 0 ? [] : [`${gone.size} gone`]),
  ].join(', ');
  const goneText = isFiltered ? 'matches no more' : 'gone';
  return html`<div>
    <div class="news" role="status">${news === '' || cursor !== null ? null : html`<button type="button" class="primary" data-testid="new-rows" onClick=${showNew}>${news}</button>`}</div>
    ${
      !isRead
        ? error === undefined
          ? html`<p class="empty">Reading…</p>`
          : null
        : rows.length === 0
          ? html`<div><${Empty} text=${isFiltered ? 'Nothing matches the filters.' : list.empty} />${isFiltered ? html`<button type="button" onClick=${unfiltered}>Without filters</button>` : null}</div>`
          : html`<div class="scroll" role="region" aria-label=${list.title} tabIndex=${0}><table class="rows" aria-label=${list.title} aria-rowcount=${isPart ? (props.total ?? 0) + 1 : undefined}>
            <thead><tr aria-rowindex=${before === undefined ? undefined : 1}>${list.columns.map(({ title }) => html`<th scope="col">${capital(title)}</th>`)}</tr></thead>
            <tbody>${rows.map((row, index) => html`<${Row} key=${list.idOf(row)} list=${list} row=${row} place=${place} at=${before === undefined ? undefined : before + index + 2} gone=${gone.has(list.idOf(row)) ? goneText : undefined} />`)}</tbody></table></div>`
    }
    ${isRead ? html`<${Pager} next=${next} cursor=${cursor} names=${list.pages ?? ['Older', 'Newer']} onStep=${props.onRelease} />` : null}
  </div>`;
}
