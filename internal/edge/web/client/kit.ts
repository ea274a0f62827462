// The parts that every page is made of. Markup is made of nodes, never of text: payloads and names are text nodes whatever
// they hold. State is shape, word and colour; focus goes back to where it was; an action shows its `svc` command, and one
// that the caller has no right to stays visible and names the right.

import htm from 'htm';
import { h, type VNode } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { ApiError, isPassing, message, signinAddress, UnreachedError } from './api.ts';

export type Markup = VNode;
type Tag = (strings: TemplateStringsArray, ...values: unknown[]) => Markup;

// What turns the order of the text around it, and what is no sign at all: with them a command or an address reads as another.
const unseen = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
/** A text as it is shown: such characters by their number, as the command line shows them. */
export const visible = (text: string): string =>
  text.replace(unseen, (sign) => {
    const code = sign.charCodeAt(0).toString(16);
    return sign < '\u0100' ? `\\x${code.padStart(2, '0')}` : `\\u${code.padStart(4, '0')}`;
  });
const shown = (child: unknown): unknown =>
  typeof child === 'string' ? visible(child) : Array.isArray(child) ? child.map(shown) : child;
const make = ((type: string, props: null, ...children: unknown[]) =>
  h(type, props, ...(children.map(shown) as string[]))) as typeof h;

// The library's own type allows several roots; templates here have one.
export const html = (htm as unknown as { bind(make: typeof h): Tag }).bind(make);

export type Content = Markup | string | number | null | undefined | readonly (Markup | string | null)[];

/** The beginning of a long text, cut between characters. */
export function beginning(text: string, most: number): string {
  const head = [...text.slice(0, 2 * most)].slice(0, most).join('');
  return head.length < text.length ? `${head}…` : text;
}

/** How a word stands at the head of a column or before a fact. */
export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

export interface Column {
  readonly title: string;
}

export function Table(props: {
  readonly label: string;
  readonly columns: readonly Column[];
  readonly children: Content;
}): Markup {
  const body = useRef<HTMLTableSectionElement>(null);
  // On a narrow screen each value stands with its column's name.
  useLayoutEffect(() => {
    for (const row of body.current?.rows ?? [])
      for (const [index, cell] of [...row.cells].entries())
        cell.dataset['title'] = capital(props.columns[index]?.title ?? '');
  });
  return html`<div class="scroll" role="region" aria-label=${props.label} tabIndex=${0}><table class="rows" aria-label=${props.label}>
    <thead><tr>${props.columns.map(({ title }) => html`<th scope="col">${capital(title)}</th>`)}</tr></thead>
    <tbody ref=${body}>${props.children}</tbody>
  </table></div>`;
}

export function Dialog(props: {
  readonly title: string;
  readonly testId: string;
  readonly onClose: () => void;
  readonly children: Content;
}): Markup {
  const ref = useRef<HTMLDialogElement>(null);
  const isOver = useRef(false);
  // Not after the next picture: whoever types on meanwhile would type into nothing.
  useLayoutEffect(() => {
    const before = document.activeElement;
    const dialog = ref.current;
    dialog?.showModal();
    return () => {
      isOver.current = true;
      // While it is open nothing beside it takes the focus.
      dialog?.close();
      // What opened it may be gone by then, with what was done: the page itself is where one goes on.
      const isThere = before instanceof HTMLElement && before.isConnected && !before.matches(':disabled');
      (isThere ? before : document.getElementById('main'))?.focus();
    };
  }, []);
  const cancel = (event: Event): void => {
    event.preventDefault();
    props.onClose();
  };
  // A browser may close it by itself, without asking.
  const closed = (): void => {
    if (!isOver.current) props.onClose();
  };
  return html`<dialog ref=${ref} data-testid=${props.testId} aria-labelledby=${`${props.testId}-title`} onCancel=${cancel} onClose=${closed}>
    <h2 id=${`${props.testId}-title`}>${props.title}</h2>
    ${props.children}
  </dialog>`;
}

