// The dialogs of secrets: a value for a new one or in another's place, and what stands beside the value. Nothing of a value
// is kept here.

import { useState } from 'preact/hooks';
import type { Secret } from '../../../../schemas/api/secrets.ts';
import { useOnce } from './action.ts';
import { call } from './api.ts';
import { changed } from './changed.ts';
import { Dialog, Failure, Field, html, type Markup } from './kit.ts';
import type { Place } from './pages.ts';

export type SecretScope = 'project' | 'organization';
export const secretsPath = (place: Place, scope: SecretScope): string =>
  scope === 'organization' ? `/api/v1/orgs/${place.org.slug}/secrets` : `${place.api}/secrets`;

const textOf = (form: FormData, field: string): string => String(form.get(field) ?? '').trim();
/** As a field of date and time shows it, which is taken for UTC. */
const localOf = (at: string | null): string => (at === null ? '' : new Date(at).toISOString().slice(0, 16));
const timeOf = (text: string): string | null => (text === '' ? null : new Date(`${text}Z`).toISOString());

/** A description has 1,024 characters, and a field counts a sign beyond the first plane as two: the service has the last word. */
const descriptionMax = 2_048;

/** A year of five digits is a slip, and no time that the service takes. */
const latest = '9999-12-31T23:59';

/** Sends a form; what went wrong is said in it. */
function useSending(send: (form: FormData) => Promise<void>, onClose: () => void) {
  const [error, setError] = useState<unknown>(undefined);
  const { busy, run } = useOnce(async (form: HTMLFormElement) => {
    setError(undefined);
    try {
      await send(new FormData(form));
      form.reset();
      onClose();
      changed();
    } catch (caught) {
      setError(caught);
    }
  });
  const submit = (event: Event): void => {
    event.preventDefault();
    void run(event.currentTarget as HTMLFormElement);
  };
  return { busy, error, submit };
}

/** Takes a value: of a new secret, or in the place of another's. */
export function ValueDialog(props: {
  readonly place: Place;
  readonly scope: SecretScope;
  readonly name?: string;
  readonly onClose: () => void;
}): Markup {
  const { place, scope, name: known, onClose } = props;
  const base = secretsPath(place, scope);
  const { busy, error, submit } = useSending(async (form) => {
    const value = String(form.get('value') ?? '');
    if (known !== undefined) {
      await call('POST', `${base}/${encodeURIComponent(known)}/rotate`, { body: { value } });
      return;
    }
    const description = textOf(form, 'description');
    const expiresAt = timeOf(textOf(form, 'expiresAt'));
    const body = {
      value,
      protected: form.get('protected') === 'on',
      ...(description !== '' && { description }),
      ...(expiresAt !== null && { expiresAt }),
    };
    await call('PUT', `${base}/${encodeURIComponent(textOf(form, 'name'))}`, { body });
  }, onClose);
  return html`<${Dialog} title=${known === undefined ? 'Set a secret' : `Rotate ${known}`} testId="secret-dialog" onClose=${onClose}>
    <form onSubmit=${submit} autocomplete="off">
      ${known === undefined ? html`<${Field} label="Name" hint="One that is there gets this value and these settings."><input name="name" required pattern="[A-Za-z0-9_.\\-]{1,128}" spellcheck=${false} data-testid="secret-name" /><//>` : null}
      <${Field} label="Value" hint="It is sealed, and never shown on this page."><textarea name="value" required rows="3" spellcheck=${false} autocomplete="off" class="hidden-text" data-testid="secret-value"></textarea><//>
      ${
        known === undefined
          ? html`<div><${Field} label="Description"><input name="description" maxlength=${descriptionMax} /><//>
        <${Field} label="Expires at (UTC)"><input name="expiresAt" type="datetime-local" max=${latest} /><//>
        <label class="choice"><input type="checkbox" name="protected" defaultChecked=${true} /> protected: nobody reads it back</label></div>`
          : null
      }
      ${error === undefined ? null : html`<${Failure} error=${error} />`}
      <p class="buttons"><button type="button" onClick=${onClose}>Cancel</button><button type="submit" class="primary" data-testid="secret-save" aria-disabled=${busy ? 'true' : undefined} aria-busy=${busy}>${known === undefined ? 'Set' : 'Rotate'}</button></p>
    </form><//>`;
}

