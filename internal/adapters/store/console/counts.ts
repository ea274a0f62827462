// How many there are on all pages of a list: each count stands beside the filters of the list that it belongs to, and is
// made only where somebody asks.

import type { SessionState } from '../../../core/session/session.ts';
import type { Sql } from '../store.ts';
import { isMountedWith } from './consequences.ts';

async function count(sql: Sql, text: string, values: readonly unknown[]): Promise<number> {
  const { rows } = await sql.query<{ n: number }>(`select count(*)::int as n from ${text}`, [...values]);
  return rows[0]?.n ?? 0;
}

/** `listSessions` (sessions/session-reads.ts). */
export const countSessions = (
  sql: Sql,
  projectId: string,
  filter: {
    readonly agent?: string | undefined;
    readonly state?: SessionState | undefined;
    readonly live?: boolean | undefined;
  },
): Promise<number> =>
  count(
    sql,
    `svc.sessions where project_id = $1::uuid and ($2::text is null or agent = $2::text)
       and ($3::text is null or state = $3::text) and ($4::boolean is null or live = $4::boolean)`,
    [projectId, filter.agent ?? null, filter.state ?? null, filter.live ?? null],
  );

/** `listSchedules` (resources/schedules.ts). */
export const countSchedules = (sql: Sql, projectId: string): Promise<number> =>
  count(sql, 'svc.schedules where project_id = $1::uuid', [projectId]);

/** `listTriggers` (resources/triggers.ts). */
export const countTriggers = (sql: Sql, projectId: string, agent: string | undefined): Promise<number> =>
  count(
    sql,
    `svc.triggers t join svc.agents a on a.id = t.agent_id
      where t.project_id = $1::uuid and ($2::text is null or a.name = $2::text)`,
    [projectId, agent ?? null],
  );

/** What there is of one agent. */
export async function countsOfAgent(
  sql: Sql,
  projectId: string,
  agent: { readonly id: string; readonly name: string },
): Promise<{ readonly triggers: number; readonly sessions: number; readonly liveSessions: number }> {
  const { rows } = await sql.query<{ triggers: number; sessions: number; liveSessions: number }>(
    `select (select count(*)::int from svc.triggers where agent_id = $2::uuid) as triggers,
       (select count(*)::int from svc.sessions where project_id = $1::uuid and agent = $3::text) as sessions,
       (select count(*)::int from svc.sessions where project_id = $1::uuid and agent = $3::text and live) as "liveSessions"`,
    [projectId, agent.id, agent.name],
  );
  return rows[0] ?? { triggers: 0, sessions: 0, liveSessions: 0 };
}

/** `listRepositories` (repositories/repositories.ts). */
export const countRepositories = (sql: Sql, projectId: string): Promise<number> =>
  count(sql, 'svc.repositories where project_id = $1::uuid', [projectId]);

/** `listBindings` (routing/binding-reads.ts). */
export const countBindings = (
  sql: Sql,
  projectId: string,
  filter: { readonly all: boolean; readonly agent?: string | undefined; readonly sessionId?: string | undefined },
): Promise<number> =>
  count(
    sql,
    `svc.bindings where project_id = $1::uuid and ($2::boolean or state = 'active')
       and ($3::text is null or agent = $3::text) and ($4::uuid is null or session_id = $4::uuid)`,
    [projectId, filter.all, filter.agent ?? null, filter.sessionId ?? null],
  );

/** `listConnections` (connections/connections.ts). */
export const countConnections = (sql: Sql, projectId: string): Promise<number> =>
  count(sql, 'svc.connections where project_id = $1::uuid', [projectId]);

/** `listEndpoints` (resources/endpoints.ts). */
export const countEndpoints = (sql: Sql, projectId: string, now: Date): Promise<number> =>
  count(sql, `svc.endpoints where project_id = $1::uuid and (status = 'ready' or reserved_until > $2::timestamptz)`, [
    projectId,
    now,
  ]);

/** `listSecrets` (secrets/secrets.ts). */
export const countSecrets = (
  sql: Sql,
  scope: { readonly orgId: string; readonly projectId: string | null },
): Promise<number> =>
  count(sql, 'svc.secret_metadata m where m.org_id = $1::uuid and m.project_id is not distinct from $2::uuid', [
    scope.orgId,
    scope.projectId,
  ]);

/** `listMembers` (tenancy/tenancy.ts). */
export const countMembers = (
  sql: Sql,
  of: { readonly orgId: string; readonly projectId?: string | undefined },
): Promise<number> =>
  of.projectId === undefined
    ? count(sql, 'svc.org_members where org_id = $1::uuid', [of.orgId])
    : count(sql, 'svc.project_members where project_id = $1::uuid', [of.projectId]);

/** `listReceivers` (notify/receivers.ts). */
export const countReceivers = (sql: Sql, projectId: string): Promise<number> =>
  count(sql, 'svc.receivers where project_id = $1::uuid', [projectId]);

