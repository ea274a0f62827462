// The last stage: what an apply leaves behind besides its rows, in its own transaction: the lifecycle events
// `svc.project_resource_apply.*` and `svc.project.onboarded` (docs/reference/connections.md#intakes), the audit entry, the syncs that what
// came may heal; and of a sync, its run and the state of its repository, and how it is told in the log. An apply that changes nothing records no event.

import type { AuditAction } from '../../domain/audit-actions.ts';
import type { Logger } from 'pino';
import { sha256Bytes } from '../../base/hash.ts';
import { recordAudit } from '../../adapters/store/tenancy/audit.ts';
import { enqueueRouting, recordEvent } from '../../adapters/store/events/events.ts';
import {
  lastRuns,
  prepareMove,
  type ReconcileStatus,
  type RunPatch,
  type StageTiming,
} from '../../adapters/store/repositories/reconciles.ts';
import {
  endQuarantine,
  type RepositoryState,
  updateRepository,
  updateState,
} from '../../adapters/store/repositories/repositories.ts';
import { wishConflicting, wishFailing } from '../../adapters/store/repositories/resyncs.ts';
import type { Sql } from '../../adapters/store/store.ts';
import { failpoint } from '../../base/failpoint.ts';
import { noteOnboarded } from '../../adapters/store/tenancy/tenancy.ts';
import { timeOrderedId } from '../../base/runtime.ts';
import type { Action } from '../../core/plan/types.ts';
import type { Diagnostic } from '../../domain/diagnostic.ts';
import type { JsonObject } from '../../domain/json.ts';
import type { TemplateLock } from '../../domain/bundle.ts';
import type { FlowContext } from '../context.ts';
import { askForStatus, type Ending, LostOwnership, RunConflict, type RunSubject } from './run-record.ts';
import type { CompiledTree } from './compile.ts';
import type { ApplyRequest, ApplyResult, Plan } from './plan.ts';
import type { Resolved } from './resolve.ts';
import type { TreeFiles } from './snapshot.ts';
import type { SyncTask } from './task.ts';

type Phase = 'started' | 'completed' | 'failed';

export interface ApplyRecord {
  readonly plan: Pick<Plan, 'request' | 'repository' | 'diagnostics'> & Partial<Plan>;
  readonly startedAt: Date;
}

const auditAction = (request: ApplyRequest): AuditAction =>
  request.owner.kind === 'repository' ? 'repository_sync.apply' : 'manual.apply';

/** The plan's changes; absent where the tree did not compile. */
const setOf = ({ plan }: ApplyRecord) => (plan.outcome === 'computed' ? plan.set : undefined);

function payloadOf(record: ApplyRecord, error?: { name: string; message: string }): JsonObject {
  const { request, repository, diagnostics } = record.plan;
  const set = setOf(record);
  const changed = set?.actions.filter((action) => action.op !== 'unchanged') ?? [];
  return {
    apply: {
      operationId: request.operationId,
      auditAction: auditAction(request),
      repository,
      commit: request.commit ?? undefined,
      plan: set && {
        counts: { ...set.counts, diagnostics: diagnostics.length },
        changedResources: changed.map((action) => `${action.kind}/${action.name}`),
      },
      request: { resources: request.compiled.resources.length, delete: set?.counts.delete ?? 0 },
      error,
    },
  };
}

async function record(
  ctx: FlowContext,
  tx: Sql,
  entry: ApplyRecord,
  phase: Phase,
  payload: JsonObject,
  at: Date,
): Promise<void> {
  const { operationId, projectId } = entry.plan.request;
  await recordEvent(tx, {
    id: timeOrderedId(ctx.runtime),
    projectId,
    key: `svc.project_resource_apply.${phase}`,
    dedupHash: sha256Bytes(`svc.project_resource_apply\0${operationId}\0${phase}`),
    raw: null,
    payload: JSON.stringify(payload),
    receivedAt: at,
  });
}

