// The Connections page: an ordinary row for each connection, and the error tracker's, which is connected by consent.

import { useEffect, useState } from 'preact/hooks';
import type { Connection } from '../../../../schemas/api/connections.ts';
import type { ErrtrackAttempt, ErrtrackConnectionOption } from '../../../../schemas/api/errtrack.ts';
import { Confirm, useOnce, useQuestion } from './action.ts';
import { shell } from './command.ts';
import type { PageProps, Place } from './pages.ts';
import { call, isId } from './api.ts';
import { AddConnection } from './add-connection.ts';
import { ConnectionRow, Since, usedText } from './connection-row.ts';
import { Chooser, type Choosing } from './chooser.ts';
import { Command, Copy, Failure, html, Reading, Status, Table, Toast, type Markup, useRead } from './kit.ts';
import { useLive } from './live.ts';
import { More, usePages } from './more.ts';

const setupBase = '/api/v1/connections/errtrack/installations';
const projectsPath = '/api/v1/connections/errtrack/projects';
/** Setup calls may wait for the provider. */
const setupTimeoutMs = 120_000;
const needed = ['provider_grants:write', 'provider_grants:use'];

/** What the caller has not that a setup and a selection need. */
function lackingOf({ permissions, org }: Place): string | undefined {
  if (!needed.every((one) => permissions.includes(one))) return needed.join(' and ');
  return org.permissions.includes('org:write') ? undefined : 'an administrator of the organization';
}

/** Of several connections of the error tracker that the project has had, the one that is there. */
const ownOf = (items: readonly Connection[] = []): Connection | undefined =>
  items.find(({ provider, status }) => provider === 'errtrack' && status === 'active');

interface Options {
  readonly items: readonly ErrtrackConnectionOption[];
  readonly errtrackConnection: { readonly connected: boolean };
}
type Started = ErrtrackAttempt & { readonly authorizationUrl: string | null };

const setupCall = <T>(method: string, path: string, body?: unknown): Promise<T> =>
  call<T>(method, path, { ...(body !== undefined && { body }), signal: AbortSignal.timeout(setupTimeoutMs) });

/** Takes what a callback left in the address: an attempt that goes on, or that it is done. */
function arrival() {
  const query = new URLSearchParams(location.search);
  const attempt = query.get('errtrackAttempt') ?? undefined;
  const isDone = query.get('connectionOAuth') === 'success';
  const isErrtrack = query.get('provider') === 'errtrack';
  return {
    attempt: attempt !== undefined && isId(attempt) ? attempt : undefined,
    isDone,
    isErrtrack,
    isPending: query.has('oauthAttempt'),
  };
}
const dropQuery = (): void => history.replaceState(null, '', location.pathname);

/** Says once what a callback left in the address. */
function useArrival(choose: (choosing: Choosing) => void, tell: (text: string) => void): void {
  useEffect(() => {
    const { attempt, isDone, isErrtrack, isPending } = arrival();
    if (attempt !== undefined) choose({ kind: 'attempt', id: attempt });
    if (isDone) {
      tell(isErrtrack ? 'The error tracker is connected to this project.' : 'The connection is authorized.');
      dropQuery();
    }
    if (isPending) {
      tell('The consent is not completed: its state stands with the connection.');
      dropQuery();
    }
  }, []);
}

