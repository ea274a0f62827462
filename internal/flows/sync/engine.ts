// Runs one sync from its row to its end, whatever that end is: what went well, what an author got wrong, a source that
// cannot be read, a run that is not ours any more, and our own mistakes each have one place here.

import type { Logger } from 'pino';
import { RepoCondition } from '../../adapters/repo/repo.ts';
import type { RepoSource, Tip } from '../../adapters/repo/types.ts';
import { pollAt } from '../../adapters/store/repositories/polls.ts';
import {
  moveRun,
  type ReconcileReason,
  type ReconcileStatus,
  runningRun,
} from '../../adapters/store/repositories/reconciles.ts';
import {
  projectOf,
  type Repository,
  repositoryById,
  updateState,
} from '../../adapters/store/repositories/repositories.ts';
import type { FlowContext, ProjectRef } from '../context.ts';
import { enqueueSync } from '../enqueue.ts';
import { apply } from './stage-apply.ts';
import { backOffMs, type SyncRequest } from './decide.ts';
import { compile } from './stage-compile.ts';
import { clearedCondition, resolveAndAssess, resolve, snapshot } from './stage-fetch.ts';
import { openRepository } from './source.ts';
import { askForStatus } from './status.ts';
import { type Ending, finish, LostOwnership, runStages, type Stage, RunConflict, type Work } from './work.ts';

/** The stages of a sync, in order; each may end it. */
export const stages: readonly Stage[] = [resolve, snapshot, compile, apply];

export interface SyncInput {
  readonly repositoryId: string;
  readonly reason: ReconcileReason;
  readonly signal: AbortSignal;
  readonly log: Logger;
}

export type SyncOutcome =
  /** A run ended so. */
  | { readonly kind: 'ended'; readonly status: ReconcileStatus }
  /** Nothing to do, and nothing written. */
  | { readonly kind: 'nothing' }
  /** Another run stands in the way and cannot be judged yet: ask again in a second. */
  | { readonly kind: 'wait' };

/** Work of this process that is under way, so that a run that was lost can be told from one that is slow. */
const active = new Set<Work>();

interface TipHint {
  readonly tip: Tip;
  readonly generation: number;
  readonly until: number;
}

/** What looks of this process have just found, so that the sync they ask for need not ask the server again. */
const spots = new Map<string, TipHint>();
/** A sync that begins later looks for itself. */
const spotMs = 2_000;

function spot(repository: Repository, tip: Tip | null): void {
  const now = performance.now();
  for (const [id, { until }] of spots) if (until < now) spots.delete(id);
  if (tip !== null) spots.set(repository.id, { tip, generation: repository.generation, until: now + spotMs });
}

/** Only for the look's own sync: whoever else asks for one knows of something newer. */
function takeSpot(repository: Repository, reason: ReconcileReason): Tip | null {
  const found = spots.get(repository.id);
  spots.delete(repository.id);
  const isMeant = (reason === 'poll' || reason === 'resync') && repository.url !== null;
  if (found === undefined || !isMeant || found.generation !== repository.generation) return null;
  return found.until < performance.now() ? null : found.tip;
}

function close(work: Work): void {
  active.delete(work);
}

/** Whether a run of this daemon is really being worked on. */
export function isActive(runId: string): boolean {
  return [...active].some((work) => work.opened.has(runId));
}