/** Changes what is not the value; only what differs is sent. */
export function EditDialog(props: {
  readonly place: Place;
  readonly secret: Secret;
  readonly onClose: () => void;
}): Markup {
  const { place, secret, onClose } = props;
  const { name, scope, description, expiresAt, idleExpirySeconds, injection } = secret;
  const isOpen = !secret.protected && !secret.expired;
  const { busy, error, submit } = useSending(async (form) => {
    const given = {
      description: textOf(form, 'description'),
      expiresAt: timeOf(textOf(form, 'expiresAt')),
      idleExpirySeconds: textOf(form, 'idle') === '' ? null : Number(textOf(form, 'idle')),
      hosts: textOf(form, 'hosts'),
    };
    const hosts = given.hosts === '' ? [] : given.hosts.split(/[\s,]+/);
    const injected =
      hosts.length === 0 ? null : { hosts, header: textOf(form, 'header'), format: textOf(form, 'format') };
    const body = {
      ...(given.description !== (description ?? '') && { description: given.description }),
      ...(isOpen && localOf(given.expiresAt) !== localOf(expiresAt) && { expiresAt: given.expiresAt }),
      ...(isOpen && given.idleExpirySeconds !== idleExpirySeconds && { idleExpirySeconds: given.idleExpirySeconds }),
      ...(form.get('protected') === 'on' && !secret.protected && { protected: true }),
      ...(JSON.stringify(injected) !== JSON.stringify(shownInjection(injection)) && { injection: injected }),
    };
    if (Object.keys(body).length > 0)
      await call('PATCH', `${secretsPath(place, scope)}/${encodeURIComponent(name)}`, { body });
  }, onClose);
  const shown = shownInjection(injection);
  return html`<${Dialog} title=${`Edit ${name}`} testId="secret-edit" onClose=${onClose}><form onSubmit=${submit} autocomplete="off">
    <${Field} label="Description"><input name="description" maxlength=${descriptionMax} defaultValue=${description ?? ''} data-testid="secret-description" /><//>
    <${Field} label="Expires at (UTC)" hint=${isOpen ? '' : 'A protected or expired secret keeps its end: set it anew.'}><input name="expiresAt" type="datetime-local" max=${latest} defaultValue=${localOf(expiresAt)} disabled=${!isOpen} /><//>
    <${Field} label="Ends after so many seconds without use"><input name="idle" type="number" min="1" max="315360000" defaultValue=${idleExpirySeconds ?? ''} disabled=${!isOpen} /><//>
    <${Field} label="Injected for hosts" hint="Exact names parted by spaces; empty: it goes into the environment."><input name="hosts" defaultValue=${shown?.hosts.join(' ') ?? ''} spellcheck=${false} /><//>
    <${Field} label="As header"><input name="header" maxlength="128" defaultValue=${shown?.header ?? 'authorization'} spellcheck=${false} /><//>
    <${Field} label="In the form" hint="With {value} in it."><input name="format" maxlength="256" defaultValue=${shown?.format ?? '{value}'} spellcheck=${false} /><//>
    ${secret.protected ? html`<p class="empty">It is protected, which is never taken back.</p>` : html`<label class="choice"><input type="checkbox" name="protected" /> protect it from now on: nobody reads it back</label>`}
    ${error === undefined ? null : html`<${Failure} error=${error} />`}
    <p class="buttons"><button type="button" onClick=${onClose}>Cancel</button><button type="submit" class="primary" data-testid="secret-edit-save" aria-disabled=${busy ? 'true' : undefined} aria-busy=${busy}>Save</button></p></form><//>`;
}

const shownInjection = (injection: Secret['injection']) =>
  injection === null
    ? null
    : { hosts: [...injection.hosts], header: injection.header, format: injection.format ?? '{value}' };
