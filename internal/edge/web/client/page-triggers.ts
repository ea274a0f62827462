// What wakes whom: each trigger with its clauses, where it is declared, and whether it can match at all.

import type { Trigger } from '../../../../schemas/api/triggers.ts';
import { clauseText } from './clause.ts';
import { type Content, html, type Markup, Status } from './kit.ts';
import { type List, ListPage, statusCell, timeCell } from './list.ts';
import { pageHref, type PageProps, type Place } from './pages.ts';

const whereText = (where: unknown): string => {
  const clauses = Object.entries(Object(where) as { readonly [path: string]: unknown });
  return clauses.length === 0
    ? 'everything'
    : clauses.map(([path, clause]) => `${path} ${clauseText(clause)}`).join(', ');
};
const routingText = (routing: unknown): string => {
  const { kind, target, routeBy } = Object(routing) as { kind?: string; target?: string; routeBy?: { kind?: string } };
  return [kind, target ?? routeBy?.kind].filter((part) => part !== undefined).join(' ');
};

/** When it last matched; where it never did, that is what one looks for. */
function matchCell({ lastMatch = null, since = null, cron }: Trigger, place: Place): Content {
  const did = cron === undefined ? 'matched' : 'fired';
  if (lastMatch !== null)
    return html`<a href=${pageHref(place, 'events', lastMatch.eventId)}>${timeCell(lastMatch.at)}</a>`;
  return html`<${Status} kind="wait" text=${since === null ? `never ${did}` : `not ${did} lately`} />`;
}

/** The parts of a file's path, which a narrow column may break between: `agents/`, `greeter.yaml`. */
const foldersOf = (file: string): readonly string[] => file.replace(/^\.svc\//, '').split(/(?<=\/)/);

const list: List<Trigger> = {
  page: 'triggers',
  title: 'Triggers',
  kind: 'trigger',
  idOf: ({ agent, ordinal }) => `${agent}-${ordinal}`,
  topics: ['agents'],
  // When each matched last: of many events, not with each of them.
  slowly: ['events'],
  fixed: { view: 'row', origins: 'true', matches: 'true' },
  isCounted: true,
  command: 'svc trigger list',
  empty: 'No agent listens to anything yet.',
  filters: [{ field: 'agent', label: 'Agent' }],
  columns: [
    { title: 'agent', cell: ({ agent, ordinal }) => `${agent}#${ordinal}` },
    { title: 'event', cell: ({ event, cron, timezone }) => (cron === undefined ? event : `${cron} ${timezone ?? ''}`) },
    {
      title: 'through',
      cell: ({ endpoint, connection }, place) =>
        endpoint === undefined
          ? (connection ?? '–')
          : html`<a href=${pageHref(place, 'endpoints', endpoint)}>${endpoint}</a>`,
    },
    {
      title: 'where',
      cell: ({ where, fallback, cron }) =>
        cron === undefined ? `${whereText(where)}${fallback ? ' (fallback)' : ''}` : '–',
    },
    { title: 'routing', cell: ({ routing }) => routingText(routing) },
    { title: 'status', cell: ({ status }) => statusCell(status) },
    { title: 'last match', cell: matchCell },
    {
      title: 'declared',
      cell: ({ source }) =>
        source?.file == null
          ? '–'
          : html`<code class="source">${foldersOf(source.file).map((one) => html`<wbr />${one}`)}:${source.line}</code>`,
    },
  ],
};

export const Page = (props: PageProps): Markup => html`<${ListPage} ...${props} list=${list} />`;
