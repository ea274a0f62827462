// The pages of a project as one table, what an address names, and moving between pages without leaving the document. A page
// is a module of its own that is loaded when it is first looked at; whoever adds one adds a row here, and its name in web.ts.

import { useEffect, useState } from 'preact/hooks';
import { withoutSteps } from './api.ts';
import type { VNode } from 'preact';

/** A project as pages are given it. */
export interface Place {
  readonly org: { readonly id: string; readonly slug: string; readonly permissions: readonly string[] };
  readonly project: { readonly id: string; readonly slug: string };
  readonly permissions: readonly string[];
  /** Below which its API lies. */
  readonly api: string;
  /** Below which its pages lie. */
  readonly root: string;
}

/** What each page's component `Page` is given. `query` is the address's; `setQuery` changes it, and with it the page. */
export interface PageProps {
  readonly place: Place;
  /** Of a detail page. */
  readonly id: string;
  readonly query: URLSearchParams;
}

type PageModule = { readonly Page: (props: PageProps) => VNode };
type Load = () => Promise<PageModule>;

export interface PageRow {
  /** As in the address: `/{org}/{project}/{name}`. */
  readonly name: string;
  readonly title: string;
  readonly load: Load;
  /** `/{org}/{project}/{name}/{id}`; its test id is `page-{kind}`. */
  readonly detail?: { readonly kind: string; readonly load: Load };
  /** Without which nothing of it can be read. */
  readonly needs?: string;
}

export const pages: readonly PageRow[] = [
  { name: 'overview', title: 'Overview', load: () => import('./page-overview.ts') },
  {
    name: 'repositories',
    title: 'Repositories',
    load: () => import('./page-repositories.ts'),
    detail: { kind: 'repository', load: () => import('./page-repository.ts') },
  },
  {
    name: 'reconciles',
    title: 'Reconciles',
    load: () => import('./page-reconciles.ts'),
    detail: { kind: 'reconcile', load: () => import('./page-reconcile.ts') },
  },
  {
    name: 'agents',
    title: 'Agents',
    load: () => import('./page-agents.ts'),
    detail: { kind: 'agent', load: () => import('./page-agent.ts') },
  },
  {
    name: 'triggers',
    title: 'Triggers',
    load: () => import('./page-triggers.ts'),
    detail: { kind: 'trigger', load: () => import('./page-trigger.ts') },
  },
  {
    name: 'events',
    title: 'Events',
    load: () => import('./page-events.ts'),
    detail: { kind: 'event', load: () => import('./page-event.ts') },
  },
  {
    name: 'sessions',
    title: 'Sessions',
    load: () => import('./page-sessions.ts'),
    detail: { kind: 'session', load: () => import('./page-session.ts') },
  },
  { name: 'schedules', title: 'Schedules', load: () => import('./page-schedules.ts') },
  { name: 'spend', title: 'Spend', load: () => import('./page-spend.ts') },
  { name: 'connections', title: 'Connections', load: () => import('./connections.ts') },
  { name: 'bindings', title: 'Bindings', load: () => import('./page-bindings.ts') },
  {
    name: 'endpoints',
    title: 'Endpoints',
    load: () => import('./page-endpoints.ts'),
    detail: { kind: 'endpoint', load: () => import('./page-endpoint.ts') },
  },
  { name: 'secrets', title: 'Secrets', load: () => import('./page-secrets.ts') },
  { name: 'audit', title: 'Audit', load: () => import('./page-audit.ts'), needs: 'audit:read' },
  { name: 'doctor', title: 'Doctor', load: () => import('./page-doctor.ts') },
  { name: 'members', title: 'Members', load: () => import('./page-members.ts') },
  { name: 'tokens', title: 'Tokens', load: () => import('./page-tokens.ts') },
  { name: 'settings', title: 'Settings', load: () => import('./page-settings.ts') },
];

/** What an address names. */
export interface Address {
  readonly org: string;
  readonly project: string;
  readonly page: string;
  /** Decoded; empty: the list. */
  readonly id: string;
}

export function addressOf(path: string): Address {
  const [org = '', project = '', page = '', id = ''] = path.split('/').slice(1);
  let decoded = id;
  try {
    decoded = decodeURIComponent(id);
  } catch {
    // What is no encoding names itself.
  }
  return { org, project, page: page === '' ? 'overview' : page, id: decoded.replace(/^~(?=\.{1,2}$)/, '') };
}

/** The address of a page of a project. */
export const pageHref = (place: Place, page: string, id?: string): string =>
  page === 'overview'
    ? place.root
    : withoutSteps(`${place.root}/${page}${id === undefined ? '' : `/${encodeURIComponent(id)}`}`);

const moved = 'svc:moved';

/** Of a step that one can go back to: the row that it was left by. */
interface Left {
  readonly row?: string;
}
export const leftBy = (): string | undefined => (history.state as Left | null)?.row;

/** Goes to an address of the console; `replace` leaves no step to go back to, `row` is where one comes back to. */
export function navigate(
  href: string,
  options: { readonly replace?: boolean; readonly row?: string | undefined } = {},
): void {
  const { replace = false, row } = options;
  if (row !== undefined) history.replaceState({ ...(history.state as object | null), row } satisfies Left, '');
  if (replace) history.replaceState(history.state, '', href);
  else history.pushState(null, '', href);
  dispatchEvent(new Event(moved));
}

/** Changes members of the query, null takes one away; the cursor of a page of a list does not outlive a filter. */
export function setQuery(change: { readonly [name: string]: string | null }, options = {}): void {
  const query = new URLSearchParams(location.search);
  if (!('cursor' in change)) query.delete('cursor');
  for (const [name, value] of Object.entries(change)) {
    if (value === null || value === '') query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  navigate(`${location.pathname}${text === '' ? '' : `?${text}`}`, options);
}

/** Where the browser is, and each time it moves. */
export function useAddress(): { readonly path: string; readonly search: string } {
  const read = () => ({ path: location.pathname, search: location.search });
  const [at, setAt] = useState(read);
  useEffect(() => {
    const onMove = (): void => setAt(read());
    addEventListener(moved, onMove);
    addEventListener('popstate', onMove);
    return () => {
      removeEventListener(moved, onMove);
      removeEventListener('popstate', onMove);
    };
  }, []);
  return at;
}

const isConsole = (url: URL): boolean =>
  url.origin === location.origin &&
  /^\/([a-z0-9][a-z0-9-]*\/[a-z0-9][a-z0-9-]*(\/.*)?)?$/.test(url.pathname) &&
  !/^\/(api|assets|signin|device|oauth|connections|webhooks)(\/|$)/.test(url.pathname);

/** The rows of the page that have this id. */
export const rowsOf = (id: string): HTMLElement[] =>
  [...document.querySelectorAll<HTMLElement>('#main [data-row]')].filter(({ dataset }) => dataset['testid'] === id);

/** By what a row is found again: of those that are alike none is. */
function idOf(row: HTMLElement | null): string | undefined {
  const id = row?.dataset['testid'];
  return id === undefined || rowsOf(id).length > 1 ? undefined : id;
}

/** Follows a link within the document, where it leads to a page of the console and is clicked plainly. */
export function followLink(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
    return;
  const link = event.target instanceof Element ? event.target.closest('a') : null;
  if (
    link === null ||
    link.target !== '' ||
    link.hasAttribute('download') ||
    link.getAttribute('href')?.startsWith('#') !== false
  )
    return;
  const url = new URL(link.href);
  if (!isConsole(url)) return;
  event.preventDefault();
  const row = idOf(link.closest('[data-row]'));
  navigate(`${url.pathname}${url.search}${url.hash}`, { row });
}