/** `listNotices` (notify/notices.ts). */
export const countNotices = (sql: Sql, projectId: string): Promise<number> =>
  count(sql, 'svc.notices where project_id = $1::uuid', [projectId]);

/** `listCalls` (outbox/calls.ts). */
export const countCalls = (
  sql: Sql,
  of: { readonly projectId: string; readonly sessionId: string | null },
): Promise<number> =>
  of.sessionId === null
    ? count(sql, 'svc.calls where project_id = $1::uuid and session_id is null', [of.projectId])
    : count(sql, 'svc.calls where project_id = $1::uuid and session_id = $2::uuid', [of.projectId, of.sessionId]);

/** `listMessages` (sessions/session-reads.ts); `after`: only those behind this seq. */
export const countMessages = (sql: Sql, sessionId: string, after: number | undefined): Promise<number> =>
  count(sql, 'svc.messages where session_id = $1::uuid and ($2::bigint is null or seq > $2::bigint)', [
    sessionId,
    after ?? null,
  ]);

/** `listFiles` (sessions/session-results.ts). */
export const countFiles = (sql: Sql, sessionId: string): Promise<number> =>
  count(sql, 'svc.session_files where session_id = $1::uuid', [sessionId]);

/** `sessionsByCost` (sessions/usage-series.ts). */
export const countUsageSessions = (sql: Sql, projectId: string, agent: string | undefined): Promise<number> =>
  count(
    sql,
    `svc.usage_sessions u join svc.sessions s on s.id = u.session_id where u.project_id = $1::uuid and ($2::text is null
       or u.agent_id = (select id from svc.agents where project_id = $1::uuid and name = $2::text))`,
    [projectId, agent ?? null],
  );

/** `listRevisions` (resources/agents.ts). */
export const countRevisions = (sql: Sql, agentId: string): Promise<number> =>
  count(sql, 'svc.agent_revisions where agent_id = $1::uuid', [agentId]);

/** `listOrgs` (tenancy/tenancy.ts). */
export const countOrgs = (sql: Sql, principalId: string, only: string | null): Promise<number> =>
  count(
    sql,
    `svc.orgs o where (o.id = (select org_id from svc.principals where id = $1::uuid)
       or exists (select from svc.org_members m where m.org_id = o.id and m.principal_id = $1::uuid)
       or exists (select from svc.project_members x join svc.projects j on j.id = x.project_id
            where j.org_id = o.id and x.principal_id = $1::uuid)) and ($2::uuid is null or o.id = $2::uuid)`,
    [principalId, only],
  );

/** `listProjects` (tenancy/tenancy.ts). */
export const countProjects = (sql: Sql, orgId: string, principalId: string): Promise<number> =>
  count(
    sql,
    `svc.projects j where j.org_id = $1::uuid and j.deleted_at is null
       and (exists (select from svc.project_members m where m.project_id = j.id and m.principal_id = $2::uuid)
         or exists (select from svc.org_members m where m.org_id = j.org_id and m.principal_id = $2::uuid and m.role = 'admin'))`,
    [orgId, principalId],
  );

/** `listServiceAccounts` (tenancy/principals.ts). */
export const countServiceAccounts = (sql: Sql, orgId: string): Promise<number> =>
  count(sql, "svc.principals where kind = 'service_account' and org_id = $1::uuid", [orgId]);

/** `listParkedJobs` (operations/jobs.ts). */
export const countParkedJobs = (sql: Sql): Promise<number> =>
  count(sql, 'graphile_worker._private_jobs where attempts >= max_attempts and locked_at is null', []);

/** How many agents use a connection by their triggers, tools or mounts, by the ids given; those that none uses are not in it. */
export async function usersOfConnections(
  sql: Sql,
  projectId: string,
  ids: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  if (ids.length === 0) return new Map();
  // One look at the agents, however many connections there are.
  const { rows } = await sql.query<{ id: string; n: number }>(
    `select used.id, count(*)::int as n from (
       select t.connection_id as id, t.agent_id as agent from svc.triggers t
         where t.project_id = $1::uuid and t.connection_id = any($2::uuid[])
       union
       select c.id, a.id from svc.agents a join svc.connections c on c.project_id = a.project_id
         where a.project_id = $1::uuid and c.id = any($2::uuid[]) and ${isMountedWith}
       union
       select c.id, a.id from svc.agents a
         cross join lateral jsonb_path_query(a.spec -> 'tools', '$.**.connection') named (value)
         join svc.connections c on c.project_id = a.project_id and c.name = named.value #>> '{}'
         where a.project_id = $1::uuid and c.id = any($2::uuid[])) used group by used.id`,
    [projectId, ids],
  );
  return new Map(rows.map(({ id, n }) => [id, n]));
}
