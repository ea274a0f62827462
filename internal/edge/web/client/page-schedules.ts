// Schedules: when each fires in the next 24 hours, as a picture beside the list of the same.

import type { Schedule, ScheduleTimeline } from '../../../../schemas/api/schedules.ts';
import { call } from './api.ts';
import { absolute, Failure, html, type Markup, Table, useClock, useRead, zone } from './kit.ts';
import { type List, ListPage, statusCell, timeCell } from './list.ts';
import { useLive } from './live.ts';
import { type PageProps, pageHref, type Place } from './pages.ts';

/** How often in a row it has not fired, and why it did not the last time. */
const skippedText = (skipped: number, lastStatus: string | null): string =>
  `skipped ${skipped}${lastStatus === 'skipped-overlap' ? ': at work' : lastStatus === 'skipped-late' ? ': too late' : ''}`;

const list: List<Schedule> = {
  page: 'schedules',
  title: 'Schedules',
  kind: 'schedule',
  idOf: ({ scheduleId }) => scheduleId,
  isCounted: true,
  columns: [
    {
      title: 'Trigger',
      cell: ({ agent, ordinal }, place) =>
        html`<a href=${pageHref(place, 'triggers', `${agent}-${ordinal}`)}>${agent}#${ordinal}</a>`,
    },
    { title: 'Cron', cell: ({ cron }) => html`<code>${cron}</code>` },
    { title: 'Zone', cell: ({ timezone }) => timezone },
    { title: 'Next', cell: ({ nextAt }) => timeCell(nextAt) },
    { title: 'Last', cell: ({ lastAt }) => timeCell(lastAt) },
    {
      title: 'How it went',
      cell: ({ lastStatus, skipped }) =>
        html`<span>${statusCell(lastStatus)}${skipped === 0 ? null : html` <small>${skippedText(skipped, lastStatus)}</small>`}</span>`,
    },
    {
      title: 'Session',
      cell: ({ lastSessionId }, place) =>
        lastSessionId === null
          ? '–'
          : html`<a href=${pageHref(place, 'sessions', lastSessionId)}><code class="short" title=${lastSessionId}>${lastSessionId.slice(0, 13)}</code></a>`,
    },
  ],
  topics: ['events'],
  // A tick that is skipped leaves no event.
  dueAt: ({ nextAt }) => nextAt,
  command: 'svc schedule list',
  empty: 'No agent has a heartbeat.',
  href: null,
  above: (props) => html`<${Timeline} place=${props.place} />`,
};

export const Page = (props: PageProps) => html`<${ListPage} ...${props} list=${list} />`;

const hourMs = 3_600_000;
const rowHeight = 26;
const left = 190;
const width = 1_000;

interface Lane {
  readonly schedule: Schedule;
  readonly ticks: readonly number[];
}

/** Of more, so many have a line in the picture. */
const drawnMost = 40;

/** The ticks, and of the schedules that fire as many as are drawn. */
async function readTimeline(place: Place, signal: AbortSignal) {
  const timeline = await call<ScheduleTimeline>('GET', `${place.api}/schedules/timeline`, { signal });
  const fires = new Set(timeline.ticks.map(({ scheduleId }) => scheduleId));
  const items: Schedule[] = [];
  let cursor: string | null = '';
  while (cursor !== null && items.length < Math.min(drawnMost, fires.size)) {
    const query = new URLSearchParams({ limit: '200', ...(cursor !== '' && { cursor }) });
    type Page = { readonly items: readonly Schedule[]; readonly nextCursor: string | null };
    const page: Page = await call<Page>('GET', `${place.api}/schedules?${query}`, { signal });
    items.push(...page.items.filter(({ scheduleId }) => fires.has(scheduleId)));
    cursor = page.nextCursor;
  }
  return { timeline, items };
}

/** Whether the hour of the wall clock in a zone changes between two instants otherwise than time does. */
function shifts(timezone: string, from: number, to: number): boolean {
  const offset = (at: number): string =>
    new Intl.DateTimeFormat('en', { timeZone: timezone, timeZoneName: 'longOffset' })
      .formatToParts(new Date(at))
      .find(({ type }) => type === 'timeZoneName')?.value ?? '';
  return offset(from) !== offset(to);
}

/** Times of a lane that its zone leaves out on a day: what stands in the cron, and when it fires instead. */
function leftOut({ schedule, ticks }: Lane): string[] {
  const { agent, ordinal, cron, timezone } = schedule;
  const [, minute, hour] = /^(\d{1,2}) (\d{1,2}) /.exec(cron) ?? [];
  if (minute === undefined || hour === undefined) return [];
  const wanted = `${hour.padStart(2, '0')}:${minute.padStart(2, '0')}`;
  const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', timeZone: timezone });
  const day = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeZone: timezone });
  return ticks.flatMap((at) => {
    const fires = clock.format(at);
    const where = `${agent}#${ordinal}: ${wanted} is not there on ${day.format(at)} in ${timezone}`;
    return fires === wanted ? [] : [`${where}: fires ${fires}`];
  });
}

