// svc.provider_limits: until when a provider wants to be left alone, and whose turn it is. Kept in the database, because
// the provider counts what all daemons ask together. Invariant: a place in the row of a spaced resource is given once.

import type { Sql } from '../store.ts';

/** Milliseconds until a resource may be asked again, 0: now; and whether it was refused since it last went through. */
export async function limitedForMs(
  sql: Sql,
  connectionId: string,
  resources: readonly string[],
): Promise<{ readonly ms: number; readonly isCounted: boolean }> {
  const { rows } = await sql.query<{ ms: number; isCounted: boolean }>(
    `select coalesce(greatest(0, ceil(extract(epoch from max(blocked_until) - now()) * 1000)), 0)::float8 as ms,
            coalesce(bool_or(refusals > 0), false) as "isCounted"
       from svc.provider_limits where connection_id = $1::uuid and resource = any($2::text[])`,
    [connectionId, resources],
    'limited-for',
  );
  return rows[0] ?? { ms: 0, isCounted: false };
}

/**
 * Takes the next place of a resource whose calls go out `spacingMs` apart; answers with the milliseconds until it comes.
 * Undefined, with nothing taken, where that is later than `mostMs`.
 */
export async function takePlace(
  sql: Sql,
  of: {
    readonly connectionId: string;
    readonly resource: string;
    readonly spacingMs: number;
    readonly mostMs: number;
  },
): Promise<number | undefined> {
  const { rows } = await sql.query<{ ms: number }>(
    `insert into svc.provider_limits as l (connection_id, resource, next_at)
       values ($1::uuid, $2::text, clock_timestamp() + make_interval(secs => $3::float8 / 1000))
     on conflict (connection_id, resource) do update
       set next_at = greatest(l.next_at, clock_timestamp()) + make_interval(secs => $3::float8 / 1000)
       where coalesce(l.next_at, clock_timestamp()) < clock_timestamp() + make_interval(secs => $4::float8 / 1000)
     returning greatest(0, extract(epoch from l.next_at - clock_timestamp()) * 1000 - $3::float8)::float8 as ms`,
    [of.connectionId, of.resource, of.spacingMs, of.mostMs],
    'take-place',
  );
  return rows[0]?.ms;
}

/**
 * Blocks a resource. With `seconds` for so long; without, for a minute, doubled by every refusal in a row, an hour at
 * most. Answers with the seconds.
 */
export async function blockResource(
  sql: Sql,
  of: { readonly connectionId: string; readonly resource: string; readonly seconds: number | undefined },
): Promise<number> {
  const { rows } = await sql.query<{ seconds: number }>(
    `insert into svc.provider_limits as l (connection_id, resource, blocked_until, refusals)
       values ($1::uuid, $2::text, now() + make_interval(secs => coalesce($3::float8, 60)), 1)
     on conflict (connection_id, resource) do update
       set blocked_until = greatest(l.blocked_until,
             now() + make_interval(secs => coalesce($3::float8, least(3600, 60 * power(2, least(l.refusals, 6)))))),
           refusals = l.refusals + 1
     returning ceil(extract(epoch from blocked_until - now()))::int as seconds`,
    [of.connectionId, of.resource, of.seconds ?? null],
  );
  return rows[0]?.seconds ?? 60;
}

/** A call went through: the next refusal without a time begins at a minute again. */
export async function resetRefusals(sql: Sql, connectionId: string, resources: readonly string[]): Promise<void> {
  await sql.query(
    `update svc.provider_limits set refusals = 0
      where connection_id = $1::uuid and resource = any($2::text[]) and refusals > 0`,
    [connectionId, resources],
  );
}
