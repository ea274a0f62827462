// Members of organizations and projects, and service accounts; each change with its audit row.

import { isUuid } from '../../domain/uuid.ts';
import { recordAudit } from '../../adapters/store/tenancy/audit.ts';
import { isUniqueViolation, type Sql } from '../../adapters/store/store.ts';
import {
  deleteServiceAccount,
  disableServiceAccount,
  ensureUser,
  findOrgPrincipal,
  findServiceAccount,
  insertServiceAccount,
  type PrincipalRow,
} from '../../adapters/store/tenancy/principals.ts';
import {
  changeMember,
  countOrgAdmins,
  deleteMember,
  findMember,
  hasOtherAdmin,
  holdOrgPrincipal,
  type Membership,
  type MemberRow,
  putMember,
} from '../../adapters/store/tenancy/tenancy.ts';
import { Fault } from '../../domain/fault.ts';
import type { OrgRole, ProjectRole } from '../../domain/permission.ts';
import type { Actor, FlowContext } from '../context.ts';
import { notVisible } from './access.ts';

/** A principal by id, a person by e-mail address, or a service account by name; one of them. */
export interface WhoInput {
  readonly principalId?: string | undefined;
  readonly email?: string | undefined;
  readonly serviceAccount?: string | undefined;
}

async function named(tx: Sql, orgId: string, who: WhoInput): Promise<PrincipalRow | undefined> {
  if (who.principalId !== undefined && !isUuid(who.principalId)) return undefined;
  return findOrgPrincipal(tx, orgId, {
    ...(who.principalId !== undefined && { id: who.principalId }),
    ...(who.email !== undefined && { email: who.email }),
    ...(who.serviceAccount !== undefined && { account: who.serviceAccount }),
  });
}

const nobody = (): Fault =>
  new Fault(
    'unprocessable',
    'unknown-principal',
    'The organization has no member or service account of that name; add it to the organization first.',
  );

type ServiceAccountAction = `service_account_${'created' | 'deleted' | 'disabled' | 'enabled'}`;

async function audit(
  tx: Sql,
  actor: Actor,
  membership: Membership,
  action: 'set' | 'removed' | ServiceAccountAction,
  member: { name: string; role?: string },
): Promise<void> {
  const scope = membership.projectId === undefined ? 'org_member' : 'project_member';
  await recordAudit(tx, {
    orgId: membership.orgId,
    projectId: membership.projectId ?? null,
    principal: actor,
    // Service accounts are an organization's.
    action: action === 'set' || action === 'removed' ? `${scope}.${action}` : `org_member.${action}`,
    subject: { kind: 'principal', name: member.name },
    ...(member.role !== undefined && { detail: { role: member.role } }),
  });
}

/** Adds a person (made when the address is new) or changes a role. Throws `conflict` when no administrator would be left. */
export async function setOrgMember(
  ctx: FlowContext,
  actor: Actor,
  orgId: string,
  who: WhoInput & { name?: string | undefined },
  role: OrgRole,
): Promise<MemberRow> {
  return ctx.db.tx(async (tx) => {
    let principal = await named(tx, orgId, who);
    if (principal === undefined && who.email !== undefined)
      principal = await ensureUser(tx, who.email, who.name ?? who.email);
    if (principal === undefined) throw nobody();
    const member = await putMember(tx, { orgId }, principal.id, role);
    await requireAdmin(tx, orgId);
    await audit(tx, actor, { orgId }, 'set', { name: principal.name, role });
    return member;
  });
}

/** The principal must belong to the organization. */
export async function setProjectMember(
  ctx: FlowContext,
  actor: Actor,
  membership: Membership & { projectId: string },
  who: WhoInput,
  role: ProjectRole,
): Promise<MemberRow> {
  return ctx.db.tx(async (tx) => {
    const principal = await named(tx, membership.orgId, who);
    // Whoever leaves the organization leaves its projects, this one too.
    if (principal === undefined || !(await holdOrgPrincipal(tx, membership.orgId, principal.id))) throw nobody();
    const member = await putMember(tx, membership, principal.id, role);
    await audit(tx, actor, membership, 'set', { name: principal.name, role });
    return member;
  });
}

