// The repositories and folders of a project: is what runs what git has?

import type { Repository } from '../../../../schemas/api/repositories.ts';
import { html, kindOf, type Markup, Status } from './kit.ts';
import { type List, ListPage, timeCell } from './list.ts';
import { commitCell } from './page-reconciles.ts';
import type { PageProps } from './pages.ts';

/**
 * What it is, in one word, as the command line says it: what keeps it from following comes before how its last run ended;
 * synced where its source runs, and pinned where a commit does that it is held to.
 */
export function stateOf({ suspended, condition, pinnedCommit, status }: Repository): string {
  if (suspended) return 'suspended';
  if (condition !== null) return condition;
  if (status !== 'applied' && status !== 'unchanged') return status ?? 'pending';
  return pinnedCommit === null ? 'synced' : 'pinned';
}

const list: List<Repository> = {
  page: 'repositories',
  title: 'Repositories',
  kind: 'repository',
  idOf: ({ name }) => name,
  isCounted: true,
  topics: ['reconciles'],
  command: 'svc repo list',
  empty: 'No repository is watched yet: svc repo add NAME --url URL',
  columns: [
    { title: 'name', cell: ({ name }) => name },
    {
      title: 'state',
      cell: (one) =>
        html`<${Status} kind=${one.condition === null ? kindOf(stateOf(one)) : 'bad'} text=${stateOf(one)} />`,
    },
    { title: 'runs', cell: ({ appliedCommit }) => commitCell(appliedCommit) },
    { title: 'git has', cell: ({ seenCommit }) => commitCell(seenCommit) },
    { title: 'agents', cell: ({ agents }) => agents },
    { title: 'applied', cell: ({ appliedAt }) => timeCell(appliedAt) },
    { title: 'source', cell: ({ url, path, branch }) => `${url ?? path ?? ''}${branch === null ? '' : ` ${branch}`}` },
  ],
};

export const Page = (props: PageProps): Markup => html`<${ListPage} ...${props} list=${list} />`;
