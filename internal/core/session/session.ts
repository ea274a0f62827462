// How a session lives (docs/reference/sessions.md#states and #slot) and what it is told (docs/reference/routing.md#messages,
// #start-message and #interrupts): a state machine as a table, the order of start messages, the display title, the lines of
// context that a message is given, and whether an event interrupts or waits. It decides nothing about which session gets an
// event (route does), keeps no time of its own and renders no template: the renderer is handed in. Pull-request checks are in
// checks.ts.

import type { SessionState } from '../../domain/session-state.ts';

export { sessionStates, type SessionState } from '../../domain/session-state.ts';
export { type SessionCheck, type CheckSignal, createCheck, nextDeadlineOf, signalCheck } from './checks.ts';
export { contextLines, withContext } from './context.ts';
export {
  afterTurn,
  attemptsMax,
  nextPrompt,
  promptMaxBytes,
  promptText,
  outOfMemoryText,
  relaunchAfterMs,
  successorAfterMs,
  type TurnEnd,
} from './prompts.ts';
export { placesToAskBack } from './places.ts';
export {
  deliveredMessage,
  displayTitle,
  hiddenContextHeading,
  startMessage,
} from './start.ts';

export const sessionSignals = [
  /** A host took the session by lease. */
  'claim',
  /** Its sandbox stands. */
  'provisioned',
  /** The harness has listed its tools. */
  'ready',
  /** A prompt went in. */
  'prompt',
  'turn_ended',
  'permission_asked',
  'permission_answered',
  /** An interrupting message is there: the turn is being cancelled. */
  'interrupt',
  /** Daemon restart, sandbox or harness lost. */
  'suspend',
  /** A host took it up again from its record. */
  'resume',
  /** Its host gives its place up between two turns. */
  'unload',
  /** A spend cap is reached. */
  'block',
  'unblock',
  'archive',
  /** The platform puts a successor in its place (`replace: auto`). */
  'replace',
  'fail',
] as const;
export type SessionSignal = (typeof sessionSignals)[number];

const ends: readonly SessionState[] = ['archived', 'replaced', 'failed'];

/** True for every state but the ends; only a live session holds a slot, a thread or a `session` binding. */
export const isLive = (state: SessionState): boolean => !ends.includes(state);

/** What any live session can meet. */
const always = { archive: 'archived', replace: 'replaced', fail: 'failed', block: 'blocked' } as const;
/** What one that a host holds can meet besides. */
const hosted = { ...always, suspend: 'suspended' } as const;

type Row = { readonly [signal in SessionSignal]?: SessionState };

/** State × signal → state; what is not in the table is refused. */
export const sessionTable: { readonly [state in SessionState]: Row } = {
  queued: { ...always, claim: 'provisioning' },
  provisioning: { ...hosted, provisioned: 'starting' },
  starting: { ...hosted, ready: 'idle' },
  // Without a host it waits for its next message, which a host takes it up for.
  idle: { ...hosted, prompt: 'running', unload: 'idle', resume: 'provisioning' },
  running: { ...hosted, turn_ended: 'idle', permission_asked: 'waiting_permission', interrupt: 'interrupting' },
  waiting_permission: { ...hosted, permission_answered: 'running', turn_ended: 'idle', interrupt: 'interrupting' },
  // A turn that ends by itself while it is being cancelled has ended all the same.
  interrupting: { ...hosted, turn_ended: 'idle' },
  suspended: { ...always, resume: 'provisioning' },
  // Its sandbox may be gone by then: it comes back the way a suspended one does.
  blocked: { archive: 'archived', replace: 'replaced', fail: 'failed', unblock: 'suspended' },
  archived: {},
  replaced: {},
  failed: {},
};

/** The state that a signal leads to, or null where it has no place there: the caller's row has changed meanwhile. */
export const nextState = (state: SessionState, signal: SessionSignal): SessionState | null =>
  sessionTable[state][signal] ?? null;

/** Events that wait until the session is idle; fixed (docs/reference/routing.md#interrupts). Every other one interrupts. */
const deferredEvents: readonly string[] = ['codehost.check_run.completed', 'codehost.workflow_run.completed'];

export const deliveryMode = (event: string): 'interrupt' | 'defer' =>
  deferredEvents.includes(event) ? 'defer' : 'interrupt';
