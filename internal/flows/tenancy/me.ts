// What a principal is and may do, everywhere it may do anything.

import { listOrgs, listProjects } from '../../adapters/store/tenancy/tenancy.ts';
import { orgRoles, type Permission, projectRoles } from '../../domain/permission.ts';
import type { FlowContext } from '../context.ts';

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
