// Taking a repository in hand: the row afresh, the run that waits for a daemon if there is one, and a source to read. The
// one way in which a sync begins.

import { clearSuspects, endInHand, parkedSuspect } from '../../adapters/store/operations/in-hand.ts';
import type { WishReason } from '../../adapters/store/repositories/polls.ts';
import { moveRun, runningRun } from '../../adapters/store/repositories/reconciles.ts';
import { type Repository, repositoryInHand } from '../../adapters/store/repositories/repositories.ts';
import { failpoint } from '../../base/failpoint.ts';
import type { FlowContext, ProjectRef } from '../context.ts';
import type { CatalogPorts, SyncPorts } from '../ports.ts';
import { aloneAtEnds, endedTheProcess, gateOf, parkedAtEnds, putDown, takeInHand } from '../in-hand.ts';
import { createReader, type HostHealth, openRepository, serverOf, type SourceReader } from './source.ts';
import type { ReadRoom } from '../large-reads.ts';
import { RunRecord, type RunSubject, type SyncRequest } from './run-record.ts';

/** One sync: what it is about, which stays as it is, and the two things that it works with. */
export interface SyncTask {
  readonly ctx: FlowContext;
  readonly ports: SyncPorts;
  readonly catalog: CatalogPorts;
  readonly project: ProjectRef;
  /** As it was when the sync began. */
  readonly repository: Repository;
  /** Names of the project's active code-host connections. */
  readonly connections: readonly string[];
  readonly reason: WishReason;
  readonly request: SyncRequest;
  /** Unclean ends in a row at which it was in hand. */
  readonly ends: number;
  /** Aborted when something newer is wanted, or the daemon drains. */
  readonly signal: AbortSignal;
  /** Aborted when the daemon drains. */
  readonly draining: AbortSignal;
  readonly reader: SourceReader;
  /** What it holds of what it has read, until the reader is closed. */
  readonly room: ReadRoom;
  readonly run: RunRecord;
}

export interface TakeOptions {
  readonly repositoryId: string;
  readonly reason: WishReason;
  /** Somebody asked for it, be it for no more than a look, as who has just added the repository: that waits for no pause. */
  readonly isAsked: boolean;
  readonly signal: AbortSignal;
  readonly draining: AbortSignal;
  readonly health: HostHealth;
  readonly ports: SyncPorts;
  readonly catalog: CatalogPorts;
}

/** The strand of a daemon's work in which it syncs a repository. */
const laneOf = (repositoryId: string): string => `sync:${repositoryId}`;

/**
 * Takes the run that waits here, if there is one, and notes the sync in hand, in one statement: `withSuspicion` goes on from
 * there and puts it down. `gone`: there is no such repository, or it is suspended and nobody asked by hand; then nothing is
 * in hand. The reader of a task is to be closed.
 */
export async function takeTask(ctx: FlowContext, options: TakeOptions): Promise<SyncTask | 'gone'> {
  const { repositoryId, signal, draining, health, ports, catalog } = options;
  const found = await repositoryInHand(ctx.db, repositoryId, { daemonId: ctx.daemonId, lane: laneOf(repositoryId) });
  if (found === undefined) return 'gone';
  const { repository, project, connections, waiting, ends } = found;
  if (waiting === null && repository.suspended) return 'gone';
  const reason = (waiting?.reason ?? options.reason) as WishReason;
  const request = (waiting?.request as SyncRequest | undefined) ?? { kind: 'sync' };
  const server = serverOf(repository);
  const room = ports.largeReads.roomOf(repository.projectId);
  const isTurn = !options.isAsked && (reason === 'poll' || reason === 'resync');
  return {
    ctx,
    ports,
    catalog,
    project,
    repository,
    connections,
    reason,
    request,
    ends,
    signal,
    draining,
    room,
    reader: createReader({
      source: openRepository(ctx, project, repository, room),
      room,
      limited: ports.limited,
      server,
      urgent: reason === 'manual',
      limitMs: ports.readSeconds * 1000,
      signal,
      mayBegin: () => {
        if (isTurn) health.check(server);
      },
    }),
    run: new RunRecord({ ctx, repository, reason, request, taken: waiting?.id ?? null }),
  };
}

/**
 * Does a sync as its past allows: beside others, alone, or not at all (undefined). `isOver` says of its outcome
 * whether the sync came to an end of its own.
 */
export async function withSuspicion<T>(
  task: SyncTask,
  subject: RunSubject,
  act: () => Promise<T>,
  isOver: (outcome: T) => boolean,
): Promise<T | undefined> {
  const { ctx, repository, ends } = task;
  const { id } = repository;
  const taken = { kind: 'sync', lane: laneOf(id), ids: [id] } as const;
  const run = async (): Promise<T> => {
    failpoint('sync.run', repository.name);
    const outcome = await act();
    if (ends > 0 && isOver(outcome)) await clearSuspects(ctx.db, 'sync', [id]);
    return outcome;
  };
  try {
    if (ends >= parkedAtEnds) {
      await park(task, subject);
      return undefined;
    }
    // A daemon that is killed right after the commit has ended uncleanly, and the sync has not.
    task.run.atEnd = (tx) => endInHand(tx, { daemonId: ctx.daemonId, ...taken });
    if (ends < aloneAtEnds) {
      const leave = await gateOf(ctx).enter();
      return await run().finally(leave);
    }
    ctx.runtime.log.warn({ repository: repository.name }, 'repo.tried_alone');
    return await gateOf(ctx).alone(async () => {
      try {
        await takeInHand(ctx, { ...taken, alone: true });
        return await run();
      } finally {
        // Before others are let in again: what ends the process then would count for this one, as its third end.
        if (!task.run.isPutDown) await putDown(ctx, taken.lane);
      }
    });
  } finally {
    if (!task.run.isPutDown) await putDown(ctx, taken.lane);
  }
}

/** Leaves one failed run that says why; whoever asks again without a person leaves nothing. */
async function park(task: SyncTask, subject: RunSubject): Promise<void> {
  const { ctx, repository, run, ends } = task;
  const { db, runtime } = ctx;
  const diagnostics = [
    { severity: 'error', code: endedTheProcess, message: `${endedTheProcess}: svc repo sync tries it again` },
  ];
  const running = await runningRun(db, repository.id);
  if (running !== undefined) {
    const patch = { status: 'failed', detail: endedTheProcess, diagnostics, stages: [] } as const;
    await moveRun(db, running.id, patch, runtime.now());
  } else if (ends === parkedAtEnds) {
    await run.open(subject);
    await run.end({ status: 'failed', patch: { detail: endedTheProcess, diagnostics } }, subject);
  }
  // Behind the run that says why: a daemon that ends in between leaves what is parked again, and not what nobody is told of.
  await parkedSuspect(db, 'sync', repository.id);
  runtime.log.error({ repository: repository.name }, 'repo.parked');
}
