// Applies a compiled tree to a project: reads what is stored, plans, writes, all in one transaction under the project's
// lock, so that it happens wholly or not at all and one apply at a time. Whatever the outcome, the caller's `finish`
// moves the run in the same transaction, so that the run never says what the rows do not. Never compiles, never reads
// a repository, never routes an event. Contract, section 2 ("An apply is atomic") and section 4 (lifecycle events).

import { createHash } from 'node:crypto';
import { readAgentSpecs } from '../../adapters/store/resources/agents.ts';
import {
  lockProject,
  orgOfProject,
  readCurrent,
  readOwners,
  type OwnerRow,
} from '../../adapters/store/resources/apply.ts';
import type { Sql } from '../../adapters/store/store.ts';
import { endpointSlugs } from '../../adapters/store/resources/endpoints.ts';
import { readGeneratedSpecs } from '../../adapters/store/resources/generated.ts';
import { readTriggerSpecs } from '../../adapters/store/resources/triggers.ts';
import { failpoint } from '../../base/failpoint.ts';
import { DRIFTED, planInSteps, sortDiagnostics, specsNeeded } from '../../core/plan/plan.ts';
import type { ChangeSet, Current, Desired, PlannedReceipt } from '../../core/plan/types.ts';
import type { Diagnostic } from '../../domain/diagnostic.ts';
import { Fault } from '../../domain/fault.ts';
import { canonicalJson, type Json } from '../../domain/json.ts';
import { asJson, type Resource } from '../../domain/spec.ts';
import type { FlowContext } from '../context.ts';
import { withExcerpts } from './apply-excerpt.ts';
import { NOTHING, recall, remember } from './apply-memo.ts';
import { impactOf } from './apply-impact.ts';
import { errorOf, recordApplied, recordFailed, type ApplyRecord } from './apply-record.ts';
import { clockOf, inSlices, mapInSlices } from './apply-slices.ts';
import { endpointSlug, ingestUrl } from './apply-slug.ts';
import type { ApplyRequest, ApplyResult, ApplyStatus, Receipt } from './apply-types.ts';
import { writePlan } from './apply-write.ts';

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

/** Thrown to leave a transaction without its writes; never leaves this file. */
class Rollback extends Error {
  readonly outcome: Planned;
  constructor(outcome: Planned) {
    super('undo');
    this.outcome = outcome;
  }
}

interface Planned {
  readonly result: ApplyResult;
  readonly set: ChangeSet | undefined;
  readonly repository: string | undefined;
}

/**
 * Applies, or plans (`dryRun`). Mistakes of the author are a result (`failed`, with diagnostics); a Fault `not_found`
 * means that the project or the repository is gone, `conflict` never happens, and anything else thrown is a database
 * that failed or a bug. Nothing is stored then but the `failed` event.
 */
export async function applyPlan(ctx: FlowContext, request: ApplyRequest): Promise<ApplyResult> {
  if (request.dryRun) {
    return ctx.db.tx(async (tx) => (await planUnder(ctx, tx, request)).result, {
      isolation: 'repeatable read',
      readOnly: true,
    });
  }
  const startedAt = ctx.runtime.now();
  failpoint('apply.before-tx');
  try {
    const { result, keep } = await ctx.db.tx((tx) => applyUnder(ctx, tx, request, startedAt));
    keep?.();
    failpoint('apply.after-commit');
    return result;
  } catch (error) {
    if (error instanceof Rollback) return leave(ctx, request, error.outcome, startedAt);
    if (!(error instanceof Fault)) await noteCrash(ctx, request, startedAt);
    throw error;
  }
}

async function applyUnder(
  ctx: FlowContext,
  tx: Sql,
  request: ApplyRequest,
  startedAt: Date,
): Promise<{ readonly result: ApplyResult; readonly keep?: () => void }> {
  const orgId = await lockProject(tx, request.projectId);
  const planned = await planUnder(ctx, tx, request, orgId);
  const { result, set, repository } = planned;
  if (result.status === 'failed' || result.status === 'superseded' || orgId === undefined) throw new Rollback(planned);
  let keep: (() => void) | undefined;
  if (set !== undefined && result.status !== 'held') {
    await writePlan(tx, request, set.writes, ctx.runtime.now());
    keep = await remember(ctx, tx, request, orgId, { set, webhooks: result.webhooks });
  }
  if (set !== undefined && result.status === 'applied') {
    await recordApplied(ctx, tx, { request, repository, set, diagnostics: result.diagnostics, startedAt }, orgId);
  }
  if ((await request.finish?.(tx, result)) === 'rollback') throw new Rollback(superseded(planned));
  failpoint('apply.before-commit');
  return keep === undefined ? { result } : { result, keep };
}

const superseded = (planned: Planned): Planned => ({
  ...planned,
  result: { ...planned.result, status: 'superseded', actions: [], webhooks: [], consequences: NOTHING },
});

