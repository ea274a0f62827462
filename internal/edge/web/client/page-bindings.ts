// Bindings: which session holds which target.

import type { Binding } from '../../../../schemas/api/bindings.ts';
import { Action } from './action.ts';
import { call } from './api.ts';
import { changed, changingList } from './changed.ts';
import { shell } from './command.ts';
import { asked, because } from './dry-run.ts';
import { html } from './kit.ts';
import { type List, statusCell, timeCell } from './list.ts';
import { pageHref } from './pages.ts';

const list: List<Binding> = {
  page: 'bindings',
  title: 'Bindings',
  kind: 'binding',
  idOf: ({ id }) => id,
  fixed: { view: 'row' },
  isCounted: true,
  columns: [
    { title: 'Target', cell: ({ target }) => html`<span>${target.type} <strong>${target.key}</strong></span>` },
    { title: 'State', cell: ({ state }) => statusCell(state) },
    { title: 'Agent', cell: ({ agent }, place) => html`<a href=${pageHref(place, 'agents', agent)}>${agent}</a>` },
    {
      title: 'Session',
      cell: ({ sessionId }, place) =>
        sessionId === null
          ? 'waits for a successor'
          : html`<a href=${pageHref(place, 'sessions', sessionId)}><code class="short" title=${sessionId}>${sessionId.slice(0, 13)}</code></a>`,
    },
    { title: 'Lifecycle', cell: ({ lifecycle, continuity }) => `${lifecycle}, continuity ${continuity}` },
    { title: 'Since', cell: ({ createdAt }) => timeCell(createdAt) },
    {
      title: 'Action',
      cell: (row, place) => {
        if (row.state === 'released') return '–';
        const path = `${place.api}/bindings/${row.id}`;
        const run = async (reason?: string): Promise<void> => {
          await call('DELETE', path, because(reason));
          changed();
        };
        return html`<${Action} place=${place} label="Release" testId="release" needs="bindings:release" command=${shell`svc binding release ${row.id}`} run=${run}
          confirm=${asked('Release the binding', 'DELETE', path)} />`;
      },
    },
  ],
  filters: [
    { field: 'agent', label: 'Agent' },
    { field: 'session', label: 'Session', option: null },
    { field: 'all', label: 'Released too', options: ['true'], none: 'no', words: { true: 'yes' } },
  ],
  topics: ['sessions'],
  // Each binding and release is an event, whoever did it.
  slowly: ['events'],
  command: 'svc binding list',
  empty: 'No session holds a target.',
  href: null,
};

export const Page = changingList(list);
