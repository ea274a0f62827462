// What hangs on a thing that somebody is about to take away: counted and named, a statement for each thing. Names are cut
// to the first of many, counts are whole. Reads only, but for what a run is told of its own consequences when they are known.

import { usableStatuses } from '../../../domain/connection.ts';
import { reconcileChannel } from '../repositories/reconciles.ts';
import type { Sql } from '../store.ts';

/** How many there are, and what the first twenty are called. */
export interface Counted {
  readonly count: number;
  readonly names: readonly string[];
}

/** Of rows in a column `name`. */
const counted = (text: string): string =>
  `(select json_build_object('count', count(*)::int,
      'names', coalesce((array_agg(name order by name collate "C"))[1:20], '{}')) from (${text}) counted)`;

async function one<T>(sql: Sql, columns: { readonly [name: string]: string }, values: readonly unknown[]): Promise<T> {
  const text = Object.entries(columns).map(([name, column]) => `${column} as "${name}"`);
  const { rows } = await sql.query<T & object>(`select ${text.join(', ')}`, [...values]);
  return rows[0] as T;
}

export interface AgentDependents {
  readonly triggers: Counted;
  readonly schedules: Counted;
  readonly sessions: Counted;
  /** Endpoints that no other agent's trigger uses. */
  readonly endpoints: Counted;
}

/** Of some agents of a project. */
export const dependentsOfAgents = (
  sql: Sql,
  projectId: string,
  agents: readonly string[],
): Promise<AgentDependents> => {
  const ours = `select id from svc.agents where project_id = $1::uuid and name = any($2::text[])`;
  return one(
    sql,
    {
      triggers:
        counted(`select a.name || '#' || t.ordinal as name from svc.triggers t join svc.agents a on a.id = t.agent_id
         where t.kind = 'event' and t.agent_id in (${ours})`),
      schedules:
        counted(`select a.name || '#' || s.ordinal as name from svc.schedules s join svc.agents a on a.id = s.agent_id
         where s.agent_id in (${ours})`),
      sessions: counted(`select s.id::text as name from svc.sessions s where s.project_id = $1::uuid and s.live
         and s.agent_id in (${ours})`),
      endpoints: counted(`select e.name from svc.endpoints e where e.project_id = $1::uuid
         and exists (select from svc.triggers t where t.endpoint_id = e.id and t.agent_id in (${ours}))
         and not exists (select from svc.triggers t where t.endpoint_id = e.id and t.agent_id not in (${ours}))`),
    },
    [projectId, agents],
  );
};

export interface SecretDependents {
  readonly agents: Counted;
  readonly endpoints: Counted;
  readonly repositories: Counted;
  readonly sessions: Counted;
  /** The organization has one of the name, which is read from then on. */
  readonly isBacked: boolean;
}

/** Of a secret of a project, or of an organization: there only where a project has none of that name itself. */
export const dependentsOfSecret = (
  sql: Sql,
  scope: { readonly orgId: string; readonly projectId: string | null },
  name: string,
): Promise<SecretDependents> => {
  // By project, since a name of an organization's means it wherever the project has none of its own.
  const ours = `select p.id, case when $2::uuid is null then p.slug || '/' else '' end as prefix from svc.projects p
    where p.org_id = $1::uuid and ($2::uuid is null or p.id = $2::uuid)
      and ($2::uuid is not null or not exists (select from svc.secret_metadata m
        where m.org_id = $1::uuid and m.project_id = p.id and m.name = $3::text))`;
  const named = (spec: string): string =>
    `jsonb_path_exists(${spec}, '$.** ? (@."$secret" == $name)', jsonb_build_object('name', $3::text))`;
  const readers = `select a.id, p.prefix || a.name as name from svc.agents a join (${ours}) p on p.id = a.project_id
    where ${named('a.spec')} or exists (select from svc.generated_resources g where g.project_id = a.project_id
      and g.kind = 'Environment' and g.name = a.environment and ${named('g.spec')})`;
  return one(
    sql,
    {
      agents: counted(`select name from (${readers}) r`),
      endpoints: counted(`select p.prefix || e.name as name from svc.endpoints e join (${ours}) p on p.id = e.project_id
         where e.auth ->> 'secretRef' = $3::text`),
      repositories:
        counted(`select p.prefix || r.name as name from svc.repositories r join (${ours}) p on p.id = r.project_id
         where r.auth ->> 'secretRef' = $3::text`),
      sessions: counted(`select s.id::text as name from svc.sessions s where s.live
         and s.agent_id in (select id from (${readers}) r)`),
      isBacked: `($2::uuid is not null and exists (select from svc.secret_metadata m
         where m.org_id = $1::uuid and m.project_id is null and m.name = $3::text))`,
    },
    [scope.orgId, scope.projectId, name],
  );
};