/** Ends a run whose apply wrote nothing: the event of a failure and the caller's finish, in one transaction. */
async function leave(ctx: FlowContext, request: ApplyRequest, planned: Planned, startedAt: Date): Promise<ApplyResult> {
  const { result, set, repository } = planned;
  await ctx.db
    .tx(async (tx) => {
      if (result.status === 'failed') {
        const entry: ApplyRecord = { request, repository, set, diagnostics: result.diagnostics, startedAt };
        await recordFailed(ctx, tx, entry, errorOf(result.diagnostics));
      }
      if ((await request.finish?.(tx, result)) === 'rollback') throw new Rollback(planned);
    })
    .catch((error: unknown) => {
      if (!(error instanceof Rollback)) throw error;
    });
  return result;
}

/** An apply that broke without being at fault itself says so too, as far as the database lets it. */
async function noteCrash(ctx: FlowContext, request: ApplyRequest, startedAt: Date): Promise<void> {
  const entry: ApplyRecord = { request, repository: undefined, set: undefined, diagnostics: [], startedAt };
  const error = { name: 'internal', message: 'The apply failed inside the service; its log says more.' };
  await ctx.db
    .tx((tx) => recordFailed(ctx, tx, entry, error))
    .catch((cause: unknown) => {
      ctx.runtime.log.error({ err: cause, operationId: request.operationId }, 'apply.failure_unrecorded');
    });
}

async function planUnder(ctx: FlowContext, tx: Sql, request: ApplyRequest, locked?: string): Promise<Planned> {
  const orgId = locked ?? (await orgOfProject(tx, request.projectId));
  if (orgId === undefined) throw new Fault('not_found', 'project-not-found', 'The project does not exist any more.');
  const owners = await readOwners(tx, request.projectId);
  const owner = ownerOf(request, owners);
  if (owner?.isStale === true) {
    return { result: emptyResult('superseded', []), set: undefined, repository: owner.name };
  }
  if (request.hasSvc && !request.compiled.ok) {
    const diagnostics = sortDiagnostics(request.compiled.diagnostics);
    return { result: emptyResult('failed', diagnostics), set: undefined, repository: owner?.name };
  }
  const same = locked === undefined ? undefined : await recall(ctx, tx, request, orgId);
  if (same !== undefined) {
    const diagnostics = await withExcerpts(mergeDiagnostics(request.compiled.diagnostics, []), request.fileBytes);
    return {
      result: { ...emptyResult('unchanged', diagnostics), ...same },
      set: undefined,
      repository: owner?.name,
    };
  }
  const { desired, state } = await readState(ctx, tx, request, { orgId, owners });
  const ownerId = request.owner.kind === 'repository' ? request.owner.repositoryId : null;
  if (!request.hasSvc && !state.agents.some((agent) => agent.repositoryId === ownerId)) {
    // Nothing to hold back: a tree without .svc/ is a mistake like any other (decision 16).
    const diagnostics = sortDiagnostics(request.compiled.diagnostics);
    return { result: emptyResult('failed', diagnostics), set: undefined, repository: owner?.name };
  }
  const now = ctx.runtime.now();
  const nextTick = await clockOf(desired, state, now);
  const steps = planInSteps(desired, state, {
    owner: ownerId,
    prune: request.prune,
    adopt: request.adopt,
    verify: request.verify,
    guard: request.guard,
    now,
    nextTick,
    sha256,
    shippedAvatars: request.shippedAvatars,
  });
  const set = await inSlices(steps);
  const merged = mergeDiagnostics(request.hasSvc ? request.compiled.diagnostics : [], set.diagnostics);
  const diagnostics = await withExcerpts(merged, request.fileBytes);
  const webhooks = set.ok ? await receiptsOf(ctx, tx, request, set.receipts) : [];
  const result = resultOf(request, set, diagnostics, webhooks);
  return { result: await withImpact(tx, request, { result, set, state, now }), set, repository: owner?.name };
}

/** Where people look before they leap, what the change of triggers would have done to the last days' events. */
async function withImpact(
  tx: Sql,
  request: ApplyRequest,
  { result, set, state, now }: { result: ApplyResult; set: ChangeSet; state: Current; now: Date },
): Promise<ApplyResult> {
  const isAsked = request.withImpact === true && result.status === 'planned';
  if (!isAsked && result.status !== 'held') return result;
  const { projectId } = request;
  return { ...result, eventImpact: await impactOf(tx, { projectId, state, writes: set.writes, now }) };
}

function ownerOf(request: ApplyRequest, owners: readonly OwnerRow[]): { name: string; isStale: boolean } | undefined {
  const { owner } = request;
  if (owner.kind === 'manual') return undefined;
  const row = owners.find((item) => item.id === owner.repositoryId);
  if (row === undefined)
    throw new Fault('not_found', 'repository-not-found', 'The repository does not exist any more.');
  return { name: row.name, isStale: row.generation !== owner.generation };
}

