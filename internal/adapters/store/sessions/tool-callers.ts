// Who calls a tool: the live session that a token belongs to. A token opens its own session and nothing else, and stops
// to do so in the transaction that ends the session or takes it from its host.

import type { Json } from '../../../domain/json.ts';
import type { AgentSpec } from '../../../domain/spec.ts';
import type { Sql } from '../store.ts';
import type { RoutingTx } from '../routing/routing-lock.ts';
import { storable } from '../schema/text.ts';

/** What of an agent's spec says what its sessions may call, and how: never its texts, which may be megabytes. */
export type CallerSpec = Pick<AgentSpec, (typeof asked)[number]>;
const asked = ['mounts', 'tools', 'bindings', 'session', 'manages'] as const;

export interface ToolCaller {
  readonly sessionId: string;
  readonly agentId: string;
  readonly agent: string;
  readonly revision: number;
  readonly state: string;
  /** Of the revision that the session was started from. */
  readonly spec: CallerSpec;
  readonly project: { readonly id: string; readonly slug: string; readonly orgId: string; readonly orgSlug: string };
  readonly isArchived: boolean;
  readonly eventId: string | null;
  /** Target of the event that it was spawned for. */
  readonly target: { readonly type: string; readonly key: string } | null;
  readonly hasChecks: boolean;
}

/** The session of that id whose token has that SHA-256; undefined where there is none that lives. */
export async function callerByToken(sql: Sql, sessionId: string, tokenHash: Buffer): Promise<ToolCaller | undefined> {
  const { rows } = await sql.query<ToolCaller>(
    `select s.id as "sessionId", s.agent_id as "agentId", s.agent, s.revision, s.state, s.event_id as "eventId",
            json_build_object('id', p.id, 'slug', p.slug, 'orgId', o.id, 'orgSlug', o.slug) as project,
            p.archived_at is not null as "isArchived",
            case when e.target_type is not null
              then json_build_object('type', e.target_type, 'key', e.target_key) end as target,
            (select jsonb_object_agg(f.name, r.spec -> f.name) from unnest($3::text[]) f (name) where r.spec ? f.name) as spec,
            exists (select from svc.checks c where c.session_id = s.id) as "hasChecks"
       from svc.sessions s
       join svc.agent_revisions r on r.agent_id = s.agent_id and r.revision = s.revision
       join svc.projects p on p.id = s.project_id
       join svc.orgs o on o.id = p.org_id
       left join svc.events e on e.id = s.event_id
      where s.id = $1::uuid and s.token_hash = $2::bytea and s.live`,
    [sessionId, tokenHash, asked],
    'tool-caller',
  );
  return rows[0];
}

/** The session that a call under this key has made or told before. */
export async function spawnedUnder(sql: Sql, parentId: string, key: string): Promise<string | undefined> {
  const { rows } = await sql.query<{ id: string }>(
    `select id from svc.sessions where parent_id = $1::uuid and idempotency_key = $2::text
     union all
     select session_id from svc.converted_spawns where parent_id = $1::uuid and idempotency_key = $2::text`,
    [parentId, key],
  );
  return rows[0]?.id;
}

export interface Family {
  /** How many spawns lead to it, counted no further than asked: 0 for a session that none has spawned. */
  readonly depth: number;
  /** Of those that it spawned, how many live. */
  readonly live: number;
  /** And how many were made since. */
  readonly recent: number;
}

/** What a session comes from and has spawned. One that replaces another stands where that one stood. */
export async function familyOf(
  tx: RoutingTx,
  of: { readonly sessionId: string; readonly since: Date; readonly depthMax: number },
): Promise<Family> {
  const { rows } = await tx.query<Family>(
    `with recursive line as (
       select s.id, s.parent_id, s.origin, (s.origin = 'session')::int as depth, 1 as steps
         from svc.sessions s where s.id = $1::uuid
       union all
       select p.id, p.parent_id, p.origin, line.depth + (p.origin = 'session')::int, line.steps + 1
         from line join svc.sessions p on p.id = line.parent_id
        where line.depth < $3::int and line.steps < 1000
     )
     select (select max(depth) from line) as depth,
       (select count(*)::int from svc.sessions c where c.parent_id = $1::uuid and c.live and c.origin = 'session') as live,
       (select count(*)::int from svc.sessions c
         where c.parent_id = $1::uuid and c.created_at > $2::timestamptz and c.origin = 'session') as recent`,
    [of.sessionId, of.since, of.depthMax],
  );
  return rows[0] ?? { depth: 0, live: 0, recent: 0 };
}

/** Keeps that a spawn became a message to a session that was there: the same key must not say it twice. */
export async function noteConverted(
  tx: RoutingTx,
  spawn: { readonly parentId: string; readonly key: string; readonly sessionId: string },
): Promise<void> {
  await tx.query(
    `insert into svc.converted_spawns (parent_id, idempotency_key, session_id)
     values ($1::uuid, $2::text, $3::uuid)`,
    [spawn.parentId, spawn.key, spawn.sessionId],
  );
}

/** Ends a session's subscription to a target; true where there was one. */
export async function dropSubscription(
  tx: RoutingTx,
  sessionId: string,
  target: { readonly type: string; readonly key: string },
): Promise<boolean> {
  const { rowCount } = await tx.query(
    `delete from svc.session_ties where project_id = $1::uuid and session_id = $2::uuid and target_type = $3::text
        and target_key = $4::text and relation = 'subscribed'`,
    [tx.projectId, sessionId, target.type, storable(target.key)],
  );
  return rowCount > 0;
}

/** Name of a session's agent, of any session of the project, live or ended. */
export async function agentOfSession(sql: Sql, projectId: string, id: string): Promise<string | undefined> {
  const { rows } = await sql.query<{ agent: string }>(
    'select agent from svc.sessions where project_id = $1::uuid and id = $2::uuid',
    [projectId, id],
  );
  return rows[0]?.agent;
}

/** An environment's or an identity's spec. */
export async function generatedByName(
  sql: Sql,
  projectId: string,
  kind: 'Environment' | 'Identity',
  name: string,
): Promise<Json | undefined> {
  const { rows } = await sql.query<{ spec: Json }>(
    'select spec from svc.generated_resources where project_id = $1::uuid and kind = $2::text and name = $3::text',
    [projectId, kind, name],
  );
  return rows[0]?.spec;
}

/** Events of the project, newest first, that are looked through for the spelling of a name. */
const namingEvents = 2_000;

/**
 * A repository of the code host as the host itself spells it, by what it has told lately; undefined for one
 * that nothing is known of.
 */
export async function repositorySpelling(sql: Sql, projectId: string, repository: string): Promise<string | undefined> {
  const { rows } = await sql.query<{ name: string }>(
    `select split_part(key, '#', 1) as name from (
       select target_type as type, target_key as key, seq from svc.events
        where project_id = $1::uuid order by seq desc limit $3::int) e
      where type like 'codehost.%' and lower(split_part(key, '#', 1)) = lower($2::text) order by seq desc limit 1`,
    [projectId, repository, namingEvents],
  );
  return rows[0]?.name;
}
