// svc.oauth_grants: the one credential of a connection by consent, a generation at a time.
// Invariant: one refresh at a time over all daemons: an update where nobody holds it, or whose holder lapsed without having
// sent anything. `refresh_sent_at` is committed before anything is sent; lapsed with it, the outcome is not known.

import type { GrantState } from '../../../core/consent/consent.ts';
import type { JsonObject } from '../../../domain/json.ts';
import type { Sql } from '../store.ts';

export interface OauthGrantRow {
  readonly connectionId: string;
  readonly orgId: string;
  readonly projectId: string;
  readonly status: GrantState;
  readonly tokenId: string | null;
  readonly generation: number;
  readonly server: JsonObject;
  readonly client: JsonObject;
  readonly resource: string | null;
  readonly scopes: readonly string[];
  readonly wantedScopes: readonly string[];
  readonly scopeRounds: number;
  readonly expiresAt: Date | null;
  readonly refreshAt: Date | null;
}
const shown = `g.connection_id as "connectionId", g.org_id as "orgId", g.project_id as "projectId", g.status,
  g.token_id as "tokenId", g.generation, g.server, g.client, g.resource, g.scopes, g.wanted_scopes as "wantedScopes",
  g.scope_rounds as "scopeRounds", g.expires_at as "expiresAt", g.refresh_at as "refreshAt" from svc.oauth_grants g`;

/** The grant of a connection, without its tokens. */
export async function oauthGrantOf(sql: Sql, connectionId: string): Promise<OauthGrantRow | undefined> {
  const { rows } = await sql.query<OauthGrantRow>(`select ${shown} where g.connection_id = $1::uuid`, [connectionId]);
  return rows[0];
}

/** The grant, held until the end of the transaction. */
export async function lockOauthGrant(tx: Sql, connectionId: string): Promise<OauthGrantRow | undefined> {
  const { rows } = await tx.query<OauthGrantRow>(`select ${shown} where g.connection_id = $1::uuid for update`, [
    connectionId,
  ]);
  return rows[0];
}

/** Publishes what a consent gave, in the place of what was there, whose tokens are destroyed. */
export async function publishOauthGrant(
  tx: Sql,
  row: Omit<OauthGrantRow, 'status' | 'wantedScopes'> & { readonly now: Date },
): Promise<void> {
  // Before the insert: a row that the same statement has changed cannot be locked any more, and would be left out.
  const held = await tx.query<{ before: string | null }>(
    'select token_id as before from svc.oauth_grants where connection_id = $1::uuid for update',
    [row.connectionId],
  );
  await tx.query(
    `insert into svc.oauth_grants (connection_id, org_id, project_id, status, token_id, generation, server, client, resource,
       scopes, scope_rounds, expires_at, refresh_at, updated_at)
     values ($1::uuid, $2::uuid, $3::uuid, 'ready', $4::uuid, $5::int, $6::jsonb, $7::jsonb, $8::text, $9::text[], $10::int,
       $11::timestamptz, $12::timestamptz, $13::timestamptz)
     on conflict (connection_id) do update set status = 'ready', token_id = excluded.token_id,
       generation = excluded.generation, server = excluded.server, client = excluded.client, resource = excluded.resource,
       scopes = excluded.scopes, wanted_scopes = '{}', scope_rounds = excluded.scope_rounds,
       expires_at = excluded.expires_at, refresh_at = excluded.refresh_at, refresh_owner = null, refresh_until = null,
       refresh_sent_at = null, updated_at = excluded.updated_at`,
    [
      row.connectionId,
      row.orgId,
      row.projectId,
      row.tokenId,
      row.generation,
      JSON.stringify(row.server),
      JSON.stringify(row.client),
      row.resource,
      row.scopes,
      row.scopeRounds,
      row.expiresAt,
      row.refreshAt,
      row.now,
    ],
  );
  const before = held.rows[0]?.before ?? null;
  if (before !== null) await tx.query('delete from svc.oauth_tokens where id = $1::uuid', [before]);
}

/** The right to refresh a generation: nobody has it, or who had it lapsed before anything was sent. */
export async function claimOauthRefresh(
  tx: Sql,
  at: {
    readonly connectionId: string;
    readonly generation: number;
    readonly owner: string;
    readonly seconds: number;
  },
): Promise<boolean> {
  const { rowCount } = await tx.query(
    `update svc.oauth_grants set status = 'refreshing', refresh_owner = $3::uuid, refresh_sent_at = null,
       refresh_until = clock_timestamp() + make_interval(secs => $4::int), updated_at = clock_timestamp()
      where connection_id = $1::uuid and generation = $2::int and (status = 'ready'
        or (status = 'refreshing' and refresh_sent_at is null and refresh_until < clock_timestamp()))`,
    [at.connectionId, at.generation, at.owner, at.seconds],
  );
  return rowCount === 1;
}

