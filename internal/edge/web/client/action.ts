// What changes something: a button with its `svc` command, and the question before something is taken away.

import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { type Content, Copy, Dialog, Failure, Field, html, type Markup } from './kit.ts';
import type { Place } from './pages.ts';

/**
 * What a button or a form does, and never twice at once: who presses again before the answer has asked for it once. Whoever is
 * `busy` is shown as that, and not disabled: a disabled button loses the focus, also where what it did is refused.
 */
export function useOnce<A extends readonly unknown[]>(step: (...given: A) => Promise<void>) {
  const [busy, setBusy] = useState(false);
  const isRunning = useRef(false);
  const run = async (...given: A): Promise<void> => {
    if (isRunning.current) return;
    isRunning.current = true;
    setBusy(true);
    try {
      await step(...given);
    } finally {
      isRunning.current = false;
      setBusy(false);
    }
  };
  return { busy, run };
}

/** Asks before something is taken away, in the words of what follows; `withReason`: why is asked, and audited. */
export function Confirm(props: {
  readonly title: string;
  readonly consequence: Content;
  readonly action: string;
  readonly withReason?: boolean;
  readonly onConfirm: (reason?: string) => Promise<void>;
  readonly onClose: () => void;
}): Markup {
  const [reason, setReason] = useState('');
  const [error, setError] = useState<unknown>(undefined);
  const { busy, run: go } = useOnce(async () => {
    await props.onConfirm(reason.trim() === '' ? undefined : reason.trim()).catch(setError);
  });
  const type = (event: Event): void => setReason((event.currentTarget as HTMLTextAreaElement).value);
  return html`<${Dialog} title=${props.title} testId="confirmation" onClose=${props.onClose}>
    <div>${props.consequence}</div>
    ${props.withReason === true ? html`<${Field} label="Reason" hint="It stands in the audit; at most 500 characters."><textarea data-testid="reason" maxLength=${500} rows=${2} value=${reason} onInput=${type}></textarea><//>` : null}
    ${error === undefined ? null : html`<${Failure} error=${error} />`}
    <p class="buttons"><button type="button" onClick=${props.onClose}>Cancel</button>
      <button type="button" class="danger" data-testid="confirm" aria-disabled=${busy ? 'true' : undefined} aria-busy=${busy} onClick=${() => void go()}>${props.action}</button></p>
  <//>`;
}

export interface ActionProps {
  /** Where it is done, and what the caller may do there. */
  readonly place: Pick<Place, 'permissions'>;
  readonly label: string;
  readonly testId: string;
  /** Without which the button is there and cannot be pressed. */
  readonly needs: string;
  /** The same on the command line. */
  readonly command: string;
  readonly run: (reason?: string) => Promise<void>;
  /** Asked first; `consequence` is read when the button is pressed, from a dry run where there is one. */
  readonly confirm?: {
    readonly title: string;
    readonly consequence: () => Promise<Content>;
    readonly withReason?: boolean;
    /** Takes nothing away that is not back at once. */
    readonly isMild?: boolean;
  };
  readonly primary?: boolean;
}

/** A question before an act, and where it is said that the act was refused: in the question, or on the page once that was closed. */
export function useQuestion(act: (reason?: string) => Promise<void>, tell: (error: unknown) => void) {
  const [asking, setAsking] = useState<Content>(undefined);
  const isAsked = useRef(false);
  const ask = (consequence: Content): void => {
    isAsked.current = true;
    setAsking(consequence);
  };
  const close = (): void => {
    isAsked.current = false;
    setAsking(undefined);
  };
  const confirmed = async (reason?: string): Promise<void> => {
    try {
      await act(reason);
    } catch (caught) {
      if (!isAsked.current) return tell(caught);
      throw caught;
    }
    close();
  };
  return { asking, ask, close, confirmed };
}

/** Fields, and behind them the button that takes what is in them: Enter in a field presses it, as in any form. */
export function Entry(props: { readonly children: Content }): Markup {
  const press = (event: Event): void => {
    event.preventDefault();
    (event.currentTarget as HTMLFormElement).querySelector('button')?.click();
  };
  return html`<form onSubmit=${press} autocomplete="off">${props.children}</form>`;
}

/**
 * A button for something that changes the project. It is busy, and not disabled, while it works: a disabled one loses the
 * focus. Says nothing of success: the page shows what is so by then.
 */
export function Action(props: ActionProps): Markup {
  const [error, setError] = useState<unknown>(undefined);
  const { asking, ask, close, confirmed } = useQuestion(props.run, setError);
  const { confirm } = props;
  const isAllowed = props.place.permissions.includes(props.needs);
  const button = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => {
    const one = button.current;
    // What is done may take its own button away: the page itself is where one goes on.
    return () => {
      if (one !== null && one === document.activeElement)
        document.getElementById('main')?.focus({ preventScroll: true });
    };
  }, []);
  const { busy, run: press } = useOnce(async () => {
    // What a field lacks is said at the field.
    if (button.current?.form?.reportValidity() === false) return;
    setError(undefined);
    try {
      if (confirm === undefined) return await props.run();
      ask(await confirm.consequence());
    } catch (caught) {
      setError(caught);
    }
  });
  const kind =
    confirm === undefined ? (props.primary === true ? 'primary' : '') : confirm.isMild === true ? '' : 'danger';
  return html`<span class="action">
    <button ref=${button} type="button" class=${kind} data-testid=${props.testId} disabled=${!isAllowed} aria-disabled=${busy ? 'true' : undefined} aria-busy=${busy} title=${props.command} onClick=${() => void press()}>${props.label}</button>
    ${isAllowed ? html`<${Copy} text=${props.command} label="svc" />` : html`<small>needs ${props.needs}</small>`}
    ${error === undefined ? null : html`<${Failure} error=${error} />`}
    ${
      asking === undefined || confirm === undefined
        ? null
        : html`<${Confirm} title=${confirm.title} consequence=${asking} action=${props.label} withReason=${confirm.withReason === true} onConfirm=${confirmed} onClose=${close} />`
    }
  </span>`;
}
