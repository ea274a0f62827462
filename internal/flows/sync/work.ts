// One sync as it goes through its stages, and the runner: each stage is timed, each is followed by a write that only
// holds while the run is still ours, and the first that ends the run ends it in one transaction with what was learned.

import type { RepoSource, Tip } from '../../adapters/repo/types.ts';
import type { Sql } from '../../adapters/store/store.ts';
import {
  insertRun,
  moveRun,
  type ReconcileReason,
  type ReconcileStatus,
  type RunPatch,
  runningRun,
  type StageTiming,
} from '../../adapters/store/repositories/reconciles.ts';
import {
  lockRepository,
  type Repository,
  repositoryById,
  type RepositoryState,
  updateState,
} from '../../adapters/store/repositories/repositories.ts';
import type { StoredSnapshot } from '../../adapters/store/repositories/snapshots.ts';
import type { CompileOutput } from '../../core/compile/types.ts';
import type { Bundle, TemplateLock } from '../../domain/bundle.ts';
import type { Diagnostic } from '../../domain/diagnostic.ts';
import type { FlowContext, ProjectRef } from '../context.ts';
import { askForStatus } from './status.ts';
import { type SyncRequest, compareRuns, type Verdict } from './decide.ts';

/** The files that a run compiles, and where they are stored. */
export interface Inputs {
  readonly snapshotId: string;
  /** The files themselves, read when somebody needs them. Rejects with a RepoCondition where they are gone. */
  readonly bundle: () => Promise<Bundle>;
  readonly record: StoredSnapshot;
  /** Remarks of the source on what was read. */
  readonly remarks: readonly Diagnostic[];
}

export interface Work {
  readonly ctx: FlowContext;
  readonly project: ProjectRef;
  readonly repository: Repository;
  readonly source: RepoSource;
  readonly reason: ReconcileReason;
  readonly request: SyncRequest;
  readonly signal: AbortSignal;
  /** Null until there is something to tell: a look that finds nothing new leaves no row. */
  runId: string | null;
  readonly stages: StageTiming[];
  /** The tip that the look which asked for this sync has just found; null asks the source. */
  readonly spotted: Tip | null;
  /** Known after `resolve`. */
  tip: Tip | null;
  context: { readonly [name: string]: string };
  hash: string;
  verdict: Verdict | null;
  /** The lock to repeat; null resolves templates afresh. */
  lock: TemplateLock | null;
  /** Known after `snapshot`. */
  inputs: Inputs | null;
  /** Known after `compile`. */
  compiled: CompileOutput | null;
  /** Ids of its runs, there before they are written, so that nobody takes one for lost. */
  readonly opened: Set<string>;
}

/** How a run ends. `silent` ends a look that found nothing; with a run it is still closed as `unchanged`. */
export interface Ending {
  readonly status: Exclude<ReconcileStatus, 'running'>;
  readonly patch?: RunPatch;
  readonly state?: Partial<RepositoryState>;
  /** Leaves no run where there is none yet: nothing was learned that anyone would want to read. */
  readonly silent?: boolean;
  /** The run was ended already, in the transaction that applied it. */
  readonly closed?: boolean;
  /** More to write in the transaction that ends it. */
  readonly also?: (tx: Sql) => Promise<void>;
}

export interface Stage {
  readonly name: 'resolve' | 'snapshot' | 'compile' | 'apply';
  run(work: Work): Promise<Ending | undefined>;
}

/** The run is not ours any more: superseded, or taken over. Whoever did that goes on; this one stops where it is. */
export class LostOwnership extends Error {
  constructor() {
    super('the run was superseded');
    this.name = 'NotOurs';
  }
}

/** Another run of the repository stands in the way: of the same commit (`leave`), or one that has not looked yet. */
export class RunConflict extends Error {
  readonly verdict: 'leave' | 'wait';

  constructor(verdict: 'leave' | 'wait') {
    super(`another run is under way: ${verdict}`);
    this.name = 'StandAside';
    this.verdict = verdict;
  }
}

/** What is recorded so that a run can be explained and repeated. */
export function recordedInputs(work: Work): { readonly [key: string]: unknown } {
  const { inputs, repository } = work;
  return {
    generation: repository.generation,
    hash: work.hash,
    context: work.context,
    templateLock: work.compiled?.templateLock ?? work.lock ?? {},
    ...(inputs !== null && {
      snapshotId: inputs.snapshotId,
      rootTree: inputs.record.rootTree,
      svcTree: inputs.record.svcTree,
    }),
  };
}

