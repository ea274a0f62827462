// What of an installation's projects a project of ours may read and hears of: listed, selected, given up. A selection is
// one transaction under the project's lock: subscriptions, the connection that agents name, the event, the audit entry.

import {
  endConnection,
  ensureConnection,
  grantById,
  type GrantRow,
  grantsOf,
  holdGrant,
  setSubscriptions,
  subscriptionsOf,
} from '../../adapters/store/connections/errtrack-grants.ts';
import { lockProject } from '../../adapters/store/routing/project-lock.ts';
import { recordAudit } from '../../adapters/store/tenancy/audit.ts';
import type { Sql } from '../../adapters/store/store.ts';
import { Fault } from '../../domain/fault.ts';
import type { Actor, FlowContext, ProjectRef } from '../context.ts';
import { recordConnectionChange } from './connection-change.ts';
import { type SetupCaller, setupScope } from './errtrack-authority.ts';

export interface ConnectionOption {
  readonly id: string;
  readonly name: string;
  readonly organizationSlug: string;
  readonly organizationName: string;
  readonly region: 'us' | 'de';
  readonly projects: readonly { readonly id: string; readonly slug: string }[];
  readonly selectedProjectIds: readonly string[];
  readonly available: boolean;
}

interface Named {
  readonly organizationId: string;
  readonly projectId: string;
}

/** The organization's installations, and what this project has selected of each. Throws Fault `forbidden`. */
export async function listOptions(
  ctx: FlowContext,
  caller: SetupCaller,
  named: Named,
): Promise<readonly ConnectionOption[]> {
  const project = await setupScope(ctx.db, caller, named);
  return optionsOf(ctx.db, project);
}

async function optionsOf(sql: Sql, project: ProjectRef): Promise<readonly ConnectionOption[]> {
  const grants = await grantsOf(sql, project.orgId);
  const selected = await subscriptionsOf(sql, project.id);
  return grants.map((grant) => ({
    id: grant.id,
    name: grant.name,
    organizationSlug: grant.organizationSlug,
    organizationName: grant.organizationName,
    region: grant.region,
    projects: grant.projects,
    selectedProjectIds: selected.filter((one) => one.grantId === grant.id).map((one) => one.errtrackProjectId),
    available: grant.status === 'ready' || grant.status === 'refreshing',
  }));
}

/**
 * Makes a project's selection what is given, or `all` that the grant sees; nothing disconnects it. Throws Fault `forbidden`,
 * `not_found` for a grant that the organization does not have, `invalid` for ids outside its recorded visibility, `conflict`
 * where its name is another connection's.
 */
export async function updateSelection(
  ctx: FlowContext,
  caller: SetupCaller,
  input: Named & { readonly providerGrantId: string; readonly errtrackProjectIds: readonly string[] | 'all' },
): Promise<ConnectionOption> {
  const project = await setupScope(ctx.db, caller, input);
  const grant = await grantById(ctx.db, input.providerGrantId);
  if (grant === undefined || grant.orgId !== project.orgId || grant.status === 'removed') {
    throw noGrant();
  }
  const wanted = input.errtrackProjectIds;
  const ids = wanted === 'all' ? grant.projects.map(({ id }) => id) : [...new Set(wanted)];
  if (ids.some((id) => !grant.projects.some((one) => one.id === id))) {
    throw new Fault(
      'invalid',
      'invalid-selection',
      'errtrackProjectIds: an id is not among the projects of the connection.',
    );
  }
  await ctx.db.tx(async (tx) => {
    await lockProject(tx, project.id);
    if (!(await holdGrant(tx, grant.id))) throw noGrant();
    await select(ctx, tx, { project, actor: caller.actor, grant, ids });
  });
  const found = (await optionsOf(ctx.db, project)).find((one) => one.id === grant.id);
  if (found === undefined) throw new Fault('not_found', 'grant-not-found', 'The connection has just been removed.');
  return found;
}

const noGrant = (): Fault =>
  new Fault('not_found', 'grant-not-found', 'The organization has no such error-tracking connection.');

interface Selecting {
  readonly project: ProjectRef;
  readonly actor: Actor;
  readonly grant: Pick<GrantRow, 'id' | 'name' | 'projects'>;
  readonly ids: readonly string[];
}

/** Inside the caller's transaction; takes the project's lock. */
export async function select(ctx: FlowContext, tx: Sql, { project, actor, grant, ids }: Selecting): Promise<void> {
  const now = ctx.runtime.now();
  await lockProject(tx, project.id);
  const chosen = grant.projects.filter(({ id }) => ids.includes(id));
  const before = (await subscriptionsOf(tx, project.id)).filter((one) => one.grantId === grant.id);
  await setSubscriptions(
    tx,
    { projectId: project.id, grantId: grant.id, now },
    chosen.map((one) => ({ ...one, subscriptionId: ctx.runtime.uuid() })),
  );
  await recordAudit(tx, {
    orgId: project.orgId,
    projectId: project.id,
    principal: actor,
    action: 'errtrack.projects_selected',
    subject: { kind: 'Connection', name: grant.name },
    detail: { projects: chosen.map(({ slug }) => slug) },
  });
  if (chosen.length === 0 && before.length === 0) return;
  const id =
    chosen.length === 0
      ? await endConnection(tx, { projectId: project.id, grantId: grant.id, now })
      : await ensureConnection(tx, {
          id: ctx.runtime.uuid(),
          projectId: project.id,
          grantId: grant.id,
          name: grant.name,
          now,
        });
  if (id === undefined) {
    throw new Fault(
      'conflict',
      'name-taken',
      `a connection named ${grant.name} of another kind exists in project ${project.slug}`,
    );
  }
  const row = { id, provider: 'errtrack' as const, name: grant.name, status: 'active' as const, config: {} };
  await recordConnectionChange(ctx, tx, {
    project,
    actor,
    row,
    what: chosen.length === 0 ? 'removed' : 'established',
    detail: {},
  });
}
