// svc.daemons, and what we read of the job runner's own tables. A daemon that is silent for 15 s is dead, and so is one that
// is silent for 6 s and has no connection left: its row goes, and the jobs that its workers held run again. A job that has
// used up its attempts stays where it is, with its reason, until a person acts.

import type { ProcessIdentity } from '../../../base/process-identity.ts';
import type { Sql } from '../store.ts';

export interface DaemonRow {
  readonly id: string;
  readonly roles: readonly string[];
  readonly host: string;
  readonly pid: number;
  readonly workerIds: readonly string[];
  /** Absent where the kernel does not tell it, and of daemons of an earlier release. */
  readonly process?: ProcessIdentity | null | undefined;
  /** Where other daemons reach it; of one that runs sessions. */
  readonly address?: string | null | undefined;
}

const deadAfterSeconds = 15;
const cutOffAfterSeconds = 6;

/** What the listening connection of a daemon calls itself: it ends with its process, also when that is killed. */
export const connectionName = (daemonId: string): string => `svcd daemon ${daemonId}`;

/** Writes this daemon's row; also after somebody took it for dead. */
export async function beat(sql: Sql, daemon: DaemonRow): Promise<void> {
  await sql.query(
    `insert into svc.daemons (id, roles, host, pid, worker_ids, boot_id, pid_namespace, start_ticks, address)
     values ($1::uuid, $2::text[], $3::text, $4::int, $5::text[], $6::text, $7::text, $8::text, $9::text)
     on conflict (id) do update set beat_at = now(), worker_ids = excluded.worker_ids`,
    [
      daemon.id,
      daemon.roles,
      daemon.host,
      daemon.pid,
      daemon.workerIds,
      daemon.process?.bootId ?? null,
      daemon.process?.pidNamespace ?? null,
      daemon.process?.startTicks ?? null,
      daemon.address ?? null,
    ],
  );
}

/** Removes the row of a daemon that stops in order. */
export async function removeDaemon(sql: Sql, id: string): Promise<void> {
  await sql.query(
    `with put_down as (delete from svc.in_hand where daemon_id = $1::uuid)
     delete from svc.daemons where id = $1::uuid`,
    [id],
  );
}

/** The daemons that live, or have not been found dead yet. */
export async function listDaemons(sql: Sql): Promise<(DaemonRow & { startedAt: Date; beatAt: Date })[]> {
  const { rows } = await sql.query<DaemonRow & { startedAt: Date; beatAt: Date }>(
    `select id, roles, host, pid, worker_ids as "workerIds", started_at as "startedAt", beat_at as "beatAt",
       case when start_ticks is not null then json_build_object('bootId', boot_id, 'pidNamespace', pid_namespace,
         'pid', pid, 'startTicks', start_ticks) end as process
     from svc.daemons order by started_at, id`,
  );
  return rows;
}

/** How many other daemons with this role have shown themselves within so many seconds. */
export async function otherDaemons(sql: Sql, self: string, role: string, withinSeconds: number): Promise<number> {
  const { rows } = await sql.query<{ count: number }>(
    `select count(*)::int as count from svc.daemons
      where id <> $1::uuid and $2::text = any(roles) and beat_at > now() - make_interval(secs => $3::int)`,
    [self, role, withinSeconds],
  );
  return rows[0]?.count ?? 0;
}

/**
 * Buries daemons that are silent, and those whose ids are given (known to be dead by other means), and hands back what
 * their workers held, together with what workers hold that no daemon knows. Answers with the buried ids. That another one
 * has no connection counts only where `self` sees its own by name: between them may be what renames connections.
 */
