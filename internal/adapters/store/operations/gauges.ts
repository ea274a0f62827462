// What the metrics tell of the installation as it stands: repositories, events and jobs that wait, money, secrets that end,
// daemons. Read when somebody asks for the metrics. Each statement is bounded by what there is (repositories, projects, the
// rows that wait), never by what has happened before.

import type { Sql } from '../store.ts';
import { lastTold } from '../repositories/reconciles.ts';
import { isLookedAt } from '../repositories/polls.ts';
import { unroutedSql, markOf } from '../routing/routing.ts';

/** Of those that wait, so many are counted. */
const countedMax = 10_000;
/** Of those whose routing failed, in each project. */
const failedMax = 1_000;
/** Repositories that are told of one by one: those with a condition first, then those longest without an apply. */
const repositoriesMax = 500;

export interface Gauges {
  /** By what their latest run came to: `synced`, `failed`, `held`, `quarantined`, `suspended`, `new`. */
  readonly repositories: readonly { readonly state: string; readonly count: number }[];
  /** Of those that are looked at. */
  readonly each: readonly {
    readonly id: string;
    /** `ok` where its source can be read. */
    readonly condition: string;
    /** Seconds since it has that condition; 0 for `ok`. */
    readonly conditionSeconds: number;
    /** Seconds since what runs was applied; null where nothing was. */
    readonly appliedSeconds: number | null;
  }[];
  readonly pending: { readonly count: number; readonly seconds: number };
  readonly failedEvents: number;
  readonly jobs: readonly {
    readonly task: string;
    readonly waiting: number;
    readonly parked: number;
    /** Seconds that the oldest of those that could run has waited. */
    readonly seconds: number;
  }[];
  /** Of the day that runs, in UTC. */
  readonly spend: {
    readonly usd: number;
    readonly calls: number;
    readonly input: number;
    readonly output: number;
    readonly unpriced: number;
  };
  readonly secrets: { readonly expired: number; readonly week: number; readonly nextSeconds: number | null };
  readonly daemons: readonly { readonly role: string; readonly count: number }[];
}

/** All gauges of the installation, in a few statements. */
export async function readGauges(sql: Sql): Promise<Gauges> {
  return {
    repositories: await repositoryStates(sql),
    each: await eachRepository(sql),
    ...(await events(sql)),
    jobs: await jobs(sql),
    spend: await spend(sql),
    secrets: await secrets(sql),
    daemons: await daemons(sql),
  };
}

async function repositoryStates(sql: Sql): Promise<Gauges['repositories']> {
  const { rows } = await sql.query<Gauges['repositories'][number]>(
    `select case when r.suspended then 'suspended' when r.quarantined_commit is not null then 'quarantined'
                 when run.status is null then 'new' when run.status in ('failed', 'held', 'quarantined') then run.status
                 else 'synced' end as state, count(*)::int as count
       from svc.repositories r join svc.projects p on p.id = r.project_id and p.archived_at is null
         left join svc.repository_states s on s.repository_id = r.id left join lateral ${lastTold('status')} run on true
      group by 1`,
  );
  return rows;
}

async function eachRepository(sql: Sql): Promise<Gauges['each']> {
  const { rows } = await sql.query<Gauges['each'][number]>(
    `select repository_id as id, coalesce(condition, 'ok') as condition,
            case when condition is null then 0
                 else greatest(extract(epoch from now() - coalesce(condition_since, updated_at)), 0) end::float8 as "conditionSeconds",
            greatest(extract(epoch from now() - applied_at), 0)::float8 as "appliedSeconds"
       from svc.repository_states where ${isLookedAt('repository_id')}
      order by condition is null, applied_at nulls first limit ${repositoriesMax}`,
  );
  return rows;
}

/** Behind each project's mark nothing waits, so nothing is looked at there. */
async function events(sql: Sql): Promise<Pick<Gauges, 'pending' | 'failedEvents'>> {
  const { rows } = await sql.query<{ count: number; seconds: number }>(
    `select coalesce(sum(waiting.count), 0)::int as count,
            coalesce(greatest(extract(epoch from now() - min(waiting.since)), 0), 0)::float8 as seconds
       from svc.projects p cross join lateral (
         select count(*) as count, min(received_at) as since from (
           select received_at from svc.events
            where project_id = p.id and router_status = 'pending' and ${unroutedSql(markOf('p.id'))}
            order by seq limit ${countedMax}) counted) waiting`,
  );
  const failed = await sql.query<{ count: number }>(
    `select coalesce(sum(f.count), 0)::int as count from svc.projects p cross join lateral (
       select count(*) as count from (select from svc.events where project_id = p.id and reason is not null limit ${failedMax}) counted) f`,
  );
  return { pending: rows[0] ?? { count: 0, seconds: 0 }, failedEvents: failed.rows[0]?.count ?? 0 };
}

async function jobs(sql: Sql): Promise<Gauges['jobs']> {
  const { rows } = await sql.query<Gauges['jobs'][number]>(
    `select t.identifier as task,
            count(*) filter (where j.is_available and j.run_at <= now())::int as waiting,
            count(*) filter (where j.attempts >= j.max_attempts and j.locked_at is null)::int as parked,
            coalesce(greatest(extract(epoch from now() - min(j.run_at) filter (where j.is_available)), 0), 0)::float8 as seconds
       from (select task_id, is_available, run_at, attempts, max_attempts, locked_at
               from graphile_worker._private_jobs limit ${countedMax}) j
       join graphile_worker._private_tasks t on t.id = j.task_id group by 1`,
  );
  return rows;
}

async function spend(sql: Sql): Promise<Gauges['spend']> {
  const { rows } = await sql.query<Gauges['spend']>(
    `select coalesce(sum(cost_usd), 0)::float8 as usd, coalesce(sum(calls), 0)::float8 as calls,
            coalesce(sum(input_tokens + cache_read_tokens + cache_write_tokens), 0)::float8 as input,
            coalesce(sum(output_tokens), 0)::float8 as output, coalesce(sum(unpriced_calls), 0)::float8 as unpriced
       from svc.usage_days where day = (now() at time zone 'utc')::date`,
  );
  return rows[0] ?? { usd: 0, calls: 0, input: 0, output: 0, unpriced: 0 };
}

async function secrets(sql: Sql): Promise<Gauges['secrets']> {
  const { rows } = await sql.query<Gauges['secrets']>(
    `select count(*) filter (where dead_at <= now())::int as expired,
            count(*) filter (where dead_at > now() and dead_at <= now() + interval '7 days')::int as week,
            extract(epoch from min(dead_at) filter (where dead_at > now()) - now())::float8 as "nextSeconds"
       from svc.secret_metadata where dead_at is not null`,
  );
  return rows[0] ?? { expired: 0, week: 0, nextSeconds: null };
}

async function daemons(sql: Sql): Promise<Gauges['daemons']> {
  const { rows } = await sql.query<Gauges['daemons'][number]>(
    `select role, count(*)::int as count from svc.daemons d cross join unnest(d.roles) role
      where d.beat_at > now() - interval '15 seconds' group by 1`,
  );
  return rows;
}
