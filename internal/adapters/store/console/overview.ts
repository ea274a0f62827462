// What the first page of a project shows, each part bounded. Reads only.

import type { CommitAbout } from '../../../domain/commit.ts';
import type { Sql } from '../store.ts';
import { lastTold } from '../repositories/reconciles.ts';

export interface AttentionRow {
  readonly kind: 'held' | 'failed' | 'asks' | 'authorization' | 'doctor';
  readonly severity: 'error' | 'warning';
  /** A repository's or connection's name, or a session's id. */
  readonly subject: string;
  /** A run's id; null where there is none. */
  readonly runId: string | null;
  readonly agent: string | null;
  /** A run's status, a source's condition, a connection's status. */
  readonly word: string;
  readonly detail: string | null;
  readonly since: Date | null;
}

/** So many of each kind; the rest is counted. */
const attentionMax = 50;

/** What needs a person: repositories, questions of sessions, connections. */
export async function readAttention(sql: Sql, projectId: string): Promise<AttentionRow[]> {
  const { rows } = await sql.query<AttentionRow>(
    `(select case when run.status = 'held' then 'held' else 'failed' end as kind,
             case when run.status = 'held' then 'warning' else 'error' end as severity, r.name as subject,
             run.id::text as "runId", null::text as agent, coalesce(s.condition, run.status) as word,
             coalesce(case when s.condition is not null then s.condition_detail end, run.detail) as detail,
             coalesce(case when s.condition is not null then s.condition_since end, run.finished_at) as since
        from svc.repositories r left join svc.repository_states s on s.repository_id = r.id
        left join lateral ${lastTold('id, status, detail, finished_at')} run on true
       where r.project_id = $1::uuid and not r.suspended and (s.condition is not null or run.status in ('failed', 'held'))
       order by since desc nulls last limit ${attentionMax})
     union all (select 'asks', 'warning', s.id::text, null, s.agent, s.state, p.title, p.created_at
        from svc.sessions s join svc.permissions p on p.session_id = s.id and p.state = 'open'
       where s.project_id = $1::uuid and s.live order by p.created_at limit ${attentionMax})
     -- What only consent ends is of one kind; of the others the doctor says what to do.
     union all (select case when status in ('authorization_required', 'scope_required', 'uncertain')
           then 'authorization' else 'doctor' end, case when status = 'degraded' then 'warning' else 'error' end, name, null, null, status, reason, coalesce(status_since, updated_at)
        from svc.connections where project_id = $1::uuid
         and status in ('authorization_required', 'scope_required', 'uncertain', 'suspended', 'removed', 'degraded')
       order by 8 desc limit ${attentionMax})`,
    [projectId],
  );
  return rows;
}

export interface LastRunRow {
  readonly id: string;
  readonly repository: string | null;
  readonly commit: string | null;
  readonly about: CommitAbout | null;
  readonly reason: string;
  readonly status: 'running' | 'applied' | 'held' | 'failed' | 'quarantined' | 'unchanged' | 'superseded';
  readonly condition: string | null;
  readonly detail: string | null;
  readonly startedAt: Date;
  readonly finishedAt: Date | null;
  readonly created: number;
  readonly updated: number;
  readonly deleted: number;
  readonly mistakes: number;
  readonly appliedCommit: string | null;
}

/** Among the newest runs, so many are looked through for those that changed something. */
const runsLooked = 500;

/** The last runs but those that found nothing to do. */
export async function readLastRuns(sql: Sql, projectId: string, limit: number): Promise<LastRunRow[]> {
  const counted = (op: string): string =>
    `(select count(*)::int from jsonb_array_elements(run.actions) one where one ->> 'op' = '${op}')`;
  const { rows } = await sql.query<LastRunRow>(
    `with latest as materialized (
       select * from (select * from svc.reconciles where project_id = $1::uuid order by seq desc limit ${runsLooked}) r
        where status not in ('unchanged', 'superseded') order by seq desc limit $2::int)
     select run.id, run.repository_name as repository, run.commit, run.about, run.reason, run.status, run.condition,
            left(run.detail, 300) as detail, run.started_at as "startedAt", run.finished_at as "finishedAt",
            ${counted('create')} as created, ${counted('update')} as updated, ${counted('delete')} as deleted,
            (select count(*)::int from jsonb_array_elements(run.diagnostics) one where one ->> 'severity' = 'error') as mistakes,
            s.applied_commit as "appliedCommit"
       from latest run left join svc.repository_states s on s.repository_id = run.repository_id
      order by run.seq desc`,
    [projectId, limit],
  );
  return rows;
}