interface Scope {
  readonly orgId: string;
  readonly owners: readonly OwnerRow[];
}

/** The stored state, with the specs that the plan has to look into: those that differ, or all where drift is looked for. */
async function readState(
  ctx: FlowContext,
  tx: Sql,
  request: ApplyRequest,
  scope: Scope,
): Promise<{ desired: Desired; state: Current }> {
  const { projectId } = request;
  const desired = await desiredOf(request);
  const state = await readCurrent(tx, { projectId, ...scope, now: ctx.runtime.now() });
  const needed = request.verify ? { agents: null, generated: null } : specsNeeded(desired, state);
  const read = (ids: readonly string[] | null): boolean => ids === null || ids.length > 0;
  const agents = read(needed.agents) ? await readAgentSpecs(tx, projectId, needed.agents) : new Map<string, Json>();
  const generated = read(needed.generated)
    ? await readGeneratedSpecs(tx, projectId, needed.generated)
    : new Map<string, Json>();
  const triggers = request.verify ? await readTriggerSpecs(tx, projectId) : undefined;
  const withSpec = <T extends { readonly id: string; readonly hash: string }>(
    row: T,
    specs: ReadonlyMap<string, Json>,
  ): T => {
    const spec = specs.get(row.id);
    if (spec === undefined) return row;
    return { ...row, spec, ...(request.verify && { hash: actualHash(row.hash, spec) }) };
  };
  return {
    desired,
    state: {
      ...state,
      agents: await mapInSlices(state.agents, (row) => withSpec(row, agents)),
      generated: await mapInSlices(state.generated, (row) => withSpec(row, generated)),
      triggers: await mapInSlices(state.triggers, (row) => {
        const spec = triggers?.get(`${row.agentId}/${row.ordinal}`);
        return spec === undefined ? row : { ...row, hash: actualHash(row.hash, spec) };
      }),
    },
  };
}

/** The hash of a row as it is; a row whose stored hash is not that of its text equals nothing. */
function actualHash(stored: string, spec: Json): string {
  const actual = sha256(canonicalJson(spec));
  return actual === stored ? actual : `${DRIFTED}${actual}`;
}

/** The compiler hashes each resource once, where it keeps it; a tree from elsewhere is hashed here. */
function hashOf(resource: Resource & { readonly hash?: string }): string {
  return resource.hash ?? sha256(canonicalJson(asJson(resource.spec)));
}

async function desiredOf(request: ApplyRequest): Promise<Desired> {
  if (!request.hasSvc) return { resources: [], assets: [], hasSvc: false };
  const { resources, assets, places } = request.compiled;
  return {
    resources: await mapInSlices(resources, (item) => ({ ...item, hash: hashOf(item) })),
    assets,
    hasSvc: true,
    ...(places !== undefined && { places }),
  };
}

/** Compile warns of an identity that the tree does not have; here it is known whether that is a mistake (decision 46). */
function mergeDiagnostics(compiled: readonly Diagnostic[], planned: readonly Diagnostic[]): Diagnostic[] {
  return sortDiagnostics([...compiled.filter((item) => item.code !== 'identity-unknown'), ...planned]);
}

/** Receipts name URLs, so a new endpoint's slug is derived and a stored one's is read. */
async function receiptsOf(
  ctx: FlowContext,
  tx: Sql,
  request: ApplyRequest,
  receipts: readonly PlannedReceipt[],
): Promise<Receipt[]> {
  if (receipts.length === 0) return [];
  const slugs = await endpointSlugs(tx, request.projectId, [...new Set(receipts.map((item) => item.endpoint))]);
  return receipts.map(({ event, endpoint }) => {
    const slug = slugs.get(endpoint) ?? endpointSlug(request.projectId, endpoint);
    return { event, endpoint, ingestUrl: ingestUrl(ctx.baseUrl, slug), status: 'ready' };
  });
}

function resultOf(
  request: ApplyRequest,
  set: ChangeSet,
  diagnostics: readonly Diagnostic[],
  webhooks: readonly Receipt[],
): ApplyResult {
  if (!set.ok) return emptyResult('failed', diagnostics);
  const { actions, consequences, held } = set;
  return { status: statusOf(request, set), actions, consequences, webhooks, diagnostics, ...(held && { held }) };
}

function statusOf(request: ApplyRequest, set: ChangeSet): ApplyStatus {
  if (request.dryRun) return 'planned';
  if (set.held !== undefined) return 'held';
  return set.changed ? 'applied' : 'unchanged';
}

function emptyResult(status: ApplyStatus, diagnostics: readonly Diagnostic[]): ApplyResult {
  return { status, actions: [], consequences: NOTHING, webhooks: [], diagnostics };
}
