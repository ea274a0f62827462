// svc.principals and svc.api_tokens. A token is stored as its SHA-256 alone; a service account belongs to one
// organization and its name is unique there; a person's e-mail address is unique, whatever its case.

import type { Sql } from '../store.ts';

export interface PrincipalRow {
  readonly id: string;
  readonly kind: 'user' | 'service_account';
  readonly orgId: string | null;
  readonly name: string;
  readonly email: string | null;
  readonly disabledAt: Date | null;
  readonly createdAt: Date;
}
export interface TokenRow {
  readonly id: string;
  readonly name: string;
  readonly principalId: string;
  readonly principalKind: string;
  readonly principalName: string;
  /** The one organization that it opens, null for all of its principal's. */
  readonly orgId: string | null;
  readonly createdAt: Date;
  readonly expiresAt: Date | null;
  readonly lastUsedAt: Date | null;
  readonly revokedAt: Date | null;
}

const principalColumns = `p.id, p.kind, p.org_id as "orgId", p.name, p.email, p.disabled_at as "disabledAt", p.created_at as "createdAt"`;
const tokenColumns = `t.id, t.name, t.org_id as "orgId", p.id as "principalId", p.kind as "principalKind", p.name as "principalName",
  t.created_at as "createdAt", t.expires_at as "expiresAt", t.last_used_at as "lastUsedAt", t.revoked_at as "revokedAt"`;

/** Principals that an organization may name: its members and its service accounts, by id, e-mail or account name. */
export async function findOrgPrincipal(
  sql: Sql,
  orgId: string,
  by: { id?: string; email?: string; account?: string },
): Promise<PrincipalRow | undefined> {
  const { rows } = await sql.query<PrincipalRow>(
    `select ${principalColumns} from svc.principals p
     where (p.org_id = $1::uuid or exists (select from svc.org_members m where m.org_id = $1::uuid and m.principal_id = p.id))
       and (p.id = $2::uuid or (p.kind = 'user' and lower(p.email) = lower($3::text)) or (p.kind = 'service_account' and p.name = $4::text))`,
    [orgId, by.id ?? null, by.email ?? null, by.account ?? null],
  );
  return rows[0];
}

/** The person with this address, made if there is none. */
export async function ensureUser(tx: Sql, email: string, name: string): Promise<PrincipalRow> {
  const { rows } = await tx.query<PrincipalRow>(
    `insert into svc.principals as p (kind, name, email) values ('user', $2::text, $1::text)
     on conflict (lower(email)) where kind = 'user' and email is not null do nothing returning ${principalColumns}`,
    [email, name],
  );
  if (rows[0] !== undefined) return rows[0];
  // A statement of its own: one that somebody has made at this moment is seen by no statement that began before.
  const found = await tx.query<PrincipalRow>(
    `select ${principalColumns} from svc.principals p where p.kind = 'user' and lower(p.email) = lower($1::text)`,
    [email],
  );
  return found.rows[0] as PrincipalRow;
}

/** A new service account; a name that is taken fails the unique index. */
export async function insertServiceAccount(tx: Sql, orgId: string, name: string): Promise<PrincipalRow> {
  const { rows } = await tx.query<PrincipalRow>(
    `insert into svc.principals as p (kind, org_id, name) values ('service_account', $1::uuid, $2::text) returning ${principalColumns}`,
    [orgId, name],
  );
  return rows[0] as PrincipalRow;
}

/** Service accounts of an organization, by name. */
export async function listServiceAccounts(
  sql: Sql,
  orgId: string,
  page: { readonly after?: string; readonly limit: number },
): Promise<PrincipalRow[]> {
  const { rows } = await sql.query<PrincipalRow>(
    `select ${principalColumns} from svc.principals p
     where p.kind = 'service_account' and p.org_id = $1::uuid and ($2::text is null or p.name > $2::text)
     order by p.name limit $3::int`,
    [orgId, page.after ?? null, page.limit],
  );
  return rows;
}

/** A service account of an organization, by name. */
export async function findServiceAccount(
  sql: Sql,
  orgId: string,
  account: { id?: string; name?: string },
): Promise<PrincipalRow | undefined> {
  const { rows } = await sql.query<PrincipalRow>(
    `select ${principalColumns} from svc.principals p
     where p.kind = 'service_account' and p.org_id = $1::uuid and (p.id = $2::uuid or p.name = $3::text)`,
    [orgId, account.id ?? null, account.name ?? null],
  );
  return rows[0];
}

/** Disabled, none of its tokens is valid; enabled again, those that were valid are. Undefined where it is gone. */
export async function disableServiceAccount(
  tx: Sql,
  principalId: string,
  at: Date | null,
): Promise<PrincipalRow | undefined> {
  const { rows } = await tx.query<PrincipalRow>(
    `update svc.principals p set disabled_at = case when $2::timestamptz is null then null else coalesce(disabled_at, $2::timestamptz) end
     where p.id = $1::uuid returning ${principalColumns}`,
    [principalId, at],
  );
  return rows[0];
}

