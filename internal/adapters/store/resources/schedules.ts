// svc.schedules: one row per heartbeat trigger. `next_at` is recomputed when cron or time zone change, and otherwise
// belongs to the loop that fires: an apply that changes neither must not touch the row. A tick is claimed by the lock on
// its row, so that of several daemons one alone judges it, and whoever dies in between has judged nothing.

import { noTick } from '../../../domain/events.ts';
import type { CurrentSchedule, ScheduleWrite } from '../../../core/plan/types.ts';
import type { Sql } from '../store.ts';

/** What planning sees of a project's ($1) schedules. */
export const schedulesSeen =
  'select id, agent_id as "agentId", ordinal, cron, timezone from svc.schedules where project_id = $1::uuid';

/** Notified by every transaction that writes schedules. */
export const schedulesChannel = 'svc_schedules';

/** Every schedule of a project as planning sees it. */
export async function readSchedules(sql: Sql, projectId: string): Promise<CurrentSchedule[]> {
  const { rows } = await sql.query<CurrentSchedule>(`${schedulesSeen} order by agent_id, ordinal`, [projectId]);
  return rows;
}

/** Call after agents are written: a schedule's id holds its agent's. */
export async function writeSchedules(tx: Sql, projectId: string, schedules: readonly ScheduleWrite[]): Promise<void> {
  if (schedules.length === 0) return;
  // Whoever sleeps until the next tick hears that it may be another one now.
  await tx.query(
    `with told as (select svc.tell('${schedulesChannel}', ''))
     insert into svc.schedules (id, project_id, agent_id, ordinal, cron, timezone, next_at)
     select format('heartbeat-%s-%s', a.id, w.ordinal), $1::uuid, a.id, w.ordinal, w.cron, w.timezone, w."nextAt"
       from told, jsonb_to_recordset($2::jsonb) as w (agent text, ordinal int, cron text, timezone text, "nextAt" timestamptz)
       join svc.agents a on a.project_id = $1::uuid and a.name = w.agent
     on conflict (agent_id, ordinal) do update
       set cron = excluded.cron, timezone = excluded.timezone, next_at = excluded.next_at`,
    [projectId, JSON.stringify(schedules)],
  );
}

/** By their ids; set-wise. */
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
  /** Null where no further time will come. */
  readonly nextAt: Date | null;
  readonly lastAt: Date | null;
  readonly lastStatus: string | null;
  /** Ticks passed over since it last fired. */
  readonly skipped: number;
  /** That its last tick that fired started or woke; null where there is none, or it is gone. */
  readonly lastSessionId: string | null;
}

/** A page of a project's schedules, by agent and ordinal. */
export async function listSchedules(
  sql: Sql,
  projectId: string,
  page: { readonly limit: number; readonly after?: readonly [agent: string, ordinal: number] | undefined },
): Promise<ScheduleRow[]> {
  const { rows } = await sql.query<ScheduleRow>(
    `select s.id as "scheduleId", a.name as agent, s.ordinal, s.cron, s.timezone,
            nullif(s.next_at, $5::timestamptz) as "nextAt",
            s.last_at as "lastAt", s.last_status as "lastStatus", s.skipped, fired.id as "lastSessionId"
       from svc.schedules s join svc.agents a on a.id = s.agent_id
       -- By their keys, one after the other: the offset keeps the planner from reading all of them.
       left join lateral (select session_ids from svc.event_routes r
           where r.event_id = s.last_event_id and r.agent_id = s.agent_id and r.ordinal = s.ordinal offset 0) r on true
       left join lateral (select x.id from svc.sessions x
           where x.id = any(r.session_ids) and x.project_id = s.project_id order by x.id desc limit 1) fired on true
      where s.project_id = $1::uuid
        and ($2::text is null or (a.name collate "C", s.ordinal) > ($2::text collate "C", $3::int))
      order by a.name collate "C", s.ordinal limit $4::int`,
    [projectId, page.after?.[0] ?? null, page.after?.[1] ?? null, page.limit, noTick],
  );
  return rows;
}

export interface DueSchedule {
  readonly id: string;
  readonly projectId: string;
  readonly agentId: string;
  readonly ordinal: number;
  readonly cron: string;
  readonly timezone: string;
  readonly scheduledAt: Date;
  /** The event of its last tick that fired. */
  readonly lastEventId: string | null;
}

/**
 * Locks schedules that are due, longest overdue first, until the caller's transaction ends; those that another daemon
 * has locked are passed over; `only`: of all of them this one. Archived projects do not tick.
 */
export async function claimDueSchedules(tx: Sql, now: Date, limit: number, only?: string): Promise<DueSchedule[]> {
  const { rows } = await tx.query<DueSchedule>(
    `select s.id, s.project_id as "projectId", s.agent_id as "agentId", s.ordinal, s.cron, s.timezone,
            s.next_at as "scheduledAt", s.last_event_id as "lastEventId"
       from svc.schedules s join svc.projects p on p.id = s.project_id and p.archived_at is null
      where s.next_at <= $1::timestamptz and ($3::text is null or s.id = $3::text)
      order by s.next_at limit $2::int for update of s skip locked`,
    [now, limit, only ?? null],
    'claim-schedules',
  );
  return rows;
}

