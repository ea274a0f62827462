// The caller, organizations and projects.

import * as v from 'valibot';
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
import { selfPermissions } from '../../../domain/permission.ts';
import { pageOf, pageQuery, pageSchema, readTextPage } from '../page.ts';
import { created, defineRoute, noContent, ok, type Route } from '../route.ts';

const name = v.pipe(v.string(), v.trim(), v.minLength(1), v.maxLength(200));
const orgAnswer = v.object({ id: v.string(), slug: v.string(), name: v.string(), createdAt: v.string() });
const projectAnswer = v.object({
  ...orgAnswer.entries,
  org: v.string(),
  archived: v.boolean(),
  archivedAt: v.nullable(v.string()),
});
const grants = {
  id: v.string(),
  slug: v.string(),
  name: v.string(),
  role: v.string(),
  permissions: v.array(v.string()),
};

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
});

const newTenant = v.pipe(
  v.strictObject({ slug: v.optional(v.string()), name: v.optional(name) }),
  v.check((input) => input.slug !== undefined || input.name !== undefined, 'Expected slug or name'),
);

const orgRoutes: readonly Route[] = [
  defineRoute({
    method: 'GET',
    path: '/api/v1/me',
    summary: 'The caller, with its roles and permissions',
    scope: 'self',
    permission: 'self:read',
    answers: {
      200: v.object({
        id: v.string(),
        kind: v.picklist(['user', 'service_account']),
        name: v.string(),
        email: v.nullable(v.string()),
        permissions: v.array(v.string()),
        orgs: v.array(v.object({ ...grants, projects: v.array(v.object(grants)) })),
      }),
    },
    async handle({ ctx, principal, can }) {
      const { id, kind, name: own, email } = principal;
      const orgs = await listGrants(ctx, id, principal.tokenOrgId);
      // What the caller may do somewhere; the lists below say where.
      const everywhere = new Set<string>(selfPermissions.filter((one) => can(one)));
      for (const org of orgs) {
        for (const one of [org, ...org.projects]) for (const permission of one.permissions) everywhere.add(permission);
      }
      return ok({ id, kind, name: own, email, permissions: [...everywhere].sort(), orgs });
    },
  }),
  defineRoute({
    method: 'GET',
    path: '/api/v1/orgs',
    summary: 'Organizations that the caller can see',
    scope: 'self',
    permission: 'orgs:list',
    query: v.strictObject(pageQuery),
    answers: { 200: pageSchema(orgAnswer) },
    async handle({ ctx, principal, query }) {
      const { limit, after } = readTextPage(query);
      const page = { limit: limit + 1, only: principal.tokenOrgId, ...(after !== undefined && { after }) };
      const rows = await listOrgs(ctx.db, principal.id, page);
      return ok(pageOf(rows, limit, (row) => [row.slug], showOrg));
    },
  }),
  defineRoute({
    method: 'POST',
    path: '/api/v1/orgs',
    summary: 'Create an organization; the caller becomes its administrator',
    scope: 'self',
    permission: 'orgs:create',
    body: newTenant,
    answers: { 201: orgAnswer },
    handle: async ({ ctx, actor, body }) => created(showOrg(await createOrg(ctx, actor, body))),
  }),
  defineRoute({
    method: 'GET',
    path: '/api/v1/orgs/:org',
    summary: 'An organization',
    scope: 'org',
    permission: 'org:read',
    answers: { 200: orgAnswer },
    handle: async ({ ctx, org }) => ok(showOrg(await readOrg(ctx, org.id))),
  }),
  defineRoute({
    method: 'PATCH',
    path: '/api/v1/orgs/:org',
    summary: 'Rename an organization',
    scope: 'org',
    permission: 'org:write',
    body: v.strictObject({ slug: v.optional(v.string()), name: v.optional(name) }),
    answers: { 200: orgAnswer },
    handle: async ({ ctx, actor, org, body }) => ok(showOrg(await changeOrg(ctx, actor, org.id, given(body)))),
  }),
  defineRoute({
    method: 'DELETE',
    path: '/api/v1/orgs/:org',
    summary: 'Delete an organization that has no projects',
    scope: 'org',
    permission: 'org:write',
    answers: { 204: null },
    async handle({ ctx, actor, org }) {
      await removeOrg(ctx, actor, org);
      return noContent;
    },
  }),
];

const projectRoutes: readonly Route[] = [
  defineRoute({
    method: 'GET',
    path: '/api/v1/orgs/:org/projects',
    summary: 'Projects that the caller can see',
    scope: 'org',
    permission: 'org:read',
    query: v.strictObject(pageQuery),
    answers: { 200: pageSchema(projectAnswer) },
    async handle({ ctx, org, principal, query }) {
      const { limit, after } = readTextPage(query);
      const page = { limit: limit + 1, ...(after !== undefined && { after }) };
      const rows = await listProjects(ctx.db, org.id, principal.id, page);
      return ok(
        pageOf(
          rows,
          limit,
          (row) => [row.slug],
          (row) => showProject(row, org.slug),
        ),
      );
    },
  }),
  defineRoute({
    method: 'POST',
    path: '/api/v1/orgs/:org/projects',
    summary: 'Create a project',
    scope: 'org',
    permission: 'projects:create',
    body: newTenant,
    answers: { 201: projectAnswer },
    handle: async ({ ctx, actor, org, body }) =>
      created(showProject(await createProject(ctx, actor, org.id, body), org.slug)),
  }),
  defineRoute({
    method: 'GET',
    path: '/api/v1/orgs/:org/projects/:project',
    summary: 'A project',
    scope: 'project',
    permission: 'project:read',
    answers: { 200: projectAnswer },
    handle: async ({ ctx, org, project }) => ok(showProject(await readProject(ctx, project.id), org.slug)),
  }),
  defineRoute({
    method: 'PATCH',
    path: '/api/v1/orgs/:org/projects/:project',
    summary: 'Rename, archive or bring back a project',
    scope: 'project',
    permission: 'project:write',
    body: v.strictObject({ slug: v.optional(v.string()), name: v.optional(name), archived: v.optional(v.boolean()) }),
    answers: { 200: projectAnswer },
    handle: async ({ ctx, actor, org, project, body }) =>
      ok(showProject(await changeProject(ctx, actor, project, given(body)), org.slug)),
  }),
  defineRoute({
    method: 'DELETE',
    path: '/api/v1/orgs/:org/projects/:project',
    summary: 'Delete a project with everything in it',
    scope: 'project',
    permission: 'project:write',
    answers: { 204: null },
    async handle({ ctx, actor, project }) {
      await removeProject(ctx, actor, project);
      return noContent;
    },
  }),
];

export const tenancyRoutes: readonly Route[] = [...orgRoutes, ...projectRoutes];
