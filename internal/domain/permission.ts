// Roles and permissions as one table (docs/reference/http-api.md#conventions). A permission is `resource:verb`; a role is the list of
// what it grants. Deny by default: what no row grants is refused.

export type OrgRole = 'admin' | 'member';
export type ProjectRole = 'viewer' | 'operator' | 'admin';

const viewer = [
  'project:read',
  'members:read',
  'agents:read',
  'triggers:read',
  'endpoints:read',
  'schedules:read',
  'events:read',
  'sessions:read',
  'bindings:read',
  'repositories:read',
  'reconciles:read',
  'connections:read',
  'receivers:read',
  'secrets:list',
  'harnesses:read',
] as const;

const operator = [
  ...viewer,
  'agents:start',
  'sessions:control',
  'sessions:exec',
  'bindings:release',
  'events:replay',
  'repositories:sync',
] as const;

const projectAdmin = [
  ...operator,
  'project:write',
  'members:write',
  'resources:apply',
  'agents:write',
  'endpoints:write',
  'repositories:write',
  'connections:write',
  'receivers:write',
  'provider_grants:use',
  'provider_grants:write',
  'secrets:write',
  'secrets:reveal',
  'audit:read',
] as const;

const orgMember = ['org:read'] as const;

const orgAdmin = [
  ...orgMember,
  'org:write',
  'org_members:read',
  'org_members:write',
  'projects:create',
  'tokens:read',
  'tokens:write',
] as const;

/**
 * What a caller may do with what is its own, whatever its roles; and `keys:rotate`, `jobs:retry` and `folders:add`, of the
 * whole installation, for administrators of the organization that it began with.
 */
export const selfPermissions = [
  'self:read',
  'self:write',
  'orgs:list',
  'orgs:create',
  'keys:rotate',
  'jobs:retry',
  'folders:add',
] as const;

export type ProjectPermission = (typeof projectAdmin)[number];
export type OrgPermission = (typeof orgAdmin)[number];
export type SelfPermission = (typeof selfPermissions)[number];
export type Permission = ProjectPermission | OrgPermission | SelfPermission;

/** Project role → permissions in that project. */
export const projectRoles: { readonly [role in ProjectRole]: readonly Permission[] } = {
  viewer,
  operator,
  admin: projectAdmin,
};

/**
 * Organization role → permissions at the organization itself. An organization administrator also holds every project
 * permission, in each of its projects and on what lies at organization scope (secrets, audit).
 */
export const orgRoles: { readonly [role in OrgRole]: readonly Permission[] } = {
  member: orgMember,
  admin: [...orgAdmin, ...projectAdmin],
};
