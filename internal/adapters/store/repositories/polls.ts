// When each repository is looked at next, and whether somebody wants that now. The table is unlogged and its rows are made
// on demand, so that polling costs no write-ahead log and loses nothing that matters in a crash: a repository without a
// row is looked at soon. What must not be forgotten is elsewhere: a person's run in svc.reconciles, a back-off in
// svc.repository_states. Every time is the database's own.

import { syncParked } from '../operations/in-hand.ts';
import type { Sql } from '../store.ts';
import type { ReconcileReason } from './reconciles.ts';
import { fenceOf } from './settings.ts';
import type { JsonObject } from '../../../domain/json.ts';

/** What a sync may be asked for by. */
export type WishReason = Exclude<ReconcileReason, 'apply'>;

/** Says that a repository is wanted, with a `Wish` as JSON, or '' where there are many. Wakes; the rows are the truth. */
export const wishChannel = 'svc_sync';

export interface Wish {
  readonly repositoryId: string;
  readonly reason: WishReason;
  /** The commit that somebody spoke of. */
  readonly hint?: string | undefined;
}

export interface DueRepository {
  readonly id: string;
  readonly reason: WishReason;
  /** Somebody asked for it; else its turn came. */
  readonly isAsked: boolean;
  readonly hint: string | null;
  /** The fence of its settings. */
  readonly fence: number;
  readonly projectId: string;
  /** Of its server; null for what lies on this machine. */
  readonly host: string | null;
  /** Repositories of its project that could not read that server, one after the other, where that has paused it; null: nothing did. */
  readonly hostFailures: number | null;
  /** For how many milliseconds more it is paused. */
  readonly hostPausedMs: number;
}

/** SQL of whether a repository is looked at by itself: one that is suspended is not, nor one of an archived project. */
export const isLookedAt = (id: string): string => `exists (select from svc.repositories x
  join svc.projects o on o.id = x.project_id and o.archived_at is null where x.id = ${id} and not x.suspended)`;

/** Repositories a second that are looked at when all of them are due at once. */
const catchUpPerSecond = 100;

/**
 * Makes the rows of repositories that have none: due within their interval, one after the other, and not before the end
 * of a back-off. One statement; writes nothing when all have one.
 */
export async function ensurePolls(sql: Sql): Promise<void> {
  await sql.query(
    `with missing as (
       select r.id, r.interval_seconds, s.retry_at, row_number() over (order by r.id) - 1 as place, count(*) over () as total
         from svc.repositories r left join svc.repository_states s on s.repository_id = r.id
        where not exists (select from svc.repository_polls p where p.repository_id = r.id))
     insert into svc.repository_polls (repository_id, next_at)
     select id, greatest(retry_at, now() + make_interval(secs => place * least(1.0 / $1::int, interval_seconds::float8 / total)))
       from missing
     on conflict do nothing`,
    [catchUpPerSecond],
  );
}

/**
 * Spreads what became due while nobody polled over its interval, at most so many a second; with `all`, everything that is
 * not backed off is looked at in that order, due or not.
 */
export async function staggerPolls(sql: Sql, all: boolean): Promise<void> {
  await sql.query(
    `with due as (
       select p.repository_id, r.interval_seconds, row_number() over (order by p.next_at, p.repository_id) - 1 as place,
              count(*) over () as total
         from svc.repository_polls p join svc.repositories r on r.id = p.repository_id
         left join svc.repository_states s on s.repository_id = p.repository_id
        where (p.next_at <= now() or $2::boolean) and (s.retry_at is null or s.retry_at <= now()) and p.wanted is null)
     update svc.repository_polls p
        set next_at = now() + make_interval(secs => due.place * least(1.0 / $1::int, due.interval_seconds::float8 / due.total))
       from due where p.repository_id = due.repository_id`,
    [catchUpPerSecond, all],
  );
}

/**
 * Goes by the clock as it is: what is due later than it can be by that was put off while the clock was ahead. A back-off is kept,
 * as long as one may be. Answers with how many repositories there were.
 */