/**
 * What a judge of claimed schedules has to know, in a statement of its own: the claim's view of other tables may be older
 * than the rows it got. `agents`: those that are there. `pending`: last events whose routing has not ended.
 */
export async function readTickFacts(
  tx: Sql,
  due: readonly DueSchedule[],
): Promise<{ readonly agents: ReadonlySet<string>; readonly pending: ReadonlySet<string> }> {
  const { rows } = await tx.query<{ id: string; kind: 'agent' | 'event' }>(
    `select id, 'agent' as kind from svc.agents where id = any($1::uuid[])
     union all select u.id, 'event' from unnest($2::uuid[]) as u (id)
       -- By its id, one after the other: the offset keeps the planner from reading all events.
       cross join lateral (select router_status from svc.events e where e.id = u.id offset 0) e
      where e.router_status = 'pending'`,
    [[...new Set(due.map((row) => row.agentId))], due.flatMap((row) => row.lastEventId ?? [])],
    'tick-facts',
  );
  const of = (kind: string): ReadonlySet<string> =>
    new Set(rows.filter((row) => row.kind === kind).map((row) => row.id));
  return { agents: of('agent'), pending: of('event') };
}

export type TickStatus = 'fired' | 'skipped-late' | 'skipped-overlap' | 'failed';

export interface JudgedTick {
  readonly id: string;
  readonly status: TickStatus;
  readonly scheduledAt: Date;
  readonly nextAt: Date;
  /** Of a tick that fired. */
  readonly eventId: string | null;
}

/** Writes what became of claimed ticks, and the next ones. */
export async function writeTicks(tx: Sql, ticks: readonly JudgedTick[]): Promise<void> {
  if (ticks.length === 0) return;
  await tx.query(
    `update svc.schedules s set next_at = to_timestamp(w.next / 1000.0), last_at = to_timestamp(w.at / 1000.0),
            last_status = w.status, last_event_id = coalesce(w.event, s.last_event_id),
            skipped = case when w.status like 'skipped-%' then s.skipped + 1 else 0 end
       from json_to_recordset($1::json) as w (id text, status text, at bigint, next bigint, event uuid)
      where s.id = w.id and s.id = any($2::text[])`,
    [
      // Times as numbers: writing and reading them as text costs more than all else about a tick.
      JSON.stringify(
        ticks.map(({ id, status, scheduledAt, nextAt, eventId }) => ({
          id,
          status,
          at: scheduledAt.getTime(),
          next: nextAt.getTime(),
          event: eventId ?? undefined,
        })),
      ),
      // By their ids, whatever the planner believes to know of the table.
      ticks.map((one) => one.id),
    ],
    'write-ticks',
  );
}

export interface SchedulePattern {
  readonly cron: string;
  readonly timezone: string;
}

/** When schedules tick, each expression once; those that stand still are left out. */
export async function schedulePatterns(sql: Sql): Promise<SchedulePattern[]> {
  const { rows } = await sql.query<SchedulePattern>(
    'select distinct cron, timezone from svc.schedules where next_at <> $1::timestamptz',
    [noTick],
  );
  return rows;
}

/** Has schedules that are due later than their expression says be due then; answers with how many there were. */
export async function bringForward(
  sql: Sql,
  patterns: readonly (SchedulePattern & { readonly nextAt: Date })[],
): Promise<number> {
  const { rowCount } = await sql.query(
    `with late as (
       select s.id, w."nextAt" from svc.schedules s
         join jsonb_to_recordset($1::jsonb) as w (cron text, timezone text, "nextAt" timestamptz)
           on s.cron = w.cron and s.timezone = w.timezone and s.next_at > w."nextAt"
        where s.next_at <> $2::timestamptz order by s.id for update of s)
     update svc.schedules s set next_at = late."nextAt" from late where s.id = late.id`,
    [JSON.stringify(patterns), noTick],
  );
  return rowCount;
}

/** When the next tick of any project is due; null where there is none. */
export async function nextDueAt(sql: Sql): Promise<Date | null> {
  const { rows } = await sql.query<{ at: Date }>(
    `select s.next_at as at from svc.schedules s join svc.projects p on p.id = s.project_id and p.archived_at is null
      order by s.next_at limit 1`,
    [],
    'next-schedule',
  );
  return rows[0]?.at ?? null;
}

/** Schedules whose next tick lies before a moment, soonest first. */
export async function schedulesDueBefore(
  sql: Sql,
  projectId: string,
  to: Date,
  limit: number,
): Promise<{ readonly id: string; readonly cron: string; readonly timezone: string }[]> {
  const { rows } = await sql.query<{ id: string; cron: string; timezone: string }>(
    `select id, cron, timezone from svc.schedules where project_id = $1::uuid and next_at < $2::timestamptz
      order by next_at, id limit $3::int`,
    [projectId, to, limit],
  );
  return rows;
}
