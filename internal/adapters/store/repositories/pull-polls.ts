// svc.pull_polls: when the open pull requests of a repository are looked for. Invariant: of one repository one daemon looks
// at a time (claimed_by, claimed_until).

import type { OfProject } from './pull-plans.ts';
import type { OutboundClaim } from '../operations/in-hand.ts';
import type { Sql } from '../store.ts';

const followed = `r.auth ->> 'kind' = 'connection' and r.url is not null and not r.suspended`;

/** Makes the rows that are missing. */
export async function ensurePullPolls(sql: Sql): Promise<void> {
  await sql.query(
    `insert into svc.pull_polls (repository_id)
     select r.id from svc.repositories r
      where ${followed} and not exists (select from svc.pull_polls p where p.repository_id = r.id)
     on conflict do nothing`,
  );
}

export interface PullPoll {
  readonly repositoryId: string;
  /** What was applied when it was last looked, and what is now. */
  readonly lookedCommit: string | null;
  readonly appliedCommit: string | null;
  /** How many wishes there have been, and whether one of them is newer than the last look. */
  readonly wishes: number;
  readonly isWished: boolean;
  /** The branch that it follows, where that is known. */
  readonly branch: string | null;
}

/**
 * Takes those that are due by the clock, where no deliveries come or a look has failed, that somebody wishes for, or whose base
 * has moved: at once, and by the clock where that look has failed.
 */
export async function claimPullPolls(sql: Sql, by: OutboundClaim): Promise<OfProject<PullPoll>[]> {
  const { rows } = await sql.query<OfProject<PullPoll>>(
    `with due as (
       select p.repository_id, r.project_id, s.applied_commit, coalesce(r.branch, s.ref_branch) as branch
         from svc.pull_polls p join svc.repositories r on r.id = p.repository_id
         join svc.repository_states s on s.repository_id = r.id
        where ${followed} and s.applied_commit is not null and r.project_id <> all($4::uuid[])
          and ((s.applied_commit is distinct from p.failed_commit
              and (s.applied_commit is distinct from p.looked_commit or p.wishes <> p.looked_wishes))
            or (p.next_at <= now() and (p.failed_commit is not null
              or p.delivered_at is null or p.delivered_at < now() - interval '1 day')))
          and (p.claimed_until is null or p.claimed_until < now()
            or not exists (select from svc.daemons x where x.id = p.claimed_by))
        order by p.next_at limit $3::int for update of p skip locked)
     update svc.pull_polls p set claimed_by = $1::uuid, claimed_until = now() + make_interval(secs => $2::int)
       from due where p.repository_id = due.repository_id
       returning p.repository_id as "repositoryId", p.looked_commit as "lookedCommit",
         due.applied_commit as "appliedCommit", p.wishes, p.wishes <> p.looked_wishes as "isWished", due.branch, due.project_id as "projectId"`,
    [by.daemonId, by.leaseSeconds, by.limit, by.busy],
    'claim-pull-polls',
  );
  return rows;
}

/**
 * Ends a look; the next one by the clock is after so many seconds. `isDone`: else it is to be made up for. What was wished for
 * meanwhile is due at once.
 */
export async function releasePullPoll(
  sql: Sql,
  of: Pick<PullPoll, 'repositoryId' | 'appliedCommit' | 'wishes'>,
  by: { readonly daemonId: string; readonly afterSeconds: number; readonly isDone: boolean },
): Promise<void> {
  await sql.query(
    `update svc.pull_polls set claimed_by = null, claimed_until = null, next_at = now() + make_interval(secs => $4::float8),
       looked_commit = case when $5::boolean then $3::text else looked_commit end,
       looked_wishes = case when $5::boolean then $6::int else looked_wishes end,
       failed_commit = case when not $5::boolean and wishes = $6::int then $3::text end
      where repository_id = $1::uuid and claimed_by = $2::uuid`,
    [of.repositoryId, by.daemonId, of.appliedCommit, by.afterSeconds, by.isDone, of.wishes],
  );
}

/** A delivery has told of a pull request: nobody needs to look by the clock. */
export async function notePullDelivery(sql: Sql, repositoryId: string, now: Date): Promise<void> {
  await sql.query(
    `insert into svc.pull_polls (repository_id, delivered_at) values ($1::uuid, $2::timestamptz)
     on conflict (repository_id) do update set delivered_at = excluded.delivered_at`,
    [repositoryId, now],
  );
}

/**
 * Has open pull requests of a repository, or of those of a project, or of its connection, looked for at once: of some of them
 * nobody may have heard, or they were not wanted. Rows are taken in one order: no two such wishes wait for each other.
 */
export async function wishPullLooks(
  sql: Sql,
  of: { readonly repositoryId?: string; readonly projectId?: string; readonly connection?: string },
): Promise<void> {
  await sql.query(
    `with wished as (
       select p.repository_id from svc.pull_polls p join svc.repositories r on r.id = p.repository_id
        where (r.id = $1::uuid or r.project_id = $2::uuid) and ($3::text is null or r.auth ->> 'connection' = $3::text)
        order by p.repository_id for update of p)
     update svc.pull_polls p set wishes = p.wishes + 1, failed_commit = null
       from wished where p.repository_id = wished.repository_id`,
    [of.repositoryId ?? null, of.projectId ?? null, of.connection ?? null],
  );
}

/** The head of each pull request that was wished for and has not ended since. */
export async function knownHeads(sql: Sql, repositoryId: string): Promise<ReadonlyMap<number, string>> {
  const { rows } = await sql.query<{ number: number; head: string }>(
    'select number, head from svc.pull_plans where repository_id = $1::uuid and ended is null',
    [repositoryId],
  );
  return new Map(rows.map((row) => [row.number, row.head]));
}
