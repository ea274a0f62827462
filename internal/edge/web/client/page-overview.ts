// The first page of a project: is anything wrong, what changed last, what runs, what comes. One answer of the API holds all
// of it, and each line leads in one click to the page that says more.

import type { Attention, EventCounts, LastRun, Overview } from '../../../../schemas/api/overview.ts';
import { call } from './api.ts';
import {
  beginning,
  capital,
  Command,
  duration,
  Empty,
  Failure,
  html,
  kindOf,
  type Markup,
  Status,
  Time,
  useRead,
} from './kit.ts';
import { useLive } from './live.ts';
import { pageHref, type PageProps, type Place } from './pages.ts';

const open = { held: 'Review', asks: 'Answer', failed: 'Look', authorization: 'Reconnect', doctor: 'Look' } as const;

/** Stands here and not with the other numbers: each module more is a request of the first page. */
const costText = (costUsd: string): string => {
  const cost = Number(costUsd);
  return cost === 0 ? '–' : cost < 0.01 ? '<$0.01' : `$${cost.toFixed(2)}`;
};

function Needs(props: { readonly one: Attention }): Markup {
  const { kind, severity, text, since, href } = props.one;
  return html`<li class=${`need ${severity}`} data-testid="attention-item" data-kind=${kind} data-row tabIndex=${-1}>
    <${Status} kind=${severity === 'error' ? 'bad' : 'wait'} text=${kind} /> <span class="grow">${text}</span>
    ${since === null ? null : html`<${Time} at=${since} isShort=${true} />`} <a class="button small" href=${href}>${open[kind]}</a></li>`;
}

/** Seven of a commit's digits; a folder's keeps its prefix. */
const shortCommit = (commit: string): string => commit.slice(0, commit.startsWith('folder:') ? 14 : 7);
const plus = (count: number, sign: string): string => `${sign}${count}`;

function Run(props: { readonly place: Place; readonly run: LastRun }): Markup {
  const { place, run } = props;
  const counts = [plus(run.created, '+'), plus(run.updated, '~'), plus(run.deleted, '−')].join(' ');
  // The whole of it stands above, and on the run's own page.
  const whole =
    run.mistakes > 0 ? `${run.mistakes} mistake${run.mistakes === 1 ? '' : 's'}` : (run.condition ?? run.detail ?? '');
  const wrong = run.status === 'held' ? counts : beginning(whole, 40);
  const isBad = run.status === 'failed' || run.status === 'held' || run.status === 'quarantined';
  const still =
    isBad && run.appliedCommit !== null ? ` (last good ${shortCommit(run.appliedCommit).replace('folder:', '')})` : '';
  const { commitMessage = '', commitAuthor = '' } = run;
  const said = [commitMessage === '' ? '' : `“${commitMessage}”`, commitAuthor].filter((part) => part !== '').join(' ');
  return html`<tr data-testid=${`row-reconcile-${run.id}`} data-row tabIndex=${-1}>
    <td><${Time} at=${run.startedAt} isShort=${true} /></td>
    <td><a href=${pageHref(place, 'reconciles', run.id)} title=${run.repository}>${run.repository ?? 'applied by hand'}</a></td>
    <td><code>${run.commit === null ? '–' : shortCommit(run.commit)}</code></td>
    <td><span class="clamped" title=${said}>${said}</span></td>
    <td><${Status} kind=${kindOf(run.status)} text=${run.status} /></td>
    <td>${isBad ? html`<span class="plain">${wrong}${still}</span>` : html`<span class="short">${counts}</span>`}</td><td>${run.ms === null ? '–' : duration(run.ms)}</td></tr>`;
}

function Live(props: { readonly place: Place; readonly one: Overview['live'][number] }): Markup {
  const { place, one } = props;
  return html`<tr data-testid=${`row-session-${one.id}`} data-row tabIndex=${-1}>
    <td><a href=${pageHref(place, 'sessions', one.id)} title=${one.agent}>${one.agent}</a></td>
    <td><${Status} kind=${kindOf(one.state)} text=${one.state.replaceAll('_', ' ')} /></td>
    <td><span class="clamped" title=${one.displayTitle}>${one.reason ?? one.displayTitle}</span></td><td><${Time} at=${one.createdAt} isShort=${true} /></td><td data-title="Cost">${costText(one.costUsd)}</td></tr>`;
}

const outcomes = ['routed', 'unmatched', 'failed', 'pending'] as const;
const minuteMs = 60_000;

