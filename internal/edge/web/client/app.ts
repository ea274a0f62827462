// The console's shell: who is signed in, the project, the navigation, whether what is shown is live, and the page that the
// address names. Pages are modules of their own (pages.ts); this one holds nothing of them.

import { render } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Me } from '../../../../schemas/api/tenancy.ts';
import { ApiError, call, earlyPath, fetchApi, prefetched, signinAddress } from './api.ts';
import { absolute, Failure, html, type Markup, ownZone, setZone, useClock, useRead, zone } from './kit.ts';
import { startLive, useLiveState, useNewer } from './live.ts';
import {
  type Address,
  addressOf,
  followLink,
  leftBy,
  navigate,
  pageHref,
  type PageProps,
  type PageRow,
  pages,
  type Place,
  rowsOf,
  useAddress,
} from './pages.ts';

function placeIn(me: Me, { org: orgSlug, project: projectSlug }: Address): Place | undefined {
  const org = me.orgs.find((one) => one.slug === orgSlug || one.id === orgSlug);
  const project = org?.projects.find((one) => one.slug === projectSlug || one.id === projectSlug);
  if (org === undefined || project === undefined) return undefined;
  const api = `/api/v1/orgs/${org.slug}/projects/${project.slug}`;
  return { org, project, permissions: project.permissions, api, root: `/${org.slug}/${project.slug}` };
}

const liveWords = { live: 'live', stale: 'not live', 'signed-out': 'signed out' } as const;
const liveShapes = { live: '●', stale: '◐', 'signed-out': '▲' } as const;
const liveKinds = { live: 'good', stale: 'wait', 'signed-out': 'bad' } as const;

/** Whether what is shown follows what happens; where it does not, since when. */
function Live(): Markup {
  const { state, isKnown, heardAt } = useLiveState();
  // The stream ends for who lost the project, too: whoever is still known here would sign in for nothing.
  const [isBarred, setBarred] = useState(false);
  useEffect(() => {
    setBarred(false);
    if (state === 'signed-out')
      void fetchApi('/api/v1/me').then(
        ({ ok }) => setBarred(ok),
        () => undefined,
      );
  }, [state]);
  const since = heardAt === 0 || state === 'live' ? '' : ` since ${absolute(new Date(heardAt).toISOString())}`;
  const text = isKnown ? `${isBarred ? 'not visible to you' : liveWords[state]}${since}` : 'connecting';
  return html`<span class=${`status ${isKnown ? liveKinds[state] : 'off'}`} role="status" data-testid="live-state" data-state=${state}>
    <span aria-hidden="true">${isKnown ? liveShapes[state] : '○'}</span> ${text}
    ${state === 'signed-out' && !isBarred ? html` <a href=${signinAddress()}>Sign in</a>` : null}</span>`;
}

function Zone(): Markup {
  useClock();
  const change = (event: Event): void =>
    setZone((event.currentTarget as HTMLSelectElement).value === 'UTC' ? 'UTC' : 'own');
  return html`<select aria-label="Time zone" data-testid="zone" value=${zone() === 'UTC' ? 'UTC' : 'own'} onChange=${change}>
    <option value="UTC">UTC</option>${ownZone === 'UTC' ? null : html`<option value="own">${ownZone}</option>`}</select>`;
}

function Header(props: {
  readonly me: Me;
  readonly place: Place | undefined;
  readonly page: string;
  readonly onFind: () => void;
}): Markup {
  const { me, place, page } = props;
  const [isOpen, setOpen] = useState(false);
  const [error, setError] = useState<unknown>(undefined);
  const signOut = async (): Promise<void> => {
    setError(undefined);
    try {
      await call('POST', '/api/v1/auth/signout');
    } catch (caught) {
      // Whose session is over is signed out already.
      if (!(caught instanceof ApiError && caught.problem.status === 401)) return setError(caught);
    }
    location.assign('/signin');
  };
  return html`<header><a class="skip" href="#main">Skip to the page</a>
    <div class="bar">
      ${place === undefined ? null : html`<button type="button" class="menu" aria-expanded=${isOpen} aria-controls="pages" onClick=${() => setOpen(!isOpen)}>Menu</button>`}
      <a class="home" href="/">svc</a>
      ${place === undefined ? null : html`<a href=${place.root}>${place.org.slug}/${place.project.slug}</a>`}
      <button type="button" data-testid="find" onClick=${props.onFind}>Go to… <kbd>Ctrl K</kbd></button>
      <span class="space"></span>
      ${place === undefined ? null : html`<${Live} />`}
      <${Zone} />
      <span class="me">${me.name}</span> <button type="button" data-testid="signout" onClick=${signOut}>Sign out</button>
    </div>
    ${error === undefined ? null : html`<${Failure} error=${error} />`}
    ${me.session?.breakGlass === true ? html`<p class="notice" data-testid="break-glass">Signed in with the token of the data directory; use a provider instead.</p>` : null}
    ${
      place === undefined
        ? null
        : html`<nav id="pages" class=${isOpen ? 'open' : ''} aria-label="Pages of the project" onClick=${() => setOpen(false)}>
        ${pages.map(({ name, title }) => html`<a href=${pageHref(place, name)} aria-current=${name === page ? 'page' : undefined}>${title}</a>`)}</nav>`
    }
  </header>`;
}

