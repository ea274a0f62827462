// What people do to a repository: add, change, remove, sync, suspend, resume; what they do to its commits is in commits.ts.
// Each is one transaction that ends with a run to wait for or a sync to come, and each leaves an audit entry. Messages name
// the setting that is wrong, and never repeat an address: it may hold a credential.

import type { AuditAction } from '../../domain/audit-actions.ts';
import { releaseParked } from '../../adapters/store/operations/in-hand.ts';
import { addressKey } from '../../adapters/providers/codehost/codehost.ts';
import { inApply } from '../../adapters/store/routing/project-lock.ts';
import { recordAudit } from '../../adapters/store/tenancy/audit.ts';
import { isUniqueViolation, type Sql } from '../../adapters/store/store.ts';
import { pollIn, wishSync } from '../../adapters/store/repositories/polls.ts';
import { forgetPullsOf } from '../../adapters/store/repositories/pull-plans.ts';
import { wishPullLooks } from '../../adapters/store/repositories/pull-polls.ts';
import {
  insertRun,
  moveRun,
  type ReconcileRow,
  runningRun,
  runningRunNamed,
} from '../../adapters/store/repositories/reconciles.ts';
import {
  deleteRepository,
  insertRepository,
  lockRepository,
  lockRepositoryNamed,
  releaseOwned,
  type Repository,
  repositoryByName,
  type RepositoryPatch,
  type RepositorySettings,
  updateRepository,
  updateState,
} from '../../adapters/store/repositories/repositories.ts';
import { Fault } from '../../domain/fault.ts';
import { type Condition, countedVersion, requireVersion } from '../../domain/version.ts';
import { canonicalJson, type Json, type JsonObject } from '../../domain/json.ts';
import type { Actor, FlowContext, ProjectRef } from '../context.ts';
import { applyPlan, type ApplyResult, checkFolder, type SyncRequest } from '../sync/sync.ts';
import { checkAddress, checkAuth, checkRoot, checkVerify } from './checks.ts';

export interface Caller {
  readonly project: ProjectRef;
  readonly actor: Actor;
  /** Whether the caller administers the installation's first organization, and so may name folders of the machine. */
  readonly ownsInstallation?: boolean;
  /** Which version of the repository it asks the act of. */
  readonly condition?: Condition;
}

/** What POST and PATCH take; the shapes are checked by the route. */
export type SettingsInput = Partial<Omit<RepositorySettings, 'urlKey'>>;

/** Of its settings; what a sync learns is none of it. */
export const repositoryVersion = ({ id, generation }: Repository): string => countedVersion(id, generation);

/** The repository of that name. Throws Fault `not_found`. */
export async function findRepository(sql: Sql, project: ProjectRef, name: string): Promise<Repository> {
  const found = await repositoryByName(sql, project.id, name);
  if (found === undefined) throw new Fault('not_found', 'repository-not-found', `there is no repository ${name}`);
  return found;
}

/** The entry of a change of the repository of that name, in the transaction of the change. */
export async function audit(
  tx: Sql,
  caller: Caller,
  action: AuditAction,
  name: string,
  detail: JsonObject = {},
): Promise<void> {
  const { project, actor } = caller;
  const subject = { kind: 'Repository', name };
  await recordAudit(tx, { orgId: project.orgId, projectId: project.id, principal: actor, action, subject, detail });
}

/** Registers a repository and asks for its first sync. Throws `conflict` for a taken name, `invalid` naming a bad setting. */
export async function addRepository(
  ctx: FlowContext,
  caller: Caller,
  input: SettingsInput & { readonly name: string; readonly suspended?: boolean },
): Promise<Repository> {
  const { name, suspended = false, url = null, path = null } = input;
  if ((url === null) === (path === null))
    throw new Fault('invalid', 'invalid-body', 'give exactly one of url and path');
  checkAddress(url, path);
  await checkFolder(ctx, caller, path);
  await checkAuth(ctx, caller.project, input.auth);
  await checkVerify(input.verify);
  const settings = withDefaults({ ...input, url, path, root: await checkRoot(input.root ?? '') });
  const id = ctx.runtime.uuid();
  const now = ctx.runtime.now();
  try {
    return await ctx.db.tx(async (tx) => {
      await insertRepository(tx, { ...settings, id, projectId: caller.project.id, name, suspended, now });
      await pollIn(tx, id, settings.intervalSeconds * 1000);
      await audit(tx, caller, 'repository.created', name, { url, path });
      if (!suspended) await wishSync(tx, { repositoryId: id, reason: 'poll' });
      return findRepository(tx, caller.project, name);
    });
  } catch (error) {
    if (!isUniqueViolation(error)) throw error;
    throw new Fault('conflict', 'name-taken', `a repository named ${name} exists already`);
  }
}

