// One sync to its end, whatever that is: resolve, snapshot, compile, then plan, guard, apply and report in one transaction
// (apply.ts). What went well, an author's mistakes, unreadable sources, lost runs and our own mistakes: one place each.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { RepoCondition } from '../../adapters/repo/repo.ts';
import { backOff, wishSync } from '../../adapters/store/repositories/polls.ts';
import type { ReconcileStatus } from '../../adapters/store/repositories/reconciles.ts';
import { updateState } from '../../adapters/store/repositories/repositories.ts';
import { failpoint } from '../../base/failpoint.ts';
import { lackText } from '../../base/machine-lack.ts';
import type { Diagnostic } from '../../domain/diagnostic.ts';
import { Fault } from '../../domain/fault.ts';
import { applyPlan } from './apply.ts';
import { compile, type CompiledTree } from './compile.ts';
import { backOffMs, type HostHealth, HostPaused, serverOf } from './source.ts';
import type { ApplyRequest, ApplyResult } from './plan.ts';
import {
  appliedState,
  clearedCondition,
  keepQuarantine,
  lastStatus,
  logOutcome,
  observe,
  reportSync,
  subjectOf,
} from './report.ts';
import { resolve, type Resolved } from './resolve.ts';
import { askForStatus, type Ending, isLost, LostOwnership, RunConflict, type RunSubject } from './run-record.ts';
import { remarksOnSlugs } from './slugs.ts';
import { snapshot, type SnapshotResult } from './snapshot.ts';
import { withSuspicion, type SyncTask } from './task.ts';

export type SyncOutcome =
  /** A run ended so. `isUnread`: its source could not be read. */
  | { readonly kind: 'ended'; readonly status: ReconcileStatus; readonly isUnread?: true }
  /** Nothing to do, and nothing written. `isUnread`: as far as is known, for its server is left alone. */
  | { readonly kind: 'nothing'; readonly isUnread?: true }
  /** Another run stands in the way and cannot be judged yet: ask again in a second. */
  | { readonly kind: 'wait' };

/** Why a run ends that something newer overtakes; the reason of its signal. */
export class Superseded extends Error {
  readonly isByHand: boolean;

  constructor({ reason, hint }: { readonly reason: string; readonly hint: string | null }) {
    const isByHand = reason === 'manual';
    super(`superseded by a newer wish: ${isByHand ? reason : (hint ?? reason)}`);
    this.name = 'Superseded';
    this.isByHand = isByHand;
  }
}

export interface RunOptions {
  readonly log: Logger;
  readonly health: HostHealth;
  /** From here on the run is not ended any more by what is newer: it is about to change something. */
  readonly onApply: () => void;
}

const actor = { kind: 'system', id: null, name: 'repository-sync' } as const;
/** For how long a project's lock is waited for, and how long between two tries. */
const lockWait = { totalMs: 120_000, pauseMs: 300 } as const;

/** Runs the stages, as far as its past allows. Throws only what is our own mistake, after it has been recorded. */
export async function runSync(task: SyncTask, options: RunOptions): Promise<SyncOutcome> {
  let isQuiet = false;
  const act = (): Promise<SyncOutcome> => runStages(task, options, () => (isQuiet = true));
  const isOver = ({ kind }: SyncOutcome): boolean => kind === 'ended' || isQuiet;
  return (await withSuspicion(task, subjectOf(task), act, isOver)) ?? { kind: 'ended', status: 'failed' };
}

/** `onQuiet` hears that the sync found nothing to do. */
async function runStages(task: SyncTask, options: RunOptions, onQuiet: () => void): Promise<SyncOutcome> {
  const { run, repository } = task;
  const { log } = options;
  const begun = performance.now();
  const progress = { subject: subjectOf(task) };
  try {
    const ending = await stages(task, options, progress);
    if (run.id === null) {
      onQuiet();
      return { kind: 'nothing' };
    }
    logOutcome(task, ending, progress.subject.commit, performance.now() - begun, log);
    return { kind: 'ended', status: ending.status };
  } catch (error) {
    // Whatever the end of its reading looks like: a run that was overtaken is not handed back, and asks for nothing anew.
    const by = task.signal.reason instanceof Superseded ? task.signal.reason : error;
    // The wish may be that of this very run, which a sync for another reason has taken along before: what takes the run's place
    // ends it by itself, so that it goes on where nothing has.
    if (by instanceof Superseded && by.isByHand && task.reason === 'manual' && (await run.handBack()))
      return { kind: 'nothing' };
    if (by instanceof Superseded || (await isLost(task, error))) {
      const reason = by instanceof Superseded ? by.message : 'superseded';
      await run.close('superseded', reason);
      log.info({ repository: repository.name, reconcile: run.id, commit: progress.subject.commit }, 'repo.superseded');
      return { kind: 'ended', status: 'superseded' };
    }
    if (error instanceof RunConflict) return { kind: error.verdict === 'wait' ? 'wait' : 'nothing' };
    if (error instanceof HostPaused) return { kind: 'nothing', isUnread: true };
    if (task.signal.aborted) return handBack(task);
    if (error instanceof RepoCondition) {
      await sourceFailed(task, progress.subject, error, options);
      return { kind: 'ended', status: 'failed', isUnread: true };
    }
    await recordBroken(task, progress.subject, error);
    throw error;
  }
}

