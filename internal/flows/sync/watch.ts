// When repositories are looked at without anybody asking: due polls, folders that change, runs whose daemon is gone,
// and the sweep of what no run needs any more. Each function is one turn; the loops are in edge/jobs.

import type { Logger } from 'pino';
import { sweepBlobs } from '../../adapters/store/repositories/blobs.ts';
import { claimDue, ensurePolls, pollsDue } from '../../adapters/store/repositories/polls.ts';
import {
  insertRun,
  moveRun,
  ownRuns,
  orphanedRuns,
  type OrphanedRun,
  waitingRuns,
} from '../../adapters/store/repositories/reconciles.ts';
import { repositoryById } from '../../adapters/store/repositories/repositories.ts';
import { listOldSnapshots, type Swept, sweepSnapshots } from '../../adapters/store/repositories/snapshots.ts';
import type { Sql } from '../../adapters/store/store.ts';
import { type FlowContext, portsOf } from '../context.ts';
import { enqueueSync } from '../enqueue.ts';
import { isActive, lookAt } from './engine.ts';

/** Looks at a time in one process; each waits for its server within the limits of the ports. */
const looksMax = 64;
/** A daemon that has not shown itself for so long is gone. */
const silentMs = 15_000;
/** A run that waits longer for a daemon has lost its job. */
const waitingMs = 10_000;

/** Claims what is due and starts looking; `inFlight` holds the looks that are under way. Resolves to how many began. */
export async function pollTurn(
  ctx: FlowContext,
  turn: { readonly inFlight: Set<Promise<void>>; readonly signal: AbortSignal; readonly log: Logger },
): Promise<number> {
  const { db, runtime, metrics } = ctx;
  const room = looksMax - turn.inFlight.size;
  if (room <= 0) return 0;
  const spread = runtime.randomBytes(2).readUInt16BE() / 0x1_0000;
  const due = await claimDue(db, {
    now: runtime.now(),
    limit: room,
    resyncSeconds: portsOf(ctx).resyncSeconds,
    spread,
  });
  const polls = metrics.counter('svc_repo_polls_total', 'Looks at repositories, by what they found', ['result']);
  for (const { id, resync } of due) {
    const look = async (): Promise<void> => {
      try {
        const reason = resync ? 'resync' : 'poll';
        const result = await lookAt(ctx, { repositoryId: id, reason, signal: turn.signal, log: turn.log });
        polls.inc({ result });
        turn.log.debug({ repositoryId: id, reason, result }, 'repo.polled');
      } catch (error) {
        polls.inc({ result: 'failed' });
        turn.log.error({ err: error, repositoryId: id }, 'repo.poll_broke');
      }
    };
    const running = look().finally(() => turn.inFlight.delete(running));
    turn.inFlight.add(running);
  }
  return due.length;
}

/** Makes missing poll rows, and tells the metrics how things stand. */
export async function keepPolls(ctx: FlowContext): Promise<void> {
  const { db, metrics, runtime } = ctx;
  await ensurePolls(db);
  metrics.gauge('svc_repo_polls_due', 'Repositories that are due for a look').set(await pollsDue(db, runtime.now()));
  const { rows } = await db.query<{ condition: string; count: number }>(
    `select coalesce(condition, 'ok') as condition, count(*)::int as count from svc.repository_states group by 1`,
  );
  const gauge = metrics.gauge('svc_repo_conditions', 'Repositories by the condition of their source', ['condition']);
  gauge.reset();
  for (const { condition, count } of rows) gauge.set({ condition }, count);
}

/** A new daemon looks at every repository once: all are due. */
export async function scheduleAll(ctx: FlowContext): Promise<void> {
  await ensurePolls(ctx.db);
  await ctx.db.query('update svc.repository_polls set next_at = $1::timestamptz where next_at > $1::timestamptz', [
    ctx.runtime.now(),
  ]);
}

/**
 * Closes runs whose daemon is gone (or that this one lost) and asks for each anew: a person's run gets a successor that
 * repeats its request, so that an approval or a rollback is not lost. Resolves to the number of runs closed.
 */
export async function takeOver(ctx: FlowContext, log: Logger): Promise<number> {
  const { db, runtime, daemonId } = ctx;
  const now = runtime.now();
  const closed = await db.tx(async (tx) => {
    const orphans = await orphanedRuns(tx, new Date(now.getTime() - silentMs));
    const lost = (await ownRuns(tx, daemonId)).filter((run) => !isActive(run.id));
    for (const run of [...orphans, ...lost]) await startOver(ctx, tx, run, now);
    return orphans.length + lost.length;
  });
  if (closed > 0) log.warn({ runs: closed }, 'repo.runs_taken_over');
  for (const id of await waitingRuns(db, new Date(now.getTime() - waitingMs))) {
    await enqueueSync(db, id, 'manual', now);
  }
  return closed;
}

async function startOver(ctx: FlowContext, tx: Sql, run: OrphanedRun, now: Date): Promise<void> {
  const detail = 'interrupted: the daemon that ran it is gone; started again';
  await moveRun(tx, run.id, { status: 'superseded', detail }, now);
  const repository = run.repositoryId === null ? undefined : await repositoryById(tx, run.repositoryId);
  if (repository === undefined) return;
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
  await enqueueSync(tx, repository.id, run.reason, now);
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
