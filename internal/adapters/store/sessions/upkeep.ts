// What upkeep looks for: sessions to archive, and slots to fill again. Readers only; every change goes through the records
// under the routing lock and looks again there.

import type { AgentSpec } from '../../../domain/spec.ts';
import type { Sql } from '../store.ts';

export interface InactiveSession {
  readonly sessionId: string;
  readonly projectId: string;
  readonly seconds: number;
}

// What is in flight counts as something that goes on, but in a turn that waits for a person's answer.
const inactive = `s.live and s.state in ('idle', 'suspended', 'queued', 'blocked', 'waiting_permission')
  and s.active_at < $1::timestamptz - make_interval(secs => (r.spec #>> '{session,archiveAfterInactive,seconds}')::int)
  and not exists (select from svc.inbox i where i.session_id = s.id
        and (i.state = 'pending' or (i.state = 'in_flight' and s.state <> 'waiting_permission')))`;

/** Sessions that nothing has happened in for as long as their agent's `archiveAfterInactive` says. */
export async function inactiveSessions(
  sql: Sql,
  now: Date,
  limit: number,
  but: readonly string[],
): Promise<InactiveSession[]> {
  const { rows } = await sql.query<InactiveSession>(
    `select s.id as "sessionId", s.project_id as "projectId",
            (r.spec #>> '{session,archiveAfterInactive,seconds}')::int as seconds
       from svc.sessions s join svc.agent_revisions r on r.agent_id = s.agent_id and r.revision = s.revision
      where r.spec #> '{session,archiveAfterInactive}' is not null and ${inactive} and s.project_id <> all($3::uuid[])
      order by s.active_at limit $2::int`,
    [now, limit, but],
    'inactive-sessions',
  );
  return rows;
}

/** Whether it still is so, with its row locked. */
export async function isInactive(tx: Sql, sessionId: string, now: Date): Promise<boolean> {
  const { rows } = await tx.query(
    `select s.id from svc.sessions s
       join svc.agent_revisions r on r.agent_id = s.agent_id and r.revision = s.revision
      where s.id = $2::uuid and ${inactive} for update of s`,
    [now, sessionId],
  );
  return rows.length > 0;
}

/** A slot that wants a successor, as it is found: there may be thousands, whose specs are nobody's yet. */
export interface ReplaceableSlot {
  readonly sessionId: string;
  readonly projectId: string;
  readonly agentId: string;
  readonly agent: string;
  /** Of the agent now: what the successor starts from. */
  readonly revision: number;
  readonly why: 'stale' | 'environment' | 'failed';
  /** Sessions of the agent that failed one after another, up to now. */
  readonly failedInARow: number;
  readonly endedAt: Date | null;
}

/** With what its successor is made of. */
export interface SlotToFill extends ReplaceableSlot {
  readonly spec: AgentSpec;
  /** Of the one that is replaced. */
  readonly displayTitle: string;
  readonly mountRefs: { readonly [mountPath: string]: string };
  /** The event that it, or the first of those that it replaced, was spawned for. */
  readonly eventId: string | null;
  /** Keys of the chat threads that it claims; only a live one claims, and of one that failed they are those that it had. */
  readonly threads: readonly string[];
}

/** Live sessions by state. */
export async function liveByState(sql: Sql): Promise<ReadonlyMap<string, number>> {
  const { rows } = await sql.query<{ state: string; count: number }>(
    'select state, count(*)::int as count from svc.sessions where live group by state',
  );
  return new Map(rows.map((row) => [row.state, row.count]));
}

/** SQL of what `successorSuspect` says. */
export const suspectText = (sessionId: string, revision: string): string =>
  `concat_ws(':', 'successor', ${sessionId}, ${revision})`;

/** Failures one after another that are counted: what they lead to is the same from there on. */
const failuresCounted = 32;

/**
 * The sessions of an agent from its last one on, and after them those of others. An order that one index alone has: where most
 * of a project's sessions are another agent's, its own are sought among all of them by the project's index, which the
 * planner takes for as good.
 */
export const fromTheLastOf = (agent: string): string =>
  `(project_id, agent) >= (${agent}.project_id, ${agent}.name) order by project_id, agent, id desc`;

/**
 * SQL: the chat threads of the session that failed last in the slot of an agent `a`: that of its event, and those of the sessions
 * before it that failed or were replaced, which had passed to it.
 */
