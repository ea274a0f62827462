// svc.schedules: one row per heartbeat trigger. `next_at` is recomputed when cron or time zone change, and otherwise
// belongs to the loop that fires: an apply that changes neither must not touch the row.

import type { CurrentSchedule, ScheduleWrite } from '../../core/plan/types.ts';
import type { Sql } from './db.ts';

/** Every schedule of a project as planning sees it. */
export async function readSchedules(sql: Sql, projectId: string): Promise<CurrentSchedule[]> {
  const { rows } = await sql.query<CurrentSchedule>(
    `select id, agent_id as "agentId", ordinal, cron, timezone
       from svc.schedules where project_id = $1::uuid order by agent_id, ordinal`,
    [projectId],
  );
  return rows;
}

/** Call after agents are written: a schedule's id holds its agent's. */
export async function writeSchedules(tx: Sql, projectId: string, schedules: readonly ScheduleWrite[]): Promise<void> {
  if (schedules.length === 0) return;
  await tx.query(
    `insert into svc.schedules (id, project_id, agent_id, ordinal, cron, timezone, next_at)
     select format('heartbeat-%s-%s', a.id, w.ordinal), $1::uuid, a.id, w.ordinal, w.cron, w.timezone, w."nextAt"
       from jsonb_to_recordset($2::jsonb) as w (agent text, ordinal int, cron text, timezone text, "nextAt" timestamptz)
       join svc.agents a on a.project_id = $1::uuid and a.name = w.agent
     on conflict (agent_id, ordinal) do update
       set cron = excluded.cron, timezone = excluded.timezone, next_at = excluded.next_at`,
    [projectId, JSON.stringify(schedules)],
  );
}

export async function deleteSchedules(tx: Sql, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  await tx.query('delete from svc.schedules where id = any($1::text[])', [ids]);
}

export interface ScheduleRow {
  readonly scheduleId: string;
  readonly agent: string;
  readonly ordinal: number;
  readonly cron: string;
  readonly timezone: string;
  readonly nextAt: Date;
  readonly lastAt: Date | null;
  readonly lastStatus: string | null;
}

/** A page of a project's schedules, by agent and ordinal. */
export async function listSchedules(
  sql: Sql,
  projectId: string,
  page: { readonly limit: number; readonly after?: readonly [agent: string, ordinal: number] | undefined },
): Promise<ScheduleRow[]> {
  const { rows } = await sql.query<ScheduleRow>(
    `select s.id as "scheduleId", a.name as agent, s.ordinal, s.cron, s.timezone, s.next_at as "nextAt",
            s.last_at as "lastAt", s.last_status as "lastStatus"
       from svc.schedules s join svc.agents a on a.id = s.agent_id
      where s.project_id = $1::uuid
        and ($2::text is null or (a.name collate "C", s.ordinal) > ($2::text collate "C", $3::int))
      order by a.name collate "C", s.ordinal limit $4::int`,
    [projectId, page.after?.[0] ?? null, page.after?.[1] ?? null, page.limit],
  );
  return rows;
}
