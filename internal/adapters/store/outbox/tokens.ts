// svc.installation_tokens: tokens of code hosts, shared by all daemons. Invariant: of one connection and scope, one daemon
// mints at a time, for as long as its claim lasts. A row is a cache: it does not keep a master key from being retired.

import type { Sql } from '../store.ts';

export interface TokenRow {
  readonly keyVersion: number;
  readonly sealed: Buffer;
  readonly mintedAt: Date;
}

/** The token of a scope that may still be used. */
export async function readToken(sql: Sql, connectionId: string, scope: string): Promise<TokenRow | undefined> {
  const { rows } = await sql.query<TokenRow>(
    `select key_version as "keyVersion", sealed, minted_at as "mintedAt" from svc.installation_tokens
      where connection_id = $1::uuid and scope = $2::text and usable_until > now()`,
    [connectionId, scope],
    'read-token',
  );
  return rows[0];
}

/**
 * The token of a scope, where its connection may be asked for these resources now and none of them was refused last. Both in
 * one statement: every call of a session asks them.
 */
export async function readReadyToken(
  sql: Sql,
  of: { readonly connectionId: string; readonly scope: string; readonly resources: readonly string[] },
): Promise<TokenRow | undefined> {
  const { rows } = await sql.query<TokenRow>(
    `select key_version as "keyVersion", sealed, minted_at as "mintedAt" from svc.installation_tokens
      where connection_id = $1::uuid and scope = $2::text and usable_until > now()
        and not exists (select from svc.provider_limits where connection_id = $1::uuid and resource = any($3::text[])
          and (blocked_until > now() or refusals > 0))`,
    [of.connectionId, of.scope, of.resources],
    'ready-token',
  );
  return rows[0];
}

/** True for the one who may mint: nobody else does, and no usable one is there (but that which was minted at `stale`). */
export async function claimMint(
  sql: Sql,
  of: {
    readonly connectionId: string;
    readonly scope: string;
    readonly seconds: number;
    readonly stale: Date | undefined;
  },
): Promise<boolean> {
  const { rowCount } = await sql.query(
    `insert into svc.installation_tokens as t (connection_id, scope, minting_until)
       values ($1::uuid, $2::text, now() + make_interval(secs => $3::int))
     on conflict (connection_id, scope) do update set minting_until = excluded.minting_until
       where (t.minting_until is null or t.minting_until < now())
         and (t.usable_until is null or t.usable_until <= now() or t.minted_at = $4::timestamptz)`,
    [of.connectionId, of.scope, of.seconds, of.stale ?? null],
  );
  return rowCount === 1;
}

/** Keeps a token that this daemon has minted, sealed, for all daemons. */
export async function keepToken(
  sql: Sql,
  of: TokenRow & { readonly connectionId: string; readonly scope: string; readonly usableUntil: Date },
): Promise<void> {
  await sql.query(
    `update svc.installation_tokens set minting_until = null, key_version = $3::int, sealed = $4::bytea,
         minted_at = $5::timestamptz, usable_until = $6::timestamptz
      where connection_id = $1::uuid and scope = $2::text`,
    [of.connectionId, of.scope, of.keyVersion, of.sealed, of.mintedAt, of.usableUntil],
  );
}

/** Minting failed: the next one may try at once. */
export async function yieldMint(sql: Sql, connectionId: string, scope: string): Promise<void> {
  await sql.query(
    'update svc.installation_tokens set minting_until = null where connection_id = $1::uuid and scope = $2::text',
    [connectionId, scope],
  );
}

/** Forgets a token that the provider did not take; one that was minted since stays. */
export async function dropToken(sql: Sql, connectionId: string, scope: string, mintedAt: Date): Promise<void> {
  await sql.query(
    `delete from svc.installation_tokens
      where connection_id = $1::uuid and scope = $2::text and minted_at = $3::timestamptz`,
    [connectionId, scope, mintedAt],
  );
}

/** Forgets the tokens of a connection: its installation or its credentials have changed. */
export async function dropTokensOf(sql: Sql, connectionId: string): Promise<void> {
  await sql.query('delete from svc.installation_tokens where connection_id = $1::uuid', [connectionId]);
}