/** Events and audit entry of an apply that wrote; inside its transaction. */
export async function recordApplied(ctx: FlowContext, tx: Sql, entry: ApplyRecord & { plan: Plan }): Promise<void> {
  const { request, repository, orgId } = entry.plan;
  const set = setOf(entry);
  const payload = payloadOf(entry);
  await record(ctx, tx, entry, 'started', payload, entry.startedAt);
  await record(ctx, tx, entry, 'completed', payload, ctx.runtime.now());
  await recordOnboarded(ctx, tx, request.projectId);
  await enqueueRouting(tx, ctx.ingest, [request.projectId]);
  await recordAudit(tx, {
    orgId,
    projectId: request.projectId,
    principal: request.actor,
    action: auditAction(request),
    ...(repository !== undefined && { subject: { kind: 'Repository', name: repository } }),
    detail: { operationId: request.operationId, commit: request.commit, counts: { ...set?.counts } },
  });
  // Another repository may have failed for want of an endpoint that is there now, or over what this owner has let go or brought.
  const { projectId, owner } = request;
  const except = owner.kind === 'repository' ? owner.repositoryId : null;
  if ((set?.writes.endpoints.length ?? 0) > 0) await wishFailing(tx, { projectId, except });
  else await wishConflicting(tx, { projectId, except, names: (set?.actions ?? []).flatMap(letGo) });
}

/** The name of what an action takes from its owner, makes other than others may have it, or brings for others to name. */
function letGo({ op, kind, name, changes }: Action): string[] {
  const isOther = (path: string): boolean => path === 'environment' || path === 'identity';
  const isFree = kind === 'Agent' ? changes.some(({ path }) => isOther(path)) : op === 'update';
  const isBrought = op === 'create' && kind === 'Identity';
  return op === 'delete' || isFree || isBrought ? [name] : [];
}

/** Once, with the first apply that completes: before it there is no trigger that could hear of it. */
async function recordOnboarded(ctx: FlowContext, tx: Sql, projectId: string): Promise<void> {
  const now = ctx.runtime.now();
  const project = await noteOnboarded(tx, projectId, now);
  if (project === undefined) return;
  const { id, slug, name } = project;
  await recordEvent(tx, {
    id: timeOrderedId(ctx.runtime),
    projectId,
    key: 'svc.project.onboarded',
    dedupHash: null,
    raw: null,
    payload: JSON.stringify({ project: { id, slug, name } }),
    receivedAt: now,
  });
}

/** Events of an apply that failed; its own transaction is gone, so this is another. */
export async function recordFailed(
  ctx: FlowContext,
  tx: Sql,
  entry: ApplyRecord,
  error: { readonly name: string; readonly message: string },
): Promise<void> {
  await record(ctx, tx, entry, 'started', payloadOf(entry), entry.startedAt);
  await record(ctx, tx, entry, 'failed', payloadOf(entry, error), ctx.runtime.now());
  await enqueueRouting(tx, ctx.ingest, [entry.plan.request.projectId]);
}

/** The error of a failed apply as its event tells it: the first mistake, and how many there are. */
export function errorOf(diagnostics: readonly Diagnostic[]): { name: string; message: string } {
  const errors = diagnostics.filter((item) => item.severity === 'error');
  const [first] = errors;
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : '';
  return { name: first?.code ?? 'invalid', message: `${first?.message ?? 'The tree does not compile'}${more}` };
}

/** The state of a source that answers. */
export const clearedCondition = { failures: 0, condition: null, conditionDetail: null, conditionSince: null };

