// svc.web_sessions and svc.signin_handoffs. A session is looked up at each request, by the hash of its cookie: what ends
// it (its time, its idle time, its token, its person, the person's last role) ends it with the next request.

import type { Sql } from '../store.ts';

export interface NewWebSession {
  readonly cookieSha256: Buffer;
  /** Null: the key is given once, by `setSessionKey`. */
  readonly keySha256: Buffer | null;
  readonly principalId: string;
  readonly tokenId: string | null;
  readonly method: string;
  readonly now: Date;
  readonly expiresAt: Date;
}

/** Answers with its id. */
export async function insertWebSession(tx: Sql, session: NewWebSession): Promise<string> {
  const { rows } = await tx.query<{ id: string }>(
    `insert into svc.web_sessions (cookie_sha256, key_sha256, principal_id, token_id, method, created_at, last_used_at, expires_at)
     values ($1::bytea, $2::bytea, $3::uuid, $4::uuid, $5::text, $6::timestamptz, $6::timestamptz, $7::timestamptz)
     returning id`,
    [
      session.cookieSha256,
      session.keySha256,
      session.principalId,
      session.tokenId,
      session.method,
      session.now,
      session.expiresAt,
    ],
  );
  return rows[0]?.id ?? '';
}

export interface LiveSession {
  readonly id: string;
  readonly keySha256: Buffer | null;
  readonly method: string;
  readonly principalId: string;
  readonly principalName: string;
  readonly tokenId: string | null;
  /** Opened with the token of the data directory. */
  readonly installation: boolean;
  readonly expiresAt: Date;
}

/** Of a session `s` with its token `t` (or none) and its principal `p`, at $2, idle for at most $3 seconds. */
export const liveSession = `s.ended_at is null and s.expires_at > $2::timestamptz
  and s.last_used_at > $2::timestamptz - $3::int * interval '1 second' and p.disabled_at is null
  and (s.token_id is null or (t.revoked_at is null and (t.expires_at is null or t.expires_at > $2::timestamptz)))
  and (exists (select from svc.org_members m where m.principal_id = p.id and (t.org_id is null or t.org_id = m.org_id))
    or exists (select from svc.project_members m join svc.projects j on j.id = m.project_id
      where m.principal_id = p.id and (t.org_id is null or t.org_id = j.org_id)))`;

/** The session of a cookie, undefined where it is not alive. */
export async function findWebSession(
  sql: Sql,
  cookieSha256: Buffer,
  at: { readonly now: Date; readonly idleSeconds: number },
): Promise<LiveSession | undefined> {
  const { rows } = await sql.query<LiveSession>(
    `select s.id, s.key_sha256 as "keySha256", s.method, s.principal_id as "principalId", p.name as "principalName",
       s.token_id as "tokenId", coalesce(t.installation, false) as installation, s.expires_at as "expiresAt"
     from svc.web_sessions s
     join svc.principals p on p.id = s.principal_id
     left join svc.api_tokens t on t.id = s.token_id
     where s.cookie_sha256 = $1::bytea and ${liveSession}`,
    [cookieSha256, at.now, at.idleSeconds],
  );
  return rows[0];
}

/**
 * Notes that a session was used; at most one write a minute for each, and more where it may be idle for less than an hour:
 * what is not noted ends it that much early.
 */
export async function touchWebSession(
  sql: Sql,
  id: string,
  at: { readonly now: Date; readonly idleSeconds: number },
): Promise<void> {
  await sql.query(
    `update svc.web_sessions set last_used_at = $2::timestamptz
     where id = $1::uuid
       and last_used_at < $2::timestamptz - least($3::float8 / 60, 60) * interval '1 second'`,
    [id, at.now, at.idleSeconds],
  );
}

/** Gives the key once: false where it was given before. */
export async function setSessionKey(tx: Sql, id: string, keySha256: Buffer): Promise<boolean> {
  const { rowCount } = await tx.query(
    `update svc.web_sessions set key_sha256 = $2::bytea where id = $1::uuid and key_sha256 is null and ended_at is null`,
    [id, keySha256],
  );
  return rowCount > 0;
}

export interface SessionRow {
  readonly id: string;
  readonly method: string;
  readonly createdAt: Date;
  readonly lastUsedAt: Date;
  readonly expiresAt: Date;
}

const listMax = 200;

/** Whose sessions: all of a person's, or those alone that were opened with a token of the organization `only`. */
export interface SessionScope {
  readonly principalId: string;
  readonly only: string | null;
}

