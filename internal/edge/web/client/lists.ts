// Lists that are read only: a page of fifty from the API, older ones when asked for.

import { useEffect, useState } from 'preact/hooks';
import type { Place } from './app.ts';
import { call } from './api.ts';
import { html, type Markup } from './html.ts';
import { Empty, Failure, Status, Table, Time } from './kit.ts';

type Row = { readonly [key: string]: unknown };

export interface List {
  readonly name: string;
  /** The singular, as in `row-{kind}-{id}`. */
  readonly kind: string;
  readonly id: (row: Row) => string;
  readonly columns: readonly (readonly [title: string, key: string, as?: 'time' | 'status'])[];
  readonly command: string;
}

const byName = (row: Row): string => text(row['name']);
const byId = (row: Row): string => text(row['id']);
const text = (value: unknown): string =>
  value === null || value === undefined ? '–' : typeof value === 'object' ? JSON.stringify(value) : String(value);

export const lists: { readonly [page: string]: List } = {
  events: {
    name: 'events',
    kind: 'event',
    id: byId,
    columns: [
      ['key', 'key'],
      ['status', 'routerStatus', 'status'],
      ['received', 'receivedAt', 'time'],
      ['id', 'id'],
    ],
    command: 'svc event list',
  },
  sessions: {
    name: 'sessions',
    kind: 'session',
    id: byId,
    columns: [
      ['agent', 'agent'],
      ['state', 'state', 'status'],
      ['title', 'displayTitle'],
      ['created', 'createdAt', 'time'],
    ],
    command: 'svc session list',
  },
  agents: {
    name: 'agents',
    kind: 'agent',
    id: byName,
    columns: [
      ['name', 'name'],
      ['revision', 'revision'],
    ],
    command: 'svc agent list',
  },
  triggers: {
    name: 'triggers',
    kind: 'trigger',
    id: (row) => `${text(row['agent'])}-${text(row['ordinal'])}`,
    columns: [
      ['agent', 'agent'],
      ['kind', 'kind'],
      ['event', 'event'],
      ['status', 'status', 'status'],
    ],
    command: 'svc trigger list',
  },
  repositories: {
    name: 'repositories',
    kind: 'repository',
    id: byName,
    columns: [
      ['name', 'name'],
      ['branch', 'branch'],
      ['url', 'url'],
    ],
    command: 'svc repo list',
  },
  reconciles: {
    name: 'reconciles',
    kind: 'reconcile',
    id: byId,
    columns: [
      ['repository', 'repository'],
      ['commit', 'commit'],
      ['status', 'status', 'status'],
      ['started', 'startedAt', 'time'],
    ],
    command: 'svc reconcile list',
  },
  schedules: {
    name: 'schedules',
    kind: 'schedule',
    id: (row) => text(row['scheduleId']),
    columns: [
      ['agent', 'agent'],
      ['cron', 'cron'],
      ['next', 'nextAt', 'time'],
      ['last', 'lastStatus', 'status'],
    ],
    command: 'svc schedule list',
  },
  bindings: {
    name: 'bindings',
    kind: 'binding',
    id: byId,
    columns: [
      ['agent', 'agent'],
      ['target', 'target'],
      ['state', 'state', 'status'],
      ['session', 'sessionId'],
    ],
    command: 'svc binding list',
  },
  endpoints: {
    name: 'endpoints',
    kind: 'endpoint',
    id: byName,
    columns: [
      ['name', 'name'],
      ['address', 'ingestUrl'],
      ['status', 'status', 'status'],
    ],
    command: 'svc endpoint list',
  },
  secrets: {
    name: 'secrets',
    kind: 'secret',
    id: byName,
    columns: [
      ['name', 'name'],
      ['description', 'description'],
      ['rotated', 'lastRotatedAt', 'time'],
    ],
    command: 'svc secret list',
  },
  audit: {
    name: 'audit',
    kind: 'audit',
    id: byId,
    columns: [
      ['at', 'at', 'time'],
      ['by', 'principal'],
      ['action', 'action'],
      ['subject', 'subject'],
    ],
    command: 'svc audit list',
  },
  members: {
    name: 'members',
    kind: 'member',
    id: (row) => text(row['principalId']),
    columns: [
      ['name', 'name'],
      ['role', 'role'],
    ],
    command: 'svc member list',
  },
};

const bad = /^(failed|quarantined|error|released)$/;
const good = /^(applied|routed|active|ready|running|unchanged|fired|ok)$/;
const kindOf = (word: string): 'good' | 'bad' | 'off' => (bad.test(word) ? 'bad' : good.test(word) ? 'good' : 'off');

function Cell(props: {
  readonly row: Row;
  readonly at: string;
  readonly as: 'time' | 'status' | undefined;
  readonly now: number;
}): Markup {
  const value = props.row[props.at];
  if (props.as === 'time' && typeof value === 'string') return html`<td><${Time} at=${value} now=${props.now} /></td>`;
  if (props.as === 'status' && typeof value === 'string')
    return html`<td><${Status} kind=${kindOf(value)} text=${value} /></td>`;
  return html`<td>${text(value)}</td>`;
}

interface Read {
  readonly rows: readonly Row[];
  readonly next: string | null;
  readonly now: number;
}

export function ListPage(props: { readonly place: Place; readonly list: List; readonly isPart?: boolean }): Markup {
  const { list, place } = props;
  const [read, setRead] = useState<Read | undefined>(undefined);
  const [error, setError] = useState<unknown>(undefined);
  const load = async (cursor: string | null): Promise<void> => {
    const limit = props.isPart === true ? 5 : 50;
    const query = `limit=${limit}${cursor === null ? '' : `&cursor=${encodeURIComponent(cursor)}`}`;
    try {
      type Page = { readonly items: readonly Row[]; readonly nextCursor: string | null };
      const page = await call<Page>('GET', `${place.api}/${list.name}?${query}`);
      setError(undefined);
      setRead({ rows: page.items, next: page.nextCursor, now: Date.now() });
    } catch (caught) {
      setError(caught);
    }
  };
  useEffect(() => void load(null), [list.name]);
  const table =
    read === undefined
      ? null
      : html`<${Table} label=${list.name} columns=${list.columns.map(([title]) => ({ title }))}>
          ${read.rows.map(
            (row) => html`<tr data-testid=${`row-${list.kind}-${list.id(row)}`}>
            ${list.columns.map(([, at, as]) => html`<${Cell} row=${row} at=${at} as=${as} now=${read.now} />`)}</tr>`,
          )}
        <//>`;
  const older = read?.next ?? null;
  const heading = props.isPart === true ? html`<h2>${list.name}</h2>` : html`<h1>${list.name}</h1>`;
  return html`<section data-testid=${props.isPart === true ? `part-${list.name}` : `page-${list.name}`}>${heading}
    ${error === undefined ? null : html`<${Failure} error=${error} />`}
    ${read !== undefined && read.rows.length === 0 ? html`<${Empty} text="Nothing yet." command=${list.command} />` : table}
    ${older === null || props.isPart === true ? null : html`<p><button type="button" data-testid="page-older" onClick=${() => load(older)}>Older</button></p>`}
  </section>`;
}