export interface ConnectionDependents {
  /** Optional triggers, which are skipped from then on. */
  readonly triggers: Counted;
  /** Agents whose tools name it. */
  readonly agents: Counted;
  /** Agents with mounts that are read with it. */
  readonly mounts: Counted;
  readonly repositories: Counted;
  readonly receivers: Counted;
}

/**
 * Whether a mount of agent `a` is read with connection `c`, as `codehostOf` (flows/codehost-mounts.ts) chooses: the one of
 * its installation, or the only one that can be used.
 */
export const isMountedWith = `(c.provider = 'codehost' and exists (
  select from jsonb_array_elements(a.spec -> 'mounts') m where m -> 'auth' ->> 'kind' = 'codehostApp'
    and (m -> 'auth' ->> 'installationId' = c.config ->> 'installationId'
      or not exists (select from svc.connections other where other.project_id = c.project_id and other.id <> c.id
        and other.provider = 'codehost'
        and other.status in (${usableStatuses.map((status) => `'${status}'`).join(', ')})))))`;

export const dependentsOfConnection = (
  sql: Sql,
  projectId: string,
  connection: { readonly id: string; readonly name: string },
): Promise<ConnectionDependents> =>
  one(
    sql,
    {
      triggers:
        counted(`select a.name || '#' || t.ordinal as name from svc.triggers t join svc.agents a on a.id = t.agent_id
         where t.connection_id = $2::uuid and t.project_id = $1::uuid`),
      agents: counted(`select a.name from svc.agents a where a.project_id = $1::uuid
         and jsonb_path_exists(a.spec -> 'tools', '$.** ? (@.connection == $name)', jsonb_build_object('name', $3::text))`),
      mounts: counted(`select a.name from svc.agents a join svc.connections c on c.id = $2::uuid
         where a.project_id = $1::uuid and ${isMountedWith}`),
      repositories: counted(`select name from svc.repositories where project_id = $1::uuid
         and auth ->> 'kind' = 'connection' and auth ->> 'connection' = $3::text`),
      receivers: counted(`select name from svc.receivers where project_id = $1::uuid and connection = $3::text`),
    },
    [projectId, connection.id, connection.name],
  );

/** How many of a project's newest 10,000 events came in by an endpoint. */
export async function callsOfEndpoint(sql: Sql, projectId: string, endpointId: string): Promise<number> {
  const { rows } = await sql.query<{ n: number }>(
    `select count(*)::int as n from (select endpoint_id from svc.events where project_id = $1::uuid
       order by seq desc limit 10000) e where e.endpoint_id = $2::uuid`,
    [projectId, endpointId],
  );
  return rows[0]?.n ?? 0;
}

const schedulesOfProject = `select a.name || '#' || s.ordinal as name from svc.schedules s
  join svc.agents a on a.id = s.agent_id where s.project_id = $1::uuid`;

export interface ProjectDependents {
  readonly agents: Counted;
  readonly repositories: Counted;
  readonly schedules: Counted;
  readonly sessions: Counted;
  readonly secrets: Counted;
  readonly connections: Counted;
  readonly endpoints: Counted;
}

export const dependentsOfProject = (sql: Sql, projectId: string): Promise<ProjectDependents> => {
  const of = (table: string, name: string, more = ''): string =>
    counted(`select ${name} as name from svc.${table} where project_id = $1::uuid${more}`);
  return one(
    sql,
    {
      agents: of('agents', 'name'),
      repositories: of('repositories', 'name'),
      schedules: counted(schedulesOfProject),
      sessions: of('sessions', 'id::text', ' and live'),
      secrets: of('secret_metadata', 'name'),
      connections: of('connections', 'name'),
      endpoints: of('endpoints', 'name'),
    },
    [projectId],
  );
};

export interface ArchiveDependents {
  readonly repositories: Counted;
  readonly schedules: Counted;
  readonly endpoints: Counted;
  readonly connections: Counted;
  readonly sessions: Counted;
}

/** What an archived project does not do. */
export const restingInProject = (sql: Sql, projectId: string): Promise<ArchiveDependents> => {
  const of = (table: string, name: string, more = ''): string =>
    counted(`select ${name} as name from svc.${table} where project_id = $1::uuid${more}`);
  return one(
    sql,
    {
      repositories: of('repositories', 'name'),
      schedules: counted(schedulesOfProject),
      endpoints: of('endpoints', 'name', " and status = 'ready'"),
      connections: of('connections', 'name'),
      sessions: of('sessions', 'id::text', ' and live'),
    },
    [projectId],
  );
};