/** A person's sessions that are alive, newest first. */
export async function listWebSessions(
  sql: Sql,
  { principalId, only }: SessionScope,
  at: { readonly now: Date; readonly idleSeconds: number },
): Promise<SessionRow[]> {
  const { rows } = await sql.query<SessionRow>(
    `select s.id, s.method, s.created_at as "createdAt", s.last_used_at as "lastUsedAt", s.expires_at as "expiresAt"
     from svc.web_sessions s
     join svc.principals p on p.id = s.principal_id
     left join svc.api_tokens t on t.id = s.token_id
     where s.principal_id = $1::uuid and ($4::uuid is null or t.org_id = $4::uuid) and ${liveSession}
     order by s.created_at desc, s.id limit ${listMax}`,
    [principalId, at.now, at.idleSeconds, only],
  );
  return rows;
}

/** Ends one of a person's sessions; false where there is no such one. */
export async function endWebSession(
  tx: Sql,
  { principalId, only }: SessionScope,
  id: string,
  now: Date,
): Promise<boolean> {
  const { rowCount } = await tx.query(
    `update svc.web_sessions s set ended_at = $3::timestamptz
     where s.id = $1::uuid and s.principal_id = $2::uuid and s.ended_at is null and s.expires_at > $3::timestamptz
       and ($4::uuid is null or exists (select from svc.api_tokens t where t.id = s.token_id and t.org_id = $4::uuid))`,
    [id, principalId, now, only],
  );
  return rowCount > 0;
}

/** A code, by its hash, that opens one browser session. */
export async function insertHandoff(
  tx: Sql,
  handoff: {
    readonly sha256: Buffer;
    readonly principalId: string;
    readonly tokenId: string | null;
    readonly expiresAt: Date;
  },
): Promise<void> {
  await tx.query(
    `insert into svc.signin_handoffs (sha256, principal_id, token_id, expires_at)
     values ($1::bytea, $2::uuid, $3::uuid, $4::timestamptz)`,
    [handoff.sha256, handoff.principalId, handoff.tokenId, handoff.expiresAt],
  );
}

/** Who may sign in with a token or what was made from one. */
export interface Presented {
  readonly principalId: string;
  readonly principalName: string;
  readonly kind: 'user' | 'service_account';
  readonly tokenId: string | null;
  readonly tokenOrgId: string | null;
  readonly tokenExpiresAt: Date | null;
  readonly installation: boolean;
}

const presented = `p.id as "principalId", p.name as "principalName", p.kind, t.id as "tokenId", t.org_id as "tokenOrgId",
  t.expires_at as "tokenExpiresAt", coalesce(t.installation, false) as installation`;
const usable = `p.disabled_at is null and (t.id is null or (t.revoked_at is null and (t.expires_at is null or t.expires_at > $2::timestamptz)))`;

/** Takes a hand-off, once and in time; of callers at the same moment one gets it. */
export async function takeHandoff(tx: Sql, sha256: Buffer, now: Date): Promise<Presented | undefined> {
  const { rows } = await tx.query<Presented>(
    `with taken as (update svc.signin_handoffs set used_at = $2::timestamptz
       where sha256 = $1::bytea and used_at is null and expires_at > $2::timestamptz returning *)
     select ${presented} from taken h join svc.principals p on p.id = h.principal_id
     left join svc.api_tokens t on t.id = h.token_id where ${usable}`,
    [sha256, now],
  );
  return rows[0];
}

/** Whose a token is, while it is valid. */
export async function presentedToken(sql: Sql, sha256: Buffer, now: Date): Promise<Presented | undefined> {
  const { rows } = await sql.query<Presented>(
    `select ${presented} from svc.api_tokens t join svc.principals p on p.id = t.principal_id
     where t.token_sha256 = $1::bytea and ${usable}`,
    [sha256, now],
  );
  return rows[0];
}

/** Organizations in which a person has a role, or `only` if it is one: where the audit tells of its sign-in. */
export async function orgsOf(sql: Sql, principalId: string, only: string | null = null): Promise<string[]> {
  const { rows } = await sql.query<{ id: string }>(
    `select id from (
       select m.org_id as id from svc.org_members m where m.principal_id = $1::uuid
       union select j.org_id from svc.project_members m join svc.projects j on j.id = m.project_id
         where m.principal_id = $1::uuid) o
     where $2::uuid is null or id = $2::uuid order by id limit 200`,
    [principalId, only],
  );
  return rows.map((row) => row.id);
}

/**
 * Removes what nobody can use any more, at most `limit` of each kind: anybody may begin a sign-in or a device grant.
 * Answers with how many went of the kind that had most.
 */
export async function pruneSignins(tx: Sql, before: Date, limit: number): Promise<number> {
  let most = 0;
  for (const table of ['web_sessions', 'signin_handoffs', 'signin_attempts', 'device_grants']) {
    const { rowCount } = await tx.query(
      `delete from svc.${table} where ctid = any(array(
         select ctid from svc.${table} where expires_at < $1::timestamptz limit $2::int))`,
      [before, limit],
    );
    most = Math.max(most, rowCount);
  }
  return most;
}
