// The syncs of this daemon that are under way: each repository once, hundreds at a time, since most of what they do is
// wait for a server. What is newer ends what is older, as long as that has not begun to change anything; what may not be
// ended is followed. Which repositories these are, the claims below say.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { RepoCondition } from '../../adapters/repo/repo.ts';
import type { RepoSource } from '../../adapters/repo/types.ts';
import { otherDaemons } from '../../adapters/store/operations/jobs.ts';
import {
  listOldSnapshots,
  sweepBlobs,
  sweepSnapshots,
  type SweepResult,
} from '../../adapters/store/repositories/snapshots.ts';
import {
  bringPollsForward,
  claimDue,
  dropOldPauses,
  type DueRepository,
  ensurePolls,
  freeLostClaims,
  type OrphanedRun,
  orphanedRuns,
  ownRuns,
  pollsDue,
  releaseClaims,
  serverKey,
  staggerPolls,
  wishForgotten,
  wishSync,
} from '../../adapters/store/repositories/polls.ts';
import { endRunsOfArchived, insertRun, moveRun } from '../../adapters/store/repositories/reconciles.ts';
import { conditionCounts, projectOf, repositoryById } from '../../adapters/store/repositories/repositories.ts';
import type { Sql } from '../../adapters/store/store.ts';
import { catalogOf, type FlowContext, syncPortsOf } from '../context.ts';
import type { CatalogPorts, SyncPorts } from '../ports.ts';
import { Superseded, runSync, type SyncOutcome } from './run.ts';
import { HostHealth, openRepository } from './source.ts';
import { type SyncTask, takeTask } from './task.ts';
import { behind, type Following, following, lookBeside, relation } from './wishes.ts';

/** At a time; what waits for its server's budget counts. */
const syncsMax = 2_048;
/** Repositories of one server that wait here, and those of them of one project; more are left to other daemons, or for later. */
const perServerMax = { all: 256, ofProject: 64 } as const;
/** Until a run that stands in the way is looked at again. */
const againMs = 1_000;

interface InHand {
  /** What it was begun for. */
  readonly due: DueRepository;
  readonly ending: AbortController;
  /** When the first of those began that ended each other; ms of the monotonic clock. */
  readonly since: number;
  task: SyncTask | undefined;
  /** It is about to change something, and is not ended any more. */
  isApplying: boolean;
  /** What is wanted next, the latest. */
  next: DueRepository | undefined;
  /** What is to be looked for behind it, should it or what is wanted next repeat what is stored, and read nothing. */
  look: DueRepository | undefined;
}

export class SyncLane {
  readonly #ctx: FlowContext;
  readonly #log: Logger;
  readonly #health: HostHealth;
  readonly #ports: SyncPorts;
  readonly #catalog: CatalogPorts;
  readonly #inHand = new Map<string, InHand>();
  readonly #running = new Set<Promise<void>>();
  /** Done with since the last call, and whether what was to be compared anew was not: the sync broke off, or read nothing. */
  #done = new Map<string, boolean>();
  readonly #draining = new AbortController();

