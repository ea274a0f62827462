// The parts that every page is made of: table, dialog, form field, status, time, empty state, error, toast, and a
// confirmation that names what follows. State is shape, word and colour; focus goes back to where it was.

import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError, message } from './api.ts';
import { html, type Markup } from './html.ts';

export type Content = Markup | string | number | null | undefined | readonly (Markup | string | null)[];

export interface Column {
  readonly title: string;
}

export function Table(props: {
  readonly label: string;
  readonly columns: readonly Column[];
  readonly children: Content;
}): Markup {
  return html`<div class="scroll"><table aria-label=${props.label}>
    <thead><tr>${props.columns.map(({ title }) => html`<th scope="col">${title}</th>`)}</tr></thead>
    <tbody>${props.children}</tbody>
  </table></div>`;
}

export function Dialog(props: {
  readonly title: string;
  readonly testId: string;
  readonly onClose: () => void;
  readonly children: Content;
}): Markup {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    ref.current?.showModal();
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  const cancel = (event: Event): void => {
    event.preventDefault();
    props.onClose();
  };
  return html`<dialog ref=${ref} data-testid=${props.testId} aria-labelledby=${`${props.testId}-title`} onCancel=${cancel}>
    <h2 id=${`${props.testId}-title`}>${props.title}</h2>
    ${props.children}
  </dialog>`;
}

export function Field(props: { readonly label: string; readonly hint?: string; readonly children: Content }): Markup {
  return html`<label class="field"><span>${props.label}</span>${props.children}
    ${props.hint === undefined ? null : html`<small>${props.hint}</small>`}</label>`;
}

const shapes = { good: '●', off: '○', wait: '◐', bad: '▲' } as const;

export function Status(props: { readonly kind: keyof typeof shapes; readonly text: string }): Markup {
  return html`<span class=${`status ${props.kind}`}><span aria-hidden="true">${shapes[props.kind]}</span> ${props.text}</span>`;
}

const steps: readonly (readonly [Intl.RelativeTimeFormatUnit, number])[] = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1_000],
];

/** How long ago, and the whole time where it is looked at. */
export function Time(props: { readonly at: string; readonly now: number }): Markup {
  const ms = Date.parse(props.at) - props.now;
  const [unit, size] = steps.find(([, each]) => Math.abs(ms) >= each) ?? (['second', 1_000] as const);
  const text = new Intl.RelativeTimeFormat('en', { numeric: 'auto' }).format(Math.round(ms / size), unit);
  return html`<time dateTime=${props.at} title=${props.at}>${text}</time>`;
}

export function Empty(props: { readonly text: string; readonly command?: string }): Markup {
  return html`<p class="empty">${props.text}${props.command === undefined ? null : html` <code>${props.command}</code>`}</p>`;
}

export function Failure(props: { readonly error: unknown }): Markup {
  const { error } = props;
  const told = error instanceof ApiError ? error.problem : undefined;
  return html`<div class="failure" role="alert"><p><strong>${told?.code ?? 'failed'}</strong> ${message(error)}</p>
    ${told === undefined ? null : html`<p>Request <code data-testid="request-id">${told.requestId}</code></p>`}</div>`;
}

/** What happened last, said to screen readers too; the element stays, so that its text is news. */
export function Toast(props: { readonly text: string }): Markup {
  return html`<p class="toast" role="status" data-testid="toast">${props.text}</p>`;
}

/** Asks before something is taken away, in the words of what follows. */
export function Confirm(props: {
  readonly title: string;
  readonly consequence: string;
  readonly action: string;
  readonly onConfirm: () => Promise<void>;
  readonly onClose: () => void;
}): Markup {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(undefined);
  const go = async (): Promise<void> => {
    setBusy(true);
    try {
      await props.onConfirm();
    } catch (caught) {
      setError(caught);
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${props.title} testId="confirmation" onClose=${props.onClose}>
    <p>${props.consequence}</p>
    ${error === undefined ? null : html`<${Failure} error=${error} />`}
    <p class="buttons"><button type="button" onClick=${props.onClose}>Cancel</button>
      <button type="button" class="danger" data-testid="confirm" disabled=${busy} onClick=${go}>${props.action}</button></p>
  <//>`;
}

/** A read that runs when what it depends on changes, and again when `again` is called; what was read stays meanwhile. */
export function useRead<T>(read: (signal: AbortSignal) => Promise<T>, key: string) {
  const [state, setState] = useState<{ readonly value?: T; readonly error?: unknown }>({});
  const [round, setRound] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    read(stop.signal).then(
      (value) => setState({ value }),
      (error: unknown) => {
        if (!stop.signal.aborted) setState((before) => ({ ...before, error }));
      },
    );
    return () => stop.abort();
  }, [key, round]);
  return { ...state, again: () => setRound((before) => before + 1) };
}