export function Field(props: { readonly label: string; readonly hint?: Content; readonly children: Content }): Markup {
  return html`<label class="field"><span>${props.label}</span>${props.children}
    ${props.hint === undefined ? null : html`<small>${props.hint}</small>`}</label>`;
}

const shapes = { good: '●', off: '○', wait: '◐', bad: '▲' } as const;
export type StatusKind = keyof typeof shapes;

export function Status(props: { readonly kind: StatusKind; readonly text: string; readonly testId?: string }): Markup {
  return html`<span class=${`status ${props.kind}`} data-testid=${props.testId}><span aria-hidden="true">${shapes[props.kind]}</span> ${props.text}</span>`;
}

const bad = /^(failed|refused|error|auth|uncertain|unreachable|lost|quarantined)/;
const good = /^(applied|synced|routed|active|ready|running|unchanged|fired|ok|done|idle|spawn|deliver|converted|bound)/;
const wait = /^(held|pending|queued|warning|starting|suspended|waits|waiting|reserved|scope_required|skipped)/;
/** How a state of the API looks. */
export const kindOf = (word: string): StatusKind =>
  bad.test(word) ? 'bad' : good.test(word) ? 'good' : wait.test(word) ? 'wait' : 'off';

/** A unit, its size, and from when on it is used: a day is none of the calendar, so what is one day away is told in hours. */
const steps: readonly (readonly [Intl.RelativeTimeFormatUnit, number, number])[] = [
  ['day', 86_400_000, 172_800_000],
  ['hour', 3_600_000, 3_600_000],
  ['minute', 60_000, 60_000],
  ['second', 1_000, 1_000],
];

const zoneItem = 'svc.zone';
export const ownZone = new Intl.DateTimeFormat('en').resolvedOptions().timeZone;
/** In which absolute times are shown: `UTC`, or the browser's own. */
export const zone = (): string => (localStorage.getItem(zoneItem) === 'own' ? ownZone : 'UTC');

const clocks = new Set<() => void>();
const tick = (): void => {
  for (const clock of clocks) clock();
};
setInterval(tick, 10_000);
export function setZone(choice: 'UTC' | 'own'): void {
  localStorage.setItem(zoneItem, choice);
  tick();
}
// It is one for all tabs of the browser.
addEventListener('storage', ({ key }) => {
  if (key === zoneItem) tick();
});

/** Making a formatter takes longer than the rest of a row: one for each zone and style. */
const wholeIn = new Map<string, Intl.DateTimeFormat>();
const relative = {
  long: new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'long' }),
  narrow: new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'narrow' }),
} as const;

/** The whole time in the chosen zone. */
export function absolute(at: string): string {
  const timeZone = zone();
  const known = wholeIn.get(timeZone);
  const format = known ?? new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'long', timeZone });
  if (known === undefined) wholeIn.set(timeZone, format);
  return format.format(new Date(at));
}

/** `14:02:11Z`, in the chosen zone `14:02:11`; of a transcript without its seconds. */
export function clockText(at: string, withSeconds = true): string {
  const parts = { hour: '2-digit', minute: '2-digit', timeZone: zone() } as const;
  const clock = withSeconds ? ({ ...parts, second: '2-digit' } as const) : parts;
  const text = new Intl.DateTimeFormat('en-GB', clock).format(new Date(at));
  return zone() === 'UTC' && withSeconds ? `${text}Z` : text;
}

/** As wide as a whole time is, in pixels. */
const wholeWidth = 220;
/** The whole time opens to the side on which there is room for it. */
function turn(event: Event): void {
  const one = event.currentTarget as HTMLElement;
  one.toggleAttribute('data-end', one.getBoundingClientRect().left + wholeWidth > document.documentElement.clientWidth);
}

/** A time of day, and the whole time where it is focused or pointed at. */
export function Clock(props: { readonly at: string; readonly withSeconds?: boolean }): Markup {
  useClock();
  const { at } = props;
  if (Number.isNaN(Date.parse(at))) return html`<span>${at}</span>`;
  return html`<time dateTime=${at} title=${absolute(at)} data-at=${absolute(at)} tabIndex=${0} onFocus=${turn}>${clockText(at, props.withSeconds)}</time>`;
}

