// Sessions: what runs, for whom, at what cost; newest first.

import type { Session } from '../../../../schemas/api/sessions.ts';
import { html, kindOf, Status } from './kit.ts';
import { type List, ListPage, timeCell } from './list.ts';
import { usd } from './numbers.ts';
import { type PageProps, pageHref } from './pages.ts';

const states = [
  ...['queued', 'provisioning', 'starting', 'idle', 'running', 'waiting_permission', 'interrupting', 'suspended'],
  ...['blocked', 'archived', 'replaced', 'failed'],
];

export const sessionColumns: List<Session>['columns'] = [
  { title: 'Session', cell: ({ displayTitle }) => displayTitle },
  {
    title: 'State',
    cell: ({ state, reason }) =>
      html`<span><${Status} kind=${state === 'running' ? 'good' : kindOf(state)} text=${state.replaceAll('_', ' ')} />${reason === undefined ? null : html` <small>${reason}</small>`}</span>`,
  },
  { title: 'Agent', cell: ({ agent }, place) => html`<a href=${pageHref(place, 'agents', agent)}>${agent}</a>` },
  { title: 'Cost', cell: ({ usage }) => usd(usage.costUsd) },
  { title: 'Active', cell: ({ lastActiveAt }) => timeCell(lastActiveAt) },
  { title: 'Created', cell: ({ createdAt }) => timeCell(createdAt) },
];

const list: List<Session> = {
  page: 'sessions',
  title: 'Sessions',
  kind: 'session',
  idOf: ({ id }) => id,
  fixed: { view: 'row' },
  isCounted: true,
  columns: sessionColumns,
  filters: [
    { field: 'agent', label: 'Agent' },
    { field: 'state', label: 'State', options: states },
    { field: 'live', label: 'Live', options: ['true', 'false'], words: { true: 'yes', false: 'no' } },
  ],
  topics: ['sessions'],
  command: 'svc session list',
  empty: 'No session has been started yet: an event that matches a trigger starts one, or svc agent start.',
};

export const Page = (props: PageProps) => html`<${ListPage} ...${props} list=${list} />`;
