// Secrets of the project and of its organization: what there is, when it was rotated and when it ends; set, edited, rotated
// and deleted here. A value goes in and is never shown: the page asks for none, and forgets what was typed as soon as it is sent.

import { useState } from 'preact/hooks';
import type { Secret } from '../../../../schemas/api/secrets.ts';
import { Action } from './action.ts';
import { call } from './api.ts';
import { changed, changingList } from './changed.ts';
import { shell } from './command.ts';
import { asked, because } from './dry-run.ts';
import { type Content, Copy, html, type Markup, Status } from './kit.ts';
import { type List, timeCell } from './list.ts';
import { pageHref, type PageProps, type Place } from './pages.ts';
import { EditDialog, type SecretScope, secretsPath, ValueDialog } from './secret-dialogs.ts';

const needed = 'secrets:write';
const scopeOf = ({ scope }: Secret): SecretScope => scope;
const mayWrite = (place: Place, scope: SecretScope): boolean =>
  (scope === 'organization' ? place.org : place).permissions.includes(needed);
const flagOf = (scope: SecretScope): string => (scope === 'organization' ? ' --org' : '');
const commandOf = (what: string, name: string, scope: SecretScope): string =>
  scope === 'organization' ? shell`svc secret ${what} ${name} --org` : shell`svc secret ${what} ${name}`;

type Open = 'rotate' | 'edit' | undefined;

function SecretActions({ place, secret }: { readonly place: Place; readonly secret: Secret }): Markup {
  const [open, setOpen] = useState<Open>(undefined);
  const { name } = secret;
  const scope = scopeOf(secret);
  const isAllowed = mayWrite(place, scope);
  const path = `${secretsPath(place, scope)}/${encodeURIComponent(name)}`;
  const remove = async (reason?: string): Promise<void> => {
    await call('DELETE', path, because(reason));
    changed();
  };
  const button = (what: 'rotate' | 'edit', label: string): Markup =>
    html`<span class="action"><button type="button" data-testid=${`${what}-${name}`} disabled=${!isAllowed} title=${commandOf(what, name, scope)} onClick=${() => setOpen(what)}>${label}</button>${isAllowed ? html`<${Copy} text=${commandOf(what, name, scope)} label="svc" />` : null}</span>`;
  const close = (): void => setOpen(undefined);
  const permissions = isAllowed ? [needed] : [];
  return html`<div class="actions">${button('edit', 'Edit')}${button('rotate', 'Rotate')}
    <${Action} place=${{ ...place, permissions }} label="Delete" testId="delete" needs=${needed} command=${commandOf('delete', name, scope)} run=${remove} confirm=${asked(`Delete ${name}`, 'DELETE', path)} />
    ${open === 'rotate' ? html`<${ValueDialog} place=${place} scope=${scope} name=${name} onClose=${close} />` : null}
    ${open === 'edit' ? html`<${EditDialog} place=${place} secret=${secret} onClose=${close} />` : null}</div>`;
}

function Above({ place, scope }: { readonly place: Place; readonly scope: SecretScope }): Markup {
  const [isOpen, setOpen] = useState(false);
  const isAllowed = mayWrite(place, scope);
  const link = (to: SecretScope, text: string): Markup =>
    html`<a class="button" href=${`${pageHref(place, 'secrets')}${to === 'organization' ? '?scope=organization' : ''}`} aria-current=${to === scope ? 'page' : undefined} data-testid=${`scope-${to}`}>${text}</a>`;
  return html`<div class="actions"><span class="action"><button type="button" data-testid="create" disabled=${!isAllowed} title=${`svc secret set NAME${flagOf(scope)}`} onClick=${() => setOpen(true)}>Set a secret</button>
    ${isAllowed ? null : html`<small>needs ${needed}</small>`}</span>
    ${link('project', `Of the project ${place.project.slug}`)} ${link('organization', `Of the organization ${place.org.slug}`)}
    ${isOpen ? html`<${ValueDialog} place=${place} scope=${scope} onClose=${() => setOpen(false)} />` : null}</div>`;
}

/** When the value ends: by its deadline, or by not being used. */
function expiryCell({ expiresAt, idleExpirySeconds: seconds }: Secret): Content {
  if (seconds === null) return timeCell(expiresAt);
  const [unit, size] = units.find(([, of]) => seconds % of === 0) ?? (['second', 1] as const);
  const count = seconds / size;
  const unused = `${count} ${unit}${count === 1 ? '' : 's'} unused`;
  return expiresAt === null ? unused : html`<span>${timeCell(expiresAt)}, or ${unused}</span>`;
}
const units = [
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
] as const;

const listOf = (scope: SecretScope): List<Secret> => ({
  page: 'secrets',
  title: 'Secrets',
  kind: 'secret',
  idOf: ({ name }) => name,
  isCounted: true,
  address: (place) => secretsPath(place, scope),
  columns: [
    {
      title: 'Name',
      cell: ({ name, description }) =>
        html`<span>${name}${description === null ? null : html`<br /><small>${description}</small>`}</span>`,
    },
    {
      title: 'State',
      cell: ({ expired }) => html`<${Status} kind=${expired ? 'bad' : 'good'} text=${expired ? 'expired' : 'live'} />`,
    },
    { title: 'Read back', cell: (row) => (row.protected ? 'never' : 'by who may reveal') },
    { title: 'Rotated', cell: ({ lastRotatedAt }) => timeCell(lastRotatedAt) },
    { title: 'Used', cell: ({ lastAccessedAt }) => timeCell(lastAccessedAt) },
    { title: 'Expires', cell: expiryCell },
    {
      title: 'Goes to',
      cell: ({ injection }) => (injection === null ? 'the environment' : injection.hosts.join(', ')),
    },
    { title: 'Action', cell: (row, place) => html`<${SecretActions} place=${place} secret=${row} />` },
  ],
  command: `svc secret list${flagOf(scope)}`,
  empty: scope === 'project' ? 'The project has no secret of its own.' : 'The organization has no secret.',
  href: null,
  above: ({ place }) => html`<${Above} place=${place} scope=${scope} />`,
});

const OfProject = changingList(listOf('project'));
const OfOrganization = changingList(listOf('organization'));

const listed = 'secrets:list';
/** What the caller may not see of the organization is named, and not asked for. */
const Barred = ({ place }: PageProps): Markup =>
  html`<section data-testid="page-secrets"><div class="title"><h1>Secrets</h1></div><${Above} place=${place} scope="organization" />
    <p class="notice" data-testid="not-allowed">This needs the permission <code>${listed}</code> of the organization.</p></section>`;

export function Page(props: PageProps): Markup {
  if (props.query.get('scope') !== 'organization') return html`<${OfProject} key="project" ...${props} />`;
  const isAllowed = props.place.org.permissions.includes(listed);
  return isAllowed ? html`<${OfOrganization} key="organization" ...${props} />` : html`<${Barred} ...${props} />`;
}
