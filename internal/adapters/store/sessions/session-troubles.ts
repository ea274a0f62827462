// What a doctor looks for among sessions. Reads only.

import type { Harness, ModelProvider } from '../../../domain/spec.ts';
import type { Sql } from '../store.ts';
import { fromTheLastOf, suspectText } from './upkeep.ts';

export interface SessionTroubles {
  /** Agents of the project by what they run on. `provider` null: the harness's default. */
  readonly agents: readonly { harness: Harness; provider: ModelProvider | null; agents: number }[];
  /** Sessions that no daemon can take, by what they wait for; `reason`: as the latest of them says it. */
  readonly waiting: readonly {
    waitsFor: 'harness' | 'key' | 'engine';
    harness: Harness;
    sessions: number;
    reason: string;
  }[];
  /** Those that a spend cap keeps from going on, or from being launched. */
  readonly blocked: readonly { id: string; agent: string; reason: string }[];
  /** Agents whose latest session failed within the day, has failed to launch, or is idle after a message was given up. */
  readonly failing: readonly { id: string; agent: string; state: string; reason: string }[];
  /** Whose successor ended the process again and again, and is not made any more. */
  readonly unreplaced: readonly { id: string; agent: string; live: boolean }[];
  /** Requests of harnesses that a person has to answer. */
  readonly asking: readonly { id: string; agent: string; permission: string; title: string }[];
}

const shownMax = 20;

/** What keeps sessions of a project from going on, or has ended them badly: at most twenty of each kind. */
export async function findSessionTroubles(sql: Sql, projectId: string, now: Date): Promise<SessionTroubles> {
  const agents = await sql.query<SessionTroubles['agents'][number]>(
    `select spec ->> 'harness' as harness, spec #>> '{model,provider}' as provider, count(*)::int as agents
       from svc.agents where project_id = $1::uuid group by 1, 2 order by 1, 2`,
    [projectId],
  );
  const waiting = await sql.query<SessionTroubles['waiting'][number]>(
    `select s.waits_for as "waitsFor", r.spec ->> 'harness' as harness, count(*)::int as sessions,
            coalesce((array_agg(s.reason order by s.id desc))[1], '') as reason
       from svc.sessions s join svc.agent_revisions r on r.agent_id = s.agent_id and r.revision = s.revision
      where s.project_id = $1::uuid and s.state = 'queued' and s.waits_for in ('harness', 'key', 'engine')
      group by 1, 2 order by 1, 2`,
    [projectId],
  );
  const blocked = await sql.query<SessionTroubles['blocked'][number]>(
    `select id, agent, coalesce(reason, '') as reason from svc.sessions
      where project_id = $1::uuid and live and (state = 'blocked' or (state = 'queued' and waits_for = 'cap'))
      order by id desc limit ${shownMax}`,
    [projectId],
  );
  const failing = await sql.query<SessionTroubles['failing'][number]>(
    `select s.id, s.agent, s.state, coalesce(s.reason, '') as reason
       from svc.agents a cross join lateral (
         select id, agent_id, project_id, agent, state, reason, ended_at, failures from svc.sessions
          where ${fromTheLastOf('a')} limit 1) s
      where a.project_id = $1::uuid and s.agent_id = a.id and s.project_id = a.project_id and s.agent = a.name and (s.state = 'failed' and s.ended_at > $2::timestamptz - interval '1 day'
         or s.state in ('queued', 'suspended') and s.failures > 0 or s.state = 'idle' and s.reason is not null) order by s.id desc limit ${shownMax}`,
    [projectId, now],
  );
  const unreplaced = await sql.query<SessionTroubles['unreplaced'][number]>(
    `select s.id, s.agent, s.live from svc.suspects p cross join lateral (
         select id, project_id, agent_id, agent, live, state from svc.sessions where id = split_part(p.id, ':', 2)::uuid limit 1) s
       join svc.agents a on a.id = s.agent_id
      where p.kind = 'session' and p.ends > 3 and p.id like 'successor:%'
        and s.project_id = $1::uuid and p.id = ${suspectText('s.id', 'a.revision')}
        and (s.live or s.state = 'failed' and s.id = (select id from svc.sessions where ${fromTheLastOf('a')} limit 1))
      order by s.id desc limit ${shownMax}`,
    [projectId],
  );
  const asking = await sql.query<SessionTroubles['asking'][number]>(
    `select s.id, s.agent, q.id as permission, q.title from svc.permissions q join svc.sessions s on s.id = q.session_id
      where s.project_id = $1::uuid and q.state = 'open' order by q.created_at, q.id limit ${shownMax}`,
    [projectId],
  );
  return {
    agents: agents.rows,
    waiting: waiting.rows,
    blocked: blocked.rows,
    failing: failing.rows,
    unreplaced: unreplaced.rows,
    asking: asking.rows,
  };
}

/** Whether a secret of this name resolves for a project now. Opens nothing and stamps nothing. */
export async function secretIsThere(
  sql: Sql,
  project: { readonly id: string; readonly orgId: string },
  name: string,
  now: Date,
): Promise<boolean> {
  const { rows } = await sql.query(
    `select from svc.secrets s
      where s.org_id = $2::uuid and (s.project_id = $1::uuid or s.project_id is null) and s.name = $3::text
        and (s.expires_at is null or s.expires_at > $4::timestamptz)
        and (s.idle_expiry_seconds is null
          or s.idle_since + make_interval(secs => s.idle_expiry_seconds) > $4::timestamptz) limit 1`,
    [project.id, project.orgId, name, now],
  );
  return rows.length > 0;
}
