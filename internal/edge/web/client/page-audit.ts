// The audit: who did what to what, and why.

import type { AuditEntry } from '../../../../schemas/api/audit.ts';
import { html } from './kit.ts';
import { type List, ListPage, timeCell } from './list.ts';
import type { PageProps } from './pages.ts';

const list: List<AuditEntry> = {
  page: 'audit',
  title: 'Audit',
  kind: 'audit',
  idOf: ({ id }) => String(id),
  isCounted: true,
  columns: [
    { title: 'When', cell: ({ at }) => timeCell(at) },
    {
      title: 'Who',
      cell: ({ principal }) =>
        html`<span>${principal.name} <small>${principal.kind.replaceAll('_', ' ')}</small></span>`,
    },
    { title: 'Action', cell: ({ action }) => html`<code>${action}</code>` },
    { title: 'What', cell: ({ subject }) => (subject === null ? '–' : `${subject.kind} ${subject.name}`) },
    {
      title: 'Why',
      cell: ({ detail }) => (typeof detail['reason'] === 'string' ? detail['reason'] : '–'),
    },
    {
      title: 'Detail',
      cell: ({ detail, requestId }) =>
        html`<details><summary>show</summary><pre>${JSON.stringify(detail, null, 2)}</pre>${requestId === null ? null : html`<small>request ${requestId}</small>`}</details>`,
    },
  ],
  filters: [
    { field: 'action', label: 'Action', example: 'secret.use' },
    { field: 'principal', label: 'Who' },
    { field: 'subject', label: 'What' },
    { field: 'since', label: 'Since', example: '2026-01-31' },
    { field: 'until', label: 'Until', example: '2026-01-31' },
  ],
  command: 'svc audit list',
  empty: 'Nothing has been done here yet.',
  href: null,
};

export const Page = (props: PageProps) => html`<${ListPage} ...${props} list=${list} />`;
