// Who may set up and select: an active administrator of the organization, a person, with a token that opens it. What the
// caller may not see and what does not exist are the same refusal.

import { administers, isOrgAdmin, scopeOf } from '../../adapters/store/connections/errtrack-attempts.ts';
import type { Sql } from '../../adapters/store/store.ts';
import { Fault } from '../../domain/fault.ts';
import type { Actor } from '../context.ts';

export interface SetupCaller {
  readonly actor: Actor;
  readonly principalId: string;
  readonly kind: 'user' | 'service_account';
  /** The one organization that the token opens; null: every one. */
  readonly tokenOrgId: string | null;
}

export const setupForbidden = (): Fault =>
  new Fault(
    'forbidden',
    'setup-forbidden',
    'This needs an active administrator of the organization, in person, with provider_grants:write and provider_grants:use.',
  );

/** Throws Fault `forbidden` unless the caller administers the organization. */
export async function requireAdministrator(sql: Sql, caller: SetupCaller, orgId: string): Promise<void> {
  const opens = caller.tokenOrgId === null || caller.tokenOrgId === orgId;
  if (caller.kind !== 'user' || !opens || !(await isOrgAdmin(sql, orgId, caller.principalId))) throw setupForbidden();
}

/** Throws Fault `forbidden` unless the caller administers some organization that its token opens. */
export async function requireSomeAdministrator(sql: Sql, caller: Omit<SetupCaller, 'actor'>): Promise<void> {
  if (caller.kind !== 'user' || !(await administers(sql, caller.principalId, caller.tokenOrgId)))
    throw setupForbidden();
}

/** The organization and project that a call names, of which the caller is an administrator. Throws Fault `forbidden`. */
export async function setupScope(
  sql: Sql,
  caller: SetupCaller,
  named: { readonly organizationId: string; readonly projectId: string },
): Promise<{ readonly id: string; readonly slug: string; readonly orgId: string; readonly orgSlug: string }> {
  const found = await scopeOf(sql, named.organizationId, named.projectId);
  if (found === undefined) throw setupForbidden();
  await requireAdministrator(sql, caller, found.orgId);
  return { id: found.projectId, slug: found.projectSlug, orgId: found.orgId, orgSlug: found.orgSlug };
}
