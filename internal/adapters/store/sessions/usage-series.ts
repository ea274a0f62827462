// The sums of the ledger by day and agent, for people. Reads only.

import type { SessionState } from '../../../core/session/session.ts';
import type { Sql } from '../store.ts';

export interface SeriesRow {
  readonly day: string;
  readonly agent: string | null;
  readonly calls: number;
  readonly unpricedCalls: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cacheReadTokens: number;
  readonly cacheWriteTokens: number;
  readonly costUsd: string;
}

/** A deleted agent goes on under the name that its latest call was made by. */
const agentName = `coalesce(a.name, (select l.agent_name from svc.usage_ledger l where l.project_id = u.project_id
  and l.agent_id = u.agent_id order by l.id desc limit 1), u.agent_id::text)`;
const sums = `sum(u.calls)::int as calls, sum(u.unpriced_calls)::int as "unpricedCalls",
  sum(u.input_tokens)::float8 as "inputTokens", sum(u.output_tokens)::float8 as "outputTokens",
  sum(u.cache_read_tokens)::float8 as "cacheReadTokens", sum(u.cache_write_tokens)::float8 as "cacheWriteTokens",
  trim_scale(sum(u.cost_usd))::text as "costUsd"`;

/** By day, and by agent where it is asked for. `from` and `to` are UTC days, both included. */
export async function usageSeries(
  sql: Sql,
  projectId: string,
  asked: { readonly from: string; readonly to: string; readonly by: 'agent' | 'day' },
): Promise<SeriesRow[]> {
  const { rows } = await sql.query<SeriesRow>(
    `with names as materialized (
       select u.agent_id, max(${agentName}) as name from (
         select distinct project_id, agent_id from svc.usage_days
          where project_id = $1::uuid and day between $2::date and $3::date) u
       left join svc.agents a on a.id = u.agent_id group by u.agent_id)
     select to_char(u.day, 'YYYY-MM-DD') as day, case when $4::boolean then n.name end as agent, ${sums}
       from svc.usage_days u join names n on n.agent_id = u.agent_id
      where u.project_id = $1::uuid and u.day between $2::date and $3::date
      group by u.day, case when $4::boolean then n.name end order by u.day, 2 nulls first`,
    [projectId, asked.from, asked.to, asked.by === 'agent'],
  );
  return rows;
}

export interface AgentSessionsRow {
  readonly agent: string;
  readonly sessions: number;
  readonly dearestId: string | null;
  readonly dearestUsd: string | null;
  readonly capUsd: string | null;
}

/** Of so many of a project's latest sessions: more of them cost a reading that grows with history. */
const latest = 200;

/** By agent, of the latest sessions since a UTC day: how many, the dearest, and what a session of it may cost. */
export async function agentSessions(sql: Sql, projectId: string, from: string): Promise<AgentSessionsRow[]> {
  const { rows } = await sql.query<AgentSessionsRow>(
    `select s.agent, count(*)::int as sessions,
        (array_agg(u.session_id order by u.cost_usd desc nulls last) filter (where u.cost_usd > 0))[1] as "dearestId",
        trim_scale(max(u.cost_usd) filter (where u.cost_usd > 0))::text as "dearestUsd",
        (select a.spec #>> '{spendCaps,maxPerSessionUsd}' from svc.agents a
          where a.project_id = $1::uuid and a.name = s.agent) as "capUsd"
       from (select id, agent, created_at from svc.sessions where project_id = $1::uuid order by id desc limit ${latest}) s
       left join lateral (select session_id, cost_usd from svc.usage_sessions where session_id = s.id limit 1) u on true
      where s.created_at >= $2::date::timestamp at time zone 'UTC' group by s.agent order by s.agent collate "C"`,
    [projectId, from],
  );
  return rows;
}

export interface CostlySessionRow extends Omit<SeriesRow, 'day' | 'agent'> {
  readonly id: string;
  readonly agent: string;
  readonly state: SessionState;
  readonly displayTitle: string;
  readonly createdAt: Date;
  readonly activeAt: Date;
  readonly capUsd: string | null;
}

/** A page of the sessions that have called a model, dearest first; of one agent where it is given. */
export async function sessionsByCost(
  sql: Sql,
  projectId: string,
  page: {
    readonly limit: number;
    readonly agent: string | undefined;
    readonly after?: readonly [costUsd: string, id: string] | undefined;
  },
): Promise<CostlySessionRow[]> {
  // The page is cut by an index before anything else is read: a row of the sums goes with its session.
  const ofAgent = `and agent_id = (select id from svc.agents where project_id = $1::uuid and name = $5::text)`;
  const { rows } = await sql.query<CostlySessionRow>(
    `select s.id, s.agent, s.state, left(s.display_title, 120) as "displayTitle", s.created_at as "createdAt",
            s.active_at as "activeAt", u.calls::int as calls, u.unpriced_calls::int as "unpricedCalls",
            u.input_tokens::float8 as "inputTokens", u.output_tokens::float8 as "outputTokens",
            u.cache_read_tokens::float8 as "cacheReadTokens", u.cache_write_tokens::float8 as "cacheWriteTokens",
            trim_scale(u.cost_usd)::text as "costUsd",
            (select a.spec #>> '{spendCaps,maxPerSessionUsd}' from svc.agents a where a.id = s.agent_id) as "capUsd"
       from (select * from svc.usage_sessions where project_id = $1::uuid ${page.agent === undefined ? '' : ofAgent}
           and ($2::numeric is null or (cost_usd, session_id) < ($2::numeric, $3::uuid))
           order by cost_usd desc, session_id desc limit $4::int) u
       join lateral (select * from svc.sessions where id = u.session_id offset 0) s on true
      order by u.cost_usd desc, u.session_id desc`,
    [
      projectId,
      page.after?.[0] ?? null,
      page.after?.[1] ?? null,
      page.limit,
      ...(page.agent === undefined ? [] : [page.agent]),
    ],
  );
  return rows;
}

/** Sessions that a spend cap holds. */
export async function cappedSessions(sql: Sql, projectId: string): Promise<number> {
  const { rows } = await sql.query<{ n: number }>(
    `select count(*)::int as n from svc.sessions where project_id = $1::uuid and live and state = 'blocked'`,
    [projectId],
  );
  return rows[0]?.n ?? 0;
}
