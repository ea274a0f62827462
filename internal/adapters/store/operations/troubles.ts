// What a doctor looks for among repositories, runs, events, schedules, checks and jobs. Reads only.

import type { Sql } from '../store.ts';
import { lastTold } from '../repositories/reconciles.ts';
import { syncParked } from './in-hand.ts';
import { unroutedSql, markOf } from '../routing/routing.ts';

/** `name`: an event's key, an agent, a repository. `eventId`: what a replay tries again. */
export interface ParkedWork {
  readonly kind: 'event' | 'tick' | 'sync' | 'plan' | 'look' | 'status' | 'notice' | 'call';
  /** Of a plan `<repository>#<number>`, of a look and a status the repository's, of a notice `<condition> to <receiver>`. */
  readonly name: string;
  readonly eventId: string | null;
}

export interface Troubles {
  readonly repositories: number;
  readonly conditions: readonly {
    readonly name: string;
    readonly condition: string;
    readonly failures: number;
    readonly detail: string;
    /** It lies on the daemon's machine. */
    readonly isPath: boolean;
  }[];
  /** Latest runs that failed over an author's mistake, or are held. */
  readonly runs: readonly { id: string; name: string; commit: string | null; status: string; detail: string | null }[];
  /** Repositories that are overdue by far. */
  readonly stalled: readonly string[];
  /** Secrets that repositories name and that do not resolve. */
  readonly secrets: readonly { repository: string; secret: string }[];
  /** Events whose routing could not be done. */
  readonly failedEvents: { readonly count: number; readonly id: string; readonly reason: string } | undefined;
  /** What ended the process again and again, and is not tried any more: the latest of each kind. */
  readonly parked: readonly ParkedWork[];
  /** Events that wait for their routing for longer than they should. */
  readonly pendingEvents: { readonly count: number; readonly seconds: number } | undefined;
  /** Schedules that are due for so long that their tick is missed. */
  readonly lateSchedules: number;
  /** Schedules whose latest tick was missed, within the last day. */
  readonly missedTicks: number;
  /** Checks that the code host refused to take. */
  readonly checks: readonly { readonly name: string; readonly target: string; readonly error: string }[];
  /** Jobs that have used up their attempts, of the whole installation. */
  readonly jobs: readonly { task: string; count: number; error: string }[];
}

/** Sign-ins with the token of the data directory since a moment, where there was another way in. */
export async function breakGlassSince(sql: Sql, orgId: string, since: Date): Promise<number> {
  const { rows } = await sql.query<{ n: number }>(
    `select count(*)::int as n from svc.audit
     where org_id = $1::uuid and action = 'auth.break_glass' and at > $2::timestamptz`,
    [orgId, since],
  );
  return rows[0]?.n ?? 0;
}

/** What a doctor has to tell of a project now, each trouble with what it is about. */
export async function findTroubles(
  sql: Sql,
  project: { readonly id: string; readonly orgId: string },
  options: { readonly now: Date; readonly stalledIntervals: number },
): Promise<Troubles> {
  const scope = [project.id];
  const all = await sql.query<{ count: number }>(
    'select count(*)::int as count from svc.repositories where project_id = $1::uuid',
    scope,
  );
  const conditions = await sql.query<Troubles['conditions'][number]>(
    `select r.name, s.condition, s.failures, coalesce(s.condition_detail, '') as detail, r.path is not null as "isPath"
       from svc.repositories r join svc.repository_states s on s.repository_id = r.id
      where r.project_id = $1::uuid and s.condition is not null and not r.suspended order by r.name`,
    scope,
  );
  const runs = await sql.query<Troubles['runs'][number]>(
    `select run.id, r.name, run.commit, run.status, run.detail
       from svc.repositories r left join svc.repository_states s on s.repository_id = r.id cross join lateral ${lastTold('id, commit, status, detail, condition')} run
      where r.project_id = $1::uuid and run.status in ('failed', 'held') and run.condition is null order by r.name`,
    scope,
  );
  const stalled = await sql.query<{ name: string }>(
    `select r.name from svc.repositories r join svc.repository_polls p on p.repository_id = r.id
      where r.project_id = $1::uuid and not r.suspended
        and p.next_at < $2::timestamptz - greatest(interval '15 minutes',
              make_interval(secs => r.interval_seconds * $3::int)) order by r.name`,
    [project.id, options.now, options.stalledIntervals],
  );
  const secrets = await sql.query<Troubles['secrets'][number]>(
    `select r.name as repository, r.auth ->> 'secretRef' as secret from svc.repositories r
      where r.project_id = $1::uuid and r.auth ->> 'kind' = 'token' and not exists (
        select from svc.secrets s
         where s.org_id = $2::uuid and (s.project_id = $1::uuid or s.project_id is null)
           and s.name = r.auth ->> 'secretRef' and (s.expires_at is null or s.expires_at > $3::timestamptz)
           and (s.idle_expiry_seconds is null
             or s.idle_since + make_interval(secs => s.idle_expiry_seconds) > $3::timestamptz)) order by r.name`,
    [project.id, project.orgId, options.now],
  );
  const jobs = await sql.query<Troubles['jobs'][number]>(
    `select task_identifier as task, count(*)::int as count, coalesce(max(left(last_error, 300)), '') as error
       from graphile_worker.jobs where attempts >= max_attempts and locked_at is null group by task_identifier`,
  );
  return {
    ...(await findLate(sql, project.id, options.now)),
    parked: await findParked(sql, project.id),
    repositories: all.rows[0]?.count ?? 0,
    conditions: conditions.rows,
    runs: runs.rows,
    stalled: stalled.rows.map((row) => row.name),
    secrets: secrets.rows,
    jobs: jobs.rows,
  };
}

