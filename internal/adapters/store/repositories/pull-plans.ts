// svc.pull_plans: pull requests that are to be told what they would change. Invariants: of one pull request one daemon
// tells at a time (claimed_by, claimed_until), and only it writes what was told; a wish that comes meanwhile raises the
// version and is told next; of deliveries the newest names the head.

import { type OutboundClaim, ofOtherProjects } from '../operations/in-hand.ts';
import type { Sql } from '../store.ts';

/** It is merged or closed, or is to be merged into a branch that is not followed. */
export type PullEnd = 'over' | 'elsewhere';

export interface PullPlan {
  readonly repositoryId: string;
  readonly number: number;
  readonly fullName: string;
  readonly head: string;
  /** Why it is told nothing more; null: it is told its plan. */
  readonly ended: PullEnd | null;
  readonly version: number;
  readonly attempts: number;
  readonly sequence: number;
  readonly touchedHead: string | null;
  readonly touched: boolean | null;
  readonly toldHead: string | null;
  readonly toldHash: string | null;
  readonly commentId: string | null;
  readonly commentCall: string | null;
  readonly checkHead: string | null;
  readonly checkId: string | null;
  readonly checkAnnotated: number;
  readonly checkDone: boolean;
}

const columns = `p.repository_id as "repositoryId", p.number, p.full_name as "fullName", p.head, p.ended,
  p.version::int as version, p.attempts, p.sequence, p.touched_head as "touchedHead", p.touched,
  p.told_head as "toldHead", p.told_hash as "toldHash", p.comment_id as "commentId", p.comment_call as "commentCall", p.check_head as "checkHead",
  p.check_id as "checkId", p.check_annotated as "checkAnnotated", p.check_done as "checkDone"`;

export interface PullWish {
  readonly repositoryId: string;
  readonly number: number;
  readonly fullName: string;
  readonly head: string;
  /** When the pull request was as it was told. */
  readonly at: Date;
}

/** Wishes that a pull request be told its plan; one that is heard of late, behind a newer head, changes nothing. */
export async function wishPlan(sql: Sql, wish: PullWish): Promise<void> {
  await sql.query(
    `insert into svc.pull_plans as p (repository_id, number, full_name, head, heard_at, due_at)
     values ($1::uuid, $2::int, $3::text, $4::text, $5::timestamptz, now())
     on conflict (repository_id, number) do update
       set full_name = excluded.full_name, head = excluded.head, heard_at = excluded.heard_at, ended = null,
           version = p.version + 1, due_at = now(), attempts = 0
       where p.heard_at <= excluded.heard_at`,
    [wish.repositoryId, wish.number, wish.fullName, wish.head, wish.at],
  );
}

/** Forgets the pull requests of a repository that lies elsewhere by now, where others have their numbers, and that they were heard of. */
export async function forgetPullsOf(sql: Sql, repositoryId: string): Promise<void> {
  await sql.query(
    `with gone as (delete from svc.pull_plans where repository_id = $1::uuid)
     update svc.pull_polls set delivered_at = null where repository_id = $1::uuid`,
    [repositoryId],
  );
}

/** Forgets pull requests of which nothing was heard for long: their comments and checks stay at the host. */
export async function forgetPulls(sql: Sql, before: Date, limit: number): Promise<number> {
  const { rowCount } = await sql.query(
    `delete from svc.pull_plans where (repository_id, number) in (
       select repository_id, number from svc.pull_plans
        where due_at is null and heard_at < $1::timestamptz order by heard_at limit $2::int)`,
    [before, limit],
  );
  return rowCount;
}

/**
 * A pull request that is over, or is to be merged elsewhere, is told no plan any more; what is heard of late, of a time before
 * `at`, begins nothing anew. It is due where something was begun that has to be ended, or was said that is not so any more.
 */
export async function endWish(
  sql: Sql,
  { repositoryId, number, at, ended }: Pick<PullWish, 'repositoryId' | 'number' | 'at'> & { readonly ended: PullEnd },
): Promise<void> {
  await sql.query(
    `update svc.pull_plans set version = version + 1, heard_at = $3::timestamptz, ended = $4::text, attempts = 0,
       due_at = case when claimed_by is not null or (check_id is not null and not check_done)
         or ($4::text = 'elsewhere' and coalesce(comment_id, check_id) is not null) then now() end
      where repository_id = $1::uuid and number = $2::int and heard_at <= $3::timestamptz`,
    [repositoryId, number, at, ended],
  );
}

/** A row with the id of its project. */
export type OfProject<T> = T & { readonly projectId: string };

interface Claim {
  readonly daemonId: string;
  readonly leaseSeconds: number;
}