/** Committed before the request leaves. */
export async function markOauthSent(tx: Sql, connectionId: string, owner: string): Promise<boolean> {
  const { rowCount } = await tx.query(
    `update svc.oauth_grants set refresh_sent_at = clock_timestamp()
      where connection_id = $1::uuid and status = 'refreshing' and refresh_owner = $2::uuid
        and refresh_until > clock_timestamp()`,
    [connectionId, owner],
  );
  return rowCount === 1;
}

export type RefreshEnd =
  | { readonly status: 'ready' | 'uncertain' | 'ended' }
  | {
      readonly status: 'ready';
      readonly tokenId: string;
      readonly scopes: readonly string[] | null;
      readonly expiresAt: Date | null;
      readonly refreshAt: Date | null;
    };

/** Ends a refresh that this owner holds. With tokens: the next generation, and the one before is destroyed. */
export async function endOauthRefresh(
  tx: Sql,
  at: { readonly connectionId: string; readonly owner: string; readonly now: Date },
  end: RefreshEnd,
): Promise<boolean> {
  const next = 'tokenId' in end ? end : undefined;
  // A grant that ended has no use for its tokens.
  const drops = next !== undefined || end.status === 'ended';
  const { rows } = await tx.query<{ before: string | null }>(
    `with held as (select connection_id, token_id from svc.oauth_grants where connection_id = $1::uuid
        and status = 'refreshing' and refresh_owner = $2::uuid for update)
     update svc.oauth_grants g set status = $3::text, updated_at = $4::timestamptz, refresh_owner = null,
       refresh_until = null, refresh_sent_at = null,
       generation = g.generation + case when $5::boolean then 1 else 0 end,
       token_id = case when $6::boolean then $7::uuid else g.token_id end,
       scopes = coalesce($8::text[], g.scopes),
       expires_at = case when $5::boolean then $9::timestamptz else g.expires_at end,
       refresh_at = case when $5::boolean then $10::timestamptz else g.refresh_at end
      from held where g.connection_id = held.connection_id returning held.token_id as before`,
    [
      at.connectionId,
      at.owner,
      end.status,
      at.now,
      next !== undefined,
      drops,
      next?.tokenId ?? null,
      next?.scopes ?? null,
      next?.expiresAt ?? null,
      next?.refreshAt ?? null,
    ],
  );
  const [row] = rows;
  if (row === undefined) return false;
  if (drops && row.before !== null) await tx.query('delete from svc.oauth_tokens where id = $1::uuid', [row.before]);
  return true;
}

/** Connections whose refresh was sent by an owner that is gone; parked, for nobody knows its outcome. */
export async function parkOauthRefreshes(tx: Sql, connectionId: string | null): Promise<string[]> {
  const { rows } = await tx.query<{ id: string }>(
    `update svc.oauth_grants set status = 'uncertain', updated_at = clock_timestamp()
      where status = 'refreshing' and refresh_sent_at is not null and refresh_until < clock_timestamp()
        and ($1::uuid is null or connection_id = $1::uuid)
     returning connection_id as id`,
    [connectionId],
  );
  return rows.map(({ id }) => id);
}

/** Ends a grant of this generation without a refresh: its token is over and cannot be replaced. */
export async function endOauthGrant(tx: Sql, connectionId: string, generation: number): Promise<boolean> {
  const { rows } = await tx.query<{ before: string | null }>(
    `with held as (select connection_id, token_id from svc.oauth_grants
        where connection_id = $1::uuid and generation = $2::int and status = 'ready' for update)
     update svc.oauth_grants g set status = 'ended', token_id = null, updated_at = clock_timestamp()
       from held where g.connection_id = held.connection_id returning held.token_id as before`,
    [connectionId, generation],
  );
  const [row] = rows;
  if (row === undefined) return false;
  if (row.before !== null) await tx.query('delete from svc.oauth_tokens where id = $1::uuid', [row.before]);
  return true;
}

/** Notes what a server wants beyond the scopes of a generation. False where another generation is there. */
export async function wantOauthScopes(
  tx: Sql,
  connectionId: string,
  generation: number,
  scopes: readonly string[],
): Promise<boolean> {
  const { rowCount } = await tx.query(
    `update svc.oauth_grants set wanted_scopes = $3::text[], updated_at = clock_timestamp()
      where connection_id = $1::uuid and generation = $2::int and status in ('ready', 'refreshing')`,
    [connectionId, generation, scopes],
  );
  return rowCount === 1;
}

/** Destroys every token of a connection: of its grant and of its attempts. */
export async function destroyOauthTokens(tx: Sql, connectionId: string): Promise<void> {
  await tx.query(
    `delete from svc.oauth_tokens where id in (
       select token_id from svc.oauth_grants where connection_id = $1::uuid
       union all select token_id from svc.oauth_attempts where connection_id = $1::uuid)`,
    [connectionId],
  );
}
