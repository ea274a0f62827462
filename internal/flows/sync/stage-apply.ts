// The stage that changes something: plan, guard and writes happen in one transaction under the project's lock (apply.ts),
// and the run and the repository's state are moved in that same transaction, or none of it happens.

import type { Sql } from '../../adapters/store/store.ts';
import { moveRun, type RunPatch } from '../../adapters/store/repositories/reconciles.ts';
import { type RepositoryState, updateRepository, updateState } from '../../adapters/store/repositories/repositories.ts';
import { failpoint } from '../../base/failpoint.ts';
import { portsOf } from '../context.ts';
import { enqueueSync } from '../enqueue.ts';
import { applyPlan } from './apply.ts';
import type { ApplyRequest, ApplyResult } from './apply-types.ts';
import { appliedState, clearedCondition } from './stage-fetch.ts';
import { askForStatus } from './status.ts';
import { openRun, recordedInputs, type Stage, RunConflict, type Work } from './work.ts';

const actor = { kind: 'system', id: null, name: 'repository-sync' } as const;

export const apply: Stage = {
  name: 'apply',
  async run(work) {
    const { ctx } = work;
    const begun = performance.now();
    failpoint('sync.before-apply');
    const request = requestOf(work);
    if (await failsAgain(work, request)) return { status: 'failed', silent: true };
    const lazyId = ctx.runtime.uuid();
    const finish = (tx: Sql, result: ApplyResult): Promise<'commit' | 'rollback'> =>
      close(work, tx, result, { lazyId, ms: performance.now() - begun });
    const isLazy = work.runId === null;
    const result = await applyPlan(ctx, { ...request, operationId: work.runId ?? lazyId, finish });
    failpoint('sync.after-apply');
    if (result.status === 'planned') throw new Error('a real apply answered as a dry run');
    if (result.status === 'superseded') {
      await superseded(work);
      return { status: 'superseded', closed: true };
    }
    if (isLazy && isNews(work, result)) work.runId = lazyId;
    return {
      status: result.status,
      closed: true,
      patch: { diagnostics: result.diagnostics, ...(result.held && { detail: result.held.message }) },
    };
  },
};

function requestOf(work: Work): Omit<ApplyRequest, 'operationId'> {
  const { repository, request, inputs, compiled, tip } = work;
  if (inputs === null || compiled === null || tip === null) throw new Error('apply before compile');
  return {
    projectId: repository.projectId,
    owner: { kind: 'repository', repositoryId: repository.id, generation: repository.generation },
    compiled: { ...compiled, diagnostics: [...compiled.diagnostics, ...inputs.remarks] },
    hasSvc: inputs.record.hasSvc,
    fileBytes: async (path) => (await inputs.bundle()).entries.get(path)?.bytes,
    prune: true,
    adopt: repository.adopt,
    dryRun: false,
    guard: request.kind === 'sync' ? repository.guard : 'off',
    // Rows that are gone are missed by any plan; reading every spec back is the periodic comparison's work.
    verify: work.reason === 'resync',
    commit: tip.commit,
    actor,
    shippedAvatars: portsOf(work.ctx).catalog.avatars,
  };
}

/** The periodic comparison of a commit that failed or is held: planned first, so that the same answer records nothing. */
async function failsAgain(work: Work, request: Omit<ApplyRequest, 'operationId'>): Promise<boolean> {
  const { state } = work.repository;
  const isKnown =
    work.runId === null && state.seenCommit === work.tip?.commit && state.appliedCommit !== state.seenCommit;
  if (!isKnown) return false;
  const { status } = await applyPlan(work.ctx, { ...request, operationId: work.ctx.runtime.uuid(), dryRun: true });
  return status === 'failed';
}

/** Whether the outcome deserves a run where there is none yet. */
function isNews(work: Work, result: ApplyResult): boolean {
  if (result.status === 'applied' || result.status === 'failed') return true;
  return result.status === 'held' && work.repository.state.seenCommit !== work.tip?.commit;
}

/** Moves the run and the state row, in the transaction of the apply. */
async function close(
  work: Work,
  tx: Sql,
  result: ApplyResult,
  run: { readonly lazyId: string; readonly ms: number },
): Promise<'commit' | 'rollback'> {
  const { ctx, repository } = work;
  const now = ctx.runtime.now();
  if (result.status === 'superseded' || result.status === 'planned') return 'commit';
  if (work.runId === null) {
    if (!isNews(work, result)) return 'commit';
    try {
      await openRun(work, tx, run.lazyId);
    } catch (error) {
      if (error instanceof RunConflict) return 'rollback';
      throw error;
    }
  }
  const patch: RunPatch = {
    status: result.status,
    stages: [...work.stages, { name: 'apply', ms: Math.round(run.ms * 10) / 10 }],
    actions: result.actions,
    consequences: { ...result.consequences, ...(result.eventImpact && { eventImpact: result.eventImpact }) },
    webhooks: result.webhooks,
    diagnostics: result.diagnostics,
    inputs: recordedInputs(work),
    ...(result.held !== undefined && {
      detail: `${result.held.message}: svc repo approve ${repository.name} ${work.runId ?? run.lazyId}`,
    }),
    ...(result.status === 'failed' && { detail: failureText(result) }),
  };
  const held = await moveRun(tx, work.runId ?? run.lazyId, patch, now, ctx.daemonId);
  if (!held) return 'rollback';
  await updateState(tx, repository.id, stateAfter(work, result), now);
  await quarantine(work, tx, result, now);
  await askForStatus(tx, repository, work.tip?.commit);
  return 'commit';
}

function failureText(result: ApplyResult): string {
  const errors = result.diagnostics.filter((item) => item.severity === 'error');
  return `${errors.length} error${errors.length === 1 ? '' : 's'}; nothing was changed, the last good state stays`;
}

function stateAfter(work: Work, result: ApplyResult): Partial<RepositoryState> {
  const { tip, inputs, compiled } = work;
  if (tip === null || inputs === null) throw new Error('apply before snapshot');
  if (result.status === 'applied' || result.status === 'unchanged') {
    return appliedState(work, tip, inputs.snapshotId, compiled?.templateLock ?? {});
  }
  return { ...clearedCondition, seenCommit: tip.commit, seenHash: work.hash };
}

/** A rollback sets the commit that it leaves aside; the first other commit that is applied ends that. */
async function quarantine(work: Work, tx: Sql, result: ApplyResult, now: Date): Promise<void> {
  const { repository, request, tip } = work;
  if (result.status !== 'applied' && result.status !== 'unchanged') return;
  if (request.kind === 'rollback') {
    await updateRepository(tx, repository.id, { quarantinedCommit: request.leaves }, now);
    return;
  }
  const { quarantinedCommit, state } = repository;
  if (quarantinedCommit === null || tip?.commit === state.appliedCommit) return;
  await updateRepository(tx, repository.id, { quarantinedCommit: null }, now);
}

/** The settings changed under the run, or another one took its place: whoever changed them asked for the next. */
async function superseded(work: Work): Promise<void> {
  const { ctx, repository, runId } = work;
  if (runId === null) return;
  const detail = 'superseded: the settings of the repository changed, or a newer sync began';
  await moveRun(ctx.db, runId, { status: 'superseded', detail, stages: work.stages }, ctx.runtime.now());
  await enqueueSync(ctx.db, repository.id, again(work), ctx.runtime.now());
}

const again = (work: Work) => (work.reason === 'manual' ? 'poll' : work.reason);
