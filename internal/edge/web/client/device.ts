// The page on which a person lets a command line in: types its code, sees who asks, and decides.

import { render } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { call } from './api.ts';
import { useOnce } from './action.ts';
import { Failure, Field, html, type Markup } from './kit.ts';

interface State {
  readonly status: 'pending' | 'allowed' | 'denied';
  readonly host?: string;
  readonly address?: string;
  readonly expiresAt?: string;
}

function DevicePage(): Markup {
  const [code, setCode] = useState('');
  const [state, setState] = useState<State | undefined>(undefined);
  const [error, setError] = useState<unknown>(undefined);
  const { busy, run: send } = useOnce(async (decision?: 'allow' | 'deny') => {
    setError(undefined);
    try {
      const body = { userCode: code, ...(decision !== undefined && { decision }) };
      setState(await call<State>('POST', '/device', { body }));
    } catch (caught) {
      setError(caught);
    }
  });
  // What was pressed is gone by then: the focus is on what stands in its place, which is heard so.
  const told = useRef<HTMLParagraphElement>(null);
  useLayoutEffect(() => told.current?.focus(), [state?.status]);
  const type = (event: Event): void => setCode((event.currentTarget as HTMLInputElement).value);
  const look = (event: Event): void => {
    event.preventDefault();
    void send();
  };
  return html`<main class="alone" data-testid="page-device"><h1>Let a command line in</h1>
    ${error === undefined ? null : html`<${Failure} error=${error} />`}
    ${
      state === undefined
        ? html`<form onSubmit=${look}><${Field} label="Code" hint="As the command line shows it. Type it only if you began this yourself.">
          <input data-testid="device-code" value=${code} onInput=${type} required autocomplete="off" autocapitalize="characters" spellcheck=${false} /><//>
          <p><button type="submit" data-testid="device-look">Continue</button></p></form>`
        : state.status === 'pending'
          ? html`<div><p ref=${told} tabIndex=${-1}><strong>${state.host}</strong> at ${state.address} asks for a token of yours, valid for up to 30 days.</p>
            <p class="buttons"><button type="button" data-testid="reject" onClick=${() => send('deny')}>Deny</button>
            <button type="button" class="primary" data-testid="allow" aria-busy=${busy} onClick=${() => send('allow')}>Allow</button></p></div>`
          : html`<p ref=${told} tabIndex=${-1} data-testid="decision">${state.status === 'allowed' ? 'It is let in. You can close this page.' : 'It was refused.'}</p>`
    }
  </main>`;
}

const root = document.getElementById('root');
if (root !== null) render(html`<${DevicePage} />`, root);
