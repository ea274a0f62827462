// Adds a connection: with credentials of its own, or one that somebody consents to at its provider. What is typed into a
// credential goes into the request alone, and is forgotten as soon as it is sent.

import { useState } from 'preact/hooks';
import type { Connection } from '../../../../schemas/api/connections.ts';
import { useOnce } from './action.ts';
import { call } from './api.ts';
import { Copy, Dialog, Failure, Field, html, type Markup } from './kit.ts';
import type { Place } from './pages.ts';

interface Input {
  readonly name: string;
  readonly label: string;
  readonly hint?: string;
  readonly isNeeded?: true;
  /** Text of several lines: a key. */
  readonly isLong?: true;
}
interface Kind {
  readonly title: string;
  readonly config: readonly Input[];
  readonly credentials: readonly Input[];
}

const apiUrl: Input = { name: 'apiUrl', label: 'API address', hint: 'Empty: the provider’s own.' };
const kinds: { readonly [provider: string]: Kind } = {
  codehost: {
    title: 'Code host',
    config: [
      apiUrl,
      { name: 'appId', label: 'App id' },
      { name: 'installationId', label: 'Installation id' },
      { name: 'botLogin', label: 'Bot login' },
    ],
    credentials: [
      { name: 'webhookSecret', label: 'Webhook secret', isNeeded: true },
      {
        name: 'privateKey',
        label: 'Private key',
        isLong: true,
        hint: 'PEM; without it nothing is read or written there.',
      },
    ],
  },
  tracker: {
    title: 'Issue tracker',
    config: [apiUrl, { name: 'botUserId', label: 'Bot user id' }],
    credentials: [
      { name: 'webhookSecret', label: 'Webhook secret', isNeeded: true },
      { name: 'apiKey', label: 'API key' },
    ],
  },
  chat: {
    title: 'Chat',
    config: [apiUrl, { name: 'workspaceId', label: 'Workspace id' }, { name: 'botUserId', label: 'Bot user id' }],
    credentials: [
      { name: 'signingSecret', label: 'Signing secret', isNeeded: true },
      { name: 'botToken', label: 'Bot token' },
    ],
  },
  mcp: {
    title: 'Tool server (MCP)',
    config: [
      { name: 'url', label: 'Address', isNeeded: true },
      { name: 'scopes', label: 'Scopes', hint: 'Parted by spaces; empty: what it asks for.' },
      { name: 'clientId', label: 'Client id', hint: 'Empty: it is registered by itself where the server allows that.' },
    ],
    credentials: [{ name: 'clientSecret', label: 'Client secret' }],
  },
  other: {
    title: 'Another provider of the configuration',
    config: [
      { name: 'provider', label: 'Provider', isNeeded: true, hint: 'Its name in the configuration.' },
      { name: 'scopes', label: 'Scopes', hint: 'Parted by spaces; empty: those of the configuration.' },
    ],
    credentials: [],
  },
};

/** The body of the request, what is empty left out. */
function bodyOf(provider: string, form: FormData): object {
  const { config, credentials } = kinds[provider] ?? { config: [], credentials: [] };
  const given = (inputs: readonly Input[]): { [name: string]: unknown } =>
    Object.fromEntries(
      inputs.flatMap(({ name }) => {
        const text = String(form.get(name) ?? '').trim();
        if (text === '') return [];
        return [[name, name === 'scopes' ? text.split(/\s+/) : text] as const];
      }),
    );
  const secret = given(credentials);
  const settings = given(config);
  const name = String(form.get('name') ?? '').trim();
  if (provider === 'other') return { name, ...settings };
  if (provider === 'mcp')
    return { provider, name, ...settings, ...(Object.keys(secret).length > 0 && { credentials: secret }) };
  return { provider, name, ...(Object.keys(settings).length > 0 && { config: settings }), credentials: secret };
}

