// svc.projects: what the environments of its sessions may ask for and reach.

import type { ResourceLimits } from '../../../domain/catalog.ts';
import type { Sql } from '../store.ts';

export interface ProjectNetwork {
  readonly allow: readonly string[];
}
export interface EnvironmentChange {
  /** Null clears it. */
  readonly limits?: ResourceLimits | null;
  readonly network?: ProjectNetwork | null;
}

/** What `readLimits` reads, for the digest of an apply. */
export const limitsSeen = 'select limits::text from svc.projects where id = $1::uuid and limits is not null';

export async function readLimits(sql: Sql, projectId: string): Promise<ResourceLimits | null> {
  const { rows } = await sql.query<{ limits: ResourceLimits | null }>(
    'select limits from svc.projects where id = $1::uuid',
    [projectId],
  );
  return rows[0]?.limits ?? null;
}

/** Part of a change of a project, in its transaction. */
export async function changeEnvironment(tx: Sql, projectId: string, change: EnvironmentChange): Promise<void> {
  const text = (value: object | null | undefined): string | null => (value == null ? null : JSON.stringify(value));
  await tx.query(
    `update svc.projects set limits = case when $2::boolean then $3::jsonb else limits end,
       network = case when $4::boolean then $5::jsonb else network end
     where id = $1::uuid`,
    [projectId, change.limits !== undefined, text(change.limits), change.network !== undefined, text(change.network)],
  );
}
