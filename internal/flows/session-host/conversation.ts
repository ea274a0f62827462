// The conversation of a launched session (contract, section 6, Delivery): one prompt in flight, ever. What waits goes in
// as core/session says; an interrupting message ends the turn in flight first. Every step is a fenced write: where one
// changes nothing the session belongs to somebody else, and this process lets go.

import type { HarnessUpdate, ModelEvidence, TurnOutcome } from '../../adapters/harness/types.ts';
import { isConnectionLoss } from '../../adapters/store/store.ts';
import { blockSession, type ClaimedSession, moveSession } from '../../adapters/store/sessions/hosts.ts';
import {
  beginTurn,
  conversationTail,
  endTurn,
  type WaitingMessage,
  waitingMessages,
} from '../../adapters/store/sessions/turns.ts';
import { failpoint } from '../../base/failpoint.ts';
import { timeOrderedId } from '../../base/runtime.ts';
import {
  afterTurn,
  attemptsMax,
  interrupts,
  nextPrompt,
  promptText,
  type TurnEnd,
} from '../../core/session/session.ts';
import type { JsonObject } from '../../domain/json.ts';
import type { FlowContext } from '../context.ts';
import type { Cap } from './channels.ts';
import { failureText, type Launched } from './launch.ts';
import { Mask } from './mask.ts';
import { Permissions } from './permissions.ts';
import { Signal } from './signal.ts';
import { withRetry } from './with-retry.ts';
import { Transcript } from './transcript.ts';

/** Why a conversation came to its end in this process. */
export type ConversationEnd =
  /** The lease is gone: the session was ended, or is another host's. */
  | { readonly kind: 'gone' }
  /** This daemon drains. */
  | { readonly kind: 'drained' }
  | { readonly kind: 'blocked' }
  /** To be launched again in a new process; `isBlameless`: it was the database, which counts as nobody's failure. */
  | { readonly kind: 'relaunch'; readonly reason: string; readonly isBlameless?: boolean }
  | { readonly kind: 'failed'; readonly reason: string };

const lookMs = 30_000;
/** A turn that has passed a cap may end by itself within this; its next call to the model is refused anyway. */
const capGraceMs = 1_500;
const recapChars = 40_000;
const RECAP =
  '[This conversation goes on in a new place, and your own memory of it is gone. What was said so far, shortened:]';

/** One launched session, from idle to its end. */
export class Conversation {
  readonly transcript: Transcript;
  readonly permissions: Permissions;
  /** Filled by the launch. */
  readonly mask = new Mask();
  readonly #ctx: FlowContext;
  readonly #session: ClaimedSession;
  readonly #wake = new Signal();
  readonly #stop: AbortSignal;
  #gone = false;
  #hasEndedTurn = false;

