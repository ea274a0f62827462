// The dialog in which a person chooses projects of the provider: for an attempt that waits for it, or from a connection
// that the organization has. While an attempt is at work it is read every two seconds, one read at a time, and no more
// once the dialog is closed; closing cancels nothing, and nothing is sent twice.

import { useEffect, useState } from 'preact/hooks';
import type { ErrtrackAttempt, ErrtrackConnectionOption } from '../../../../schemas/api/errtrack.ts';
import { useOnce } from './action.ts';
import { ApiError, call, isPassing } from './api.ts';
import { Dialog, Failure, Field, html, type Markup, Status, type StatusKind } from './kit.ts';

const base = '/api/v1/connections/errtrack';
const pollMs = 2_000;
const timeoutMs = 120_000;
const projectsMax = 100;

export type Choosing =
  | { readonly kind: 'attempt'; readonly id: string }
  | { readonly kind: 'options'; readonly options: readonly ErrtrackConnectionOption[] };
interface Props {
  readonly scope: { readonly organizationId: string; readonly projectId: string };
  readonly choosing: Choosing;
  readonly onDone: (text: string) => void;
  readonly onClose: () => void;
}
interface ProviderProject {
  readonly id: string;
  readonly slug: string;
}

const polled: readonly ErrtrackAttempt['status'][] = ['exchanging', 'completing', 'uncertain'];
const done = 'The error tracker is connected to this project.';

export function Chooser(props: Props): Markup {
  const { choosing } = props;
  return choosing.kind === 'attempt'
    ? html`<${AttemptChooser} ...${props} id=${choosing.id} />`
    : html`<${OptionChooser} ...${props} options=${choosing.options} />`;
}

/** Reads an attempt: at once, and two seconds after each answer while it is at work. `round` reads again. */
function useAttempt(id: string, round: number) {
  const [state, setState] = useState<{
    readonly attempt?: ErrtrackAttempt;
    /** In which it was read. */
    readonly round?: number;
    readonly error?: unknown;
  }>({});
  useEffect(() => {
    const stop = new AbortController();
    let timer: number | undefined;
    const read = async (): Promise<void> => {
      try {
        const signal = AbortSignal.any([stop.signal, AbortSignal.timeout(timeoutMs)]);
        const attempt = await call<ErrtrackAttempt>('GET', `${base}/installations/${id}`, { signal });
        if (stop.signal.aborted) return;
        setState({ attempt, round });
        if (polled.includes(attempt.status)) timer = window.setTimeout(() => void read(), pollMs);
      } catch (error) {
        if (stop.signal.aborted) return;
        setState((before) => ({ ...before, error }));
        // What is refused stays refused; what was not reached, or is busy, is asked again.
        if (!(error instanceof ApiError) || isPassing(error)) timer = window.setTimeout(() => void read(), pollMs);
      }
    };
    void read();
    return () => {
      stop.abort();
      window.clearTimeout(timer);
    };
  }, [id, round]);
  return state;
}

const working: { readonly [status: string]: string } = {
  awaiting_authorization: 'The provider has not answered yet.',
  exchanging: 'Reading what the provider allows…',
  completing: 'Connecting…',
  uncertain: 'The provider’s confirmation is uncertain; an operator looks at it. You can close this.',
  failed: 'The setup has failed. Close this and connect again.',
  expired: 'The setup took too long. Close this and connect again.',
  cancelled: 'The setup was cancelled.',
};

const looks: { readonly [status: string]: StatusKind } = { failed: 'bad', expired: 'bad', cancelled: 'off' };

