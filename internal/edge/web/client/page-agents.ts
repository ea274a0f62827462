// The agents of a project: what each is, who owns it, when it last changed.

import type { Agent } from '../../../../schemas/api/agents.ts';
import { html, type Markup } from './kit.ts';
import { type List, ListPage, timeCell } from './list.ts';
import { pageHref, type PageProps } from './pages.ts';

type Row = Omit<Agent, 'spec'>;

const list: List<Row> = {
  page: 'agents',
  title: 'Agents',
  kind: 'agent',
  idOf: ({ name }) => name,
  topics: ['agents'],
  fixed: { view: 'row' },
  isCounted: true,
  command: 'svc agent list',
  empty: 'No agent yet. Register a repository, or: svc apply PATH',
  columns: [
    { title: 'name', cell: ({ name }) => name },
    { title: 'revision', cell: ({ revision }) => `r${revision}` },
    {
      title: 'owner',
      cell: ({ owner }, place) =>
        owner.kind === 'manual'
          ? 'by hand'
          : html`<a href=${pageHref(place, 'repositories', owner.name)}>${owner.name}</a>`,
    },
    { title: 'source', cell: ({ source }) => html`<code>${source.file}</code>` },
    { title: 'changed', cell: ({ updatedAt }) => timeCell(updatedAt) },
  ],
};

export const Page = (props: PageProps): Markup => html`<${ListPage} ...${props} list=${list} />`;
