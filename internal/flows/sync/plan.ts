// The stage that works out what an apply would change: reads what is stored, compares, and answers with a value, the same for
// a person who asks what would change and for the run that changes it. Called under the project's lock by who is about to
// write, and in a transaction that only reads by who wants to know. Writes nothing and judges nothing: that is guard.ts.

import { inSlices, mapInSlices, yieldToEventLoop } from '../../base/concurrency.ts';
import { nextTick, nextTicks } from '../../core/schedule/schedule.ts';
import type { StageTiming } from '../../adapters/store/repositories/reconciles.ts';
import { digestCurrent, type OwnerRow, readOwners } from '../../adapters/store/resources/agents.ts';
import { endpointSlugs } from '../../adapters/store/resources/endpoints.ts';
import type { Sql } from '../../adapters/store/store.ts';
import type { CompileOutput } from '../../core/compile/types.ts';
import { planInSteps, sortDiagnostics } from '../../core/plan/plan.ts';
import type {
  Action,
  ChangeSet,
  Consequences,
  Current,
  Desired,
  Held,
  PlannedReceipt,
  PlanOptions,
} from '../../core/plan/types.ts';
import { type Diagnostic, excerptOf } from '../../domain/diagnostic.ts';
import { Fault } from '../../domain/fault.ts';
import { canonicalJson } from '../../domain/json.ts';
import { asJson, type Resource } from '../../domain/spec.ts';
import type { KeptPlan } from '../compiled.ts';
import type { Actor, FlowContext } from '../context.ts';
import { endpointSlug, ingestUrl } from '../resources.ts';
import { readState } from './state.ts';
import type { ImpactSides } from '../ports.ts';
import type { EventImpact } from './impact.ts';
import { maskLine } from '../../domain/credential.ts';
import { sha256 } from '../../base/hash.ts';

export type ApplyStatus =
  | 'applied'
  /** Nothing differs; nothing was written but what `finish` wrote. */
  | 'unchanged'
  /** A dry run: what would be applied. */
  | 'planned'
  /** The blast-radius guard holds it until it is approved; nothing was written. */
  | 'held'
  /** The tree or the plan has an error; nothing was written. */
  | 'failed'
  /** The repository's settings changed since it was read, or `finish` said so; nothing was written. */
  | 'superseded';

/** A webhook trigger's receipt (docs/reference/webhook-endpoints.md#declaring). */
export interface Receipt {
  readonly event: string;
  readonly endpoint: string;
  readonly ingestUrl: string;
  readonly status: 'ready';
}

export interface ApplyResult {
  readonly status: ApplyStatus;
  readonly actions: readonly Action[];
  readonly consequences: Consequences;
  readonly webhooks: readonly Receipt[];
  /** Of compile and of the plan, sorted by place. */
  readonly diagnostics: readonly Diagnostic[];
  readonly held?: Held;
  /** Of a plan that was asked for it, and of one that is held; of one that applied, why it has none. */
  readonly eventImpact?: EventImpact;
}

export type ApplyOwner =
  | { readonly kind: 'manual' }
  | {
      readonly kind: 'repository';
      readonly repositoryId: string;
      /** Fence of the settings that the tree was compiled under; a later one supersedes this apply. */
      readonly fence: number;
    };

export interface ApplyRequest {
  /** Id of the reconcile; also the `operationId` of the lifecycle events. */
  readonly operationId: string;
  readonly projectId: string;
  readonly owner: ApplyOwner;
  readonly compiled: Pick<CompileOutput, 'ok' | 'resources' | 'diagnostics' | 'assets' | 'places' | 'origins'>;
  /**
   * False where the tree has no `.svc/` at all: an empty tree, which the guard holds; `failed` with the diagnostics of
   * `compiled` where the owner has nothing that could be lost.
   */
  readonly hasSvc: boolean;
  /** The bytes of a file of the tree, for avatars and for the lines that diagnostics are about. */
  readonly fileBytes: (path: string) => Uint8Array | undefined | Promise<Uint8Array | undefined>;
  readonly prune: boolean;
  readonly adopt: boolean;
  readonly dryRun: boolean;
  /** Whether a dry run says what it would have done to the events of the last days; a held plan always does. */
  readonly withImpact?: boolean;
  /** `off` for people's own applies and for approved runs. */
  readonly guard: 'off' | { readonly deleteMax?: number };
  /** Compare every row with what it should be, not only its hash (periodic resync). */
  readonly verify: boolean;
  readonly commit: string | null;
  readonly actor: Actor;
  /** SHA-256 (hex) of avatars that the service ships. */
  readonly shippedAvatars: readonly string[];
  /** What the last apply of the same compiled tree left behind; absent where nothing is kept of it. */
  readonly memo?: PlanMemo;
  /**
   * Finishes the run in the transaction of the apply: called once with the result before the commit, in every case but
   * a dry run. For `superseded` that is a transaction of its own. `rollback` undoes an apply that has been
   * superseded meanwhile. `took` are the stages of the apply so far. May be called again when the database asks to repeat the transaction,
   * or answers `notMoved`. `last`, where it is given, may be called as that of a transaction; what was committed so is `committed`.
   */
  readonly finish?: (
    tx: Sql,
    result: ApplyResult,
    took: readonly StageTiming[],
    last?: () => void,
  ) => Promise<'commit' | 'committed' | 'rollback'>;
}

