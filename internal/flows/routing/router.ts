// Routes the projects that it is woken for, a batch of each at a time: many quiet ones in one transaction, any other in one
// of its own. Whoever has more goes to the back of the queue, and one place is kept for projects without a backlog. A project
// that another daemon has is passed by and looked at again. A batch that cannot be written is halved until the event that is
// to blame stands alone: that one is failed with its reason. What is nobody's fault is tried again.

import { errorCode } from '../../adapters/store/store.ts';
import { settleEvents } from '../../adapters/store/events/event-routes.ts';
import { clearSuspects } from '../../adapters/store/operations/in-hand.ts';
import { inProject, inTurn } from '../../adapters/store/routing/project-lock.ts';
import { beginRouting, routingOpening, startedRouting } from '../../adapters/store/routing/routing.ts';
import { failpoint } from '../../base/failpoint.ts';
import type { FlowContext } from '../context.ts';
import { aloneUnlessOver, endedTheProcess, gateOf, parkedAtEnds, takeAhead, takeInHandWithin } from '../in-hand.ts';
import { type BatchOptions, type BatchResult, type Routed, routeBatch } from './batch.ts';
import { isPassing, reasonOf, tooSlow } from './failing.ts';
import { countRouted, tellRouted } from './routed.ts';
import { type QuietOptions, type QuietResult, routeQuiet } from './quiet.ts';
import { orderedIds } from '../../base/ids.ts';
import { yieldToEventLoop } from '../../base/concurrency.ts';
import { TriggerCache } from './triggers.ts';
import { Wakes } from './wakes.ts';

const limits = {
  /** Events in one transaction: a small one is soon over, a large one costs less an event, which counts where much waits. */
  batch: 256,
  backlog: 512,
  /** So many full batches, one after the other, are a backlog. */
  fullBatches: 8,
  /** Where several projects have backlogs, each has to be soon over. */
  crowded: 128,
  /** Projects at a time: each takes a connection. */
  projects: 4,
  /** Of them, those that have had a batch already and have more: the rest is for projects without a backlog. */
  backlogs: 3,
  /** From so many projects with little work each on, they are routed in one transaction: at most so many in one. */
  quietFrom: 8,
  quietMost: 192,
  /** Tries of a batch before the project is left to the next wake-up. */
  attempts: 6,
  pauseMs: 50,
  /** Times that an event alone must fail before it is its own fault; more where it took too long, which may be another's. */
  strikes: 2,
  slowStrikes: 4,
  /** So many events, just recorded, are noted as in hand while it is asked whether they are all that waits. */
  ahead: 8,
  /** How long it is waited for the project's turn in this daemon, and when it is looked at again where others have it. */
  turnMs: 100,
  againMs: { first: 5, most: 250 },
} as const;

/** Time limits of a statement, in milliseconds: of a batch, which is halved, and of one event, which cannot be. */
export interface RouterOptions {
  readonly batchMs?: number;
  readonly aloneMs?: number;
}

/** What the router knows of a project that it has work for. */
interface Work {
  /** Events of its next batch. */
  limit: number;
  /** Full batches, one after the other. */
  full: number;
  /** Batches since it was last without work. */
  batches: number;
  attempts: number;
  strikes: number;
  /** Times in a row that others had it. */
  passed: number;
  /** Whether it needs a transaction of its own. */
  apart: boolean;
}
const fresh = (): Work => ({
  ...{ limit: limits.batch, full: 0, batches: 0, attempts: 0, strikes: 0, passed: 0 },
  apart: false,
});

type BatchShape = Pick<BatchOptions, 'limit' | 'seen' | 'alone'> & {
  /** Events that most likely are the batch. */
  readonly expected?: readonly string[];
};

/** What becomes of a project after its turn: nothing, the back of the queue, or another look in a while. */
type After = 'done' | 'more' | { readonly againMs: number };