type ProjectsModule = typeof import('./page-projects.ts');

/** The list of projects, whose module only `/` needs. */
function Projects({ me, again }: { readonly me: Me; readonly again: () => void }): Markup {
  const [module, setModule] = useState<ProjectsModule>();
  const [error, setError] = useState<unknown>(undefined);
  useEffect(() => void import('./page-projects.ts').then(setModule, setError), []);
  if (error !== undefined) return html`<${Unloaded} title="Projects" />`;
  return module === undefined ? html`<p class="empty">Reading…</p>` : html`<${module.Page} me=${me} again=${again} />`;
}

function Unloaded({ title }: { readonly title: string }): Markup {
  const { state, isKnown } = useLiveState();
  const wasAway = useRef(false);
  useEffect(() => {
    // A module that did not come is not asked for again in this document: a new one is, when the service is back.
    if (isKnown && state === 'stale') wasAway.current = true;
    else if (wasAway.current && state === 'live') location.reload();
  }, [isKnown, state]);
  return html`<section><h1>${title}</h1><p class="failure" role="alert">This page could not be loaded: the service was not reached, or has been updated. <a href=${location.href} target="_self">Load it again</a></p></section>`;
}

type Component = (props: PageProps) => Markup;
const loaded = new Map<string, Component>();

/** The component of a page, once its module is there. */
function usePage(row: PageRow, isDetail: boolean) {
  const key = isDetail ? `${row.name}/` : row.name;
  const [, setRound] = useState(0);
  const [error, setError] = useState<{ readonly key: string; readonly error: unknown }>();
  const component = loaded.get(key);
  useEffect(() => {
    if (component !== undefined) return;
    // It can have come since this was drawn.
    if (loaded.has(key)) return setRound((round) => round + 1);
    const load = isDetail ? (row.detail?.load ?? row.load) : row.load;
    load().then(
      ({ Page }) => {
        loaded.set(key, Page);
        setRound((round) => round + 1);
      },
      (caught: unknown) => setError({ key, error: caught }),
    );
  }, [key]);
  return { component, error: error?.key === key ? error.error : undefined };
}

function PageOf(props: {
  readonly place: Place;
  readonly row: PageRow;
  readonly id: string;
  readonly search: string;
}): Markup {
  const { place, row, id } = props;
  const { component, error } = usePage(row, id !== '');
  if (row.needs !== undefined && !place.permissions.includes(row.needs))
    return html`<section data-testid=${`page-${row.name}`}><h1>${row.title}</h1><p class="notice" data-testid="not-allowed">This needs the permission <code>${row.needs}</code>.</p></section>`;
  if (error !== undefined) return html`<${Unloaded} title=${row.title} />`;
  if (component === undefined) return html`<p class="empty">Reading…</p>`;
  return html`<${component} key=${`${place.api} ${row.name} ${id}`} place=${place} id=${id} query=${new URLSearchParams(props.search)} />`;
}

const titleOf = (row: PageRow | undefined, { org, project, id }: Address): string =>
  (org === '' ? ['Projects', 'svc'] : [id, row?.title ?? '', project, 'svc']).filter((part) => part !== '').join(' · ');

function useKeys(place: Place | undefined, address: Address, open: (what: 'find' | 'keys') => void): void {
  // Before the page is painted: what is seen takes keys.
  useLayoutEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if ((event.ctrlKey || event.metaKey) && event.key === 'k') {
        event.preventDefault();
        open('find');
        return;
      }
      // A dialog has its own, also where nothing in it has the focus.
      const isTyping =
        document.querySelector('dialog[open]') !== null ||
        (event.target instanceof Element && event.target.closest('input, textarea, select') !== null);
      if (isTyping || event.ctrlKey || event.metaKey || event.altKey || localStorage.getItem('svc.keys') === 'off')
        return;
      if (event.key === '?') open('keys');
      else if (event.key === 'j' || event.key === 'k') step(event.key === 'j' ? 1 : -1);
      else if (event.key === 'Enter' && event.target instanceof HTMLElement && event.target.matches('[data-row]'))
        event.target.querySelector('a')?.click();
      else if (event.key === 'Escape' && place !== undefined && address.id !== '')
        navigate(pageHref(place, address.page));
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  });
}

/** Moves the focus to the next or the previous row of the page. */
function step(by: 1 | -1): void {
  const rows = [...document.querySelectorAll<HTMLElement>('#main [data-row]')];
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const next = rows[at === -1 ? (by === 1 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by))];
  next?.focus();
  next?.scrollIntoView({ block: 'nearest' });
}

const first = addressOf(location.pathname);
const isOverview = earlyPath !== undefined;

