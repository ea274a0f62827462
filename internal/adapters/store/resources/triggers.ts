// svc.triggers: one row per event key and heartbeat, (agent, ordinal) its key; the ordinal is the index in the agent's
// expanded triggers. A heartbeat's event key holds its agent's id, which is why the database writes it.

import type { CurrentTrigger, TriggerWrite, Writes } from '../../../core/plan/types.ts';
import type { JsonObject } from '../../../domain/json.ts';
import type { AgentSpec, Mount, Trigger } from '../../../domain/spec.ts';
import { type EarlyEnd, earlyEnd, endingEarly, jsonBytes, type Sized } from '../schema/early-end.ts';
import type { Sql } from '../store.ts';
import { jsonbSlices } from '../schema/jsonb-slices.ts';
import { hashOrDrift } from './drift.ts';

/** What planning sees of a project's ($1) triggers. */
export const triggersSeen = `select t.agent_id as "agentId", t.ordinal, t.event, t.endpoint_id as "endpointId",
    t.connection_id as "connectionId", t.status, ${hashOrDrift('t')} as hash
  from svc.triggers t where t.project_id = $1::uuid`;

/** Every trigger row of a project, without specs. */
export async function readTriggers(sql: Sql, projectId: string): Promise<CurrentTrigger[]> {
  const { rows } = await sql.query<CurrentTrigger>(`${triggersSeen} order by t.agent_id, t.ordinal`, [projectId]);
  return rows;
}

/** Trigger specs by `agentId/ordinal`, of the whole project. */
export async function readTriggerSpecs(sql: Sql, projectId: string): Promise<ReadonlyMap<string, JsonObject>> {
  const { rows } = await sql.query<{ agentId: string; ordinal: number; spec: JsonObject }>(
    'select agent_id as "agentId", ordinal, spec from svc.triggers where project_id = $1::uuid',
    [projectId],
  );
  return new Map(rows.map((row) => [`${row.agentId}/${row.ordinal}`, row.spec]));
}

/** Call after agents and endpoints are written. */
export async function writeTriggers(tx: Sql, projectId: string, triggers: readonly TriggerWrite[]): Promise<void> {
  if (triggers.length === 0) return;
  const text = `insert into svc.triggers
       (project_id, agent_id, ordinal, kind, event, endpoint_id, connection_id, spec, spec_hash, spec_sum, status)
     select $1::uuid, a.id, w.ordinal, w.kind, coalesce(w.event, format('heartbeat.%s.%s', a.id, w.ordinal)),
            e.id, w."connectionId", w.spec, w.hash, md5(w.spec::text), w.status
       from jsonb_to_recordset($2::jsonb) as w (agent text, ordinal int, kind text, event text, endpoint text,
         "connectionId" uuid, spec jsonb, hash text, status text)
       join svc.agents a on a.project_id = $1::uuid and a.name = w.agent
       left join svc.endpoints e on e.project_id = $1::uuid and e.name = w.endpoint
     on conflict (agent_id, ordinal) do update set kind = excluded.kind, event = excluded.event,
       endpoint_id = excluded.endpoint_id, connection_id = excluded.connection_id, spec = excluded.spec,
       spec_hash = excluded.spec_hash, spec_sum = excluded.spec_sum, status = excluded.status`;
  for await (const slice of jsonbSlices(triggers)) await tx.query(text, [projectId, slice]);
}

/** By agent and ordinal; set-wise. */
export async function deleteTriggers(tx: Sql, triggers: Writes['triggerDeletes']): Promise<void> {
  if (triggers.length === 0) return;
  await tx.query(
    `delete from svc.triggers t using unnest($1::uuid[], $2::int[]) as w (agent_id, ordinal)
      where t.agent_id = w.agent_id and t.ordinal = w.ordinal`,
    [triggers.map((row) => row.agentId), triggers.map((row) => row.ordinal)],
  );
}

export interface TriggerRow {
  readonly agentId: string;
  readonly agent: string;
  readonly ordinal: number;
  readonly kind: 'event' | 'heartbeat';
  readonly event: string;
  readonly endpoint: string | null;
  /** Name of the connection that the apply resolved, else the one that the trigger names. */
  readonly connection: string | null;
  readonly spec: JsonObject;
  readonly status: 'active' | 'skipped';
}

export interface TriggerFilter {
  readonly agent?: string | undefined;
  readonly endpointId?: string | undefined;
  /** Only those of webhook endpoints. */
  readonly onEndpoints?: true;
  readonly after?: readonly [agent: string, ordinal: number] | undefined;
  readonly limit: number;
}

/** A page of a project's triggers, by agent and ordinal. */
export async function listTriggers(sql: Sql, projectId: string, filter: TriggerFilter): Promise<EarlyEnd<TriggerRow>> {
  const text = endingEarly(triggersSql(', t.spec'), { size: jsonBytes('spec'), order: 'agent collate "C", ordinal' });
  return earlyEnd((await sql.query<TriggerRow & Sized>(text, valuesOf(projectId, filter))).rows);
}

