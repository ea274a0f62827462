// Whom a project tells of what happens in it, and what became of what it told: a part of its settings. The key of a webhook
// goes into the request alone, and is forgotten as soon as it is sent.

import { useState } from 'preact/hooks';
import type { Shape } from '../../../../schemas/api/operation.ts';
import type { notice, receiver } from '../../../../schemas/api/receivers.ts';
import { Action, useOnce } from './action.ts';
import { call } from './api.ts';
import { shell } from './command.ts';
import { asked, because } from './dry-run.ts';
import { Empty, Failure, Field, html, type Markup, Status, Table, Time, useRead } from './kit.ts';
import { statusCell } from './list.ts';
import { usePolled } from './live.ts';
import { More, usePages } from './more.ts';
import type { Place } from './pages.ts';

type Receiver = Shape<typeof receiver>;
type Notice = Shape<typeof notice>;

const needs = 'receivers:write';
/** Of `origin`, `receiver:NAME`, `installation:NAME`. */
const toldText = (receiver: string): string =>
  receiver === 'origin' ? 'where it came from' : receiver.slice(receiver.indexOf(':') + 1);
const pathOf = (place: Place, name: string): string => `${place.api}/receivers/${encodeURIComponent(name)}`;
/** So many conditions are named; who is told of more is told of nearly everything. */
const namedMost = 4;

function Row(props: { readonly place: Place; readonly one: Receiver; readonly again: () => void }): Markup {
  const { place, one, again } = props;
  const { name, kind, scope, conditions, suspended } = one;
  const [said, setSaid] = useState('');
  const path = pathOf(place, name);
  const test = async (): Promise<void> => {
    const { status, code } = await call<{ status: string; code?: string }>('POST', `${path}/test`);
    setSaid(status === 'done' ? 'It has taken the test.' : `It has not taken the test: ${code ?? status}.`);
  };
  const turn = async (): Promise<void> => {
    await call('PATCH', path, { body: { suspended: !suspended } });
    again();
  };
  const remove = async (reason?: string): Promise<void> => {
    await call('DELETE', path, because(reason));
    again();
  };
  const of = conditions.length > namedMost ? `${conditions.length} conditions` : conditions.join(', ');
  return html`<tr data-testid=${`row-receiver-${name}`} data-row tabIndex=${-1}>
    <td>${name}</td><td>${kind}</td><td>${one.url ?? `${one.connection ?? ''} ${one.channel ?? ''}`}</td>
    <td><span title=${conditions.join(', ')}>${of}</span></td>
    <td><${Status} kind=${suspended ? 'off' : 'good'} text=${suspended ? 'suspended' : 'active'} /></td>
    <td>${
      scope === 'installation'
        ? html`<small>of the installation’s configuration</small>`
        : html`<div class="actions"><${Action} place=${place} label="Test" testId=${`test-${name}`} needs=${needs} command=${shell`svc notify test ${name}`} run=${test} />
      <${Action} place=${place} label=${suspended ? 'Resume' : 'Suspend'} testId=${`turn-${name}`} needs=${needs} command=${suspended ? shell`svc notify edit ${name} --resume` : shell`svc notify edit ${name} --suspend`} run=${turn} />
      <${Action} place=${place} label="Remove" testId=${`remove-${name}`} needs=${needs} command=${shell`svc notify remove ${name}`} run=${remove} confirm=${asked(`Remove ${name}`, 'DELETE', path)} /></div>`
    }<span role="status">${said}</span></td></tr>`;
}