export class Router {
  readonly #ctx: FlowContext;
  readonly #options: Required<RouterOptions>;
  readonly #cache = new TriggerCache();
  readonly #nextId: () => string;
  /** Those that wait for their turn, in its order. */
  readonly #queue = new Set<string>();
  readonly #running = new Map<string, Promise<void>>();
  /** What runs at a time: a project by itself, or several that are quiet. */
  #strands = 0;
  readonly #quietLanes = Array.from({ length: limits.projects }, (_, n) => `route-quiet:${n}`);
  /** What was just recorded in those that had nothing to do. */
  readonly #expected = new Map<string, readonly string[]>();
  /** Woken while they run. */
  readonly #again = new Wakes();
  /** To be looked at in a while. */
  readonly #later = new Map<string, NodeJS.Timeout>();
  readonly #work = new Map<string, Work>();
  readonly #stop = new AbortController();

  constructor(ctx: FlowContext, { batchMs = 5_000, aloneMs = 25_000 }: RouterOptions = {}) {
    this.#ctx = ctx;
    this.#options = { batchMs, aloneMs };
    this.#nextId = orderedIds(ctx.runtime);
  }

  /** Has a project looked at from now on; every event committed before the call is seen. `ids`: those just recorded. */
  wake(projectId: string, ids: readonly string[] = []): void {
    if (this.#stop.signal.aborted) return;
    if (this.#running.has(projectId)) this.#again.add(projectId, ids);
    else if (!this.#later.has(projectId)) {
      this.#enqueue(projectId, ids);
      this.#fill();
    }
  }

  #enqueue(projectId: string, ids: readonly string[]): void {
    if (this.#queue.has(projectId) || ids.length > limits.ahead) this.#expected.delete(projectId);
    else this.#expected.set(projectId, ids);
    this.#queue.add(projectId);
  }

  /**
   * Events are being recorded: where nothing else is to be done, they are asked for at once, and the database has whoever
   * asks wait for those who record. Where it was asked too soon nothing is found, and the wake-up behind the commit finds them.
   */
  expect(projectId: string, ids: readonly string[]): void {
    if (this.#stop.signal.aborted || this.#strands > 0 || this.#later.has(projectId) || ids.length > limits.ahead)
      return;
    this.#enqueue(projectId, ids);
    this.#fill();
  }

  /** Takes no more wake-ups; resolves when what is under way is committed. Safe twice. */
  async stop(): Promise<void> {
    this.#stop.abort();
    this.#queue.clear();
    this.#expected.clear();
    for (const timer of this.#later.values()) clearTimeout(timer);
    this.#later.clear();
    await Promise.all(this.#running.values());
  }

  /** Starts as many of those who wait as may run. */
  #fill(): void {
    while (this.#strands < limits.projects) {
      const quiet = this.#quiet();
      if (quiet.length >= limits.quietFrom) this.#start(quiet, this.#runQuiet(quiet));
      else {
        const projectId = this.#next();
        if (projectId === undefined) return;
        this.#start([projectId], this.#run(projectId));
      }
    }
  }

  #start(projectIds: readonly string[], running: Promise<void>): void {
    this.#strands += 1;
    for (const projectId of projectIds) {
      this.#queue.delete(projectId);
      this.#running.set(projectId, running);
    }
  }

  /** The first that may run by itself. */
  #next(): string | undefined {
    const isFull = this.#backlogs() >= limits.backlogs;
    for (const projectId of this.#queue) if (!isFull || !this.#isBacklog(projectId)) return projectId;
    return undefined;
  }

  /** The first of those in which little waits, as far as is known, and nothing has gone wrong. */
  #quiet(): readonly string[] {
    const quiet: string[] = [];
    for (const projectId of this.#queue) {
      const work = this.#work.get(projectId);
      if (work === undefined || (work.batches + work.attempts + work.strikes === 0 && !work.apart))
        quiet.push(projectId);
      if (quiet.length >= limits.quietMost) break;
    }
    return quiet;
  }

  #isBacklog(projectId: string): boolean {
    return (this.#work.get(projectId)?.batches ?? 0) > 0;
  }

  #backlogs(): number {
    let count = 0;
    for (const projectId of this.#running.keys()) if (this.#isBacklog(projectId)) count += 1;
    return count;
  }

  async #run(projectId: string): Promise<void> {
    const work = this.#work.get(projectId) ?? fresh();
    this.#work.set(projectId, work);
    this.#again.take(projectId);
    const expected = this.#expected.get(projectId);
    this.#expected.delete(projectId);
    let after: After = 'done';
    try {
      after = await this.#turn(projectId, work, expected);
    } catch (error) {
      // The sweep wakes it again.
      this.#ctx.runtime.log.warn({ err: error, projectId }, 'event.routing_put_off');
    }
    await this.#end([projectId], () => after);
  }

  /** Several projects in one transaction; who is not served by that gets one of its own. */
  async #runQuiet(projectIds: readonly string[]): Promise<void> {
    const { db, runtime } = this.#ctx;
    for (const id of projectIds) {
      this.#again.take(id);
      this.#expected.delete(id);
    }
    const lane = this.#quietLanes.pop() ?? '';
    const leave = await gateOf(this.#ctx).enter();
    let results: ReadonlyMap<string, QuietResult> = new Map();
    try {
      const take: QuietOptions['take'] = (ids) => takeInHandWithin(this.#ctx, { kind: 'event', lane, ids });
      const options = { projectIds, cache: this.#cache, nextId: this.#nextId, now: runtime.now(), take };
      results = await db.tx((sql) => routeQuiet(this.#ctx, sql, { ...options, last: sql.last }), {
        statementMs: this.#options.batchMs,
      });
      failpoint('route.committed');
    } catch (error) {
      runtime.log.warn({ err: error, projects: projectIds.length }, 'event.quiet_routing_put_off');
    } finally {
      leave();
      this.#quietLanes.push(lane);
    }
    for (const [projectId, { routed }] of results) this.#tell(projectId, routed);
    await this.#end(projectIds, (projectId) => {
      const result = results.get(projectId);
      if (result?.more === false) return 'done';
      this.#work.set(projectId, { ...fresh(), apart: true });
      return 'more';
    });
  }

  /** Gives the strand back, and has each project looked at again where it wants that. */
  async #end(projectIds: readonly string[], afterOf: (projectId: string) => After): Promise<void> {
    // After a turn of the loop, so that whoever waits for this process is not kept waiting by a backlog.
    await yieldToEventLoop();
    this.#strands -= 1;
    for (const projectId of projectIds) {
      this.#running.delete(projectId);
      const woken = this.#again.take(projectId);
      if (this.#stop.signal.aborted) continue;
      const after = afterOf(projectId);
      if (typeof after === 'object') this.#lookAgain(projectId, after.againMs);
      else if (after === 'more' || woken !== undefined) this.#enqueue(projectId, woken ?? []);
      if (after === 'done') this.#work.delete(projectId);
    }
    if (!this.#stop.signal.aborted) this.#fill();
  }

  #lookAgain(projectId: string, ms: number): void {
    const timer = setTimeout(() => {
      this.#later.delete(projectId);
      this.wake(projectId);
    }, ms);
    this.#later.set(projectId, timer);
  }

  /** One batch. Throws what is left to the next wake-up. */
  async #turn(projectId: string, work: Work, expected: readonly string[] = []): Promise<After> {
    let seen: readonly string[] = [];
    try {
      const limit = this.#limitOf(work);
      const turn = { limit, seen: (ids: readonly string[]) => (seen = ids), alone: false, expected };
      const result = await this.#beside(projectId, turn);
      if (result === undefined) {
        work.passed += 1;
        return { againMs: Math.min(limits.againMs.first * 2 ** work.passed, limits.againMs.most) };
      }
      if (result.suspect !== undefined) {
        const { at, id, ends } = result.suspect;
        seen = [id];
        // Those before it first, then itself.
        if (at > 0) work.limit = at;
        else if (ends >= parkedAtEnds) await this.#park(projectId, id);
        else await this.#routeAlone(projectId, id);
        return 'more';
      }
      this.#tell(projectId, result.routed);
      work.full = result.routed.length >= limit ? work.full + 1 : 0;
      work.batches += 1;
      work.limit = Math.min(limit * 2, work.full < limits.fullBatches ? limits.batch : limits.backlog);
      work.attempts = work.strikes = work.passed = 0;
      return result.more ? 'more' : 'done';
    } catch (error) {
      return this.#failed(projectId, work, seen, error);
    }
  }

