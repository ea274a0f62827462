// svc.secrets: sealed values in two scopes. Metadata is read from svc.secret_metadata, which has no ciphertext; sealed
// bytes leave here in two statements alone, reveal and resolution, and both write their audit entries in the same
// statement: what it returns is committed, and when an entry cannot be written nothing is returned.

import type { JsonObject } from '../../../domain/json.ts';
import type { Sql } from '../store.ts';

/** `projectId` null: organization scope. */
export interface SecretScope {
  readonly orgId: string;
  readonly projectId: string | null;
}

/** Hosts that get the value in a header; `format` holds `{value}`, absent: the value as it is. */
export interface InjectionRow {
  readonly hosts: readonly string[];
  readonly header: string;
  readonly format?: string;
}

export interface SecretMetadata {
  readonly name: string;
  readonly scope: 'organization' | 'project';
  readonly description: string | null;
  readonly protected: boolean;
  readonly injection: InjectionRow | null;
  readonly expiresAt: Date | null;
  readonly idleExpirySeconds: number | null;
  readonly lastAccessedAt: Date | null;
  readonly lastRotatedAt: Date | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  readonly expired: boolean;
}

export interface SealedValue {
  readonly keyVersion: number;
  readonly sealed: Buffer;
}

const metadata = (now: string): string => `
  m.name, case when m.project_id is null then 'organization' else 'project' end as scope, m.description, m.protected,
  m.injection, m.expires_at as "expiresAt", m.idle_expiry_seconds as "idleExpirySeconds",
  m.last_accessed_at as "lastAccessedAt", m.last_rotated_at as "lastRotatedAt", m.created_at as "createdAt",
  m.updated_at as "updatedAt", coalesce(m.dead_at <= ${now}::timestamptz, false) as expired`;
/** Its version is this time in milliseconds: of changes in the same moment each has one of its own. */
const later = (now: string, row: string): string => `greatest(${now}, ${row}.updated_at + interval '1 millisecond')`;
const inScope = 'm.org_id = $1::uuid and m.project_id is not distinct from $2::uuid';

/** A page by name, of exactly this scope. */
export async function listSecrets(
  sql: Sql,
  scope: SecretScope,
  page: { readonly after?: string; readonly limit: number; readonly now: Date },
): Promise<SecretMetadata[]> {
  const { rows } = await sql.query<SecretMetadata>(
    `select ${metadata('$3')} from svc.secret_metadata m
      where ${inScope} and ($4::text is null or m.name collate "C" > $4::text collate "C")
      order by m.name collate "C" limit $5::int`,
    [scope.orgId, scope.projectId, page.now, page.after ?? null, page.limit],
  );
  return rows;
}

/** The metadata of a secret of exactly this scope, also of an expired one; never its value. */
export async function readSecret(
  sql: Sql,
  scope: SecretScope,
  name: string,
  now: Date,
): Promise<SecretMetadata | undefined> {
  const { rows } = await sql.query<SecretMetadata>(
    `select ${metadata('$3')} from svc.secret_metadata m where ${inScope} and m.name = $4::text`,
    [scope.orgId, scope.projectId, now, name],
  );
  return rows[0];
}

/** Locks the row until the end of the transaction and reads its metadata. */
export async function lockSecret(
  tx: Sql,
  scope: SecretScope,
  name: string,
  now: Date,
): Promise<SecretMetadata | undefined> {
  await tx.query(`select from svc.secrets m where ${inScope} and m.name = $3::text for update`, [
    scope.orgId,
    scope.projectId,
    name,
  ]);
  return readSecret(tx, scope, name, now);
}

export interface SecretWrite extends SealedValue {
  readonly name: string;
  readonly description: string | null;
  readonly protected: boolean;
  readonly injection: InjectionRow | null;
  readonly expiresAt: Date | null;
  readonly idleExpirySeconds: number | null;
}

/**
 * A full write: creates the row or replaces all of it but its history. With `keepLive`, a live row of the name stays as
 * it is, and the answer is undefined.
 */