  constructor(ctx: FlowContext, session: ClaimedSession, stop: AbortSignal) {
    this.#ctx = ctx;
    this.#session = session;
    this.#stop = stop;
    this.transcript = new Transcript(ctx, session, this.mask);
    this.permissions = new Permissions(ctx, session, this.transcript, this.#wake, this.mask);
    stop.addEventListener('abort', () => this.#wake.fire(), { once: true });
  }

  /** Something may have happened: look. */
  wake(): void {
    this.#wake.fire();
  }

  /** The lease is gone. */
  lose(): void {
    this.#gone = true;
    this.#wake.fire();
  }

  /** Launches that failed one after another, up to now: a turn that ended well begins anew. */
  get failures(): number {
    return this.#hasEndedTurn ? 0 : this.#session.failures;
  }

  onUpdate = (update: HarnessUpdate): Promise<void> => this.transcript.take(update);

  /** Runs until the session is not this process's any more. */
  async run(launched: Launched): Promise<ConversationEnd> {
    let wire: string | undefined;
    void launched.connection.ended.then((failure) => {
      wire = this.mask.apply(failureText(failure));
      this.#wake.fire();
    });
    let recap = launched.isAmnesic;
    for (;;) {
      const over = this.#over();
      if (over !== undefined) return over;
      if (wire !== undefined) return { kind: 'relaunch', reason: wire };
      const seen = this.#wake.mark();
      const capped = launched.money.capped();
      if (capped !== undefined) return this.#block(capped.message);
      const messages = nextPrompt(await this.#waiting()) as readonly WaitingMessage[];
      if (messages.length === 0) {
        await this.#wake.after(seen, lookMs);
        continue;
      }
      const end = await this.#turn(launched, messages, recap);
      if (end !== undefined) return end;
      recap = false;
    }
  }

  #over(): ConversationEnd | undefined {
    if (this.#gone) return { kind: 'gone' };
    return this.#stop.aborted ? { kind: 'drained' } : undefined;
  }

  /** What waits; nothing while the database is away, since the lease tells soon enough. */
  async #waiting(): Promise<WaitingMessage[]> {
    try {
      return await waitingMessages(this.#ctx.db, this.#session.sessionId);
    } catch (error) {
      if (!isConnectionLoss(error)) throw error;
      return [];
    }
  }

  /** One turn; undefined where the conversation goes on. */
  async #turn(
    launched: Launched,
    messages: readonly WaitingMessage[],
    recap: boolean,
  ): Promise<ConversationEnd | undefined> {
    const worn = messages.find((one) => one.attempts >= attemptsMax);
    if (worn !== undefined) {
      return { kind: 'failed', reason: `given up: a message was cut off ${worn.attempts} times` };
    }
    const id = timeOrderedId(this.#ctx.runtime);
    const now = this.#ctx.runtime.now();
    const seqs = messages.map((one) => one.seq);
    failpoint('session.turn-due');
    const number = await beginTurn(this.#ctx.db, this.#session, { id, seqs, now });
    if (number === undefined) return { kind: 'gone' };
    failpoint('session.turn-begun');
    await this.#sayAgain(messages);
    const text = promptText(messages);
    const texts = recap ? [...(await this.#recap()), text] : [text];
    let outcome: TurnOutcome | undefined;
    const prompting = launched.connection.prompt(texts, { evidence: () => evidenceOf(launched, now) });
    const told = prompting.then((value) => {
      outcome = value;
      this.#wake.fire();
    });
    const cut = await this.#during(launched, () => outcome !== undefined);
    if (cut !== undefined && 'kind' in cut) return cut;
    await told;
    await launched.money.settled();
    await this.transcript.flush();
    failpoint('session.turn-ended');
    const attempts = Math.max(...messages.map((one) => one.attempts)) + 1;
    const end = await this.#endOf(launched, outcome as unknown as TurnOutcome, cut?.cap);
    return this.#settle(id, outcome as unknown as TurnOutcome, end, attempts);
  }

  /** A reader of the transcript is told what goes in again. */
  async #sayAgain(messages: readonly WaitingMessage[]): Promise<void> {
    const again = messages.filter((one) => one.attempts > 0);
    if (again.length === 0) return;
    const which = again.length === 1 ? 'The message' : `${again.length} messages`;
    const text = `${which} of the turn that was cut off ${again.length === 1 ? 'is' : 'are'} delivered again.`;
    const detail = { severity: 'info', again: again.map((one) => one.seq) };
    await this.transcript.note({ role: 'system', kind: 'notice', text, detail });
  }

  /**
   * Watches a turn in flight: cancels it for what interrupts, and where a cap is reached. Answers where it is to be cut
   * off for good, or with the cap that it was cancelled for.
   */
  async #during(
    launched: Launched,
    isOver: () => boolean,
  ): Promise<ConversationEnd | { readonly cap: Cap } | undefined> {
    let cause: 'interrupt' | 'cap' | undefined;
    let overdue = false;
    let cappedAt: number | undefined;
    while (!isOver()) {
      const seen = this.#wake.mark();
      const over = this.#over();
      if (over !== undefined) return over;
      if (overdue) return { kind: 'relaunch', reason: 'the harness did not end its turn when it was told to' };
      const cap = launched.money.capped();
      if (cap !== undefined) cappedAt ??= this.#ctx.runtime.now().getTime();
      const graceMs = cappedAt === undefined ? lookMs : cappedAt + capGraceMs - this.#ctx.runtime.now().getTime();
      if (cause === undefined && !isOver()) {
        if (cap !== undefined && (cap.refused || graceMs <= 0)) cause = 'cap';
        else if (interrupts(await this.#waiting()) && !isOver()) cause = 'interrupt';
        if (cause !== undefined) {
          await this.#cancel(launched, (how) => {
            overdue = how === 'overdue';
          });
        }
      }
      if (!isOver()) await this.#wake.after(seen, cause === undefined && graceMs > 0 ? graceMs : lookMs);
    }
    const cap = launched.money.capped();
    return cause === 'cap' && cap !== undefined ? { cap } : undefined;
  }

  async #cancel(launched: Launched, then: (how: string) => void): Promise<void> {
    await withRetry(this.#ctx, () =>
      moveSession(this.#ctx.db, this.#session, ['running', 'waiting_permission'], 'interrupting'),
    );
    failpoint('session.interrupting');
    void launched.connection.cancel().then((how) => {
      then(how);
      this.#wake.fire();
    });
  }

  /** What the end of a turn means here; `cap`: it was cancelled for that one. */
  async #endOf(launched: Launched, outcome: TurnOutcome, cap: Cap | undefined): Promise<TurnEnd> {
    const reached = (cap ?? launched.money.capped())?.message;
    if (outcome.kind === 'cancelled' && cap !== undefined) {
      return { kind: 'failed', cause: 'spend_cap', retryable: false, reason: cap.message };
    }
    if (outcome.kind === 'lost') return { kind: 'lost', reason: this.mask.apply(failureText(outcome.failure)) };
    if (outcome.kind !== 'failed') return { kind: 'done' };
    const { cause, retryable } = outcome;
    const reason = this.mask.apply(outcome.message);
    if (cause !== 'spend_cap') return { kind: 'failed', cause, retryable, reason };
    if (reached !== undefined) return { kind: 'failed', cause, retryable, reason: reached };
    // No cap of ours: the provider itself wants money, which no waiting for a day or month brings.
    return { kind: 'failed', cause: 'payment', retryable: false, reason };
  }

  async #settle(
    id: string,
    outcome: TurnOutcome,
    end: TurnEnd,
    attempts: number,
  ): Promise<ConversationEnd | undefined> {
    const next = afterTurn(end, attempts);
    const isGivenUp = next.next === 'failed' || next.next === 'given-up';
    const messages = next.next === 'idle' ? 'done' : isGivenUp ? 'failed' : 'pending';
    const ended = await withRetry(this.#ctx, () =>
      endTurn(this.#ctx.db, this.#session, {
        id,
        state: end.kind === 'done' ? (outcome.kind === 'cancelled' ? 'cancelled' : 'done') : end.kind,
        stopReason: outcome.kind,
        error: end.kind === 'done' ? null : end.reason,
        usage: 'usage' in outcome && outcome.usage !== undefined ? ({ ...outcome.usage } as JsonObject) : {},
        messages,
        reason: next.next === 'given-up' ? next.reason : null,
        // Waiting for money is nobody's failure: it does not wear a message out.
        isUnworn: next.next === 'blocked',
        now: this.#ctx.runtime.now(),
      }),
    );
    this.#count(end.kind === 'failed' ? end.cause : end.kind === 'lost' ? 'lost' : outcome.kind);
    if (!ended) return { kind: 'gone' };
    failpoint('session.turn-settled');
    if (end.kind === 'done') this.#hasEndedTurn = true;
    await this.#tell(outcome, next.next === 'idle' ? undefined : next.reason);
    if (next.next === 'idle' || next.next === 'given-up') return undefined;
    if (next.next === 'failed') return { kind: 'failed', reason: next.reason };
    if (next.next === 'blocked') return this.#block(next.reason);
    if (next.relaunch) return { kind: 'relaunch', reason: next.reason };
    return this.#pause(next.afterMs);
  }

  #count(outcome: string): void {
    const help = 'Turns that ended, by how they did.';
    this.#ctx.metrics.counter('svc_turns_total', help, ['outcome']).inc({ outcome });
  }