/** How long something has run, each second anew while it does. */
export function Elapsed(props: { readonly since: string; readonly until?: string | undefined }): Markup {
  const { since, until } = props;
  const [, setRound] = useState(0);
  useEffect(() => {
    if (until !== undefined) return undefined;
    const timer = setInterval(() => setRound((round) => round + 1), 1_000);
    return () => clearInterval(timer);
  }, [until === undefined]);
  const ms = (until === undefined ? Date.now() : Date.parse(until)) - Date.parse(since);
  // Of what runs no tenths: they would be gone before they are read.
  const shown = until === undefined ? Math.floor(Math.max(0, ms) / 1_000) * 1_000 : Math.max(0, ms);
  return html`<span class="elapsed">${until === undefined && shown < 1_000 ? '0\u00a0s' : duration(shown)}</span>`;
}

/** Draws anew with the clock that all times share, and when the zone is chosen. */
export function useClock(): void {
  const [, setRound] = useState(0);
  useEffect(() => {
    const clock = (): void => setRound((round) => round + 1);
    clocks.add(clock);
    return () => void clocks.delete(clock);
  }, []);
}

/** How long ago or from now, and the whole time where it is focused or pointed at. */
export function Time(props: { readonly at: string; readonly isShort?: boolean }): Markup {
  useClock();
  const ms = Date.parse(props.at) - Date.now();
  if (Number.isNaN(ms)) return html`<span>${props.at}</span>`;
  const [unit, size] = steps.find(([, , from]) => Math.abs(ms) >= from) ?? (['second', 1_000] as const);
  const text = relative[props.isShort === true ? 'narrow' : 'long'].format(Math.trunc(ms / size), unit);
  const whole = absolute(props.at);
  return html`<time dateTime=${props.at} title=${whole} data-at=${whole} tabIndex=${0} onFocus=${turn}>${text}</time>`;
}

/** `412 ms`, `3 s`, `2 m 41 s`. */
export function duration(ms: number): string {
  if (ms < 999.5) return `${Math.round(ms)}\u00a0ms`;
  if (ms < 59_950) return `${Math.round(ms / 100) / 10}\u00a0s`;
  const seconds = Math.round(ms / 1_000);
  return `${Math.floor(seconds / 60)}\u00a0m\u00a0${seconds % 60}\u00a0s`;
}

/** In the place of what is not there yet; what is wrong is said elsewhere. */
export const Reading = ({ error }: { readonly error: unknown }): Markup | null =>
  error === undefined ? html`<p class="empty">Reading…</p>` : null;

export function Empty(props: { readonly text: string; readonly command?: string }): Markup {
  return html`<p class="empty">${props.text}${props.command === undefined ? null : html` <code>${props.command}</code>`}</p>`;
}

function advice({ status, code }: { readonly status: number; readonly code: string }): string {
  if (status === 403 && code === 'cross-origin') return 'Open the service under its own address.';
  if (code === 'signin-refused') return 'It may be mistyped, revoked or expired; `svc console` opens this signed in.';
  if (code === 'unknown-code') return 'Compare it with the terminal; a code is good for ten minutes.';
  if (status === 401) return 'What was read and typed stays: sign in beside this page, then go on here.';
  if (status === 403) return 'Ask an administrator for the permission.';
  if (status === 404) return 'It may have been deleted meanwhile, or its address is mistyped.';
  if (status === 409 && /^(name|slug)-taken$|^endpoint-exists$/.test(code)) return 'Choose another name.';
  if (status === 409) return 'As it stands now this cannot be done: look at it again.';
  if (status === 429 || status === 503) return 'Wait a moment, then try again.';
  if (status >= 500) return 'Try again; if it stays so, the log names this request by its id.';
  return 'Change what was sent, and try again.';
}

