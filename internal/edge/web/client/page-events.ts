// Recorded events: what came in, what became of it, and how many of each outcome in the last hour.

import type { ListedEvent } from '../../../../schemas/api/events.ts';
import { html, type Markup } from './kit.ts';
import { type List, ListPage, shortCell, statusCell, timeCell } from './list.ts';
import { pageHref, type PageProps } from './pages.ts';

const outcome = ({ routes }: ListedEvent): string =>
  routes.length === 0 ? '–' : routes.map(({ agent, decision }) => `${agent}: ${decision}`).join(', ');

const list: List<ListedEvent> = {
  page: 'events',
  title: 'Events',
  kind: 'event',
  idOf: ({ id }) => id,
  topics: ['events'],
  fixed: { view: 'row' },
  isCounted: true,
  command: 'svc event list',
  empty: 'No event was recorded yet. Post one to an endpoint, or connect a provider.',
  filters: [
    { field: 'key', label: 'Key', example: 'webhook.*' },
    { field: 'status', label: 'Outcome', options: ['pending', 'routed', 'unmatched', 'failed'] },
    { field: 'severity', label: 'Severity', options: ['warning', 'error'] },
    { field: 'endpoint', label: 'Endpoint' },
  ],
  columns: [
    { title: 'key', cell: ({ key }) => key },
    { title: 'outcome', cell: ({ routerStatus }) => statusCell(routerStatus) },
    { title: 'decisions', cell: outcome },
    {
      title: 'about',
      cell: ({ target, endpoint }, place) =>
        target !== null
          ? `${target.type} ${target.key}`
          : endpoint === undefined
            ? '–'
            : html`endpoint <a href=${pageHref(place, 'endpoints', endpoint)}>${endpoint}</a>`,
    },
    { title: 'received', cell: ({ receivedAt }) => timeCell(receivedAt) },
    {
      title: 'id',
      cell: ({ id, replayOf }, place) =>
        html`<span>${shortCell(id, 13)}${replayOf === undefined ? null : html` replay of <a href=${pageHref(place, 'events', replayOf)}>${replayOf.slice(0, 13)}</a>`}</span>`,
    },
  ],
};

export const Page = (props: PageProps): Markup => html`<${ListPage} ...${props} list=${list} />`;
