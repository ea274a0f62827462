// Organizations and projects: made, renamed, archived, deleted; each with its audit row.

import { recordAudit } from '../../adapters/store/tenancy/audit.ts';
import { wishPullLooks } from '../../adapters/store/repositories/pull-polls.ts';
import { endRunsOf } from '../../adapters/store/repositories/reconciles.ts';
import { enqueueResyncs, wishFailing } from '../../adapters/store/repositories/resyncs.ts';
import { firstOrgId } from '../../adapters/store/secrets/keys.ts';
import { isUuid } from '../../domain/uuid.ts';
import { isUniqueViolation, type Sql } from '../../adapters/store/store.ts';
import {
  changeEnvironment,
  deleteEmptyOrg,
  deleteOrgsGone,
  type EnvironmentChange,
  getOrg,
  getProject,
  hasProjects,
  insertOrg,
  insertProject,
  isSlugOfAnother,
  type OrgRow,
  type ProjectChange,
  type ProjectRow,
  updateOrg,
  updateProject,
} from '../../adapters/store/tenancy/tenancy.ts';
import { deletedProjects, deleteProjectSlice, markDeleted } from '../../adapters/store/operations/deletion.ts';
import { failpoint } from '../../base/failpoint.ts';
import { Fault } from '../../domain/fault.ts';
import type { JsonObject } from '../../domain/json.ts';
import { isReservedSlug } from '../../domain/slug.ts';
import type { Actor, FlowContext, ProjectRef } from '../context.ts';
import { notVisible } from './access.ts';
import { withoutEnd } from '../../domain/text.ts';

const slugShape = /^[a-z0-9][a-z0-9-]{0,62}$/;

/** A slug from what was given, or made from the name. Throws Fault `invalid` where it is none. */
export function slugOf(given: { slug?: string | undefined; name?: string | undefined }): {
  slug: string;
  name: string;
} {
  const name = (given.name ?? given.slug ?? '').trim();
  const joined = name.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-');
  const slug = given.slug ?? withoutEnd(joined.replace(/^-/, ''), '-').slice(0, 63);
  requireSlug(slug);
  return { slug, name };
}

function requireSlug(slug: string): void {
  // A slug in the shape of an id would be taken for one wherever either is accepted.
  if (slugShape.test(slug) && !isUuid(slug)) return;
  throw new Fault(
    'invalid',
    'invalid-slug',
    'slug must be 1 to 63 of a-z, 0-9 and -, must not begin with -, and must not look like an id.',
  );
}

/** Addresses of pages begin with the organization: what stands there already is no organization's name. */
function requireFree(slug: string): void {
  if (isReservedSlug(slug)) throw new Fault('invalid', 'reserved-slug', `${slug} is an address of the service itself.`);
}

const slugTaken = (what: string, cause?: unknown): Fault =>
  new Fault('conflict', 'slug-taken', `Another ${what} has this slug already.`, { cause });

/** Runs `change` in a transaction; a slug that is taken becomes a conflict. */
async function write<T>(ctx: FlowContext, what: string, change: (tx: Sql) => Promise<T>): Promise<T> {
  try {
    return await ctx.db.tx(change);
  } catch (error) {
    throw isUniqueViolation(error) ? slugTaken(what, error) : error;
  }
}

/** Its maker becomes its administrator. */
export async function createOrg(
  ctx: FlowContext,
  actor: Actor,
  given: { slug?: string | undefined; name?: string | undefined },
): Promise<OrgRow> {
  const org = slugOf(given);
  requireFree(org.slug);
  return write(ctx, 'organization', async (tx) => {
    const row = await insertOrg(tx, org, actor.id ?? '');
    await recordAudit(tx, {
      orgId: row.id,
      projectId: null,
      principal: actor,
      action: 'org.created',
      subject: { kind: 'org', name: row.slug },
    });
    return row;
  });
}

