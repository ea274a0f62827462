// One claimed session in this process, from its launch to whatever ends it here; afterwards nothing of it runs any more.

import {
  blockSession,
  type ClaimedSession,
  type Lease,
  renewLeases,
  heldLeases,
  leaveBlocked,
  suspendLeases,
  type Wait,
  waitAgain,
} from '../../adapters/store/sessions/hosts.ts';
import { offerHold, type TakenSession } from '../../adapters/store/sessions/holds.ts';
import { failpoint } from '../../base/failpoint.ts';
import { unloadSession } from '../../adapters/store/sessions/places.ts';
import { EngineError, isWaitingCode } from '../../adapters/engine/engine.ts';
import { HarnessFailure, SharedReading } from '../../adapters/harness/harness.ts';
import { isConnectionLoss } from '../../adapters/store/store.ts';
import { inProject } from '../../adapters/store/routing/project-lock.ts';
import type { RoutingTx } from '../../adapters/store/routing/routing-lock.ts';
import { liveSessions } from '../../adapters/store/sessions/turns.ts';
import { relaunchAfterMs } from '../../core/session/session.ts';
import { Fault } from '../../domain/fault.ts';
import { isOfMasterKey } from '../../domain/outside.ts';
import { lackText } from '../../base/machine-lack.ts';
import { Semaphore } from '../../base/semaphore.ts';
import type { FlowContext } from '../context.ts';
import { endSession } from '../sessions/sessions.ts';
import type { HostPorts } from '../host-ports.ts';
import { Conversation, type ConversationEnd } from './conversation.ts';
import { Capped } from './channels.ts';
import { withRetry } from '../with-retry.ts';
import { Parked, withLaunchInHand } from './in-hand.ts';
import { failureText, launch, ProgramMissing } from './launch.ts';
import { awaitEnd, DaemonStops, givenUpMs, type Launched, type LaunchRequest } from './launching.ts';
import { noteOf } from './spans.ts';
import { TakeOverRefused, resumeLaunch, type ResumedLaunch } from './resume-launch.ts';

/** A program that is not there is looked for again after this. */
const missingMs = 10_000;
/** A cap is looked at by upkeep; should no daemon do that, a launch looks again after this. */
const cappedMs = 3_600_000;
/** Longest pause before an engine is asked again. */
const engineMaxMs = 60_000;
/** Nobody waits for the end of a session that failed: it may wait for its project for longer than a call. */
const projectWaitMs = 25_000;
const launchBuckets = [0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256];

export interface Running {
  readonly lease: Lease;
  wake(): void;
  /** The lease is gone. */
  lose(): void;
  /** The daemon stops: all of it has to be over by `until`, a time of `performance.now()`. */
  drain(until: number): void;
  readonly projectId: string;
  /** How long it has been between two turns with nothing to hear and no program of a person beside it; undefined: it is not. */
  restsForMs(): number | undefined;
  /** Gives its place up where it still rests. */
  unload(): void;
  /** Whether it is giving its place up. */
  isLeaving(): boolean;
  /** Whether it has: its harness is being ended, and another may start meanwhile. */
  hasLeft(): boolean;
  /** Settles when nothing of it runs here any more; never rejects. */
  readonly ended: Promise<void>;
}

/** What a session is in this process. */
interface Hold {
  readonly conversation: Conversation;
  /** Aborted where its launch is to end early. */
  readonly launching: AbortSignal;
  readonly stop: AbortSignal;
  launched?: Launched;
  /** What an earlier life of this daemon has left of it. */
  readonly taken: TakenSession | undefined;
  /** Settles when nothing runs here any more of what this daemon had of it before. */
  readonly before: Promise<void> | undefined;
  /** Hears when its place is free. */
  readonly onRoom: () => void;
  hasLeft?: boolean;
  /** Set once it is being left: resolves when its harness has had the time to read its last answer. */
  parted?: Promise<void>;
}

/** Forgets a session that has ended, unless it has been claimed anew meanwhile. */
export function removeClaim(running: Map<string, Running>, which: Running): void {
  if (running.get(which.lease.sessionId) === which) running.delete(which.lease.sessionId);
}

export class Supervisor {
  readonly #ctx: FlowContext;
  readonly #ports: HostPorts;
  readonly #gate: Semaphore;
  readonly #reading = new SharedReading();

  constructor(ctx: FlowContext, ports: HostPorts) {
    this.#ctx = ctx;
    this.#ports = ports;
    this.#gate = new Semaphore(ports.startsAtOnce);
  }

