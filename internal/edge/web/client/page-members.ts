// Members of the project: who may do what, added, changed and removed here.

import { useState } from 'preact/hooks';
import type { Member } from '../../../../schemas/api/members.ts';
import { Action, Entry } from './action.ts';
import { call } from './api.ts';
import { changed, changingList } from './changed.ts';
import { shell } from './command.ts';
import { asked, because } from './dry-run.ts';
import { Field, html, type Markup } from './kit.ts';
import { type List, timeCell } from './list.ts';
import type { Place } from './pages.ts';

const roles = ['viewer', 'operator', 'admin'];
const pathOf = (place: Place, id: string): string => `${place.api}/members/${encodeURIComponent(id)}`;

/** The role, and a button as soon as another one is chosen: the arrow keys go through the roles, and none is given on the way. */
function Role({ place, member }: { readonly place: Place; readonly member: Member }): Markup {
  const [role, setRole] = useState<string>(member.role);
  const isAllowed = place.permissions.includes('members:write');
  const run = async (): Promise<void> => {
    await call('PATCH', pathOf(place, member.principalId), { body: { role } });
    changed();
  };
  const choose = (event: Event): void => setRole((event.currentTarget as HTMLSelectElement).value);
  const who = member.email ?? member.name;
  return html`<span class="action role"><select aria-label=${`Role of ${member.name}`} data-testid="role" value=${role} disabled=${!isAllowed} onChange=${choose}>
    ${roles.map((one) => html`<option value=${one} selected=${one === role}>${one}</option>`)}</select>
    ${isAllowed ? null : html`<small>needs members:write</small>`}
    ${role === member.role ? null : html`<${Action} place=${place} label="Set role" testId="set-role" needs="members:write" primary=${true} command=${shell`svc member set ${who} --role ${role}`} run=${run} />`}</span>`;
}

function Add({ place }: { readonly place: Place }): Markup {
  const [who, setWho] = useState('');
  const [role, setRole] = useState('viewer');
  const run = async (): Promise<void> => {
    const body = { role, ...(who.includes('@') ? { email: who } : { serviceAccount: who }) };
    await call('POST', `${place.api}/members`, { body });
    setWho('');
    changed();
  };
  const type = (event: Event): void => setWho((event.currentTarget as HTMLInputElement).value.trim());
  const choose = (event: Event): void => setRole((event.currentTarget as HTMLSelectElement).value);
  return html`<details><summary>Add a member</summary><${Entry}><div class="filters">
    <${Field} label="E-mail, or a service account’s name" hint="Of the organization’s members."><input data-testid="member-who" required value=${who} onInput=${type} autocomplete="off" spellcheck=${false} /><//>
    <${Field} label="Role"><select value=${role} data-testid="member-role" onChange=${choose}>${roles.map((one) => html`<option value=${one} selected=${one === role}>${one}</option>`)}</select><//></div>
    <${Action} place=${place} label="Add" testId="create" needs="members:write" command=${shell`svc member set ${who === '' ? 'EMAIL' : who} --role ${role}`} run=${run} /><//></details>`;
}

const list: List<Member> = {
  page: 'members',
  title: 'Members',
  kind: 'member',
  idOf: ({ principalId }) => principalId,
  isCounted: true,
  columns: [
    {
      title: 'Name',
      cell: ({ name, email }) =>
        html`<span>${name}${email === null || email === name ? null : html`<br /><small>${email}</small>`}</span>`,
    },
    { title: 'Kind', cell: ({ kind }) => kind.replaceAll('_', ' ') },
    { title: 'Role', cell: (row, place) => html`<${Role} place=${place} member=${row} />` },
    { title: 'Since', cell: ({ createdAt }) => timeCell(createdAt) },
    {
      title: 'Action',
      cell: (row, place) => {
        const path = pathOf(place, row.principalId);
        const run = async (reason?: string): Promise<void> => {
          await call('DELETE', path, because(reason));
          changed();
        };
        return html`<${Action} place=${place} label="Remove" testId="delete" needs="members:write" command=${shell`svc member remove ${row.email ?? row.name}`} run=${run} confirm=${asked(`Remove ${row.name}`, 'DELETE', path)} />`;
      },
    },
  ],
  command: 'svc member list',
  empty: 'Nobody has a role of this project alone: administrators of the organization have theirs everywhere.',
  href: null,
  above: ({ place }) => html`<${Add} place=${place} />`,
};

export const Page = changingList(list);
