// What was decided on events: svc.event_routes, once per event and trigger by its primary key, and what stands on the
// event itself once it is routed. Written set-wise, in the transaction that carries the decisions out.

import type { JsonObject } from '../../words/json.ts';
import type { BatchTx, RoutingTx } from './routing.ts';
import { type SpawnedInsert, spawning, spawnValueCount, spawnValues } from './spawned.ts';
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

// Each event is found by its id, whatever the planner believes to know of the table: lists of ids, never a join alone.
// Values are counted from `at`. An event that waited no longer is an error of the statement itself, so that what it has
// changed is never committed: text that is no number, for want of a better way to fail.
const settling = (at: number): string => {
  const [routed, unmatched, rows, project, upTo, others, all] = [0, 1, 2, 3, 4, 5, 6].map((n) => `$${at + n}`);
  return `marked as (
       insert into svc.routing_marks as m (project_id, upto)
         select ${project}::uuid, ${upTo}::bigint where ${upTo}::bigint is not null
         on conflict (project_id) do update set upto = excluded.upto where m.upto < excluded.upto
     ), routed as (
       update svc.events set router_status = 'routed' where id = any(${routed}::uuid[]) and router_status = 'pending'
         returning 1
     ), unmatched as (
       update svc.events set router_status = 'unmatched' where id = any(${unmatched}::uuid[])
         and router_status = 'pending' returning 1
     ), others as (
       update svc.events e set router_status = r.status, severity = r.severity, attributions = r.attributions,
           reason = r.reason
         from json_to_recordset(${rows}::json) as r (event uuid, status text, severity text, attributions jsonb,
           reason text)
        where e.id = r.event and e.id = any(${others}::uuid[]) and e.router_status = 'pending' returning 1
     ), counted as (
       select (select count(*) from routed) + (select count(*) from unmatched) + (select count(*) from others) as n
     )
     select case when n = ${all}::bigint then 0
       else ('an event was routed by somebody else at the same time: ' || n)::int end as n from counted`;
};

function settleValues(tx: RoutingTx, settled: readonly Settled[], routedTo: number | undefined): readonly unknown[] {
  const isPlain = (one: Settled): boolean =>
    one.status !== 'failed' && one.severity === null && one.attributions === null && one.reason === undefined;
  const plain = (status: Settled['status']): string[] =>
    settled.filter((one) => one.status === status && isPlain(one)).map((one) => one.eventId);
  const others = settled.filter((one) => !isPlain(one));
  return [
    plain('routed'),
    plain('unmatched'),
    storableJson(
      others.map((one) => ({
        event: one.eventId,
        status: one.status,
        severity: one.severity ?? undefined,
        attributions: one.attributions ?? undefined,
        reason: one.reason,
      })),
    ),
    tx.projectId,
    routedTo ?? null,
    others.map((one) => one.eventId),
    settled.length,
  ];
}

export interface BatchEnd {
  readonly settled: readonly Settled[];
  /** No event up to this number waits any more then (svc.routing_marks). */
  readonly routedTo?: number;
}

/**
 * Ends the waiting of events, which is the last that a routing transaction does. Throws where one of them waited no
 * longer: somebody routed without the lock.
 */
export async function settleEvents(tx: BatchTx, { settled, routedTo }: BatchEnd): Promise<void> {
  if (settled.length === 0) return;
  await tx.last(`with ${settling(1)}`, settleValues(tx, settled, routedTo), 'settle-events');
}

const spawnAndSettle = `with ${spawning}, ${settling(spawnValueCount + 1)}`;

/** The same in one statement with the sessions that the events spawned, see `insertSpawned`. */
export async function settleSpawned(
  tx: BatchTx,
  { settled, routedTo }: BatchEnd,
  spawned: readonly SpawnedInsert[],
  now: Date,
): Promise<void> {
  const values = [...spawnValues(tx, spawned, now), ...settleValues(tx, settled, routedTo)];
  await tx.last(spawnAndSettle, values, 'settle-spawned');
}
