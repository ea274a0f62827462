// svc.connections as planning sees them: names and whether they may be used, never their credentials.

import type { CurrentConnection } from '../../core/plan/types.ts';
import type { Sql } from './db.ts';

/** The connections of a project, by name. */
export async function readConnections(sql: Sql, projectId: string): Promise<CurrentConnection[]> {
  const { rows } = await sql.query<CurrentConnection>(
    `select id, name, provider, product, status = 'active' as active
       from svc.connections where project_id = $1::uuid order by name`,
    [projectId],
  );
  return rows;
}