export async function bringPollsForward(sql: Sql, resyncSeconds: number): Promise<number> {
  const { rowCount } = await sql.query(
    `with ahead as (
       select p.repository_id,
              p.next_at > now() + make_interval(secs => r.interval_seconds * 1.05 + 1)
                and not coalesce(s.retry_at between now() and now() + interval '1 hour', false) as is_late
         from svc.repository_polls p join svc.repositories r on r.id = p.repository_id
         left join svc.repository_states s on s.repository_id = p.repository_id
     )
     update svc.repository_polls p set next_at = case when ahead.is_late then now() else p.next_at end,
            resync_at = least(p.resync_at, now() + make_interval(secs => $1::float8))
       from ahead where p.repository_id = ahead.repository_id
        and (ahead.is_late or p.resync_at > now() + make_interval(secs => $1::float8))`,
    [resyncSeconds],
  );
  await sql.query(`delete from svc.server_pauses where retry_at > now() + interval '1 hour'`);
  return rowCount;
}

export interface Claim {
  readonly daemonId: string;
  readonly limit: number;
  readonly resyncSeconds: number;
  /** 0 to 1: which share of a tenth of the interval is added to which repository's next time. */
  readonly spread: number;
  /** Servers for which enough waits here, of all projects or of one (`serverKey`): a poll of theirs stays for another daemon, or for later. */
  readonly full: readonly string[];
  /** Projects for which enough waits here: as with those servers. */
  readonly crowded: readonly string[];
  /** Repositories that this daemon has done with since its last claim. */
  readonly done: readonly string[];
  /** Those of them whose sync broke off, or could not read: one that was to compare anew still is. */
  readonly broken: readonly string[];
}

/**
 * Claims repositories that are wanted or due, at most `limit`, what is wanted first, and moves each to its next time: its
 * interval from now, and a share of a tenth of it that the id's hash decides, so that thousands made at once drift apart.
 * A repository is one daemon's alone until that gives it back (`done`). Suspended ones wait for a wish, and a server that
 * is paused for a project for one of that project's repositories to be wanted. Invariant: one that is claimed to be compared anew has `resync_at` of
 * `-infinity` until that is done, so that whoever gets it from a daemon that is gone compares it.
 */
export async function claimDue(sql: Sql, claim: Claim): Promise<DueRepository[]> {
  const { daemonId, limit, resyncSeconds, spread, full, done, broken, crowded } = claim;
  const next = 'now() + make_interval(secs => $3::float8)';
  const { rows } = await sql.query<DueRepository>(
    `with due as (
       select p.repository_id, r.project_id, coalesce(p.wanted, case when p.resync_at <= now() and (p.claimed_by is null
                or p.resync_at > '-infinity' or p.repository_id = any($7::uuid[])) then 'resync' else 'poll' end) as reason,
              p.wanted, p.hint, r.interval_seconds, ${fenceOf} as fence,
              split_part(r.url_key, '/', 1) as host, h.failures,
              greatest(extract(epoch from h.retry_at - now()) * 1000, 0)::float8 as left_ms
         from svc.repository_polls p join svc.repositories r on r.id = p.repository_id
         join svc.projects o on o.id = r.project_id and o.archived_at is null
         left join svc.server_pauses h on h.project_id = r.project_id and h.host = split_part(r.url_key, '/', 1)
        where p.next_at <= now() and (p.claimed_by is null or p.claimed_by = $1::uuid) and not ${syncParked('r.id')}
          and (p.wanted is not null or (not r.suspended and r.project_id <> all($8::uuid[]) and (r.url_key is null or (
            split_part(r.url_key, '/', 1) <> all($5::text[])
            and split_part(r.url_key, '/', 1) || ' ' || r.project_id <> all($5::text[]) and (h.retry_at is null or h.retry_at <= now())))))
        order by p.wanted is null, p.next_at limit $2::int for update of p skip locked),
     given as (
       update svc.repository_polls p set claimed_by = null,
              resync_at = case when p.resync_at = '-infinity' and p.repository_id <> all($7::uuid[]) then ${next} else p.resync_at end
        where p.repository_id = any($6::uuid[]) and p.claimed_by = $1::uuid
          and not exists (select from due where due.repository_id = p.repository_id))
     update svc.repository_polls p
        set next_at = now() + make_interval(secs => due.interval_seconds
              * (0.95 + 0.1 * ((((hashtextextended(p.repository_id::text, 0) & 1023) / 1024.0) + $4::float8)::numeric % 1)::float8)),
            resync_at = case when due.reason = 'resync' then '-infinity'
              when p.resync_at = '-infinity' and p.repository_id = any($6::uuid[]) then ${next} else p.resync_at end,
            wanted = null, hint = null, claimed_by = $1::uuid
       from due where p.repository_id = due.repository_id
     returning p.repository_id as id, due.project_id as "projectId", due.reason,
       due.wanted is not null as "isAsked", due.hint, due.fence, due.host, due.failures as "hostFailures",
       coalesce(due.left_ms, 0) as "hostPausedMs"`,
    [daemonId, limit, resyncSeconds, spread, full, done, broken, crowded],
    'claim-due',
  );
  return rows;
}