/** Events of the hour, a bar a minute; the same stands in the table beside it. */
function Hour(props: { readonly place: Place; readonly events: EventCounts }): Markup {
  const { place, events } = props;
  const begin = Math.ceil(Date.parse(events.since) / minuteMs) * minuteMs;
  const most = Math.max(1, ...events.minutes.map((one) => outcomes.reduce((sum, of) => sum + one[of], 0)));
  const bars = events.minutes.flatMap((minute) => {
    const x = ((Date.parse(minute.at) - begin) / minuteMs) * 10;
    let y = 60;
    return outcomes.flatMap((of) => {
      const height = (minute[of] / most) * 58;
      y -= height;
      return height === 0 ? [] : [html`<rect class=${`bar-${of}`} x=${x} y=${y} width="8" height=${height} />`];
    });
  });
  const said = outcomes.map((of) => `${events[of]} ${of}`).join(', ');
  return html`<div><svg class="hour" viewBox="0 0 600 62" preserveAspectRatio="none" role="img" aria-label=${`Events of the last hour by minute: ${said}`}>
      <line x1="0" y1="61" x2="600" y2="61" />${bars}</svg>
    <div class="scroll" role="region" aria-label="Events of the last hour" tabIndex=${0}><table aria-label="Events of the last hour by outcome"><thead><tr><th scope="col">In all</th>${outcomes.map((of) => html`<th scope="col"><span class=${`key bar-${of}`} aria-hidden="true"></span>${capital(of)}</th>`)}</tr></thead>
      <tbody><tr><td><a href=${pageHref(place, 'events')}>${events.total}${events.truncated ? '+' : ''}</a></td>
        ${outcomes.map((of) => html`<td><a href=${`${pageHref(place, 'events')}?status=${of}`}>${events[of]}</a></td>`)}</tr></tbody></table></div></div>`;
}

const runColumns = ['when', 'repository', 'commit', 'what', 'state', 'change', 'took'];
const liveColumns = ['agent', 'state', 'what', 'since', 'cost'];

function Rows(props: {
  readonly label: string;
  readonly columns: readonly string[];
  readonly rows: readonly Markup[];
}): Markup {
  return html`<div class="scroll" role="region" aria-label=${props.label} tabIndex=${0}><table class="rows" aria-label=${props.label}>
    <thead><tr>${props.columns.map((title) => html`<th scope="col">${capital(title)}</th>`)}</tr></thead><tbody>${props.rows}</tbody></table></div>`;
}

const shownMost = { needs: 4, runs: 8, few: 5 } as const;

function Answer(props: { readonly place: Place; readonly overview: Overview }): Markup {
  const { place, overview } = props;
  const { attention, attentionTotal, lastRuns, live, liveTotal, next, nextTotal, events } = overview;
  // The whole answer fits a screen of 1280 by 720: what does not is one click away.
  const needs = attention.slice(0, shownMost.needs);
  const runs = live.slice(0, attentionTotal > 2 ? shownMost.few : shownMost.runs);
  const more = attentionTotal - needs.length;
  return html`<div class="overview">
    <section class="wide" aria-labelledby="needs"><h2 id="needs">${attentionTotal === 0 ? 'Nothing needs you' : `${attentionTotal} need${attentionTotal === 1 ? 's' : ''} you`}</h2>
      ${attentionTotal === 0 ? html`<p class="empty"><${Status} kind="good" text="no repository held or failed, no question open, every connection authorized" /></p>` : html`<ul class="needs">${needs.map((one) => html`<${Needs} one=${one} />`)}</ul>`}
      ${more > 0 ? html`<p><a href=${pageHref(place, 'doctor')}>${more} more</a></p>` : null}</section>
    <section aria-labelledby="changed"><h2 id="changed"><a href=${pageHref(place, 'reconciles')}>Changed</a></h2>
      ${lastRuns.length === 0 ? html`<${Empty} text="Nothing was applied yet." command="svc repo add NAME --url URL" />` : html`<${Rows} label="What changed last" columns=${runColumns} rows=${lastRuns.map((run) => html`<${Run} place=${place} run=${run} />`)} />`}</section>
    <section aria-labelledby="runs"><h2 id="runs"><a href=${`${pageHref(place, 'sessions')}?live=true`}>Runs ${liveTotal}</a></h2>
      ${live.length === 0 ? html`<${Empty} text="No session is live." command="svc agent start NAME" />` : html`<${Rows} label="What runs" columns=${liveColumns} rows=${runs.map((one) => html`<${Live} place=${place} one=${one} />`)} />`}
      ${liveTotal > runs.length ? html`<p><a href=${`${pageHref(place, 'sessions')}?live=true`}>${liveTotal - runs.length} more</a></p>` : null}</section>
    <section aria-labelledby="next"><h2 id="next"><a href=${pageHref(place, 'schedules')}>Next</a></h2>
      ${next.length === 0 ? html`<p class="empty">No schedule.</p>` : html`<ul class="next">${next.map((one) => html`<li data-testid="tick"><${Time} at=${one.at} isShort=${true} /> <a href=${pageHref(place, 'agents', one.agent)}>${one.agent}</a> <code>${one.cron}</code></li>`)}</ul>`}
      ${nextTotal > next.length ? html`<p><a href=${pageHref(place, 'schedules')}>+${nextTotal - next.length}</a></p>` : null}</section>
    <section aria-labelledby="hour"><h2 id="hour"><a href=${pageHref(place, 'events')}>Events 1 h</a></h2><${Hour} place=${place} events=${events} /></section>
  </div>`;
}

export function Page(props: PageProps): Markup {
  const { place } = props;
  const path = `${place.api}/overview`;
  const { value, error, again } = useRead((signal) => call<Overview>('GET', path, { signal }), path);
  useLive(['events', 'sessions', 'reconciles', 'agents', 'connections'], again);
  return html`<section data-testid="page-overview">
    <div class="title"><h1>Overview</h1><${Command} command="svc overview" /></div>
    ${error === undefined ? null : html`<${Failure} error=${error} />`}
    ${value === undefined ? (error === undefined ? html`<p class="empty">Reading…</p>` : null) : html`<${Answer} place=${place} overview=${value} />`}
  </section>`;
}
