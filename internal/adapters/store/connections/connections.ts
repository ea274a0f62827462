// svc.connections: as planning sees them (names and whether they may be used), and as people list, make and remove them.
// Never their credentials; those are read in credentials.ts. A name is unique in its project.

import type { CurrentConnection } from '../../../core/plan/types.ts';
import type { ConnectionStatus, Observed } from '../../../domain/connection.ts';
import type { JsonObject } from '../../../domain/json.ts';
import type { Sql } from '../store.ts';

/** What planning sees of a project's ($1) connections. */
export const connectionsSeen = `select id, name, provider, product, status in ('active', 'degraded', 'scope_required') as active
  from svc.connections where project_id = $1::uuid`;

/** The connections of a project, by name. */
export async function readConnections(sql: Sql, projectId: string): Promise<CurrentConnection[]> {
  const { rows } = await sql.query<CurrentConnection>(`${connectionsSeen} order by name`, [projectId]);
  return rows;
}

export interface ConnectionRow {
  readonly id: string;
  /** `codehost`, `tracker`, `chat`, `errtrack`, `mcp`, or one that the configuration names. */
  readonly provider: string;
  readonly name: string;
  readonly status: ConnectionStatus;
  /** Why it has that status, in one word. */
  readonly reason?: string | null;
  readonly config: JsonObject;
  /** When its status became what it is; absent of one that is just being made. */
  readonly since?: Date | null;
  /** Calls that failed on it since then. */
  readonly failedCalls?: number;
}
const shown = `c.id, c.provider, c.name, c.status, c.reason, c.config, c.status_since as since,
  c.failed_calls as "failedCalls"`;

export interface ObservedConnection extends ConnectionRow {
  readonly observed: Observed | null;
  readonly checkedAt: Date | null;
  /** The latest of the resources that the provider limits now. */
  readonly limitedUntil: Date | null;
}

/** A connection with what is known of it. */
export async function findObserved(sql: Sql, projectId: string, name: string): Promise<ObservedConnection | undefined> {
  const { rows } = await sql.query<ObservedConnection>(
    `select ${shown}, c.observed, c.checked_at as "checkedAt",
        (select max(l.blocked_until) from svc.provider_limits l
          where l.connection_id = c.id and l.blocked_until > now()) as "limitedUntil"
       from svc.connections c where c.project_id = $1::uuid and c.name = $2::text`,
    [projectId, name],
  );
  return rows[0];
}

/** A page in the order of names. */
export async function listConnections(
  sql: Sql,
  projectId: string,
  page: { readonly after?: string; readonly limit: number },
): Promise<ConnectionRow[]> {
  const { rows } = await sql.query<ConnectionRow>(
    `select ${shown} from svc.connections c
      where c.project_id = $1::uuid and ($2::text is null or c.name collate "C" > $2::text collate "C")
      order by c.name collate "C" limit $3::int`,
    [projectId, page.after ?? null, page.limit],
  );
  return rows;
}

/** A connection by its name in its project, without its credentials. */
export async function findConnection(sql: Sql, projectId: string, name: string): Promise<ConnectionRow | undefined> {
  const { rows } = await sql.query<ConnectionRow>(
    `select ${shown} from svc.connections c where c.project_id = $1::uuid and c.name = $2::text`,
    [projectId, name],
  );
  return rows[0];
}

export interface NewConnection {
  readonly id: string;
  readonly projectId: string;
  readonly provider: ConnectionRow['provider'];
  readonly product: string;
  readonly name: string;
  readonly config: JsonObject;
  readonly keyVersion: number;
  readonly sealed: Buffer;
  /** Default `active`. */
  readonly status?: ConnectionStatus;
  readonly now: Date;
}

/** False where the name is taken. */
export async function insertConnection(tx: Sql, row: NewConnection): Promise<boolean> {
  const { rowCount } = await tx.query(
    `insert into svc.connections (id, project_id, provider, product, name, config, key_version, sealed_credentials,
       created_at, updated_at, status)
     values ($1::uuid, $2::uuid, $3::text, $4::text, $5::text, $6::jsonb, $7::int, $8::bytea, $9::timestamptz,
       $9::timestamptz, $10::text)
     on conflict (project_id, name) do nothing`,
    [
      row.id,
      row.projectId,
      row.provider,
      row.product,
      row.name,
      JSON.stringify(row.config),
      row.keyVersion,
      row.sealed,
      row.now,
      row.status ?? 'active',
    ],
  );
  return rowCount === 1;
}

/** Triggers that a connection serves and that cannot go without one, by agent and ordinal. */
export async function triggersNeeding(
  sql: Sql,
  connectionId: string,
): Promise<{ readonly agent: string; readonly ordinal: number }[]> {
  const { rows } = await sql.query<{ agent: string; ordinal: number }>(
    `select a.name as agent, t.ordinal from svc.triggers t join svc.agents a on a.id = t.agent_id
      where t.connection_id = $1::uuid and coalesce(t.spec -> 'optional' <> 'true'::jsonb, true)
      order by a.name collate "C", t.ordinal`,
    [connectionId],
  );
  return rows;
}

