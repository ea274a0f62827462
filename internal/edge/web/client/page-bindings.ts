// Bindings: which session holds which target.

import type { Binding } from '../../../../schemas/api/bindings.ts';
import { call } from './api.ts';
import { changed, changingList } from './changed.ts';
import { Action, html } from './kit.ts';
import { type List, statusCell, timeCell } from './list.ts';
import { pageHref } from './pages.ts';

const list: List<Binding> = {
  page: 'bindings',
  title: 'Bindings',
  kind: 'binding',
  idOf: ({ id }) => id,
  columns: [
    { title: 'Target', cell: ({ target }) => html`<span>${target.type} <strong>${target.key}</strong></span>` },
    { title: 'State', cell: ({ state }) => statusCell(state) },
    { title: 'Agent', cell: ({ agent }, place) => html`<a href=${pageHref(place, 'agents', agent)}>${agent}</a>` },
    {
      title: 'Session',
      cell: ({ sessionId }, place) =>
        sessionId === null
          ? 'waits for a successor'
          : html`<a href=${pageHref(place, 'sessions', sessionId)}>${sessionId.slice(0, 8)}</a>`,
    },
    { title: 'Lifecycle', cell: ({ lifecycle, continuity }) => `${lifecycle}, continuity ${continuity}` },
    { title: 'Since', cell: ({ createdAt }) => timeCell(createdAt) },
    {
      title: 'Action',
      cell: (row, place) => {
        if (row.state === 'released') return '–';
        const run = async (reason?: string): Promise<void> => {
          await call('DELETE', `${place.api}/bindings/${row.id}`, { body: reason === undefined ? {} : { reason } });
          changed();
        };
        const text = `The next event of ${row.target.key} does not reach ${row.sessionId === null ? 'the successor' : `session ${row.sessionId.slice(0, 8)}`} any more; what ${row.agent} declares for an unmatched one happens then. The session goes on.`;
        return html`<${Action} place=${place} label="Release" testId="release" needs="bindings:release" command=${`svc binding release ${row.id}`} run=${run}
          confirm=${{ title: 'Release the binding', consequence: async () => text, withReason: true }} />`;
      },
    },
  ],
  filters: [
    { field: 'agent', label: 'Agent' },
    { field: 'session', label: 'Session' },
    { field: 'all', label: 'Released too', options: ['true'] },
  ],
  topics: ['sessions'],
  command: 'svc binding list',
  empty: 'No session holds a target.',
  href: null,
};

export const Page = changingList(list);