  /** `onRoom`: its place is free, before all of it is over. */
  run(session: ClaimedSession, { onRoom, taken, before }: Pick<Hold, 'onRoom' | 'taken' | 'before'>): Running {
    const stop = new AbortController();
    const launching = new AbortController();
    const conversation = new Conversation(this.#ctx, session, stop.signal, launching.signal, this.#ports.turnMs);
    const hold: Hold = {
      conversation,
      launching: launching.signal,
      stop: stop.signal,
      ...{ onRoom, taken, before },
    };
    const ended = this.#live(session, hold);
    return {
      lease: session,
      projectId: session.projectId,
      restsForMs: () => {
        const ms = conversation.restsForMs();
        const beside = this.#ports.places.get(session.sessionId)?.restsForMs() ?? Infinity;
        return ms === undefined || beside === 0 ? undefined : Math.min(ms, beside);
      },
      unload: () => conversation.unload(),
      isLeaving: () => conversation.isLeaving(),
      hasLeft: () => hold.hasLeft === true,
      wake: () => conversation.wake(),
      lose: () => {
        conversation.lose();
        launching.abort(new Error('the lease is gone'));
        // Its conversation may be waiting for a database that does not answer: what runs does not wait for that.
        void this.#leave(session, hold);
      },
      drain: (until) => {
        stop.abort();
        launching.abort(new DaemonStops(until));
      },
      ended,
    };
  }

  /** Ends what runs: at once, but for the answer to the call with which a session has ended itself. */
  async #leave({ sessionId }: ClaimedSession, hold: Hold): Promise<void> {
    await (hold.parted ??= this.#ports.listings.parted(sessionId));
    await hold.launched?.down();
  }

  async #live(session: ClaimedSession, hold: Hold): Promise<void> {
    const { log } = this.#ctx.runtime;
    const { conversation } = hold;
    const fields = { sessionId: session.sessionId, agent: session.agent, epoch: session.epoch };
    try {
      // Its sandbox, its ways out and its place are the session's: what ends there would end them under the next launch.
      await hold.before;
      let end: ConversationEnd;
      if (hold.taken !== undefined) {
        const up = await this.#takeUp(hold.taken, hold);
        if (up === undefined) return;
        end = await conversation.run(up, up.turn);
      } else
        try {
          const bring = async (): Promise<Launched> => {
            const up = await this.#launch(session, conversation, hold.launching);
            hold.launched = up;
            return up;
          };
          const launched = await withLaunchInHand(this.#ctx, session, bring, hold.launching);
          log.info({ ...fields, sandbox: launched.sandbox.provider }, 'session.launched');
          if (session.harnessSession !== null) {
            const rest = launched.isAmnesic ? ', in a new place: the harness has lost its own memory of it' : '';
            await conversation.transcript.note({ role: 'system', kind: 'notice', text: `The session goes on${rest}.` });
          }
          end = await conversation.run(launched);
        } catch (error) {
          end = await withRetry(() => this.#failed(session, hold, error));
        }
      if (end.kind === 'unloaded') {
        hold.hasLeft = true;
        hold.onRoom();
      }
      if (end.kind === 'drained' && (await this.#isLeft(session, hold))) return;
      // From then on any daemon may go on with it.
      if (end.kind !== 'gone' && end.kind !== 'failed') hold.launched?.keepWork();
      await this.#leave(session, hold);
      log.info({ ...fields, end: end.kind, reason: 'reason' in end ? end.reason : undefined }, 'session.left');
      failpoint('session.down');
      await this.#after(session, end, conversation.failures);
      await this.#cleanUp(session, hold);
    } catch (error) {
      // The lease lapses, and another launch finds the session as it is.
      log.warn({ ...fields, err: error }, 'session.lost');
      await hold.launched?.down();
    }
  }

  /** Goes on with what was left; undefined where it cannot, and the session is suspended. */
  async #takeUp(taken: TakenSession, hold: Hold): Promise<ResumedLaunch | undefined> {
    const { conversation } = hold;
    const { log } = this.#ctx.runtime;
    const { sessionId, agent, epoch } = taken;
    const began = performance.now();
    try {
      const up = await resumeLaunch(this.#ctx, this.#ports, this.#request(taken, conversation, hold.launching), taken);
      hold.launched = up;
      failpoint('session.taken-up');
      const ms = Math.round(performance.now() - began);
      log.info({ sessionId, agent, epoch, turn: up.turn?.id, ms }, 'session.taken_up');
      return up;
    } catch (error) {
      const why = error instanceof TakeOverRefused ? { reason: error.message } : { err: error };
      log.warn({ sessionId, agent, epoch, ...why }, 'session.not_taken_up');
      await withRetry(() => suspendLeases(this.#ctx.db, [taken], 'its host was lost'));
      return undefined;
    }
  }

  /** Of a daemon that stops: whether its next life can go on with the session, which is left running for that. */
  async #isLeft(session: ClaimedSession, hold: Hold): Promise<boolean> {
    const { db, daemonId, runtime } = this.#ctx;
    const { launched, conversation } = hold;
    if (launched?.leave === undefined || !conversation.isWhole) return false;
    try {
      if (!(await launched.leave())) return false;
      await launched.down();
      // Who comes back has as long as a daemon that was killed, where no other one reaches the box.
      await renewLeases(db, daemonId, [session]);
      await offerHold(db, session);
      runtime.log.info({ sessionId: session.sessionId, epoch: session.epoch }, 'session.left_running');
      return true;
    } catch (error) {
      runtime.log.warn({ sessionId: session.sessionId, err: error }, 'session.not_left_running');
      return false;
    }
  }

  #request(session: ClaimedSession, conversation: Conversation, signal: AbortSignal): LaunchRequest {
    const { transcript, mask } = conversation;
    const onPermission = conversation.permissions.decide;
    const listener = { onUpdate: conversation.onUpdate, onPermission, follower: transcript };
    const onCapped = (): void => conversation.wake();
    const { progress } = transcript;
    const share = this.#reading.of(session.projectId);
    return { session, listener, transcript, progress, mask, onCapped, gate: this.#gate, share, signal };
  }

  async #launch(session: ClaimedSession, conversation: Conversation, signal: AbortSignal): Promise<Launched> {
    const { metrics } = this.#ctx;
    const help = 'From the claim of a session to its harness being ready, by how it ended.';
    const seconds = metrics.histogram('svc_session_launch_seconds', help, ['outcome'], launchBuckets);
    const done = seconds.startTimer();
    const startMs = this.#ctx.runtime.now().getTime();
    try {
      const launched = await launch(this.#ctx, this.#ports, this.#request(session, conversation, signal));
      done({ outcome: session.harnessSession === null ? 'started' : launched.isAmnesic ? 'anew' : 'resumed' });
      noteOf('launch', session, { startMs, endMs: this.#ctx.runtime.now().getTime() });
      return launched;
    } catch (error) {
      const outcome = error instanceof Capped ? 'capped' : error instanceof ProgramMissing ? 'missing' : 'failed';
      done({ outcome });
      noteOf('launch', session, { startMs, endMs: this.#ctx.runtime.now().getTime(), failure: outcome });
      throw error;
    }
  }

  /** What a launch or a conversation that threw comes to. */
  async #failed(session: ClaimedSession, hold: Hold, error: unknown): Promise<ConversationEnd> {
    const { log } = this.#ctx.runtime;
    const { mask } = hold.conversation;
    if (hold.stop.aborted) return { kind: 'drained' };
    // It was let go of, and what it had opened was closed under it, its secrets overwritten: that is no word on the session.
    if (hold.launching.aborted) return { kind: 'gone' };
    const standing = await heldLeases(this.#ctx.db, [session]);
    if (!standing.has(session.sessionId)) return { kind: 'gone' };
    if (error instanceof ProgramMissing) return this.#awaitHere(session, error.message, error.waitsFor);
    if (error instanceof Fault && isOfMasterKey(error.code)) return this.#awaitHere(session, error.message, 'key');
    if (error instanceof EngineError) return this.#engineFailed(session, error);
    if (error instanceof Capped) return this.#awaitRoom(session, error.message);
    if (error instanceof Parked) return { kind: 'failed', reason: error.message };
    const { dataDir } = this.#ctx.config;
    const whole = mask.apply(failureText(error));
    log.warn({ sessionId: session.sessionId, reason: whole }, 'session.launch_failed');
    // Whoever reads the session learns nothing of where the daemon's files lie.
    const reason = whole.replaceAll(dataDir, '<data-dir>');
    const lack = lackText(error, dataDir);
    if (lack !== undefined) return this.#awaitHere(session, lack, 'engine');
    if (error instanceof Fault && error.kind !== 'unavailable' && error.kind !== 'internal') {
      return { kind: 'failed', reason };
    }
    const waitsFor = error instanceof HarnessFailure ? 'harness' : 'engine';
    // What the system says of a file or a pipe has words of a lost database, which is told of as a Fault.
    return { kind: 'relaunch', reason, isBlameless: error instanceof Fault && isConnectionLoss(error), waitsFor };
  }

  /** What this daemon lacks, somebody gives it, or another daemon has: it says nothing of the session. */
  async #awaitHere(session: ClaimedSession, reason: string, waitsFor: Wait['waitsFor']): Promise<ConversationEnd> {
    const retryAt = new Date(this.#ctx.runtime.now().getTime() + missingMs);
    await waitAgain(this.#ctx.db, session, { reason, waitsFor, retryAt, failures: session.failures });
    return { kind: 'gone' };
  }

  /** An engine that may be there again is waited for, however long that is; what trying again does not change ends it. */
  async #engineFailed(session: ClaimedSession, error: EngineError): Promise<ConversationEnd> {
    const reason = `${error.code}: ${error.message}`;
    this.#ctx.runtime.log.warn({ sessionId: session.sessionId, reason }, 'session.launch_failed');
    const { code } = error;
    if (!isWaitingCode(code)) return { kind: 'failed', reason };
    const failures = session.failures + 1;
    const afterMs = Math.min(engineMaxMs, 1_000 * 2 ** Math.min(failures, 6));
    const retryAt = new Date(this.#ctx.runtime.now().getTime() + afterMs);
    await waitAgain(this.#ctx.db, session, {
      reason,
      waitsFor: 'engine',
      engineReason: code,
      retryAt,
      // It has not failed by itself: only the pause grows.
      failures: Math.min(failures, 6),
    });
    return { kind: 'gone' };
  }

  /** One that has not begun stays in the queue and says what it waits for; one that has is blocked. Upkeep ends both waits. */
  async #awaitRoom(session: ClaimedSession, reason: string): Promise<ConversationEnd> {
    if (session.harnessSession !== null) {
      await blockSession(this.#ctx.db, session, reason);
      return { kind: 'blocked' };
    }
    const retryAt = new Date(this.#ctx.runtime.now().getTime() + cappedMs);
    await waitAgain(this.#ctx.db, session, { reason, waitsFor: 'cap', retryAt, failures: session.failures });
    return { kind: 'gone' };
  }

  async #after(session: ClaimedSession, end: ConversationEnd, failuresBefore: number): Promise<void> {
    const { db } = this.#ctx;
    // A daemon that stops waits for no database: the lease lapses by itself.
    if (end.kind === 'drained') await suspendLeases(db, [session], 'its daemon was stopped', true);
    if (end.kind === 'unloaded') await withRetry(() => unloadSession(db, session));
    if (end.kind === 'blocked') await withRetry(() => leaveBlocked(db, session));
    if (end.kind === 'failed') await withRetry(() => this.#fail(session, end.reason));
    if (end.kind === 'relaunch') await withRetry(() => this.#relaunch(session, end, failuresBefore));
  }

  async #relaunch(
    session: ClaimedSession,
    { reason, isBlameless, waitsFor = 'harness' }: ConversationEnd & { readonly kind: 'relaunch' },
    failuresBefore: number,
  ): Promise<void> {
    const { db, runtime } = this.#ctx;
    const failures = failuresBefore + (isBlameless === true ? 0 : 1);
    // What stands as written means that the database is back.
    const afterMs = isBlameless === true ? 0 : relaunchAfterMs(failures);
    if (afterMs === null) return this.#fail(session, `given up after ${failures} launches: ${reason}`);
    const retryAt = new Date(runtime.now().getTime() + afterMs);
    // What was in flight waits again, and the turn counts as lost. In one commit: a session that is let go of is anybody's at
    // once, and without its pause and count it would be launched again and again.
    await db.tx(async (tx) => {
      await suspendLeases(tx, [session], reason);
      await waitAgain(tx, { ...session, epoch: session.epoch + 1 }, { reason, waitsFor, retryAt, failures });
    });
  }

  async #fail(session: ClaimedSession, reason: string): Promise<void> {
    const fail = async (locked: RoutingTx): Promise<void> => {
      const standing = await heldLeases(locked, [session]);
      if (standing.has(session.sessionId)) await endSession(this.#ctx, locked, session.sessionId, 'failed', reason);
    };
    await inProject(this.#ctx.db, session.projectId, fail, { waitMs: projectWaitMs });
  }

  /** Files of a session that has ended are of no use to anybody. */
  async #cleanUp(session: ClaimedSession, { launched, stop }: Hold): Promise<void> {
    const live = await liveSessions(this.#ctx.db, [session.sessionId]);
    if (launched === undefined || live.has(session.sessionId)) return;
    await awaitEnd(launched.sandbox.destroy(), stop, givenUpMs.destroy);
  }
}