/** Takes those that are due and that no living daemon is at, of projects other than `busy`. */
export async function claimPlans(sql: Sql, by: OutboundClaim): Promise<OfProject<PullPlan>[]> {
  const { rows } = await sql.query<OfProject<PullPlan>>(
    `with due as (
       select d.repository_id, d.number from svc.pull_plans d
        where d.due_at <= now() and (d.claimed_until is null or d.claimed_until < now()
          or not exists (select from svc.daemons x where x.id = d.claimed_by))
          and ${ofOtherProjects('d.repository_id', '$4')}
        order by d.due_at limit $3::int for update skip locked)
     update svc.pull_plans p set claimed_by = $1::uuid, claimed_until = now() + make_interval(secs => $2::int)
       from due where p.repository_id = due.repository_id and p.number = due.number returning ${columns},
         (select r.project_id from svc.repositories r where r.id = p.repository_id) as "projectId"`,
    [by.daemonId, by.leaseSeconds, by.limit, by.busy],
    'claim-plans',
  );
  return rows;
}

/** What a telling learned, or has done. */
export type PlanPatch = Partial<
  Pick<
    PullPlan,
    | 'sequence'
    | 'touchedHead'
    | 'touched'
    | 'toldHead'
    | 'toldHash'
    | 'commentId'
    | 'commentCall'
    | 'checkHead'
    | 'checkId'
    | 'checkAnnotated'
    | 'checkDone'
  >
>;

const written: { readonly [key in keyof Required<PlanPatch>]: readonly [column: string, type: string] } = {
  sequence: ['sequence', 'int'],
  touchedHead: ['touched_head', 'text'],
  touched: ['touched', 'boolean'],
  toldHead: ['told_head', 'text'],
  toldHash: ['told_hash', 'text'],
  commentId: ['comment_id', 'text'],
  commentCall: ['comment_call', 'text'],
  checkHead: ['check_head', 'text'],
  checkId: ['check_id', 'text'],
  checkAnnotated: ['check_annotated', 'int'],
  checkDone: ['check_done', 'boolean'],
};

type Key = Pick<PullPlan, 'repositoryId' | 'number'>;

/** Writes how far a telling has come, and holds the claim for longer. False where it is not this daemon's any more. */
export async function movePlan(sql: Sql, of: Key, patch: PlanPatch, by: Claim): Promise<boolean> {
  const values: unknown[] = [of.repositoryId, of.number, by.daemonId, by.leaseSeconds];
  const sets = ['claimed_until = now() + make_interval(secs => $4::int)'];
  for (const [key, value] of Object.entries(patch) as [keyof PlanPatch, unknown][]) {
    const [column, type] = written[key];
    values.push(value);
    sets.push(`${column} = $${values.length}::${type}`);
  }
  const { rowCount } = await sql.query(
    `update svc.pull_plans set ${sets.join(', ')}
      where repository_id = $1::uuid and number = $2::int and claimed_by = $3::uuid`,
    values,
  );
  return rowCount === 1;
}

/**
 * Ends a telling. `afterMs`: it is tried again then; null: it is done, or left at that. What was wished for meanwhile is
 * due at once.
 */
export async function releasePlan(
  sql: Sql,
  of: Key & { readonly version: number },
  by: { readonly daemonId: string; readonly afterMs: number | null },
): Promise<void> {
  await sql.query(
    `update svc.pull_plans set claimed_by = null, claimed_until = null,
       attempts = case when version = $4::bigint and $5::float8 is not null then attempts + 1 else 0 end,
       due_at = case when version = $4::bigint then now() + make_interval(secs => $5::float8 / 1000)
                     when due_at is null then null else now() end
      where repository_id = $1::uuid and number = $2::int and claimed_by = $3::uuid`,
    [of.repositoryId, of.number, by.daemonId, of.version, by.afterMs],
  );
}

/** Repositories that follow a branch of the address, through a connection, and how they want pull requests told. */
export async function repositoriesOfPull(
  sql: Sql,
  projectId: string,
  pull: { readonly addresses: readonly string[]; readonly fullName: string },
): Promise<{ id: string; branch: string | null; plan: PlanSettings }[]> {
  const { rows } = await sql.query<{ id: string; branch: string | null; plan: PlanSettings }>(
    `select r.id, coalesce(r.branch, s.ref_branch) as branch, r.plan
       from svc.repositories r left join svc.repository_states s on s.repository_id = r.id
      where r.project_id = $1::uuid and not r.suspended and r.auth ->> 'kind' = 'connection' and r.url_key is not null
        and (r.url_key = any($2::text[]) or right(r.url_key, length($3::text) + 1) = '/' || $3::text)`,
    [projectId, pull.addresses, pull.fullName],
  );
  return rows;
}

/** What people say about plans on pull requests; what is absent is so by default. */
export interface PlanSettings {
  /** Default true. */
  readonly comment?: boolean;
  /** Default true. */
  readonly check?: boolean;
  /** Pull requests from other repositories; default false. */
  readonly forks?: boolean;
}
