// Taking a repository in hand: the row afresh, the run that waits for a daemon if there is one, and a source to read. The
// one way in which a sync begins.

import { moveRun } from '../../adapters/store/repositories/reconciles.ts';
import { type Repository, repositoryInHand } from '../../adapters/store/repositories/repositories.ts';
import type { WishReason } from '../../adapters/store/repositories/polls.ts';
import { type FlowContext, portsOf, type ProjectRef } from '../context.ts';
import type { SyncRequest } from './decide.ts';
import type { HostHealth } from './host-health.ts';
import { createReader, type SourceReader } from './reader.ts';
import { RunRecord } from './run-record.ts';
import { hostOf, openRepository } from './source.ts';

/** One sync: what it is about, which stays as it is, and the two things that it works with. */
export interface SyncTask {
  readonly ctx: FlowContext;
  readonly project: ProjectRef;
  /** As it was when the sync began. */
  readonly repository: Repository;
  /** Names of the project's active code-host connections. */
  readonly connections: readonly string[];
  readonly reason: WishReason;
  readonly request: SyncRequest;
  /** Aborted when something newer is wanted, or the daemon drains. */
  readonly signal: AbortSignal;
  readonly reader: SourceReader;
  readonly run: RunRecord;
}

export interface TakeOptions {
  readonly repositoryId: string;
  readonly reason: WishReason;
  readonly signal: AbortSignal;
  readonly health: HostHealth;
}

/**
 * `gone`: there is no such repository, or it is suspended and nobody asked by hand. `taken`: another daemon has begun the
 * run that waited here. The reader of a task is to be closed.
 */
export async function takeInHand(ctx: FlowContext, options: TakeOptions): Promise<SyncTask | 'gone' | 'taken'> {
  const { repositoryId, signal, health } = options;
  const found = await repositoryInHand(ctx.db, repositoryId);
  if (found === undefined) return 'gone';
  const { repository, project, connections, waiting } = found;
  if (waiting === null && repository.suspended) return 'gone';
  if (waiting !== null) {
    const isMine = await moveRun(ctx.db, waiting.id, { daemonId: ctx.daemonId }, ctx.runtime.now(), null);
    if (!isMine) return 'taken';
  }
  const reason = (waiting?.reason ?? options.reason) as WishReason;
  const request = (waiting?.request as SyncRequest | undefined) ?? { kind: 'sync' };
  const ports = portsOf(ctx);
  const host = hostOf(repository);
  const isTurn = reason === 'poll' || reason === 'resync';
  return {
    ctx,
    project,
    repository,
    connections,
    reason,
    request,
    signal,
    reader: createReader({
      source: openRepository(ctx, project, repository),
      limited: ports.limited,
      host,
      urgent: reason === 'manual',
      limitMs: ports.readSeconds * 1000,
      signal,
      mayBegin: () => {
        if (isTurn) health.check(host);
      },
    }),
    run: new RunRecord({ ctx, repository, reason, request, taken: waiting?.id ?? null }),
  };
}