  /** Where others have backlogs too, a batch is soon over. */
  #limitOf({ limit }: Work): number {
    return this.#backlogs() + this.#queue.size > 1 ? Math.min(limit, limits.crowded) : limit;
  }

  async #failed(projectId: string, work: Work, seen: readonly string[], error: unknown): Promise<After> {
    const [culprit] = seen;
    const isSlow = errorCode(error) === tooSlow;
    if (culprit === undefined || (isPassing(error) && !isSlow)) {
      work.attempts += 1;
      if (work.attempts >= limits.attempts) {
        this.#work.delete(projectId);
        throw error;
      }
      return { againMs: limits.pauseMs * work.attempts };
    }
    if (seen.length > 1) {
      work.limit = Math.ceil(seen.length / 2);
      return 'more';
    }
    work.strikes += 1;
    if (work.strikes < (isSlow ? limits.slowStrikes : limits.strikes))
      return { againMs: limits.pauseMs * work.strikes };
    await this.#fail(projectId, culprit, error);
    work.strikes = 0;
    return 'more';
  }

  /** A batch beside the other work of this daemon; undefined: another one has the project. */
  async #beside(projectId: string, how: BatchShape): Promise<BatchResult | undefined> {
    const leave = await gateOf(this.#ctx).enter();
    try {
      return await inTurn(this.#ctx.db, projectId, limits.turnMs, () => this.#route(projectId, how));
    } finally {
      leave();
    }
  }

  async #route(projectId: string, how: BatchShape): Promise<BatchResult | undefined> {
    const { db, runtime } = this.#ctx;
    const expected = { kind: 'event', lane: `route:${projectId}`, ids: how.expected ?? [], alone: how.alone } as const;
    const { ahead, take, letGo } = takeAhead(this.#ctx, expected);
    const batch = { cache: this.#cache, nextId: this.#nextId, now: runtime.now(), ...how };
    const statementMs = how.limit === 1 ? this.#options.aloneMs : this.#options.batchMs;
    const result = await db.tx(
      (sql, opened) => {
        const told = { last: sql.last, take: (ids: readonly string[]) => take(ids, opened.ahead) };
        return routeBatch(this.#ctx, startedRouting(sql, projectId, opened.opening), { ...batch, ...told });
      },
      { statementMs, opening: routingOpening(projectId, how.limit), ahead },
    );
    failpoint('route.committed');
    if (result === undefined) await letGo();
    return result;
  }

  /** Routes the first event with nothing beside it: it was in hand when the process ended, more than once. */
  async #routeAlone(projectId: string, eventId: string): Promise<void> {
    const { db, runtime } = this.#ctx;
    runtime.log.warn({ projectId, eventId }, 'event.tried_alone');
    // What waits for its turn, and for others to end, keeps no other project from being routed.
    this.#strands -= 1;
    this.#fill();
    const routing = aloneUnlessOver(this.#ctx, this.#stop.signal, async () => {
      const how = { limit: 1, seen: () => undefined, alone: true };
      const result = await inTurn(db, projectId, limits.turnMs, () => this.#route(projectId, how));
      if (result === undefined) return;
      this.#tell(projectId, result.routed);
      await clearSuspects(db, 'event', [eventId]);
    });
    await routing.finally(() => (this.#strands += 1));
  }

  async #park(projectId: string, eventId: string): Promise<void> {
    await this.#fail(projectId, eventId, new Error(endedTheProcess));
    await clearSuspects(this.#ctx.db, 'event', [eventId]);
  }

  async #fail(projectId: string, eventId: string, error: unknown): Promise<void> {
    const { db, runtime } = this.#ctx;
    const reason = reasonOf(error);
    await inProject(db, projectId, async (tx) => {
      const begun = await beginRouting(tx, projectId, 1);
      if (begun?.waiting[0]?.id !== eventId) return;
      await settleEvents(tx, [{ eventId, status: 'failed', severity: null, attributions: null, reason }]);
    });
    runtime.log.error({ err: error, projectId, eventId }, 'event.routing_failed');
    countRouted(this.#ctx, 'failed', 1);
  }

  #tell(projectId: string, routed: readonly Routed[]): void {
    if (routed.length === 0) return;
    this.#again.routed(
      projectId,
      routed.map(({ eventId }) => eventId),
    );
    tellRouted(this.#ctx, projectId, routed);
  }
}
