// Secrets: what there is, when it was rotated and when it ends; set, rotated and deleted here. A value goes in and is never
// shown: the page asks for none, and forgets what was typed as soon as it is sent.

import { useState } from 'preact/hooks';
import type { Secret } from '../../../../schemas/api/secrets.ts';
import { call } from './api.ts';
import { changed, changingList } from './changed.ts';
import { Action, Dialog, Failure, Field, html, type Markup, Status } from './kit.ts';
import { type List, timeCell } from './list.ts';
import type { Place } from './pages.ts';

const pathOf = (place: Place, name: string): string => `${place.api}/secrets/${encodeURIComponent(name)}`;

function SecretActions({ place, secret }: { readonly place: Place; readonly secret: Secret }): Markup {
  const [isRotating, setRotating] = useState(false);
  const isAllowed = place.permissions.includes('secrets:write');
  const remove = async (): Promise<void> => {
    await call('DELETE', pathOf(place, secret.name));
    changed();
  };
  const text = `Whatever reads ${secret.name} finds no secret from then on: launches that need it fail, endpoints that check with it refuse, repositories that read with it stand still.`;
  return html`<div class="actions">
    <span class="action"><button type="button" data-testid=${`rotate-${secret.name}`} disabled=${!isAllowed} title=${`svc secret rotate ${secret.name}`} onClick=${() => setRotating(true)}>Rotate</button>${isAllowed ? null : html`<small>needs secrets:write</small>`}</span>
    <${Action} place=${place} label="Delete" testId="delete" needs="secrets:write" command=${`svc secret delete ${secret.name}`} run=${remove} confirm=${{ title: `Delete ${secret.name}`, consequence: async () => text }} />
    ${isRotating ? html`<${ValueDialog} place=${place} name=${secret.name} onClose=${() => setRotating(false)} />` : null}</div>`;
}

/** Takes a value: of a new secret, or in the place of another's. */
function ValueDialog(props: { readonly place: Place; readonly name?: string; readonly onClose: () => void }): Markup {
  const { place, name: known } = props;
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(undefined);
  const send = async (event: Event): Promise<void> => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const given = new FormData(form);
    const text = (field: string): string => String(given.get(field) ?? '').trim();
    const value = String(given.get('value') ?? '');
    setBusy(true);
    setError(undefined);
    try {
      if (known === undefined) {
        const description = text('description');
        const expires = text('expiresAt');
        const body = {
          value,
          protected: given.get('protected') === 'on',
          ...(description !== '' && { description }),
          ...(expires !== '' && { expiresAt: new Date(`${expires}Z`).toISOString() }),
        };
        await call('PUT', pathOf(place, text('name')), { body });
      } else await call('POST', `${pathOf(place, known)}/rotate`, { body: { value } });
      form.reset();
      props.onClose();
      changed();
    } catch (caught) {
      setError(caught);
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${known === undefined ? 'Set a secret' : `Rotate ${known}`} testId="secret-dialog" onClose=${props.onClose}>
    <form onSubmit=${send} autocomplete="off">
      ${known === undefined ? html`<${Field} label="Name" hint="One that is there gets this value and these settings."><input name="name" required pattern="[A-Za-z0-9_.\\-]{1,128}" spellcheck=${false} data-testid="secret-name" /><//>` : null}
      <${Field} label="Value" hint="It is sealed, and never shown on this page."><textarea name="value" required rows="3" spellcheck=${false} autocomplete="off" class="hidden-text" data-testid="secret-value"></textarea><//>
      ${
        known === undefined
          ? html`<div><${Field} label="Description"><input name="description" maxlength="1000" /><//>
        <${Field} label="Expires at (UTC)"><input name="expiresAt" type="datetime-local" /><//>
        <label class="choice"><input type="checkbox" name="protected" defaultChecked=${true} /> protected: nobody reads it back</label></div>`
          : null
      }
      ${error === undefined ? null : html`<${Failure} error=${error} />`}
      <p class="buttons"><button type="button" onClick=${props.onClose}>Cancel</button><button type="submit" class="primary" data-testid="secret-save" disabled=${busy}>${known === undefined ? 'Set' : 'Rotate'}</button></p>
    </form><//>`;
}

function SetSecret({ place }: { readonly place: Place }): Markup {
  const [isOpen, setOpen] = useState(false);
  const isAllowed = place.permissions.includes('secrets:write');
  return html`<p class="action"><button type="button" data-testid="create" disabled=${!isAllowed} title="svc secret set NAME" onClick=${() => setOpen(true)}>Set a secret</button>
    ${isAllowed ? null : html`<small>needs secrets:write</small>`}${isOpen ? html`<${ValueDialog} place=${place} onClose=${() => setOpen(false)} />` : null}</p>`;
}

const list: List<Secret> = {
  page: 'secrets',
  title: 'Secrets',
  kind: 'secret',
  idOf: ({ name }) => name,
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
    { title: 'Expires', cell: ({ expiresAt }) => timeCell(expiresAt) },
    { title: 'Action', cell: (row, place) => html`<${SecretActions} place=${place} secret=${row} />` },
  ],
  command: 'svc secret list',
  empty: 'The project has no secret of its own.',
  href: null,
  above: ({ place }) => html`<${SetSecret} place=${place} />`,
};

export const Page = changingList(list);