/** Gives back what a daemon claimed. */
export async function releaseClaims(sql: Sql, daemonId: string, repositoryIds: readonly string[]): Promise<void> {
  await sql.query(
    'update svc.repository_polls set claimed_by = null where repository_id = any($1::uuid[]) and claimed_by = $2::uuid',
    [repositoryIds, daemonId],
  );
}

/** Makes what daemons that are gone had claimed due at once. */
export async function freeLostClaims(sql: Sql, silentSeconds: number): Promise<number> {
  const { rowCount } = await sql.query(
    `update svc.repository_polls p set claimed_by = null, next_at = least(p.next_at, now())
      where p.claimed_by is not null and not exists (select from svc.daemons d
        where d.id = p.claimed_by and d.beat_at > now() - make_interval(secs => $1::int))`,
    [silentSeconds],
  );
  return rowCount;
}

/**
 * SQL of whether the wish that waits (`p`) asks for more than another (`excluded`), and stays: who asked by hand, then a
 * resync, then all that do no more than look (`following` in flows/sync/wishes.ts says the same of what a daemon has in hand).
 */
export const asksForMore = `(p.wanted = 'manual' or (p.wanted = 'resync' and excluded.wanted is distinct from 'manual'))`;

/**
 * Asks for a sync inside the caller's transaction. Asked again while it waits, it is one sync, and it keeps its place: a
 * busy repository must not be put off for ever. Who asked for more is not forgotten over who asks afterwards, nor the look
 * over a run by hand, which may read nothing: `hint` is of that then, '' where it names no commit. Of a repository that is
 * removed meanwhile nothing is asked.
 */
export async function wishSync(sql: Sql, wish: Wish): Promise<void> {
  await sql.query(
    `with wished as (
       insert into svc.repository_polls as p (repository_id, next_at, wanted, hint)
       select id, now(), $2::text, $3::text from svc.repositories where id = $1::uuid for key share
       on conflict (repository_id) do update set next_at = least(p.next_at, now()),
         hint = case when p.wanted is null or 'manual' not in (p.wanted, excluded.wanted) then excluded.hint
           when p.wanted = excluded.wanted then p.hint else coalesce(excluded.hint, p.hint, '') end,
         wanted = case when ${asksForMore} then p.wanted else excluded.wanted end
       returning 1)
     select svc.tell('${wishChannel}', $4::text) from wished`,
    [wish.repositoryId, wish.reason, wish.hint ?? null, JSON.stringify(wish)],
    'wish-sync',
  );
}

/**
 * Asks again for the runs that have waited for a daemon for so long, and of which nobody has heard: where the wish still
 * stands, or a daemon has the repository in hand, it will come to them, and a second wish would end what the first began.
 */
export async function wishForgotten(sql: Sql, forSeconds: number): Promise<void> {
  await sql.query(
    `with waiting as (
       select distinct repository_id as id from svc.reconciles
        where status = 'running' and daemon_id is null and repository_id is not null
          and started_at < now() - make_interval(secs => $1::int)
     ), wished as (
       insert into svc.repository_polls as p (repository_id, next_at, wanted) select id, now(), 'manual' from waiting
       on conflict (repository_id) do update set next_at = now(), wanted = 'manual'
         where p.claimed_by is null and p.wanted is distinct from 'manual'
       returning 1)
     select svc.tell('${wishChannel}', '') from wished`,
    [forSeconds],
  );
}