export interface PlanMemo {
  get(): KeptPlan | undefined;
  set(plan: KeptPlan): void;
}

interface PlanHead {
  readonly request: ApplyRequest;
  readonly orgId: string;
  /** Name of the owning repository. */
  readonly repository: string | undefined;
  /** Of compile and of the plan, sorted by place. */
  readonly diagnostics: readonly Diagnostic[];
}

/** What an apply would do to the stored rows, worked out and not yet judged. */
export type Plan =
  /** The repository's settings changed since it was read. */
  | (PlanHead & { readonly outcome: 'stale' })
  /** The tree has an error. */
  | (PlanHead & { readonly outcome: 'broken' })
  /** The same tree on the same rows as the last time: nothing to do. */
  | (PlanHead & { readonly outcome: 'known'; readonly kept: KeptPlan })
  | (PlanHead & {
      readonly outcome: 'computed';
      /** Not `ok` where the plan itself has an error. */
      readonly set: ChangeSet;
      readonly state: Current;
      readonly webhooks: readonly Receipt[];
      readonly now: Date;
    });

/** A plan together with what the guard makes of it. */
export interface JudgedPlan {
  readonly plan: Plan;
  readonly result: ApplyResult;
  /** Of one that is applied: what stored events are matched against after the commit. */
  readonly sides?: ImpactSides;
}

/** What a plan under the project's lock begins with; where nothing has changed, that is all that is read. */
export interface FirstLook {
  readonly found: Awaited<ReturnType<typeof readOwners>>;
  readonly kept: KeptPlan | undefined;
}

/** Asks for both in one message. */
export async function lookFirst(ctx: FlowContext, tx: Sql, request: ApplyRequest): Promise<FirstLook> {
  const [found, kept] = await Promise.all([readOwners(tx, request.projectId), recall(ctx, tx, request)]);
  return { found, kept };
}

/**
 * The plan of a tree for the project as the transaction sees it. `first` was read under the project's lock; absent where the
 * caller does not hold it. Throws Fault `not_found` where project or repository is gone.
 */
export async function planTree(ctx: FlowContext, tx: Sql, request: ApplyRequest, first?: FirstLook): Promise<Plan> {
  const { found, kept } = first ?? { found: await readOwners(tx, request.projectId), kept: undefined };
  if (found === undefined) throw new Fault('not_found', 'project-not-found', 'The project does not exist any more.');
  const { orgId, owners } = found;
  const owner = ownerOf(request, owners);
  const head = { request, orgId, repository: owner?.name };
  if (owner?.isStale === true) return { ...head, outcome: 'stale', diagnostics: [] };
  const broken = (): Plan => ({
    ...head,
    outcome: 'broken',
    diagnostics: sortDiagnostics(request.compiled.diagnostics),
  });
  if (request.hasSvc && !request.compiled.ok) return broken();
  if (kept !== undefined && kept.orgId === orgId) {
    const diagnostics = await withExcerpts(
      mergeDiagnostics(request.compiled.diagnostics, kept.diagnostics),
      request.fileBytes,
    );
    return { ...head, outcome: 'known', diagnostics, kept };
  }
  const desired = await desiredOf(request);
  const { projectId, verify } = request;
  const state = await readState(tx, { projectId, orgId, owners, verify, now: ctx.runtime.now() }, desired);
  const ownerId = request.owner.kind === 'repository' ? request.owner.repositoryId : null;
  // Nothing to hold back: a tree without .svc/ is a mistake like any other (docs/reference/compile.md#files).
  if (!request.hasSvc && !state.agents.some((agent) => agent.repositoryId === ownerId)) return broken();
  const now = ctx.runtime.now();
  const steps = planInSteps(desired, state, {
    owner: ownerId,
    prune: request.prune,
    adopt: request.adopt,
    verify: request.verify,
    guard: request.guard,
    now,
    nextTick: await clockOf(desired, state, now),
    sha256,
    shippedAvatars: request.shippedAvatars,
    network: ctx.catalog?.catalog.network,
  });
  const set = await inSlices(steps);
  const merged = mergeDiagnostics(request.hasSvc ? request.compiled.diagnostics : [], set.diagnostics);
  const diagnostics = await withExcerpts(merged, request.fileBytes);
  const webhooks = set.ok ? await receiptsOf(ctx, tx, request, set.receipts) : [];
  return { ...head, outcome: 'computed', diagnostics, set, state, webhooks, now };
}

/** Project, owner and options: whatever besides tree and state decides a plan. */
const settingsOf = ({ projectId, owner, prune, adopt, shippedAvatars }: ApplyRequest): string =>
  JSON.stringify([projectId, owner, prune, adopt, shippedAvatars]);