async function stages(task: SyncTask, options: RunOptions, progress: { subject: RunSubject }): Promise<Ending> {
  const { run, repository, signal } = task;
  const finish = async (ending: Ending): Promise<Ending> => {
    await run.end(ending, progress.subject);
    return ending;
  };
  // What was never read is read now, and compiled next: the worker starts while the source answers.
  if (repository.state.snapshotId === null) task.ports.warmCompiler();
  let resolved = await run.timed('resolve', () => resolve(task));
  progress.subject = subjectOf(task, resolved);
  // A commit that is pinned, or repeated, was asked of nobody.
  if (resolved.tip.ref !== undefined) await options.health.reached(serverOf(repository));
  failpoint('sync.resolved');
  const early = withoutReading(task, resolved);
  if (early !== undefined) return finish(early);
  const isQuiet = task.reason === 'resync' && repository.state.seenCommit === resolved.tip.commit;
  // The periodic comparison of a commit that was seen already leaves a row only when it finds something.
  if (!isQuiet) await run.open(progress.subject);
  const isStored = task.ports.compiled.snapshotOf(repository.id, repository.state.snapshotId ?? '');
  const isApplied = isStored !== undefined && repository.state.appliedCommit === resolved.tip.commit;
  // Where nothing has to be read, the end of the run says all of it a moment later.
  if (isApplied) run.isOf(resolved.tip.commit);
  else await run.move({ commit: resolved.tip.commit, inputs: progress.subject.inputs });
  if (run.id !== null) await askForStatus(task.ctx.db, repository, resolved.tip.commit);

  let read = await run.timed('snapshot', () => snapshotUnlessGone(task, resolved));
  if (read instanceof RepoCondition) {
    const gone = read;
    resolved = await run.timed('resolve', () => resolveAgain(task, resolved, gone));
    progress.subject = subjectOf(task, resolved);
    await run.move({ commit: resolved.tip.commit, inputs: progress.subject.inputs });
    await askForStatus(task.ctx.db, repository, resolved.tip.commit);
    read = await run.timed('snapshot', () => snapshot(task, resolved));
  }
  // A commit that touches nothing that compile reads: its id is all there is to record.
  if (read.kind === 'same-trees') return finish(sameTrees(task, resolved, read.snapshotId));
  signal.throwIfAborted();
  const tree = await run.timed('compile', () => compile(task, resolved, read));
  progress.subject = subjectOf(task, { ...resolved, tip: tree.tip }, tree.files, tree.output.templateLock);
  // A commit that failed before, and fails again: nobody needs to read that every time.
  if (isQuiet && run.id === null && !tree.output.ok && (await lastStatus(task)) === 'failed')
    return finish({ status: 'failed', silent: true });
  return applyTree(task, options, resolved, tree);
}

/** The condition itself where a branch had the commit a moment ago and its server has it no more: somebody pushed by force. */
async function snapshotUnlessGone(task: SyncTask, resolved: Resolved): Promise<SnapshotResult | RepoCondition> {
  try {
    return await snapshot(task, resolved);
  } catch (error) {
    const isOfBranch = resolved.repeated === null && task.repository.pinnedCommit === null && task.run.id !== null;
    if (isOfBranch && error instanceof RepoCondition && error.condition === 'ref-missing') return error;
    throw error;
  }
}

/** What the branch has instead. Throws the condition where it still names what is gone, or a commit to pass over. */
async function resolveAgain(task: SyncTask, { tip }: Resolved, gone: RepoCondition): Promise<Resolved> {
  const again = await resolve(task);
  if (again.tip.commit === tip.commit || again.verdict.do === 'pass-over') throw gone;
  return { ...again, verdict: { do: 'sync', prior: false } };
}