function AttemptChooser(props: Props & { readonly id: string }): Markup {
  const [round, setRound] = useState(0);
  /** The round in which a choice was sent. */
  const [sentIn, setSentIn] = useState<number | undefined>(undefined);
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const [error, setError] = useState<unknown>(undefined);
  const { attempt, round: readIn = 0, error: readError } = useAttempt(props.id, round);
  useEffect(() => {
    if (attempt?.status === 'completed') props.onDone(done);
  }, [attempt?.status]);
  const confirm = async (): Promise<void> => {
    setSentIn(round);
    setError(undefined);
    const recipients = (attempt?.destinationProjectIds ?? []).flatMap((projectId) =>
      chosen.map((errtrackProjectId) => ({ projectId, errtrackProjectId })),
    );
    try {
      const signal = AbortSignal.timeout(timeoutMs);
      await call('PUT', `${base}/installations/${props.id}/recipients`, { body: { recipients }, signal });
    } catch (caught) {
      setError(caught);
    }
    // Whatever came of it, the attempt says so: where it still waits for a choice, that can be made again.
    setRound((before) => before + 1);
  };
  const sent = sentIn !== undefined && readIn <= sentIn;
  const isChoice = attempt?.status === 'awaiting_selection' && !sent;
  const each = Math.max(1, attempt?.destinationProjectIds.length ?? 1);
  const organization = attempt?.providerOrganization?.name ?? '';
  return html`<${Dialog} title="Choose projects" testId="chooser" onClose=${props.onClose}>
    ${readError === undefined ? null : html`<${Failure} error=${readError} />`}
    ${error === undefined ? null : html`<${Failure} error=${error} />`}
    ${attempt === undefined && readError === undefined ? html`<p>Reading…</p>` : null}
    ${
      isChoice
        ? html`<${Choice} organization=${organization} projects=${attempt.projects} most=${Math.floor(projectsMax / each)} chosen=${chosen} onChoose=${setChosen} onConfirm=${confirm} onClose=${props.onClose} />`
        : html`<div><p>${attempt === undefined ? null : html`<${Status} kind=${looks[attempt.status] ?? 'wait'} text=${sent && attempt.status === 'awaiting_selection' ? 'Connecting…' : (working[attempt.status] ?? attempt.status)} />`}</p>
          ${attempt?.reason == null ? null : html`<p>Reason: <code>${attempt.reason}</code></p>`}
          <p class="buttons"><button type="button" onClick=${props.onClose}>Close</button></p></div>`
    }
  <//>`;
}

function OptionChooser(props: Props & { readonly options: readonly ErrtrackConnectionOption[] }): Markup {
  const { options, scope } = props;
  const [grantId, setGrantId] = useState(options.length === 1 ? (options[0]?.id ?? '') : '');
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const [error, setError] = useState<unknown>(undefined);
  const option = options.find((one) => one.id === grantId);
  const { busy, run: confirm } = useOnce(async () => {
    setError(undefined);
    try {
      const body = { ...scope, providerGrantId: grantId, errtrackProjectIds: chosen };
      await call('PUT', `${base}/projects`, { body, signal: AbortSignal.timeout(timeoutMs) });
      props.onDone(done);
    } catch (caught) {
      setError(caught);
    }
  });
  const pick = (event: Event): void => {
    setGrantId((event.currentTarget as HTMLSelectElement).value);
    setChosen([]);
  };
  return html`<${Dialog} title="Choose projects" testId="chooser" onClose=${props.onClose}>
    ${error === undefined ? null : html`<${Failure} error=${error} />`}
    ${
      options.length === 1
        ? null
        : html`<${Field} label="Provider organization">
      <select data-testid="choose-organization" value=${grantId} onChange=${pick}>
        <option value="">Choose…</option>
        ${options.map((one) => html`<option value=${one.id}>${one.organizationSlug}</option>`)}
      </select><//>`
    }
    ${
      option === undefined
        ? html`<p class="buttons"><button type="button" onClick=${props.onClose}>Cancel</button></p>`
        : html`<${Choice} key=${option.id} organization=${option.organizationName} projects=${option.projects} most=${projectsMax} busy=${busy} chosen=${chosen} onChoose=${setChosen} onConfirm=${confirm} onClose=${props.onClose} />`
    }
  <//>`;
}

/** The projects, and the two ways on. */
function Choice(props: {
  readonly organization: string;
  readonly projects: readonly ProviderProject[];
  readonly most: number;
  readonly busy?: boolean;
  readonly chosen: readonly string[];
  readonly onChoose: (ids: readonly string[]) => void;
  readonly onConfirm: () => Promise<void>;
  readonly onClose: () => void;
}): Markup {
  const { chosen } = props;
  const toggle = (id: string): void =>
    props.onChoose(chosen.includes(id) ? chosen.filter((one) => one !== id) : [...chosen, id]);
  const isReady = chosen.length >= 1 && chosen.length <= props.most;
  return html`<form onSubmit=${(event: Event) => event.preventDefault()}>
    <fieldset><legend>Projects${props.organization === '' ? '' : ` of ${props.organization}`}</legend>
      ${props.projects.map(
        ({ id, slug }) => html`<label class="choice"><input type="checkbox" data-testid=${`choose-${id}`}
        checked=${chosen.includes(id)} onChange=${() => toggle(id)} /> ${slug}</label>`,
      )}
    </fieldset>
    <p aria-live="polite">${chosen.length} of 1-${props.most}</p>
    <p class="buttons"><button type="button" onClick=${props.onClose}>Cancel</button>
      <button type="button" class="primary" data-testid="chooser-confirm" disabled=${!isReady} aria-disabled=${props.busy === true ? 'true' : undefined} aria-busy=${props.busy === true} onClick=${() => void props.onConfirm()}>Connect</button></p>
  </form>`;
}