function withDefaults(
  input: SettingsInput & { readonly url: string | null; readonly path: string | null; readonly root: string },
): RepositorySettings {
  return {
    url: input.url,
    urlKey: input.url === null ? null : (addressKey(input.url) ?? null),
    path: input.path,
    branch: shortBranch(input.branch ?? null),
    root: input.root,
    intervalSeconds: input.intervalSeconds ?? 60,
    auth: input.auth ?? null,
    context: input.context ?? {},
    adopt: input.adopt ?? false,
    guard: input.guard ?? {},
    verify: input.verify ?? null,
    plan: input.plan ?? {},
  };
}

/** A branch by its short name, which is what deliveries and imports call it by. */
const shortBranch = (branch: string | null): string | null => branch?.replace(/^refs\/heads\/(?=.)/, '') ?? null;

/**
 * Changes settings, raises the generation, asks for a sync. A run under settings that would come to something else by now is
 * superseded by its fence.
 */
export async function changeRepository(
  ctx: FlowContext,
  caller: Caller,
  name: string,
  input: SettingsInput & { readonly suspended?: boolean },
): Promise<Repository> {
  await checkVerify(input.verify);
  await checkFolder(ctx, caller, input.path ?? null);
  await checkAuth(ctx, caller.project, input.auth);
  const root = input.root === undefined ? undefined : await checkRoot(input.root);
  return ctx.db.tx(async (tx) => {
    const before = await lockNamed(tx, caller, name);
    const patch: { -readonly [key in keyof RepositoryPatch]: RepositoryPatch[key] } = { ...input };
    if (input.url != null) patch.path = null;
    if (input.path != null) patch.url = null;
    const url = patch.url === undefined ? before.url : patch.url;
    const path = patch.path === undefined ? before.path : patch.path;
    if ((url === null) === (path === null))
      throw new Fault('invalid', 'invalid-body', 'give exactly one of url and path');
    checkAddress(url, path);
    if (patch.url !== undefined) patch.urlKey = patch.url === null ? null : (addressKey(patch.url) ?? null);
    if (patch.branch !== undefined) patch.branch = shortBranch(patch.branch);
    if (root !== undefined) patch.root = root;
    // What is not said of plans stays as it was.
    if (patch.plan !== undefined) patch.plan = { ...before.plan, ...patch.plan };
    const now = ctx.runtime.now();
    await updateRepository(tx, before.id, changesOf(before, patch), now);
    // What was seen elsewhere says nothing here, and a source that was corrected deserves a look at once.
    if (url !== before.url || path !== before.path)
      await updateState(tx, before.id, { seenHash: null, failures: 0 }, now);
    await audit(tx, caller, 'repository.changed', name, { keys: Object.keys(input) });
    // No generation holds back a run that waits for a daemon: it begins with the settings of its beginning.
    if (input.suspended === true) await endRunOfSuspended(tx, before.id, now);
    else if (input.suspended === false && before.suspended) await seeAnew(tx, before, now);
    if (patch.urlKey !== undefined && patch.urlKey !== before.urlKey) await forgetPullsOf(tx, before.id);
    // Others are to be told by now, or told otherwise.
    if ([input.plan, input.auth, input.branch, input.url].some((given) => given !== undefined))
      await wishPullLooks(tx, { repositoryId: before.id });
    await wishSync(tx, { repositoryId: before.id, reason: 'poll' });
    return findRepository(tx, caller.project, name);
  });
}