/** What a tip says by itself. */
function withoutReading({ repository }: SyncTask, { tip, verdict, hash }: Resolved): Ending | undefined {
  switch (verdict.do) {
    case 'nothing':
      return { status: 'unchanged', silent: true };
    case 'recover':
      return { status: 'unchanged', silent: true, state: clearedCondition };
    case 'pass-over':
      return {
        status: 'quarantined',
        patch: {
          commit: tip.commit,
          detail: `commit ${tip.commit} was left by a rollback; the next newer commit is synced by itself, this one after: svc repo release ${repository.name}`,
        },
        state: { ...clearedCondition, seenCommit: tip.commit, seenHash: hash },
      };
    case 'sync':
      return undefined;
  }
}

function sameTrees(task: SyncTask, resolved: Resolved, snapshotId: string): Ending {
  const inputs = { ...subjectOf(task, resolved).inputs, snapshotId };
  return {
    status: 'unchanged',
    patch: { commit: resolved.tip.commit, inputs },
    state: appliedState(task, resolved, snapshotId, task.repository.state.templateLock),
    also: (tx) => keepQuarantine(task, tx, resolved.tip.commit, true),
  };
}

async function applyTree(task: SyncTask, options: RunOptions, resolved: Resolved, tree: CompiledTree): Promise<Ending> {
  const { ctx, run, repository, signal } = task;
  failpoint('sync.before-apply');
  const request = requestOf(task, tree, await remarksOnSlugs(task.ports, tree.output));
  const wasGood = await lookedGood(task);
  if (await failsAgain(task, tree, request)) return { status: 'failed', silent: true };
  const lazyId = ctx.runtime.uuid();
  const isNews = ({ status }: ApplyResult): boolean => {
    if (status === 'applied' || status === 'failed') return true;
    // What failed before and is well now is told, or it would look failed for ever.
    if (status === 'unchanged') return !wasGood;
    return status === 'held' && repository.state.seenCommit !== tree.tip.commit;
  };
  const isLazy = run.id === null;
  const finish: NonNullable<ApplyRequest['finish']> = (tx, result, took, last) =>
    reportSync(task, tx, { resolved, tree, lazyId, isNews }, result, took, last);
  const result = await task.ports.applying(
    repository.projectId,
    async () => {
      signal.throwIfAborted();
      options.onApply();
      return patiently(() => applyPlan(ctx, { ...request, operationId: run.id ?? lazyId, finish }));
    },
    { urgent: task.reason === 'manual', signal },
  );
  run.committed();
  failpoint('sync.after-apply');
  if (result.status === 'planned') throw new Error('a real apply answered as a dry run');
  if (result.status === 'superseded') {
    await superseded(task);
    return { status: 'superseded' };
  }
  if (isLazy && isNews(result)) run.opened(lazyId);
  return {
    status: result.status,
    patch: { diagnostics: result.diagnostics, ...(result.held && { detail: result.held.message }) },
  };
}

function requestOf(
  task: SyncTask,
  { tip, files, output }: CompiledTree,
  remarks: readonly Diagnostic[],
): Omit<ApplyRequest, 'operationId'> {
  const { repository, request } = task;
  const { catalog } = task.catalog;
  const { compiled } = task.ports;
  return {
    projectId: repository.projectId,
    owner: { kind: 'repository', repositoryId: repository.id, fence: repository.fence },
    compiled: { ...output, diagnostics: [...output.diagnostics, ...files.remarks, ...remarks] },
    hasSvc: files.record.hasSvc,
    fileBytes: async (path) => (await files.bundle()).entries.get(path)?.bytes,
    prune: true,
    adopt: repository.adopt,
    dryRun: false,
    guard: request.kind === 'sync' ? repository.guard : 'off',
    // Rows that are gone are missed by any plan; reading every spec back is the periodic comparison's work.
    verify: task.reason === 'resync',
    commit: tip.commit,
    actor,
    shippedAvatars: catalog.avatars,
    memo: {
      get: () => compiled.planOf(repository.id, output),
      set: (plan) => compiled.keepPlan(repository.id, output, plan),
    },
  };
}

/** Whether nothing is to be taken back by a run that finds everything as it should be. */
async function lookedGood(task: SyncTask): Promise<boolean> {
  if (task.run.id !== null) return true;
  if (task.repository.state.condition !== null) return false;
  return !['failed', 'held'].includes((await lastStatus(task)) ?? '');
}