  async #pause(afterMs: number): Promise<ConversationEnd | undefined> {
    const until = this.#ctx.runtime.now().getTime() + afterMs;
    for (let left = afterMs; left > 0; left = until - this.#ctx.runtime.now().getTime()) {
      const over = this.#over();
      if (over !== undefined) return over;
      await this.#wake.after(this.#wake.mark(), left);
    }
    return undefined;
  }

  async #block(reason: string): Promise<ConversationEnd> {
    const isBlocked = await withRetry(this.#ctx, () => blockSession(this.#ctx.db, this.#session, reason));
    return isBlocked ? { kind: 'blocked' } : { kind: 'gone' };
  }

  async #tell(outcome: TurnOutcome, reason: string | undefined): Promise<void> {
    const text =
      reason ??
      (outcome.kind === 'refused'
        ? 'The model refused to go on.'
        : outcome.kind === 'cut'
          ? `The turn was cut at its limit: ${outcome.limit}.`
          : undefined);
    if (text === undefined) return;
    const severity = reason === undefined ? 'warning' : 'error';
    await this.transcript.note({ role: 'system', kind: 'notice', text, detail: { severity } });
  }

  async #recap(): Promise<string[]> {
    const said = await conversationTail(this.#ctx.db, this.#session.sessionId, recapChars);
    return said.length === 0 ? [] : [[RECAP, ...said.map((one) => `${one.role}: ${one.text}`)].join('\n\n')];
  }
}

/** What the gateway saw of this turn; a call that ended before it says nothing of it. */
function evidenceOf(launched: Launched, since: Date): ModelEvidence {
  const last = launched.money.lastCall();
  if (last === undefined || last.at < since) return { calls: 0 };
  return {
    calls: 1,
    lastStatus: last.ok ? 200 : Math.max(last.status, 400),
    ...(last.message !== null && { lastError: last.message }),
  };
}
