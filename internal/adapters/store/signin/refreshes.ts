// The refresh tokens of identities (svc.external_identities, columns of 0145; the tokens in svc.oauth_tokens).
// Invariant: a refresh token is sent once. Who sends it has set `refresh_sent_at` in a transaction of its own before; one
// that stays set belongs to a daemon that is gone, and its token is dropped, not sent again.

import type { Sql } from '../store.ts';

export interface DueIdentity {
  readonly issuer: string;
  readonly subject: string;
  readonly principalId: string;
  readonly name: string;
  readonly method: string;
  readonly tokenId: string;
}

/** Puts a token in the place of the one before, which is destroyed; null: there is none any more. */
export async function setRefreshToken(
  tx: Sql,
  of: { readonly issuer: string; readonly subject: string },
  next: { readonly method: string; readonly tokenId: string | null; readonly at: Date },
): Promise<void> {
  const { rows } = await tx.query<{ before: string | null }>(
    `with held as (select token_id from svc.external_identities where issuer = $1::text and subject = $2::text for update)
     update svc.external_identities i set method = $3::text, token_id = $4::uuid, refreshed_at = $5::timestamptz,
       refresh_sent_at = null
     from held where i.issuer = $1::text and i.subject = $2::text returning held.token_id as before`,
    [of.issuer, of.subject, next.method, next.tokenId, next.at],
  );
  const before = rows[0]?.before ?? null;
  if (before !== null) await tx.query('delete from svc.oauth_tokens where id = $1::uuid', [before]);
}

/** The right to send the token of one identity that is due, of another method than those named; undefined where none is. */
export async function claimRefreshDue(
  tx: Sql,
  { before, now, but }: { readonly before: Date; readonly now: Date; readonly but: readonly string[] },
): Promise<DueIdentity | undefined> {
  const { rows } = await tx.query<DueIdentity>(
    `update svc.external_identities i set refresh_sent_at = $2::timestamptz
     from (select e.issuer, e.subject, p.name from svc.external_identities e join svc.principals p on p.id = e.principal_id
       where e.token_id is not null and e.method is not null and e.refresh_sent_at is null
         and e.refreshed_at <= $1::timestamptz and p.disabled_at is null and e.method <> all($3::text[])
       order by e.refreshed_at limit 1 for update of e skip locked) due
     where i.issuer = due.issuer and i.subject = due.subject
     returning i.issuer, i.subject, i.principal_id as "principalId", due.name, i.method, i.token_id as "tokenId"`,
    [before, now, but],
  );
  return rows[0];
}

/**
 * Whether the token that was sent is the identity's still, which it stays then for the rest of the transaction: whoever has
 * signed in since is known better than by what came of it.
 */
export async function lockSentRefresh(tx: Sql, of: DueIdentity): Promise<boolean> {
  const { rowCount } = await tx.query(
    `select from svc.external_identities where issuer = $1::text and subject = $2::text and token_id = $3::uuid for update`,
    [of.issuer, of.subject, of.tokenId],
  );
  return rowCount > 0;
}

/** Nothing was sent after all: it is due again from `due` on. */
export async function putOffRefresh(sql: Sql, of: DueIdentity, due: Date): Promise<void> {
  await sql.query(
    `update svc.external_identities set refresh_sent_at = null, refreshed_at = $4::timestamptz
     where issuer = $1::text and subject = $2::text and token_id = $3::uuid`,
    [of.issuer, of.subject, of.tokenId, due],
  );
}

/** Drops tokens whose sender is gone without a word, and those of people who are. Answers with how many. */
export async function dropLostRefreshes(sql: Sql, sentBefore: Date): Promise<number> {
  const { rowCount } = await sql.query(
    `delete from svc.oauth_tokens t where t.name like 'signin:%' and not exists (
       select from svc.external_identities i where i.token_id = t.id
         and (i.refresh_sent_at is null or i.refresh_sent_at > $1::timestamptz))`,
    [sentBefore],
  );
  return rowCount;
}

/** What groups give a person now, as text that tells one state from another. */
export async function groupRolesText(sql: Sql, principalId: string): Promise<string> {
  const { rows } = await sql.query<{ text: string }>(
    `select coalesce(string_agg(x.one, ',' order by x.one), '') as text from (
       select 'o' || org_id || group_role as one from svc.org_members where principal_id = $1::uuid and group_role is not null
       union all
       select 'p' || project_id || group_role from svc.project_members where principal_id = $1::uuid and group_role is not null) x`,
    [principalId],
  );
  return rows[0]?.text ?? '';
}

/** Ends the browsers that a provider's word opened for a person, and those that were handed on from them. */
export async function endProviderSessions(tx: Sql, principalId: string, method: string, now: Date): Promise<number> {
  const { rowCount } = await tx.query(
    `update svc.web_sessions set ended_at = $3::timestamptz
     where principal_id = $1::uuid and method in ($2::text, 'handoff') and token_id is null and ended_at is null`,
    [principalId, method, now],
  );
  return rowCount;
}