/** Throws Fault `invalid` for a slug that cannot be one, `conflict` for one that is taken, `not_found`. */
export async function changeOrg(
  ctx: FlowContext,
  actor: Actor,
  orgId: string,
  change: { slug?: string; name?: string },
): Promise<OrgRow> {
  if (change.slug !== undefined) requireSlug(change.slug);
  if (change.slug !== undefined) requireFree(change.slug);
  return write(ctx, 'organization', async (tx) => {
    const row = await updateOrg(tx, orgId, change);
    if (row === undefined) throw notVisible();
    await recordAudit(tx, {
      orgId,
      projectId: null,
      principal: actor,
      action: 'org.updated',
      subject: { kind: 'org', name: row.slug },
      detail: { ...change },
    });
    return row;
  });
}

/**
 * Deletes an organization without projects: those are deleted one by one, knowingly, and one that is being deleted does not
 * count. Never the organization that the installation began with: who administers it administers the installation, and that
 * must not pass to whoever made the next one. Throws Fault `conflict` or `not_found`.
 */
export async function removeOrg(ctx: FlowContext, actor: Actor, org: { id: string; slug: string }): Promise<void> {
  await ctx.db.tx(async (tx) => {
    await requireNotFirst(tx, org.id);
    if (!(await deleteEmptyOrg(tx, org.id))) throw (await hasProjects(tx, org.id)) ? orgNotEmpty() : notVisible();
    await recordAudit(tx, {
      orgId: org.id,
      projectId: null,
      principal: actor,
      action: 'org.deleted',
      subject: { kind: 'org', name: org.slug },
    });
  });
}

const orgNotEmpty = (): Fault =>
  new Fault('conflict', 'org-not-empty', 'The organization still has projects; delete them first.');

async function requireNotFirst(sql: Sql, orgId: string): Promise<void> {
  if ((await firstOrgId(sql)) !== orgId) return;
  throw new Fault(
    'conflict',
    'first-organization',
    'The installation began with this organization, and its administrators are those of the installation; it can be renamed, not deleted.',
  );
}

/** Whether an organization could be deleted now. Throws the faults of `removeOrg`. */
export async function checkOrgRemoval(ctx: FlowContext, orgId: string): Promise<void> {
  await requireNotFirst(ctx.db, orgId);
  if (await hasProjects(ctx.db, orgId)) throw orgNotEmpty();
}

/** Throws Fault `invalid` for a slug that cannot be one, `conflict` for one that is taken, `not_found` without the organization. */
export async function createProject(
  ctx: FlowContext,
  actor: Actor,
  orgId: string,
  given: { slug?: string | undefined; name?: string | undefined },
): Promise<ProjectRow> {
  const project = slugOf(given);
  return write(ctx, 'project', async (tx) => {
    const row = await insertProject(tx, orgId, project);
    if (row === undefined) throw notVisible();
    await recordAudit(tx, {
      orgId,
      projectId: row.id,
      principal: actor,
      action: 'project.created',
      subject: { kind: 'project', name: row.slug },
    });
    return row;
  });
}

/** Also archives and brings back. Throws Fault `invalid`, `conflict` for a slug that is taken, `not_found`. */
export async function changeProject(
  ctx: FlowContext,
  actor: Actor,
  project: ProjectRef,
  change: ProjectChange & EnvironmentChange,
): Promise<ProjectRow> {
  if (change.slug !== undefined) requireSlug(change.slug);
  return write(ctx, 'project', async (tx) => {
    const isOfEnvironment = change.limits !== undefined || change.network !== undefined;
    if (isOfEnvironment) await changeEnvironment(tx, project.id, change);
    const now = ctx.runtime.now();
    // No daemon takes one any more, and what is under way would change what is to stay as it is.
    if (change.archived === true)
      await endRunsOf(tx, { projectId: project.id, detail: 'the project was archived', now });
    const before = change.archived === false ? await getProject(tx, project.id) : undefined;
    const row = await updateProject(tx, project.id, change, now);
    if (row === undefined) throw notVisible();
    if (before !== undefined && before.archivedAt !== null) await lookAnew(tx, project);
    // What failed for what was allowed may be allowed now.
    else if (isOfEnvironment) await wishFailing(tx, { projectId: project.id, except: null });
    await recordAudit(tx, {
      orgId: project.orgId,
      projectId: project.id,
      principal: actor,
      action: 'project.updated',
      subject: { kind: 'project', name: row.slug },
      detail: JSON.parse(JSON.stringify(change)) as JsonObject,
    });
    return row;
  });
}

