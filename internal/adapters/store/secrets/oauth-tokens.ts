// svc.oauth_tokens: what a provider gave by consent, sealed, a row for each generation. Whose row it is stands with the
// one that names it.

import type { Sql } from '../store.ts';

export interface TokenRow {
  readonly id: string;
  readonly orgId: string;
  readonly projectId: string | null;
  readonly name: string;
  readonly keyVersion: number;
  readonly sealed: Buffer;
}

/** A sealed token; whoever stores it counts its key version. */
export async function insertToken(tx: Sql, row: TokenRow): Promise<void> {
  await tx.query(
    `insert into svc.oauth_tokens (id, org_id, project_id, name, key_version, sealed)
     values ($1::uuid, $2::uuid, $3::uuid, $4::text, $5::int, $6::bytea)`,
    [row.id, row.orgId, row.projectId, row.name, row.keyVersion, row.sealed],
  );
}

/** A token as it is sealed. */
export async function tokenById(sql: Sql, id: string): Promise<TokenRow | undefined> {
  const { rows } = await sql.query<TokenRow>(
    `select id, org_id as "orgId", project_id as "projectId", name, key_version as "keyVersion", sealed
       from svc.oauth_tokens where id = $1::uuid`,
    [id],
  );
  return rows[0];
}

/** Destroys one that nothing names. */
export async function dropToken(tx: Sql, id: string): Promise<void> {
  await tx.query('delete from svc.oauth_tokens where id = $1::uuid', [id]);
}
