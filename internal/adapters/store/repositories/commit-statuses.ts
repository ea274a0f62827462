// svc.commit_statuses: commits whose status the code host is to show. Invariants: of one commit of a repository one daemon
// tells at a time, and only it writes what was told; a wish that comes meanwhile raises the version and is told next.

import type { OfProject } from './pull-plans.ts';
import { type OutboundClaim, ofOtherProjects } from '../operations/in-hand.ts';
import type { Sql } from '../store.ts';

export interface CommitStatusRow {
  readonly repositoryId: string;
  readonly commit: string;
  readonly version: number;
  readonly attempts: number;
  /** Of the run that the host shows; null: it shows nothing yet. */
  readonly runId: string | null;
  readonly state: string | null;
  readonly description: string | null;
}

/** Wishes that the host show what has become of a commit by then. */
export async function wishStatus(sql: Sql, repositoryId: string, commit: string): Promise<void> {
  await sql.query(
    `insert into svc.commit_statuses as s (repository_id, commit, due_at) values ($1::uuid, $2::text, now())
     on conflict (repository_id, commit) do update
       set version = s.version + 1, due_at = now(), attempts = 0, wished_at = now()`,
    [repositoryId, commit],
  );
}

/** Takes those that are due and that no living daemon is at, of projects other than `busy`. */
export async function claimStatuses(sql: Sql, by: OutboundClaim): Promise<OfProject<CommitStatusRow>[]> {
  const { rows } = await sql.query<OfProject<CommitStatusRow>>(
    `with due as (
       select d.repository_id, d.commit from svc.commit_statuses d
        where d.due_at <= now() and (d.claimed_until is null or d.claimed_until < now()
          or not exists (select from svc.daemons x where x.id = d.claimed_by))
          and ${ofOtherProjects('d.repository_id', '$4')}
        order by d.due_at limit $3::int for update skip locked)
     update svc.commit_statuses s set claimed_by = $1::uuid, claimed_until = now() + make_interval(secs => $2::int)
       from due where s.repository_id = due.repository_id and s.commit = due.commit
     returning s.repository_id as "repositoryId", s.commit, s.version::int as version, s.attempts, s.run_id as "runId",
       s.state, s.description,
       (select r.project_id from svc.repositories r where r.id = s.repository_id) as "projectId"`,
    [by.daemonId, by.leaseSeconds, by.limit, by.busy],
    'claim-statuses',
  );
  return rows;
}

/** What the host shows now. False where the telling is not this daemon's any more. */
export async function statusTold(
  sql: Sql,
  of: Pick<CommitStatusRow, 'repositoryId' | 'commit'>,
  told: { readonly runId: string; readonly state: string; readonly description: string },
  by: { readonly daemonId: string; readonly leaseSeconds: number },
): Promise<boolean> {
  const { rowCount } = await sql.query(
    `update svc.commit_statuses set run_id = $4::uuid, state = $5::text, description = $6::text,
       claimed_until = now() + make_interval(secs => $7::int)
      where repository_id = $1::uuid and commit = $2::text and claimed_by = $3::uuid`,
    [of.repositoryId, of.commit, by.daemonId, told.runId, told.state, told.description, by.leaseSeconds],
  );
  return rowCount === 1;
}

/** Ends a telling. `afterMs`: it is tried again then; null: it is done, or left at that. */
export async function releaseStatus(
  sql: Sql,
  of: Pick<CommitStatusRow, 'repositoryId' | 'commit' | 'version'>,
  by: { readonly daemonId: string; readonly afterMs: number | null },
): Promise<void> {
  await sql.query(
    `update svc.commit_statuses set claimed_by = null, claimed_until = null,
       attempts = case when version = $4::bigint and $5::float8 is not null then attempts + 1 else 0 end,
       due_at = case when version = $4::bigint then now() + make_interval(secs => $5::float8 / 1000) else now() end
      where repository_id = $1::uuid and commit = $2::text and claimed_by = $3::uuid`,
    [of.repositoryId, of.commit, by.daemonId, of.version, by.afterMs],
  );
}

/** Forgets what was told long ago: the host keeps showing it. */
export async function forgetStatuses(sql: Sql, before: Date, limit: number): Promise<number> {
  const { rowCount } = await sql.query(
    `delete from svc.commit_statuses where (repository_id, commit) in (
       select repository_id, commit from svc.commit_statuses
        where due_at is null and wished_at < $1::timestamptz limit $2::int)`,
    [before, limit],
  );
  return rowCount;
}