export interface PrincipalDependents {
  /** Projects of the organization in which it has a role. */
  readonly projects: Counted;
  /** Live tokens that open the organization, or a project of it. */
  readonly tokens: Counted;
  /** Browsers that are signed in as it. */
  readonly browsers: Counted;
  /** Projects in which nobody but it has a role of the project's own. */
  readonly alone: Counted;
}

const aliveToken = '(t.revoked_at is null and (t.expires_at is null or t.expires_at > $3::timestamptz))';
const aliveBrowser = '(w.ended_at is null and w.expires_at > $3::timestamptz)';

/** Of a person or a service account, within an organization. */
export const dependentsOfPrincipal = (
  sql: Sql,
  orgId: string,
  principalId: string,
  now: Date,
): Promise<PrincipalDependents> => {
  const ours = `svc.project_members m join svc.projects p on p.id = m.project_id
    where p.org_id = $1::uuid and p.deleted_at is null and m.principal_id = $2::uuid`;
  return one(
    sql,
    {
      projects: counted(`select p.slug as name from ${ours}`),
      tokens: counted(`select t.name from svc.api_tokens t where t.principal_id = $2::uuid and ${aliveToken}
         and (t.org_id is null or t.org_id = $1::uuid)`),
      browsers: counted(`select w.method as name from svc.web_sessions w
         where w.principal_id = $2::uuid and ${aliveBrowser}`),
      alone: counted(`select p.slug as name from ${ours} and not exists (select from svc.project_members o
         where o.project_id = m.project_id and o.principal_id <> m.principal_id)`),
    },
    [orgId, principalId, now],
  );
};

/** Browsers that were opened with a token, and so end with it. */
export async function browsersOfToken(sql: Sql, tokenId: string, now: Date): Promise<number> {
  const { rows } = await sql.query<{ n: number }>(
    `select count(*)::int as n from svc.web_sessions w where w.token_id = $1::uuid and w.ended_at is null
        and w.expires_at > $2::timestamptz`,
    [tokenId, now],
  );
  return rows[0]?.n ?? 0;
}

export interface ReceiverDependents {
  /** What it was not told yet. */
  readonly pending: Counted;
  /** Others of the project that are told something. */
  readonly others: Counted;
}

export const dependentsOfReceiver = (sql: Sql, projectId: string, name: string): Promise<ReceiverDependents> =>
  one(
    sql,
    {
      pending: counted(`select n.condition as name from svc.notifications t join svc.notices n on n.id = t.notice_id
         where n.project_id = $1::uuid and t.receiver = 'receiver:' || $2::text and t.due_at is not null`),
      others: counted(`select r.name from svc.receivers r
         where r.project_id = $1::uuid and r.name <> $2::text and not r.suspended`),
    },
    [projectId, name],
  );

export interface OrgDependents {
  readonly members: Counted;
  readonly accounts: Counted;
  readonly secrets: Counted;
  readonly tokens: Counted;
}

/** Of an organization without projects. */
export const dependentsOfOrg = (sql: Sql, orgId: string, now: Date): Promise<OrgDependents> =>
  one(
    sql,
    {
      members: counted(`select p.name from svc.org_members m join svc.principals p on p.id = m.principal_id
         where m.org_id = $1::uuid and p.kind = 'user'`),
      accounts: counted(`select p.name from svc.principals p where p.org_id = $1::uuid and p.kind = 'service_account'`),
      secrets: counted('select m.name from svc.secret_metadata m where m.org_id = $1::uuid and m.project_id is null'),
      tokens: counted(`select t.name from svc.api_tokens t where t.org_id = $1::uuid and t.revoked_at is null
         and (t.expires_at is null or t.expires_at > $2::timestamptz)`),
    },
    [orgId, now],
  );

/**
 * Notes of a run that has applied what its change of triggers does to the events of the last days, worked out after its
 * commit. Once: what a run says of itself when it ends is never written over.
 */
export async function noteImpact(sql: Sql, id: string, impact: object): Promise<void> {
  await sql.query(
    `with noted as (
       update svc.reconciles set version = nextval('svc.reconcile_versions'),
              consequences = jsonb_set(consequences, '{eventImpact}', $2::jsonb)
        where id = $1::uuid and status = 'applied' and not consequences ? 'eventImpact'
       returning project_id)
     select svc.tell('${reconcileChannel}', project_id::text) from noted`,
    [id, JSON.stringify(impact)],
  );
}