/** Where the service has not answered: what is read is read again, what was to be changed is not sent again. */
function unanswered(error: unknown): readonly [code: string, advice: string] {
  if (!(error instanceof UnreachedError)) return ['unexpected', 'Load the page again, and try again.'];
  return error.isRead
    ? ['unreachable', 'What was read last is still shown; it is read again by itself.']
    : ['unreachable', 'It is not sent again by itself: look whether it was done, then try again.'];
}

/** An error before anything else: its code, the request's id, and what to do. */
export function Failure(props: { readonly error: unknown }): Markup {
  const { error } = props;
  const told = error instanceof ApiError ? error.problem : undefined;
  const [code, what] = told === undefined ? unanswered(error) : [told.code, advice(told)];
  // A dialog keeps its reader from the head of the page, where the way back in is; and that way leaves what was typed.
  const isOver = told?.status === 401 && told.code !== 'signin-refused';
  return html`<div class="failure" role="alert" data-testid="failure"><p><strong>${code}</strong> ${message(error)}</p>
    <p>${what}${isOver ? html` <a href=${signinAddress()} target="_blank" rel="noreferrer" data-testid="signin-beside">Sign in, in another tab</a>` : null}
    ${told === undefined ? null : html` Request <code data-testid="request-id">${told.requestId}</code>`}</p></div>`;
}

/** What happened last, said to screen readers too; the element stays, so that its text is news. */
export function Toast(props: { readonly text: string }): Markup {
  return html`<p class="toast" role="status" data-testid="toast">${props.text}</p>`;
}

/** Text with a button that copies it; `label` names what is copied. */
export function Copy(props: { readonly text: string; readonly label: string; readonly testId?: string }): Markup {
  const [said, setSaid] = useState('');
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(props.text);
      setSaid('copied');
    } catch {
      // A browser that keeps its clipboard to itself: then the text is there to be marked.
      setSaid(props.text);
    }
  };
  return html`<span class="copy"><button type="button" class="small" data-testid=${props.testId ?? 'copy'} title=${props.text} onClick=${copy}>${props.label}</button><span role="status">${said === '' ? null : html` <code>${said}</code>`}</span></span>`;
}

/** The command line's way to what a page shows or does. */
export function Command(props: { readonly command: string }): Markup {
  return html`<span class="command"><code>${props.command}</code> <${Copy} text=${props.command} label="Copy" testId="copy-command" /></span>`;
}

interface ReadState<T> {
  readonly key: string;
  readonly value?: T;
  readonly error?: unknown;
}

const retryMs = { first: 1_000, most: 10_000 };

/**
 * A read that runs when what it depends on changes, when `again` is called, and by itself while the service does not answer;
 * what was read stays meanwhile.
 */
export function useRead<T>(read: (signal: AbortSignal) => Promise<T>, key: string) {
  const [state, setState] = useState<ReadState<T>>({ key });
  const latest = useRef(read);
  latest.current = read;
  const rerun = useRef<() => void>(() => undefined);
  useEffect(() => {
    const stop = new AbortController();
    let isReading = false;
    let isDue = false;
    let delay = retryMs.first;
    let timer: ReturnType<typeof setTimeout> | undefined;
    // Where nobody looks nothing is read.
    const retry = (): void => {
      timer = setTimeout(() => (document.hidden ? retry() : void run()), delay);
      delay = Math.min(delay * 2, retryMs.most);
    };
    const run = async (): Promise<void> => {
      clearTimeout(timer);
      // One reading at a time: what changes during one is read after it, and none is ever broken off by the next.
      isDue = isReading;
      if (isReading) return;
      isReading = true;
      try {
        const value = await latest.current(stop.signal);
        delay = retryMs.first;
        if (!stop.signal.aborted) setState({ key, value });
      } catch (error) {
        if (isPassing(error) && !stop.signal.aborted) retry();
        if (!stop.signal.aborted) setState((before) => (before.key === key ? { ...before, error } : { key, error }));
      }
      isReading = false;
      if (isDue && !stop.signal.aborted) void run();
    };
    rerun.current = () => void run();
    void run();
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [key]);
  const again = (): void => rerun.current();
  return {
    value: state.key === key ? state.value : undefined,
    error: state.key === key ? state.error : undefined,
    again,
  };
}
