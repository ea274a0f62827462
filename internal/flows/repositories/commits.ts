// What people do about the commits of a repository: keep it at one (pin), go back to an earlier one and leave the present
// one aside (roll back), take that back (release), let a held one through (approve). A rollback repeats the stored inputs
// of an earlier commit, an approval those of a held run.

import {
  appliedBefore,
  appliedRun,
  commitsStarting,
  hasNewerRun,
  noteApproved,
  type ReconcileRow,
  runById,
} from '../../adapters/store/repositories/reconciles.ts';
import {
  type Repository,
  repositoryInHand,
  updateRepository,
  updateState,
} from '../../adapters/store/repositories/repositories.ts';
import type { Sql } from '../../adapters/store/store.ts';
import { Fault } from '../../domain/fault.ts';
import type { TemplateLock } from '../../domain/bundle.ts';
import { RepoCondition } from '../../adapters/repo/repo.ts';
import { requireVersion } from '../../domain/version.ts';
import { catalogOf, type FlowContext } from '../context.ts';
import { type ApplyResult, decidesAsFor, planCommit } from '../sync/sync.ts';
import {
  audit,
  type Caller,
  endRun,
  findRepository,
  lockNamed,
  repositoryVersion,
  requireAwake,
  startRun,
} from './settings.ts';

/**
 * Keeps the repository at one commit, also when the branch moves; null lets it follow the branch again. Throws `conflict`
 * for null while it is suspended.
 */
export async function setPin(
  ctx: FlowContext,
  caller: Caller,
  name: string,
  commit: string | null,
): Promise<{ reconcileId: string }> {
  return ctx.db.tx(async (tx) => {
    const repository = await lockNamed(tx, caller, name);
    // What would be applied is what the branch holds by then, and no commit that somebody named.
    if (commit === null) requireAwake(repository);
    const pinned = commit === null ? null : await pinnable(tx, repository, commit);
    await updateRepository(tx, repository.id, { pinnedCommit: pinned }, ctx.runtime.now());
    await audit(tx, caller, pinned === null ? 'repository.unpinned' : 'repository.pinned', name, { commit: pinned });
    const act = pinned === null ? 'unpin' : 'pin';
    return { reconcileId: await startRun(ctx, tx, repository, { kind: 'sync', act }, null) };
  });
}

async function pinnable(sql: Sql, repository: Repository, commit: string): Promise<string> {
  const isFolder = repository.path !== null && repository.branch === null;
  if (!isFolder) return fullCommit(sql, repository, commit);
  const text = 'a folder has no commits to pin; name a branch to follow its repository';
  throw new Fault('invalid', 'invalid-body', text);
}

/** The beginning of an id means a commit that has had a run; a whole one may be any. */
async function fullCommit(tx: Sql, repository: Repository, commit: string): Promise<string> {
  if (/^[0-9a-f]{40}([0-9a-f]{24})?$/.test(commit)) return commit;
  const known = await commitsStarting(tx, repository.id, commit);
  if (known.length === 1 && known[0] !== undefined) return known[0];
  throw known.length === 0 ? notOne('no run of this repository had', commit) : severalBegin(commit);
}

const notOne = (what: string, commit: string): Fault =>
  new Fault('invalid', 'invalid-body', `commit: ${what} ${commit}; give the full id`);
const severalBegin = (commit: string): Fault => notOne('several commits begin with', commit);

/** The run to go back to. Throws Fault `invalid` for the beginning of more than one commit that was applied. */
async function namedRun(sql: Sql, repositoryId: string, commit: string): Promise<ReconcileRow | undefined> {
  const known = await commitsStarting(sql, repositoryId, commit, 'applied');
  if (known.length > 1) throw severalBegin(commit);
  return appliedRun(sql, repositoryId, commit);
}

export interface RolledBack {
  readonly reconcileId: string;
  /** The commit that runs now, and the one that is to. */
  readonly from: string | null;
  readonly to: string;
  readonly commit: string;
}

/**
 * Re-applies the inputs of an earlier commit and, when that has succeeded, quarantines the commit it leaves. Without a
 * commit it goes from the one that is applied to what was applied before it; where the newest commit is not the applied
 * one there is nothing to leave, and it throws `conflict`, as where no such commit was applied or its inputs are gone.
 */
