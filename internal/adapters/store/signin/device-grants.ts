// svc.device_grants: each step is one conditional update, so that of two who decide or poll at once one does.

import type { Sql } from '../store.ts';

/** Grants that are not over: of the installation, and of those that one address has begun. Anybody may begin one. */
const waitingMax = { all: 2_000, ofAddress: 500 } as const;

/** A new grant, by the hashes of its two codes. False where as many as may be are not over yet. */
export async function insertGrant(
  tx: Sql,
  grant: {
    readonly deviceCodeSha256: Buffer;
    readonly userCodeSha256: Buffer;
    readonly host: string;
    readonly address: string;
    readonly intervalSeconds: number;
    readonly now: Date;
    readonly expiresAt: Date;
  },
): Promise<boolean> {
  const { rowCount } = await tx.query(
    `insert into svc.device_grants (device_code_sha256, user_code_sha256, host, address, interval_seconds, created_at, expires_at)
     select $1::bytea, $2::bytea, $3::text, $4::text, $5::int, $6::timestamptz, $7::timestamptz
      where (select count(*) < $8::int and count(*) filter (where w.address = $4::text) < $9::int from (
               select address from svc.device_grants where expires_at > $6::timestamptz limit $8::int) w)`,
    [
      grant.deviceCodeSha256,
      grant.userCodeSha256,
      grant.host,
      grant.address,
      grant.intervalSeconds,
      grant.now,
      grant.expiresAt,
      waitingMax.all,
      waitingMax.ofAddress,
    ],
  );
  return rowCount > 0;
}

export interface PendingGrant {
  readonly id: string;
  readonly host: string;
  readonly address: string;
  readonly expiresAt: Date;
}

/** What waits behind a code that a person typed. */
export async function pendingGrant(sql: Sql, userCodeSha256: Buffer, now: Date): Promise<PendingGrant | undefined> {
  const { rows } = await sql.query<PendingGrant>(
    `select id, host, address, expires_at as "expiresAt" from svc.device_grants
     where user_code_sha256 = $1::bytea and state = 'pending' and expires_at > $2::timestamptz`,
    [userCodeSha256, now],
  );
  return rows[0];
}

/** False where somebody has decided before. */
export async function decideGrant(
  tx: Sql,
  id: string,
  decided: {
    readonly state: 'allowed' | 'denied';
    readonly principalId: string;
    readonly tokenId: string | null;
    readonly tokenOrgId: string | null;
    readonly tokenExpiresAt: Date | null;
    readonly now: Date;
  },
): Promise<boolean> {
  const { rowCount } = await tx.query(
    `update svc.device_grants set state = $2::text, principal_id = $3::uuid, token_id = $4::uuid, token_org_id = $5::uuid,
       token_expires_at = $6::timestamptz
     where id = $1::uuid and state = 'pending' and expires_at > $7::timestamptz`,
    [id, decided.state, decided.principalId, decided.tokenId, decided.tokenOrgId, decided.tokenExpiresAt, decided.now],
  );
  return rowCount > 0;
}

export interface PolledGrant {
  readonly id: string;
  readonly state: 'pending' | 'allowed' | 'denied' | 'used';
  readonly host: string;
  readonly principalId: string | null;
  readonly principalName: string | null;
  /** Its person is disabled, or what the person let it in with is not valid any more. */
  readonly ended: boolean;
  readonly tokenOrgId: string | null;
  readonly tokenExpiresAt: Date | null;
  readonly expiresAt: Date;
  /** Asked again before its interval was over; the interval is now 5 seconds longer. */
  readonly tooSoon: boolean;
}

/** One poll: notes it, and locks the row until the transaction ends. Undefined where there is no such code. */
export async function pollGrant(tx: Sql, deviceCodeSha256: Buffer, now: Date): Promise<PolledGrant | undefined> {
  const { rows } = await tx.query<PolledGrant>(
    `with before as (select id, polled_at, interval_seconds from svc.device_grants
         where device_code_sha256 = $1::bytea for update),
       judged as (select id, coalesce(polled_at + interval_seconds * interval '1 second' > $2::timestamptz, false) as soon from before),
       noted as (update svc.device_grants g set polled_at = $2::timestamptz,
           interval_seconds = g.interval_seconds + case when j.soon then 5 else 0 end
         from judged j where g.id = j.id returning g.*, j.soon)
     select n.id, n.state, n.host, n.principal_id as "principalId", p.name as "principalName",
       coalesce(p.disabled_at is not null or t.revoked_at is not null or n.token_expires_at <= $2::timestamptz, false) as ended,
       n.token_org_id as "tokenOrgId", n.token_expires_at as "tokenExpiresAt",
       n.expires_at as "expiresAt", n.soon as "tooSoon"
     from noted n left join svc.principals p on p.id = n.principal_id left join svc.api_tokens t on t.id = n.token_id`,
    [deviceCodeSha256, now],
  );
  return rows[0];
}

/** True for the one call that turns an allowed grant into a token. */
export async function useGrant(tx: Sql, id: string): Promise<boolean> {
  const { rowCount } = await tx.query(
    `update svc.device_grants set state = 'used' where id = $1::uuid and state = 'allowed'`,
    [id],
  );
  return rowCount > 0;
}
