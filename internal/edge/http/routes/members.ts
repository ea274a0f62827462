// Members of organizations and projects, and service accounts.

import * as api from '../../../../schemas/api/members.ts';
import { countMembers, countServiceAccounts } from '../../../adapters/store/console/counts.ts';
import { listServiceAccounts, type PrincipalRow } from '../../../adapters/store/tenancy/principals.ts';
import { listMembers, type Membership, type MemberRow } from '../../../adapters/store/tenancy/tenancy.ts';
import { isUuid } from '../../../domain/uuid.ts';
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
import { messagesTable } from '../../../domain/messages.ts';
import { pageOf, readTextPage } from '../page.ts';
import { created, noContent, ok, type Route, serve } from '../route.ts';
import { dryEndServiceAccount, dryRemoveMember } from '../../../flows/console/console.ts';
import { counted, withReason } from './shapes.ts';

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
  query: { limit?: string | undefined; cursor?: string | undefined; counts?: string | undefined },
) {
  const { limit, after } = readTextPage(query);
  if (after !== undefined && !isUuid(after)) throw new Fault('invalid', 'invalid-cursor', messagesTable.foreignCursor);
  const rows = await listMembers(ctx.db, membership, { limit: limit + 1, ...(after !== undefined && { after }) });
  const total = query.counts === 'true' ? await countMembers(ctx.db, membership) : undefined;
  return ok({ ...pageOf(rows, limit, (row) => [row.principalId], showMember), ...counted(total) });
}

const orgMembers: readonly Route[] = [
  serve(api.listOrganizationMembers, ({ ctx, org: { id }, query }) => list(ctx, { orgId: id }, query)),
  serve(api.setOrganizationMember, async ({ ctx, actor, org: { id }, body }) =>
    created(showMember(await setOrgMember(ctx, actor, id, body, body.role))),
  ),
  serve(api.updateOrganizationMember, async ({ ctx, actor, org: { id }, params, body }) =>
    ok(showMember(await changeRole(ctx, actor, { orgId: id }, params.member, body.role))),
  ),
  serve(api.removeOrganizationMember, async ({ ctx, actor, org: { id }, params, query, body }) => {
    if (query.dryRun === 'true') return ok(await dryRemoveMember(ctx, { orgId: id }, params.member));
    await removeMember(ctx, withReason(actor, body), { orgId: id }, params.member);
    return noContent;
  }),
];

const projectMembers: readonly Route[] = [
  serve(api.listMembers, ({ ctx, project: { id, orgId }, query }) => list(ctx, { orgId, projectId: id }, query)),
  serve(api.setMember, async ({ ctx, actor, project: { id, orgId }, body }) =>
    created(showMember(await setProjectMember(ctx, actor, { orgId, projectId: id }, body, body.role))),
  ),
  serve(api.updateMember, async ({ ctx, actor, project: { id, orgId }, params, body }) =>
    ok(showMember(await changeRole(ctx, actor, { orgId, projectId: id }, params.member, body.role))),
  ),
  serve(api.removeMember, async ({ ctx, actor, project: { id, orgId }, params, query, body }) => {
    const membership = { orgId, projectId: id };
    if (query.dryRun === 'true') return ok(await dryRemoveMember(ctx, membership, params.member));
    await removeMember(ctx, withReason(actor, body), membership, params.member);
    return noContent;
  }),
];

const serviceAccounts: readonly Route[] = [
  serve(api.listServiceAccounts, async ({ ctx, org: { id }, query }) => {
    const { limit, after } = readTextPage(query);
    const rows = await listServiceAccounts(ctx.db, id, { limit: limit + 1, ...(after !== undefined && { after }) });
    const total = query.counts === 'true' ? await countServiceAccounts(ctx.db, id) : undefined;
    return ok({ ...pageOf(rows, limit, (row) => [row.name], showAccount), ...counted(total) });
  }),
  serve(api.createServiceAccount, async ({ ctx, actor, org: { id }, body }) =>
    created(showAccount(await createServiceAccount(ctx, actor, id, body))),
  ),
  serve(api.getServiceAccount, async ({ ctx, org: { id }, params }) =>
    ok(showAccount(await readServiceAccount(ctx, id, params.account))),
  ),
  serve(api.updateServiceAccount, async ({ ctx, actor, org: { id }, params: { account }, query, body }) => {
    const { disabled } = body;
    if (query.dryRun === 'true')
      return ok(await dryEndServiceAccount(ctx, id, account, disabled ? 'disable' : 'enable'));
    return ok(showAccount(await setDisabled(ctx, withReason(actor, body), id, { account, disabled })));
  }),
  serve(api.deleteServiceAccount, async ({ ctx, actor, org: { id }, params: { account }, query, body }) => {
    if (query.dryRun === 'true') return ok(await dryEndServiceAccount(ctx, id, account, 'delete'));
    await removeServiceAccount(ctx, withReason(actor, body), id, account);
    return noContent;
  }),
];

export const memberRoutes: readonly Route[] = [...orgMembers, ...projectMembers, ...serviceAccounts];
