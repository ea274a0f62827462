// The conversation of a launched session (docs/reference/sessions.md#inbox): one prompt in flight, ever. What waits goes in
// as core/session says; an interrupting message ends the turn in flight first. Every step is a fenced write: where one
// changes nothing the session belongs to somebody else, and this process lets go.

import { failureCharsMax } from '../../adapters/harness/harness.ts';
import type { HarnessUpdate, TurnOutcome } from '../../adapters/harness/types.ts';
import { blockSession, type ClaimedSession } from '../../adapters/store/sessions/hosts.ts';
import type { RunningTurn } from '../../adapters/store/sessions/holds.ts';
import { beginTurn, endTurn, stopTurn } from '../../adapters/store/sessions/turns.ts';
import { failpoint } from '../../base/failpoint.ts';
import { timeOrderedId } from '../../base/runtime.ts';
import { afterTurn, attemptsMax, promptText, type TurnEnd } from '../../core/session/session.ts';
import type { JsonObject } from '../../domain/json.ts';
import type { FlowContext } from '../context.ts';
import { withTurnInHand } from './in-hand.ts';
import { Inbox } from './inbox.ts';
import { failureText } from './launch.ts';
import type { Launched } from './launching.ts';
import { Mask } from './mask.ts';
import { Permissions } from './permissions.ts';
import { lostSandbox, sandboxEnd } from './sandbox-end.ts';
import { Signal } from './signal.ts';
import { againNote, countTurn, recapOf } from './tellings.ts';
import {
  type Cut,
  type EndedTurn,
  evidenceOf,
  isStopped,
  laterEvidenceOf,
  noticeOf,
  stopReasonOf,
  timeoutText,
} from './turn-cut.ts';
import { withRetry } from '../with-retry.ts';
import { Transcript } from './transcript.ts';
import { noteTurn } from './spans.ts';

/** Why a conversation came to its end in this process. */
export type ConversationEnd =
  /** The lease is gone: the session was ended, or is another host's. */
  | { readonly kind: 'gone' }
  /** This daemon drains. */
  | { readonly kind: 'drained' }
  | { readonly kind: 'blocked' }
  /** It rests, and gives its place up. */
  | { readonly kind: 'unloaded' }
  /**
   * To be launched again in a new process, where something waits for it. `isBlameless`: it counts as no failure of a
   * launch; `waitsFor`: what a session that was never up waits for meanwhile.
   */
  | {
      readonly kind: 'relaunch';
      readonly reason: string;
      readonly isBlameless?: boolean;
      readonly waitsFor?: 'harness' | 'engine';
    }
  | { readonly kind: 'failed'; readonly reason: string };

const lookMs = 30_000;
/** A turn that has passed a cap may end by itself within this; its next call to the model is refused anyway. */
const capGraceMs = 1_500;
/** One launched session, from idle to its end. */
export class Conversation {
  readonly transcript: Transcript;
  readonly permissions: Permissions;
  /** Filled by the launch. */
  readonly mask = new Mask();
  readonly #ctx: FlowContext;
  readonly #session: ClaimedSession;
  readonly #inbox: Inbox;
  readonly #wake = new Signal();
  readonly #stop: AbortSignal;
  readonly #leaving: AbortSignal;
  readonly #turnMs: number;
  #gone = false;
  /** Since when it rests, on the monotonic clock. */
  #restsSince: number | undefined;
  #isAskedToLeave = false;
  #hasEndedTurn = false;
  #isCut = false;
  #beganMs = 0;

