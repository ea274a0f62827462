// What goes into a harness next (docs/reference/sessions.md#inbox, docs/reference/routing.md#interrupts): one prompt at a
// time. Interrupting messages go in together, as many as fit into one prompt, and before a deferring one, which waits until
// nothing else does and then goes in alone. What does not fit goes in at the next turn, and does not end this one. A message
// that was in flight when its host, sandbox or harness went away goes in again and says so; one that keeps failing is given
// up.

export interface InboxMessage {
  readonly seq: number;
  readonly mode: 'interrupt' | 'defer';
  readonly text: string;
  /** Of its text, in UTF-8. */
  readonly bytes: number;
  /** Times that it went in before. */
  readonly attempts: number;
  /** The session that says it, where one does: whoever is told must know whom to answer. */
  readonly from?: { readonly sessionId: string; readonly agent: string } | null;
}

/** The texts of one prompt, in UTF-8; a message alone is never longer (docs/reference/sessions.md#inbox). */
export const promptMaxBytes = 1_048_576;

/** A message goes in at most so many times. */
export const attemptsMax = 3;

export const redelivered =
  '[Delivered again: the session was cut off before it had finished with this message. Part of it may be done already; look before you repeat anything.]';

/** The messages of the next prompt, from those that wait, in order of recording; empty where none does. */
export function nextPrompt<T extends Omit<InboxMessage, 'text'>>(waiting: readonly T[]): readonly T[] {
  const interrupts = waiting.filter((one) => one.mode === 'interrupt');
  let bytes = 0;
  const over = interrupts.findIndex((one, at) => (bytes += one.bytes) > promptMaxBytes && at > 0);
  if (over > 0) return interrupts.slice(0, over);
  return interrupts.length > 0 ? interrupts : waiting.slice(0, 1);
}

/** The text of a prompt, each message that goes in again, or comes from another session, under its label. */
export const promptText = (messages: readonly Omit<InboxMessage, 'bytes'>[]): string =>
  messages.map((one) => [...labels(one), one.text].join('\n\n')).join('\n\n');

function labels({ attempts, from }: Pick<InboxMessage, 'attempts' | 'from'>): string[] {
  const said = from ? [`[Message of session ${from.sessionId}, agent ${from.agent}]`] : [];
  return attempts === 0 ? said : [redelivered, ...said];
}

/** How a turn ended, as far as what follows depends on it. */
export type TurnEnd =
  | { readonly kind: 'done' }
  | { readonly kind: 'failed'; readonly cause: string; readonly retryable: boolean; readonly reason: string }
  /** Harness, sandbox or wire went away: what it did is unknown. */
  | { readonly kind: 'lost'; readonly reason: string };

export type AfterTurn =
  | { readonly next: 'idle' }
  /** The messages wait, the session waits until money is there again. */
  | { readonly next: 'blocked'; readonly reason: string }
  /** The messages wait and go in again after a while; `relaunch`: in a new process. */
  | { readonly next: 'retry'; readonly afterMs: number; readonly relaunch: boolean; readonly reason: string }
  /** The messages are given up, the session goes on: what kept them from success may be over when the next one comes. */
  | { readonly next: 'given-up'; readonly reason: string }
  | { readonly next: 'failed'; readonly reason: string };

const retryMs = [1_000, 10_000] as const;

/** What follows a turn; `attempts` is how often its messages have gone in, this turn included (the highest of them). */
export function afterTurn(end: TurnEnd, attempts: number): AfterTurn {
  if (end.kind === 'done') return { next: 'idle' };
  if (end.kind === 'failed' && end.cause === 'spend_cap') return { next: 'blocked', reason: end.reason };
  if (end.kind === 'failed' && !end.retryable) return { next: 'failed', reason: end.reason };
  if (attempts >= attemptsMax) {
    const reason = `given up after ${attempts} attempts: ${end.reason}`;
    return { next: end.kind === 'lost' ? 'failed' : 'given-up', reason };
  }
  const afterMs = retryMs[attempts - 1] ?? 0;
  return { next: 'retry', afterMs, relaunch: end.kind === 'lost', reason: end.reason };
}

const launchMs = { first: 1_000, most: 60_000, failuresMax: 6 } as const;

/** Milliseconds until the next launch after so many that failed in a row, or null where it is given up. */
export const relaunchAfterMs = (failures: number): number | null =>
  failures >= launchMs.failuresMax ? null : Math.min(launchMs.first * 4 ** (failures - 1), launchMs.most);

const successorMs = { first: 5_000, most: 3_600_000 } as const;

/** How long a slot stays empty after so many failed sessions in a row before a successor is spawned (`replace: auto`). */
export const successorAfterMs = (failedInARow: number): number =>
  Math.min(successorMs.first * 4 ** Math.max(0, failedInARow - 1), successorMs.most);

/** The reason of a turn that ended because its sandbox had no more memory. */
export const outOfMemoryText = (limitMB: number): string => `out of memory (${limitMB} MB)`;