export function AddConnection(props: { readonly place: Place; readonly again: () => void }): Markup {
  const { place } = props;
  const [isOpen, setOpen] = useState(false);
  const [made, setMade] = useState<Connection>();
  const [error, setError] = useState<unknown>(undefined);
  const isAllowed = place.permissions.includes('connections:write');
  const done = (connection: Connection, caught?: unknown): void => {
    setOpen(false);
    setMade(connection);
    setError(caught);
    props.again();
  };
  return html`<div><p class="action"><button type="button" data-testid="create" disabled=${!isAllowed} title="svc connection add PROVIDER NAME" onClick=${() => setOpen(true)}>Add a connection</button>
    ${isAllowed ? null : html`<small>needs connections:write</small>`}</p>
    ${made?.intakeUrl === undefined || made.intakeUrl === null ? null : html`<p class="notice" role="status" data-testid="intake-url">Send the webhooks of ${made.name} to <code>${made.intakeUrl}</code> <${Copy} text=${made.intakeUrl} label="Copy" /></p>`}
    ${error === undefined ? null : html`<div data-testid="not-consented"><p class="notice">${made?.name} is added. Nobody could be asked to consent yet: once that is mended, go on from its row.</p><${Failure} error=${error} /></div>`}
    ${isOpen ? html`<${Form} place=${place} onDone=${done} onClose=${() => setOpen(false)} />` : null}</div>`;
}

/** Takes the reader to the provider. */
async function consent(place: Place, { name }: Connection): Promise<void> {
  const path = `${place.api}/connections/${encodeURIComponent(name)}/authorize`;
  const { authorizationUrl } = await call<{ authorizationUrl: string }>('POST', path, { body: {} });
  location.assign(authorizationUrl);
}

function Form(props: {
  readonly place: Place;
  /** It is added; `caught`: nobody could be asked to consent. */
  readonly onDone: (connection: Connection, caught?: unknown) => void;
  readonly onClose: () => void;
}): Markup {
  const { place } = props;
  const [provider, setProvider] = useState('codehost');
  const [error, setError] = useState<unknown>(undefined);
  const { config, credentials } = kinds[provider] ?? { config: [], credentials: [] };
  const isConsented = provider === 'mcp' || provider === 'other';
  const { busy, run } = useOnce(async (form: HTMLFormElement) => {
    setError(undefined);
    try {
      const connection = await call<Connection>('POST', `${place.api}/connections`, {
        body: bodyOf(provider, new FormData(form)),
      });
      form.reset();
      if (!isConsented) return props.onDone(connection);
      // It is there from now on: sent again, it would be another one of that name.
      await consent(place, connection).catch((caught: unknown) => props.onDone(connection, caught));
    } catch (caught) {
      setError(caught);
    }
  });
  const send = (event: Event): void => {
    event.preventDefault();
    void run(event.currentTarget as HTMLFormElement);
  };
  const choose = (event: Event): void => setProvider((event.currentTarget as HTMLSelectElement).value);
  const input = ({ name, label, hint, isNeeded, isLong }: Input, isSecret: boolean): Markup => {
    const given = {
      name,
      required: isNeeded === true,
      spellcheck: false,
      autocomplete: 'off',
      'data-testid': `connection-${name}`,
    };
    const field =
      isLong === true
        ? html`<textarea ...${given} rows="3" class="hidden-text"></textarea>`
        : html`<input ...${given} type=${isSecret ? 'password' : 'text'} />`;
    return html`<${Field} key=${`${provider} ${name}`} label=${label} ...${hint === undefined ? {} : { hint }}>${field}<//>`;
  };
  return html`<${Dialog} title="Add a connection" testId="connection-dialog" onClose=${props.onClose}><form onSubmit=${send} autocomplete="off">
    <${Field} label="Provider"><select value=${provider} data-testid="connection-provider" onChange=${choose}>${Object.entries(kinds).map(([name, { title }]) => html`<option value=${name} selected=${name === provider}>${title}</option>`)}</select><//>
    <${Field} label="Name" hint="As agents write it."><input name="name" required pattern="[A-Za-z0-9_.\\-]{1,128}" spellcheck=${false} autocomplete="off" data-testid="connection-name" /><//>
    ${credentials.filter(({ isNeeded }) => isNeeded).map((one) => input(one, true))}
    ${config.filter(({ isNeeded }) => isNeeded).map((one) => input(one, false))}
    <details><summary>What may be left out</summary>${config.filter(({ isNeeded }) => isNeeded !== true).map((one) => input(one, false))}${credentials.filter(({ isNeeded }) => isNeeded !== true).map((one) => input(one, true))}</details>
    ${isConsented ? html`<p class="empty">You are taken to the provider to consent.</p>` : null}
    ${error === undefined ? null : html`<${Failure} error=${error} />`}
    <p class="buttons"><button type="button" onClick=${props.onClose}>Cancel</button><button type="submit" class="primary" data-testid="connection-save" aria-disabled=${busy ? 'true' : undefined} aria-busy=${busy}>Add</button></p></form><//>`;
}