function Add(props: { readonly place: Place; readonly again: () => void }): Markup {
  const { place, again } = props;
  const [kind, setKind] = useState('chat');
  const [error, setError] = useState<unknown>(undefined);
  const isAllowed = place.permissions.includes(needs);
  const { busy, run } = useOnce(async (form: HTMLFormElement) => {
    const given = [...new FormData(form)].filter(([, value]) => value !== '');
    setError(undefined);
    try {
      await call('POST', `${place.api}/receivers`, { body: Object.fromEntries(given) });
      form.reset();
      setKind('chat');
      again();
    } catch (caught) {
      setError(caught);
    }
  });
  const send = (event: Event): void => {
    event.preventDefault();
    void run(event.currentTarget as HTMLFormElement);
  };
  const choose = (event: Event): void => setKind((event.currentTarget as HTMLSelectElement).value);
  const input = (name: string, label: string, hint: string, more: object = {}): Markup =>
    html`<${Field} label=${label} hint=${hint}><input name=${name} required spellcheck=${false} autocomplete="off" data-testid=${`receiver-${name}`} ...${more} /><//>`;
  return html`<details><summary>Add a receiver</summary><form onSubmit=${send} autocomplete="off"><div class="filters">
      <${Field} label="Kind"><select name="kind" value=${kind} data-testid="receiver-kind" onChange=${choose}><option value="chat">chat</option><option value="webhook">webhook</option></select><//>
      ${input('name', 'Name', 'Letters, digits and _.-', { pattern: '[A-Za-z0-9_.\\-]{1,128}' })}
      ${kind === 'chat' ? input('connection', 'Connection', 'Of chat.') : input('url', 'Address', 'Deliveries are signed.')}
      ${kind === 'chat' ? input('channel', 'Channel', 'Its id.') : input('secret', 'Key', 'What deliveries are signed with.', { type: 'password' })}</div>
    ${error === undefined ? null : html`<${Failure} error=${error} />`}
    <p class="action"><button type="submit" data-testid="receiver-add" disabled=${!isAllowed} aria-busy=${busy} title=${kind === 'chat' ? `svc notify add chat NAME --connection C --channel ID` : `svc notify add webhook NAME --url URL --from-file FILE`}>Add</button> ${isAllowed ? html`<small>It is told of everything; <code>svc notify edit NAME --on …</code> narrows that.</small>` : html`<small>needs ${needs}</small>`}</p></form></details>`;
}

const subjectOf = ({ subject }: Notice): string => {
  const of = subject as { readonly [name: string]: unknown };
  return String(of['repository'] ?? of['agent'] ?? of['connection'] ?? of['secret'] ?? '');
};

function Told(props: { readonly notices: readonly Notice[] }): Markup {
  return html`<div><h3>What was told last</h3><${Table} label="What was told last" columns=${['When', 'Condition', 'About', 'Told'].map((title) => ({ title }))}>
    ${props.notices.map(
      (
        one,
      ) => html`<tr data-testid=${`row-notice-${one.id}`}><td><${Time} at=${one.at} /></td><td>${one.condition.replaceAll('-', ' ')}</td><td>${subjectOf(one)}</td>
      <td>${one.tellings.length === 0 ? 'nobody' : one.tellings.map(({ receiver, status, code }) => html`<span>${toldText(receiver)} ${statusCell(status)} ${code === undefined ? '' : html`<small>${code}</small>`} </span>`)}</td></tr>`,
    )}<//></div>`;
}

/** Who is told, what was told last, and how to change it. */
export function Notifications(props: { readonly place: Place }): Markup | null {
  const { place } = props;
  const isAllowed = place.permissions.includes('receivers:read');
  return isAllowed ? html`<${Receivers} place=${place} />` : null;
}

function Receivers({ place }: { readonly place: Place }): Markup {
  const receivers = usePages<Receiver>(`${place.api}/receivers`);
  const noticesPath = `${place.api}/notices?limit=10`;
  const notices = useRead((signal) => call<{ items: readonly Notice[] }>('GET', noticesPath, { signal }), noticesPath);
  const again = (): void => {
    receivers.again();
    notices.again();
  };
  usePolled(again);
  const found = receivers.value;
  const told = notices.value?.items ?? [];
  return html`<section aria-labelledby="told" data-testid="receivers"><div class="title"><h2 id="told">Who is told</h2></div>
    ${[receivers.error, notices.error].map((error) => (error === undefined ? null : html`<${Failure} error=${error} />`))}
    ${
      found === undefined
        ? null
        : html`<div>${
            found.items.length === 0
              ? html`<${Empty} text="Nobody is told of failed syncs, questions, spend caps and the like." command="svc notify add chat NAME --connection C --channel ID" />`
              : html`<${Table} label="Receivers" columns=${['Name', 'Kind', 'To', 'Of', 'State', 'Action'].map((title) => ({ title }))}>${found.items.map((one) => html`<${Row} key=${one.name} place=${place} one=${one} again=${again} />`)}<//><${More} hasMore=${found.hasMore} more=${receivers.more} />`
          }
      <${Add} place=${place} again=${again} />
      ${told.length === 0 ? null : html`<${Told} notices=${told} />`}</div>`
    }</section>`;
}
