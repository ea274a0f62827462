// Going back and going on: a rollback repeats the stored inputs of an earlier commit, an approval those of a held run.

import { appliedRun, hasNewerRun, runById } from '../../adapters/store/repositories/reconciles.ts';
import { lockRepository } from '../../adapters/store/repositories/repositories.ts';
import { recordAudit } from '../../adapters/store/tenancy/audit.ts';
import { Fault } from '../../domain/fault.ts';
import type { FlowContext } from '../context.ts';
import { type Caller, findRepository, ofRepository, startRun } from './manage.ts';

/**
 * Re-applies the inputs of an earlier commit (or of the last one applied before the present one) and, when that has
 * succeeded, quarantines the commit it leaves. Throws `conflict` where no such commit was applied or its inputs are gone.
 */
export async function rollBack(
  ctx: FlowContext,
  caller: Caller,
  name: string,
  commit: string | undefined,
): Promise<{ reconcileId: string; commit: string }> {
  return ctx.db.tx(async (tx) => {
    const { id } = await findRepository(tx, caller.project, name);
    const repository = await lockRepository(tx, id);
    if (repository === undefined)
      throw new Fault('not_found', 'repository-not-found', `there is no repository ${name}`);
    const { appliedCommit } = repository.state;
    const run = await appliedRun(tx, id, commit === undefined ? { except: appliedCommit } : { commit });
    if (run === undefined || run.commit === null) {
      const which = commit === undefined ? 'an earlier commit' : `commit ${commit}`;
      throw new Fault(
        'conflict',
        'nothing-to-roll-back-to',
        `${which} of ${name} was never applied, or its inputs are not kept any more`,
      );
    }
    if (repository.pinnedCommit !== null) {
      throw new Fault(
        'conflict',
        'repository-pinned',
        `repository ${name} is pinned; unpin it first, or pin the other commit`,
      );
    }
    const leaves = run.commit === appliedCommit ? repository.quarantinedCommit : appliedCommit;
    const isReturn = run.commit === repository.quarantinedCommit;
    const request = { kind: 'rollback', from: run.id, leaves: isReturn ? null : leaves } as const;
    const reconcileId = await startRun(ctx, tx, repository, request, run.commit);
    const { project, actor } = caller;
    await recordAudit(tx, {
      orgId: project.orgId,
      projectId: project.id,
      principal: actor,
      action: 'repository.rolled_back',
      subject: { kind: 'Repository', name },
      detail: { to: run.commit, leaves: appliedCommit },
    });
    return { reconcileId, commit: run.commit };
  });
}

/** Applies a held run's inputs without the guard. Throws `conflict` where it is not held, or something newer was seen. */
export async function approve(
  ctx: FlowContext,
  caller: Caller,
  name: string,
  reconcileId: string,
): Promise<{ reconcileId: string }> {
  return ctx.db.tx(async (tx) => {
    const { id } = await findRepository(tx, caller.project, name);
    const repository = await lockRepository(tx, id);
    if (repository === undefined)
      throw new Fault('not_found', 'repository-not-found', `there is no repository ${name}`);
    const run = ofRepository(await runById(tx, caller.project.id, reconcileId), repository);
    if (run.status !== 'held') {
      throw new Fault('conflict', 'reconcile-not-held', `reconcile ${reconcileId} is ${run.status}, not held`);
    }
    const isStale =
      Number(run.inputs['generation'] ?? 0) !== repository.generation || (await hasNewerRun(tx, id, run.seq));
    if (isStale) {
      throw new Fault(
        'conflict',
        'reconcile-stale',
        `something newer than reconcile ${reconcileId} was seen; look at the latest run`,
      );
    }
    const { project, actor } = caller;
    await recordAudit(tx, {
      orgId: project.orgId,
      projectId: project.id,
      principal: actor,
      action: 'repository.approved',
      subject: { kind: 'Repository', name },
      detail: { reconcile: reconcileId, commit: run.commit },
    });
    return { reconcileId: await startRun(ctx, tx, repository, { kind: 'approve', from: run.id }, run.commit) };
  });
}