/** Who is signed in: the overview says it too, with this project alone. */
async function readMe(isAll: boolean, signal: AbortSignal): Promise<Me> {
  if (earlyPath === undefined || isAll) return call<Me>('GET', '/api/v1/me', { signal });
  const { viewer } = await prefetched<{ readonly viewer: Me }>(earlyPath);
  return viewer;
}
// Its module is under way with the shell's: it is there when there is something to show.
if (isOverview)
  void import('./page-overview.ts').then(
    ({ Page }) => loaded.set('overview', Page),
    () => undefined,
  );

type Dialogs = typeof import('./palette.ts');

function App(): Markup {
  const { path, search } = useAddress();
  const address = addressOf(path);
  // The first page may know of its own project alone: from when on all of them are read.
  const wantsAll = useRef(!isOverview);
  const { value: me, error, again } = useRead((signal) => readMe(wantsAll.current, signal), 'me');
  const reread = (): void => {
    wantsAll.current = true;
    again();
  };
  const [dialog, setDialog] = useState<'find' | 'keys'>();
  const [dialogs, setDialogs] = useState<Dialogs>();
  const isNewer = useNewer();
  const place = me === undefined || address.org === '' ? undefined : placeIn(me, address);
  useEffect(() => {
    // Another project than the one that this document began with, or the list of them: who may do what there is read.
    const isElsewhere =
      me !== undefined && isOverview && (address.org !== first.org || address.project !== first.project);
    if (isElsewhere) reread();
  }, [address.org, address.project]);
  const row = pages.find(({ name }) => name === address.page);
  const open = (what: 'find' | 'keys'): void => {
    setDialog(what);
    if (what === 'find' && isOverview) reread();
    // What is not there when the service has been updated is not missed: the page says that it is older.
    if (dialogs === undefined) void import('./palette.ts').then(setDialogs, () => undefined);
  };
  useKeys(place, address, open);
  useEffect(() => {
    // Another tab has signed somebody in, who may be another person: what is done here is theirs from now on.
    const onStored = ({ key, newValue }: StorageEvent): void => {
      if (key === 'svc.key' && newValue !== null) reread();
    };
    addEventListener('storage', onStored);
    return () => removeEventListener('storage', onStored);
  }, []);
  useEffect(() => {
    if (place !== undefined) startLive(place.api);
  }, [place?.api]);
  useEffect(() => {
    document.title = titleOf(row, address);
  }, [path]);
  useFocus(path);
  if (me === undefined)
    return html`<main id="main">${error === undefined ? html`<p class="empty">Reading…</p>` : html`<div><h1>svc</h1><${Failure} error=${error} /></div>`}</main>`;
  const close = (): void => setDialog(undefined);
  return html`<div class="shell" onClick=${followLink}><${Header} me=${me} place=${place} page=${address.page} onFind=${() => open('find')} />
    <main id="main" tabIndex=${-1}>
      ${isNewer ? html`<p class="notice" role="status" data-testid="newer">The service has been updated; this page is older than it. <a href=${location.href} target="_self">Load it again</a></p>` : null}
      ${
        address.org === ''
          ? html`<${Projects} me=${me} again=${reread} />`
          : place === undefined || row === undefined
            ? html`<p>This project is not visible to you.</p>`
            : html`<${PageOf} place=${place} row=${row} id=${address.id} search=${search} />`
      }
    </main>
    ${dialog === 'find' && dialogs !== undefined ? html`<${dialogs.Palette} me=${me} place=${place} onClose=${close} />` : null}
    ${dialog === 'keys' && dialogs !== undefined ? html`<${dialogs.Keys} onClose=${close} />` : null}
  </div>`;
}

const returnMs = 5_000;
/** Back on a page one is at the row that one left it by, as soon as it is there, unless one has gone on by then. */
function returnTo(row: string): () => void {
  const stop = new AbortController();
  const end = performance.now() + returnMs;
  for (const act of ['keydown', 'pointerdown', 'wheel'])
    addEventListener(act, () => stop.abort(), { signal: stop.signal, passive: true });
  const look = (): void => {
    if (stop.signal.aborted) return;
    const [found] = rowsOf(row);
    if (found !== undefined || performance.now() > end) stop.abort();
    else requestAnimationFrame(look);
    found?.focus({ preventScroll: true });
    found?.scrollIntoView({ block: 'center' });
  };
  look();
  return () => stop.abort();
}

/** After a step to another page the focus is on it; at the first one it is where the browser put it. */
function useFocus(path: string): void {
  const [first] = useState(path);
  const [isMoved, setMoved] = useState(false);
  useEffect(() => {
    if (path === first && !isMoved) return undefined;
    setMoved(true);
    document.getElementById('main')?.focus({ preventScroll: true });
    scrollTo(0, 0);
    const row = leftBy();
    return row === undefined ? undefined : returnTo(row);
  }, [path]);
}

const root = document.getElementById('root');
if (root !== null) render(html`<${App} />`, root);
