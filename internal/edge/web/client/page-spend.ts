// Spend: what agents cost by day, as a picture beside the table of the same, or sessions by what they cost.

import { useLayoutEffect, useRef } from 'preact/hooks';
import type { Spending } from '../../../../schemas/api/common.ts';
import type { CostlySession, UsageSeries } from '../../../../schemas/api/usage.ts';
import { call } from './api.ts';
import { shell } from './command.ts';
import { Command, Empty, Failure, Field, html, kindOf, type Markup, Status, Table, useRead } from './kit.ts';
import { type List, ListPage, timeCell } from './list.ts';
import { useLive } from './live.ts';
import { sumUsd, tokens, usd } from './numbers.ts';
import { pageHref, type PageProps, type Place, setQuery } from './pages.ts';

const spans = ['7', '30', '90', '365'];
const dayMs = 86_400_000;
/** Agents that have a colour of their own; the others share one. */
const coloured = 6;

type By = 'agent' | 'day' | 'session';
const words: { readonly [by in By]: string } = { agent: 'agent', day: 'day', session: 'session, dearest first' };
const byOf = (query: URLSearchParams): By => {
  const asked = query.get('by');
  return asked === 'day' || asked === 'session' ? asked : 'agent';
};

/** What the sums are grouped by; what is asked of sessions alone is asked no more of the others. */
function Grouped(props: { readonly by: By }): Markup {
  const choose = (event: Event): void =>
    setQuery({ by: (event.currentTarget as HTMLSelectElement).value, agent: null, cursor: null });
  return html`<${Field} label="By"><select data-testid="filter-by" value=${props.by} onChange=${choose}>
    ${Object.entries(words).map(([one, word]) => html`<option value=${one} selected=${one === props.by}>${word}</option>`)}</select><//>`;
}

export const Page = (props: PageProps): Markup =>
  byOf(props.query) === 'session' ? html`<${ListPage} ...${props} list=${sessions} />` : html`<${Days} ...${props} />`;

const unpricedText = (calls: number): string => (calls === 0 ? '' : ` + ${calls} unpriced`);
const ofCap = (capUsd: string | undefined): string => (capUsd === undefined ? '' : ` of $${capUsd}`);

const sessions: List<CostlySession> = {
  page: 'spend',
  title: 'Spend by session',
  kind: 'session',
  idOf: ({ id }) => id,
  path: 'usage/sessions',
  columns: [
    { title: 'Session', cell: ({ displayTitle }) => displayTitle },
    {
      title: 'Cost',
      cell: ({ usage: { costUsd, unpricedCalls }, capUsd }) =>
        `${usd(costUsd)}${ofCap(capUsd)}${unpricedText(unpricedCalls)}`,
    },
    { title: 'Agent', cell: ({ agent }, place) => html`<a href=${pageHref(place, 'agents', agent)}>${agent}</a>` },
    {
      title: 'State',
      cell: ({ state }) =>
        html`<${Status} kind=${state === 'running' ? 'good' : kindOf(state)} text=${state.replaceAll('_', ' ')} />`,
    },
    { title: 'Calls', cell: ({ usage }) => usage.calls.toLocaleString('en') },
    { title: 'Tokens in', cell: ({ usage }) => tokens(usage.inputTokens) },
    { title: 'Tokens out', cell: ({ usage }) => tokens(usage.outputTokens) },
    { title: 'Active', cell: ({ lastActiveAt }) => timeCell(lastActiveAt) },
  ],
  filters: [{ field: 'agent', label: 'Agent' }],
  topics: ['sessions'],
  command: 'svc spend --by session',
  empty: 'No session has called a model yet.',
  href: ({ id }, place) => pageHref(place, 'sessions', id),
  choice: () => html`<${Grouped} by="session" />`,
  pages: ['Cheaper', 'Dearer'],
};

async function readSpend(place: Place, days: string, by: By, signal: AbortSignal) {
  const series = await call<UsageSeries>('GET', `${place.api}/usage/series?days=${days}&by=${by}`, { signal });
  const usage = await call<Spending>('GET', `${place.api}/usage`, { signal });
  return { series, usage };
}

const commandOf = (by: By, days: string): string =>
  by === 'day' ? shell`svc spend --by day --days ${days}` : shell`svc spend --days ${days}`;

