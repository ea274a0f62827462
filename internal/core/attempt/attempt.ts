// The setup attempt of an error-tracking connection as a state machine (docs/reference/error-tracking.md#states): which
// state follows which step, what may be cancelled, resumed or read, and when it is over. Also what of a provider's answers
// may be believed: the enumeration of projects and the selection of recipients.
// It reads no clock, asks nobody and stores nothing; that a code is exchanged once is a unique row of its writer.

export const attemptStates = [
  'awaiting_authorization',
  'exchanging',
  'awaiting_selection',
  'completing',
  'completed',
  'failed',
  'expired',
  'cancelled',
  'uncertain',
] as const;
export type AttemptState = (typeof attemptStates)[number];

export const attemptSteps = [
  /** The provider sent the browser back, and the code's hash is claimed. */
  'callback',
  /** Exchanged and read back: more than one project or destination is possible. */
  'choices',
  /** Exchanged and read back: one project and one destination. */
  'only-choice',
  /** The provider refused, or a read after a good exchange failed. */
  'refused',
  /** The outcome of the exchange or of the confirmation is not known, or what was confirmed could not be published. */
  'unknown',
  'select',
  'published',
  'cancel',
  'expire',
] as const;
export type AttemptStep = (typeof attemptSteps)[number];

const table: { readonly [state in AttemptState]: { readonly [step in AttemptStep]?: AttemptState } } = {
  awaiting_authorization: { callback: 'exchanging', cancel: 'cancelled', expire: 'expired' },
  exchanging: {
    choices: 'awaiting_selection',
    'only-choice': 'completing',
    refused: 'failed',
    unknown: 'uncertain',
    cancel: 'cancelled',
  },
  awaiting_selection: { select: 'completing', cancel: 'cancelled', expire: 'expired', refused: 'failed' },
  completing: { published: 'completed', refused: 'failed', unknown: 'uncertain', cancel: 'cancelled' },
  // An operator looks at the provider's side; the person is free to put the attempt away meanwhile.
  uncertain: { cancel: 'cancelled' },
  completed: {},
  failed: {},
  expired: {},
  cancelled: {},
};

/** The state after a step, null where the state does not take it. */
export const after = (state: AttemptState, step: AttemptStep): AttemptState | null => table[state][step] ?? null;

/** States from which a step leads on, for the `where` of an update. */
export const takes = (step: AttemptStep): AttemptState[] =>
  attemptStates.filter((state) => after(state, step) !== null);

/** The table as text, a line for each state. */
export const printTable = (): string =>
  attemptStates
    .map((state) => {
      const steps = attemptSteps.flatMap((step) => {
        const next = after(state, step);
        return next === null ? [] : [`${step} → ${next}`];
      });
      return `${state}: ${steps.length === 0 ? 'the end' : steps.join(', ')}`;
    })
    .join('\n');

/** Fifteen minutes, from the start to the end of what a person still has to do. */
export const attemptMs = 900_000;

/** What a stored state is worth at a time: one that waits for a person expires, one that is at work does not. */
export const stateAt = (state: AttemptState, expiresAt: Date, now: Date): AttemptState =>
  now >= expiresAt ? (after(state, 'expire') ?? state) : state;

const resumable: readonly AttemptState[] = ['awaiting_selection', 'exchanging', 'completing'];
/** Whether a start may go on with this attempt of the same person. */
export const isResumable = (state: AttemptState, expiresAt: Date, now: Date): boolean =>
  resumable.includes(state) && now < expiresAt;

export interface ProviderProject {
  /** Positive decimal. */
  readonly id: string;
  readonly slug: string;
}

export const pagesMax = 10;
export const pageProjectsMax = 100;

/** A page of the provider's list of projects as it came, and the cursor that it names for the next. */
export interface ProjectPage {
  readonly body: unknown;
  readonly next: string | null;
}

const projectIdPattern = /^[1-9][0-9]{0,18}$/;
export const isProviderId = (text: unknown): text is string => typeof text === 'string' && projectIdPattern.test(text);
const slugPattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/;
export const isSlug = (text: unknown): text is string =>
  typeof text === 'string' && slugPattern.test(text) && !text.includes('..');

/**
 * Adds a page to what was enumerated. A page that is no list, is too large, names a project without an id or twice, or
 * repeats a cursor makes the whole enumeration worthless: a part of it would be taken for all that may be seen.
 */
export function addPage(
  seen: { readonly projects: readonly ProviderProject[]; readonly cursors: readonly string[] },
  page: ProjectPage,
):
  | { readonly projects: readonly ProviderProject[]; readonly cursors: readonly string[]; readonly more: boolean }
  | string {
  const { body, next } = page;
  if (!Array.isArray(body)) return 'the list of projects is not a list';
  if (body.length > pageProjectsMax) return `a page has over ${pageProjectsMax} projects`;
  const known = new Set(seen.projects.map(({ id }) => id));
  const projects = [...seen.projects];
  for (const item of body as unknown[]) {
    const { id, slug } = (item ?? {}) as { readonly id?: unknown; readonly slug?: unknown };
    if (!isProviderId(id) || !isSlug(slug)) return 'a project has no usable id or slug';
    if (known.has(id)) return 'a project is listed twice';
    known.add(id);
    projects.push({ id, slug });
  }
  if (next === null) return { projects, cursors: seen.cursors, more: false };
  if (next === '' || seen.cursors.includes(next)) return 'a cursor is repeated';
  if (body.length === 0) return 'an empty page names a next one';
  const cursors = [...seen.cursors, next];
  // The first page has no cursor: of so many, this is one page too much.
  return cursors.length >= pagesMax
    ? `there are over ${pagesMax} pages of projects`
    : { projects, cursors, more: true };
}

export interface Recipient {
  readonly projectId: string;
  readonly errtrackProjectId: string;
}

/** The pairs of a selection, each once; or what is wrong with it. */
export function selection(
  recipients: readonly Recipient[],
  destinations: readonly string[],
  choices: readonly ProviderProject[],
): readonly Recipient[] | string {
  const distinct = new Map(recipients.map((one) => [`${one.projectId} ${one.errtrackProjectId}`, one]));
  for (const { projectId, errtrackProjectId } of distinct.values()) {
    if (!destinations.includes(projectId)) return 'a recipient is none of the intended projects';
    if (!choices.some(({ id }) => id === errtrackProjectId)) return 'a recipient names no project that is visible';
  }
  return [...distinct.values()];
}
