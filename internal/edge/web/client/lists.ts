// Pages that are plain lists without more: their columns as data. A page that grows gets a module of its own.

import { Command, html, kindOf, type Markup, Status, Time } from './kit.ts';
import { type List, ListPage } from './list.ts';
import type { PageProps } from './pages.ts';

type Row = { readonly [key: string]: unknown };
type Columns = readonly (readonly [title: string, key: string, as?: 'time' | 'status'])[];

const text = (value: unknown): string =>
  value === null || value === undefined ? '–' : typeof value === 'object' ? JSON.stringify(value) : String(value);
const byName = (row: Row): string => text(row['name']);
const byId = (row: Row): string => text(row['id']);

function cell(key: string, as: 'time' | 'status' | undefined) {
  return (row: Row) => {
    const value = row[key];
    if (as === 'time' && typeof value === 'string') return html`<${Time} at=${value} />`;
    if (as === 'status' && typeof value === 'string') return html`<${Status} kind=${kindOf(value)} text=${value} />`;
    return text(value);
  };
}

interface Given extends Pick<List<Row>, 'kind' | 'command' | 'topics' | 'filters'> {
  readonly idOf?: (row: Row) => string;
  readonly columns: Columns;
  readonly hasDetail?: boolean;
}

const given: { readonly [page: string]: Given } = {
  sessions: {
    kind: 'session',
    columns: [
      ['agent', 'agent'],
      ['state', 'state', 'status'],
      ['title', 'displayTitle'],
      ['created', 'createdAt', 'time'],
    ],
    command: 'svc session list',
    topics: ['sessions'],
    hasDetail: true,
  },
  agents: {
    kind: 'agent',
    idOf: byName,
    columns: [
      ['name', 'name'],
      ['revision', 'revision'],
    ],
    command: 'svc agent list',
    topics: ['agents'],
    hasDetail: true,
  },
  triggers: {
    kind: 'trigger',
    idOf: (row) => `${text(row['agent'])}-${text(row['ordinal'])}`,
    columns: [
      ['agent', 'agent'],
      ['kind', 'kind'],
      ['event', 'event'],
      ['status', 'status', 'status'],
    ],
    command: 'svc trigger list',
  },
  repositories: {
    kind: 'repository',
    idOf: byName,
    columns: [
      ['name', 'name'],
      ['branch', 'branch'],
      ['url', 'url'],
    ],
    command: 'svc repo list',
    topics: ['reconciles'],
    hasDetail: true,
  },
  reconciles: {
    kind: 'reconcile',
    columns: [
      ['repository', 'repository'],
      ['commit', 'commit'],
      ['status', 'status', 'status'],
      ['started', 'startedAt', 'time'],
    ],
    command: 'svc reconcile list',
    topics: ['reconciles'],
    hasDetail: true,
  },
  events: {
    kind: 'event',
    columns: [
      ['key', 'key'],
      ['status', 'routerStatus', 'status'],
      ['received', 'receivedAt', 'time'],
    ],
    command: 'svc event list',
    topics: ['events'],
    hasDetail: true,
  },
};

const listOf = (page: string, { columns, hasDetail, idOf = byId, ...rest }: Given): List<Row> => ({
  ...rest,
  page,
  title: `${page.slice(0, 1).toUpperCase()}${page.slice(1)}`,
  idOf,
  columns: columns.map(([title, key, as]) => ({ title, cell: cell(key, as) })),
  empty: 'Nothing yet.',
  ...(hasDetail !== true && { href: null }),
});

/** The page of this name: a list, or what the command line shows of it. */
export function plainPage(name: string): { readonly Page: (props: PageProps) => Markup } {
  const found = given[name];
  if (found !== undefined) {
    const list = listOf(name, found);
    return { Page: (props) => html`<${ListPage} ...${props} list=${list} />` };
  }
  return {
    Page: ({ id }) => html`<section data-testid=${`page-${name}`}><h1>${id === '' ? name : id}</h1>
      <p>The command line shows this: <${Command} command=${id === '' ? `svc ${name}` : `svc ${name} show ${id}`} /></p></section>`,
  };
}
