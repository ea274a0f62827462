// The page of sign-in: a hand-off in the address is taken out of it and used, where another page leads here not before
// somebody says so: it may be somebody else's. Else the ways in, and the field for a token.

import { render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { SigninMethods } from '../../../../schemas/api/signin.ts';
import { call, openSession } from './api.ts';
import { Failure, Field, html, type Markup, useRead } from './kit.ts';

const root = document.getElementById('root');
const base = root?.dataset['base'] ?? '';
const next = new URLSearchParams(location.search).get('next') ?? '/';
/** The server has dropped what is no page; here it only must not lead away. */
const target = /^\/(?![/\\])[\x21-\x7e]*$/.test(next) ? next : '/';

function takeHandoff(): string | undefined {
  const [, handoff] = /^#h=([A-Za-z0-9_-]{1,200})$/.exec(location.hash) ?? [];
  if (location.hash !== '') history.replaceState(null, '', `${location.pathname}${location.search}`);
  return handoff;
}
const handoff = takeHandoff();
const isLed = root?.dataset['led'] !== undefined;

async function enter(body: { readonly token: string } | { readonly handoff: string }): Promise<void> {
  if (await openSession(body)) return location.replace(target);
  throw new Error(`This browser does not keep the session here. Use https, or the address in SVC_BASE_URL: ${base}.`);
}

function SigninPage(): Markup {
  const methods = useRead((signal) => call<SigninMethods>('GET', '/api/v1/auth/methods', { signal }), 'methods');
  const [error, setError] = useState<unknown>(undefined);
  const [asked, setAsked] = useState(isLed ? handoff : undefined);
  const [busy, setBusy] = useState(handoff !== undefined && !isLed);
  const run = async (body: { readonly token: string } | { readonly handoff: string }): Promise<void> => {
    setBusy(true);
    setAsked(undefined);
    setError(undefined);
    try {
      await enter(body);
    } catch (caught) {
      setError(caught);
      setBusy(false);
    }
  };
  useEffect(() => {
    if (handoff !== undefined && !isLed) void run({ handoff });
  }, []);
  const submit = (event: Event): void => {
    event.preventDefault();
    if (busy) return;
    const form = event.currentTarget as HTMLFormElement;
    const token = String(new FormData(form).get('token') ?? '').trim();
    form.reset();
    void run({ token });
  };
  const ways = methods.value?.methods ?? [];
  const query = target === '/' ? '' : `?next=${encodeURIComponent(target)}`;
  return html`<main class="alone" data-testid="page-signin"><h1>Sign in</h1>
    ${error === undefined ? null : html`<${Failure} error=${error} />`}
    ${methods.error === undefined ? null : html`<${Failure} error=${methods.error} />`}
    ${busy ? html`<p role="status">Signing in…</p>` : null}
    ${
      asked === undefined
        ? null
        : html`<div class="notice" data-testid="led"><p>Another page leads here, to sign this browser in as whoever made its link. Go on only if that was you, by <code>svc console</code>.</p>
          <p><button type="button" data-testid="signin-led" onClick=${() => run({ handoff: asked })}>Sign in by this link</button></p></div>`
    }
    ${ways.map(({ name, label, url }) => html`<p><a class="button primary" data-testid=${`signin-${name}`} href=${`${url}${query}`}>Sign in with ${label}</a></p>`)}
    <form onSubmit=${submit}>
      <${Field} label="API token" hint=${methods.value?.tokens === false ? 'Only the token of the data directory signs in here.' : html`<span><code>svc console</code> opens this signed in.</span>`}>
        <input type="password" name="token" required autocomplete="off" data-testid="signin-token" readOnly=${busy} /><//>
      <p><button type="submit" data-testid="signin-submit" aria-disabled=${busy ? 'true' : undefined} aria-busy=${busy}>Sign in</button></p>
    </form></main>`;
}

if (root !== null) render(html`<${SigninPage} />`, root);
