// Members of organizations and projects, and service accounts.

import * as v from 'valibot';
import { listServiceAccounts, type PrincipalRow } from '../../../adapters/store/tenancy/principals.ts';
import { listMembers, type Membership, type MemberRow } from '../../../adapters/store/tenancy/tenancy.ts';
import { isUuid } from '../../../adapters/store/tenancy/access.ts';
import {
  changeRole,
  createServiceAccount,
  readServiceAccount,
  removeMember,
  removeServiceAccount,
  setDisabled,
  setOrgMember,
  setProjectMember,
} from '../../../flows/tenancy/tenancy.ts';
import type { FlowContext } from '../../../flows/context.ts';
import { Fault } from '../../../domain/fault.ts';
import { pageOf, pageQuery, pageSchema, readTextPage } from '../page.ts';
import { type Answer, created, defineRoute, noContent, ok, type Route } from '../route.ts';

const text = v.pipe(v.string(), v.trim(), v.minLength(1), v.maxLength(200));
/** Exactly one of the three says who. */
export const whoEntries = {
  principalId: v.optional(v.string()),
  email: v.optional(v.pipe(v.string(), v.trim(), v.email(), v.maxLength(254))),
  serviceAccount: v.optional(text),
};
/** For v.check on a body with `whoEntries`. */
export function namesOne(input: { principalId?: unknown; email?: unknown; serviceAccount?: unknown }): boolean {
  return [input.principalId, input.email, input.serviceAccount].filter((one) => one !== undefined).length === 1;
}
export const oneWho = 'Expected exactly one of principalId, email and serviceAccount';

/** An account is addressed by name where an id would do as well, so a name must not look like one. */
const accountName = v.pipe(
  text,
  v.check((name) => !isUuid(name), 'Expected a name that does not look like an id'),
);
const orgRole = v.picklist(['admin', 'member']);
const projectRole = v.picklist(['viewer', 'operator', 'admin']);
const memberAnswer = v.object({
  principalId: v.string(),
  kind: v.picklist(['user', 'service_account']),
  name: v.string(),
  email: v.nullable(v.string()),
  role: v.string(),
  createdAt: v.string(),
});
const accountAnswer = v.object({
  id: v.string(),
  name: v.string(),
  disabledAt: v.nullable(v.string()),
  createdAt: v.string(),
});

const showMember = (row: MemberRow) => ({ ...row, createdAt: row.createdAt.toISOString() });
const showAccount = (row: PrincipalRow) => ({
  id: row.id,
  name: row.name,
  disabledAt: row.disabledAt?.toISOString() ?? null,
  createdAt: row.createdAt.toISOString(),
});

async function list(
  ctx: FlowContext,
  membership: Membership,
  query: { limit?: string | undefined; cursor?: string | undefined },
): Promise<Answer> {
  const { limit, after } = readTextPage(query);
  if (after !== undefined && !isUuid(after))
    throw new Fault('invalid', 'invalid-cursor', 'The cursor was not made by this list; start again without one.');
  const rows = await listMembers(ctx.db, membership, { limit: limit + 1, ...(after !== undefined && { after }) });
  return ok(pageOf(rows, limit, (row) => [row.principalId], showMember));
}

const org = '/api/v1/orgs/:org';
const project = `${org}/projects/:project`;

const orgMembers: readonly Route[] = [
  defineRoute({
    method: 'GET',
    path: `${org}/members`,
    summary: 'Members of an organization',
    scope: 'org',
    permission: 'org_members:read',
    query: v.strictObject(pageQuery),
    answers: { 200: pageSchema(memberAnswer) },
    handle: ({ ctx, org: { id }, query }) => list(ctx, { orgId: id }, query),
  }),
  defineRoute({
    method: 'POST',
    path: `${org}/members`,
    summary: 'Add a member, or change its role; a new e-mail address makes a new person',
    scope: 'org',
    permission: 'org_members:write',
    body: v.pipe(
      v.strictObject({ ...whoEntries, name: v.optional(text), role: v.optional(orgRole, 'member') }),
      v.check((input) => namesOne(input), oneWho),
    ),
    answers: { 201: memberAnswer },
    handle: async ({ ctx, actor, org: { id }, body }) =>
      created(showMember(await setOrgMember(ctx, actor, id, body, body.role))),
  }),
  defineRoute({
    method: 'PATCH',
    path: `${org}/members/:member`,
    summary: 'Change the role of a member',
    scope: 'org',
    permission: 'org_members:write',
    body: v.strictObject({ role: orgRole }),
    answers: { 200: memberAnswer },
    handle: async ({ ctx, actor, org: { id }, params, body }) =>
      ok(showMember(await changeRole(ctx, actor, { orgId: id }, params['member'] ?? '', body.role))),
  }),
  defineRoute({
    method: 'DELETE',
    path: `${org}/members/:member`,
    summary: 'Remove a member from the organization and all its projects',
    scope: 'org',
    permission: 'org_members:write',
    answers: { 204: null },
    async handle({ ctx, actor, org: { id }, params }) {
      await removeMember(ctx, actor, { orgId: id }, params['member'] ?? '');
      return noContent;
    },
  }),
];