const parkedShown = 20;
/** What came of a replay stands for the event that was replayed. */
const unreplayed = 'not exists (select from svc.events again where again.replay_of = e.id)';

async function findParked(sql: Sql, projectId: string): Promise<ParkedWork[]> {
  const { rows } = await sql.query<ParkedWork>(
    `with ticks as materialized (
       select s.last_event_id as id, a.name from svc.schedules s join svc.agents a on a.id = s.agent_id
        where s.project_id = $1::uuid and s.last_status = 'failed'
     ), events as (
       select e.id, e.key from svc.events e
        where e.project_id = $1::uuid and e.router_status = 'failed' and e.reason = $2::text and ${unreplayed}
        order by e.seq desc limit ${parkedShown}
     )
     (select case when t.id is null then 'event' else 'tick' end as kind, coalesce(t.name, e.key) as name, e.id as "eventId"
        from events e left join ticks t on t.id = e.id)
     union all
     (select 'sync', r.name, null from svc.repositories r where r.project_id = $1::uuid and ${syncParked('r.id')} order by r.name
       limit ${parkedShown})
     union all
     (select s.kind, case s.kind when 'plan' then concat(r.name, '#', split_part(s.id, ':', 2)) else r.name end, null
        from svc.suspects s join svc.repositories r
          on r.id = case when s.kind in ('plan', 'look', 'status') then split_part(s.id, ':', 1)::uuid end
       where r.project_id = $1::uuid and s.ends > 3 order by 2 limit ${parkedShown})
     union all
     (select s.kind, concat(n.condition, ' to ', substr(s.id, 38)), null
        from svc.suspects s join svc.notices n on n.id = case when s.kind = 'notice' then split_part(s.id, ':', 1)::uuid end
       where n.project_id = $1::uuid and s.ends > 3 order by n.at desc limit ${parkedShown})
     union all
     (select s.kind, c.tool, null
        from svc.suspects s join svc.calls c on c.id = case when s.kind = 'call' then s.id::uuid end
       where c.project_id = $1::uuid and s.ends > 3 order by c.created_at desc limit ${parkedShown})`,
    [projectId, 'ended-the-process'],
  );
  return rows;
}

/** An event is routed within milliseconds, and looked for again after seconds. */
const pendingSeconds = 30;
/** Of those that wait, so many are counted. */
const pendingCounted = 10_000;

async function findLate(
  sql: Sql,
  projectId: string,
  now: Date,
): Promise<Pick<Troubles, 'failedEvents' | 'pendingEvents' | 'lateSchedules' | 'missedTicks' | 'checks'>> {
  const failed = await sql.query<NonNullable<Troubles['failedEvents']>>(
    `select count(*)::int as count, (array_agg(id order by seq desc))[1] as id,
            coalesce((array_agg(reason order by seq desc))[1], '') as reason
       from svc.events e
      where project_id = $1::uuid and router_status = 'failed' and reason is not null and ${unreplayed} having count(*) > 0`,
    [projectId],
  );
  const pending = await sql.query<NonNullable<Troubles['pendingEvents']>>(
    `select count(*)::int as count, extract(epoch from $2::timestamptz - min(received_at))::int as seconds
       from (
         select received_at from svc.events
          where project_id = $1::uuid and router_status = 'pending' and ${unroutedSql(markOf('$1::uuid'))}
          order by seq limit ${pendingCounted}) waiting
        where received_at < $2::timestamptz - make_interval(secs => $3::int) having count(*) > 0`,
    [projectId, now, pendingSeconds],
  );
  const schedules = await sql.query<{ late: number; missed: number }>(
    `select count(*) filter (where next_at < $2::timestamptz - interval '1 minute')::int as late,
            count(*) filter (where last_status = 'skipped-late' and last_at > $2::timestamptz - interval '1 day')::int as missed
       from svc.schedules where project_id = $1::uuid`,
    [projectId, now],
  );
  const checks = await sql.query<Troubles['checks'][number]>(
    `select name, target_key as target, report_error as error from svc.checks
      where project_id = $1::uuid and not reported and report_error is not null
      order by updated_at desc, target_key, name, cycle desc limit 20`,
    [projectId],
  );
  return {
    failedEvents: failed.rows[0],
    pendingEvents: pending.rows[0],
    lateSchedules: schedules.rows[0]?.late ?? 0,
    missedTicks: schedules.rows[0]?.missed ?? 0,
    checks: checks.rows,
  };
}
