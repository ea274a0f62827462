// The syncs of this daemon that are under way: each repository once, hundreds at a time, since most of what they do is
// wait for a server. What is newer ends what is older, as long as that has not begun to change anything; what may not be
// ended is followed. Which repositories these are, the claims of polling.ts say.

import type { Logger } from 'pino';
import { RepoCondition } from '../../adapters/repo/repo.ts';
import { type DueRepository, giveBack, pollIn } from '../../adapters/store/repositories/polls.ts';
import { type FlowContext, portsOf } from '../context.ts';
import { HostHealth } from './host-health.ts';
import { Overtaken, runSync, type SyncOutcome } from './run.ts';
import { type SyncTask, takeInHand } from './take-in-hand.ts';

/** At a time; what waits for its server's budget counts. */
const syncsMax = 2_048;
/** Repositories of one server that wait here; more are left to other daemons, or for later. */
const perHostMax = 64;
/** Until a run that stands in the way is looked at again. */
const againMs = 1_000;

interface InHand {
  readonly host: string | null;
  readonly ending: AbortController;
  /** When the first of those began that ended each other; ms of the monotonic clock. */
  readonly since: number;
  task: SyncTask | undefined;
  /** It is about to change something, and is not ended any more. */
  isApplying: boolean;
  /** What is wanted next, the latest. */
  next: DueRepository | undefined;
}

/** What a wish does to the sync of its repository that is under way. */
export function relation(
  wish: Pick<DueRepository, 'reason' | 'isAsked' | 'hint'>,
  now: {
    readonly commit: string | null;
    readonly isApplying: boolean;
    readonly sinceMs: number;
    readonly limitMs: number;
  },
): 'drop' | 'follow' | 'end' {
  // Its turn came while it is being looked at.
  if (!wish.isAsked && wish.reason === 'poll') return 'drop';
  // The commit that somebody speaks of is the one that is being synced.
  if (wish.reason === 'push' && wish.hint !== null && wish.hint === now.commit) return 'drop';
  if (now.isApplying || wish.reason === 'watch' || wish.reason === 'resync') return 'follow';
  // However often somebody pushes, a read gets its time now and then.
  if (wish.reason === 'push' && now.sinceMs > now.limitMs) return 'follow';
  return 'end';
}

export class SyncLane {
  readonly #ctx: FlowContext;
  readonly #log: Logger;
  readonly #health: HostHealth;
  readonly #inHand = new Map<string, InHand>();
  readonly #running = new Set<Promise<void>>();
  #done: string[] = [];
  #isStopping = false;

  constructor(ctx: FlowContext, log: Logger) {
    this.#ctx = ctx;
    this.#log = log;
    this.#health = new HostHealth(ctx);
  }

  async load(): Promise<void> {
    await this.#health.load();
  }

  /** How many more it takes. */
  get room(): number {
    return syncsMax - this.#inHand.size;
  }

  /** Whether a run of this daemon is really being worked on, or is just being taken in hand. */
  owns(runId: string, repositoryId: string | null): boolean {
    // Its row may be this daemon's already while nobody here knows it yet.
    const taking = repositoryId === null ? undefined : this.#inHand.get(repositoryId);
    if (taking !== undefined && taking.task === undefined) return true;
    return [...this.#inHand.values()].some(({ task }) => task?.run.owns(runId) === true);
  }

  /** Servers for which enough waits here. */
  fullHosts(): string[] {
    const counts = new Map<string, number>();
    for (const { host } of this.#inHand.values()) if (host !== null) counts.set(host, (counts.get(host) ?? 0) + 1);
    return [...counts].filter(([, count]) => count >= perHostMax).map(([host]) => host);
  }

  /** Repositories that it has done with since the last call. */
  takeDone(): string[] {
    const done = this.#done.filter((id) => !this.#inHand.has(id));
    this.#done = [];
    return done;
  }

  /** Begins the sync of a claimed repository, or has it follow or end the one that is under way. */
  start(due: DueRepository): void {
    const present = this.#inHand.get(due.id);
    if (present === undefined) return this.#begin(due, performance.now());
    const { task, isApplying, since } = present;
    const now = {
      commit: task?.run.commit ?? null,
      isApplying,
      sinceMs: performance.now() - since,
      limitMs: portsOf(this.#ctx).readSeconds * 1000,
    };
    const what = relation(due, now);
    if (what === 'drop') return;
    if (present.next === undefined || present.next.reason !== 'manual') present.next = due;
    if (what === 'end') present.ending.abort(new Overtaken(due.hint ?? due.reason));
  }

  /** Ends what may be ended, leaves it to the next daemon, and resolves when nothing is under way. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    for (const { ending, isApplying } of this.#inHand.values()) {
      if (!isApplying) ending.abort(new Error('the daemon is shutting down'));
    }
    await Promise.all(this.#running);
    await giveBack(this.#ctx.db, this.#ctx.daemonId, this.takeDone()).catch(() => undefined);
  }

  #begin(due: DueRepository, since: number): void {
    const { host } = due;
    const ending = new AbortController();
    const present: InHand = { host, ending, since, task: undefined, isApplying: false, next: undefined };
    this.#inHand.set(due.id, present);
    const running = this.#sync(due, present)
      .catch((error: unknown) => this.#log.error({ err: error, repositoryId: due.id }, 'repo.sync_broke'))
      .finally(() => {
        this.#running.delete(running);
        this.#inHand.delete(due.id);
        this.#done.push(due.id);
        if (present.next === undefined || this.#isStopping) return;
        this.#begin(present.next, ending.signal.aborted ? since : performance.now());
      });
    this.#running.add(running);
  }

  async #sync(due: DueRepository, present: InHand): Promise<void> {
    const { id: repositoryId, reason } = due;
    const looks = this.#ctx.metrics.counter('svc_repo_polls_total', 'Looks at repositories, by what they found', [
      'result',
    ]);
    try {
      const outcome = await this.#outcome(due, present);
      if (outcome.kind === 'wait') await pollIn(this.#ctx.db, repositoryId, againMs);
      const failed = outcome.kind === 'ended' && outcome.status === 'failed';
      const result = failed ? 'failed' : outcome.kind === 'ended' ? 'sync' : 'nothing';
      looks.inc({ result });
      this.#log.debug({ repositoryId, reason, result }, 'repo.polled');
    } catch (error) {
      looks.inc({ result: 'failed' });
      throw error;
    }
  }

  async #outcome(due: DueRepository, present: InHand): Promise<SyncOutcome> {
    const { id: repositoryId, reason } = due;
    const { signal } = present.ending;
    const task = await takeInHand(this.#ctx, { repositoryId, reason, signal, health: this.#health });
    if (task === 'gone') return { kind: 'nothing' };
    if (task === 'taken') return { kind: 'wait' };
    present.task = task;
    try {
      return await runSync(task, {
        log: this.#log,
        health: this.#health,
        onApply: () => {
          present.isApplying = true;
        },
      });
    } finally {
      await task.reader.close().catch((error: unknown) => {
        if (!(error instanceof RepoCondition)) this.#log.debug({ err: error, repositoryId }, 'repo.close_failed');
      });
    }
  }
}
