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

const kinds = [
  ['agents', 'agent'],
  ['repositories', 'repository'],
  ['endpoints', 'endpoint'],
] as const;
/** What has not been read of a kind: its first page, or the one behind a cursor. */
interface Rest {
  readonly page: (typeof kinds)[number][0];
  readonly kind: string;
  readonly cursor: string | undefined;
}
const all: readonly Rest[] = kinds.map(([page, kind]) => ({ page, kind, cursor: undefined }));

/** A page of names of each kind that has one. */
async function readNames(place: Place, of: readonly Rest[], signal: AbortSignal) {
  type Named = { readonly items: readonly { readonly name: string }[]; readonly nextCursor: string | null };
  const read = await Promise.all(
    of.map(async ({ page, kind, cursor }) => {
      const query = new URLSearchParams({
        limit: '200',
        ...(page === 'agents' && { view: 'row' }),
        ...(cursor !== undefined && { cursor }),
      });
      const { items, nextCursor } = await call<Named>('GET', `${place.api}/${page}?${query}`, { signal });
      const names = items.map(({ name }): Target => ({ title: `${kind} ${name}`, href: pageHref(place, page, name) }));
      return { names, rest: nextCursor === null ? [] : [{ page, kind, cursor: nextCursor }] };
    }),
  );
  return { names: read.flatMap(({ names }) => names), rest: read.flatMap(({ rest }) => rest) };
}

/** The names of a project: the first of each kind, and more of them for as long as what was typed is not found often enough. */
function useNames(place: Place | undefined, wantsMore: (names: readonly Target[]) => boolean) {
  const [names, setNames] = useState<readonly Target[]>([]);
  const [rest, setRest] = useState(place === undefined ? [] : all);
  const [isFailed, setFailed] = useState(false);
  const isWanted = rest.length > 0 && !isFailed && (rest === all || wantsMore(names));
  useEffect(() => {
    if (place === undefined || !isWanted) return undefined;
    const stop = new AbortController();
    readNames(place, rest, stop.signal).then(
      (read) => {
        setNames((before) => [...before, ...read.names]);
        setRest(read.rest);
      },
      // Pages can be gone to whether the names could be read or not.
      () => setFailed(!stop.signal.aborted),
    );
    return () => stop.abort();
  }, [rest, isWanted]);
  return { names, isReading: isWanted, isFailed };
}

export function Palette(props: {
  readonly me: Me;
  readonly place: Place | undefined;
  readonly onClose: () => void;
}): Markup {
  const { me, place } = props;
  const [typed, setTyped] = useState('');
  const [chosen, setChosen] = useState(0);
  const words = typed.trim().toLowerCase().split(/\s+/);
  const fits = ({ title }: Target): boolean => words.every((word) => title.toLowerCase().includes(word));
  const { names, isReading, isFailed } = useNames(
    place,
    (known) => typed.trim() !== '' && known.filter(fits).length < shownMax,
  );
  const projects = me.orgs.flatMap((org) =>
    org.projects.map((project) => ({
      title: `project ${org.slug}/${project.slug}`,
      href: `/${org.slug}/${project.slug}`,
    })),
  );
  const own = place === undefined ? [] : pages.map(({ name, title }) => ({ title, href: pageHref(place, name) }));
  const ids = place !== undefined && isId(typed.trim()) ? byId(place, typed.trim()) : [];
  const found = [...own, ...names, ...projects].filter(fits);
  const shown = [...ids, ...found].slice(0, shownMax);
  const at = Math.min(chosen, Math.max(0, shown.length - 1));
  const go = (target: Target | undefined): void => {
    if (target === undefined) return;
    props.onClose();
    navigate(target.href);
  };
  const said = isReading ? 'Reading names…' : isFailed ? 'Not all names could be read.' : 'Nothing is called so.';
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
    <p role="status">${shown.length === 0 ? said : ''}</p>
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
