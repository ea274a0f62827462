// The caller, organizations and projects.

import * as v from 'valibot';
import { entryShape, isEntry, entriesMax } from '../../internal/domain/host-entry.ts';
import { actReason, displayName, dryRun, dryRunQuery, orgPath, projectPath, reasonBody, storable } from './common.ts';
import { named, operation, pageOf, pageQuery, type Shape } from './operation.ts';

const limits = v.strictObject({
  cpuCount: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1))),
  memoryMB: v.optional(v.pipe(v.number(), v.integer(), v.minValue(128))),
});
const network = v.strictObject({
  allow: v.pipe(v.array(v.pipe(v.string(), v.check(isEntry, `Expected ${entryShape}`))), v.maxLength(entriesMax)),
});
const tenant = { id: v.string(), slug: v.string(), name: v.string(), createdAt: v.string() };
export const organization = named('Organization', v.object(tenant));
export type Organization = Shape<typeof organization>;
const people = v.optional(
  v.pipe(
    v.array(v.pipe(v.string(), v.minLength(1), v.maxLength(200), storable)),
    v.maxLength(200),
    v.check((ids) => new Set(ids).size === ids.length, 'Expected each id once'),
  ),
);
const approvers = v.strictObject({ chat: people, codehost: people, tracker: people });
export const project = named(
  'Project',
  v.object({
    ...tenant,
    /** The organization's slug. */
    org: v.string(),
    archived: v.boolean(),
    archivedAt: v.nullable(v.string()),
    /** Ceilings of what its environments ask for. */
    limits: v.optional(limits),
    /** What its sessions reach, within the installation's list. */
    network: v.optional(v.object({ allow: v.array(v.string()) })),
    /** Ids at their providers, not logins, of those who may answer what sessions ask where they ask it. */
    approvers,
    /** Whether failed launches and questions are told in the thread, on the pull request or issue they came from. */
    notify: v.boolean(),
  }),
);
export type Project = Shape<typeof project>;

const grants = {
  id: v.string(),
  slug: v.string(),
  name: v.string(),
  role: v.string(),
  permissions: v.array(v.string()),
};
export const me = named(
  'Me',
  v.object({
    id: v.string(),
    kind: v.picklist(['user', 'service_account']),
    name: v.string(),
    email: v.nullable(v.string()),
    /** What the caller may do somewhere; the lists below say where. */
    permissions: v.array(v.string()),
    orgs: v.array(v.object({ ...grants, projects: v.array(v.object(grants)) })),
    /** Of the browser that calls; null where a token does. */
    session: v.nullable(
      v.object({
        method: v.string(),
        expiresAt: v.string(),
        /** Signed in with the token of the data directory; told where there is another way in. */
        breakGlass: v.optional(v.boolean()),
      }),
    ),
  }),
);
export type Me = Shape<typeof me>;

const newTenant = named(
  'NewTenant',
  v.pipe(
    v.strictObject({ slug: v.optional(v.string()), name: v.optional(displayName) }),
    v.check((input) => input.slug !== undefined || input.name !== undefined, 'Expected slug or name'),
  ),
);

export const getMe = operation({
  tag: 'me',
  method: 'GET',
  scope: 'self',
  permission: 'self:read',
  id: 'getMe',
  path: '/api/v1/me',
  summary: 'The caller, with its roles and permissions',
  answers: { 200: me },
});

export const listOrganizations = operation({
  tag: 'organizations',
  method: 'GET',
  scope: 'self',
  permission: 'orgs:list',
  id: 'listOrganizations',
  path: '/api/v1/orgs',
  summary: 'Organizations that the caller can see',
  query: v.strictObject(pageQuery),
  answers: { 200: pageOf('OrganizationPage', organization) },
});

export const createOrganization = operation({
  tag: 'organizations',
  method: 'POST',
  scope: 'self',
  permission: 'orgs:create',
  id: 'createOrganization',
  path: '/api/v1/orgs',
  summary: 'Create an organization; the caller becomes its administrator',
  body: newTenant,
  answers: { 201: organization },
});

export const getOrganization = operation({
  tag: 'organizations',
  method: 'GET',
  scope: 'org',
  permission: 'org:read',
  id: 'getOrganization',
  path: orgPath,
  summary: 'An organization',
  answers: { 200: organization },
});

export const updateOrganization = operation({
  tag: 'organizations',
  method: 'PATCH',
  scope: 'org',
  permission: 'org:write',
  id: 'updateOrganization',
  path: orgPath,
  summary: 'Rename an organization',
  body: v.strictObject({ slug: v.optional(v.string()), name: v.optional(displayName) }),
  answers: { 200: organization },
});

export const deleteOrganization = operation({
  tag: 'organizations',
  method: 'DELETE',
  scope: 'org',
  permission: 'org:write',
  id: 'deleteOrganization',
  path: orgPath,
  summary: 'Delete an organization that has no projects',
  query: v.strictObject(dryRunQuery),
  body: reasonBody,
  answers: { 200: dryRun, 204: null },
});

export const listProjects = operation({
  tag: 'projects',
  method: 'GET',
  scope: 'org',
  permission: 'org:read',
  id: 'listProjects',
  path: `${orgPath}/projects`,
  summary: 'Projects that the caller can see',
  query: v.strictObject(pageQuery),
  answers: { 200: pageOf('ProjectPage', project) },
});

export const createProject = operation({
  tag: 'projects',
  method: 'POST',
  scope: 'org',
  permission: 'projects:create',
  id: 'createProject',
  path: `${orgPath}/projects`,
  summary: 'Create a project',
  body: newTenant,
  answers: { 201: project },
});

export const getProject = operation({
  tag: 'projects',
  method: 'GET',
  scope: 'project',
  permission: 'project:read',
  id: 'getProject',
  path: projectPath,
  summary: 'A project',
  answers: { 200: project },
});

export const updateProject = operation({
  tag: 'projects',
  method: 'PATCH',
  scope: 'project',
  permission: 'project:write',
  id: 'updateProject',
  path: projectPath,
  summary: 'Change a project: its name, what its environments may ask for and reach, whom its sessions tell and ask',
  query: v.strictObject(dryRunQuery),
  body: v.strictObject({
    slug: v.optional(v.string()),
    name: v.optional(displayName),
    archived: v.optional(v.boolean()),
    limits: v.optional(v.nullable(limits)),
    network: v.optional(v.nullable(network)),
    /** A list that is given replaces that of its provider. */
    approvers: v.optional(approvers),
    notify: v.optional(v.boolean()),
    reason: actReason,
  }),
  answers: { 200: v.union([project, dryRun]) },
});

export const deleteProject = operation({
  tag: 'projects',
  method: 'DELETE',
  scope: 'project',
  permission: 'project:write',
  id: 'deleteProject',
  path: projectPath,
  summary: 'Delete a project with everything in it',
  query: v.strictObject(dryRunQuery),
  body: reasonBody,
  answers: { 200: dryRun, 204: null },
});
