// How a sync that could not do its work ends, and how every one is told to the log and to the metrics.

import type { Logger } from 'pino';
import type { RepoCondition } from '../../adapters/repo/repo.ts';
import { backOff } from '../../adapters/store/repositories/polls.ts';
import type { ReconcileStatus } from '../../adapters/store/repositories/reconciles.ts';
import { updateState } from '../../adapters/store/repositories/repositories.ts';
import { askForStatus } from './codehost.ts';
import { backOffMs } from './decide.ts';
import type { HostHealth } from './host-health.ts';
import { type Ending, LostOwnership, RunConflict, type RunSubject } from './run-record.ts';
import { hostOf } from './source.ts';
import type { SyncTask } from './take-in-hand.ts';

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
  if (repository.url !== null) await health.failed(hostOf(repository), repository.id, failure);
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

/** Our own mistake: the run is closed, so that the next one is not kept waiting, and the source is left alone for a while. */
export async function broke(task: SyncTask, subject: RunSubject): Promise<void> {
  const { ctx, repository, run } = task;
  const failures = repository.state.failures + 1;
  await pause(task, failures, undefined);
  await updateState(ctx.db, repository.id, { failures }, ctx.runtime.now());
  const detail = 'the sync broke off with an internal error; the log of the daemon has it, and it will be tried again';
  if (await run.close('failed', detail)) await askForStatus(ctx.db, repository, subject.commit);
}

async function pause({ ctx, repository }: SyncTask, failures: number, retryAfterMs: number | undefined) {
  const random = ctx.runtime.randomBytes(2).readUInt16BE() / 0x1_0000;
  const ms = backOffMs({ failures, intervalMs: repository.intervalSeconds * 1000, random, retryAfterMs });
  await backOff(ctx.db, repository.id, ms);
  return ms;
}

/** Says how a run ended. */
export function tellOutcome(task: SyncTask, ending: Ending, commit: string | null, ms: number, log: Logger): void {
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

function observe({ ctx }: SyncTask, status: ReconcileStatus, ms: number | undefined): void {
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
