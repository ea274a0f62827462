// Runs sessions (docs/reference/sessions.md#states and #harnesses): claims what waits by lease, launches it, keeps its
// conversation going, and lets go of it when it is ended elsewhere, when the daemon drains, or when the lease is lost. It
// decides neither which session an event reaches (routing) nor what a session may spend (the gateway). Upkeep, beside it, is
// what needs no process of a session: lapsed leases, inactivity, caps that have room again, and successors.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Fault } from '../../domain/fault.ts';
import { type ClaimedSession, leaseSeconds, renewLeases, heldLeases } from '../../adapters/store/sessions/hosts.ts';
import { offeredSessions, type TakenSession, takeOverSessions } from '../../adapters/store/sessions/holds.ts';
import {
  awaitPlaces,
  claimSessions,
  explainWaiting,
  noteHarnesses,
  waitingPlaces,
} from '../../adapters/store/sessions/places.ts';
import { sessionsWithNews } from '../../adapters/store/sessions/turns.ts';
import { placesToAskBack } from '../../core/session/session.ts';
import { failpoint } from '../../base/failpoint.ts';
import { unlessAborted } from '../../base/waits.ts';
import { type Harness, harnessNames } from '../../domain/spec.ts';
import type { HostPorts, ToolListings } from '../host-ports.ts';
import type { FlowContext } from '../context.ts';
import { logTurnFailed } from '../turn-failed.ts';
import { earlierHosts, leavesSandboxes } from './earlier.ts';
import { Reach } from './reach.ts';
import { removeClaim, type Running, Supervisor } from './supervise.ts';
import { reapEnded, reapOwn } from './sandboxes.ts';
import { Signal } from './signal.ts';

export type * from '../host-ports.ts';
export { diagnoseSessions } from './doctor.ts';
export { engineView, listSandboxes, reapSandboxes } from './sandboxes.ts';
export { upkeepTurn } from './upkeep.ts';

const every = { lookMs: 2_000, renewMs: 5_000, programsMs: 5_000, reapMs: 20_000, fenceMs: 1_000 } as const;
/** Looks that others' writes ask for begin at least so far apart, however often they do. */
const toldMs = 25;
/** A host that could not renew for so long lets go before another one may begin. */
const renewedWithinMs = (leaseSeconds - 4) * 1_000;
/** How long a stop takes over what its sessions leave: other parts of the daemon stop behind it, and all of them have 25 s. */
const drainMs = 20_000;
/** Claims of one turn; a host that comes up to a long queue shares it with the others. */
const claimMax = 8;
/** How many waiting sessions, and how many that other daemons have let go of, one look considers. */
const askMax = 64;

export class SessionHost {
  readonly #ctx: FlowContext;
  readonly #ports: HostPorts;
  readonly #supervisor: Supervisor;
  readonly #running = new Map<string, Running>();
  readonly #wake = new Signal();
  readonly #over = new Signal();
  readonly #stop = new AbortController();
  /** Aborted when a daemon that stops has handed all of them back. */
  readonly #left = new AbortController();
  readonly #reach: Reach;
  #loops: Promise<void>[] = [];
  #renewing: Promise<void> = Promise.resolve();
  #unlisten: () => Promise<void> = async () => undefined;
  #programs:
    | { readonly at: number; readonly usable: Harness[]; readonly missing: ReadonlyMap<Harness, string> }
    | undefined;
  /** A notification has come since sessions that no host can take were last told why they wait. */
  #told = false;
  /** When the last look began, and the one that is put off until it was long enough ago. */
  #lookedAt = 0;
  #putOff: NodeJS.Timeout | undefined;
  #stopping: Promise<void> | undefined;
  #fence: NodeJS.Timeout | undefined;
  #reaps = 0;
  /** By session: when its lease was last known to stand, on the monotonic clock. */
  readonly #renewed = new Map<Running, number>();

  constructor(ctx: FlowContext, ports: HostPorts) {
    this.#ctx = ctx;
    this.#ports = ports;
    this.#supervisor = new Supervisor(ctx, ports);
    this.#reach = new Reach(ctx, ports, this.#stop.signal, () => this.#wake.fire());
  }

