// When each repository is looked at next. The table is unlogged and its rows are made on demand, so that polling costs
// no write-ahead log and loses nothing that matters in a crash: a repository without a row is due at once.

import type { Sql } from '../store.ts';

export interface DueRepository {
  readonly id: string;
  readonly intervalSeconds: number;
  /** True when the periodic full comparison is due as well. */
  readonly resync: boolean;
}

/** Makes the rows of repositories that have none. One statement; writes nothing when all have one. */
export async function ensurePolls(sql: Sql): Promise<void> {
  await sql.query(
    `insert into svc.repository_polls (repository_id)
     select r.id from svc.repositories r
      where not exists (select from svc.repository_polls p where p.repository_id = r.id)
     on conflict do nothing`,
  );
}

/**
 * Claims repositories that are due, at most `limit`, and moves each to its next time: now, its interval, and a share of
 * a tenth of it that `spread` (0 to 1) of the id's hash decides, so that thousands made at once drift apart. A claim is
 * one daemon's alone. Suspended ones are passed over.
 */
export async function claimDue(
  sql: Sql,
  input: { readonly now: Date; readonly limit: number; readonly resyncSeconds: number; readonly spread: number },
): Promise<DueRepository[]> {
  const { rows } = await sql.query<DueRepository>(
    `with due as (
       select p.repository_id, p.resync_at <= $1::timestamptz as resync, r.interval_seconds
         from svc.repository_polls p join svc.repositories r on r.id = p.repository_id
         join svc.projects o on o.id = r.project_id and o.archived_at is null
        where p.next_at <= $1::timestamptz and not r.suspended
        order by p.next_at limit $2::int for update of p skip locked)
     update svc.repository_polls p
        set next_at = $1::timestamptz + make_interval(secs => due.interval_seconds
              * (0.95 + 0.1 * ((((hashtextextended(p.repository_id::text, 0) & 1023) / 1024.0) + $4::float8)::numeric % 1)::float8)),
            resync_at = case when due.resync then $1::timestamptz + make_interval(secs => $3::float8) else p.resync_at end
       from due where p.repository_id = due.repository_id
     returning p.repository_id as id, due.interval_seconds as "intervalSeconds", due.resync`,
    [input.now, input.limit, input.resyncSeconds, input.spread],
  );
  return rows;
}

/** Sets when a repository is looked at next, also before or after what its interval would say. */
export async function pollAt(sql: Sql, repositoryId: string, at: Date): Promise<void> {
  await sql.query(
    `insert into svc.repository_polls (repository_id, next_at) values ($1::uuid, $2::timestamptz)
     on conflict (repository_id) do update set next_at = excluded.next_at`,
    [repositoryId, at],
  );
}

/** Repositories that are due and unclaimed: the length of the queue. */
export async function pollsDue(sql: Sql, now: Date): Promise<number> {
  const { rows } = await sql.query<{ count: number }>(
    'select count(*)::int as count from svc.repository_polls where next_at <= $1::timestamptz',
    [now],
  );
  return rows[0]?.count ?? 0;
}

/** When a repository is looked at next. */
export async function nextPolls(sql: Sql, repositoryIds: readonly string[]): Promise<ReadonlyMap<string, Date>> {
  const { rows } = await sql.query<{ id: string; at: Date }>(
    'select repository_id as id, next_at as at from svc.repository_polls where repository_id = any($1::uuid[])',
    [repositoryIds],
  );
  return new Map(rows.map((row) => [row.id, row.at]));
}