  /** `turnMs`: a turn that takes longer is ended; `leaving`: also where the lease is gone. */
  constructor(ctx: FlowContext, session: ClaimedSession, stop: AbortSignal, leaving: AbortSignal, turnMs: number) {
    this.#turnMs = turnMs;
    this.#leaving = leaving;
    this.#ctx = ctx;
    this.#session = session;
    this.#inbox = new Inbox(ctx.db, session.sessionId);
    this.#stop = stop;
    this.transcript = new Transcript(ctx, session, this.mask, leaving);
    this.permissions = new Permissions(ctx, session, this.transcript, this.#wake, this.mask);
    stop.addEventListener('abort', () => this.#wake.fire(), { once: true });
  }

  /** Has it look for news. */
  wake(): void {
    this.#wake.fire();
  }

  /** The lease is gone. */
  lose(): void {
    this.#gone = true;
    this.#wake.fire();
  }

  restsForMs(): number | undefined {
    return this.#restsSince === undefined ? undefined : performance.now() - this.#restsSince;
  }

  /** Asks it to give its place up, which it does where it still rests when it looks next. */
  unload(): void {
    this.#isAskedToLeave = true;
    this.#wake.fire();
  }

  isLeaving(): boolean {
    return this.#isAskedToLeave;
  }

  /** Whether another process can go on with it as it is: no turn in flight was told to end. */
  get isWhole(): boolean {
    return !this.#isCut;
  }

  /** Launches that have failed in a row; a turn that ended well sets it back to none. */
  get failures(): number {
    return this.#hasEndedTurn ? 0 : this.#session.failures;
  }

  onUpdate = (update: HarnessUpdate, end?: number): Promise<void> => this.transcript.take(update, end);

  /** Runs until the session is not this process's any more. `turn`: one that another process has begun. */
  async run(launched: Launched, turn?: RunningTurn): Promise<ConversationEnd> {
    this.#beganMs = this.#ctx.runtime.now().getTime();
    let wire: string | undefined;
    void launched.connection.ended.then((failure) => {
      wire = this.mask.apply(failureText(failure));
      this.#wake.fire();
    });
    // With a turn in flight it was told already.
    let recap = async (): Promise<string[]> =>
      turn === undefined ? recapOf(this.#ctx, this.#session.sessionId, launched) : [];
    if (turn !== undefined) {
      const going = launched.connection.goOn({ evidence: laterEvidenceOf(launched, turn.startedAt) });
      const end = await this.#seeThrough(launched, turn, going);
      if (end !== undefined) return end;
    }
    for (;;) {
      const over = this.#over();
      if (over !== undefined) return over;
      if (wire !== undefined) return { kind: 'relaunch', reason: (await sandboxEnd(launched))?.reason ?? wire };
      const seen = this.#wake.mark();
      const capped = launched.money.capped();
      if (capped !== undefined) return this.#block(capped.message);
      const next = await this.#inbox.next();
      if (next.messages.length === 0) {
        if (this.#isAskedToLeave) return { kind: 'unloaded' };
        this.#restsSince ??= performance.now();
        await this.#wake.after(seen, lookMs);
        continue;
      }
      this.#restsSince = undefined;
      this.#isAskedToLeave = false;
      // By the time that the turn may begin, the session may have been let go of.
      const begin = async () => this.#over() ?? this.#turn(launched, next, recap);
      const end = await withTurnInHand(this.#ctx, this.#session, begin, this.#leaving);
      if (end !== undefined) return end;
      recap = async () => [];
    }
  }

  #over(): ConversationEnd | undefined {
    if (this.#gone) return { kind: 'gone' };
    return this.#stop.aborted ? { kind: 'drained' } : undefined;
  }

  /** One turn; undefined where the conversation goes on. */
  async #turn(
    launched: Launched,
    { messages, left }: Awaited<ReturnType<Inbox['next']>>,
    recap: () => Promise<string[]>,
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
    failpoint('session.turn-in-hand', this.#session.agent);
    const again = againNote(messages);
    if (again !== undefined) await this.transcript.note(again);
    const texts = [...(await recap()), promptText(messages)];
    this.transcript.progress.turn = id;
    const prompting = launched.connection.prompt(texts, { evidence: () => evidenceOf(launched, now) });
    return this.#seeThrough(launched, { id, startedAt: now, agoMs: 0, messages, left }, prompting);
  }

  /** A turn in flight until it is settled, whoever has begun it. */
  async #seeThrough(
    launched: Launched,
    { id, startedAt, agoMs, messages, left }: RunningTurn,
    prompting: Promise<TurnOutcome>,
  ): Promise<ConversationEnd | undefined> {
    let isOver = false;
    // What it throws is heard of below, or by nobody where the session was let go meanwhile.
    void Promise.allSettled([prompting]).then(() => {
      isOver = true;
      this.#wake.fire();
    });
    const cut = await this.#during(launched, { id, left, agoMs }, () => isOver);
    if ('end' in cut) return cut.end;
    // One that does not end when it is told to is ended with its process, and what came of it stays unknown.
    if (cut.isOverdue) return this.#endHung(id, cut);
    const outcome = await prompting;
    await launched.money.settled();
    await this.transcript.flush();
    launched.results.soon();
    failpoint('session.turn-ended');
    const attempts = Math.max(...messages.map((one) => one.attempts)) + 1;
    const end = await this.#endOf(launched, outcome, cut);
    const spans = { startMs: startedAt.getTime(), eventIds: messages.map(({ eventId }) => eventId) };
    return this.#settle({ id, end, attempts, cut, spans }, outcome);
  }

  /** Ends a turn that hangs. Its messages count as read, so that the next launch does not hang over them again. */
  async #endHung(id: string, cut: Cut): Promise<ConversationEnd> {
    await this.transcript.flush();
    const reason = 'the harness did not end its turn when it was told to';
    const ended = await withRetry(() =>
      endTurn(this.#ctx.db, this.#session, {
        id,
        state: 'cancelled',
        stopReason: stopReasonOf(cut),
        error: reason,
        usage: {},
        messages: cut.cause === 'cap' ? 'pending' : 'done',
        reason: null,
        now: this.#ctx.runtime.now(),
      }),
    );
    countTurn(this.#ctx, 'hung');
    if (!ended) return { kind: 'gone' };
    this.#hasEndedTurn = true;
    const text = cut.cause === 'turn-timeout' ? `${timeoutText(this.#turnMs)}, and ${reason}` : `Stopped: ${reason}`;
    await this.transcript.note({ role: 'system', kind: 'notice', text: `${text}.`, detail: { severity: 'warning' } });
    if (cut.cap !== undefined) return this.#block(cut.cap.message);
    return { kind: 'relaunch', reason, isBlameless: true };
  }

  /**
   * Watches a turn in flight: cancels it for what interrupts, where somebody asks for it, where it takes too long, and where
   * a cap is reached. Answers where the conversation is over for this process, or with what it was cancelled for.
   */
  async #during(
    launched: Launched,
    { id, left, agoMs }: Pick<RunningTurn, 'id' | 'left' | 'agoMs'>,
    isOver: () => boolean,
  ): Promise<Cut | { readonly end: ConversationEnd }> {
    let cause: Cut['cause'];
    let isOverdue = false;
    let cappedAt: number | undefined;
    const began = performance.now() - agoMs;
    const askedMs = this.permissions.waitedMs();
    while (!isOver()) {
      const seen = this.#wake.mark();
      const over = this.#over();
      if (over !== undefined) return { end: over };
      if (isOverdue) break;
      const cap = launched.money.capped();
      if (cap !== undefined) cappedAt ??= performance.now();
      const graceMs = cappedAt === undefined ? lookMs : cappedAt + capGraceMs - performance.now();
      const leftMs = this.#turnMs - (performance.now() - began) + this.permissions.waitedMs() - askedMs;
      if (cause === undefined && !isOver()) {
        if (cap !== undefined && (cap.refused || graceMs <= 0)) cause = 'cap';
        else if (leftMs <= 0) cause = 'turn-timeout';
        else if ((await this.#inbox.isStopAsked(id)) && !isOver()) cause = 'stop';
        else if ((await this.#inbox.interrupts(left)) && !isOver()) cause = 'interrupt';
        if (cause !== undefined) {
          this.#isCut = true;
          await this.#cancel(launched, { id, cause }, (how) => {
            isOverdue = how === 'overdue';
          });
        }
      }
      const pauseMs = cause === undefined ? Math.min(graceMs > 0 ? graceMs : lookMs, Math.max(leftMs, 50)) : lookMs;
      if (!isOver()) await this.#wake.after(seen, pauseMs);
    }
    const cap = cause === 'cap' ? launched.money.capped() : undefined;
    return { cause, isOverdue: isOverdue && !isOver(), ...(cap !== undefined && { cap }) };
  }

  async #cancel(
    launched: Launched,
    { id, cause }: { readonly id: string; readonly cause: NonNullable<Cut['cause']> },
    then: (how: string) => void,
  ): Promise<void> {
    // Written before the harness hears of it: whatever ends this process now, the messages do not go in again. Those that a
    // cap stops do, once there is money.
    const stopReason = cause === 'cap' ? null : stopReasonOf({ cause });
    await withRetry(() => stopTurn(this.#ctx.db, this.#session, { id, stopReason }));
    failpoint('session.interrupting');
    void launched.connection.cancel().then((how) => {
      then(how);
      this.#wake.fire();
    });
  }

  /** What the end of a turn means here; `cut`: what it was cancelled for. */
  async #endOf(launched: Launched, outcome: TurnOutcome, cut: Cut): Promise<TurnEnd> {
    const { cap } = cut;
    const reached = (cap ?? launched.money.capped())?.message;
    if (outcome.kind === 'cancelled' && cap !== undefined) {
      return { kind: 'failed', cause: 'spend_cap', retryable: false, reason: cap.message };
    }
    // What was told to end has ended, however it did.
    if (isStopped(cut, outcome)) return { kind: 'done' };
    if (outcome.kind === 'lost') {
      const found = await sandboxEnd(launched);
      if (found === undefined) return { kind: 'lost', reason: this.mask.apply(failureText(outcome.failure)) };
      return lostSandbox(this.#ctx.db, this.#session.sessionId, found);
    }
    if (outcome.kind !== 'failed') return { kind: 'done' };
    const { cause, retryable, message } = outcome;
    const reason = message.length < failureCharsMax ? this.mask.apply(message) : this.mask.applyToCut(message);
    if (cause !== 'spend_cap') return { kind: 'failed', cause, retryable, reason };
    if (reached !== undefined) return { kind: 'failed', cause, retryable, reason: reached };
    // No cap of ours: the provider itself wants money, which no waiting for a day or month brings.
    return { kind: 'failed', cause: 'payment', retryable: false, reason };
  }

  async #settle(turn: EndedTurn, outcome: TurnOutcome): Promise<ConversationEnd | undefined> {
    const { id, end, attempts, cut } = turn;
    const next = afterTurn(end, attempts);
    const isGivenUp = next.next === 'failed' || next.next === 'given-up';
    const messages = next.next === 'idle' ? 'done' : isGivenUp ? 'failed' : 'pending';
    const stopped = isStopped(cut, outcome);
    const ended = await withRetry(() =>
      endTurn(this.#ctx.db, this.#session, {
        id,
        state: end.kind !== 'done' ? end.kind : stopped || outcome.kind === 'cancelled' ? 'cancelled' : 'done',
        stopReason: stopped ? stopReasonOf(cut) : outcome.kind,
        error: end.kind === 'done' ? null : end.reason,
        usage: 'usage' in outcome && outcome.usage !== undefined ? ({ ...outcome.usage } as JsonObject) : {},
        messages,
        reason: next.next === 'given-up' ? next.reason : null,
        // Waiting for money is nobody's failure: it does not wear a message out.
        isUnworn: next.next === 'blocked',
        // What came to them meanwhile has all its own attempts.
        ...(next.next === 'given-up' && { wornAt: attemptsMax }),
        now: this.#ctx.runtime.now(),
      }),
    );
    countTurn(this.#ctx, end.kind === 'failed' ? end.cause : stopped ? stopReasonOf(cut) : outcome.kind);
    if (!ended) return { kind: 'gone' };
    this.transcript.progress.settled();
    this.#isCut = false;
    failpoint('session.turn-settled');
    if (end.kind === 'done') {
      const times = { launchedMs: this.#beganMs, endMs: this.#ctx.runtime.now().getTime() };
      noteTurn(this.#session, { ...turn.spans, ...times, isFirst: !this.#hasEndedTurn });
      this.#hasEndedTurn = true;
    }
    await this.#tell(noticeOf(outcome, cut, this.#turnMs), next.next === 'idle' ? undefined : next.reason);
    // The harness is gone, and with what it was told to end so is its turn.
    if (stopped && outcome.kind === 'lost') return { kind: 'relaunch', reason: 'the harness ended', isBlameless: true };
    if (next.next === 'idle' || next.next === 'given-up') return undefined;
    if (next.next === 'failed') return { kind: 'failed', reason: next.reason };
    if (next.next === 'blocked') return this.#block(next.reason);
    if (next.relaunch) return { kind: 'relaunch', reason: next.reason };
    return this.#pause(next.afterMs);
  }

  async #pause(afterMs: number): Promise<ConversationEnd | undefined> {
    const until = performance.now() + afterMs;
    for (let left = afterMs; left > 0; left = until - performance.now()) {
      const over = this.#over();
      if (over !== undefined) return over;
      await this.#wake.after(this.#wake.mark(), left);
    }
    return undefined;
  }

  async #block(reason: string): Promise<ConversationEnd> {
    const isBlocked = await withRetry(() => blockSession(this.#ctx.db, this.#session, reason));
    return isBlocked ? { kind: 'blocked' } : { kind: 'gone' };
  }

  async #tell(notice: string | undefined, reason: string | undefined): Promise<void> {
    const text = reason ?? notice;
    if (text === undefined) return;
    const severity = reason === undefined ? 'warning' : 'error';
    await this.transcript.note({ role: 'system', kind: 'notice', text, detail: { severity } });
  }
}