/** What a run is of, as far as it is known: recorded so that the run can be explained and repeated. */
export function subjectOf(
  { repository }: Pick<SyncTask, 'repository'>,
  resolved?: Resolved,
  files?: TreeFiles,
  lock?: TemplateLock,
): RunSubject {
  return {
    commit: resolved?.tip.commit ?? null,
    hash: resolved?.hash ?? '',
    inputs: {
      generation: repository.generation,
      hash: resolved?.hash ?? '',
      context: resolved?.context ?? {},
      templateLock: lock ?? resolved?.repeated?.lock ?? {},
      ...(files !== undefined && {
        snapshotId: files.snapshotId,
        rootTree: files.record.rootTree,
        svcTree: files.record.svcTree,
      }),
    },
  };
}

/** What the last run says that tells how the repository stands. */
export async function lastStatus({ ctx, repository }: Pick<SyncTask, 'ctx' | 'repository'>) {
  return (await lastRuns(ctx.db, [repository.id])).get(repository.id)?.status;
}

/** What a run that has read its source knows of it; one that repeats stored inputs has asked nobody. */
const sourceState = ({ request }: Pick<SyncTask, 'request'>): Partial<RepositoryState> =>
  request.kind === 'sync' ? clearedCondition : {};

/** The newest commit is what was looked at, but where an earlier one was to come back and could not. */
const seenState = ({ request }: SyncTask, seenCommit: string, seenHash: string): Partial<RepositoryState> =>
  request.kind === 'rollback' ? {} : { seenCommit, seenHash };

