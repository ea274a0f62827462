// A sync that may end the process: noted before it begins, tried with nothing beside it after two unclean ends in a row,
// parked after a third until a person asks for it (docs/reference/repositories.md#rollback).

import { clearSuspects, endInHand, parkedSuspect } from '../../adapters/store/operations/in-hand.ts';
import { moveRun, runningRun } from '../../adapters/store/repositories/reconciles.ts';
import { failpoint } from '../../base/failpoint.ts';
import { aloneAt, endedTheProcess, gateOf, parkedAt, putDown, takeInHand } from '../in-hand.ts';
import { subjectOf } from './report.ts';
import type { SyncTask } from './take-in-hand.ts';

/**
 * Does a sync as its past allows: beside others, alone, or not at all (undefined). `isOver` says of its outcome
 * whether the sync came to an end of its own.
 */
export async function withSuspicion<T>(
  task: SyncTask,
  act: () => Promise<T>,
  isOver: (outcome: T) => boolean,
): Promise<T | undefined> {
  const { ctx, repository } = task;
  const { id } = repository;
  const taken = { kind: 'sync', lane: `sync:${id}`, ids: [id] } as const;
  const ends = (await takeInHand(ctx, taken)).get(id) ?? 0;
  const run = async (): Promise<T> => {
    failpoint('sync.run', repository.name);
    const outcome = await act();
    if (ends > 0 && isOver(outcome)) await clearSuspects(ctx.db, 'sync', [id]);
    return outcome;
  };
  try {
    if (ends >= parkedAt) {
      await park(task);
      return undefined;
    }
    // A daemon that is killed right after the commit has ended uncleanly, and the sync has not.
    task.run.atEnd = (tx) => endInHand(tx, { daemonId: ctx.daemonId, ...taken });
    if (ends < aloneAt) {
      const leave = await gateOf(ctx).enter();
      return await run().finally(leave);
    }
    ctx.runtime.log.warn({ repository: repository.name }, 'repo.tried_alone');
    return await gateOf(ctx).alone(async () => {
      await takeInHand(ctx, { ...taken, alone: true });
      return run();
    });
  } finally {
    await putDown(ctx, taken.lane);
  }
}

/** Leaves one failed run that says why; whoever asks again without a person leaves nothing. */
async function park(task: SyncTask): Promise<void> {
  const { ctx, repository, run } = task;
  const { db, runtime } = ctx;
  const diagnostics = [
    { severity: 'error', code: endedTheProcess, message: `${endedTheProcess}: svc repo sync tries it again` },
  ];
  const running = await runningRun(db, repository.id);
  if (running !== undefined) {
    const patch = { status: 'failed', detail: endedTheProcess, diagnostics, stages: [] } as const;
    await moveRun(db, running.id, patch, runtime.now());
    await parkedSuspect(db, 'sync', repository.id);
  } else if (await parkedSuspect(db, 'sync', repository.id)) {
    await run.open(subjectOf(task));
    await run.end({ status: 'failed', patch: { detail: endedTheProcess, diagnostics } }, subjectOf(task));
  }
  runtime.log.error({ repository: repository.name }, 'repo.parked');
}