/**
 * Gives the work a run, superseding one of another commit or of older settings. Throws `StandAside` where the one
 * under way will do, or cannot be judged yet. Does nothing where the work has one.
 */
export async function ensureRun(work: Work): Promise<void> {
  if (work.runId !== null) return;
  const id = await work.ctx.db.tx((tx) => openRun(work, tx));
  work.runId = id;
}

/** `ensureRun` inside a transaction; the caller remembers the id once that has committed. */
export async function openRun(work: Work, tx: Sql, id = work.ctx.runtime.uuid()): Promise<string> {
  const { ctx, repository, tip } = work;
  const now = ctx.runtime.now();
  const commit = tip?.commit ?? null;
  work.opened.add(id);
  if ((await lockRepository(tx, repository.id)) === undefined) throw new LostOwnership();
  // The run first, then the state: a run ends without this lock, and both are written at once, so whoever finds none
  // running also finds what the last one saw.
  const running = await runningRun(tx, repository.id);
  const fresh = await repositoryById(tx, repository.id);
  if (fresh === undefined) throw new LostOwnership();
  // Somebody else has seen this commit to its end since the row was read.
  const { state } = fresh;
  const isDone = state.seenCommit !== repository.state.seenCommit || state.seenHash !== repository.state.seenHash;
  const isAutomatic = work.reason !== 'manual' && work.reason !== 'resync';
  if (isAutomatic && isDone && state.seenCommit === commit && state.seenHash === work.hash)
    throw new RunConflict('leave');
  if (running !== undefined) {
    const generation = Number(running.inputs['generation'] ?? 0);
    const seen = { commit: running.commit, generation };
    const verdict = compareRuns({ running: seen, commit: commit ?? '', generation: repository.generation });
    if (verdict !== 'supersede') throw new RunConflict(verdict);
    await moveRun(tx, running.id, { status: 'superseded', detail: `superseded by commit ${commit ?? 'unknown'}` }, now);
  }
  await insertRun(tx, {
    id,
    projectId: repository.projectId,
    repositoryId: repository.id,
    repositoryName: repository.name,
    commit,
    reason: work.reason,
    daemonId: ctx.daemonId,
    startedAt: now,
    request: { ...work.request },
    inputs: recordedInputs(work),
  });
  return id;
}

/** Writes how far the run has come. Throws `NotOurs` where it is not ours any more. */
export async function touch(work: Work, patch: RunPatch = {}): Promise<void> {
  if (work.runId === null) return;
  const { db, runtime, daemonId } = work.ctx;
  const held = await moveRun(db, work.runId, { ...patch, stages: work.stages }, runtime.now(), daemonId);
  if (!held) throw new LostOwnership();
}

/** Ends the run and writes what was learned, in one transaction. */
export async function finish(work: Work, ending: Ending): Promise<void> {
  if (ending.closed) return;
  const { ctx, repository } = work;
  if (ending.silent && work.runId === null && ending.state === undefined) return;
  if (!ending.silent) await ensureRun(work);
  await ctx.db.tx(async (tx) => {
    if (work.runId !== null) {
      const patch: RunPatch = {
        ...ending.patch,
        status: ending.status,
        stages: work.stages,
        inputs: recordedInputs(work),
      };
      if (!(await moveRun(tx, work.runId, patch, ctx.runtime.now(), ctx.daemonId))) throw new LostOwnership();
      if (!ending.silent) await askForStatus(tx, repository, patch.commit ?? work.tip?.commit);
    }
    if (ending.state !== undefined) await updateState(tx, repository.id, ending.state, ctx.runtime.now());
    await ending.also?.(tx);
  });
}

/** Runs the stages in order until one ends the run. `tell` hears of each ending that was written. */
export async function runStages(work: Work, stages: readonly Stage[]): Promise<Ending> {
  for (const stage of stages) {
    const begun = performance.now();
    const ending = await stage.run(work);
    work.stages.push({ name: stage.name, ms: Math.round((performance.now() - begun) * 10) / 10 });
    if (ending === undefined) {
      await touch(work);
      continue;
    }
    await finish(work, ending);
    return ending;
  }
  throw new Error('the last stage of a sync must end it');
}