/** Reads the repository's row afresh and brings the stored state to what its source says (design, section 4). */
export async function syncRepository(ctx: FlowContext, input: SyncInput): Promise<SyncOutcome> {
  const repository = await repositoryById(ctx.db, input.repositoryId);
  if (repository === undefined) return { kind: 'nothing' };
  const project = await projectOf(ctx.db, repository.projectId);
  if (project === undefined) return { kind: 'nothing' };
  const waiting = await runningRun(ctx.db, repository.id);
  const mine = waiting !== undefined && waiting.daemonId === null;
  if (!mine && repository.suspended) return { kind: 'nothing' };
  const work = begin(ctx, project, repository, {
    signal: input.signal,
    reason: mine ? waiting.reason : input.reason,
    request: mine ? (waiting.request as unknown as SyncRequest) : { kind: 'sync' },
    runId: mine ? waiting.id : null,
    spotted: takeSpot(repository, mine ? waiting.reason : input.reason),
  });
  try {
    const isTaken = !mine || (await moveRun(ctx.db, waiting.id, { daemonId: ctx.daemonId }, ctx.runtime.now(), null));
    if (!isTaken) return { kind: 'wait' };
    return await run(work, input.log);
  } finally {
    close(work);
    await work.source.close();
  }
}

/** Opens a source for somebody who watches it. Null where the repository is gone. */
export async function openForWatch(ctx: FlowContext, repositoryId: string): Promise<RepoSource | null> {
  const repository = await repositoryById(ctx.db, repositoryId);
  const project = repository === undefined ? undefined : await projectOf(ctx.db, repository.projectId);
  if (repository === undefined || project === undefined) return null;
  return openRepository(ctx, project, repository);
}

/**
 * One look at a source without a run: asks for a sync where there is something to do. A source that cannot be read is
 * recorded and backed off. Resolves to what the look found.
 */
export async function lookAt(ctx: FlowContext, input: SyncInput): Promise<'nothing' | 'sync' | 'failed'> {
  const repository = await repositoryById(ctx.db, input.repositoryId);
  if (repository === undefined || repository.suspended) return 'nothing';
  const project = await projectOf(ctx.db, repository.projectId);
  if (project === undefined) return 'nothing';
  const { signal, reason, log } = input;
  const work = begin(ctx, project, repository, {
    signal,
    reason,
    request: { kind: 'sync' },
    runId: null,
    spotted: null,
  });
  try {
    await resolveAndAssess(work);
    if (work.verdict?.do === 'nothing') return 'nothing';
    if (work.verdict?.do === 'recover') {
      await updateState(ctx.db, repository.id, clearedCondition, ctx.runtime.now());
      return 'nothing';
    }
    spot(repository, work.tip);
    await enqueueSync(ctx.db, repository.id, reason, ctx.runtime.now());
    return 'sync';
  } catch (error) {
    if (signal.aborted) return 'nothing';
    if (!(error instanceof RepoCondition)) throw error;
    await sourceFailed(work, error, log);
    return 'failed';
  } finally {
    close(work);
    await work.source.close();
  }
}

function begin(
  ctx: FlowContext,
  project: ProjectRef,
  repository: Repository,
  asked: Pick<Work, 'signal' | 'reason' | 'request' | 'runId' | 'spotted'>,
): Work {
  const work: Work = {
    ctx,
    project,
    repository,
    ...asked,
    source: openRepository(ctx, project, repository),
    stages: [],
    tip: null,
    context: {},
    hash: '',
    verdict: null,
    lock: null,
    inputs: null,
    compiled: null,
    opened: new Set(asked.runId === null ? [] : [asked.runId]),
  };
  active.add(work);
  return work;
}

async function run(work: Work, log: Logger): Promise<SyncOutcome> {
  const begun = performance.now();
  try {
    const ending = await runStages(work, stages);
    if (work.runId === null) return { kind: 'nothing' };
    tell(work, ending, performance.now() - begun, log);
    return { kind: 'ended', status: ending.status };
  } catch (error) {
    if (error instanceof LostOwnership) {
      log.info(
        { repository: work.repository.name, reconcile: work.runId, commit: work.tip?.commit },
        'repo.superseded',
      );
      return { kind: 'ended', status: 'superseded' };
    }
    if (error instanceof RunConflict) return { kind: error.verdict === 'wait' ? 'wait' : 'nothing' };
    if (work.signal.aborted) return handBack(work);
    if (error instanceof RepoCondition) {
      await sourceFailed(work, error, log);
      return { kind: 'ended', status: 'failed' };
    }
    await broke(work);
    throw error;
  }
}