export interface LiveRow {
  readonly id: string;
  readonly agent: string;
  readonly state: string;
  readonly reason: string | null;
  readonly displayTitle: string;
  readonly createdAt: Date;
  readonly activeAt: Date;
  readonly costUsd: string;
}

/** The sessions that live, newest first, and how many there are. */
export async function readLive(
  sql: Sql,
  projectId: string,
  limit: number,
): Promise<{ readonly rows: LiveRow[]; readonly total: number }> {
  const { rows } = await sql.query<LiveRow & { total: number }>(
    `select s.id, s.agent, s.state, left(s.reason, 200) as reason, left(s.display_title, 120) as "displayTitle",
            s.created_at as "createdAt", s.active_at as "activeAt",
            coalesce(trim_scale(u.cost_usd), 0)::text as "costUsd",
            (select count(*)::int from svc.sessions where project_id = $1::uuid and live) as total
       from svc.sessions s left join svc.usage_sessions u on u.session_id = s.id
      where s.project_id = $1::uuid and s.live order by s.id desc limit $2::int`,
    [projectId, limit],
  );
  return { rows: rows.map(({ total: _total, ...row }) => row), total: rows[0]?.total ?? 0 };
}

export interface NextRow {
  readonly scheduleId: string;
  readonly agent: string;
  readonly ordinal: number;
  readonly cron: string;
  readonly at: Date;
}

/** The schedules that fire next, and how many there are. */
export async function readNext(
  sql: Sql,
  projectId: string,
  limit: number,
): Promise<{ readonly rows: NextRow[]; readonly total: number }> {
  const { rows } = await sql.query<NextRow & { total: number }>(
    `select s.id as "scheduleId", a.name as agent, s.ordinal, s.cron, s.next_at as at, count(*) over ()::int as total
       from svc.schedules s join svc.agents a on a.id = s.agent_id
      where s.project_id = $1::uuid order by s.next_at, s.id limit $2::int`,
    [projectId, limit],
  );
  return { rows: rows.map(({ total: _total, ...row }) => row), total: rows[0]?.total ?? 0 };
}

export interface MinuteRow {
  readonly at: Date;
  readonly routed: number;
  readonly unmatched: number;
  readonly failed: number;
  readonly pending: number;
}

/** Newest events that are counted; more of them are said to be more. */
export const countedMax = 100_000;

/**
 * Events since a time by minute and outcome. The first of them is found by halving: numbers grow with time, and only
 * numbers have an index by project.
 */
export async function countEvents(sql: Sql, projectId: string, since: Date): Promise<MinuteRow[]> {
  const { rows } = await sql.query<MinuteRow>(
    `with recursive bounds as (
       select (select seq from svc.events where project_id = $1::uuid order by seq limit 1) as low,
              (select seq from svc.events where project_id = $1::uuid order by seq desc limit 1) + 1 as high),
     halved (low, high) as (
       select low, high from bounds where low is not null
       union all
       select case when e.at < $2::timestamptz then e.seq + 1 else h.low end,
              case when e.at < $2::timestamptz then h.high else (h.low + h.high) / 2 end
         from halved h cross join lateral (
           select coalesce(max(seq), h.high) as seq, coalesce(max(received_at), 'infinity') as at from (
             select seq, received_at from svc.events
              where project_id = $1::uuid and seq >= (h.low + h.high) / 2 and seq < h.high order by seq limit 1) one) e
        where h.low < h.high),
     counted as (
       select received_at, router_status from svc.events
        where project_id = $1::uuid and seq >= (select max(low) from halved) order by seq desc limit ${countedMax})
     select date_trunc('minute', received_at) as at,
            count(*) filter (where router_status = 'routed')::int as routed,
            count(*) filter (where router_status = 'unmatched')::int as unmatched,
            count(*) filter (where router_status = 'failed')::int as failed,
            count(*) filter (where router_status = 'pending')::int as pending
       from counted where received_at >= $2::timestamptz group by 1 order by 1`,
    [projectId, since],
    'console-events',
  );
  return rows;
}