const projectMembers: readonly Route[] = [
  defineRoute({
    method: 'GET',
    path: `${project}/members`,
    summary: 'Members of a project',
    scope: 'project',
    permission: 'members:read',
    query: v.strictObject(pageQuery),
    answers: { 200: pageSchema(memberAnswer) },
    handle: ({ ctx, project: { id, orgId }, query }) => list(ctx, { orgId, projectId: id }, query),
  }),
  defineRoute({
    method: 'POST',
    path: `${project}/members`,
    summary: 'Add a member of the organization to the project, or change its role',
    scope: 'project',
    permission: 'members:write',
    body: v.pipe(
      v.strictObject({ ...whoEntries, role: v.optional(projectRole, 'viewer') }),
      v.check((input) => namesOne(input), oneWho),
    ),
    answers: { 201: memberAnswer },
    handle: async ({ ctx, actor, project: { id, orgId }, body }) =>
      created(showMember(await setProjectMember(ctx, actor, { orgId, projectId: id }, body, body.role))),
  }),
  defineRoute({
    method: 'PATCH',
    path: `${project}/members/:member`,
    summary: 'Change the role of a member',
    scope: 'project',
    permission: 'members:write',
    body: v.strictObject({ role: projectRole }),
    answers: { 200: memberAnswer },
    handle: async ({ ctx, actor, project: { id, orgId }, params, body }) =>
      ok(showMember(await changeRole(ctx, actor, { orgId, projectId: id }, params['member'] ?? '', body.role))),
  }),
  defineRoute({
    method: 'DELETE',
    path: `${project}/members/:member`,
    summary: 'Remove a member',
    scope: 'project',
    permission: 'members:write',
    answers: { 204: null },
    async handle({ ctx, actor, project: { id, orgId }, params }) {
      await removeMember(ctx, actor, { orgId, projectId: id }, params['member'] ?? '');
      return noContent;
    },
  }),
];

const serviceAccounts: readonly Route[] = [
  defineRoute({
    method: 'GET',
    path: `${org}/service-accounts`,
    summary: 'Service accounts of an organization',
    scope: 'org',
    permission: 'org_members:read',
    query: v.strictObject(pageQuery),
    answers: { 200: pageSchema(accountAnswer) },
    async handle({ ctx, org: { id }, query }) {
      const { limit, after } = readTextPage(query);
      const rows = await listServiceAccounts(ctx.db, id, { limit: limit + 1, ...(after !== undefined && { after }) });
      return ok(pageOf(rows, limit, (row) => [row.name], showAccount));
    },
  }),
  defineRoute({
    method: 'POST',
    path: `${org}/service-accounts`,
    summary: 'Create a service account, with a role in the organization when given',
    scope: 'org',
    permission: 'org_members:write',
    body: v.strictObject({ name: accountName, role: v.optional(orgRole) }),
    answers: { 201: accountAnswer },
    handle: async ({ ctx, actor, org: { id }, body }) =>
      created(showAccount(await createServiceAccount(ctx, actor, id, body))),
  }),
  defineRoute({
    method: 'GET',
    path: `${org}/service-accounts/:account`,
    summary: 'A service account, by id or name',
    scope: 'org',
    permission: 'org_members:read',
    answers: { 200: accountAnswer },
    handle: async ({ ctx, org: { id }, params }) =>
      ok(showAccount(await readServiceAccount(ctx, id, params['account'] ?? ''))),
  }),
  defineRoute({
    method: 'PATCH',
    path: `${org}/service-accounts/:account`,
    summary: 'Disable a service account, so that none of its tokens is valid, or enable it again; by id or name',
    scope: 'org',
    permission: 'org_members:write',
    body: v.strictObject({ disabled: v.boolean() }),
    answers: { 200: accountAnswer },
    handle: async ({ ctx, actor, org: { id }, params, body }) =>
      ok(showAccount(await setDisabled(ctx, actor, id, { account: params['account'] ?? '', ...body }))),
  }),
  defineRoute({
    method: 'DELETE',
    path: `${org}/service-accounts/:account`,
    summary: 'Delete a service account with its tokens; by id or name',
    scope: 'org',
    permission: 'org_members:write',
    answers: { 204: null },
    async handle({ ctx, actor, org: { id }, params }) {
      await removeServiceAccount(ctx, actor, id, params['account'] ?? '');
      return noContent;
    },
  }),
];

export const memberRoutes: readonly Route[] = [...orgMembers, ...projectMembers, ...serviceAccounts];
