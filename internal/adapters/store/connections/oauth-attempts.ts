// svc.oauth_attempts, svc.oauth_codes and svc.oauth_clients: consent under way, and who asks for it.
// Invariants: a transition is an update where the state is the expected one; a code is exchanged by whoever inserted its
// hash, once in the life of the table; a client belongs to one issuer (unique row).

import { after, type AttemptState, type AttemptStep } from '../../../core/consent/consent.ts';
import type { JsonObject } from '../../../domain/json.ts';
import type { Sql } from '../store.ts';

export interface OauthAttemptRow {
  readonly id: string;
  readonly orgId: string;
  readonly orgSlug: string;
  readonly projectId: string;
  readonly projectSlug: string;
  readonly connectionId: string;
  readonly userId: string;
  readonly state: AttemptState;
  readonly reason: string | null;
  readonly tokenId: string | null;
  readonly server: JsonObject;
  readonly client: JsonObject;
  readonly resource: string | null;
  readonly scopes: readonly string[];
  readonly redirectUri: string;
  readonly expiresAt: Date;
  readonly exchangeUntil: Date | null;
}
const shown = `a.id, a.org_id as "orgId", o.slug as "orgSlug", a.project_id as "projectId", p.slug as "projectSlug",
  a.connection_id as "connectionId", a.user_id as "userId", a.state, a.reason, a.token_id as "tokenId", a.server, a.client,
  a.resource, a.scopes, a.redirect_uri as "redirectUri", a.expires_at as "expiresAt", a.exchange_until as "exchangeUntil"
  from svc.oauth_attempts a join svc.orgs o on o.id = a.org_id join svc.projects p on p.id = a.project_id`;

/** A new attempt, with the hash of its `state` and the sealed verifier. */
export async function insertOauthAttempt(
  tx: Sql,
  row: Omit<OauthAttemptRow, 'orgSlug' | 'projectSlug' | 'state' | 'reason' | 'exchangeUntil'> & {
    readonly stateHash: Buffer;
    readonly now: Date;
  },
): Promise<void> {
  await tx.query(
    `insert into svc.oauth_attempts (id, org_id, project_id, connection_id, user_id, state, state_hash, token_id, server,
       client, resource, scopes, redirect_uri, expires_at, created_at, updated_at)
     values ($1::uuid, $2::uuid, $3::uuid, $4::uuid, $5::uuid, 'awaiting_authorization', $6::bytea, $7::uuid, $8::jsonb,
       $9::jsonb, $10::text, $11::text[], $12::text, $13::timestamptz, $14::timestamptz, $14::timestamptz)`,
    [
      row.id,
      row.orgId,
      row.projectId,
      row.connectionId,
      row.userId,
      row.stateHash,
      row.tokenId,
      JSON.stringify(row.server),
      JSON.stringify(row.client),
      row.resource,
      row.scopes,
      row.redirectUri,
      row.expiresAt,
      row.now,
    ],
  );
}

/** An attempt of a connection. */
export async function oauthAttemptById(
  sql: Sql,
  connectionId: string,
  id: string,
): Promise<OauthAttemptRow | undefined> {
  const { rows } = await sql.query<OauthAttemptRow>(
    `select ${shown} where a.id::text = lower($1::text) and a.connection_id = $2::uuid`,
    [id, connectionId],
  );
  return rows[0];
}

/** The attempt that a callback belongs to, by the SHA-256 of its `state`. */
export async function oauthAttemptByState(sql: Sql, stateHash: Buffer): Promise<OauthAttemptRow | undefined> {
  const { rows } = await sql.query<OauthAttemptRow>(`select ${shown} where a.state_hash = $1::bytea`, [stateHash]);
  return rows[0];
}

/** Takes a step where the state still takes it; false where it does not. An end takes the verifier with it. */
export async function stepOauthAttempt(
  tx: Sql,
  id: string,
  at: {
    readonly taken: AttemptStep;
    readonly from: AttemptState;
    readonly now: Date;
    readonly reason?: string;
    readonly exchangeSeconds?: number;
  },
): Promise<boolean> {
  const next = after(at.from, at.taken);
  if (next === null) return false;
  const isEnd = next !== 'exchanging';
  const { rows } = await tx.query<{ tokenId: string | null }>(
    `with held as (select id, token_id from svc.oauth_attempts where id = $1::uuid and state = $2::text for update)
     update svc.oauth_attempts a set state = $3::text, updated_at = $4::timestamptz, reason = coalesce($5::text, a.reason),
       token_id = case when $6::boolean then null else a.token_id end,
       exchange_until = case when $6::boolean then a.exchange_until
         else clock_timestamp() + make_interval(secs => $7::int) end
      from held where a.id = held.id returning held.token_id as "tokenId"`,
    [id, at.from, next, at.now, at.reason ?? null, isEnd, at.exchangeSeconds ?? 0],
  );
  const [row] = rows;
  if (row === undefined) return false;
  if (isEnd && row.tokenId !== null) await tx.query('delete from svc.oauth_tokens where id = $1::uuid', [row.tokenId]);
  return true;
}

