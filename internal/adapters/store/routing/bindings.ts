// svc.bindings: which session of an agent gets the events of a target. One active row per agent and target, by a unique
// index; a row is never taken out, it is released. Writes are set-wise, and are made under the routing lock.

import type { JsonObject } from '../../../domain/json.ts';
import type { BindingTarget, Continuity, EventContext, Lifecycle } from '../../../domain/spec.ts';
import type { RoutingTx } from './routing-lock.ts';
import type { Sql } from '../store.ts';
import { storable, storableJson } from '../schema/text.ts';

export interface Binding {
  /** Version 7: bindings sort in the order in which they were made. */
  readonly id: string;
  readonly agentId: string;
  readonly agent: string;
  /** Null: an agent's claim that waits for a replacement. */
  readonly sessionId: string | null;
  readonly target: { readonly type: BindingTarget; readonly key: string };
  readonly state: 'active' | 'released';
  readonly lifecycle: Lifecycle;
  readonly continuity: Continuity;
  /** Relationship context. */
  readonly context: JsonObject | null;
  /** What annotates its transitions. */
  readonly eventContext: EventContext | null;
}

const selected = `id, agent_id as "agentId", agent, session_id as "sessionId", state, lifecycle, continuity, context,
  event_context as "eventContext", json_build_object('type', target_type, 'key', target_key) as target`;

/** Active bindings of the project that any of the conditions names; each condition may be left out. */
export async function findBindings(
  tx: RoutingTx,
  by: {
    readonly id?: string;
    readonly sessionId?: string;
    readonly agentId?: string;
    readonly target?: Binding['target'];
  },
): Promise<Binding[]> {
  const { rows } = await tx.query<Binding>(
    `select ${selected} from svc.bindings
      where project_id = $1::uuid and state = 'active' and ($2::uuid is null or id = $2::uuid)
        and ($3::uuid is null or session_id = $3::uuid) and ($4::uuid is null or agent_id = $4::uuid)
        and ($5::text is null or (target_type = $5::text and target_key = $6::text))
      order by id for update`,
    [
      tx.projectId,
      by.id ?? null,
      by.sessionId ?? null,
      by.agentId ?? null,
      by.target?.type ?? null,
      by.target === undefined ? null : storable(by.target.key),
    ],
  );
  return rows;
}

/** Claims of these agents that wait for a holder, in the order in which they were made. */
export async function waitingClaims(sql: Sql, agentIds: readonly string[]): Promise<Binding[]> {
  if (agentIds.length === 0) return [];
  const { rows } = await sql.query<Binding>(
    `select ${selected} from svc.bindings
      where agent_id = any($1::uuid[]) and session_id is null and state = 'active' order by id`,
    [agentIds],
    'waiting-claims',
  );
  return rows;
}

const columns = `(id uuid, agent_id uuid, agent text, session_id uuid, target_type text, target_key text, state text,
  lifecycle text, continuity text, context jsonb, event_context jsonb)`;

const packed = (bindings: readonly Binding[]): string =>
  storableJson(
    bindings.map((one) => ({
      id: one.id,
      agent_id: one.agentId,
      agent: one.agent,
      session_id: one.sessionId,
      target_type: one.target.type,
      target_key: one.target.key,
      state: one.state,
      lifecycle: one.lifecycle,
      continuity: one.continuity,
      context: one.context ?? undefined,
      event_context: (one.eventContext as JsonObject | null) ?? undefined,
    })),
  );

/** Inserts bindings as they are; one that was bound and released within the transaction as well. */
export async function insertBindings(tx: RoutingTx, bindings: readonly Binding[], now: Date): Promise<void> {
  if (bindings.length === 0) return;
  await tx.query(
    `insert into svc.bindings (id, project_id, agent_id, agent, session_id, target_type, target_key, state, lifecycle,
         continuity, context, event_context, created_at, updated_at, released_at)
       select id, $1::uuid, agent_id, agent, session_id, target_type, target_key, state, lifecycle, continuity, context,
              event_context, $3::timestamptz, $3::timestamptz,
              case when state = 'released' then $3::timestamptz end
         from json_to_recordset($2::json) as r ${columns}`,
    [tx.projectId, packed(bindings), now],
    'insert-bindings',
  );
}

/** Writes active bindings as they have become. Call before `insertBindings`, which may need what this releases. */
export async function updateBindings(tx: RoutingTx, bindings: readonly Binding[], now: Date): Promise<void> {
  if (bindings.length === 0) return;
  await tx.query(
    `update svc.bindings b set session_id = r.session_id, state = r.state, lifecycle = r.lifecycle,
         continuity = r.continuity, context = r.context, event_context = r.event_context, updated_at = $3::timestamptz,
         released_at = case when r.state = 'released' then $3::timestamptz end
       from json_to_recordset($2::json) as r ${columns}
      where b.id = r.id and b.project_id = $1::uuid and b.state = 'active'`,
    [tx.projectId, packed(bindings), now],
    'update-bindings',
  );
}
