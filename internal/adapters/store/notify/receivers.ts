// svc.receivers: whom a project tells of what happens in it. A webhook's key is sealed and leaves this file as it is.

import type { Condition } from '../../../domain/notification.ts';
import type { Sql } from '../store.ts';

export interface ReceiverRow {
  readonly id: string;
  readonly projectId: string;
  readonly name: string;
  readonly kind: 'chat' | 'webhook';
  /** Null: all. */
  readonly conditions: readonly Condition[] | null;
  readonly suspended: boolean;
  readonly connection: string | null;
  readonly channel: string | null;
  readonly url: string | null;
  readonly keyVersion: number | null;
  readonly sealed: Buffer | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

const columns = `r.id, r.project_id as "projectId", r.name, r.kind, r.conditions, r.suspended, r.connection, r.channel,
  r.url, r.key_version as "keyVersion", r.sealed, r.created_at as "createdAt", r.updated_at as "updatedAt"`;

export type ReceiverWrite = Omit<ReceiverRow, 'id' | 'createdAt' | 'updatedAt'>;

const values = (row: ReceiverWrite): unknown[] => [
  row.projectId,
  row.name,
  row.kind,
  row.conditions,
  row.suspended,
  row.connection,
  row.channel,
  row.url,
  row.keyVersion,
  row.sealed,
];
const placed = `$1::uuid, $2::text, $3::text, $4::text[], $5::boolean, $6::text, $7::text, $8::text, $9::int, $10::bytea`;

/** Undefined where the name is taken. */
export async function insertReceiver(tx: Sql, row: ReceiverWrite, now: Date): Promise<ReceiverRow | undefined> {
  const { rows } = await tx.query<ReceiverRow>(
    `insert into svc.receivers as r (project_id, name, kind, conditions, suspended, connection, channel, url, key_version,
       sealed, created_at, updated_at) values (${placed}, $11::timestamptz, $11::timestamptz)
     on conflict (project_id, name) do nothing returning ${columns}`,
    [...values(row), now],
  );
  return rows[0];
}

/** Undefined where there is none of that name. */
export async function updateReceiver(tx: Sql, row: ReceiverWrite, now: Date): Promise<ReceiverRow | undefined> {
  const { rows } = await tx.query<ReceiverRow>(
    `update svc.receivers r set conditions = $4::text[], suspended = $5::boolean, connection = $6::text,
       channel = $7::text, url = $8::text, key_version = $9::int, sealed = $10::bytea, updated_at = $11::timestamptz
      where r.project_id = $1::uuid and r.name = $2::text and r.kind = $3::text returning ${columns}`,
    [...values(row), now],
  );
  return rows[0];
}

/** False where there is none of this name. */
export async function deleteReceiver(tx: Sql, projectId: string, name: string): Promise<boolean> {
  const { rowCount } = await tx.query('delete from svc.receivers where project_id = $1::uuid and name = $2::text', [
    projectId,
    name,
  ]);
  return rowCount === 1;
}

/** A receiver of a project, its key as it is sealed. */
export async function receiverByName(
  sql: Sql,
  projectId: string,
  name: string,
  options: { readonly locked?: boolean } = {},
): Promise<ReceiverRow | undefined> {
  const { rows } = await sql.query<ReceiverRow>(
    `select ${columns} from svc.receivers r where r.project_id = $1::uuid and r.name = $2::text
       ${options.locked === true ? 'for update' : ''}`,
    [projectId, name],
  );
  return rows[0];
}

/** A page of a project's receivers by name. */
export async function listReceivers(
  sql: Sql,
  projectId: string,
  page: { readonly after?: string | undefined; readonly limit: number },
): Promise<ReceiverRow[]> {
  const { rows } = await sql.query<ReceiverRow>(
    `select ${columns} from svc.receivers r
      where r.project_id = $1::uuid and ($2::text is null or r.name collate "C" > $2::text collate "C")
      order by r.name collate "C" limit $3::int`,
    [projectId, page.after ?? null, page.limit],
  );
  return rows;
}

/** Receivers of these projects that are not suspended. */
export async function receiversOf(
  sql: Sql,
  projectIds: readonly string[],
): Promise<Pick<ReceiverRow, 'projectId' | 'name' | 'conditions'>[]> {
  const { rows } = await sql.query<Pick<ReceiverRow, 'projectId' | 'name' | 'conditions'>>(
    `select project_id as "projectId", name, conditions from svc.receivers
      where project_id = any($1::uuid[]) and not suspended order by project_id, name`,
    [projectIds],
  );
  return rows;
}
