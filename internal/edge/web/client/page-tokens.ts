// Tokens: the caller's own, made and revoked here, and those of the organization where the caller may see them. The text of
// a new one is shown once.

import { useState } from 'preact/hooks';
import type { CreatedToken, Token } from '../../../../schemas/api/tokens.ts';
import { Action, useOnce } from './action.ts';
import { ApiError, call } from './api.ts';
import { asked, because } from './dry-run.ts';
import { Command, Copy, Failure, Field, html, type Markup, Status, Table, Time } from './kit.ts';
import { usePolled } from './live.ts';
import { More, usePages } from './more.ts';
import type { PageProps } from './pages.ts';

const ownPath = '/api/v1/tokens';
const day = 86_400_000;
const needed = 'tokens:write';

function stateOf({ revokedAt, expiresAt }: Token): { readonly kind: 'good' | 'off'; readonly text: string } {
  if (revokedAt !== null) return { kind: 'off', text: 'revoked' };
  return expiresAt !== null && Date.parse(expiresAt) < Date.now()
    ? { kind: 'off', text: 'expired' }
    : { kind: 'good', text: 'live' };
}

export function Page({ place }: PageProps): Markup {
  const own = usePages<Token>(ownPath);
  const orgPath = `/api/v1/orgs/${place.org.slug}/tokens`;
  const all = usePages<Token>(orgPath);
  const me = own.value?.items[0]?.principal.id;
  const others = (all.value?.items ?? []).filter(({ principal }) => principal.id !== me);
  const again = (): void => {
    own.again();
    all.again();
  };
  usePolled(again);
  return html`<section data-testid="page-tokens" class="alike"><div class="title"><h1>Tokens</h1><${Command} command="svc token list" /></div>
    ${own.error === undefined ? null : html`<${Failure} error=${own.error} />`}
    <${Create} onMade=${again} />
    ${own.value === undefined ? null : html`<${Tokens} title="Your own" tokens=${own.value.items} more=${own.value.hasMore ? own.more : undefined} path=${ownPath} org="" isAllowed=${true} again=${again} />`}
    ${all.value === undefined ? html`<${Unread} error=${all.error} />` : others.length === 0 && !all.value.hasMore ? null : html`<${Tokens} title=${`Others in the organization ${place.org.slug}`} tokens=${others} more=${all.value.hasMore ? all.more : undefined} path=${orgPath} org=" --org" isAllowed=${place.org.permissions.includes('tokens:write')} again=${again} />`}
  </section>`;
}

/** Why there is no list of the organization's: not allowed, which is nothing wrong; or it could not be read. */
function Unread({ error }: { readonly error: unknown }): Markup {
  if (error === undefined) return html`<p class="empty">Reading…</p>`;
  const isRefused = error instanceof ApiError && error.problem.status === 403;
  return isRefused
    ? html`<p class="empty">Those of the organization need tokens:read.</p>`
    : html`<${Failure} error=${error} />`;
}

function Create({ onMade }: { readonly onMade: () => void }): Markup {
  const [made, setMade] = useState<CreatedToken | undefined>(undefined);
  const [error, setError] = useState<unknown>(undefined);
  const { busy, run } = useOnce(async (form: HTMLFormElement) => {
    const given = new FormData(form);
    const days = Number(given.get('days') ?? 0);
    setError(undefined);
    try {
      const expiresAt = days > 0 ? { expiresAt: new Date(Date.now() + days * day).toISOString() } : {};
      setMade(
        await call<CreatedToken>('POST', ownPath, { body: { name: String(given.get('name') ?? ''), ...expiresAt } }),
      );
      form.reset();
      onMade();
    } catch (caught) {
      setError(caught);
    }
  });
  const send = (event: Event): void => {
    event.preventDefault();
    void run(event.currentTarget as HTMLFormElement);
  };
  const hide = (event: Event): void => {
    // The button goes with what it hides: the focus stays with the form.
    (event.currentTarget as HTMLElement).closest('details')?.querySelector('summary')?.focus();
    setMade(undefined);
  };
  return html`<details><summary>Make a token of your own</summary><form onSubmit=${send} class="filters">
      <${Field} label="Name"><input name="name" required maxlength="200" autocomplete="off" data-testid="token-name" /><//>
      <${Field} label="Valid for"><select name="days"><option value="30">30 days</option><option value="90">90 days</option><option value="365">a year</option><option value="0">as long as your session may</option></select><//>
      <p><button type="submit" data-testid="create" aria-busy=${busy} title="svc token create NAME">Make</button></p></form>
    ${error === undefined ? null : html`<${Failure} error=${error} />`}
    ${made === undefined ? null : html`<p class="notice" role="status">Shown this once: <code data-testid="token-text">${made.token}</code> <${Copy} text=${made.token} label="Copy" /> <button type="button" class="small" onClick=${hide}>Hide</button></p>`}</details>`;
}

function Tokens(props: {
  readonly title: string;
  readonly tokens: readonly Token[];
  /** Reads on; undefined: these are all. */
  readonly more: (() => void) | undefined;
  readonly path: string;
  /** What the command takes beside the id. */
  readonly org: string;
  readonly isAllowed: boolean;
  readonly again: () => void;
}): Markup {
  const permissions = props.isAllowed ? [needed] : [];
  const revoke =
    (path: string) =>
    async (reason?: string): Promise<void> => {
      await call('DELETE', path, because(reason));
      props.again();
    };
  const columns = ['Name', 'Whose', 'State', 'Used', 'Expires', 'Action'].map((title) => ({ title }));
  return html`<div><h2>${props.title}${props.more === undefined ? ' ' : ', the latest '}${props.tokens.length}</h2>
    ${
      props.tokens.length === 0
        ? html`<p class="empty">None.</p>`
        : html`<${Table} label=${props.title} columns=${columns}>
      ${props.tokens.map((one) => {
        const state = stateOf(one);
        const path = `${props.path}/${one.id}`;
        return html`<tr key=${one.id} data-testid=${`row-token-${one.id}`} data-row tabIndex=${-1}><td>${one.name}</td><td>${one.principal.name}</td><td><${Status} kind=${state.kind} text=${state.text} /></td>
          <td>${one.lastUsedAt === null ? 'never' : html`<${Time} at=${one.lastUsedAt} />`}</td><td>${one.expiresAt === null ? 'never' : html`<${Time} at=${one.expiresAt} />`}</td>
          <td>${one.revokedAt === null ? html`<${Action} place=${{ permissions }} label="Revoke" testId="revoke" needs=${needed} command=${`svc token revoke ${one.id}${props.org}`} run=${revoke(path)} confirm=${asked(`Revoke ${one.name}`, 'DELETE', path)} />` : '–'}</td></tr>`;
      })}<//>`
    }
    <${More} hasMore=${props.more !== undefined} more=${() => props.more?.()} /></div>`;
}