/** The periodic comparison of a commit that failed or is held: planned first, so that the same answer records nothing. */
async function failsAgain(
  task: SyncTask,
  { tip }: CompiledTree,
  request: Omit<ApplyRequest, 'operationId'>,
): Promise<boolean> {
  const { ctx, run, repository } = task;
  if (run.id !== null || repository.state.seenCommit !== tip.commit) return false;
  if ((await lastStatus(task)) !== 'failed') return false;
  const { status } = await applyPlan(ctx, { ...request, operationId: ctx.runtime.uuid(), dryRun: true });
  return status === 'failed';
}

/** A sync has time to wait for its project's lock: whoever holds it is asked again after a moment. */
async function patiently<T>(apply: () => Promise<T>): Promise<T> {
  const end = performance.now() + lockWait.totalMs;
  for (;;) {
    try {
      return await apply();
    } catch (error) {
      const isBusy = error instanceof Fault && error.code === 'busy';
      if (!isBusy || performance.now() > end) throw error;
      await sleep(lockWait.pauseMs);
    }
  }
}

/** The settings changed under the run, or another one took its place: whoever did that has asked for what comes next. */
async function superseded({ run }: SyncTask): Promise<void> {
  await run.close('superseded', 'superseded: the settings of the repository changed, or a newer sync began');
}

/** The daemon drains: the run waits for whoever comes next. */
async function handBack({ ctx, repository, reason, run }: SyncTask): Promise<SyncOutcome> {
  await run.handBack();
  await wishSync(ctx.db, { repositoryId: repository.id, reason });
  return { kind: 'nothing' };
}

/**
 * The source could not be read: its condition is recorded, its back-off grows, the stored state stays. A poll that meets
 * the condition that is known already adds no run.
 */
export async function sourceFailed(
  task: SyncTask,
  subject: RunSubject,
  failure: RepoCondition,
  { log, health }: { readonly log: Logger; readonly health: HostHealth },
): Promise<void> {
  const { ctx, repository, reason, run } = task;
  const { state } = repository;
  const { condition, detail } = failure;
  const isKnown = state.condition === condition;
  const failures = state.failures + 1;
  const ending: Ending = {
    status: 'failed',
    silent: isKnown && reason !== 'manual',
    patch: { condition, detail, ...(subject.commit !== null && { commit: subject.commit }) },
    state: {
      failures,
      condition,
      conditionDetail: detail,
      conditionSince: isKnown ? state.conditionSince : ctx.runtime.now(),
    },
  };
  if (repository.url !== null) await health.failed(serverOf(repository), repository.id, failure);
  const retryAfterMs = failure.retryAfterSeconds === undefined ? undefined : failure.retryAfterSeconds * 1000;
  const paused = await pause(task, failures, retryAfterMs);
  try {
    await run.end(ending, subject);
  } catch (error) {
    if (error instanceof LostOwnership || error instanceof RunConflict) return;
    throw error;
  }
  const fields = { repository: repository.name, reconcile: run.id, condition, failures, backOff: paused, detail };
  log[ending.silent ? 'debug' : 'warn'](fields, 'repo.sync_failed');
  observe(task, 'failed', undefined);
}

/**
 * Our own mistake, or what the machine lacks: the run is closed, so that the next one is not kept waiting, and the source is left
 * alone for a while.
 */
async function recordBroken(task: SyncTask, subject: RunSubject, error: unknown): Promise<void> {
  const { ctx, repository, run } = task;
  const failures = repository.state.failures + 1;
  await pause(task, failures, undefined);
  await updateState(ctx.db, repository.id, { failures }, ctx.runtime.now());
  const lack = lackText(error, ctx.config.dataDir);
  const why = lack === undefined ? 'with an internal error; the log of the daemon has it' : `because ${lack}`;
  const detail = `the sync broke off ${why}, and it will be tried again`;
  if (await run.close('failed', detail)) await askForStatus(ctx.db, repository, subject.commit);
}

async function pause({ ctx, repository }: SyncTask, failures: number, retryAfterMs: number | undefined) {
  const random = ctx.runtime.randomBytes(2).readUInt16BE() / 0x1_0000;
  const ms = backOffMs({ failures, intervalMs: repository.intervalSeconds * 1000, random, retryAfterMs });
  await backOff(ctx.db, repository.id, ms);
  return ms;
}
