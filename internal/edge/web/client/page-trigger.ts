// One trigger: what it listens to, where it is declared, what it matched last, and why the latest events on its key did or did
// not wake its agent.

import type { Event, EventExplanation } from '../../../../schemas/api/events.ts';
import type { OneTrigger } from '../../../../schemas/api/triggers.ts';
import { call } from './api.ts';
import { shell } from './command.ts';
import { Facts, Json } from './detail.ts';
import { Command, Empty, Failure, html, kindOf, type Markup, Reading, Status, Time, useRead } from './kit.ts';
import { useLive } from './live.ts';
import { Decision } from './page-event.ts';
import { pageHref, type PageProps, type Place } from './pages.ts';

/** Events on its key that are explained. */
const explained = 5;

interface Judged {
  readonly event: Event;
  readonly one: EventExplanation | undefined;
}

async function judge(place: Place, trigger: OneTrigger, signal: AbortSignal): Promise<readonly Judged[]> {
  const { event: key, endpoint } = trigger;
  const query = new URLSearchParams({
    view: 'row',
    limit: String(explained),
    key,
    ...(endpoint !== undefined && { endpoint }),
  });
  const { items } = await call<{ items: readonly Event[] }>('GET', `${place.api}/events?${query}`, { signal });
  return Promise.all(
    items.map(async (event) => {
      const path = `${place.api}/events/${event.id}/explain`;
      const { triggers } = await call<{ triggers: readonly EventExplanation[] }>('GET', path, { signal });
      return { event, one: triggers.find((one) => one.agent === trigger.agent && one.ordinal === trigger.ordinal) };
    }),
  );
}

function Latest({ place, trigger }: { readonly place: Place; readonly trigger: OneTrigger }): Markup {
  const key = `${trigger.agent} ${trigger.ordinal} ${trigger.event}`;
  const read = useRead((signal) => judge(place, trigger, signal), key);
  useLive(['events'], read.again);
  if (read.error !== undefined) return html`<${Failure} error=${read.error} />`;
  if (read.value === undefined) return html`<p class="empty">Reading…</p>`;
  if (read.value.length === 0)
    return html`<${Empty} text="No event of its key has come in yet." command=${shell`svc trigger explain --event ${trigger.event} --payload FILE`} />`;
  return html`<ul class="decisions">${read.value.map(({ event, one }) =>
    one === undefined
      ? html`<li><a href=${pageHref(place, 'events', event.id)}><${Time} at=${event.receivedAt} /></a> came in elsewhere</li>`
      : html`<li><p><a href=${pageHref(place, 'events', event.id)}>${event.key}</a> <${Time} at=${event.receivedAt} /></p><ul class="decisions"><${Decision} place=${place} one=${one} /></ul></li>`,
  )}</ul>`;
}

const matchText = (place: Place, { lastMatch, since, cron }: OneTrigger): Markup => {
  const did = cron === undefined ? 'matched' : 'fired';
  if (lastMatch !== null)
    return html`<span data-testid="last-match"><a href=${pageHref(place, 'events', lastMatch.eventId)}><${Time} at=${lastMatch.at} /></a> ${lastMatch.decision}</span>`;
  return html`<span data-testid="last-match"><${Status} kind="wait" text=${since === null ? `never ${did}` : `not ${did} since`} />${since === null ? null : html` <${Time} at=${since} />`}</span>`;
};

export function Page({ place, id }: PageProps): Markup {
  const [, agent = id, ordinal = ''] = /^(.+)-(\d+)$/.exec(id) ?? [];
  const name = `${agent}#${ordinal}`;
  const path = `${place.api}/triggers/${encodeURIComponent(agent)}/${ordinal === '' ? 'none' : ordinal}`;
  const read = useRead((signal) => call<OneTrigger>('GET', path, { signal }), path);
  useLive(['agents', 'events'], read.again);
  const one = read.value;
  return html`<section data-testid="page-trigger">
    <div class="title"><h1>${name}</h1>${one === undefined ? null : html`<${Status} kind=${kindOf(one.status)} text=${one.status} />`}<${Command} command=${shell`svc trigger show ${name}`} /></div>
    ${read.error === undefined ? null : html`<${Failure} error=${read.error} />`}
    ${
      one === undefined
        ? html`<${Reading} error=${read.error} />`
        : html`<div><${Facts} of=${[
            ['agent', html`<a href=${pageHref(place, 'agents', agent)}>${agent}</a>`],
            [
              one.cron === undefined ? 'listens to' : 'fires at',
              html`<code>${one.cron ?? one.event}</code>${one.timezone === undefined ? '' : ` ${one.timezone}`}`,
            ],
            [
              'endpoint',
              one.endpoint === undefined
                ? undefined
                : html`<a href=${pageHref(place, 'endpoints', one.endpoint)}>${one.endpoint}</a>`,
            ],
            [
              'connection',
              one.connection === undefined
                ? undefined
                : html`<a href=${pageHref(place, 'connections')}>${one.connection}</a>`,
            ],
            [
              'declared',
              one.source?.file === undefined || one.source.file === null
                ? 'not kept'
                : html`<code data-testid="origin" data-layer=${one.source.layer}>${one.source.file}:${one.source.line}</code>`,
            ],
            [one.cron === undefined ? 'last match' : 'last fired', matchText(place, one)],
            ['fallback', one.fallback ? 'fires only where no other trigger on the key matched' : undefined],
          ]} />
      ${one.kind === 'heartbeat' ? html`<p><a href=${pageHref(place, 'schedules')}>When it fires next</a></p>` : html`<div><h2>Where</h2>${Object.keys(one.where).length === 0 ? html`<p class="empty">Everything on its key matches.</p>` : html`<${Json} value=${one.where} label="Where" testId="where" />`}<h2>Why, of the latest events</h2><${Latest} place=${place} trigger=${one} /></div>`}
      <h2>Routing</h2><${Json} value=${one.routing} label="Routing" testId="routing" />
      ${one.message === undefined ? null : html`<h2>Message</h2><pre class="json" tabIndex=${0} role="region" aria-label="Message">${one.message}</pre>`}</div>`
    }</section>`;
}