function Days({ place, query }: PageProps): Markup {
  const by = byOf(query);
  const asked = query.get('days') ?? '30';
  const days = spans.includes(asked) ? asked : '30';
  const read = useRead((signal) => readSpend(place, days, by, signal), `${place.api} spend ${days} ${by}`);
  useLive(['sessions'], read.again);
  const choose = (event: Event): void => setQuery({ days: (event.currentTarget as HTMLSelectElement).value });
  const found = read.value;
  return html`<section data-testid="page-spend"><div class="title"><h1>Spend</h1><${Command} command=${commandOf(by, days)} /></div>
    ${read.error === undefined ? null : html`<${Failure} error=${read.error} />`}
    <form class="filters" aria-label="Filters" onSubmit=${(event: Event) => event.preventDefault()}><${Field} label="Days">
      <select data-testid="filter-days" value=${days} onChange=${choose}>${spans.map((one) => html`<option value=${one} selected=${one === days}>${one} days</option>`)}</select><//>
      <${Grouped} by=${by} /></form>
    ${found === undefined ? (read.error === undefined ? html`<p class="empty">Reading…</p>` : null) : html`<${Sums} found=${found} place=${place} />`}
  </section>`;
}

function Sums(props: {
  readonly found: { readonly series: UsageSeries; readonly usage: Spending };
  readonly place: Place;
}): Markup {
  const { place } = props;
  const { series, usage } = props.found;
  const unpriced = series.agents.reduce((calls, one) => calls + one.usage.unpricedCalls, 0);
  const blocked = `${pageHref(place, 'sessions')}?state=blocked`;
  return html`<div>
    <dl class="facts"><div><dt>Today</dt><dd>${sumUsd(usage.day.costUsd)}</dd></div><div><dt>This month</dt><dd>${sumUsd(usage.month.costUsd)}</dd></div>
      <div><dt>Ever</dt><dd>${sumUsd(usage.total.costUsd)}</dd></div>
      <div><dt>Cap hits</dt><dd>${series.capHits === 0 ? 'none' : html`<a href=${blocked}>${series.capHits} ${series.capHits === 1 ? 'session' : 'sessions'} held</a>`}</dd></div>
      <div><dt>Unpriced calls</dt><dd>${unpriced === 0 ? 'none' : `${unpriced}: their cost is in no sum`}</dd></div></dl>
    ${
      series.items.length === 0
        ? html`<${Empty} text="No model has been called in these days." />`
        : html`<div><${Bars} series=${series} />${series.by === 'day' ? html`<${ByDay} series=${series} />` : html`<${ByAgent} series=${series} place=${place} />`}</div>`
    }
  </div>`;
}

const columnsOf = (titles: readonly string[]) => titles.map((title) => ({ title }));
const dayColumns = columnsOf(['Day (UTC)', 'Cost', 'Calls', 'Tokens in', 'Tokens out']);
const agentColumns = columnsOf([
  'Agent',
  'Cost',
  'Sessions',
  'Max',
  'Calls',
  'Tokens in',
  'Tokens out',
  'Dearest first',
]);

const ByDay = (props: { readonly series: UsageSeries }): Markup =>
  html`<${Table} label="Spend by day" columns=${dayColumns}>
    ${props.series.items.toReversed().map(({ day, usage: used }) => html`<tr data-testid=${`row-day-${day}`} data-row tabIndex=${-1}><td>${day}</td><td>${usd(used.costUsd)}${unpricedText(used.unpricedCalls)}</td><td>${used.calls.toLocaleString('en')}</td><td>${tokens(used.inputTokens)}</td><td>${tokens(used.outputTokens)}</td></tr>`)}<//>`;

/** Of so many of the project's latest sessions the answer tells how many there are and which was the dearest. */
const latest = 200;