/** The daemon drains: the run waits for whoever comes next. */
async function handBack(work: Work): Promise<SyncOutcome> {
  const { db, runtime, daemonId } = work.ctx;
  if (work.runId !== null) await moveRun(db, work.runId, { daemonId: null, stages: [] }, runtime.now(), daemonId);
  await enqueueSync(db, work.repository.id, work.reason, runtime.now());
  return { kind: 'nothing' };
}

/** Our own mistake: the run is closed, so that the next one is not kept waiting, and the source is left alone for a while. */
async function broke(work: Work): Promise<void> {
  const { ctx, repository } = work;
  const failures = repository.state.failures + 1;
  await pause(work, failures, undefined);
  if (work.runId === null) return;
  const detail = 'the sync broke off with an internal error; the log of the daemon has it, and it will be tried again';
  await moveRun(ctx.db, work.runId, { status: 'failed', detail, stages: work.stages }, ctx.runtime.now(), ctx.daemonId);
  await updateState(ctx.db, repository.id, { failures }, ctx.runtime.now());
  await askForStatus(ctx.db, repository, work.tip?.commit);
}

async function pause(work: Work, failures: number, retryAfterMs: number | undefined): Promise<number> {
  const { ctx, repository } = work;
  const random = ctx.runtime.randomBytes(2).readUInt16BE() / 0x1_0000;
  const ms = backOffMs({ failures, intervalMs: repository.intervalSeconds * 1000, random, retryAfterMs });
  await pollAt(ctx.db, repository.id, new Date(ctx.runtime.now().getTime() + ms));
  return ms;
}

/**
 * The source could not be read: its condition is recorded, its back-off grows, the stored state stays. A poll that meets
 * the condition that is known already adds no run.
 */
async function sourceFailed(work: Work, failure: RepoCondition, log: Logger): Promise<void> {
  const { ctx, repository, reason } = work;
  const { state } = repository;
  const known = state.condition === failure.condition;
  const failures = state.failures + 1;
  const retryAfterMs = failure.retryAfterSeconds === undefined ? undefined : failure.retryAfterSeconds * 1000;
  const ending: Ending = {
    status: 'failed',
    silent: known && reason !== 'manual',
    patch: { condition: failure.condition, detail: failure.detail, ...(work.tip && { commit: work.tip.commit }) },
    state: {
      failures,
      condition: failure.condition,
      conditionDetail: failure.detail,
      conditionSince: known ? state.conditionSince : ctx.runtime.now(),
    },
  };
  const backOff = await pause(work, failures, retryAfterMs);
  try {
    await finish(work, ending);
  } catch (error) {
    if (error instanceof LostOwnership || error instanceof RunConflict) return;
    throw error;
  }
  const fields = {
    repository: repository.name,
    reconcile: work.runId,
    condition: failure.condition,
    failures,
    backOff,
  };
  log[ending.silent ? 'debug' : 'warn']({ ...fields, detail: failure.detail }, 'repo.sync_failed');
  observe(work, 'failed', undefined);
}

function tell(work: Work, ending: Ending, ms: number, log: Logger): void {
  const { repository, tip, reason, runId } = work;
  const fields = {
    repository: repository.name,
    reconcile: runId,
    commit: tip?.commit,
    reason,
    status: ending.status,
    ms: Math.round(ms),
    ...(ending.patch?.detail !== undefined && { detail: ending.patch.detail }),
    ...(ending.patch?.diagnostics && { diagnostics: ending.patch.diagnostics.length }),
  };
  if (ending.status === 'failed') log.warn(fields, 'repo.sync_failed');
  else if (ending.status === 'held') log.warn(fields, 'repo.held');
  else log.info(fields, 'repo.synced');
  observe(work, ending.status, ms);
}

function observe(work: Work, status: ReconcileStatus, ms: number | undefined): void {
  const { metrics, runtime } = work.ctx;
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