/** Without what is said again as it is. */
function changesOf(before: Repository, patch: RepositoryPatch): RepositoryPatch {
  const text = (value: unknown): string => canonicalJson(value as Json);
  const given = Object.entries(patch) as [keyof RepositoryPatch, unknown][];
  return Object.fromEntries(given.filter(([key, value]) => text(value) !== text(before[key])));
}

/** Throws Fault `not_found`, and `stale` where it is not of the version that the caller asks for. */
export async function lockNamed(
  tx: Sql,
  { project, condition = {} }: Pick<Caller, 'project' | 'condition'>,
  name: string,
): Promise<Repository> {
  const locked = await lockRepositoryNamed(tx, project.id, name);
  if (locked === undefined) throw new Fault('not_found', 'repository-not-found', `there is no repository ${name}`);
  requireVersion(condition, repositoryVersion(locked));
  return locked;
}

/** Suspends (no sync at all until resumed) or resumes (with a sync at once). Doing it twice is fine. */
export async function setSuspended(
  ctx: FlowContext,
  caller: Caller,
  name: string,
  suspended: boolean,
): Promise<Repository> {
  return ctx.db.tx(async (tx) => {
    const before = await lockNamed(tx, caller, name);
    const { id } = before;
    const now = ctx.runtime.now();
    await updateRepository(tx, id, changesOf(before, { suspended }), now);
    await audit(tx, caller, suspended ? 'repository.suspended' : 'repository.resumed', name);
    if (suspended) await endRunOfSuspended(tx, id, now);
    else {
      if (before.suspended) await seeAnew(tx, before, now);
      await wishSync(tx, { repositoryId: id, reason: 'poll' });
    }
    return findRepository(tx, caller.project, name);
  });
}

/**
 * What the newest commit lacked may have come while nobody looked: it is synced although it has been seen. So may pull
 * requests, of which deliveries told nobody.
 */
async function seeAnew(tx: Sql, { id }: Repository, now: Date): Promise<void> {
  await updateState(tx, id, { seenHash: null }, now);
  await wishPullLooks(tx, { repositoryId: id });
}

/** The run under way, and one that waits for a daemon. */
async function endRunOfSuspended(tx: Sql, id: string, now: Date): Promise<void> {
  const running = await runningRun(tx, id);
  if (running) await moveRun(tx, running.id, { status: 'superseded', detail: 'the repository was suspended' }, now);
}

/** Nothing that follows the branch goes on while a repository is suspended. Throws Fault `conflict`. */
export function requireAwake({ name, suspended }: Repository): void {
  if (suspended)
    throw new Fault('conflict', 'repository-suspended', `repository ${name} is suspended; resume it first`);
}

/** A sync by hand: resolves to the run to wait for. One that nobody has begun yet serves as well as a new one. */
export async function requestSync(ctx: FlowContext, caller: Caller, name: string): Promise<{ reconcileId: string }> {
  return ctx.db.tx(async (tx) => {
    // Two messages to the database: what is asked for before the repository is known is taken back where there is none.
    const [repository, waiting] = await Promise.all([
      lockNamed(tx, caller, name),
      runningRunNamed(tx, caller.project.id, name),
      audit(tx, caller, 'repository.sync_requested', name),
    ]);
    requireAwake(repository);
    // A rollback or an approval that waits is none.
    const isThere = waiting !== undefined && waiting.daemonId === null && waiting.request['kind'] === 'sync';
    const asked = isThere
      ? { id: waiting.id, besides: releaseParked(tx, repository.id) }
      : {
          id: startRun(ctx, tx, repository, { kind: 'sync' }, null, waiting ?? null),
          besides: updateState(tx, repository.id, { failures: 0 }, ctx.runtime.now()),
        };
    // One that is under way is ended first, and what takes its place waits for that.
    if (isThere || waiting === undefined) tx.last();
    const [reconcileId] = await Promise.all([asked.id, asked.besides]);
    return { reconcileId };
  });
}

