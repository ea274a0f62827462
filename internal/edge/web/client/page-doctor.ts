// The doctor: what is wrong with the project, errors first, and what to do about each.

import type { DoctorCheck } from '../../../../schemas/api/repositories.ts';
import { call } from './api.ts';
import { Command, Copy, Failure, html, type Markup, Status, Table, useRead } from './kit.ts';
import { useLive } from './live.ts';
import type { PageProps } from './pages.ts';

const kinds = { ok: 'good', warning: 'wait', error: 'bad' } as const;
const order = ['error', 'warning', 'ok'];

/** What to do: a command is there to be copied. */
const Advice = ({ text }: { readonly text: string }): Markup =>
  text.startsWith('svc ')
    ? html`<span class="plain"><code>${text}</code> <${Copy} text=${text} label="Copy" /></span>`
    : html`<span class="plain">${text}</span>`;

export function Page({ place }: PageProps): Markup {
  const read = useRead(
    (signal) => call<{ checks: DoctorCheck[] }>('GET', `${place.api}/doctor`, { signal }),
    place.api,
  );
  useLive(['reconciles', 'connections', 'sessions'], read.again);
  const checks = (read.value?.checks ?? []).toSorted((a, b) => order.indexOf(a.status) - order.indexOf(b.status));
  const wrong = checks.filter(({ status }) => status !== 'ok').length;
  const summary = wrong === 0 ? 'Nothing is wrong.' : `${wrong} to look at.`;
  return html`<section data-testid="page-doctor"><div class="title"><h1>Doctor</h1><${Command} command="svc doctor" /></div>
    ${read.error === undefined ? null : html`<${Failure} error=${read.error} />`}
    ${
      read.value === undefined
        ? read.error === undefined
          ? html`<p class="empty">Looking…</p>`
          : null
        : html`<div><p role="status">${wrong === 0 ? html`<${Status} kind="good" text=${summary} />` : summary}</p>
      <div class="checks"><${Table} label="Checks" columns=${[{ title: 'State' }, { title: 'Check' }, { title: 'What' }, { title: 'What to do' }]}>
        ${checks.map(({ name, status, message, hint }, index) => html`<tr data-testid=${`row-check-${index}`} data-row tabIndex=${-1}><td><${Status} kind=${kinds[status]} text=${status} /></td><td>${name}</td><td>${message}</td><td>${hint === undefined ? '–' : html`<${Advice} text=${hint} />`}</td></tr>`)}<//></div>
      <p><button type="button" onClick=${read.again}>Look again</button></p></div>`
    }</section>`;
}
