// Sealed values as flows need them to reach the outside: a secret by name, a connection's credentials. Reads only, and
// only sealed bytes; who may ask and what becomes of the plaintext is decided elsewhere.

import type { ConnectionStatus } from '../../../domain/connection.ts';
import type { JsonObject } from '../../../domain/json.ts';
import type { Sql } from '../store.ts';

export interface SealedSecret {
  readonly id: string;
  /** Null: organization scope. */
  readonly projectId: string | null;
  readonly keyVersion: number;
  readonly sealed: Buffer;
}

/**
 * The secret that a name means in a project, of which there is at most one: the project's own, then the organization's;
 * an expired one is absent. The arguments are SQL.
 */
export const meantSecret = (org: string, project: string, name: string, now: string): string =>
  `select id, project_id as "projectId", key_version as "keyVersion", sealed from svc.secrets
    where org_id = ${org} and (project_id = ${project} or project_id is null) and name = ${name}
      and (expires_at is null or expires_at > ${now})
      and (idle_expiry_seconds is null or idle_since + make_interval(secs => idle_expiry_seconds) > ${now})
    order by project_id is null limit 1`;
const found = meantSecret('$1::uuid', '$2::uuid', '$3::text', '$4::timestamptz');

/** See `meantSecret`. */
export async function findSecret(
  sql: Sql,
  scope: { readonly orgId: string; readonly projectId: string },
  name: string,
  now: Date,
): Promise<SealedSecret | undefined> {
  const { rows } = await sql.query<SealedSecret>(found, [scope.orgId, scope.projectId, name, now], 'find-secret');
  return rows[0];
}

/** Whether a secret of that name is there for a project, expired or not. */
export async function secretStands(
  sql: Sql,
  scope: { readonly orgId: string; readonly projectId: string },
  name: string,
): Promise<boolean> {
  const { rows } = await sql.query(
    `select from svc.secrets where org_id = $1::uuid and (project_id = $2::uuid or project_id is null) and name = $3::text
      limit 1`,
    [scope.orgId, scope.projectId, name],
  );
  return rows.length > 0;
}

/** Tells a sealed value from every other: the nonce of its wrapping, in hex. */
export const secretMark = (sealed: Buffer): string => sealed.toString('hex', 0, 13);

export interface SealedConnection {
  readonly id: string;
  readonly projectId: string;
  readonly orgId: string;
  readonly provider: string;
  readonly name: string;
  readonly config: JsonObject;
  readonly keyVersion: number | null;
  readonly sealed: Buffer | null;
  readonly status: ConnectionStatus;
}

const connection = `c.id, c.project_id as "projectId", p.org_id as "orgId", c.provider, c.name, c.config,
  c.key_version as "keyVersion", c.sealed_credentials as sealed, c.status
  from svc.connections c join svc.projects p on p.id = c.project_id`;

/** A connection of a project that is not archived. */
export async function connectionById(sql: Sql, id: string): Promise<SealedConnection | undefined> {
  const { rows } = await sql.query<SealedConnection>(
    `select ${connection} where c.id = $1::uuid and p.archived_at is null`,
    [id],
  );
  return rows[0];
}

/** A connection by its name in its project, with its credentials as they are sealed. */
export async function connectionByName(
  sql: Sql,
  projectId: string,
  name: string,
): Promise<SealedConnection | undefined> {
  const { rows } = await sql.query<SealedConnection>(
    `select ${connection} where c.project_id = $1::uuid and c.name = $2::text`,
    [projectId, name],
  );
  return rows[0];
}

/** Locks a connection until the end of the transaction; undefined where it is gone. */
export async function lockConnection(tx: Sql, id: string): Promise<SealedConnection | undefined> {
  const { rows } = await tx.query<SealedConnection>(
    `select ${connection} where c.id = $1::uuid for no key update of c`,
    [id],
  );
  return rows[0];
}

/** Connections of a project to code hosts that may be used, by name. */
export async function usableCodehosts(sql: Sql, projectId: string): Promise<SealedConnection[]> {
  const { rows } = await sql.query<SealedConnection>(
    `select ${connection} where c.project_id = $1::uuid and c.provider = 'codehost'
        and c.status in ('active', 'degraded', 'scope_required') order by c.name collate "C"`,
    [projectId],
    'usable-codehosts',
  );
  return rows;
}
