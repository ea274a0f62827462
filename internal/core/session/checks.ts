// A pull request's check (docs/reference/checks.md#states): queued on the head, begun, concluded by the session or by a deadline, and put
// aside by the next qualifying event. Time comes in; a deadline that has passed is applied before whatever else happens,
// so that a late call meets the state that the clock had made.

import type { CheckSpec, CheckDeadline } from '../../domain/spec.ts';

interface CheckBase {
  /** From 1; every qualifying event on the pull request begins the next. */
  readonly cycle: number;
  readonly headSha: string;
}
/** A deadline with the conclusion that it brings, as the spec was when it began to run. */
interface Deadline {
  readonly atMs: number;
  readonly seconds: number;
  readonly conclusion: CheckDeadline['conclusion'];
}
export type SessionCheck = CheckBase &
  (
    | { readonly state: 'queued' | 'in_progress'; readonly deadline: Deadline | null }
    | {
        readonly state: 'concluded';
        readonly conclusion: CheckDeadline['conclusion'];
        readonly title: string;
        readonly summary: string;
        /** True where a deadline concluded it. */
        readonly timedOut: boolean;
      }
    | { readonly state: 'superseded' }
  );

export type CheckSignal =
  | { readonly kind: 'begin' }
  | { readonly kind: 'success' | 'failure'; readonly title: string; readonly summary: string }
  /** Nothing but the passing of time. */
  | { readonly kind: 'tick' }
  /** The next cycle has begun. */
  | { readonly kind: 'supersede' };

export interface CheckResult {
  /** What the clock and then the signal made of it. */
  readonly check: SessionCheck;
  readonly changed: boolean;
  /** Why the signal had no place in the state, as a session is told; null where it had. */
  readonly refused: string | null;
}

const startDeadline = (nowMs: number, deadline: CheckDeadline | undefined): Deadline | null =>
  deadline === undefined ? null : { atMs: nowMs + deadline.seconds * 1_000, ...deadline };

/** A new cycle, queued on the head; `previous` is the cycle that it supersedes, or null. `nowMs`: since the epoch. */
export function createCheck(
  spec: Pick<CheckSpec, 'beginTimeout'>,
  headSha: string,
  nowMs: number,
  previous: SessionCheck | null,
): SessionCheck {
  const cycle = (previous?.cycle ?? 0) + 1;
  return { cycle, headSha, state: 'queued', deadline: startDeadline(nowMs, spec.beginTimeout) };
}

/** When the check is to be ticked next, in milliseconds since the epoch, or null. */
export const nextDeadlineOf = (check: SessionCheck): number | null =>
  'deadline' in check ? (check.deadline?.atMs ?? null) : null;

/** Applies the clock, then the signal. A deadline is met at its very millisecond. */
export function signalCheck(
  spec: Pick<CheckSpec, 'completeTimeout'>,
  check: SessionCheck,
  signal: CheckSignal,
  nowMs: number,
): CheckResult {
  const met = applyClock(check, nowMs);
  const { cycle, headSha } = check;
  const become = (next: SessionCheck): CheckResult => ({ check: next, changed: next !== check, refused: null });
  if (signal.kind === 'tick') return become(met);
  if (signal.kind === 'supersede') {
    return become(check.state === 'superseded' ? check : { cycle, headSha, state: 'superseded' });
  }
  if (signal.kind === 'begin' && met.state === 'queued') {
    return become({ cycle, headSha, state: 'in_progress', deadline: startDeadline(nowMs, spec.completeTimeout) });
  }
  if (signal.kind !== 'begin' && met.state === 'in_progress') {
    const { kind: conclusion, title, summary } = signal;
    return become({ cycle, headSha, state: 'concluded', conclusion, title, summary, timedOut: false });
  }
  return { ...become(met), refused: refusals[met.state] };
}

const refusals: { readonly [state in SessionCheck['state']]: string } = {
  queued: 'The check has not begun; call checks.begin first.',
  in_progress: 'The check has begun already.',
  concluded: 'The check is concluded already.',
  superseded: 'A newer event on the pull request began the next cycle of this check.',
};

function applyClock(check: SessionCheck, nowMs: number): SessionCheck {
  if (!('deadline' in check) || check.deadline === null || nowMs < check.deadline.atMs) return check;
  const { cycle, headSha, state, deadline } = check;
  const { seconds, conclusion } = deadline;
  const isQueued = state === 'queued';
  const title = isQueued ? 'Check begin timed out' : 'Check completion timed out';
  const summary = isQueued ? `Nobody began it within ${seconds} s.` : `It was not completed within ${seconds} s.`;
  return { cycle, headSha, state: 'concluded', conclusion, title, summary, timedOut: true };
}