/**
 * What the last apply of the same tree left behind, where the rows are still that. Under the project's lock; never where
 * drift is looked for, nor for a tree that the guard may hold.
 */
async function recall(ctx: FlowContext, tx: Sql, request: ApplyRequest): Promise<KeptPlan | undefined> {
  const kept = request.memo?.get();
  if (kept === undefined || request.verify || !request.hasSvc || kept.settings !== settingsOf(request))
    return undefined;
  const digest = await digestCurrent(tx, {
    ...{ projectId: request.projectId, orgId: kept.orgId, now: ctx.runtime.now() },
  });
  return digest === kept.digest ? kept : undefined;
}

/**
 * Looks at the state that an apply leaves, inside its transaction; the answer, called once that has committed, keeps
 * what the next apply of the same tree is to say.
 */
export async function remember(ctx: FlowContext, tx: Sql, plan: Plan): Promise<() => void> {
  const { request, orgId } = plan;
  const { memo, projectId } = request;
  if (memo === undefined || plan.outcome !== 'computed' || !request.hasSvc) return () => undefined;
  const digest = await digestCurrent(tx, { projectId, orgId, now: ctx.runtime.now() });
  const actions = plan.set.actions
    .filter((action) => action.op !== 'delete')
    .map((action) => ({ ...action, op: 'unchanged' as const, changes: [] }));
  const { diagnostics } = plan.set;
  return () =>
    memo.set({ settings: settingsOf(request), orgId, digest, actions, webhooks: plan.webhooks, diagnostics });
}

function ownerOf(request: ApplyRequest, owners: readonly OwnerRow[]): { name: string; isStale: boolean } | undefined {
  const { owner } = request;
  if (owner.kind === 'manual') return undefined;
  const row = owners.find((item) => item.id === owner.repositoryId);
  if (row === undefined)
    throw new Fault('not_found', 'repository-not-found', 'The repository does not exist any more.');
  return { name: row.name, isStale: row.fence !== owner.fence };
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

/** Compile warns of an identity that the tree does not have; here it is known whether that is a mistake (docs/reference/compile.md#environments). */
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

/** As many fires as a plan tells of a schedule. */
const fires = 3;
const keyOf = (cron: string, timezone: string): string => `${timezone} ${cron}`;

/** The clock of a plan at `now`: what it will ask of schedules that are not stored yet is worked out beforehand. */
export async function clockOf(desired: Desired, state: Current, now: Date): Promise<PlanOptions['nextTick']> {
  const stored = new Set(state.schedules.map(({ cron, timezone }) => keyOf(cron, timezone)));
  const fresh = new Map<string, { readonly cron: string; readonly timezone: string }>();
  for (const resource of desired.resources) {
    if (resource.kind !== 'Agent') continue;
    for (const trigger of resource.spec.triggers) {
      if (trigger.kind !== 'heartbeat') continue;
      const key = keyOf(trigger.cron, trigger.timezone);
      if (!stored.has(key)) fresh.set(key, trigger);
    }
  }
  const pairs = await mapInSlices([...fresh], ([key, { cron, timezone }]) => {
    return [key, nextTicks(cron, timezone, now, fires)] as const;
  });
  const known = new Map(pairs);
  return (cron, timezone, after) => {
    const key = keyOf(cron, timezone);
    const ticks = after >= now ? (known.get(key) ?? kept(known, key, nextTicks(cron, timezone, now, fires))) : [];
    const next = ticks.find((tick) => tick > after);
    return next ?? (ticks.length > 0 && ticks.length < fires ? null : nextTick(cron, timezone, after));
  };
}

function kept<V>(map: Map<string, V>, key: string, value: V): V {
  map.set(key, value);
  return value;
}

const excerptLength = 200;

/** Fills in `excerpt` where the tree has the file; a file of a template is not in the tree. One file is one slice. */
async function withExcerpts(
  diagnostics: readonly Diagnostic[],
  fileBytes: (path: string) => Uint8Array | undefined | Promise<Uint8Array | undefined>,
): Promise<Diagnostic[]> {
  const files = new Map<string, readonly string[] | undefined>();
  const filled: Diagnostic[] = [];
  for (const item of diagnostics) {
    const { file, line, excerpt } = item;
    if (file === undefined || line === undefined || excerpt !== undefined) {
      filled.push(item);
      continue;
    }
    if (!files.has(file)) {
      files.set(file, linesOf(await fileBytes(file)));
      await yieldToEventLoop();
    }
    const text = files.get(file)?.[line - 1];
    const shown =
      text === undefined ? undefined : excerptOf([maskLine(text.slice(0, excerptLength).toWellFormed())], line, item);
    filled.push(shown === undefined ? item : { ...item, excerpt: shown });
  }
  return filled;
}

function linesOf(bytes: Uint8Array | undefined): readonly string[] | undefined {
  return bytes === undefined ? undefined : new TextDecoder().decode(bytes).split(/\r\n|\r|\n/);
}