  constructor(ctx: FlowContext, log: Logger) {
    this.#ctx = ctx;
    this.#log = log;
    this.#health = new HostHealth(ctx);
    this.#ports = syncPortsOf(ctx);
    this.#catalog = catalogOf(ctx);
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

  /** Servers for which enough waits here, of all projects or of one (`serverKey`). */
  fullHosts(): string[] {
    const all = new Map<string, number>();
    const ofProject = new Map<string, number>();
    const count = (counts: Map<string, number>, key: string): void => void counts.set(key, (counts.get(key) ?? 0) + 1);
    for (const { due, task } of this.#inHand.values()) {
      const { host, projectId } = due;
      if (host === null || task?.reader.isAway === true) continue;
      count(all, host);
      count(ofProject, serverKey({ projectId, host }));
    }
    const full = (counts: Map<string, number>, most: number): string[] =>
      [...counts].filter(([, waiting]) => waiting >= most).map(([key]) => key);
    return [...full(all, perServerMax.all), ...full(ofProject, perServerMax.ofProject)];
  }

  /** Repositories that it has done with since the last call, and those of them that are still to be compared where they were to be. */
  takeDone(): { readonly done: string[]; readonly broken: string[] } {
    const ended = [...this.#done].filter(([id]) => !this.#inHand.has(id));
    this.#done.clear();
    return { done: ended.map(([id]) => id), broken: ended.filter(([, isBroken]) => isBroken).map(([id]) => id) };
  }

  /** Begins the sync of a claimed repository, or has it follow or end the one that is under way. */
  start(due: DueRepository): void {
    this.#health.hear(due);
    const present = this.#inHand.get(due.id);
    if (present === undefined) return this.#begin({ due }, performance.now());
    const { task, isApplying, since } = present;
    const now = {
      commit: task?.run.commit ?? null,
      kind: task?.request.kind ?? null,
      isByHand: task?.reason === 'manual',
      isPinned: task !== undefined && task.repository.pinnedCommit !== null,
      isOfToday: task?.repository.fence === due.fence,
      seen: task?.repository.state.seenCommit ?? null,
      isApplying,
      sinceMs: performance.now() - since,
      limitMs: syncPortsOf(this.#ctx).readSeconds * 1000,
    };
    const what = relation(due, now);
    if (what === 'drop') return;
    present.next = following(present.next, due);
    const look = due.reason === 'manual' ? lookBeside(due) : due;
    if (look !== undefined) present.look = following(present.look, look);
    if (what !== 'end') return;
    // A push may find the commit that is applied already: what was to be compared anew still is.
    if (present.due.reason === 'resync') present.next = following(present.due, present.next);
    if (present.due.reason !== 'manual') present.look = following(present.due, present.look ?? present.due);
    present.ending.abort(new Superseded(due));
  }

  /** Ends what may be ended, leaves it to the next daemon, and resolves when nothing is under way. */
  async stop(): Promise<void> {
    const why = new Error('the daemon is shutting down');
    for (const { ending, isApplying } of this.#inHand.values()) {
      if (!isApplying) ending.abort(why);
    }
    this.#draining.abort(why);
    await Promise.all(this.#running);
    await releaseClaims(this.#ctx.db, this.#ctx.daemonId, this.takeDone().done).catch(() => undefined);
  }

  #begin({ due, look = lookBeside(due) }: Following, since: number): void {
    const ending = new AbortController();
    const present: InHand = { due, ending, since, task: undefined, isApplying: false, next: undefined, look };
    this.#inHand.set(due.id, present);
    const running = this.#toItsEnd(present).finally(() => this.#running.delete(running));
    this.#running.add(running);
  }

  /** One sync, and the beginning of what comes behind it. */
  async #toItsEnd(present: InHand): Promise<void> {
    const { due, ending, since } = present;
    let isBroken = false;
    try {
      isBroken = await this.#sync(due, present);
    } catch (error) {
      isBroken = true;
      this.#log.error({ err: error, repositoryId: due.id }, 'repo.sync_broke');
    }
    this.#inHand.delete(due.id);
    const isCompared = due.reason === 'resync' && !isBroken;
    this.#done.set(due.id, isBroken || (!isCompared && this.#done.get(due.id) === true));
    const { next: wanted, look, task } = present;
    // The table may hold it for a while (see `Roster`), and what it was about is large.
    present.task = undefined;
    const next = behind({ due, kind: task?.request.kind ?? null, next: wanted, look });
    if (next === undefined) return;
    if (this.#draining.signal.aborted) await this.#leave(next);
    else this.#begin(next, ending.signal.aborted ? since : performance.now());
  }

  /** Asks for what a daemon that drains does not begin any more: nobody else has heard of it. */
  async #leave({ due, look }: Following): Promise<void> {
    try {
      for (const one of [look, due]) {
        if (one === undefined || (one.reason === 'poll' && !one.isAsked)) continue;
        const { id: repositoryId, reason, hint } = one;
        await wishSync(this.#ctx.db, { repositoryId, reason, hint: hint ?? undefined });
      }
    } catch (error) {
      // The next poll sees what this did not say.
      this.#log.warn({ err: error, repositoryId: due.id }, 'repo.not_left');
    }
  }

  /** Whether its source could not be read: what it was to compare is still to be compared. */
  async #sync(due: DueRepository, present: InHand): Promise<boolean> {
    const { id: repositoryId, reason } = due;
    const looks = this.#ctx.metrics.counter('svc_repo_polls_total', 'Looks at repositories, by what they found', [
      'result',
    ]);
    try {
      const outcome = await this.#outcome(due, present);
      if (outcome.kind === 'wait') {
        // In memory: asked for anew, it would end what is begun meanwhile, which may be the run that is in its way.
        await sleep(againMs, undefined, { signal: present.ending.signal }).catch(() => undefined);
        present.next = following(due, present.next ?? due);
        if (reason !== 'manual') present.look = following(due, present.look ?? due);
      }
      const failed = outcome.kind === 'ended' && outcome.status === 'failed';
      const result = failed ? 'failed' : outcome.kind === 'ended' ? 'sync' : 'nothing';
      looks.inc({ result });
      this.#log.debug({ repositoryId, reason, result }, 'repo.polled');
      return outcome.kind !== 'wait' && outcome.isUnread === true;
    } catch (error) {
      looks.inc({ result: 'failed' });
      throw error;
    }
  }

  async #outcome(due: DueRepository, present: InHand): Promise<SyncOutcome> {
    const { id: repositoryId, reason } = due;
    const { signal } = present.ending;
    const task = await takeTask(this.#ctx, {
      repositoryId,
      reason,
      isAsked: due.isAsked,
      signal,
      draining: this.#draining.signal,
      health: this.#health,
      ports: this.#ports,
      catalog: this.#catalog,
    });
    if (task === 'gone') return { kind: 'nothing' };
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

/** A daemon that has not shown itself for so long is gone. */
const silentSeconds = 15;
/** A run that waits longer for a daemon has been forgotten. */
const waitingSeconds = 10;
/** As whoever archives a project has its runs end (flows/tenancy). */
const archivedText = 'the project was archived';
/** Claims at a time. */
const claimMax = 512;

/** Claims what is wanted or due and begins it. Resolves to how many these were; as many as it takes: there may be more. */
export async function pollTurn(
  ctx: FlowContext,
  lane: SyncLane,
): Promise<{ readonly begun: number; readonly more: boolean }> {
  const limit = Math.min(lane.room, claimMax);
  const due = await claimDue(ctx.db, {
    daemonId: ctx.daemonId,
    limit: Math.max(limit, 0),
    resyncSeconds: syncPortsOf(ctx).resyncSeconds,
    spread: ctx.runtime.randomBytes(2).readUInt16BE() / 0x1_0000,
    full: lane.fullHosts(),
    crowded: syncPortsOf(ctx).largeReads.crowded(),
    ...lane.takeDone(),
  });
  for (const one of due) lane.start(one);
  return { begun: due.length, more: due.length === limit && limit > 0 };
}

/** By less no clock is set back: that is how exactly it is known. */
const setBackMs = 1_000;
/** When a daemon last kept its polls. */
const keptAt = new WeakMap<object, Date>();

/** Where the clock was set back, or may have been while nobody looked, repositories are looked at by the clock as it is. */
async function followClock({ db, runtime }: FlowContext, resyncSeconds: number): Promise<void> {
  const now = runtime.now();
  const before = keptAt.get(runtime);
  keptAt.set(runtime, now);
  if (before !== undefined && now.getTime() > before.getTime() - setBackMs) return;
  const repositories = await bringPollsForward(db, resyncSeconds);
  if (repositories > 0) runtime.log.warn({ repositories }, 'repo.clock_set_back');
}

/** Makes missing poll rows, and tells the metrics how things stand. */
export async function keepPolls(ctx: FlowContext): Promise<void> {
  const { db, metrics } = ctx;
  await ensurePolls(db);
  await dropOldPauses(db);
  await followClock(ctx, syncPortsOf(ctx).resyncSeconds);
  metrics.gauge('svc_repo_polls_due', 'Repositories that are due for a look').set(await pollsDue(db));
  const gauge = metrics.gauge('svc_repo_conditions', 'Repositories by the condition of their source', ['condition']);
  gauge.reset();
  for (const { condition, count } of await conditionCounts(db)) gauge.set({ condition }, count);
}

/**
 * What a daemon does with the polls when it starts: what became due while nobody polled is spread, and where nobody else
 * polls, everything is looked at in that order. A back-off stays what it is.
 */
export async function scheduleAll(ctx: FlowContext): Promise<void> {
  await ensurePolls(ctx.db);
  const others = await otherDaemons(ctx.db, ctx.daemonId, 'sync', silentSeconds);
  await staggerPolls(ctx.db, others === 0);
}

/** Opens a source for somebody who watches it. Null where the repository is gone. */
export async function openForWatch(ctx: FlowContext, repositoryId: string): Promise<RepoSource | null> {
  const repository = await repositoryById(ctx.db, repositoryId);
  const project = repository === undefined ? undefined : await projectOf(ctx.db, repository.projectId);
  if (repository === undefined || project === undefined) return null;
  return openRepository(ctx, project, repository);
}

/**
 * Closes runs whose daemon is gone (or that this one lost) and asks for each anew: a person's run gets a successor that
 * repeats its request, so that an approval or a rollback is not lost. Resolves to the number of runs closed.
 */
export async function takeOver(ctx: FlowContext, lane: Pick<SyncLane, 'owns'>, log: Logger): Promise<number> {
  const { db, daemonId } = ctx;
  const closed = await db.tx(async (tx) => {
    const orphans = await orphanedRuns(tx, silentSeconds);
    const lost = (await ownRuns(tx, daemonId)).filter((run) => !lane.owns(run.id, run.repositoryId));
    for (const run of [...orphans, ...lost]) await startOver(ctx, tx, run);
    return orphans.length + lost.length;
  });
  if (closed > 0) log.warn({ runs: closed }, 'repo.runs_taken_over');
  await freeLostClaims(db, silentSeconds);
  await endRunsOfArchived(db, { forSeconds: waitingSeconds, detail: archivedText, now: ctx.runtime.now() });
  await wishForgotten(db, waitingSeconds);
  return closed;
}

async function startOver(ctx: FlowContext, tx: Sql, run: OrphanedRun): Promise<void> {
  const now = ctx.runtime.now();
  const detail = 'interrupted: the daemon that ran it is gone; started again';
  await moveRun(tx, run.id, { status: 'superseded', detail }, now);
  const repository = run.repositoryId === null ? undefined : await repositoryById(tx, run.repositoryId);
  if (repository === undefined || run.reason === 'apply') return;
  if (run.reason === 'manual') {
    await insertRun(tx, {
      id: ctx.runtime.uuid(),
      projectId: repository.projectId,
      repositoryId: repository.id,
      repositoryName: repository.name,
      commit: null,
      reason: run.reason,
      daemonId: null,
      startedAt: now,
      request: run.request,
    });
  }
  await wishSync(tx, { repositoryId: repository.id, reason: run.reason });
}

/** Deletes snapshots and blobs that nothing refers to, in slices; one daemon at a time, the others pass. */
export async function sweep(ctx: FlowContext, log: Logger, signal?: AbortSignal): Promise<void> {
  const inSlices = async (take: (tx: Sql, after: string | null) => Promise<SweepResult>): Promise<number> => {
    let gone = 0;
    for (let place: string | null = null; signal?.aborted !== true; ) {
      const after: string | null = place;
      const swept: SweepResult = await ctx.db.tx(async (tx) =>
        (await sweepsAlone(tx)) ? take(tx, after) : { gone: 0, next: null },
      );
      gone += swept.gone;
      if (swept.next === null) break;
      place = swept.next;
    }
    return gone;
  };
  await inSlices(async (tx) => ({ gone: 0, next: (await listOldSnapshots(tx)) > 0 ? '' : null }));
  const swept = { snapshots: await inSlices(sweepSnapshots), blobs: await inSlices(sweepBlobs) };
  if (swept.snapshots + swept.blobs > 0) log.info(swept, 'repo.swept');
}

async function sweepsAlone(tx: Sql): Promise<boolean> {
  const { rows } = await tx.query<{ mine: boolean }>(`select pg_try_advisory_xact_lock(hashtext('svc.sweep')) as mine`);
  return rows[0]?.mine === true;
}
