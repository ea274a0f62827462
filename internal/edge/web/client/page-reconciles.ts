// Runs of the reconciler, newest first.

import type { Run } from '../../../../schemas/api/reconciles.ts';
import { duration, html, type Markup } from './kit.ts';
import { type List, ListPage, shortCell, statusCell, timeCell } from './list.ts';
import type { PageProps } from './pages.ts';

export const commitCell = (commit: string | null) => shortCell(commit, commit?.startsWith('folder:') === true ? 14 : 7);
/** What a commit says of itself: `“cap spend” ann`; '' where nothing is known. */
export const aboutText = ({
  commitMessage = '',
  commitAuthor = '',
}: Pick<Run, 'commitMessage' | 'commitAuthor'>): string =>
  [commitMessage === '' ? '' : `“${commitMessage}”`, commitAuthor].filter((part) => part !== '').join(' ');

export const tookText = ({ startedAt, finishedAt }: Pick<Run, 'startedAt' | 'finishedAt'>): string =>
  finishedAt === null ? '–' : duration(Date.parse(finishedAt) - Date.parse(startedAt));

export const runColumns: List<Run>['columns'] = [
  { title: 'repository', cell: ({ repository }) => repository ?? 'by hand' },
  { title: 'commit', cell: ({ commit }) => commitCell(commit) },
  {
    title: 'what',
    cell: (run) => html`<span class="clamped" title=${aboutText(run)}>${aboutText(run)}</span>`,
  },
  { title: 'by', cell: ({ reason }) => reason },
  { title: 'state', cell: ({ status }) => statusCell(status) },
  { title: 'why', cell: ({ condition, detail }) => html`<span class="plain">${condition ?? detail ?? '–'}</span>` },
  { title: 'started', cell: ({ startedAt }) => timeCell(startedAt) },
  { title: 'took', cell: tookText },
];

const list: List<Run> = {
  page: 'reconciles',
  title: 'Reconciles',
  kind: 'reconcile',
  idOf: ({ id }) => id,
  topics: ['reconciles'],
  fixed: { view: 'row' },
  isCounted: true,
  command: 'svc reconcile list',
  empty: 'Nothing was reconciled yet.',
  filters: [
    { field: 'repository', label: 'Repository', option: 'repo' },
    {
      field: 'status',
      label: 'State',
      options: ['running', 'applied', 'unchanged', 'held', 'failed', 'superseded', 'quarantined'],
    },
  ],
  columns: runColumns,
};

export const Page = (props: PageProps): Markup => html`<${ListPage} ...${props} list=${list} />`;