/** What its repositories lacked may have come while nobody looked, and what happened meanwhile was told to nobody. */
async function lookAnew(tx: Sql, { id, orgId }: ProjectRef): Promise<void> {
  await enqueueResyncs(tx, { orgId, projectId: id });
  await wishPullLooks(tx, { projectId: id });
}

/** Whether a project could be changed so now. Throws the faults of `changeProject`. */
export async function checkProjectChange(
  ctx: FlowContext,
  project: ProjectRef,
  { slug }: Pick<ProjectChange, 'slug'>,
): Promise<void> {
  if (slug === undefined) return;
  requireSlug(slug);
  if (await isSlugOfAnother(ctx.db, project, slug)) throw slugTaken('project');
}

/** How long a deletion is waited for by whoever asks for it; what is left by then goes on without. */
const deletionWaitMs = 1_000;

/** With everything that lies in it, which may take its time. The audit stays with the organization. */
export async function removeProject(ctx: FlowContext, actor: Actor, project: ProjectRef): Promise<void> {
  await ctx.db.tx(async (tx) => {
    if (!(await markDeleted(tx, project.id))) throw notVisible();
    await recordAudit(tx, {
      orgId: project.orgId,
      projectId: project.id,
      principal: actor,
      action: 'project.deleted',
      subject: { kind: 'project', name: project.slug },
    });
  });
  failpoint('project.marked-deleted');
  // It is deleted for everybody by now: what fails here is tried again.
  await deleteInSlices(ctx, project.id, AbortSignal.timeout(deletionWaitMs)).catch((error: unknown) => {
    ctx.runtime.log.warn({ err: error, projectId: project.id }, 'project.deletion_interrupted');
  });
}

/**
 * Goes on with the deletion of projects, until `signal`; one daemon at a time for each of them. A slice of each in turn, so
 * that a small one waits for no large one; what fails for one is thrown when the others are done.
 */
export async function finishDeletions(ctx: FlowContext, signal: AbortSignal): Promise<void> {
  const over = new Set<string>();
  const failures: unknown[] = [];
  let ids = await deletedProjects(ctx.db, []);
  const isSome = ids.length > 0;
  while (ids.length > 0 && !signal.aborted) {
    for (const id of ids) {
      if (signal.aborted) break;
      try {
        if (!(await deleteSlice(ctx, id))) over.add(id);
      } catch (error) {
        over.add(id);
        failures.push(error);
      }
    }
    ids = await deletedProjects(ctx.db, [...over]);
  }
  // Two daemons that end with the last two projects of an organization do not see each other's end.
  if (isSome) await deleteOrgsGone(ctx.db);
  if (failures.length > 0) throw failures[0];
}

async function deleteInSlices(ctx: FlowContext, projectId: string, signal: AbortSignal): Promise<void> {
  for (let more = true; more && !signal.aborted; ) {
    more = await deleteSlice(ctx, projectId);
  }
}

async function deleteSlice(ctx: FlowContext, projectId: string): Promise<boolean> {
  const more = await ctx.db.tx((tx) => deleteProjectSlice(tx, projectId));
  failpoint('project.slice-deleted');
  return more;
}

/** Throws Fault `not_found`. */
export async function readOrg(ctx: FlowContext, orgId: string): Promise<OrgRow> {
  const row = await getOrg(ctx.db, orgId);
  if (row === undefined) throw notVisible();
  return row;
}

/** Throws Fault `not_found`. */
export async function readProject(ctx: FlowContext, projectId: string): Promise<ProjectRow> {
  const row = await getProject(ctx.db, projectId);
  if (row === undefined) throw notVisible();
  return row;
}
