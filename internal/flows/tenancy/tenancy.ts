// Organizations, projects, their members, service accounts and API tokens: who there is and what each may do
// (docs/reference/http-api.md#roles). Decides visibility and permissions from memberships and the roles table, deny by default.
// Every change writes its audit row in the same transaction. Never shows or stores a token twice: it is made here,
// answered once, and kept as a hash.

import { listOrgs, listProjects } from '../../adapters/store/tenancy/tenancy.ts';
import { orgRoles, type Permission, projectRoles } from '../../domain/permission.ts';
import {
  auditAfter,
  type AuditFilter,
  type AuditRow,
  type AuditScope,
  pruneAudit,
  recordAudit,
} from '../../adapters/store/tenancy/audit.ts';
import type { FlowContext } from '../context.ts';

export {
  type Access,
  hashToken,
  notVisible,
  resolveAccess,
  resolveSession,
  sessionAccess,
  sessionSees,
  TokenFault,
} from './access.ts';
export { bootstrap, type Client, newToken, recoverClient } from './bootstrap.ts';
export {
  changeRole,
  checkMemberRemoval,
  createServiceAccount,
  readServiceAccount,
  removeMember,
  removeServiceAccount,
  setDisabled,
  setOrgMember,
  setProjectMember,
} from './members.ts';
export {
  changeOrg,
  changeProject,
  checkOrgRemoval,
  checkProjectChange,
  createOrg,
  createProject,
  readOrg,
  readProject,
  removeOrg,
  finishDeletions,
  removeProject,
} from './orgs.ts';
export { makeRoom, prune } from './retention.ts';
export { createOrgToken, createOwnToken, dropToken, type MadeToken, revocableToken } from './tokens.ts';

// The audit as a whole: exported in order, and shortened where the configuration says how long entries are kept.

const batch = { exportRows: 500, pruneRows: 5_000 } as const;
const dayMs = 24 * 60 * 60 * 1_000;

/** Every entry that the filter lets through, oldest first. Throws when `signal` aborts: half an export looks whole. */
export async function* exportAudit(
  ctx: FlowContext,
  scope: AuditScope,
  filter: AuditFilter,
  signal: AbortSignal,
): AsyncGenerator<AuditRow> {
  for (let after = 0; ; ) {
    signal.throwIfAborted();
    const { rows, isCut } = await auditAfter(ctx.db, scope, { ...filter, after, limit: batch.exportRows });
    yield* rows;
    const last = rows.at(-1);
    if ((rows.length < batch.exportRows && !isCut) || last === undefined) return;
    after = last.id;
  }
}

/**
 * Removes what is older than the configured retention; nothing without one. Each batch leaves an entry in every
 * organization that lost some, in the same transaction. Answers with how many entries went.
 */
export async function keepRetention(ctx: FlowContext, signal: AbortSignal): Promise<number> {
  const days = ctx.config.file.audit?.retentionDays;
  if (days === undefined) return 0;
  const before = new Date(ctx.runtime.now().getTime() - days * dayMs);
  let total = 0;
  for (let gone: number = batch.pruneRows; gone >= batch.pruneRows && !signal.aborted; total += gone) {
    gone = await ctx.db.tx(async (tx) => {
      const counts = await pruneAudit(tx, before, batch.pruneRows);
      for (const { orgId, count } of counts) {
        await recordAudit(tx, {
          orgId,
          projectId: null,
          principal: { kind: 'system', id: null, name: 'audit-retention' },
          action: 'audit.pruned',
          detail: { before: before.toISOString(), entries: count, retentionDays: days },
        });
      }
      return counts.reduce((sum, { count }) => sum + count, 0);
    });
  }
  if (total > 0) ctx.runtime.log.info({ entries: total, before }, 'audit.pruned');
  return total;
}

// What a principal is and may do, everywhere it may do anything.

/** More organizations or projects than this are left out; whoever has so many asks for one. */
const listMax = 200;

export interface Grants {
  readonly id: string;
  readonly slug: string;
  readonly name: string;
  readonly role: string;
  readonly permissions: readonly Permission[];
}

/** Organizations that the token opens, with their visible projects, each with the role and its permissions. */
export async function listGrants(
  ctx: FlowContext,
  principalId: string,
  tokenOrgId: string | null,
): Promise<(Grants & { projects: Grants[] })[]> {
  const orgs = await listOrgs(ctx.db, principalId, { limit: listMax, only: tokenOrgId });
  return Promise.all(
    orgs.map(async (org) => {
      const projects = await listProjects(ctx.db, org.id, principalId, { limit: listMax });
      const orgRole = org.role ?? 'member';
      return {
        id: org.id,
        slug: org.slug,
        name: org.name,
        role: orgRole,
        permissions: [...orgRoles[orgRole]].sort(),
        projects: projects.map((project) => {
          const role = project.orgRole === 'admin' ? 'admin' : (project.role ?? 'viewer');
          const { id, slug, name } = project;
          return { id, slug, name, role, permissions: [...projectRoles[role]].sort() };
        }),
      };
    }),
  );
}
