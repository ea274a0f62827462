// The stage that changes something: plan, guard and writes in one transaction under the project's lock, so that an apply
// happens wholly or not at all and one at a time. Whatever the outcome, the caller's `finish` moves the run in the same
// transaction, so that the run never says what the rows do not. Never compiles, never reads a repository, never routes an
// event.

import {
  deleteAgents,
  writeAgentOrigins,
  writeAgents,
  writeAgentSources,
} from '../../adapters/store/resources/agents.ts';
import { inApply } from '../../adapters/store/routing/project-lock.ts';
import {
  type AssetRow,
  deleteGenerated,
  deleteUsers,
  insertAssets,
  writeGenerated,
  writeUsers,
} from '../../adapters/store/resources/generated.ts';
import { writeEndpoints } from '../../adapters/store/resources/endpoints.ts';
import { deleteSchedules, writeSchedules } from '../../adapters/store/resources/schedules.ts';
import { deleteTriggers, writeTriggers } from '../../adapters/store/resources/triggers.ts';
import { notMoved, type StageTiming } from '../../adapters/store/repositories/reconciles.ts';
import { errorCode, type Sql, type Tx } from '../../adapters/store/store.ts';
import { failpoint } from '../../base/failpoint.ts';
import type { Writes } from '../../core/plan/types.ts';
import { Fault } from '../../domain/fault.ts';
import type { FlowContext } from '../context.ts';
import { emptyResult, judge } from './guard.ts';
import { endpointSlug } from '../resources.ts';
import {
  type FirstLook,
  lookFirst,
  planTree,
  remember,
  type ApplyRequest,
  type ApplyResult,
  type JudgedPlan,
} from './plan.ts';
import { errorOf, recordApplied, recordFailed } from './report.ts';

/** Thrown to leave a transaction without its writes; never leaves this file. */
class Rollback extends Error {
  readonly judged: JudgedPlan;
  readonly took: readonly StageTiming[];
  constructor(judged: JudgedPlan, took: readonly StageTiming[]) {
    super('rollback');
    this.judged = judged;
    this.took = took;
  }
}

/**
 * Applies, or plans (`dryRun`): both go by the same plan. Mistakes of the author are a result (`failed`, with
 * diagnostics); a Fault `not_found` means that the project or the repository is gone, `busy` that others change the
 * project for longer than is waited, and anything else thrown is a
 * database that failed or a bug. Nothing is stored then but the `failed` event.
 */
export async function applyPlan(ctx: FlowContext, request: ApplyRequest): Promise<ApplyResult> {
  if (request.dryRun) {
    const look = async (tx: Sql) => (await judge(tx, await planTree(ctx, tx, request))).result;
    return ctx.db.tx(look, { isolation: 'repeatable read', readOnly: true, patient: true });
  }
  const startedAt = ctx.runtime.now();
  failpoint('apply.before-tx');
  try {
    const { result, sides, keep } = await locked(ctx, request, startedAt);
    keep();
    failpoint('apply.after-commit');
    if (sides !== undefined) ctx.impacts?.offer(request.operationId, sides);
    return result;
  } catch (error) {
    if (error instanceof Rollback) return leave(ctx, error);
    if (!(error instanceof Fault)) await noteCrash(ctx, request, startedAt);
    throw error;
  }
}

interface Applied extends Pick<JudgedPlan, 'result' | 'sides'> {
  readonly keep: () => void;
}

/**
 * Applies under the project's lock: what a plan begins with is asked for with the lock, and where nothing differs the commit
 * goes with the last statements. Where these find that the run is not ours, the slower way decides what becomes of it.
 */
async function locked(ctx: FlowContext, request: ApplyRequest, startedAt: Date): Promise<Applied> {
  const early = (tx: Sql): Promise<FirstLook> => lookFirst(ctx, tx, request);
  const apply = (isPlain: boolean): Promise<Applied> =>
    inApply(
      ctx.db,
      request.projectId,
      async (tx, first) => {
        const last = isPlain ? undefined : tx.last;
        return applyUnder(ctx, tx, request, { startedAt, last, first: first ?? (await early(tx)) });
      },
      { patient: true, early },
    );
  return apply(false).catch((error: unknown) => {
    if (errorCode(error) !== notMoved) throw error;
    return apply(true);
  });
}

