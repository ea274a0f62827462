// Settings of the project: its name, its ceilings, what its sessions reach, and its end.

import { useState } from 'preact/hooks';
import type { Project } from '../../../../schemas/api/tenancy.ts';
import { Action, Entry } from './action.ts';
import { call } from './api.ts';
import { shell } from './command.ts';
import { asked, because } from './dry-run.ts';
import { Notifications } from './notifications.ts';
import { Command, Failure, Field, html, type Markup, Reading, Status, Time, Toast, useRead } from './kit.ts';
import { usePolled } from './live.ts';
import type { PageProps, Place } from './pages.ts';

const needed = 'project:write';

export function Page({ place }: PageProps): Markup {
  const read = useRead((signal) => call<Project>('GET', place.api, { signal }), place.api);
  usePolled(read.again);
  const found = read.value;
  return html`<section data-testid="page-settings"><div class="title"><h1>Settings</h1><${Command} command=${shell`svc project show ${place.project.slug}`} /></div>
    ${read.error === undefined ? null : html`<${Failure} error=${read.error} />`}
    ${found === undefined ? html`<${Reading} error=${read.error} />` : html`<${Settings} place=${place} project=${found} again=${read.again} />`}</section>`;
}

/** An empty list is no list: nothing is reached. */
const reachText = ({ network }: Project): string =>
  network === undefined ? 'the installation’s list' : network.allow.length === 0 ? 'nothing' : network.allow.join(', ');

/** Ids at their providers, of those who may answer where a session asks. */
const approversText = ({ approvers }: Project): string =>
  Object.entries(approvers)
    .flatMap(([provider, ids]) => (ids ?? []).map((id) => `${provider}:${id}`))
    .join(', ');

interface Props {
  readonly place: Place;
  readonly project: Project;
  readonly again: () => void;
}

function Settings({ place, project, again }: Props): Markup {
  const archive = async (reason?: string): Promise<void> => {
    await call('PATCH', place.api, because(reason, { archived: !project.archived }));
    again();
  };
  const remove = async (reason?: string): Promise<void> => {
    await call('DELETE', place.api, because(reason));
    location.assign('/');
  };
  return html`<div>
    <dl class="facts"><div><dt>Name</dt><dd>${project.name}</dd></div><div><dt>Slug</dt><dd><code>${project.slug}</code></dd></div><div><dt>Id</dt><dd><code>${project.id}</code></dd></div>
      <div><dt>State</dt><dd><${Status} kind=${project.archived ? 'off' : 'good'} text=${project.archived ? 'archived' : 'active'} />${project.archivedAt === null ? null : html` <${Time} at=${project.archivedAt} />`}</dd></div>
      <div><dt>Ceilings</dt><dd>${project.limits === undefined ? 'none of its own' : html`<code>${JSON.stringify(project.limits)}</code>`}</dd></div>
      <div><dt>Reach of its sessions</dt><dd>${reachText(project)}</dd></div>
      <div><dt>Told where a session came from</dt><dd data-testid="notify">${project.notify ? 'failed launches and questions' : html`nothing <${Command} command=${shell`svc project set ${project.slug} --notify on`} />`}</dd></div>
      <div><dt>Who may answer there</dt><dd data-testid="approvers">${approversText(project) || 'nobody'}</dd></div></dl>
    <${Rename} place=${place} project=${project} again=${again} />
    <${Notifications} place=${place} />
    <h2>End</h2><div class="actions">
      ${
        project.archived
          ? html`<${Action} place=${place} label="Bring back" testId="resume" needs=${needed} command=${shell`svc project restore ${project.slug}`} run=${archive} />`
          : html`<${Action} place=${place} label="Archive" testId="archive" needs=${needed} command=${shell`svc project archive ${project.slug}`} run=${archive} confirm=${asked(`Archive ${project.slug}`, 'PATCH', place.api, { archived: true })} />`
      }
      <${Action} place=${place} label="Delete" testId="delete" needs=${needed} command=${shell`svc project delete ${project.slug}`} run=${remove} confirm=${asked(`Delete ${project.slug}`, 'DELETE', place.api)} />
    </div></div>`;
}

function Rename({ place, project, again }: Props): Markup {
  const [name, setName] = useState(project.name);
  const [told, setTold] = useState('');
  const run = async (): Promise<void> => {
    const { name: stored } = await call<Project>('PATCH', place.api, { body: { name } });
    setTold(`It is called ${stored} now.`);
    again();
  };
  const type = (event: Event): void => setName((event.currentTarget as HTMLInputElement).value);
  return html`<div><${Toast} text=${told} /><${Entry}><${Field} label="Name"><input data-testid="project-name" required value=${name} maxlength="200" onInput=${type} /><//>
    <${Action} place=${place} label="Rename" testId="rename" needs=${needed} command=${shell`svc project rename ${project.slug} NAME`} run=${run} /><//></div>`;
}