export async function removeDeadDaemons(sql: Sql, self: string, known: readonly string[] = []): Promise<string[]> {
  const { rows } = await sql.query<{ id: string; workerIds: string[] }>(
    `with connected as materialized (select application_name as name from pg_stat_activity where datname = current_database())
     delete from svc.daemons d where id = any($1::uuid[]) or beat_at < now() - make_interval(secs => $2::int)
       or (beat_at < now() - make_interval(secs => $3::int)
         and exists (select from connected where name = $4::text || $5::text)
         and not exists (select from connected where name = $4::text || d.id::text))
     returning id, worker_ids as "workerIds"`,
    [known, deadAfterSeconds, cutOffAfterSeconds, connectionName(''), self],
  );
  // A process that is gone runs no session. One that is merely silent may: its leases end by themselves; and so do those of
  // sessions that its next life can take over.
  await sql.query(
    `update svc.sessions s set lease_until = now() - interval '1 second'
      where leased_by = any($1::uuid[]) and lease_until > now()
        and not exists (select from svc.session_holds h where h.session_id = s.id and h.epoch = s.epoch)`,
    [known],
  );
  const workers = rows.flatMap((row) => row.workerIds);
  // A worker may hold a job for a moment before its daemon has written its name down: hence the age.
  const stray = await sql.query<{ worker: string }>(
    `select distinct j.locked_by as worker from graphile_worker._private_jobs j
     where j.locked_by is not null and j.locked_at < now() - make_interval(secs => $1::int)
       and not exists (select from svc.daemons d where j.locked_by = any(d.worker_ids))`,
    [deadAfterSeconds],
  );
  const dead = [...new Set([...workers, ...stray.rows.map((row) => row.worker)])];
  if (dead.length > 0) await sql.query('select graphile_worker.force_unlock_workers($1::text[])', [dead]);
  return rows.map((row) => row.id);
}

/** How many jobs of these tasks could run now, counted no further than `most`. */
export async function countDueJobs(sql: Sql, tasks: readonly string[], most: number): Promise<number> {
  const { rows } = await sql.query<{ count: number }>(
    `select count(*)::int as count from (
       select from graphile_worker._private_jobs j
        where j.is_available and j.run_at <= now() and j.task_id in (
          select t.id from graphile_worker._private_tasks t where t.identifier = any($1::text[])) limit $2::int) due`,
    [tasks, most],
    'due-jobs',
  );
  return rows[0]?.count ?? 0;
}

export interface ParkedJob {
  readonly id: string;
  readonly task: string;
  readonly attempts: number;
  readonly reason: string;
  readonly since: Date;
  /** The same in microseconds since 1970: several may be parked within one of a Date's. */
  readonly sinceMicros: number;
}

/** Jobs that will not run again by themselves, newest first, those behind `after`. */
export async function listParkedJobs(
  sql: Sql,
  { limit, after }: { readonly limit: number; readonly after?: readonly [sinceMicros: number, id: string] },
): Promise<ParkedJob[]> {
  const micros = '(extract(epoch from j.updated_at) * 1000000)::bigint';
  const { rows } = await sql.query<ParkedJob>(
    `select j.id::text as id, t.identifier as task, j.attempts::int as attempts,
       coalesce(j.last_error, 'its process died while it ran') as reason, j.updated_at as since,
       ${micros}::float8 as "sinceMicros"
     from graphile_worker._private_jobs j join graphile_worker._private_tasks t on t.id = j.task_id
     where j.attempts >= j.max_attempts and j.locked_at is null
       and ($2::bigint is null or (${micros}, j.id) < ($2::bigint, $3::bigint))
     order by j.updated_at desc, j.id desc limit $1::int`,
    [limit, after?.[0] ?? null, after?.[1] ?? null],
  );
  return rows;
}

/** Takes the remaining attempts away from a job that runs, so that its failure parks it. */
export async function exhaustJob(sql: Sql, id: string): Promise<void> {
  await sql.query(
    'update graphile_worker._private_jobs set max_attempts = greatest(attempts, 1) where id = $1::bigint',
    [id],
  );
}

/** Gives every parked job its attempts back; answers with how many there were of each task. */
export async function retryParkedJobs(sql: Sql): Promise<{ readonly task: string; readonly count: number }[]> {
  const { rows } = await sql.query<{ task: string; count: number }>(
    `with again as (
       update graphile_worker._private_jobs
          set attempts = 0, max_attempts = greatest(max_attempts, 100), run_at = now(), last_error = null
        where attempts >= max_attempts and locked_at is null returning task_id)
     select t.identifier as task, count(*)::int as count from again join graphile_worker._private_tasks t on t.id = task_id
      group by 1 order by 1`,
  );
  return rows;
}