const hourText = (at: number): string =>
  new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', timeZone: zone() }).format(new Date(at));

function Timeline(props: { readonly place: Place }): Markup | null {
  const { place } = props;
  useClock();
  const read = useRead((signal) => readTimeline(place, signal), `${place.api} timeline`);
  useLive(['agents'], read.again);
  if (read.value === undefined) return read.error === undefined ? null : html`<${Failure} error=${read.error} />`;
  const { timeline, items } = read.value;
  const from = Date.parse(timeline.from);
  const to = Date.parse(timeline.to);
  const byId = new Map<string, number[]>();
  for (const { scheduleId, at } of timeline.ticks)
    byId.set(scheduleId, [...(byId.get(scheduleId) ?? []), Date.parse(at)]);
  const lanes: Lane[] = items.flatMap((schedule) => {
    const ticks = byId.get(schedule.scheduleId);
    return ticks === undefined ? [] : [{ schedule, ticks }];
  });
  if (lanes.length === 0) return null;
  const clocks = [...new Set(lanes.map(({ schedule }) => schedule.timezone))].filter((one) => shifts(one, from, to));
  const missed = lanes.filter(({ schedule }) => clocks.includes(schedule.timezone)).flatMap(leftOut);
  return html`<div><h2>Next 24 hours <small>${zone()}</small></h2>
    <div class="scroll" role="region" aria-label="Next 24 hours" tabIndex=${0}><${Picture} lanes=${lanes.slice(0, drawnMost)} from=${from} to=${to} /></div>
    ${byId.size > drawnMost ? html`<p class="notice">Of the ${byId.size} schedules that fire then, the first ${drawnMost} are drawn; the list below has all of them.</p>` : null}
    ${timeline.more ? html`<p class="notice">Only the first 2,000 ticks are shown.</p>` : null}
    ${missed.map((text) => html`<p class="notice">${text}</p>`)}
    ${clocks.length === 0 ? null : html`<p class="notice">The clocks change within these hours in ${clocks.join(', ')}: a time that is left out fires right after the gap, one that comes twice fires once.</p>`}
    <details><summary>The same as a table</summary><${Table} label="Ticks" columns=${[{ title: 'Trigger' }, { title: 'How often' }, { title: 'First' }, { title: 'Last' }]}>
      ${lanes.map(({ schedule, ticks }) => html`<tr><td>${schedule.agent}#${schedule.ordinal}</td><td>${ticks.length}</td><td>${absolute(new Date(ticks[0] ?? from).toISOString())}</td><td>${absolute(new Date(ticks.at(-1) ?? from).toISOString())}</td></tr>`)}<//></details>
  </div>`;
}

function Picture(props: { readonly lanes: readonly Lane[]; readonly from: number; readonly to: number }): Markup {
  const { lanes, from, to } = props;
  const x = (at: number): number => left + ((at - from) / (to - from)) * (width - left - 10);
  const height = 24 + lanes.length * rowHeight;
  const firstHour = Math.ceil(from / (2 * hourMs)) * 2 * hourMs;
  const hours = Array.from({ length: 13 }, (_, index) => firstHour + index * 2 * hourMs).filter((at) => at < to);
  return html`<svg class="timeline" viewBox=${`0 0 ${width} ${height}`} width=${width} height=${height} role="img" aria-label=${`When ${lanes.length} schedules fire in the next 24 hours; the table below says the same`}>
    ${hours.map((at) => html`<g><line class="grid" x1=${x(at)} x2=${x(at)} y1="18" y2=${height}></line><text class="axis" x=${x(at)} y="13" text-anchor=${x(at) > width - 30 ? 'end' : 'middle'}>${hourText(at)}</text></g>`)}
    ${lanes.map(({ schedule, ticks }, index) => {
      const y = 24 + index * rowHeight;
      const name = `${schedule.agent}#${schedule.ordinal}`;
      return html`<g><text class="lane" x="0" y=${y + 16}>${name.length > 26 ? `${name.slice(0, 25)}…` : name}<title>${name}</title></text>
        <line class="grid" x1=${left} x2=${width} y1=${y + rowHeight} y2=${y + rowHeight}></line>
        ${ticks.length > 200 ? html`<rect class="tick" data-testid="tick" x=${x(ticks[0] ?? from)} y=${y + 6} width=${Math.max(2, x(ticks.at(-1) ?? to) - x(ticks[0] ?? from))} height="12"><title>${`${ticks.length} times`}</title></rect>` : ticks.map((at) => html`<rect class="tick" data-testid="tick" x=${x(at) - 1.5} y=${y + 4} width="3" height="16"><title>${`${name} ${absolute(new Date(at).toISOString())}`}</title></rect>`)}</g>`;
    })}</svg>`;
}