/** Deletes the connection; the triggers that it served are skipped from then on. Their number. */
export async function deleteConnection(tx: Sql, connectionId: string): Promise<number> {
  const { rowCount } = await tx.query(
    `update svc.triggers set status = 'skipped', connection_id = null where connection_id = $1::uuid`,
    [connectionId],
  );
  await tx.query('delete from svc.connections where id = $1::uuid', [connectionId]);
  return rowCount;
}

/** What connections are set up with, by id. */
export async function connectionsByIds(sql: Sql, ids: readonly string[]): Promise<ReadonlyMap<string, JsonObject>> {
  const { rows } = await sql.query<{ id: string; config: JsonObject }>(
    'select id, config from svc.connections where id = any($1::uuid[])',
    [ids],
  );
  return new Map(rows.map(({ id, config }) => [id, config]));
}

/**
 * Sets a status and its reason; the status before it, undefined where it has both already, has none of `from`, or is not set up
 * as it was `asked` with.
 */
export async function setConnectionStatus(
  tx: Sql,
  at: {
    readonly id: string;
    readonly to: ConnectionStatus;
    readonly reason: string | undefined;
    readonly from: readonly ConnectionStatus[] | undefined;
    /** Only where it has its status for one of these. */
    readonly fromReasons: readonly string[] | undefined;
    /** Settings, null for one that it had not, and the sealed credentials. */
    readonly asked: { readonly config: JsonObject; readonly sealed: Buffer | null } | undefined;
    readonly now: Date;
  },
): Promise<ConnectionStatus | undefined> {
  const { rows } = await tx.query<{ before: ConnectionStatus }>(
    `with held as (select id, status, reason from svc.connections where id = $1::uuid
        and (status <> $2::text or reason is distinct from $3::text) and ($4::text[] is null or status = any($4::text[]))
        and ($6::text[] is null or reason = any($6::text[]))
        and ($7::jsonb is null or (sealed_credentials is not distinct from $8::bytea and not exists (
          select from jsonb_each($7::jsonb) a where coalesce(config -> a.key, 'null') <> a.value)))
        for update)
     update svc.connections c set status = $2::text, reason = $3::text, updated_at = $5::timestamptz
       from held where c.id = held.id returning held.status as before`,
    [
      ...[at.id, at.to, at.reason ?? null, at.from ?? null, at.now, at.fromReasons ?? null],
      ...[at.asked === undefined ? null : JSON.stringify(at.asked.config), at.asked?.sealed ?? null],
    ],
  );
  return rows[0]?.before;
}

/** Counts a call that failed on the connection of a name; `noteCall` counts those that leave a row of their own. */
export async function countFailedCall(sql: Sql, projectId: string, name: string): Promise<void> {
  await sql.query(
    'update svc.connections set failed_calls = failed_calls + 1 where project_id = $1::uuid and name = $2::text',
    [projectId, name],
  );
}

/** Adds to what a connection is set up with. */
export async function setConnectionConfig(sql: Sql, id: string, more: JsonObject): Promise<void> {
  await sql.query('update svc.connections set config = config || $2::jsonb where id = $1::uuid', [
    id,
    JSON.stringify(more),
  ]);
}

/** Changes what a connection is set up with, null taking a setting away; what its provider said before is forgotten. */
export async function changeConnectionConfig(
  tx: Sql,
  of: { readonly id: string; readonly config: JsonObject; readonly observed: Observed | undefined; readonly now: Date },
): Promise<void> {
  await tx.query(
    `update svc.connections set config = jsonb_strip_nulls(config || $2::jsonb), observed = $3::jsonb,
         updated_at = $4::timestamptz
      where id = $1::uuid`,
    [of.id, JSON.stringify(of.config), of.observed === undefined ? null : JSON.stringify(of.observed), of.now],
  );
}

/** Replaces a connection's credentials. */
export async function setConnectionCredentials(
  tx: Sql,
  row: { readonly id: string; readonly keyVersion: number; readonly sealed: Buffer; readonly now: Date },
): Promise<void> {
  await tx.query(
    `update svc.connections set key_version = $2::int, sealed_credentials = $3::bytea, updated_at = $4::timestamptz
      where id = $1::uuid`,
    [row.id, row.keyVersion, row.sealed, row.now],
  );
}

/** Notes what a provider said in a delivery. */
export async function setObserved(sql: Sql, id: string, observed: Observed): Promise<void> {
  await sql.query('update svc.connections set observed = $2::jsonb where id = $1::uuid', [
    id,
    JSON.stringify(observed),
  ]);
}

/** Notes that the provider was asked, and what it said of itself where it said something. */
export async function noteChecked(sql: Sql, id: string, now: Date, observed?: Observed): Promise<void> {
  await sql.query(
    `update svc.connections set checked_at = $2::timestamptz, observed = coalesce($3::jsonb, observed) where id = $1::uuid`,
    [id, now, observed === undefined ? null : JSON.stringify(observed)],
  );
}

/** Connections that are not as they should be, by name. */
export async function troubledConnections(
  sql: Sql,
  projectId: string,
): Promise<(Pick<ConnectionRow, 'name' | 'provider' | 'status'> & { readonly reason: string | null })[]> {
  const { rows } = await sql.query<Pick<ConnectionRow, 'name' | 'provider' | 'status'> & { reason: string | null }>(
    `select name, provider, status, reason from svc.connections
      where project_id = $1::uuid and status not in ('active', 'inactive', 'disabled') order by name collate "C"`,
    [projectId],
  );
  return rows;
}
