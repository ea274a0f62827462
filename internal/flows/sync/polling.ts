// When repositories are looked at: what is wanted or due, folders that change, runs whose daemon is gone, and the sweep of
// what no run needs any more. Each function is one turn; the loops are in edge/jobs.

import type { Logger } from 'pino';
import type { RepoSource } from '../../adapters/repo/types.ts';
import { sweepBlobs } from '../../adapters/store/repositories/blobs.ts';
import {
  claimDue,
  ensurePolls,
  freeLostClaims,
  pollsDue,
  spreadPolls,
} from '../../adapters/store/repositories/polls.ts';
import {
  insertRun,
  moveRun,
  ownRuns,
  orphanedRuns,
  type OrphanedRun,
  waitingRuns,
} from '../../adapters/store/repositories/reconciles.ts';
import { conditionCounts, projectOf, repositoryById } from '../../adapters/store/repositories/repositories.ts';
import { otherDaemons } from '../../adapters/store/operations/jobs.ts';
import { listOldSnapshots, type Swept, sweepSnapshots } from '../../adapters/store/repositories/snapshots.ts';
import type { Sql } from '../../adapters/store/store.ts';
import { type FlowContext, portsOf } from '../context.ts';
import { enqueueSync } from '../enqueue.ts';
import type { SyncLane } from './lane.ts';
import { openRepository } from './source.ts';

/** A daemon that has not shown itself for so long is gone. */
const silentSeconds = 15;
/** A run that waits longer for a daemon has been forgotten. */
const waitingSeconds = 10;
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
    resyncSeconds: portsOf(ctx).resyncSeconds,
    spread: ctx.runtime.randomBytes(2).readUInt16BE() / 0x1_0000,
    full: lane.fullHosts(),
    done: lane.takeDone(),
  });
  for (const one of due) lane.start(one);
  return { begun: due.length, more: due.length === limit && limit > 0 };
}

/** Makes missing poll rows, and tells the metrics how things stand. */
export async function keepPolls(ctx: FlowContext): Promise<void> {
  const { db, metrics } = ctx;
  await ensurePolls(db);
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
  await spreadPolls(ctx.db, others === 0);
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
  for (const id of await waitingRuns(db, waitingSeconds)) await enqueueSync(db, id, 'manual');
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
  await enqueueSync(tx, repository.id, run.reason);
}

/** Deletes snapshots and blobs that nothing refers to, in slices; one daemon at a time, the others pass. */
export async function sweep(ctx: FlowContext, log: Logger, signal?: AbortSignal): Promise<void> {
  const inSlices = async (take: (tx: Sql, after: string | null) => Promise<Swept>): Promise<number> => {
    let gone = 0;
    for (let place: string | null = null; signal?.aborted !== true; ) {
      const after: string | null = place;
      const swept: Swept = await ctx.db.tx(async (tx) =>
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