  /** Resolves when it takes sessions. */
  async start(): Promise<void> {
    this.#unlisten = await this.#ctx.db.listen('svc_hosts', () => {
      this.#told = true;
      this.#tellSoon();
    });
    await this.#takeOver().catch((error: unknown) => logTurnFailed(this.#ctx, 'host.turn_failed', error));
    // A timer of its own: while the database does not answer, the loops stand still.
    this.#fence = setInterval(() => this.#letGoOverdue(), every.fenceMs);
    this.#loops = [
      this.#loop(this.#wake, every.lookMs, () => this.#look()),
      this.#loop(this.#over, every.reapMs, () => this.#reap()),
    ];
    this.#renewing = this.#loop(this.#over, every.renewMs, () => this.#renew(), this.#left.signal);
  }

  /**
   * Leaves running what its next life can go on with, suspends the rest and hands it back: its processes are gone when it
   * resolves. Safe twice.
   */
  stop(): Promise<void> {
    this.#stopping ??= this.#drain();
    return this.#stopping;
  }

  async #drain(): Promise<void> {
    const until = performance.now() + drainMs;
    this.#stop.abort();
    this.#wake.fire();
    this.#over.fire();
    await this.#unlisten();
    clearTimeout(this.#putOff);
    await Promise.all(this.#loops);
    const left = [...this.#running.values()];
    for (const one of left) one.drain(until);
    // Their leases are renewed until then: what they leave may take longer to keep than one lasts.
    await Promise.all(left.map((one) => one.ended));
    this.#left.abort();
    this.#over.fire();
    await this.#renewing;
    clearInterval(this.#fence);
  }

  /** Looks at once where the last look is a while ago, else once it is: many notifications become one look. */
  #tellSoon(): void {
    const leftMs = this.#lookedAt + toldMs - performance.now();
    if (leftMs <= 0) return this.#wake.fire();
    this.#putOff ??= setTimeout(() => {
      this.#putOff = undefined;
      this.#wake.fire();
    }, leftMs);
  }

  /** Whoever cannot reach the database may have lost its leases already: no session runs twice at once. */
  #letGoOverdue(): void {
    const now = performance.now();
    for (const [running, at] of this.#renewed) {
      if (now - at <= renewedWithinMs) continue;
      this.#renewed.delete(running);
      this.#ctx.runtime.log.warn({ sessionId: running.lease.sessionId }, 'session.lease_not_renewed');
      running.lose();
    }
  }

  async #loop(
    bell: Signal,
    pauseMs: number,
    turn: () => Promise<void>,
    signal: AbortSignal = this.#stop.signal,
  ): Promise<void> {
    while (!signal.aborted) {
      const seen = bell.mark();
      await turn().catch((error: unknown) => logTurnFailed(this.#ctx, 'host.turn_failed', error));
      await bell.after(seen, pauseMs);
    }
  }

  /** Lets go of what is not ours any more, wakes what has news, takes what waits. */
  async #look(): Promise<void> {
    const { db } = this.#ctx;
    this.#lookedAt = performance.now();
    const mine = [...this.#running.values()];
    const standing = await heldLeases(
      db.vital,
      mine.map((one) => one.lease),
    );
    for (const one of mine) if (!standing.has(one.lease.sessionId)) one.lose();
    for (const id of await sessionsWithNews(db, [...standing])) this.#running.get(id)?.wake();
    const harnesses = await this.#usable();
    if (harnesses.length === 0) return;
    await this.#takeOffered();
    const room = this.#ports.maxSessions - this.#held().length;
    if (room > 0) await this.#claim(harnesses, Math.min(room, claimMax));
    await this.#askBack(harnesses);
  }

  /** Those that hold a place. */
  #held(): Running[] {
    return [...this.#running.values()].filter((one) => !one.hasLeft());
  }

  #request(harnesses: readonly Harness[], limit: number) {
    const { home, perProject } = this.#ports;
    return { harnesses, home, perProject, limit, now: this.#ctx.runtime.now() };
  }

  /** Asks places back from sessions that rest, as many as others wait for; while nobody waits none is. */
  async #askBack(harnesses: readonly Harness[]): Promise<void> {
    const { maxSessions, perProject, unloadAfterMs } = this.#ports;
    const mine = this.#held();
    const resting = mine.filter((one) => (one.restsForMs() ?? -1) >= unloadAfterMs);
    const isFull = mine.length >= maxSessions;
    if (resting.length === 0 || (!isFull && perProject === undefined)) return;
    const waiting = await waitingPlaces(this.#ctx.db, this.#request(harnesses, askMax));
    const given = placesToAskBack(
      mine.map((one) => ({
        of: one,
        projectId: one.projectId,
        restsForMs: resting.includes(one) ? one.restsForMs() : undefined,
        isLeaving: one.isLeaving(),
      })),
      waiting,
      { max: maxSessions, perProject },
    );
    for (const { of } of given) of.unload();
  }

  async #claim(harnesses: readonly Harness[], limit: number): Promise<void> {
    const { db, daemonId } = this.#ctx;
    const at = performance.now();
    const claimed = await claimSessions(db, { ...this.#request(harnesses, limit), daemonId });
    if (claimed.length > 0) failpoint('session.claimed');
    for (const session of claimed) this.#run(session, at);
    if (claimed.length === limit) this.#wake.fire();
  }

  /** `at`: when its lease was asked for. */
  #run(session: ClaimedSession, at: number, taken?: TakenSession): void {
    // One that was lost here may be taken again before all of it is over, as after the machine has slept.
    const before = this.#running.get(session.sessionId)?.ended;
    const running = this.#supervisor.run(session, { onRoom: () => this.#wake.fire(), taken, before });
    this.#running.set(session.sessionId, running);
    this.#renewed.set(running, at);
    void running.ended.then(() => {
      this.#renewed.delete(running);
      removeClaim(this.#running, running);
      this.#wake.fire();
    });
  }

  /** What earlier lives of this data directory have left running is gone on with, before anybody else takes it for lost. */
  async #takeOver(): Promise<void> {
    const { db, daemonId } = this.#ctx;
    const before = await earlierHosts(this.#ctx, this.#ports);
    const at = performance.now();
    const taken = await takeOverSessions(db, { daemonId, before, home: this.#ports.home });
    if (taken.length > 0) failpoint('session.taken');
    for (const session of taken) this.#run(session, at, session);
  }

  /**
   * What another daemon has let go of in a box that is in reach is gone on with before its lease is over. It takes one of
   * this daemon's places; of its project's it has one already, over the whole installation, until its lease is over.
   */
  async #takeOffered(): Promise<void> {
    const { db, daemonId } = this.#ctx;
    const room = this.#ports.maxSessions - this.#held().length;
    if (room <= 0 || !leavesSandboxes(this.#ctx, this.#ports)) return;
    const offered = (await this.#reach.among(await offeredSessions(db, askMax))).slice(0, room);
    const at = performance.now();
    const taken = await takeOverSessions(db, { daemonId, home: this.#ports.home, offered });
    if (taken.length > 0) failpoint('session.taken');
    for (const session of taken) this.#run(session, at, session);
  }

  /** Harnesses whose program is here; sessions of the others are told why they wait. */
  async #usable(): Promise<readonly Harness[]> {
    const now = performance.now();
    if (this.#programs !== undefined && now - this.#programs.at < every.programsMs) {
      if (this.#told) await explainWaiting(this.#ctx.db, this.#programs.missing);
      this.#told = false;
      return this.#programs.usable;
    }
    const usable: Harness[] = [];
    const missing = new Map<Harness, string>();
    for (const harness of harnessNames) {
      const program = await this.#ports.program(harness);
      if ('missing' in program) missing.set(harness, program.missing);
      else usable.push(harness);
    }
    this.#programs = { at: now, usable, missing };
    await noteHarnesses(this.#ctx.db, this.#ctx.daemonId, usable);
    // Each time: a daemon that lacks one may have said so before it could know.
    await awaitPlaces(this.#ctx.db, usable);
    await explainWaiting(this.#ctx.db, missing);
    return usable;
  }

  /**
   * Ends and removes what is left of sessions that have ended where no host was at them, within thirty seconds of their end,
   * and now and then what is nobody's.
   */
  async #reap(): Promise<void> {
    this.#reaps += 1;
    // An engine may take its time over what nobody waits for: a daemon that stops has sessions to hand back.
    const { signal } = this.#stop;
    const reaping = this.#reaps % 3 === 1 ? reapOwn(this.#ctx) : reapEnded(this.#ctx, new Set(this.#running.keys()));
    await unlessAborted(reaping, signal).catch((error: unknown) => {
      if (!signal.aborted) throw error;
    });
  }

  async #renew(): Promise<void> {
    const mine = [...this.#running.values()];
    const at = performance.now();
    const kept = await renewLeases(
      this.#ctx.db.vital,
      this.#ctx.daemonId,
      mine.map((one) => one.lease),
    );
    for (const one of mine) {
      if (!kept.has(one.lease.sessionId)) one.lose();
      else if (this.#renewed.has(one)) this.#renewed.set(one, at);
    }
  }
}

// Which tool servers a session's harness has listed. A harness that comes up without its tools says nothing of it, so the
// first prompt waits until each has been asked for.

/** For an answer to be read, and until a parting that came to nothing is forgotten. */
const [answerMs, partingMs] = [500, 30_000] as const;

/** In memory: the harness speaks to the tool servers of the daemon that runs it. */
export function createListings(): ToolListings {
  const listed = new Map<string, Set<string>>();
  const reasons = new Map<string, Map<string, Fault>>();
  const waiting = new Map<string, () => void>();
  const leaving = new Set<string>();
  return {
    expect(sessionId) {
      const own = new Set<string>();
      listed.set(sessionId, own);
      reasons.delete(sessionId);
      return () => {
        // What a later launch of the session has heard is that one's.
        if (listed.get(sessionId) !== own) return;
        listed.delete(sessionId);
        reasons.delete(sessionId);
      };
    },
    listed(sessionId, alias) {
      if (listed.get(sessionId)?.add(alias) !== undefined) waiting.get(sessionId)?.();
    },
    refused(sessionId, alias, fault) {
      if (!listed.has(sessionId)) return;
      const known = reasons.get(sessionId) ?? new Map<string, Fault>();
      reasons.set(sessionId, known.set(alias, fault));
      waiting.get(sessionId)?.();
    },
    async wait(sessionId, aliases, { timeoutMs, signal }) {
      const missing = (): string[] => aliases.filter((alias) => listed.get(sessionId)?.has(alias) !== true);
      const reason = (alias: string): Fault | undefined => reasons.get(sessionId)?.get(alias);
      // What no retry mends need not be waited for.
      const hopeless = (): Fault | undefined =>
        missing()
          .map(reason)
          .find((fault) => fault?.kind === 'unprocessable');
      if (missing().length > 0 && hopeless() === undefined) {
        const waited = Promise.withResolvers<void>();
        const timer = setTimeout(waited.resolve, timeoutMs);
        waiting.set(sessionId, () => {
          if (missing().length === 0 || hopeless() !== undefined) waited.resolve();
        });
        await unlessAborted(waited.promise, signal).finally(() => {
          clearTimeout(timer);
          waiting.delete(sessionId);
        });
      }
      const fault = hopeless();
      if (fault !== undefined) throw fault;
      return missing().map((alias) => [alias, reason(alias)?.message].filter((part) => part !== undefined).join(': '));
    },
    parting(sessionId) {
      leaving.add(sessionId);
      // Of one that does not end after all, or that another daemon runs.
      setTimeout(() => leaving.delete(sessionId), partingMs).unref();
    },
    async parted(sessionId) {
      if (leaving.delete(sessionId)) await sleep(answerMs);
    },
  };
}