/** A trigger without what may be large of it. */
export type TriggerHead = Omit<TriggerRow, 'spec'>;

/** Triggers of a project without their specs. */
export async function listTriggerHeads(sql: Sql, projectId: string, filter: TriggerFilter): Promise<TriggerHead[]> {
  return (await sql.query<TriggerHead>(triggersSql(''), valuesOf(projectId, filter))).rows;
}

const triggersSql = (spec: string): string =>
  `select a.id as "agentId", a.name as agent, t.ordinal, t.kind, t.event, e.name as endpoint,
            coalesce(c.name, t.spec ->> 'connection') as connection${spec}, t.status
       from svc.triggers t
       join svc.agents a on a.id = t.agent_id
       left join svc.endpoints e on e.id = t.endpoint_id
       left join svc.connections c on c.id = t.connection_id
      where t.project_id = $1::uuid and ($2::text is null or a.name = $2::text)
        and ($3::uuid is null or t.endpoint_id = $3::uuid) and (not $7::boolean or t.endpoint_id is not null)
        and ($4::text is null or (a.name collate "C", t.ordinal) > ($4::text collate "C", $5::int))
      order by a.name collate "C", t.ordinal limit $6::int`;

const valuesOf = (projectId: string, filter: TriggerFilter): readonly unknown[] => [
  projectId,
  filter.agent ?? null,
  filter.endpointId ?? null,
  filter.after?.[0] ?? null,
  filter.after?.[1] ?? null,
  filter.limit,
  filter.onEndpoints === true,
];

/** What of an agent decides where its triggers' events go. */
interface DecidingAgent {
  readonly concurrency: 1 | null;
  /** Without the notes of bindings. */
  readonly bindings: AgentSpec['bindings'];
  /** Those of the agent that have a ref. */
  readonly mounts: readonly Pick<Mount, 'mountPath' | 'ref'>[];
}

/** An active trigger as far as it decides where events go; what it says is not told. */
export interface ActiveTrigger extends DecidingAgent {
  readonly agentId: string;
  readonly agent: string;
  readonly ordinal: number;
  readonly event: string;
  readonly endpointId: string | null;
  readonly endpoint: string | null;
  readonly connectionId: string | null;
  readonly spec: Pick<Trigger, 'where' | 'fallback' | 'routing'>;
}

/**
 * A project's active triggers on any of these event keys, with what routing needs of their agents. That is read with the first
 * trigger of each: with every one it would be read as often as an agent has any, and it may be large.
 */
export async function activeTriggersOn(
  sql: Sql,
  projectId: string,
  keys: readonly string[],
  limit?: number,
): Promise<ActiveTrigger[]> {
  const { rows } = await sql.query<Omit<ActiveTrigger, keyof DecidingAgent> & { deciding: DecidingAgent | null }>(
    `with found as materialized (
       select t.agent_id, a.name, t.ordinal, t.event, t.endpoint_id, t.connection_id,
              jsonb_build_object('where', t.spec -> 'where', 'fallback', t.spec -> 'fallback', 'routing', t.spec -> 'routing') as spec
         from svc.triggers t join svc.agents a on a.id = t.agent_id
        where t.project_id = $1::uuid and t.event = any($2::text[]) and t.status = 'active'
          -- What the index has of a key.
          and left(t.event, 500) = any(array(select left(k, 500) from unnest($2::text[]) k))
        order by a.name collate "C", t.ordinal limit $3::int
     ), firsts as (
       select agent_id, min(ordinal) as ordinal from found group by agent_id)
     select t.agent_id as "agentId", t.name as agent, t.ordinal, t.event, t.endpoint_id as "endpointId", e.name as endpoint,
            t.connection_id as "connectionId", t.spec,
            case when f.ordinal is not null then (select json_build_object('concurrency', a.spec -> 'concurrency',
                'bindings', coalesce((select jsonb_object_agg(b.key, b.value - 'context' - 'eventContext')
                    from jsonb_each(a.spec -> 'bindings') b), '{}'::jsonb),
                'mounts', jsonb_path_query_array(a.spec, '$.mounts[*] ? (exists(@.ref))'))
              from svc.agents a where a.id = t.agent_id) end as deciding
       from found t left join svc.endpoints e on e.id = t.endpoint_id
       left join firsts f on f.agent_id = t.agent_id and f.ordinal = t.ordinal
      order by t.name collate "C", t.ordinal`,
    [projectId, keys, limit ?? null],
  );
  const agents = new Map(rows.flatMap(({ agentId, deciding }) => (deciding === null ? [] : [[agentId, deciding]])));
  return rows.flatMap(({ deciding: _deciding, ...row }) => {
    const agent = agents.get(row.agentId);
    return agent === undefined ? [] : [{ ...row, ...agent }];
  });
}