/** Ends the run under way for one that a person asks for; waits for one that is just ending by itself. */
export async function endRun(ctx: FlowContext, tx: Sql, repositoryId: string, under?: ReconcileRow): Promise<void> {
  const running = under ?? (await runningRun(tx, repositoryId));
  if (running === undefined) return;
  const patch = { status: 'superseded', detail: 'superseded by a sync by hand' } as const;
  await moveRun(tx, running.id, patch, ctx.runtime.now());
}

/**
 * A run that waits for a daemon, in the place of the one under way; `under` is that, null: none, where it is known. What is
 * parked is tried again, alone: else nobody would take the run.
 */
export async function startRun(
  ctx: FlowContext,
  tx: Sql,
  repository: Repository,
  request: SyncRequest,
  commit: string | null,
  under?: ReconcileRow | null,
): Promise<string> {
  const now = ctx.runtime.now();
  const id = ctx.runtime.uuid();
  if (under !== null) await endRun(ctx, tx, repository.id, under);
  const made = insertRun(tx, {
    id,
    projectId: repository.projectId,
    repositoryId: repository.id,
    repositoryName: repository.name,
    commit,
    reason: 'manual',
    daemonId: null,
    startedAt: now,
    request: { ...request },
  });
  const wished = wishSync(tx, { repositoryId: repository.id, reason: 'manual' });
  await Promise.all([made, wished, releaseParked(tx, repository.id)]);
  return id;
}

/** Removes the repository: what it owns goes with it, or stays and becomes `manual`. All in one transaction. */
export async function removeRepository(
  ctx: FlowContext,
  caller: Caller,
  name: string,
  keepResources: boolean,
): Promise<void> {
  const { condition = {} } = caller;
  const repository = await findRepository(ctx.db, caller.project, name);
  requireVersion(condition, repositoryVersion(repository));
  const remove = async (tx: Sql): Promise<void> => {
    const locked = await lockRepository(tx, repository.id);
    if (locked === undefined) return;
    requireVersion(condition, repositoryVersion(locked));
    const running = await runningRun(tx, repository.id);
    if (running)
      await moveRun(tx, running.id, { status: 'superseded', detail: 'the repository was removed' }, ctx.runtime.now());
    if (keepResources) await releaseOwned(tx, repository.id);
    await deleteRepository(tx, repository.id);
    await audit(tx, caller, 'repository.removed', name, { keepResources });
  };
  if (keepResources) {
    // An apply that is under way would otherwise give what it writes to a repository that is gone.
    return inApply(ctx.db, caller.project.id, remove);
  }
  const result = await applyPlan(ctx, {
    ...emptied(ctx, repository, caller.actor),
    dryRun: false,
    finish: async (tx, { status }) => {
      // One that was overtaken has deleted nothing of what the repository owns.
      if (status === 'applied' || status === 'unchanged') await remove(tx);
      return 'commit';
    },
  });
  const { status, diagnostics } = result;
  if (status === 'failed')
    throw new Fault('unprocessable', 'apply-refused', `what ${name} owns cannot be deleted`, { diagnostics });
  if (status === 'superseded') {
    // Another removal may have been quicker.
    await findRepository(ctx.db, caller.project, name);
    throw new Fault('conflict', 'repository-changed', `repository ${name} was changed meanwhile; try again`);
  }
}

/** An apply of no files at all with the repository as its owner. */
function emptied(ctx: FlowContext, { id, projectId, fence }: Repository, actor: Actor) {
  return {
    operationId: ctx.runtime.uuid(),
    projectId,
    owner: { kind: 'repository' as const, repositoryId: id, fence },
    compiled: { ok: true, resources: [], diagnostics: [], assets: [], places: {} },
    hasSvc: true,
    fileBytes: () => undefined,
    prune: true,
    adopt: false,
    guard: 'off' as const,
    verify: false,
    commit: null,
    actor,
    shippedAvatars: [],
  };
}

/** What removing a repository with all that it owns would delete. */
export function planOfRemoval(ctx: FlowContext, repository: Repository): Promise<ApplyResult> {
  const actor: Actor = { kind: 'system', id: null, name: 'dry-run' };
  return applyPlan(ctx, { ...emptied(ctx, repository, actor), dryRun: true });
}
