// Members of organizations and projects, and service accounts.

import { isUuid } from '../../internal/domain/uuid.ts';
import * as v from 'valibot';
import { actReason, displayName, dryRun, dryRunQuery, orgPath, projectPath, reasonBody } from './common.ts';
import { named, operation, pageOf, pageQuery, type Shape } from './operation.ts';

/** Exactly one of the three says who. */
export const whoEntries = {
  principalId: v.optional(v.string()),
  email: v.optional(v.pipe(v.string(), v.trim(), v.email(), v.maxLength(254))),
  serviceAccount: v.optional(displayName),
};
/** For v.check on a body with `whoEntries`. */
export function namesOne(input: { principalId?: unknown; email?: unknown; serviceAccount?: unknown }): boolean {
  return [input.principalId, input.email, input.serviceAccount].filter((one) => one !== undefined).length === 1;
}
export const oneWho = 'Expected exactly one of principalId, email and serviceAccount';

/** An account is addressed by name where an id would do as well, so a name must not look like one. */
const accountName = v.pipe(
  displayName,
  v.check((name) => !isUuid(name), 'Expected a name that does not look like an id'),
);
const orgRole = v.picklist(['admin', 'member']);
const projectRole = v.picklist(['viewer', 'operator', 'admin']);
export const member = named(
  'Member',
  v.object({
    principalId: v.string(),
    kind: v.picklist(['user', 'service_account']),
    name: v.string(),
    email: v.nullable(v.string()),
    role: v.string(),
    createdAt: v.string(),
  }),
);
export type Member = Shape<typeof member>;
export const serviceAccount = named(
  'ServiceAccount',
  v.object({ id: v.string(), name: v.string(), disabledAt: v.nullable(v.string()), createdAt: v.string() }),
);
const memberPage = pageOf('MemberPage', member);

const inOrg = { tag: 'members', scope: 'org' } as const;
const readOrg = { ...inOrg, method: 'GET', permission: 'org_members:read' } as const;
const writeOrg = { ...inOrg, permission: 'org_members:write' } as const;
const inProject = { tag: 'members', scope: 'project' } as const;
const writeProject = { ...inProject, permission: 'members:write' } as const;

export const listOrganizationMembers = operation({
  ...readOrg,
  id: 'listOrganizationMembers',
  path: `${orgPath}/members`,
  summary: 'Members of an organization',
  query: v.strictObject(pageQuery),
  answers: { 200: memberPage },
});

export const setOrganizationMember = operation({
  ...writeOrg,
  method: 'POST',
  id: 'setOrganizationMember',
  path: `${orgPath}/members`,
  summary: 'Add a member, or change its role; a new e-mail address makes a new person',
  body: v.pipe(
    v.strictObject({ ...whoEntries, name: v.optional(displayName), role: v.optional(orgRole, 'member') }),
    v.check((input) => namesOne(input), oneWho),
  ),
  answers: { 201: member },
});

export const updateOrganizationMember = operation({
  ...writeOrg,
  method: 'PATCH',
  id: 'updateOrganizationMember',
  path: `${orgPath}/members/:member`,
  summary: 'Change the role of a member',
  body: v.strictObject({ role: orgRole }),
  answers: { 200: member },
});

export const removeOrganizationMember = operation({
  ...writeOrg,
  method: 'DELETE',
  id: 'removeOrganizationMember',
  path: `${orgPath}/members/:member`,
  summary: 'Remove a member from the organization and all its projects',
  query: v.strictObject(dryRunQuery),
  body: reasonBody,
  answers: { 200: dryRun, 204: null },
});

export const listMembers = operation({
  ...inProject,
  method: 'GET',
  permission: 'members:read',
  id: 'listMembers',
  path: `${projectPath}/members`,
  summary: 'Members of a project',
  query: v.strictObject(pageQuery),
  answers: { 200: memberPage },
});

export const setMember = operation({
  ...writeProject,
  method: 'POST',
  id: 'setMember',
  path: `${projectPath}/members`,
  summary: 'Add a member of the organization to the project, or change its role',
  body: v.pipe(
    v.strictObject({ ...whoEntries, role: v.optional(projectRole, 'viewer') }),
    v.check((input) => namesOne(input), oneWho),
  ),
  answers: { 201: member },
});

export const updateMember = operation({
  ...writeProject,
  method: 'PATCH',
  id: 'updateMember',
  path: `${projectPath}/members/:member`,
  summary: 'Change the role of a member',
  body: v.strictObject({ role: projectRole }),
  answers: { 200: member },
});

export const removeMember = operation({
  ...writeProject,
  method: 'DELETE',
  id: 'removeMember',
  path: `${projectPath}/members/:member`,
  summary: 'Remove a member',
  query: v.strictObject(dryRunQuery),
  body: reasonBody,
  answers: { 200: dryRun, 204: null },
});

const accounts = { ...readOrg, tag: 'service-accounts' } as const;
const writeAccounts = { ...writeOrg, tag: 'service-accounts' } as const;

export const listServiceAccounts = operation({
  ...accounts,
  id: 'listServiceAccounts',
  path: `${orgPath}/service-accounts`,
  summary: 'Service accounts of an organization',
  query: v.strictObject(pageQuery),
  answers: { 200: pageOf('ServiceAccountPage', serviceAccount) },
});

export const createServiceAccount = operation({
  ...writeAccounts,
  method: 'POST',
  id: 'createServiceAccount',
  path: `${orgPath}/service-accounts`,
  summary: 'Create a service account, with a role in the organization when given',
  body: v.strictObject({ name: accountName, role: v.optional(orgRole) }),
  answers: { 201: serviceAccount },
});

export const getServiceAccount = operation({
  ...accounts,
  id: 'getServiceAccount',
  path: `${orgPath}/service-accounts/:account`,
  summary: 'A service account, by id or name',
  answers: { 200: serviceAccount },
});

export const updateServiceAccount = operation({
  ...writeAccounts,
  method: 'PATCH',
  id: 'updateServiceAccount',
  path: `${orgPath}/service-accounts/:account`,
  summary: 'Disable a service account, so that none of its tokens is valid, or enable it again; by id or name',
  query: v.strictObject(dryRunQuery),
  body: v.strictObject({ disabled: v.boolean(), reason: actReason }),
  answers: { 200: v.union([serviceAccount, dryRun]) },
});

export const deleteServiceAccount = operation({
  ...writeAccounts,
  method: 'DELETE',
  id: 'deleteServiceAccount',
  path: `${orgPath}/service-accounts/:account`,
  summary: 'Delete a service account with its tokens; by id or name',
  query: v.strictObject(dryRunQuery),
  body: reasonBody,
  answers: { 200: dryRun, 204: null },
});
