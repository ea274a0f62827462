// What ends a turn before its own end, and what that means for how it is told.

import type { ModelEvidence, TurnOutcome } from '../../adapters/harness/types.ts';
import type { TurnEnd } from '../../core/session/session.ts';
import type { ModelCallEnd } from '../ports.ts';
import type { Cap } from './channels.ts';
import type { Launched } from './launching.ts';
import type { TurnSpans } from './spans.ts';

/** What a turn was cancelled for. */
export interface Cut {
  readonly cause: 'interrupt' | 'stop' | 'turn-timeout' | 'cap' | undefined;
  /** It did not end within its grace. */
  readonly isOverdue: boolean;
  readonly cap?: Cap;
}

/** A turn that is over, as it is settled. */
export interface EndedTurn {
  readonly id: string;
  readonly end: TurnEnd;
  readonly attempts: number;
  readonly cut: Cut;
  readonly spans: Pick<TurnSpans, 'startMs' | 'eventIds'>;
}

/** Whether a turn ended because it was told to; one that ended by itself meanwhile has ended all the same. */
export const isStopped = ({ cause }: Cut, { kind }: TurnOutcome): boolean =>
  cause === 'turn-timeout' || (cause !== undefined && cause !== 'cap' && kind !== 'finished');
export const stopReasonOf = ({ cause }: Pick<Cut, 'cause'>): string => (cause === 'turn-timeout' ? cause : 'cancelled');
export const timeoutText = (turnMs: number): string => `turn-timeout: the turn took longer than ${turnMs / 1_000} s`;

/** What a reader of the transcript is told of a turn that is over and was not simply done. */
export function noticeOf(outcome: TurnOutcome, cut: Cut, turnMs: number): string | undefined {
  if (cut.cause === 'turn-timeout') return `${timeoutText(turnMs)}.`;
  if (outcome.kind === 'refused') return 'The model refused to go on.';
  return outcome.kind === 'cut' ? `The turn was cut at its limit: ${outcome.limit}.` : undefined;
}

/** What the gateway saw of this turn; a call that ended before it says nothing of it. */
export function evidenceOf(launched: Launched, since: Date): ModelEvidence {
  const last = launched.money.lastCall();
  if (last === undefined || last.at < since) return { calls: 0 };
  return {
    calls: 1,
    lastStatus: last.ok ? 200 : statusOf(last),
    ...(last.message !== null && { lastError: last.message }),
  };
}

/** One that failed after its answer had begun has a status of success. */
function statusOf({ status, retryable }: ModelCallEnd): number {
  if (status >= 400) return status;
  return retryable ? 0 : 400;
}

/** Of a turn that another process has begun: what the model was asked before is not known here. */
export const laterEvidenceOf = (launched: Launched, since: Date) => (): ModelEvidence | undefined => {
  const seen = evidenceOf(launched, since);
  return seen.calls === 0 ? undefined : seen;
};