export async function putSecret(
  tx: Sql,
  scope: SecretScope,
  write: SecretWrite,
  options: { readonly now: Date; readonly keepLive?: boolean },
): Promise<{ readonly created: boolean } | undefined> {
  const { rows } = await tx.query<{ created: boolean }>(
    `insert into svc.secrets as s (org_id, project_id, name, description, protected, key_version, sealed, injection,
       expires_at, idle_expiry_seconds, idle_since, created_at, updated_at)
     values ($1::uuid, $2::uuid, $3::text, $4::text, $5::boolean, $6::int, $7::bytea, $8::jsonb, $9::timestamptz,
       $10::bigint, $11::timestamptz, $11::timestamptz, $11::timestamptz)
     on conflict (org_id, project_id, name) do update set description = excluded.description,
       protected = excluded.protected, key_version = excluded.key_version, sealed = excluded.sealed,
       injection = excluded.injection, expires_at = excluded.expires_at,
       idle_expiry_seconds = excluded.idle_expiry_seconds, idle_since = excluded.idle_since,
       updated_at = ${later('excluded.updated_at', 's')}
     where not $12::boolean
        or s.expires_at <= $11::timestamptz
        or s.idle_since + s.idle_expiry_seconds * interval '1 second' <= $11::timestamptz
     returning xmax = 0 as created`,
    [
      scope.orgId,
      scope.projectId,
      write.name,
      write.description,
      write.protected,
      write.keyVersion,
      write.sealed,
      write.injection === null ? null : JSON.stringify(write.injection),
      write.expiresAt,
      write.idleExpirySeconds,
      options.now,
      options.keepLive === true,
    ],
  );
  return rows[0];
}

/** A new value for a row that is there: the idle clock starts again, and a deadline that has passed is cleared. */
export async function rotateSecret(
  tx: Sql,
  scope: SecretScope,
  name: string,
  value: SealedValue,
  now: Date,
): Promise<boolean> {
  const { rowCount } = await tx.query(
    `update svc.secrets m set key_version = $4::int, sealed = $5::bytea, idle_since = $6::timestamptz,
       expires_at = case when expires_at <= $6::timestamptz then null else expires_at end,
       last_rotated_at = $6::timestamptz, updated_at = ${later('$6::timestamptz', 'm')}
     where ${inScope} and m.name = $3::text`,
    [scope.orgId, scope.projectId, name, value.keyVersion, value.sealed, now],
  );
  return rowCount === 1;
}

export type SecretChange = Partial<Omit<SecretWrite, 'name' | 'keyVersion' | 'sealed'>>;

/** Changes what is not the value; an absent key stays. The idle clock runs on. */
export async function changeSecret(
  tx: Sql,
  scope: SecretScope,
  name: string,
  change: SecretChange,
  now: Date,
): Promise<void> {
  const columns: { readonly [key in keyof Required<SecretChange>]: readonly [column: string, type: string] } = {
    description: ['description', 'text'],
    protected: ['protected', 'boolean'],
    injection: ['injection', 'jsonb'],
    expiresAt: ['expires_at', 'timestamptz'],
    idleExpirySeconds: ['idle_expiry_seconds', 'bigint'],
  };
  const values: unknown[] = [scope.orgId, scope.projectId, name, now];
  const sets = [`updated_at = ${later('$4::timestamptz', 'm')}`];
  for (const [key, value] of Object.entries(change) as [keyof SecretChange, unknown][]) {
    const [column, type] = columns[key];
    values.push(type === 'jsonb' && value !== null ? JSON.stringify(value) : value);
    sets.push(`${column} = $${values.length}::${type}`);
  }
  await tx.query(`update svc.secrets m set ${sets.join(', ')} where ${inScope} and m.name = $3::text`, values);
}

/** False where there is none. */
export async function deleteSecret(tx: Sql, scope: SecretScope, name: string): Promise<boolean> {
  const { rowCount } = await tx.query(`delete from svc.secrets m where ${inScope} and m.name = $3::text`, [
    scope.orgId,
    scope.projectId,
    name,
  ]);
  return rowCount === 1;
}