export function Page(props: PageProps): Markup {
  const { place } = props;
  const scope = { organizationId: place.org.id, projectId: place.project.id };
  const lacking = lackingOf(place);
  const isAllowed = lacking === undefined;
  const rows = usePages<Connection>(`${place.api}/connections`);
  const query = new URLSearchParams(scope).toString();
  const readOptions = (): Promise<Options> => setupCall<Options>('GET', `${projectsPath}?${query}`);
  const options = useRead(() => (isAllowed ? readOptions() : Promise.resolve(undefined)), 'options');
  const [choosing, setChoosing] = useState<Choosing | undefined>(undefined);
  const [told, setTold] = useState('');
  const [error, setError] = useState<unknown>(undefined);

  useArrival(setChoosing, setTold);
  useLive(['connections'], () => {
    rows.again();
    options.again();
  });

  const own = ownOf(rows.value?.items);
  // Whoever may not ask for the options sees by the row whether there is a connection.
  const isConnected = options.value?.errtrackConnection.connected ?? own !== undefined;
  const finished = (text: string): void => {
    setChoosing(undefined);
    dropQuery();
    setTold(text);
    options.again();
    rows.again();
  };
  const { busy, run: connect } = useOnce(async () => {
    setError(undefined);
    try {
      await begin(scope, await readOptions(), setChoosing, finished);
    } catch (caught) {
      setError(caught);
    }
  });
  const question = useQuestion(async () => {
    setError(undefined);
    await clearSelections(scope, await readOptions());
    finished('The error tracker is disconnected from this project.');
  }, setError);
  const close = (): void => {
    setChoosing(undefined);
    dropQuery();
    options.again();
  };

  const others = (rows.value?.items ?? []).filter((one) => one.provider !== 'errtrack');
  return html`<section data-testid="page-connections"><div class="title"><h1>Connections</h1><${Command} command="svc connection list" /></div>
    <${Toast} text=${told} />
    ${error === undefined ? null : html`<${Failure} error=${error} />`}
    ${rows.error === undefined ? null : html`<${Failure} error=${rows.error} />`}
    <${AddConnection} place=${place} again=${rows.again} />
    ${
      rows.value === undefined
        ? html`<${Reading} error=${rows.error} />`
        : html`<${Table} label="Connections" columns=${columns}>
      ${others.map((row) => html`<${ConnectionRow} key=${row.name} place=${place} row=${row} again=${rows.again} />`)}
      <${ErrtrackRow} lacking=${lacking} busy=${busy} isConnected=${isConnected} options=${options} usedBy=${usedText(own?.usedBy)} own=${own} onConnect=${connect} onDisconnect=${() => question.ask(consequence)} />
    <//><${More} hasMore=${rows.value.hasMore} more=${rows.more} />`
    }
    ${choosing === undefined ? null : html`<${Chooser} scope=${scope} choosing=${choosing} onDone=${finished} onClose=${close} />`}
    ${question.asking === undefined ? null : html`<${Confirm} title="Disconnect the error tracker" action="Disconnect" consequence=${question.asking} onConfirm=${question.confirmed} onClose=${question.close} />`}
  </section>`;
}

function ErrtrackRow(props: {
  readonly lacking: string | undefined;
  readonly busy: boolean;
  readonly isConnected: boolean;
  readonly options: { readonly value?: Options | undefined; readonly error?: unknown };
  readonly usedBy: string;
  readonly own: Connection | undefined;
  readonly onConnect: () => void;
  readonly onDisconnect: () => void;
}): Markup {
  const { isConnected, lacking, options } = props;
  const isAllowed = lacking === undefined;
  const isKnown = options.value !== undefined;
  const selected = (options.value?.items ?? []).filter((one) => one.selectedProjectIds.length > 0);
  const names = selected.map((one) => `${one.organizationSlug} (${one.selectedProjectIds.length})`).join(', ');
  const state = isConnected ? 'connected' : 'not-connected';
  const command = isConnected ? shell`svc connection remove ${props.own?.name ?? 'NAME'}` : 'svc connect errtrack';
  const why = isAllowed ? null : html`<small>needs ${lacking}</small>`;
  const button = isConnected
    ? html`<button type="button" data-testid="disconnect" title=${command} disabled=${!isAllowed} onClick=${props.onDisconnect}>Disconnect</button>`
    : html`<button type="button" data-testid="connect" title=${command} disabled=${!isAllowed || !isKnown} aria-disabled=${props.busy ? 'true' : undefined} aria-busy=${props.busy} onClick=${() => props.onConnect()}>Connect</button>`;
  return html`<tr data-testid="connection-errtrack" data-state=${state} data-row tabIndex=${-1}>
    <td>errtrack</td><td>${names === '' ? 'Error tracker' : names}</td>
    <td><${Status} kind=${isConnected ? 'good' : 'off'} text=${isConnected ? 'Connected' : 'Not connected'} /> ${isConnected ? html`<${Since} row=${props.own} />` : null}</td>
    <td>${isConnected ? props.usedBy : '–'}</td>
    <td><span class="action">${button} ${why ?? html`<${Copy} text=${command} label="svc" />`}</span>${options.error === undefined ? null : html`<${Failure} error=${options.error} />`}</td></tr>`;
}

/** Nothing selected in any connection of the row: the project is disconnected, and nothing else changes. */
async function clearSelections(
  scope: { readonly organizationId: string; readonly projectId: string },
  options: Options,
): Promise<void> {
  for (const { id } of options.items.filter((one) => one.selectedProjectIds.length > 0))
    await setupCall('PUT', projectsPath, { ...scope, providerGrantId: id, errtrackProjectIds: [] });
}

const columns = ['Provider', 'Name', 'State', 'Used by', 'Action'].map((title) => ({ title }));
const consequence =
  'Agents of this project no longer read its issues, and its issue events no longer arrive. Other projects and the app at the provider stay as they are.';

/** What Connect does now: says that it is done, reuses what the organization has, or leaves for the provider's consent. */
async function begin(
  scope: { readonly organizationId: string; readonly projectId: string },
  options: Options,
  choose: (choosing: Choosing) => void,
  finished: (text: string) => void,
): Promise<void> {
  if (options.errtrackConnection.connected) return finished('This project is already connected.');
  const available = options.items.filter((one) => one.available && one.projects.length > 0);
  const [only] = available;
  const [project] = only?.projects ?? [];
  if (available.length === 1 && only !== undefined && project !== undefined && only.projects.length === 1) {
    const body = { ...scope, providerGrantId: only.id, errtrackProjectIds: [project.id] };
    await setupCall('PUT', projectsPath, body);
    return finished('The error tracker is connected to this project.');
  }
  if (available.length > 0) return choose({ kind: 'options', options: available });
  const started = await setupCall<Started>('POST', setupBase, { ...scope, resume: true });
  if (started.authorizationUrl === null) return choose({ kind: 'attempt', id: started.attemptId });
  location.assign(started.authorizationUrl);
}