export const threadsLeftText = `array(
    select distinct e.target_key from (
      select l.event_id, bool_and(l.state in ('failed', 'replaced') and l.agent_id = a.id) over (order by l.id desc) as "isRun"
        from (select id, project_id, agent, agent_id, state, event_id from svc.sessions
               where ${fromTheLastOf('a')} limit ${failuresCounted}) l
       where l.project_id = a.project_id and l.agent = a.name) run
      join svc.events e on e.id = run.event_id and e.target_type = 'chat.thread'
     where run."isRun")`;

// Stale: the slot's live session (slots.ts), of an older revision or begun in an environment that has changed since, whose content is no
// part of a revision, between two turns with nothing to hear. Failed: the agent's last
// session failed while it had the slot, and nobody has it now. The last session is found by the agent's name, which another
// agent may have had before: then it is none of this one's.
const replaceableText = `with auto as (
    select id, project_id, name, revision, spec ->> 'environment' as environment from svc.agents
     where spec ->> 'replace' = 'auto' and ($1::uuid is null or id = $1::uuid)
  ), found as (
  select s.id as "sessionId", a.project_id as "projectId", a.id as "agentId", a.name as agent, a.revision,
         case when s.revision < a.revision then 'stale' else 'environment' end as why, 0 as "failedInARow", null::timestamptz as "endedAt"
    from auto a
    join svc.sessions s on s.id = coalesce(
      (select c.session_id from svc.session_claims c where c.agent_id = a.id and c.kind = 'slot'),
      (select l.id from svc.sessions l where l.agent_id = a.id and l.live order by l.id desc limit 1))
    left join svc.generated_resources g
      on g.project_id = a.project_id and g.kind = 'Environment' and g.name = a.environment
   where s.live and (s.revision < a.revision or g.updated_at > s.started_at) and s.state in ('queued', 'idle', 'suspended', 'blocked')
     and not exists (select from svc.inbox i where i.session_id = s.id and i.state = 'in_flight')
  union all
  select s.id, a.project_id, a.id, a.name, a.revision, 'failed',
         (select count(*)::int from (
            select bool_and(l.state = 'failed' and l.agent_id = a.id) over (order by l.id desc) as failed from (
              select l.* from (
                select id, project_id, agent, agent_id, state from svc.sessions where ${fromTheLastOf('a')}
                 limit ${failuresCounted}) l where l.project_id = a.project_id and l.agent = a.name) l) run where run.failed),
         s.ended_at
    from auto a
    join lateral (select id, project_id, agent, agent_id, state, ended_at from svc.sessions
                   where ${fromTheLastOf('a')} limit 1) s on s.project_id = a.project_id and s.agent = a.name
   where s.state = 'failed' and s.agent_id = a.id
     and not exists (select from svc.sessions l where l.agent_id = a.id and l.live)
  )`;
const slotToFillText = `${replaceableText}
  select found.*, a.spec, s.display_title as "displayTitle", s.mount_refs as "mountRefs", s.event_id as "eventId",
         case when found.why = 'failed' then ${threadsLeftText}
           else array(select c.key from svc.session_claims c where c.session_id = s.id and c.kind = 'thread') end as threads
    from found join svc.sessions s on s.id = found."sessionId" join svc.agents a on a.id = found."agentId"`;

/** Of what `svc.suspects` knows the making of a successor by: another revision, or another session in the slot, is another one. */
export const successorSuspect = ({ sessionId, revision }: Pick<ReplaceableSlot, 'sessionId' | 'revision'>): string =>
  `successor:${sessionId}:${revision}`;

/** Slots of agents with `replace: auto` that want a successor. */
export async function replaceableSlots(sql: Sql): Promise<ReplaceableSlot[]> {
  const { rows } = await sql.query<ReplaceableSlot>(
    `${replaceableText} select * from found`,
    [null],
    'replaceable-slots',
  );
  return rows;
}

/** The slot of an agent, where it wants a successor. */
export async function slotToFill(sql: Sql, agentId: string): Promise<SlotToFill | undefined> {
  const { rows } = await sql.query<SlotToFill>(slotToFillText, [agentId], 'slot-to-fill');
  return rows[0];
}

/** How many sessions of these agents have not ended, by agent; those that have none are absent. */
export async function liveSessionsOf(
  sql: Sql,
  projectId: string,
  agents: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  if (agents.length === 0) return new Map();
  const { rows } = await sql.query<{ agent: string; count: number }>(
    `select agent, count(*)::int as count from svc.sessions
      where project_id = $1::uuid and agent = any($2::text[]) and live
      group by agent order by agent`,
    [projectId, agents],
  );
  return new Map(rows.map((row) => [row.agent, row.count]));
}
