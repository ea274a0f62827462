// The console: finds the page that the address names, with the navigation around it.

import { render } from 'preact';
import type { Me } from '../../../../schemas/api/tenancy.ts';
import { call } from './api.ts';
import { ConnectionsPage } from './connections.ts';
import { html, type Markup } from './html.ts';
import { Empty, Failure, Toast, useRead } from './kit.ts';
import { ListPage, lists } from './lists.ts';

/** A project as pages are given it. */
export interface Place {
  readonly org: { readonly id: string; readonly slug: string };
  readonly project: { readonly id: string; readonly slug: string };
  readonly permissions: readonly string[];
  /** Below which its API lies. */
  readonly api: string;
}

const [orgSlug = '', projectSlug = '', pageName = 'overview', id] = location.pathname.split('/').slice(1);

function placeIn(me: Me): Place | undefined {
  const org = me.orgs.find((one) => one.slug === orgSlug);
  const project = org?.projects.find((one) => one.slug === projectSlug);
  if (org === undefined || project === undefined) return undefined;
  return { org, project, permissions: project.permissions, api: `/api/v1/orgs/${org.slug}/projects/${project.slug}` };
}

const shown = [
  'events',
  'sessions',
  'agents',
  'triggers',
  'repositories',
  'reconciles',
  'schedules',
  'bindings',
  'endpoints',
];
const more = ['secrets', 'connections', 'audit', 'members'];

function Navigation(props: { readonly place: Place | undefined; readonly me: Me }): Markup {
  const { place, me } = props;
  const root = place === undefined ? '/' : `/${place.org.slug}/${place.project.slug}`;
  const current = (name: string): object => (name === pageName ? { 'aria-current': 'page' } : {});
  const signOut = async (): Promise<void> => {
    await call('POST', '/api/v1/auth/signout');
    location.assign('/signin');
  };
  return html`<header><a class="skip" href="#main">Skip to the page</a>
    <nav aria-label="Console"><a href="/">svc</a>
      ${place === undefined ? null : html`<a href=${root} ...${current('overview')}>${place.org.slug}/${place.project.slug}</a>`}
      ${place === undefined ? null : [...shown, ...more].map((name) => html`<a href=${`${root}/${name}`} ...${current(name)}>${name}</a>`)}
    </nav>
    <span>${me.name} <button type="button" data-testid="signout" onClick=${signOut}>Sign out</button></span>
  </header>${me.session?.breakGlass === true ? html`<p class="notice" data-testid="break-glass">Signed in with the token of the data directory; use a provider instead.</p>` : null}`;
}

function Projects(props: { readonly me: Me }): Markup {
  const all = props.me.orgs.flatMap((org) => org.projects.map((project) => ({ org, project })));
  return html`<section data-testid="page-projects"><h1>Projects</h1>
    ${all.length === 0 ? html`<${Empty} text="No project is visible to you." command="svc project create" />` : null}
    <ul>${all.map(({ org, project }) => html`<li><a href=${`/${org.slug}/${project.slug}`}>${org.slug}/${project.slug}</a></li>`)}</ul>
  </section>`;
}

function Overview(props: { readonly place: Place }): Markup {
  const root = `/${props.place.org.slug}/${props.place.project.slug}`;
  return html`<section data-testid="page-overview"><h1>${props.place.project.slug}</h1>
    <${ListPage} place=${props.place} list=${lists['reconciles']} isPart=${true} />
    <${ListPage} place=${props.place} list=${lists['sessions']} isPart=${true} />
    <p><a href=${`${root}/events`}>All events</a></p></section>`;
}

function Page(props: { readonly me: Me }): Markup {
  if (orgSlug === '') return html`<${Projects} me=${props.me} />`;
  const place = placeIn(props.me);
  if (place === undefined) return html`<p>This project is not visible to you.</p>`;
  if (pageName === 'connections') return html`<${ConnectionsPage} place=${place} />`;
  if (pageName === 'overview') return html`<${Overview} place=${place} />`;
  const list = lists[pageName];
  if (list !== undefined && id === undefined) return html`<${ListPage} place=${place} list=${list} />`;
  return html`<section data-testid=${`page-${pageName}`}><h1>${pageName}</h1>
    <${Empty} text="The command line shows this." command=${`svc ${pageName.replace(/s$/, '')} ${id === undefined ? 'list' : `show ${id}`}`} /></section>`;
}

function App(): Markup {
  const me = useRead((signal) => call<Me>('GET', '/api/v1/me', { signal }), 'me');
  if (me.value === undefined)
    return html`<main id="main">${me.error === undefined ? html`<${Toast} text="Reading…" />` : html`<${Failure} error=${me.error} />`}</main>`;
  return html`<div><${Navigation} me=${me.value} place=${placeIn(me.value)} /><main id="main"><${Page} me=${me.value} /></main></div>`;
}

const root = document.getElementById('root');
if (root !== null) render(html`<${App} />`, root);