/** Another role for a member, by id. Throws `not_found` for anybody else. */
export async function changeRole(
  ctx: FlowContext,
  actor: Actor,
  membership: Membership,
  principalId: string,
  role: OrgRole | ProjectRole,
): Promise<MemberRow> {
  if (!isUuid(principalId)) throw notVisible();
  return ctx.db.tx(async (tx) => {
    const member = await changeMember(tx, membership, principalId, role);
    if (member === undefined) throw notVisible();
    if (membership.projectId === undefined) await requireAdmin(tx, membership.orgId);
    await audit(tx, actor, membership, 'set', { name: member.name, role });
    return member;
  });
}

/** Takes the role of the organization, or of the project alone. Throws Fault `not_found`; `conflict` where no administrator would be left. */
export async function removeMember(
  ctx: FlowContext,
  actor: Actor,
  membership: Membership,
  principalId: string,
): Promise<void> {
  if (!isUuid(principalId)) throw notVisible();
  await ctx.db.tx(async (tx) => {
    const removed = await deleteMember(tx, membership, principalId);
    if (removed === undefined) throw notVisible();
    if (membership.projectId === undefined) await requireAdmin(tx, membership.orgId);
    await audit(tx, actor, membership, 'removed', { name: removed.name });
  });
}

async function requireAdmin(tx: Sql, orgId: string): Promise<void> {
  if ((await countOrgAdmins(tx, orgId)) === 0) throw lastAdmin();
}
const lastAdmin = (): Fault =>
  new Fault('conflict', 'last-administrator', 'The organization would be left without an administrator.');

/**
 * The member, and whether it administers the organization, where it could be removed now. Throws the faults of
 * `removeMember`; takes no lock, so the removal itself looks again.
 */
export async function checkMemberRemoval(
  ctx: FlowContext,
  membership: Membership,
  principalId: string,
): Promise<{ readonly member: MemberRow; readonly isOrgAdmin: boolean }> {
  if (!isUuid(principalId)) throw notVisible();
  const member = await findMember(ctx.db, membership, principalId);
  if (member === undefined) throw notVisible();
  if (membership.projectId === undefined && !(await hasOtherAdmin(ctx.db, membership.orgId, principalId)))
    throw lastAdmin();
  const inOrg = await findMember(ctx.db, { orgId: membership.orgId }, principalId);
  return { member, isOrgAdmin: inOrg?.role === 'admin' };
}

/** With a role in the organization when given; its name is unique there. */
export async function createServiceAccount(
  ctx: FlowContext,
  actor: Actor,
  orgId: string,
  given: { name: string; role?: OrgRole | undefined },
): Promise<PrincipalRow> {
  try {
    return await ctx.db.tx(async (tx) => {
      const account = await insertServiceAccount(tx, orgId, given.name);
      if (given.role !== undefined) await putMember(tx, { orgId }, account.id, given.role);
      await audit(tx, actor, { orgId }, 'service_account_created', {
        name: given.name,
        ...(given.role !== undefined && { role: given.role }),
      });
      return account;
    });
  } catch (error) {
    if (!isUniqueViolation(error)) throw error;
    throw new Fault('conflict', 'name-taken', 'The organization has a service account of this name already.', {
      cause: error,
    });
  }
}

const account = (text: string) => (isUuid(text) ? { id: text } : { name: text });

/** By id or name. */
export async function readServiceAccount(ctx: FlowContext, orgId: string, text: string): Promise<PrincipalRow> {
  const found = await findServiceAccount(ctx.db, orgId, account(text));
  if (found === undefined) throw notVisible();
  return found;
}

/** Disabled, its tokens stop with the commit; enabled, they are valid again. */
export async function setDisabled(
  ctx: FlowContext,
  actor: Actor,
  orgId: string,
  given: { readonly account: string; readonly disabled: boolean },
): Promise<PrincipalRow> {
  return ctx.db.tx(async (tx) => {
    const found = await findServiceAccount(tx, orgId, account(given.account));
    if (found === undefined) throw notVisible();
    const row = await disableServiceAccount(tx, found.id, given.disabled ? ctx.runtime.now() : null);
    if (row === undefined) throw notVisible();
    const action = given.disabled ? 'service_account_disabled' : 'service_account_enabled';
    await audit(tx, actor, { orgId }, action, { name: row.name });
    return row;
  });
}

/** By id or name; its tokens stop with the commit. */
export async function removeServiceAccount(ctx: FlowContext, actor: Actor, orgId: string, text: string): Promise<void> {
  await ctx.db.tx(async (tx) => {
    const removed = await deleteServiceAccount(tx, orgId, account(text));
    if (removed === undefined) throw notVisible();
    await audit(tx, actor, { orgId }, 'service_account_deleted', { name: removed.name });
  });
}