/** Its tokens and memberships go with it. */
export async function deleteServiceAccount(
  tx: Sql,
  orgId: string,
  account: { id?: string; name?: string },
): Promise<PrincipalRow | undefined> {
  const { rows } = await tx.query<PrincipalRow>(
    `delete from svc.principals p where p.kind = 'service_account' and p.org_id = $1::uuid
       and (p.id = $2::uuid or p.name = $3::text) returning ${principalColumns}`,
    [orgId, account.id ?? null, account.name ?? null],
  );
  return rows[0];
}

/** Whether a person belongs to an organization other than this one, as member of it or of one of its projects. */
export async function belongsElsewhere(sql: Sql, principalId: string, orgId: string): Promise<boolean> {
  const { rowCount } = await sql.query(
    `select from svc.org_members where principal_id = $1::uuid and org_id <> $2::uuid
     union all
     select from svc.project_members m join svc.projects j on j.id = m.project_id
     where m.principal_id = $1::uuid and j.org_id <> $2::uuid limit 1`,
    [principalId, orgId],
  );
  return rowCount > 0;
}

/** A new token, by its SHA-256. */
export async function insertToken(
  tx: Sql,
  token: { principalId: string; orgId: string | null; sha256: Buffer; name: string; expiresAt: Date | null },
): Promise<TokenRow> {
  const { rows } = await tx.query<TokenRow>(
    `with t as (insert into svc.api_tokens (principal_id, token_sha256, name, expires_at, org_id)
       values ($1::uuid, $2::bytea, $3::text, $4::timestamptz, $5::uuid) returning *)
     select ${tokenColumns} from t join svc.principals p on p.id = t.principal_id`,
    [token.principalId, token.sha256, token.name, token.expiresAt, token.orgId],
  );
  return rows[0] as TokenRow;
}

/**
 * Which tokens: one principal's own (all of them, or those that open `only` alone), or all that open an organization,
 * which are those of its service accounts and members unless they are limited to another one.
 */
export type TokenScope = { readonly principalId: string; readonly only: string | null } | { readonly orgId: string };

const scopeSql = `($1::uuid is null or t.principal_id = $1::uuid)
  and ($2::uuid is null or (t.org_id is null or t.org_id = $2::uuid) and (p.org_id = $2::uuid
    or exists (select from svc.org_members m where m.org_id = $2::uuid and m.principal_id = p.id)))
  and ($3::uuid is null or t.org_id = $3::uuid)`;

function scopeValues(scope: TokenScope): [string | null, string | null, string | null] {
  return 'principalId' in scope ? [scope.principalId, null, scope.only] : [null, scope.orgId, null];
}

/** Newest first; revoked ones too, as a record. */
export async function listTokens(
  sql: Sql,
  scope: TokenScope,
  page: { readonly before?: readonly [at: string, id: string]; readonly limit: number },
): Promise<TokenRow[]> {
  const { rows } = await sql.query<TokenRow>(
    `select ${tokenColumns} from svc.api_tokens t join svc.principals p on p.id = t.principal_id
     where ${scopeSql}
       and ($4::timestamptz is null or (date_trunc('milliseconds', t.created_at), t.id) < ($4::timestamptz, $5::uuid))
     order by date_trunc('milliseconds', t.created_at) desc, t.id desc limit $6::int`,
    [...scopeValues(scope), page.before?.[0] ?? null, page.before?.[1] ?? null, page.limit],
  );
  return rows;
}

/** How many tokens a scope has, revoked and expired ones among them. */
export async function countTokens(sql: Sql, scope: TokenScope): Promise<number> {
  const { rows } = await sql.query<{ n: number }>(
    `select count(*)::int as n from svc.api_tokens t join svc.principals p on p.id = t.principal_id where ${scopeSql}`,
    scopeValues(scope),
  );
  return rows[0]?.n ?? 0;
}

/** A token of a scope, without anything that could be used as one. */
export async function getToken(sql: Sql, scope: TokenScope, tokenId: string): Promise<TokenRow | undefined> {
  const { rows } = await sql.query<TokenRow>(
    `select ${tokenColumns} from svc.api_tokens t join svc.principals p on p.id = t.principal_id
     where ${scopeSql} and t.id = $4::uuid`,
    [...scopeValues(scope), tokenId],
  );
  return rows[0];
}

/** Valid no more from the commit on. Safe twice: the first time of revocation stays. */
export async function revokeToken(tx: Sql, tokenId: string, now: Date): Promise<void> {
  await tx.query('update svc.api_tokens set revoked_at = coalesce(revoked_at, $2::timestamptz) where id = $1::uuid', [
    tokenId,
    now,
  ]);
}
