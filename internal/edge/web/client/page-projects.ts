// Organizations and projects that the caller sees, and the end of an organization that has none.

import type { Me } from '../../../../schemas/api/tenancy.ts';
import { Action } from './action.ts';
import { call } from './api.ts';
import { shell } from './command.ts';
import { asked, because } from './dry-run.ts';
import { Command, Empty, html, type Markup } from './kit.ts';

type Org = Me['orgs'][number];

export function Page({ me, again }: { readonly me: Me; readonly again: () => void }): Markup {
  const { orgs } = me;
  return html`<section data-testid="page-projects"><div class="title"><h1>Projects</h1><${Command} command="svc project list" /></div>
    ${orgs.length === 0 ? html`<${Empty} text="No project is visible to you." command="svc project create SLUG" />` : null}
    ${orgs.map((org) => html`<${Organization} key=${org.id} org=${org} again=${again} />`)}
  </section>`;
}

function Organization({ org, again }: { readonly org: Org; readonly again: () => void }): Markup {
  const path = `/api/v1/orgs/${org.slug}`;
  const remove = async (reason?: string): Promise<void> => {
    await call('DELETE', path, because(reason));
    again();
  };
  return html`<section data-testid=${`row-organization-${org.slug}`}><h2>${org.name}</h2>
    ${
      org.projects.length === 0
        ? html`<div><${Empty} text="No project." command=${shell`svc project create SLUG --org ${org.slug}`} />
          <div class="actions"><${Action} place=${org} label="Delete the organization" testId="delete" needs="org:write" command=${shell`svc org delete ${org.slug}`} run=${remove} confirm=${asked(`Delete ${org.slug}`, 'DELETE', path)} /></div></div>`
        : html`<ul class="projects">${org.projects.map((project) => html`<li data-row tabIndex=${-1}><a href=${`/${org.slug}/${project.slug}`}>${org.slug}/${project.slug}</a>${project.name === project.slug ? null : html` <small>${project.name}</small>`}</li>`)}</ul>`
    }</section>`;
}
