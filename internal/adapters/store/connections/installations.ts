// What deliveries of an installation meet: the connection, locked until the transaction ends, so that of two deliveries the
// second sees what the first did; the mounts that it serves; and the event that a delivery has left already.

import type { ConnectionStatus, Observed } from '../../../domain/connection.ts';
import type { RouterStatus } from '../events/events.ts';
import type { Sql } from '../store.ts';

export interface HeldInstallation {
  readonly status: ConnectionStatus;
  readonly reason: string | null;
  readonly observed: Observed | null;
}

/** The connection as it is, locked. */
export async function lockInstallation(tx: Sql, connectionId: string): Promise<HeldInstallation | undefined> {
  const { rows } = await tx.query<HeldInstallation>(
    'select status, reason, observed from svc.connections where id = $1::uuid for update',
    [connectionId],
  );
  return rows[0];
}

export interface MountedRepository {
  /** `owner/name` */
  readonly repository: string;
  /** Null: whichever the connection has. */
  readonly installationId: string | null;
}

/** Repositories that agents of a project mount with a token of the code host. */
export async function mountedRepositories(sql: Sql, projectId: string): Promise<MountedRepository[]> {
  const { rows } = await sql.query<MountedRepository>(
    `select distinct m.mount ->> 'repository' as repository, m.mount -> 'auth' ->> 'installationId' as "installationId"
       from svc.agents a cross join lateral jsonb_array_elements(coalesce(a.spec -> 'mounts', '[]'::jsonb)) as m (mount)
      where a.project_id = $1::uuid and m.mount -> 'auth' ->> 'kind' = 'codehostApp'`,
    [projectId],
  );
  return rows;
}

/** The event that a delivery of that hash left; undefined where it left none. */
export async function deliveredEvent(
  sql: Sql,
  projectId: string,
  dedupHash: Buffer,
): Promise<{ readonly id: string; readonly routerStatus: RouterStatus } | undefined> {
  const { rows } = await sql.query<{ id: string; routerStatus: RouterStatus }>(
    `select id, router_status as "routerStatus" from svc.events
      where project_id = $1::uuid and dedup_hash = $2::bytea`,
    [projectId, dedupHash],
  );
  return rows[0];
}
