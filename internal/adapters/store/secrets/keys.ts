// svc.key_versions, svc.key_rotations, and the rows that master keys seal. The row of a version is the fence of its
// retirement: whoever stores a sealed value counts it there in the same transaction, and retiring locks that row before
// it looks for rows, so that nothing can be sealed with a version once it is retired.

import { Fault } from '../../../domain/fault.ts';
import type { Sql } from '../store.ts';

/** Every table that holds sealed values; each has `id`, `key_version` and one column of sealed bytes. */
const sealedTables = {
  secret: {
    table: 'svc.secrets',
    column: 'sealed',
    select: 'r.org_id as "orgId", r.project_id as "projectId", r.name from svc.secrets r',
  },
  connection: {
    table: 'svc.connections',
    column: 'sealed_credentials',
    select:
      'p.org_id as "orgId", r.project_id as "projectId", r.name from svc.connections r join svc.projects p on p.id = r.project_id',
  },
  'oauth-token': {
    table: 'svc.oauth_tokens',
    column: 'sealed',
    select: 'r.org_id as "orgId", r.project_id as "projectId", r.name from svc.oauth_tokens r',
  },
  receiver: {
    table: 'svc.receivers',
    column: 'sealed',
    select:
      'p.org_id as "orgId", r.project_id as "projectId", r.name from svc.receivers r join svc.projects p on p.id = r.project_id',
  },
  'session-hold': {
    table: 'svc.session_holds',
    column: 'sealed',
    select:
      'p.org_id as "orgId", s.project_id as "projectId", r.session_id::text as name from svc.session_holds r join svc.sessions s on s.id = r.session_id join svc.projects p on p.id = s.project_id',
  },
  'session-snapshot': {
    table: 'svc.session_snapshots',
    column: 'sealed',
    select:
      'p.org_id as "orgId", s.project_id as "projectId", r.session_id::text as name from svc.session_snapshots r join svc.sessions s on s.id = r.session_id join svc.projects p on p.id = s.project_id',
  },
} as const;
const tables = Object.values(sealedTables);
/** The key version of every sealed value, one row each. */
const everySealed = tables
  .map(({ table, column }) => `select key_version from ${table} where ${column} is not null`)
  .join(' union all ');
/** Whether nothing is sealed with a version, which is SQL. */
export const nothingSealedWith = (version: string): string =>
  tables
    .map(
      ({ table, column }) =>
        `not exists (select from ${table} where key_version = ${version} and ${column} is not null)`,
    )
    .join(' and ');
/** One that starts has beaten nowhere yet: it counts for so long after it was seen. The silence after which one is dead. */
const seenSeconds = 15;

/** SQL: the daemon of the row `h` of svc.key_holders lives. */
export const holderLives = `(h.seen_at > now() - make_interval(secs => ${seenSeconds}) or exists (
    select from svc.daemons d where d.id = h.daemon_id and d.beat_at > now() - make_interval(secs => ${seenSeconds})))`;

export type SealedUse = keyof typeof sealedTables;
export const sealedUses = Object.keys(sealedTables) as readonly SealedUse[];

export interface KeyVersionRow {
  readonly version: number;
  readonly fingerprint: Buffer | null;
  readonly wraps: number;
  readonly retiredAt: Date | null;
  /** Stored values sealed with it now. */
  readonly rows: number;
}

/** Every version that was ever used, and those that rows name though they were never registered. */
export async function listKeyVersions(sql: Sql): Promise<KeyVersionRow[]> {
  const { rows } = await sql.query<KeyVersionRow>(
    `with used as (
       select key_version as version, count(*) as n from (${everySealed}) x
       where key_version is not null group by key_version)
     select coalesce(k.version, u.version) as version, k.fingerprint, coalesce(k.wraps, 0) as wraps,
       k.retired_at as "retiredAt", coalesce(u.n, 0) as rows
       from svc.key_versions k full join used u on u.version = k.version order by 1`,
  );
  return rows;
}

/**
 * Counts sealed values in the transaction that stores them. Throws Fault `unavailable` where the version has been
 * retired, or is another key here than the one that sealed what is stored: nothing may be written then.
 */
export async function countWraps(
  tx: Sql,
  by: { readonly version: number; readonly fingerprint: Buffer; readonly count: number },
): Promise<void> {
  const { rowCount } = await tx.query(
    `insert into svc.key_versions as k (version, fingerprint, wraps) values ($1::int, $2::bytea, $3::bigint)
     on conflict (version) do update set wraps = k.wraps + excluded.wraps
       where k.fingerprint = excluded.fingerprint and k.retired_at is null`,
    [by.version, by.fingerprint, by.count],
  );
  if (rowCount === 1) return;
  throw new Fault(
    'unavailable',
    'master-key-refused',
    `Master key version ${by.version} of this daemon is retired, or is not the key that stored values are sealed with; see svc doctor.`,
  );
}

export interface SealedRow {
  readonly id: string;
  readonly orgId: string;
  readonly projectId: string | null;
  readonly name: string;
  readonly keyVersion: number;
  readonly sealed: Buffer;
}

/** Rows that another version than `current` seals, in the order of ids, after the id `after`. */
export async function readStale(
  sql: Sql,
  use: SealedUse,
  page: { readonly current: number; readonly after: string | null; readonly limit: number },
): Promise<SealedRow[]> {
  const { column, select } = sealedTables[use];
  const { rows } = await sql.query<SealedRow>(
    `select r.id, r.key_version as "keyVersion", r.${column} as sealed, ${select}
      where r.key_version <> $1::int and r.${column} is not null and ($2::uuid is null or r.id > $2::uuid)
      order by r.id limit $3::int`,
    [page.current, page.after, page.limit],
  );
  return rows;
}

