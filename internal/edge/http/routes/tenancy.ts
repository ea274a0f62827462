// The caller, organizations and projects.

import * as api from '../../../../schemas/api/tenancy.ts';
import { countOrgs, countProjects } from '../../../adapters/store/console/counts.ts';
import { listOrgs, listProjects, type OrgRow, type ProjectRow } from '../../../adapters/store/tenancy/tenancy.ts';
import {
  changeOrg,
  changeProject,
  createOrg,
  createProject,
  listGrants,
  readOrg,
  readProject,
  removeOrg,
  removeProject,
} from '../../../flows/tenancy/tenancy.ts';
import { tellsBreakGlass } from '../../../flows/signin/signin.ts';
import { selfPermissions } from '../../../domain/permission.ts';
import { pageOf, readTextPage } from '../page.ts';
import type { FlowContext } from '../../../flows/context.ts';
import { type Call, created, noContent, ok, type Principal, type Route, serve } from '../route.ts';
import { dryChangeProject, dryDeleteOrg, dryDeleteProject } from '../../../flows/console/console.ts';
import { counted, withReason } from './shapes.ts';

/** Leaves out what was not given, so that a change says only what it changes. */
function given<T extends object>(input: T): { [K in keyof T]-?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(input).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]-?: Exclude<T[K], undefined>;
  };
}

const showOrg = (row: OrgRow) => ({
  id: row.id,
  slug: row.slug,
  name: row.name,
  createdAt: row.createdAt.toISOString(),
});
const showProject = (row: ProjectRow, org: string) => ({
  ...showOrg(row),
  org,
  archived: row.archivedAt !== null,
  archivedAt: row.archivedAt?.toISOString() ?? null,
  ...(row.limits !== null && { limits: row.limits }),
  ...(row.network !== null && { network: row.network }),
  approvers: Object.fromEntries(Object.entries(row.approvers).map(([key, ids]) => [key, [...(ids ?? [])]])),
  notify: row.notify,
});

const orgRoutes: readonly Route[] = [
  serve(api.getMe, async ({ ctx, principal, can, session }) => {
    const orgs = await listGrants(ctx, principal.id, principal.tokenOrgId);
    return ok(showMe(ctx, { principal, session, orgs, own: selfPermissions.filter((one) => can(one)) }));
  }),
  serve(api.listOrganizations, async ({ ctx, principal, query }) => {
    const { limit, after } = readTextPage(query);
    const page = { limit: limit + 1, only: principal.tokenOrgId, ...(after !== undefined && { after }) };
    const rows = await listOrgs(ctx.db, principal.id, page);
    const total = query.counts === 'true' ? await countOrgs(ctx.db, principal.id, principal.tokenOrgId) : undefined;
    return ok({ ...pageOf(rows, limit, (row) => [row.slug], showOrg), ...counted(total) });
  }),
  serve(api.createOrganization, async ({ ctx, actor, body }) => created(showOrg(await createOrg(ctx, actor, body)))),
  serve(api.getOrganization, async ({ ctx, org }) => ok(showOrg(await readOrg(ctx, org.id)))),
  serve(api.updateOrganization, async ({ ctx, actor, org, body }) =>
    ok(showOrg(await changeOrg(ctx, actor, org.id, given(body)))),
  ),
  serve(api.deleteOrganization, async ({ ctx, actor, org, query, body }) => {
    if (query.dryRun === 'true') return ok(await dryDeleteOrg(ctx, org));
    await removeOrg(ctx, withReason(actor, body), org);
    return noContent;
  }),
];

const projectRoutes: readonly Route[] = [
  serve(api.listProjects, async ({ ctx, org, principal, query }) => {
    const { limit, after } = readTextPage(query);
    const page = { limit: limit + 1, ...(after !== undefined && { after }) };
    const rows = await listProjects(ctx.db, org.id, principal.id, page);
    const total = query.counts === 'true' ? await countProjects(ctx.db, org.id, principal.id) : undefined;
    const shown = (row: ProjectRow) => showProject(row, org.slug);
    return ok({ ...pageOf(rows, limit, (row) => [row.slug], shown), ...counted(total) });
  }),
  serve(api.createProject, async ({ ctx, actor, org, body }) =>
    created(showProject(await createProject(ctx, actor, org.id, body), org.slug)),
  ),
  serve(api.getProject, async ({ ctx, org, project }) => ok(showProject(await readProject(ctx, project.id), org.slug))),
  serve(api.updateProject, async ({ ctx, actor, org, project, query, body }) => {
    const { reason, ...change } = body;
    if (query.dryRun === 'true') return ok(await dryChangeProject(ctx, project, change));
    const by = withReason(actor, { ...(reason !== undefined && { reason }) });
    return ok(showProject(await changeProject(ctx, by, project, given(change)), org.slug));
  }),
  serve(api.deleteProject, async ({ ctx, actor, project, query, body }) => {
    if (query.dryRun === 'true') return ok(await dryDeleteProject(ctx, project));
    await removeProject(ctx, withReason(actor, body), project);
    return noContent;
  }),
];

/** The caller; `own` is what it may do with what is its own. */
export function showMe(
  ctx: FlowContext,
  of: {
    readonly principal: Principal;
    readonly session: Call['session'];
    readonly orgs: Awaited<ReturnType<typeof listGrants>>;
    readonly own: readonly string[];
  },
) {
  const { id, kind, name: own, email } = of.principal;
  // What the caller may do somewhere; the lists below say where.
  const everywhere = new Set<string>(of.own);
  for (const org of of.orgs) {
    for (const one of [org, ...org.projects]) for (const permission of one.permissions) everywhere.add(permission);
  }
  const { method, expiresAt, installation } = of.session ?? {};
  const told = { ...(tellsBreakGlass(ctx) && { breakGlass: installation === true }) };
  return {
    ...{ id, kind, name: own, email, permissions: [...everywhere].sort(), orgs: of.orgs },
    session: method === undefined || expiresAt === undefined ? null : { method, expiresAt, ...told },
  };
}

export const tenancyRoutes: readonly Route[] = [...orgRoutes, ...projectRoutes];