/** The state row after a commit has been applied or found to change nothing. */
export function appliedState(
  { ctx, request }: Pick<SyncTask, 'ctx' | 'request'>,
  { tip, hash }: Pick<Resolved, 'tip' | 'hash'>,
  snapshotId: string,
  templateLock: TemplateLock,
): Partial<RepositoryState> {
  return {
    appliedCommit: tip.commit,
    appliedHash: hash,
    appliedAt: ctx.runtime.now(),
    snapshotId,
    templateLock,
    seenCommit: tip.commit,
    // Stored inputs are not those of today: what a rollback applied is compared afresh when the branch moves.
    seenHash: request.kind === 'rollback' ? null : hash,
    ...(tip.ref !== undefined && { refBranch: tip.ref.replace(/^refs\/heads\//, '') }),
    ...sourceState({ request }),
  };
}

export interface AppliedTree {
  readonly resolved: Resolved;
  readonly tree: CompiledTree;
  /** The id of the run where none is open yet: it is opened only when there is something to tell. */
  readonly lazyId: string;
  /** Whether the outcome deserves a run where none is open yet. */
  readonly isNews: (result: ApplyResult) => boolean;
}

/** Moves the run of a sync and its repository's state, in the transaction of the apply. */
export async function reportSync(
  task: SyncTask,
  tx: Sql,
  applied: AppliedTree,
  result: ApplyResult,
  took: readonly StageTiming[],
  last?: () => void,
): Promise<'commit' | 'committed' | 'rollback'> {
  const { ctx, repository, run } = task;
  const { resolved, tree, lazyId } = applied;
  const now = ctx.runtime.now();
  run.notYet();
  if (result.status === 'superseded' || result.status === 'planned') return 'commit';
  const current = { ...resolved, tip: tree.tip };
  const subject = subjectOf(task, current, tree.files, tree.output.templateLock);
  if (run.id === null) {
    if (!applied.isNews(result)) return 'commit';
    try {
      await run.openIn(tx, subject, lazyId);
    } catch (error) {
      if (error instanceof RunConflict || error instanceof LostOwnership) return 'rollback';
      throw error;
    }
  }
  const id = run.id ?? lazyId;
  const patch: RunPatch = {
    commit: tree.tip.commit,
    status: result.status,
    stages: [...run.stages, ...took],
    actions: result.actions,
    consequences: consequencesOf(result),
    webhooks: result.webhooks,
    diagnostics: result.diagnostics,
    inputs: subject.inputs,
    ...(run.about !== undefined && { about: run.about }),
    ...(result.held !== undefined && {
      detail: `${result.held.message}: svc repo approve ${repository.name} ${id}`,
    }),
    ...(result.status === 'failed' && { detail: failureText(result) }),
  };
  const isGood = result.status === 'applied' || result.status === 'unchanged';
  const state = isGood
    ? appliedState(task, current, tree.files.snapshotId, tree.output.templateLock)
    : { ...sourceState(task), ...seenState(task, tree.tip.commit, resolved.hash) };
  const move = await prepareMove({ id, patch, now, heldBy: ctx.daemonId });
  const alongside = (): Promise<void>[] => [
    updateState(tx, repository.id, state, now),
    keepQuarantine(task, tx, tree.tip.commit, isGood),
    askForStatus(tx, repository, tree.tip.commit),
    run.putDown(tx),
  ];
  // One message, the commit with it: where the run is not ours any more, the server commits nothing of it.
  if (last !== undefined && run.id !== null) {
    failpoint('apply.before-commit');
    const asked = [move.runLast(tx), ...alongside()];
    last();
    await Promise.all(asked);
    return 'committed';
  }
  // One message: where the run is not ours any more, all of it is taken back.
  const [isOurs] = await Promise.all([move.run(tx), ...alongside()]);
  if (isOurs) return 'commit';
  run.notYet();
  return 'rollback';
}

/** As a run keeps them. */
export const consequencesOf = ({ consequences, eventImpact }: ApplyResult) => ({
  ...consequences,
  ...(eventImpact && { eventImpact }),
});

function failureText(result: ApplyResult): string {
  const errors = result.diagnostics.filter((item) => item.severity === 'error');
  return `${errors.length} error${errors.length === 1 ? '' : 's'}; nothing was changed, the last good state stays`;
}

/** A rollback sets the commit that it leaves aside; the first newer commit that is seen ends that. */
export async function keepQuarantine(task: SyncTask, tx: Sql, commit: string, isGood: boolean): Promise<void> {
  const { ctx, repository, request } = task;
  const { quarantinedCommit, pinnedCommit, state } = repository;
  const now = ctx.runtime.now();
  if (request.kind === 'rollback') {
    if (isGood) await updateRepository(tx, repository.id, { quarantinedCommit: request.leaves }, now);
    return;
  }
  if (quarantinedCommit === null || pinnedCommit !== null || commit === state.appliedCommit) return;
  await endQuarantine(tx, repository.id, quarantinedCommit, now);
}

/** Says how a run ended. */
export function logOutcome(task: SyncTask, ending: Ending, commit: string | null, ms: number, log: Logger): void {
  const { repository, reason, run } = task;
  const fields = {
    repository: repository.name,
    reconcile: run.id,
    commit,
    reason,
    status: ending.status,
    ms: Math.round(ms),
    ...(ending.patch?.detail !== undefined && { detail: ending.patch.detail }),
    ...(ending.patch?.diagnostics && { diagnostics: ending.patch.diagnostics.length }),
  };
  if (ending.status === 'failed') log.warn(fields, 'repo.sync_failed');
  else if (ending.status === 'held') log.warn(fields, 'repo.held');
  else log.info(fields, 'repo.synced');
  observe(task, ending.status, ms);
}

/** Counts it, and measures it where it left a run. */
export function observe({ ctx }: SyncTask, status: ReconcileStatus, ms: number | undefined): void {
  const { metrics, runtime } = ctx;
  if (ms !== undefined) {
    metrics
      .histogram('svc_sync_duration_seconds', 'Duration of syncs that left a run, by its status', ['status'])
      .observe({ status }, ms / 1000);
  }
  metrics.counter('svc_syncs_total', 'Syncs that were recorded, by status', ['status']).inc({ status });
  if (status !== 'applied' && status !== 'unchanged') return;
  metrics
    .gauge('svc_sync_last_applied_timestamp_seconds', 'When a sync last left the stored state as its source says')
    .set(runtime.now().getTime() / 1000);
}
