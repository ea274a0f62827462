// One event and the reason for every decision on it: each trigger, each clause, what was found in its place.

import type { Endpoint } from '../../../../schemas/api/endpoints.ts';
import type { Event, EventExplanation } from '../../../../schemas/api/events.ts';
import { Action } from './action.ts';
import { call, isExactNumber } from './api.ts';
import { Clause } from './clause.ts';
import { shell } from './command.ts';
import { Facts, Json, Portion } from './detail.ts';
import { Clock, Command, Copy, Failure, html, kindOf, type Markup, Reading, Status, Time, useRead } from './kit.ts';
import { useLive } from './live.ts';
import { navigate, pageHref, type PageProps, type Place } from './pages.ts';
import { proven } from './proof.ts';

interface Explained {
  readonly triggers: readonly EventExplanation[];
  readonly more?: true;
}

/** A clause that matches the payload's own values, as a trigger's `where` writes it. */
function asWhere(payload: unknown): string {
  const lines: string[] = [];
  const walk = (value: unknown, path: string, depth: number): void => {
    if (lines.length >= 40) return;
    const isExact = isExactNumber(value);
    if (typeof value === 'object' && value !== null && !Array.isArray(value) && !isExact && depth < 4) {
      // What has a dot in it, or spaces around it, no path can name.
      for (const [key, one] of Object.entries(value))
        if (key !== '' && !key.includes('.') && key.trim() === key) walk(one, `${path}.${key}`, depth + 1);
    } else if (isExact || ['string', 'number', 'boolean'].includes(typeof value))
      lines.push(`  ${JSON.stringify(path)}: ${JSON.stringify(value)}`);
  };
  walk(payload, '$', 0);
  return `where:\n${lines.join('\n')}\n`;
}
const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** A request that brings the same in again: to its endpoint where it came by one, else as a replay. */
function asCurl(place: Place, event: Event, endpoint: Pick<Endpoint, 'ingestUrl' | 'auth'> | undefined): string {
  if (endpoint !== undefined)
    return proven(
      endpoint.auth,
      quoted(JSON.stringify(event.payload)),
      (body, proof) =>
        `curl -X POST -H 'content-type: application/json'${proof} --data ${body} ${quoted(endpoint.ingestUrl)}`,
    );
  return `curl -X POST -H "authorization: Bearer $SVC_TOKEN" ${quoted(`${location.origin}${place.api}/events/${event.id}/replay`)}`;
}

const words: { readonly [decision: string]: string } = {
  spawn: 'started',
  'unmatched-spawn': 'started',
  deliver: 'delivered to',
};
const wordOf = (decision: string | null): string => (decision === null ? '' : (words[decision] ?? decision));

export function Decision(props: { readonly place: Place; readonly one: EventExplanation }): Markup {
  const { place, one } = props;
  const { agent, ordinal, matched, clauses, fallback, decision, because, severity, standsBackFor = [] } = one;
  const sessions = one.sessionIds ?? (one.sessionId === undefined ? [] : [one.sessionId]);
  const word = matched ? 'YES' : 'NO';
  return html`<li class="decision" data-testid="decision" data-matched=${matched} data-row tabIndex=${-1}>
    <p><a href=${pageHref(place, 'agents', agent)}>${agent}</a><a href=${pageHref(place, 'triggers', `${agent}-${ordinal}`)}>#${ordinal}</a>${fallback ? ' (fallback) ' : ' '}<${Status} kind=${matched ? 'good' : 'off'} text=${word} /> <strong>${wordOf(decision)}</strong>${one.recorded || !matched ? '' : ' (would be decided now)'}${severity === undefined ? '' : ` · ${severity}`}
      ${sessions.map((id) => html` <a href=${pageHref(place, 'sessions', id)}>session ${id.slice(0, 13)}</a>`)}
      ${decision === null || wordOf(decision) === decision ? null : html` <small>${decision}</small>`}${because === undefined ? null : html` <span>${because}</span>`}${standsBackFor.length === 0 ? null : html` <span data-testid="stands-back">stands back: ${standsBackFor.map((other) => `${other.agent}#${other.ordinal}`).join(', ')} matched</span>`}</p>
    ${
      clauses.length === 0
        ? html`<p class="clause">no clause: everything on the key matches</p>`
        : html`<ul class="clauses">${clauses.map((clause) => html`<${Clause} one=${clause} />`)}</ul>`
    }</li>`;
}

