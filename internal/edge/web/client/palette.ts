// Going anywhere by typing, and the list of keys. Loaded when it is first opened.

import { useEffect, useState } from 'preact/hooks';
import type { Me } from '../../../../schemas/api/tenancy.ts';
import { call, isId } from './api.ts';
import { Dialog, html, type Markup } from './kit.ts';
import { navigate, pageHref, pages, type Place } from './pages.ts';

interface Target {
  readonly title: string;
  readonly href: string;
}

const shownMax = 12;

/** What a pasted id may be of. */
const byId = (place: Place, id: string): Target[] =>
  ['events', 'sessions', 'reconciles'].map((page) => ({
    title: `${page} ${id}`,
    href: pageHref(place, page, id),
  }));

async function namesOf(place: Place): Promise<Target[]> {
  type Named = { readonly items: readonly { readonly name: string }[] };
  const kinds = [
    ['agents', 'agent'],
    ['repositories', 'repository'],
    ['endpoints', 'endpoint'],
  ] as const;
  const lists = await Promise.all(
    kinds.map(async ([page, kind]) => {
      const query = page === 'agents' ? 'limit=200&view=row' : 'limit=200';
      const { items } = await call<Named>('GET', `${place.api}/${page}?${query}`);
      return items.map(({ name }) => ({ title: `${kind} ${name}`, href: pageHref(place, page, name) }));
    }),
  );
  return lists.flat();
}

export function Palette(props: {
  readonly me: Me;
  readonly place: Place | undefined;
  readonly onClose: () => void;
}): Markup {
  const { me, place } = props;
  const [typed, setTyped] = useState('');
  const [names, setNames] = useState<readonly Target[]>([]);
  const [chosen, setChosen] = useState(0);
  useEffect(() => {
    // Pages can be gone to whether the names could be read or not.
    if (place !== undefined) namesOf(place).then(setNames, () => undefined);
  }, []);
  const words = typed.trim().toLowerCase().split(/\s+/);
  const projects = me.orgs.flatMap((org) =>
    org.projects.map((project) => ({
      title: `project ${org.slug}/${project.slug}`,
      href: `/${org.slug}/${project.slug}`,
    })),
  );
  const own = place === undefined ? [] : pages.map(({ name, title }) => ({ title, href: pageHref(place, name) }));
  const ids = place !== undefined && isId(typed.trim()) ? byId(place, typed.trim()) : [];
  const found = [...own, ...names, ...projects].filter(({ title }) =>
    words.every((word) => title.toLowerCase().includes(word)),
  );
  const shown = [...ids, ...found].slice(0, shownMax);
  const at = Math.min(chosen, Math.max(0, shown.length - 1));
  const go = (target: Target | undefined): void => {
    if (target === undefined) return;
    props.onClose();
    navigate(target.href);
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.key === 'ArrowDown') setChosen(Math.min(at + 1, shown.length - 1));
    else if (event.key === 'ArrowUp') setChosen(Math.max(at - 1, 0));
    else if (event.key === 'Enter') go(shown[at]);
    else return;
    event.preventDefault();
  };
  const onInput = (event: Event): void => {
    setTyped((event.currentTarget as HTMLInputElement).value);
    setChosen(0);
  };
  return html`<${Dialog} title="Go to" testId="palette" onClose=${props.onClose}>
    <input type="text" role="combobox" aria-expanded="true" aria-controls="palette-list" aria-autocomplete="list" autocomplete="off" spellcheck=${false}
      aria-label="A page, a name, an id" aria-activedescendant=${shown.length === 0 ? undefined : `palette-${at}`} data-testid="palette-input" value=${typed} onInput=${onInput} onKeyDown=${onKey} />
    <ul id="palette-list" role="listbox" aria-label="Found" class="found">
      ${shown.map((target, index) => html`<li id=${`palette-${index}`} role="option" aria-selected=${index === at} onClick=${() => go(target)}>${target.title}</li>`)}
    </ul>
    <p role="status">${shown.length === 0 ? 'Nothing is called so.' : ''}</p>
  <//>`;
}

const keys: readonly (readonly [string, string])[] = [
  ['j, k', 'the next row, the one before'],
  ['Enter', 'opens the row'],
  ['Esc', 'closes a dialog; from one thing back to its list'],
  ['Ctrl K', 'goes anywhere'],
  ['?', 'this list'],
];

export function Keys(props: { readonly onClose: () => void }): Markup {
  const [isOff, setOff] = useState(localStorage.getItem('svc.keys') === 'off');
  const change = (): void => {
    if (isOff) localStorage.removeItem('svc.keys');
    else localStorage.setItem('svc.keys', 'off');
    setOff(!isOff);
  };
  return html`<${Dialog} title="Keys" testId="keys" onClose=${props.onClose}>
    <dl class="keys">${keys.map(([key, what]) => html`<div><dt><kbd>${key}</kbd></dt><dd>${what}</dd></div>`)}</dl>
    <label class="choice"><input type="checkbox" checked=${!isOff} onChange=${change} /> Single keys are on</label>
    <p class="buttons"><button type="button" onClick=${props.onClose}>Close</button></p>
  <//>`;
}
