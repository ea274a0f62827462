// What was decided on events: svc.event_routes, once per event and trigger by its primary key, and what stands on the
// event itself once it is routed. Written set-wise, in the transaction that carries the decisions out.

import type { JsonObject } from '../../words/json.ts';
import type { RoutingTx } from './routing.ts';
import { storable, storableJson } from './text.ts';

export interface RouteInsert {
  readonly eventId: string;
  readonly agentId: string;
  readonly ordinal: number;
  readonly agent: string;
  readonly decision: string;
  readonly sessionIds: readonly string[];
  readonly because: string | null;
  readonly severity: 'warning' | 'error' | null;
}

/** Writes decisions. Throws a unique violation for an event that this trigger has routed before. */
export async function insertRoutes(tx: RoutingTx, routes: readonly RouteInsert[]): Promise<void> {
  if (routes.length === 0) return;
  await tx.query(
    `insert into svc.event_routes (event_id, agent_id, ordinal, agent, decision, session_ids, because, severity)
       select event, agent_id, ordinal, agent, decision, sessions, because, severity
         from json_to_recordset($1::json) as r (event uuid, agent_id uuid, ordinal int, agent text, decision text,
           sessions uuid[], because text, severity text)`,
    [
      JSON.stringify(
        routes.map((one) => ({
          event: one.eventId,
          agent_id: one.agentId,
          ordinal: one.ordinal,
          agent: one.agent,
          decision: one.decision,
          sessions: one.sessionIds,
          because: one.because === null ? undefined : storable(one.because),
          severity: one.severity ?? undefined,
        })),
      ),
    ],
    'insert-routes',
  );
}

export interface Settled {
  readonly eventId: string;
  readonly status: 'routed' | 'unmatched' | 'failed';
  readonly severity: 'warning' | 'error' | null;
  readonly attributions: readonly JsonObject[] | null;
  /** Why routing could not be done. */
  readonly reason?: string;
}

/** Ends the waiting of events. Throws where one of them waited no longer: somebody routed without the lock. */
export async function settleEvents(tx: RoutingTx, settled: readonly Settled[]): Promise<void> {
  if (settled.length === 0) return;
  const { rowCount } = await tx.query(
    `update svc.events e set router_status = r.status, severity = r.severity, attributions = r.attributions,
         reason = r.reason
       from json_to_recordset($1::json) as r (event uuid, status text, severity text, attributions jsonb, reason text)
      where e.id = r.event and e.router_status = 'pending'`,
    [
      storableJson(
        settled.map((one) => ({
          event: one.eventId,
          status: one.status,
          severity: one.severity ?? undefined,
          attributions: one.attributions ?? undefined,
          reason: one.reason,
        })),
      ),
    ],
    'settle-events',
  );
  if (rowCount !== settled.length) throw new Error('an event was routed by somebody else at the same time');
}
