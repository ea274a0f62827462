// What there is of a project right now, narrow enough to be looked at often: the latest events and runs, the sessions that
// live and the latest others, its connections and agents, each with a mark that is another one after it has changed.
// Nothing is written for this anywhere; whoever looks twice sees from the marks what has changed.

import type { Sql } from '../store.ts';

export type ChangeTopic = 'events' | 'sessions' | 'reconciles' | 'agents' | 'connections';

export interface Mark {
  /** Of repositories it is told with their runs. */
  readonly topic: ChangeTopic | 'repositories';
  /** As in the address of its page: an id, or the name of an agent or connection; of a repository its id. */
  readonly id: string;
  readonly mark: string;
  /** When it last changed, as far as its row says, in milliseconds. */
  readonly atMs: number;
}

/** Of each topic, so many of the latest are looked at; where all of them are new there may be more. */
export const latestMax = { events: 300, reconciles: 100, sessions: 600 } as const;

const ms = (at: string): string => `(extract(epoch from ${at}) * 1000)::float8`;
// What a session says, or is told while it waits, is looked for where that may be: the last number of its transcript, by its
// key. One that is idle begins to run with what it is told.
const said = `case when s.live and s.state <> 'idle'
  then (select max(m.seq) from svc.messages m where m.session_id = s.id) end`;
const sessionMark = `concat_ws(' ', s.state, s.reason, s.leased_by, s.wire, s.active_at, s.display_title, u.calls, ${said})`;
const sessionAt = ms('greatest(s.created_at, s.active_at, s.ended_at)');
const sessionRow = `select 'sessions' as topic, s.id::text as id, ${sessionMark} as mark, ${sessionAt} as "atMs"
  from svc.sessions s left join svc.usage_sessions u on u.session_id = s.id`;

/**
 * `known`: events and sessions that were not over at the last look, beside the latest. Agents and repositories are looked at
 * where `withAgents` says so: they change with runs or by hand, and are many; with one its identity changes, which may be another's too. Runs stand in the order of their column: by the text that is read
 * of it 99 would be later than 100.
 */
export async function readMarks(
  sql: Sql,
  projectId: string,
  of: { readonly events: readonly string[]; readonly sessions: readonly string[]; readonly withAgents: boolean },
): Promise<Mark[]> {
  const { rows } = await sql.query<Mark>(
    `(select 'events' as topic, id::text as id, router_status as mark, ${ms('received_at')} as "atMs"
        from svc.events where project_id = $1::uuid order by seq desc limit ${latestMax.events})
     union all select 'events', id::text, router_status, ${ms('received_at')}
        from svc.events where project_id = $1::uuid and id = any($2::uuid[])
     union all (select 'reconciles', id::text, version::text, ${ms('greatest(started_at, finished_at)')}
        from svc.reconciles r where project_id = $1::uuid order by r.version desc limit ${latestMax.reconciles})
     union all (${sessionRow} where s.project_id = $1::uuid and s.live order by s.id desc limit 500)
     union all (${sessionRow} where s.project_id = $1::uuid order by s.id desc limit 100)
     union all ${sessionRow} where s.project_id = $1::uuid and s.id = any($3::uuid[])
     union all select 'connections', name, concat_ws(' ', id, status, reason, updated_at), ${ms('updated_at')}
        from svc.connections where project_id = $1::uuid
     union all select 'agents', a.name, concat_ws(' ', a.id, a.revision, a.repository_id, a.updated_at, i.updated_at),
          ${ms('greatest(a.updated_at, i.updated_at)')}
        from svc.agents a left join svc.generated_resources i
          on i.project_id = a.project_id and i.kind = 'Identity' and i.name = a.identity
        where a.project_id = $1::uuid and $4::boolean
     union all select 'repositories', r.id::text, concat_ws(' ', r.updated_at, s.updated_at),
          ${ms('greatest(r.updated_at, s.updated_at)')}
        from svc.repositories r left join svc.repository_states s on s.repository_id = r.id
        where r.project_id = $1::uuid and $4::boolean`,
    [projectId, of.events, of.sessions, of.withAgents],
    'console-marks',
  );
  return rows;
}