/** How it came in, when, and what became of it. */
function Of(props: { readonly place: Place; readonly event: Event }): Markup {
  const { place, event } = props;
  const { endpoint, receivedAt, routerStatus } = event;
  return html`<span class="of">${endpoint === undefined ? null : html`<span>endpoint <a href=${pageHref(place, 'endpoints', endpoint)}>${endpoint}</a></span>`}
    <${Clock} at=${receivedAt} /> <${Status} kind=${kindOf(routerStatus)} text=${routerStatus} /></span>`;
}

/** Those that matched before the others: of a fleet that listens to one endpoint few do. */
const byMatch = (triggers: readonly EventExplanation[]): readonly EventExplanation[] => [
  ...triggers.filter(({ matched }) => matched),
  ...triggers.filter(({ matched }) => !matched),
];

function Decisions(props: { readonly place: Place; readonly explained: Explained; readonly event: Event }): Markup {
  const { place, explained, event } = props;
  if (explained.triggers.length === 0)
    return html`<p class="empty">No trigger listens to <code>${event.key}</code> here. <a href=${pageHref(place, 'triggers')}>All triggers</a></p>`;
  return html`<div><${Portion} of=${byMatch(explained.triggers)} draw=${(first: readonly EventExplanation[]) => html`<ul class="decisions">${first.map((one) => html`<${Decision} key=${`${one.agent} ${one.ordinal}`} place=${place} one=${one} />`)}</ul>`} />
    ${explained.more === true ? html`<p>There are more: <${Command} command=${shell`svc event explain ${event.id}`} /></p>` : null}</div>`;
}

export function Page({ place, id }: PageProps): Markup {
  const path = `${place.api}/events/${encodeURIComponent(id)}`;
  const read = useRead((signal) => call<Event>('GET', path, { signal }), path);
  const why = useRead((signal) => call<Explained>('GET', `${path}/explain`, { signal }), path);
  const event = read.value;
  const endpoint = useRead(
    async (signal) =>
      event?.endpoint === undefined
        ? undefined
        : call<Endpoint>('GET', `${place.api}/endpoints/${encodeURIComponent(event.endpoint)}`, { signal }),
    `${path} ${event?.endpoint ?? ''}`,
  );
  useLive(
    ['events'],
    () => {
      read.again();
      why.again();
    },
    (change) => change.id === id,
  );
  const replay = async (): Promise<void> => {
    const made = await call<{ eventRecordId: string }>('POST', `${path}/replay`);
    navigate(pageHref(place, 'events', made.eventRecordId));
  };
  const error = read.error ?? why.error;
  return html`<section data-testid="page-event">
    <div class="title"><h1>${event?.key ?? 'Event'}</h1>${event === undefined ? null : html`<${Of} place=${place} event=${event} />`}<${Command} command=${shell`svc event explain ${id}`} /></div>
    ${error === undefined ? null : html`<${Failure} error=${error} />`}
    ${
      event === undefined || (why.value === undefined && why.error === undefined)
        ? html`<${Reading} error=${error} />`
        : html`<div>
      <${Facts} of=${[
        ['received', html`<${Time} at=${event.receivedAt} />`],
        ['source', event.source],
        ['target', event.target === null ? undefined : `${event.target.type} ${event.target.key}`],
        [
          'replay of',
          event.replayOf === undefined
            ? undefined
            : html`<a href=${pageHref(place, 'events', event.replayOf)}>${event.replayOf}</a>`,
        ],
        ['failed', event.reason],
        ['id', html`<code>${event.id}</code>`],
      ]} />
      <h2>Why</h2>
      ${why.value === undefined ? null : html`<${Decisions} place=${place} explained=${why.value} event=${event} />`}
      ${
        event.payload === null
          ? html`<div><h2>Payload</h2><p class="empty">Retention has taken the body.</p></div>`
          : html`<div><div class="actions"><h2>Payload</h2>
        <${Action} place=${place} label="Replay" testId="replay" needs="events:replay" command=${shell`svc event replay ${id}`} run=${replay} />
        <${Copy} text=${asWhere(event.payload)} label="Copy as where" testId="copy-where" />
        <${Copy} text=${asCurl(place, event, endpoint.value)} label="Copy curl" testId="copy-curl" /></div>
      <${Json} value=${event.payload} label="Payload" testId="payload" /></div>`
      }</div>`
    }
  </section>`;
}