/** Attempts of a connection that still wait for a person are over: a newer one, or the end of the connection, came. */
export async function endOauthAttempts(tx: Sql, connectionId: string, now: Date): Promise<void> {
  await tx.query(
    `with gone as (update svc.oauth_attempts a set state = 'cancelled', updated_at = $2::timestamptz, token_id = null
       from (select id, token_id from svc.oauth_attempts where connection_id = $1::uuid
              and state = 'awaiting_authorization' for update) held where a.id = held.id returning held.token_id)
     delete from svc.oauth_tokens where id in (select token_id from gone)`,
    [connectionId, now],
  );
}

/** Ids of attempts, at most 100, whose owner claimed a code and is gone; of one connection where it is given. */
export async function lapsedExchanges(
  sql: Sql,
  connectionId: string | null,
): Promise<{ readonly id: string; readonly connectionId: string }[]> {
  const { rows } = await sql.query<{ id: string; connectionId: string }>(
    `select id, connection_id as "connectionId" from svc.oauth_attempts
      where state = 'exchanging' and exchange_until < clock_timestamp() and ($1::uuid is null or connection_id = $1::uuid)
      limit 100`,
    [connectionId],
  );
  return rows;
}

/** The right to exchange a code. */
export async function claimOauthCode(tx: Sql, codeHash: Buffer, attemptId: string, now: Date): Promise<boolean> {
  const { rowCount } = await tx.query(
    `insert into svc.oauth_codes (code_hash, attempt_id, claimed_at) values ($1::bytea, $2::uuid, $3::timestamptz)
     on conflict do nothing`,
    [codeHash, attemptId, now],
  );
  return rowCount === 1;
}

/** Deletes what is long over; the number of attempts. */
export async function deleteOldOauthAttempts(tx: Sql, before: Date, limit: number): Promise<number> {
  await tx.query(
    `delete from svc.oauth_codes where code_hash in (
       select code_hash from svc.oauth_codes where claimed_at < $1::timestamptz limit $2::int)`,
    [before, limit],
  );
  const { rowCount } = await tx.query(
    `with gone as (delete from svc.oauth_attempts where id in (
       select id from svc.oauth_attempts where updated_at < $1::timestamptz and state <> 'exchanging' limit $2::int)
       returning id, token_id), sealed as (
       delete from svc.oauth_tokens where id in (select token_id from gone where token_id is not null))
     select from gone`,
    [before, limit],
  );
  return rowCount;
}

export interface OauthClientRow {
  readonly id: string;
  readonly clientId: string;
  readonly method: 'none' | 'client_secret_basic' | 'client_secret_post';
  readonly tokenId: string | null;
  readonly expiresAt: Date | null;
}
const client = 'id, client_id as "clientId", method, token_id as "tokenId", expires_at as "expiresAt"';

/** The client that an issuer registered for an organization. */
export async function oauthClientOf(
  sql: Sql,
  at: { readonly orgId: string; readonly issuer: string; readonly redirectUri: string },
): Promise<OauthClientRow | undefined> {
  const { rows } = await sql.query<OauthClientRow>(
    `select ${client} from svc.oauth_clients
      where org_id = $1::uuid and issuer = $2::text and redirect_uri = $3::text`,
    [at.orgId, at.issuer, at.redirectUri],
  );
  return rows[0];
}

/** A client by the id that the issuer gave it, wherever the service was when it registered. */
export async function oauthClientById(
  sql: Sql,
  at: { readonly orgId: string; readonly issuer: string; readonly clientId: string },
): Promise<OauthClientRow | undefined> {
  const { rows } = await sql.query<OauthClientRow>(
    `select ${client} from svc.oauth_clients
      where org_id = $1::uuid and issuer = $2::text and client_id = $3::text order by created_at desc, id limit 1`,
    [at.orgId, at.issuer, at.clientId],
  );
  return rows[0];
}

/** Keeps a client in the place of one that is there no more, or of none; whoever comes second gets the first one's. */
export async function keepOauthClient(
  tx: Sql,
  row: OauthClientRow & {
    readonly orgId: string;
    readonly issuer: string;
    readonly redirectUri: string;
    readonly now: Date;
  },
): Promise<void> {
  await tx.query(
    `insert into svc.oauth_clients as c (id, org_id, issuer, redirect_uri, client_id, method, token_id, expires_at, created_at)
     values ($1::uuid, $2::uuid, $3::text, $4::text, $5::text, $6::text, $7::uuid, $8::timestamptz, $9::timestamptz)
     on conflict (org_id, issuer, redirect_uri) do update set id = excluded.id, client_id = excluded.client_id,
       method = excluded.method, token_id = excluded.token_id, expires_at = excluded.expires_at
       where c.expires_at < $9::timestamptz`,
    [row.id, row.orgId, row.issuer, row.redirectUri, row.clientId, row.method, row.tokenId, row.expiresAt, row.now],
  );
}

/** A client is forgotten that its server does not know any more. */
export async function forgetOauthClient(tx: Sql, orgId: string, issuer: string, clientId: string): Promise<void> {
  await tx.query(
    `with gone as (delete from svc.oauth_clients where org_id = $1::uuid and issuer = $2::text and client_id = $3::text
       returning token_id)
     delete from svc.oauth_tokens where id in (select token_id from gone)`,
    [orgId, issuer, clientId],
  );
}