async function applyUnder(
  ctx: FlowContext,
  tx: Sql,
  request: ApplyRequest,
  {
    startedAt,
    first,
    last,
  }: { readonly startedAt: Date; readonly first: FirstLook; readonly last: Tx['last'] | undefined },
): Promise<Applied> {
  const took: StageTiming[] = [];
  const plan = await timed(took, 'plan', () => planTree(ctx, tx, request, first));
  const judged = await timed(took, 'guard', () => judge(tx, plan));
  const { result, sides } = judged;
  if (result.status === 'superseded') throw new Rollback(judged, took);
  if (result.status === 'failed') {
    // Under the lock: whoever gives up what it failed over, once it is let go, finds that it has, and has it tried again.
    if ((await endFailed(ctx, tx, { judged, took, startedAt })) === 'rollback') throw new Rollback(judged, took);
    return { result, keep: () => undefined };
  }
  let keep = (): void => undefined;
  if (plan.outcome === 'computed' && result.status !== 'held') {
    keep = await timed(took, 'apply', async () => {
      await writeRows(tx, request, plan.set.writes, ctx.runtime.now());
      return remember(ctx, tx, plan);
    });
    if (result.status === 'applied') await recordApplied(ctx, tx, { plan, startedAt });
  }
  const ended = await request.finish?.(tx, result, took, result.status === 'unchanged' ? last : undefined);
  if (ended === 'rollback') throw new Rollback({ plan, result: emptyResult('superseded', result.diagnostics) }, took);
  if (ended !== 'committed') failpoint('apply.before-commit');
  return { result, keep, ...(sides && { sides }) };
}

async function timed<T>(took: StageTiming[], name: string, stage: () => Promise<T>): Promise<T> {
  const begun = performance.now();
  const answer = await stage();
  took.push({ name, ms: Math.round((performance.now() - begun) * 10) / 10 });
  return answer;
}

interface Unwritten {
  readonly judged: JudgedPlan;
  readonly took: readonly StageTiming[];
  readonly startedAt: Date;
}

/** The event of a failure and the caller's finish, in one transaction: nothing else is written. */
async function endFailed(ctx: FlowContext, tx: Sql, { judged, took, startedAt }: Unwritten) {
  const { plan, result } = judged;
  await recordFailed(ctx, tx, { plan, startedAt }, errorOf(result.diagnostics));
  return plan.request.finish?.(tx, result, took);
}

/** Ends a run that was overtaken: its transaction is gone, with all that it wrote. */
async function leave(ctx: FlowContext, gone: Rollback): Promise<ApplyResult> {
  const { judged, took } = gone;
  const { plan, result } = judged;
  if (result.status !== 'superseded') return result;
  await ctx.db
    .tx(async (tx) => {
      if ((await plan.request.finish?.(tx, result, took)) === 'rollback') throw gone;
    })
    .catch((error: unknown) => {
      if (error !== gone) throw error;
    });
  return result;
}

/** An apply that broke without being at fault itself says so too, as far as the database lets it. */
async function noteCrash(ctx: FlowContext, request: ApplyRequest, startedAt: Date): Promise<void> {
  const error = { name: 'internal', message: 'The apply failed inside the service; its log says more.' };
  await ctx.db
    .tx((tx) => recordFailed(ctx, tx, { plan: { request, repository: undefined, diagnostics: [] }, startedAt }, error))
    .catch((cause: unknown) => {
      ctx.runtime.log.error({ err: cause, operationId: request.operationId }, 'apply.failure_unrecorded');
    });
}

/**
 * Writes every row that differs: one statement per table and kind of change, whatever the number of rows (several where
 * they are many megabytes), and none for a table in which nothing does. What others are named by comes first (agents, generated resources, endpoints), what names
 * them afterwards.
 */
async function writeRows(tx: Sql, request: ApplyRequest, writes: Writes, now: Date): Promise<void> {
  const { projectId } = request;
  await deleteAgents(tx, writes.agentDeletes);
  await writeGenerated(tx, projectId, writes.generated, now);
  await writeAgents(tx, {
    projectId,
    repositoryId: request.owner.kind === 'repository' ? request.owner.repositoryId : null,
    now,
    reconcileId: request.operationId,
    commit: request.commit,
    agents: writes.agents,
  });
  await writeAgentSources(tx, writes.sources);
  if (request.compiled.origins !== undefined) await writeAgentOrigins(tx, projectId, request.compiled.origins);
  failpoint('apply.agents');
  await deleteUsers(tx, writes.userDeletes);
  await writeUsers(tx, projectId, writes.users);
  await deleteGenerated(tx, writes.generatedDeletes);
  const endpoints = writes.endpoints.map((item) => ({ ...item, slug: endpointSlug(projectId, item.name) }));
  await writeEndpoints(tx, projectId, endpoints, now);
  await deleteTriggers(tx, writes.triggerDeletes);
  await writeTriggers(tx, projectId, writes.triggers);
  await deleteSchedules(tx, writes.scheduleDeletes);
  await writeSchedules(tx, projectId, writes.schedules);
  failpoint('apply.triggers');
  await insertAssets(tx, projectId, await assetRows(request, writes));
}

async function assetRows(request: ApplyRequest, writes: Writes): Promise<AssetRow[]> {
  const rows: AssetRow[] = [];
  for (const { sha256, path, mediaType } of writes.assets) {
    const bytes = await request.fileBytes(path);
    if (bytes === undefined) throw new Error(`the tree has no bytes for ${path}, which compile read`);
    rows.push({ sha256, mediaType, bytes });
  }
  return rows;
}
