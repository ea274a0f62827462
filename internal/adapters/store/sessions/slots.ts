// Who has the slot of an agent that has one session at a time, and whose work waits for whoever gets it next.

import type { Sql } from '../store.ts';
import { fromTheLastOf, threadsLeftText } from './upkeep.ts';

export interface Slot {
  /** The live session that has it; null: it is free. */
  readonly sessionId: string | null;
  /** Of a free one of an agent with `replace: auto`: the session that failed in it, whose messages go to the next. */
  readonly failedId: string | null;
  /** Keys of the chat threads that go to it as well. */
  readonly threads: readonly string[];
}

interface SlotOf {
  readonly agentId: string;
  /** Whether the agent has one session at a time, so that any live one of its is that one. */
  readonly isCapped: boolean;
}

/**
 * The slots of these agents. A session that was begun before its agent was capped claims none: the newest of those has the
 * slot while it lives, or the agent would have one more beside it. What the spec says is looked at last: it may be large.
 */
export async function slotsOf(sql: Sql, agents: readonly SlotOf[]): Promise<ReadonlyMap<string, Slot>> {
  if (agents.length === 0) return new Map();
  const { rows } = await sql.query<Slot & { agentId: string }>(
    `select u.id as "agentId", coalesce(c.session_id, w.id) as "sessionId", f.id as "failedId",
            coalesce(f.threads, '{}') as threads
       from unnest($1::uuid[], $2::boolean[]) as u (id, capped)
       left join svc.session_claims c on c.agent_id = u.id and c.kind = 'slot' and c.key = ''
       left join lateral (select s.id from svc.sessions s where s.agent_id = u.id and s.live order by s.id desc limit 1) w
         on u.capped and c.session_id is null
       left join lateral (
         select l.id, ${threadsLeftText} as threads from svc.agents a cross join lateral (
             select id, project_id, agent, agent_id, state from svc.sessions where ${fromTheLastOf('a')} limit 1) l
          where a.id = u.id and l.project_id = a.project_id and l.agent = a.name
            and case when l.state = 'failed' and l.agent_id = a.id then a.spec ->> 'replace' = 'auto' else false end) f
         on u.capped and c.session_id is null and w.id is null`,
    [agents.map((one) => one.agentId), agents.map((one) => one.isCapped)],
    'slots-of',
  );
  return new Map(rows.map(({ agentId, ...slot }) => [agentId, slot]));
}

/** The slot of an agent that has one session at a time. */
export async function slotOf(sql: Sql, agentId: string): Promise<Slot> {
  const slots = await slotsOf(sql, [{ agentId, isCapped: true }]);
  return slots.get(agentId) ?? { sessionId: null, failedId: null, threads: [] };
}