export async function rollBack(
  ctx: FlowContext,
  caller: Caller,
  name: string,
  commit: string | undefined,
): Promise<RolledBack> {
  return ctx.db.tx(async (tx) => {
    const { id } = await lockNamed(tx, caller, name);
    // Before it is asked what runs: what is just ending by itself has applied another commit.
    await endRun(ctx, tx, id);
    const repository = await lockNamed(tx, caller, name);
    const { from, to, leaves, run } = await aimOf(tx, repository, commit);
    const reconcileId = await startRun(ctx, tx, repository, { kind: 'rollback', from: run.id, leaves }, to, null);
    await audit(tx, caller, 'repository.rolled_back', name, { from, to, leaves });
    return { reconcileId, from, to, commit: to };
  });
}

/** Where a rollback goes from a repository as it is. Faults as `rollBack`. */
async function aimOf(sql: Sql, repository: Repository, commit: string | undefined) {
  const { quarantinedCommit, name } = repository;
  const { appliedCommit: from } = repository.state;
  if (repository.pinnedCommit !== null) {
    const text = `repository ${name} is pinned; unpin it first, or pin the other commit`;
    throw new Fault('conflict', 'repository-pinned', text);
  }
  const run = commit === undefined ? await runBefore(sql, repository) : await namedRun(sql, repository.id, commit);
  if (run === undefined || run.commit === null) throw nothingToRollBack(repository, commit);
  const to = run.commit;
  // The commit that is left is the one that the branch holds: a second step back does not let go of it.
  const leaves = to === quarantinedCommit ? null : (quarantinedCommit ?? (to === from ? null : from));
  return { from, to, leaves, run };
}

export interface PlannedCommit {
  readonly result: ApplyResult;
  readonly to: string;
  /** The commit that would be set aside. */
  readonly leaves: string | null;
}

type Asking = Pick<Caller, 'project' | 'condition'>;

async function asAskedFor(ctx: FlowContext, { project, condition = {} }: Asking, name: string): Promise<Repository> {
  const repository = await findRepository(ctx.db, project, name);
  requireVersion(condition, repositoryVersion(repository));
  return repository;
}

/** What a rollback would change. Faults as `rollBack`. */
export async function planOfRollback(
  ctx: FlowContext,
  caller: Asking,
  name: string,
  commit: string | undefined,
  signal: AbortSignal,
): Promise<PlannedCommit> {
  const repository = await asAskedFor(ctx, caller, name);
  const { to, leaves, run } = await aimOf(ctx.db, repository, commit);
  const { snapshotId, context, templateLock } = run.inputs;
  const inputs = {
    snapshotId: typeof snapshotId === 'string' ? snapshotId : undefined,
    context: (context ?? {}) as { readonly [name: string]: string },
    lock: (templateLock ?? {}) as TemplateLock,
  };
  return { result: await planned(ctx, { repositoryId: repository.id, commit: to, signal, inputs }), to, leaves };
}

/** What pinning a commit would change. Faults as `setPin`; `unavailable` where the commit cannot be read. */
export async function planOfCommit(
  ctx: FlowContext,
  caller: Asking,
  name: string,
  commit: string,
  signal: AbortSignal,
): Promise<PlannedCommit> {
  const repository = await asAskedFor(ctx, caller, name);
  const to = await pinnable(ctx.db, repository, commit);
  return { result: await planned(ctx, { repositoryId: repository.id, commit: to, signal }), to, leaves: null };
}

async function planned(ctx: FlowContext, of: Parameters<typeof planCommit>[1]): Promise<ApplyResult> {
  try {
    const plan = await planCommit(ctx, { ...of, isSuspendedToo: true });
    if (plan !== undefined) return plan.result;
  } catch (error) {
    if (!(error instanceof RepoCondition)) throw error;
    throw new Fault('conflict', 'commit-unreadable', `commit ${of.commit} cannot be read: ${error.message}`);
  }
  throw new Fault('not_found', 'repository-not-found', 'the repository is gone');
}