export interface ResealedRow {
  readonly id: string;
  readonly before: Buffer;
  readonly keyVersion: number;
  readonly sealed: Buffer;
}

/** Replaces what is still as it was read; a row that was written meanwhile keeps what it has. The number replaced. */
export async function replaceSealed(tx: Sql, use: SealedUse, rows: readonly ResealedRow[]): Promise<number> {
  const { table, column } = sealedTables[use];
  const ids = rows.map((row) => row.id);
  // In the order in which launches lock them.
  await tx.query(`select from ${table} where id = any($1::uuid[]) order by id for no key update`, [ids]);
  const { rowCount } = await tx.query(
    `update ${table} r set key_version = w.version, ${column} = w.sealed
       from unnest($1::uuid[], $2::bytea[], $3::int[], $4::bytea[]) as w (id, before, version, sealed)
      where r.id = w.id and r.${column} = w.before`,
    [ids, rows.map((row) => row.before), rows.map((row) => row.keyVersion), rows.map((row) => row.sealed)],
  );
  return rowCount;
}

/** The organization that the installation began with; its administrators rotate keys, and its audit tells of it. */
export async function firstOrgId(sql: Sql): Promise<string | null> {
  const { rows } = await sql.query<{ id: string }>('select id from svc.orgs order by created_at, id limit 1');
  return rows[0]?.id ?? null;
}

/** Values that another version than `current` seals. */
export async function countStale(sql: Sql, current: number): Promise<number> {
  const { rows } = await sql.query<{ n: number }>(
    `select count(*) as n from (${everySealed}) x where key_version <> $1::int`,
    [current],
  );
  return Number(rows[0]?.n ?? 0);
}

/**
 * Retires every version but `current` that no row uses and that is not to come: one that this daemon does not know (`known`)
 * and a live one holds is the next, of a key file that has not come everywhere yet. Call in a transaction of its own. The
 * versions retired.
 */
export async function retireUnused(
  tx: Sql,
  { current, known, now }: { readonly current: number; readonly known: readonly number[]; readonly now: Date },
): Promise<number[]> {
  // Waits for writers that have counted a value and not committed yet; the next statement sees their rows.
  await tx.query('select from svc.key_versions where version <> $1::int order by version for update', [current]);
  const { rows } = await tx.query<{ version: number }>(
    `update svc.key_versions k set retired_at = $2::timestamptz
      where k.version <> $1::int and k.retired_at is null
        and ${nothingSealedWith('k.version')}
        and (k.version = any($3::int[])
          or not exists (select from svc.key_holders h where h.version = k.version and not h.refused and ${holderLives}))
     returning version`,
    [current, now, known],
  );
  return rows.map((row) => row.version).sort((a, b) => a - b);
}

export interface RotationRow {
  readonly id: string;
  readonly toVersion: number;
  readonly status: 'running' | 'done' | 'failed';
  readonly total: number;
  readonly done: number;
  readonly detail: string | null;
  readonly retired: readonly number[];
  readonly startedAt: Date;
  readonly finishedAt: Date | null;
}

const rotation = `id, to_version as "toVersion", status, total, done, detail, retired, started_at as "startedAt",
  finished_at as "finishedAt"`;

/** Opens a rotation; where one runs already, that one is taken along to the new version. */
export async function openRotation(
  tx: Sql,
  row: { readonly id: string; readonly toVersion: number; readonly total: number; readonly now: Date },
): Promise<RotationRow> {
  const { rows } = await tx.query<RotationRow>(
    `insert into svc.key_rotations as r (id, to_version, status, total, started_at)
     values ($1::uuid, $2::int, 'running', $3::bigint, $4::timestamptz)
     on conflict ((true)) where status = 'running'
       do update set to_version = excluded.to_version, total = r.done + excluded.total
     returning ${rotation}`,
    [row.id, row.toVersion, row.total, row.now],
  );
  return rows[0] as RotationRow;
}

/** A rotation of the master key, running or ended. */
export async function rotationById(sql: Sql, id: string): Promise<RotationRow | undefined> {
  const { rows } = await sql.query<RotationRow>(`select ${rotation} from svc.key_rotations where id = $1::uuid`, [id]);
  return rows[0];
}

/**
 * Locks a rotation until the end of the transaction. False where it has ended, or was taken along to another version
 * meanwhile.
 */
export async function holdRotation(
  tx: Sql,
  { id, toVersion }: Pick<RotationRow, 'id' | 'toVersion'>,
): Promise<boolean> {
  const { rowCount } = await tx.query(
    `select from svc.key_rotations where id = $1::uuid and to_version = $2::int and status = 'running' for update`,
    [id, toVersion],
  );
  return rowCount === 1;
}

/** The rotation that began last. */
export async function lastRotation(sql: Sql): Promise<RotationRow | undefined> {
  const { rows } = await sql.query<RotationRow>(
    `select ${rotation} from svc.key_rotations order by started_at desc, id limit 1`,
  );
  return rows[0];
}

/** Counts values that a rotation has sealed anew. */
export async function advanceRotation(tx: Sql, id: string, count: number): Promise<void> {
  await tx.query('update svc.key_rotations set done = done + $2::bigint where id = $1::uuid', [id, count]);
}

/** Ends a rotation; `retired`: versions that seal nothing any more. */
export async function endRotation(
  tx: Sql,
  id: string,
  end: {
    readonly status: 'done' | 'failed';
    readonly detail: string | null;
    readonly retired: readonly number[];
    readonly now: Date;
  },
): Promise<void> {
  await tx.query(
    `update svc.key_rotations set status = $2::text, detail = $3::text, retired = $4::int[],
       finished_at = $5::timestamptz where id = $1::uuid and status = 'running'`,
    [id, end.status, end.detail, end.retired, end.now],
  );
}
