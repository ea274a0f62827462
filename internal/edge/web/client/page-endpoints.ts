// Webhook endpoints: where callers post to, what wakes, and what is wrong.

import { useState } from 'preact/hooks';
import type { Endpoint } from '../../../../schemas/api/endpoints.ts';
import { Action, Entry } from './action.ts';
import { call } from './api.ts';
import { shell } from './command.ts';
import { Portion } from './detail.ts';
import { asked, because } from './dry-run.ts';
import { Command, Copy, Failure, Field, html, type Markup, Reading, Table, Time, useRead } from './kit.ts';
import { type List, ListPage, statusCell } from './list.ts';
import { useLive } from './live.ts';
import { navigate, type PageProps, pageHref, type Place } from './pages.ts';
import { proven } from './proof.ts';

/** An apply makes an endpoint ready, gives it triggers, and finds the secret that it lacked. */
const appliedTopics = ['agents', 'reconciles'] as const;

const list: List<Endpoint> = {
  page: 'endpoints',
  title: 'Endpoints',
  kind: 'endpoint',
  idOf: ({ name }) => name,
  topics: appliedTopics,
  isCounted: true,
  columns: [
    { title: 'Name', cell: ({ name }) => name },
    { title: 'Status', cell: ({ status }) => statusCell(status) },
    { title: 'Address', cell: ({ ingestUrl }) => html`<code>${ingestUrl}</code>` },
    { title: 'Proof', cell: ({ auth }) => (auth === null ? '–' : auth.kind.replaceAll('_', ' ')) },
    { title: 'Triggers', cell: ({ triggers }) => triggers.length },
    {
      title: 'Problems',
      cell: ({ problems }) => (problems.length === 0 ? 'none' : problems.map(({ message }) => message).join(' ')),
    },
  ],
  command: 'svc endpoint list',
  empty: 'No trigger declares a webhook endpoint. Reserve one to know its address before.',
  above: ({ place }) => html`<${Reserve} place=${place} />`,
};

export const Page = (props: PageProps) => html`<${ListPage} ...${props} list=${list} />`;

function Reserve({ place }: { readonly place: Place }): Markup {
  const [name, setName] = useState('');
  const run = async (): Promise<void> => {
    const made = await call<Endpoint>('POST', `${place.api}/endpoints`, { body: { name } });
    navigate(pageHref(place, 'endpoints', made.name));
  };
  const type = (event: Event): void => setName((event.currentTarget as HTMLInputElement).value.trim());
  return html`<details><summary>Reserve a name</summary><${Entry}>
    <${Field} label="Name" hint="Its address is known for an hour before an apply makes it ready."><input data-testid="endpoint-name" required pattern="[A-Za-z0-9_.\\-]{1,128}" title="1 to 128 characters of A-Za-z0-9_.-" value=${name} onInput=${type} autocomplete="off" spellcheck=${false} /><//>
    <${Action} place=${place} label="Reserve" testId="create" needs="endpoints:write" command=${shell`svc endpoint reserve ${name === '' ? 'NAME' : name}`} run=${run} /><//></details>`;
}

/** What a caller types, with the proof that the endpoint asks for; secrets by name alone. */
function curlOf({ ingestUrl, auth }: Endpoint): string {
  const body = `'{"event":"example","dedupKey":"1"}'`;
  return proven(
    auth,
    body,
    (data, proof) => `curl -sS ${ingestUrl} -H 'content-type: application/json'${proof} -d ${data}`,
  );
}

/** What a proof does not say. */
const proofNotes: { readonly [kind in NonNullable<Endpoint['auth']>['kind']]: string } = {
  none: 'Whoever knows the address can post to it.',
  bearer_token: 'Whoever has the secret can post to it.',
  hmac_sha256: 'The signature covers the body alone.',
};

export function Detail({ place, id }: PageProps): Markup {
  const path = `${place.api}/endpoints/${encodeURIComponent(id)}`;
  const read = useRead((signal) => call<Endpoint>('GET', path, { signal }), path);
  useLive(appliedTopics, read.again);
  const found = read.value;
  const remove = async (reason?: string): Promise<void> => {
    await call('DELETE', path, because(reason));
    navigate(pageHref(place, 'endpoints'));
  };
  return html`<section data-testid="page-endpoint"><div class="title"><h1>${id}</h1><${Command} command=${shell`svc endpoint show ${id}`} /></div>
    ${read.error === undefined ? null : html`<${Failure} error=${read.error} />`}
    ${found === undefined ? html`<${Reading} error=${read.error} />` : html`<${Whole} place=${place} endpoint=${found} path=${path} onDelete=${remove} />`}</section>`;
}

function Whole(props: {
  readonly place: Place;
  readonly endpoint: Endpoint;
  readonly path: string;
  readonly onDelete: (reason?: string) => Promise<void>;
}): Markup {
  const { place, endpoint } = props;
  const { auth, triggers, problems, reservedUntil } = endpoint;
  const curl = curlOf(endpoint);
  return html`<div>
    ${problems.map(({ severity, message }) => html`<p class=${severity === 'error' ? 'failure' : 'notice'}>${message}</p>`)}
    <dl class="facts"><div><dt>Status</dt><dd>${statusCell(endpoint.status)}</dd></div>
      ${reservedUntil === null ? null : html`<div><dt>Reserved until</dt><dd><${Time} at=${reservedUntil} /></dd></div>`}
      <div><dt>Address</dt><dd><code>${endpoint.ingestUrl}</code> <${Copy} text=${endpoint.ingestUrl} label="Copy" /></dd></div>
      <div><dt>Proof</dt><dd>${auth === null ? 'none yet' : auth.kind.replaceAll('_', ' ')}${auth?.secretRef === undefined ? null : html` with secret <a href=${pageHref(place, 'secrets')}>${auth.secretRef}</a>`}</dd></div></dl>
    <h2>Post to it</h2><pre tabIndex=${0} role="region" aria-label="Command that posts an event">${curl}</pre><p><${Copy} text=${curl} label="Copy curl" /></p>
    <p class="empty">${auth === null ? null : proofNotes[auth.kind]} Only <code>dedupKey</code> stops a replay.</p>
    <h2>Triggers ${triggers.length}</h2>
    ${
      triggers.length === 0
        ? html`<p class="empty">No trigger uses it.</p>`
        : html`<${Portion} of=${triggers} draw=${(
            first: Endpoint['triggers'],
          ) => html`<${Table} label="Triggers" columns=${[{ title: 'Trigger' }, { title: 'Event' }, { title: 'Status' }]}>
      ${first.map((one) => html`<tr><td><a href=${pageHref(place, 'triggers', `${one.agent}-${one.ordinal}`)}>${one.agent}#${one.ordinal}</a></td><td><code>${one.event}</code></td><td>${statusCell(one.status)}</td></tr>`)}<//>`} />`
    }
    <p><a href=${`${pageHref(place, 'events')}?endpoint=${encodeURIComponent(endpoint.name)}`}>Its events</a></p>
    <div class="actions"><${Action} place=${place} label="Delete" testId="delete" needs="endpoints:write" command=${shell`svc endpoint delete ${endpoint.name}`} run=${props.onDelete} confirm=${asked('Delete the endpoint', 'DELETE', props.path)} /></div>
  </div>`;
}