/** The run whose state the applied commit took the place of. Throws `conflict` where the newest commit is not applied. */
async function runBefore(tx: Sql, repository: Repository): Promise<ReconcileRow | undefined> {
  const { quarantinedCommit, state } = repository;
  const { appliedCommit, seenCommit } = state;
  const isHead = seenCommit === appliedCommit || seenCommit === quarantinedCommit;
  if (appliedCommit === null || !isHead) throw nothingToRollBack(repository, undefined);
  return appliedBefore(tx, repository.id, { commit: appliedCommit, except: quarantinedCommit });
}

function nothingToRollBack({ name, state }: Repository, commit: string | undefined): Fault {
  const { appliedCommit, seenCommit } = state;
  const runs = appliedCommit === null ? 'nothing of it runs' : `commit ${appliedCommit} runs`;
  const why =
    commit !== undefined
      ? `commit ${commit} of ${name} was never applied, or its inputs are not kept any more`
      : seenCommit !== appliedCommit && seenCommit !== null
        ? `the newest commit of ${name}, ${seenCommit}, is not applied`
        : `no earlier commit of ${name} was applied, or its inputs are not kept any more`;
  return new Fault('conflict', 'nothing-to-roll-back', `${why}; ${runs}`);
}

/** Lets the commit go that a rollback set aside: it is synced again. Throws `conflict` where none is, or it is suspended. */
export async function release(ctx: FlowContext, caller: Caller, name: string): Promise<{ reconcileId: string }> {
  return ctx.db.tx(async (tx) => {
    const repository = await lockNamed(tx, caller, name);
    const { quarantinedCommit } = repository;
    if (quarantinedCommit === null) {
      throw new Fault('conflict', 'nothing-quarantined', `no commit of repository ${name} is set aside`);
    }
    requireAwake(repository);
    const now = ctx.runtime.now();
    await updateRepository(tx, repository.id, { quarantinedCommit: null }, now);
    await updateState(tx, repository.id, { seenHash: null }, now);
    await audit(tx, caller, 'repository.released', name, { commit: quarantinedCommit });
    return { reconcileId: await startRun(ctx, tx, repository, { kind: 'sync', act: 'release' }, null) };
  });
}

/**
 * Applies a held run's inputs without the guard. Throws `conflict` where it is not held or something newer was seen, and
 * while the repository is suspended.
 */
export async function approve(
  ctx: FlowContext,
  caller: Caller,
  name: string,
  reconcileId: string,
): Promise<{ reconcileId: string }> {
  return ctx.db.tx(async (tx) => {
    const repository = await lockNamed(tx, caller, name);
    const { id } = repository;
    const run = ofRepository(await runById(tx, caller.project.id, reconcileId), repository);
    if (run.status !== 'held') {
      throw new Fault('conflict', 'reconcile-not-held', `reconcile ${reconcileId} is ${run.status}, not held`);
    }
    requireAwake(repository);
    if (!(await isOfToday(ctx, tx, repository, run)) || (await hasNewerRun(tx, id, run))) {
      throw new Fault(
        'conflict',
        'reconcile-stale',
        `something newer than reconcile ${reconcileId} was seen; look at the latest run`,
      );
    }
    await audit(tx, caller, 'repository.approved', name, { reconcile: reconcileId, commit: run.commit });
    const by = await startRun(ctx, tx, repository, { kind: 'approve', from: run.id }, run.commit);
    await noteApproved(tx, run.id, by);
    return { reconcileId: by };
  });
}

/**
 * Whether a run is of the settings of now. A change of those that decide nothing of it, such as the interval, leaves no newer
 * run that could be approved in its place.
 */
async function isOfToday(
  ctx: FlowContext,
  tx: Sql,
  { id, generation }: Repository,
  run: ReconcileRow,
): Promise<boolean> {
  if (Number(run.inputs['generation'] ?? 0) === generation) return true;
  const found = await repositoryInHand(tx, id, null);
  return found !== undefined && decidesAsFor(catalogOf(ctx), found, run);
}

/** The run of that id as one of this repository. Throws Fault `not_found`. */
function ofRepository(run: ReconcileRow | undefined, repository: Repository): ReconcileRow {
  if (run === undefined || run.repositoryId !== repository.id) {
    throw new Fault('not_found', 'reconcile-not-found', `repository ${repository.name} has no such reconcile`);
  }
  return run;
}