/**
 * Sets when a repository is looked at next, so many milliseconds from now; whoever wants it sooner says so. One that is
 * removed meanwhile is looked at no more.
 */
export async function pollIn(sql: Sql, repositoryId: string, afterMs: number): Promise<void> {
  await sql.query(
    `insert into svc.repository_polls as p (repository_id, next_at)
     select id, now() + make_interval(secs => $2::float8 / 1000) from svc.repositories
      where id = $1::uuid for key share
     on conflict (repository_id) do update set next_at = excluded.next_at where p.wanted is null`,
    [repositoryId, afterMs],
  );
}

/**
 * Leaves a source that could not be read alone for so long; answers nothing, and survives a crash of the database. Null:
 * it was read again.
 */
export async function backOff(sql: Sql, repositoryId: string, afterMs: number | null): Promise<void> {
  await sql.query(
    `update svc.repository_states set retry_at = now() + make_interval(secs => $2::float8 / 1000)
      where repository_id = $1::uuid`,
    [repositoryId, afterMs],
  );
  if (afterMs !== null) await pollIn(sql, repositoryId, afterMs);
}

/** A server as one project has it. */
export interface ProjectServer {
  readonly projectId: string;
  readonly host: string;
}

/** A server of one project as a word, as `claimDue` makes it too; no host has a space. */
export const serverKey = ({ projectId, host }: ProjectServer): string => `${host} ${projectId}`;

/**
 * Pauses a server for a project after a failure of one of its repositories; `failures` are those in a row, as counted here so far.
 * Of a project that is gone nothing is paused.
 */
export async function pauseServer(
  sql: Sql,
  { projectId, host }: ProjectServer,
  failures: number,
  afterMs: number,
): Promise<void> {
  await sql.query(
    `insert into svc.server_pauses as h (project_id, host, failures, retry_at)
     select id, $2::text, $3::int, now() + make_interval(secs => $4::float8 / 1000)
       from svc.projects where id = $1::uuid for key share
     on conflict (project_id, host) do update set failures = excluded.failures, retry_at = greatest(h.retry_at, excluded.retry_at)`,
    [projectId, host, failures, afterMs],
  );
}

/** Forgets servers that nobody has tried since their pause ended a day ago, as where their last repository was removed. */
export async function dropOldPauses(sql: Sql): Promise<void> {
  await sql.query(`delete from svc.server_pauses where retry_at < now() - interval '1 day'`);
}

/** Ends the pause of a server that was reached. */
export async function resumeServer(sql: Sql, { projectId, host }: ProjectServer): Promise<void> {
  await sql.query('delete from svc.server_pauses where project_id = $1::uuid and host = $2::text', [projectId, host]);
}

/** Repositories that are due and unclaimed: the length of the queue. */
export async function pollsDue(sql: Sql): Promise<number> {
  const { rows } = await sql.query<{ count: number }>(
    'select count(*)::int as count from svc.repository_polls where next_at <= now()',
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

/** Running runs of one daemon. */
export async function ownRuns(sql: Sql, daemonId: string): Promise<OrphanedRun[]> {
  const { rows } = await sql.query<OrphanedRun>(
    `select id, repository_id as "repositoryId", request, reason from svc.reconciles
      where status = 'running' and daemon_id = $1::uuid for update skip locked`,
    [daemonId],
  );
  return rows;
}

export interface OrphanedRun {
  readonly id: string;
  readonly repositoryId: string | null;
  readonly request: JsonObject;
  readonly reason: ReconcileReason;
}

/** Running runs whose daemon is gone or has been silent for so long, by the clock of the database. */
export async function orphanedRuns(sql: Sql, silentSeconds: number): Promise<OrphanedRun[]> {
  const { rows } = await sql.query<OrphanedRun>(
    `select r.id, r.repository_id as "repositoryId", r.request, r.reason from svc.reconciles r
      where r.status = 'running' and r.daemon_id is not null
        and not exists (select from svc.daemons d where d.id = r.daemon_id and d.beat_at > now() - make_interval(secs => $1::int))
      for update of r skip locked`,
    [silentSeconds],
  );
  return rows;
}