function ByAgent(props: { readonly series: UsageSeries; readonly place: Place }): Markup {
  const { series, place } = props;
  const isCut = series.agents.reduce((sum, one) => sum + one.sessions, 0) >= latest;
  const listOf = (page: string, agent: string, more = ''): string =>
    `${pageHref(place, page)}?${more}agent=${encodeURIComponent(agent)}`;
  return html`<div><${Table} label="Spend by agent" columns=${agentColumns}>
    ${series.agents.map(
      (
        { agent, usage: used, sessions: count, dearest, capUsd },
        index,
      ) => html`<tr data-testid=${`row-agent-${agent}`} data-row tabIndex=${-1}>
      <td><span class=${`swatch s${Math.min(index, coloured)}`} aria-hidden="true"></span> <a href=${pageHref(place, 'agents', agent)}>${agent}</a></td>
      <td>${usd(used.costUsd)}${unpricedText(used.unpricedCalls)}</td>
      <td>${count === 0 ? '–' : html`<a href=${listOf('sessions', agent)}>${count} ${count === 1 ? 'session' : 'sessions'}</a>`}</td>
      <td>${dearest === null ? '–' : html`<a href=${pageHref(place, 'sessions', dearest.id)}>${usd(dearest.costUsd)}${ofCap(capUsd)}</a>`}</td>
      <td>${used.calls.toLocaleString('en')}</td><td>${tokens(used.inputTokens)}</td><td>${tokens(used.outputTokens)}</td>
      <td><a data-testid="by-cost" href=${listOf('spend', agent, 'by=session&')}>sessions by cost</a></td></tr>`,
    )}<//>
  ${isCut ? html`<p class="empty">Sessions and their max are of the project’s latest ${latest}; sessions by cost are all that are kept.</p>` : null}
  <details><summary>By day</summary><${Table} label="Spend by day" columns=${columnsOf(['Day (UTC)', 'Agent', 'Cost', 'Calls'])}>
    ${series.items.toReversed().map((one) => html`<tr><td>${one.day}</td><td>${one.agent}</td><td>${usd(one.usage.costUsd)}</td><td>${one.usage.calls}</td></tr>`)}<//></details></div>`;
}

const width = 1_000;
const height = 180;
const left = 60;

/** A bar a day, stacked by agent, the dearest agent at the bottom. */
function Bars({ series }: { readonly series: UsageSeries }): Markup {
  const first = Date.parse(series.from);
  const count = Math.round((Date.parse(series.to) - first) / dayMs) + 1;
  const order = new Map(series.agents.map(({ agent }, index) => [agent, index]));
  const days = new Map<string, { readonly agent: string; readonly cost: number }[]>();
  for (const { day, agent, usage } of series.items)
    days.set(day, [...(days.get(day) ?? []), { agent: agent ?? '', cost: Number(usage.costUsd) }]);
  const most = Math.max(...[...days.values()].map((all) => all.reduce((sum, { cost }) => sum + cost, 0)), 0);
  const step = (width - left) / count;
  const y = (cost: number): number => (most === 0 ? 0 : (cost / most) * (height - 30));
  const box = useRef<HTMLDivElement>(null);
  // On a narrow screen the newest day is what is seen of it first.
  useLayoutEffect(() => {
    if (box.current !== null) box.current.scrollLeft = box.current.scrollWidth;
  }, [series.from, series.to]);
  return html`<div class="scroll" ref=${box} role="region" aria-label="Picture of the spend by day" tabIndex=${0}><svg class="bars" viewBox=${`0 0 ${width} ${height}`} width=${width} height=${height} role="img" aria-label=${`Spend by UTC day from ${series.from} to ${series.to}, ${series.by === 'day' ? '' : 'stacked by agent'}; the table below says the same`}>
    <text class="axis" x="0" y="14">${usd(String(most))}</text><line class="grid" x1=${left} x2=${width} y1="10" y2="10"></line>
    <line class="grid" x1=${left} x2=${width} y1=${height - 20} y2=${height - 20}></line>
    <text class="axis" x=${left} y=${height - 5}>${series.from}</text><text class="axis" x=${width} y=${height - 5} text-anchor="end">${series.to}</text>
    ${[...days].map(([day, all]) => {
      const x = left + ((Date.parse(day) - first) / dayMs) * step;
      let top = height - 20;
      return all
        .toSorted((a, b) => (order.get(a.agent) ?? 0) - (order.get(b.agent) ?? 0))
        .map(({ agent, cost }) => {
          top -= y(cost);
          return html`<rect class=${`s${series.by === 'day' ? 0 : Math.min(order.get(agent) ?? coloured, coloured)}`} data-testid="spend-bar" x=${x + step * 0.1} y=${top} width=${step * 0.8} height=${y(cost)}><title>${`${day} ${agent} ${usd(String(cost))}`}</title></rect>`;
        });
    })}</svg></div>`;
}
