// Whether somebody may still make connections in a project, at a moment when no token of theirs is at hand.

import { projectRoles, type ProjectRole } from '../../../domain/permission.ts';
import type { Sql } from '../store.ts';

/** A person who is not disabled, and administers the organization or has a role in the project that may. */
export async function mayConnect(
  sql: Sql,
  at: { readonly userId: string; readonly orgId: string; readonly projectId: string },
): Promise<boolean> {
  const { rows } = await sql.query<{ orgRole: string | null; projectRole: ProjectRole | null }>(
    `select om.role as "orgRole", jm.role as "projectRole" from svc.principals p
       join svc.projects j on j.id = $3::uuid and j.archived_at is null
       left join svc.org_members om on om.org_id = $2::uuid and om.principal_id = p.id
       left join svc.project_members jm on jm.project_id = $3::uuid and jm.principal_id = p.id
      where p.id = $1::uuid and p.kind = 'user' and p.disabled_at is null`,
    [at.userId, at.orgId, at.projectId],
  );
  const [row] = rows;
  if (row === undefined) return false;
  if (row.orgRole === 'admin') return true;
  return row.projectRole !== null && projectRoles[row.projectRole].includes('connections:write');
}

/** What a principal is called, for the audit. */
export async function principalName(sql: Sql, id: string): Promise<string | undefined> {
  const { rows } = await sql.query<{ name: string }>('select name from svc.principals where id = $1::uuid', [id]);
  return rows[0]?.name;
}