/** Whether a live secret of the name stands at organization scope. */
export async function isInherited(sql: Sql, orgId: string, name: string, now: Date): Promise<boolean> {
  const found = await readSecret(sql, { orgId, projectId: null }, name, now);
  return found !== undefined && !found.expired;
}

export interface AuditedBy {
  readonly kind: string;
  readonly id: string | null;
  readonly name: string;
  readonly requestId?: string;
}

/**
 * The sealed value of a live, unprotected secret of exactly this scope, and its audit entry, in one statement. An
 * absent or expired one is undefined; `protected` is all that is told of a protected one.
 */
export async function takeRevealed(
  sql: Sql,
  scope: SecretScope,
  name: string,
  by: AuditedBy,
  now: Date,
): Promise<{ readonly protected: true } | (SealedValue & { readonly protected: false }) | undefined> {
  const { rows } = await sql.query<{ protected: true } | (SealedValue & { protected: false })>(
    `with found as (
       select m.org_id, m.project_id, m.name, m.protected, m.key_version, m.sealed from svc.secrets m
        where ${inScope} and m.name = $3::text and coalesce(m.expires_at > $4::timestamptz, true)
          and coalesce(m.idle_since + m.idle_expiry_seconds * interval '1 second' > $4::timestamptz, true)),
     audited as (
       insert into svc.audit (at, org_id, project_id, principal_kind, principal_id, principal_name, action,
         subject_kind, subject_name, request_id, detail)
       select $4::timestamptz, org_id, project_id, $5::text, $6::uuid, $7::text, 'secret.revealed', 'Secret', name,
         $8::text, jsonb_build_object('scope', case when project_id is null then 'organization' else 'project' end)
         from found where not protected
       returning 1)
     select f.protected, case when not f.protected then f.key_version end as "keyVersion",
       case when not f.protected then f.sealed end as sealed
       from found f where f.protected or exists (select from audited)`,
    [scope.orgId, scope.projectId, name, now, by.kind, by.id, by.name, by.requestId ?? null],
  );
  return rows[0];
}

/** What the audit and the stamps of a service-internal use are about. */
export interface UseNote {
  readonly secretId: string;
  readonly orgId: string;
  readonly projectId: string;
  readonly name: string;
  readonly usedBy: string;
  readonly detail: JsonObject;
  readonly now: Date;
}

/**
 * Notes that the service itself reads a secret: stamped and audited at most once a day for each value and reader, so
 * that a poll that finds nothing new writes nothing. The idle clock belongs to launches and runs on.
 */
export async function noteUse(sql: Sql, note: UseNote): Promise<void> {
  const known = await sql.query(
    `select from svc.secret_uses u join svc.secrets s on s.id = u.secret_id
      where u.secret_id = $1::uuid and u.used_by = $2::text and u.used_at > $3::timestamptz - interval '1 day'
        and u.used_at > greatest(s.created_at, s.updated_at)`,
    [note.secretId, note.usedBy, note.now],
  );
  if (known.rowCount > 0) return;
  await sql.query(
    `with used as (
       insert into svc.secret_uses (secret_id, used_by, used_at)
       select id, $2::text, $3::timestamptz from svc.secrets where id = $1::uuid
       on conflict (secret_id, used_by) do update set used_at = excluded.used_at returning secret_id),
     stamped as (
       update svc.secrets s set last_accessed_at = $3::timestamptz from used where s.id = used.secret_id returning 1)
     insert into svc.audit (at, org_id, project_id, principal_kind, principal_name, action, subject_kind, subject_name,
       detail)
     values ($3::timestamptz, $4::uuid, $5::uuid, 'system', 'secret-resolver', 'secret.use', 'Secret', $6::text,
       $7::jsonb)`,
    [note.secretId, note.usedBy, note.now, note.orgId, note.projectId, note.name, JSON.stringify(note.detail)],
  );
}
