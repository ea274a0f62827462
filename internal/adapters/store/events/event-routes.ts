// What was decided on events: svc.event_routes, once per event and trigger by its primary key, and what stands on the
// event itself once it is routed. Written set-wise, in the transaction that carries the decisions out.

import type { JsonObject } from '../../../domain/json.ts';
import type { RoutingTx } from '../routing/routing-lock.ts';
import type { Sql } from '../store.ts';
import { storable, storableJson } from '../schema/text.ts';

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
export async function insertRoutes(tx: Sql, routes: readonly RouteInsert[]): Promise<void> {
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

/** Decisions, newest first, that are looked through for the last of a trigger. */
const lookedThrough = 100_000;

export interface LastMatch {
  readonly lastMatch: { readonly eventId: string; readonly at: Date; readonly decision: string } | null;
  /** How far back was looked; null: through everything that is kept. */
  readonly since: Date | null;
}

/** The last event that a trigger matched, found along the key: ids of events go by time. */
export async function lastMatch(
  sql: Sql,
  trigger: { readonly agentId: string; readonly ordinal: number },
): Promise<LastMatch> {
  const { rows } = await sql.query<{ eventId: string; at: Date; decision: string | null; more: boolean }>(
    `with looked as (select event_id, agent_id, ordinal from svc.event_routes order by event_id desc limit $3::int + 1),
       hit as (select event_id from looked where agent_id = $1::uuid and ordinal = $2::int
                order by event_id desc limit 1)
     select e.id as "eventId", e.received_at as at, r.decision, true as more
       from hit join svc.events e on e.id = hit.event_id
       join svc.event_routes r on r.event_id = hit.event_id and r.agent_id = $1::uuid and r.ordinal = $2::int
     union all
     select e.id, e.received_at, null, (select count(*) from looked) > $3::int
       from (select min(event_id::text)::uuid as id from looked having not exists (select from hit)) oldest
       join svc.events e on e.id = oldest.id`,
    [trigger.agentId, trigger.ordinal, lookedThrough],
  );
  const [row] = rows;
  if (row === undefined) return { lastMatch: null, since: null };
  const { eventId, at, decision, more } = row;
  if (decision !== null) return { lastMatch: { eventId, at, decision }, since: null };
  return { lastMatch: null, since: more ? at : null };
}

/** Decisions, newest first, that are looked through for the last of each trigger of a list. */
const lookedForMax = 10_000;

/** The same of several triggers in one look, not so far back; by `agentId/ordinal`. */
export async function lastMatches(
  sql: Sql,
  triggers: readonly { readonly agentId: string; readonly ordinal: number }[],
): Promise<(trigger: { readonly agentId: string; readonly ordinal: number }) => LastMatch> {
  if (triggers.length === 0) return () => ({ lastMatch: null, since: null });
  const { rows } = await sql.query<{
    agentId: string | null;
    ordinal: number | null;
    eventId: string;
    at: Date;
    decision: string | null;
  }>(
    `with looked as materialized (select event_id, agent_id, ordinal, decision from svc.event_routes
         order by event_id desc limit $3::int + 1),
       hit as (select distinct on (l.agent_id, l.ordinal) l.* from looked l
         join unnest($1::uuid[], $2::int[]) w (agent_id, ordinal) on w.agent_id = l.agent_id and w.ordinal = l.ordinal
         order by l.agent_id, l.ordinal, l.event_id desc)
     select h.agent_id as "agentId", h.ordinal, e.id as "eventId", e.received_at as at, h.decision
       from hit h join svc.events e on e.id = h.event_id
     union all
     select null, null, e.id, e.received_at, null
       from (select min(event_id::text)::uuid as id from looked having count(*) > $3::int) oldest
       join svc.events e on e.id = oldest.id`,
    [triggers.map(({ agentId }) => agentId), triggers.map(({ ordinal }) => ordinal), lookedForMax],
  );
  const since = rows.find(({ agentId }) => agentId === null)?.at ?? null;
  const found = new Map(rows.map((row) => [`${row.agentId}/${row.ordinal}`, row]));
  return ({ agentId, ordinal }) => {
    const hit = found.get(`${agentId}/${ordinal}`);
    if (hit === undefined || hit.decision === null) return { lastMatch: null, since };
    return { lastMatch: { eventId: hit.eventId, at: hit.at, decision: hit.decision }, since: null };
  };
}

export interface Settled {
  readonly eventId: string;
  readonly status: 'routed' | 'unmatched' | 'failed';
  readonly severity: 'warning' | 'error' | null;
  readonly attributions: readonly JsonObject[] | null;
  /** Why routing could not be done. */
  readonly reason?: string;
}

/** Where events stand whose waiting ends together: nothing else that waits is among these numbers. */
export interface SettledRange {
  readonly from: number;
  readonly to: number;
  /** No event up to this number waits any more then (svc.routing_marks). */
  readonly routedTo: number;
}

// A batch that ends alike is found by its numbers, so that nothing is told of each event.
// Where fewer waited than were decided, somebody routed without the lock, and nothing of the transaction may stand: the
// server says so itself (svc.as_many), for the commit may be in the same message.
const rangeText = `with marked as (
    insert into svc.routing_marks as m (project_id, upto) values ($1::uuid, $2::bigint)
      on conflict (project_id) do update set upto = excluded.upto where m.upto < excluded.upto
  ),
  settled as (
    update svc.events set router_status = $3::text
     where project_id = $1::uuid and seq between $4::bigint and $5::bigint and router_status = 'pending' returning 1
  )
  select svc.as_many((select count(*) from settled), $6::bigint, 'SVC03')`;

const isPlain = (one: Settled): boolean =>
  one.status !== 'failed' && one.severity === null && one.attributions === null && one.reason === undefined;

/** No event of the project up to this number waits any more (svc.routing_marks). */
export interface Mark {
  readonly projectId: string;
  readonly routedTo: number;
}

/**
 * Ends the waiting of events of several projects, whose routing locks the transaction holds. Throws where one of them
 * waited no longer.
 */
export async function settleQuiet(tx: Sql, settled: readonly Settled[], marks: readonly Mark[]): Promise<void> {
  await settleEach(tx, settled, marks);
}

/**
 * Ends the waiting of events. Throws where one of them waited no longer, or another one waited among them: somebody
 * routed without the lock.
 */
export async function settleEvents(tx: RoutingTx, settled: readonly Settled[], range?: SettledRange): Promise<void> {
  const [first] = settled;
  if (first === undefined) return;
  const isAlike = range !== undefined && settled.every((one) => one.status === first.status && isPlain(one));
  if (isAlike) await settleRange(tx, first.status, range, settled.length);
  else
    await settleEach(tx, settled, range === undefined ? [] : [{ projectId: tx.projectId, routedTo: range.routedTo }]);
}

async function settleRange(
  tx: RoutingTx,
  status: Settled['status'],
  { from, to, routedTo }: SettledRange,
  count: number,
): Promise<void> {
  await tx.query(rangeText, [tx.projectId, routedTo, status, from, to, count], 'settle-range');
}

async function settleEach(tx: Sql, settled: readonly Settled[], marks: readonly Mark[]): Promise<void> {
  const plain = settled.filter(isPlain);
  const others = settled.filter((one) => !isPlain(one));
  const idsOf = (status: Settled['status']): string[] =>
    plain.filter((one) => one.status === status).map((one) => one.eventId);
  // Each found by its id, whatever the planner believes to know of the table: lists of ids, never a join alone.
  await tx.query(
    `with marked as (
       insert into svc.routing_marks as m (project_id, upto) select * from unnest($4::uuid[], $5::bigint[])
         on conflict (project_id) do update set upto = excluded.upto where m.upto < excluded.upto
     ), routed as (
       update svc.events set router_status = 'routed' where id = any($1::uuid[]) and router_status = 'pending' returning 1
     ), unmatched as (
       update svc.events set router_status = 'unmatched' where id = any($2::uuid[]) and router_status = 'pending'
         returning 1
     ), others as (
       update svc.events e set router_status = r.status, severity = r.severity, attributions = r.attributions,
           reason = r.reason
         from json_to_recordset($3::json) as r (event uuid, status text, severity text, attributions jsonb, reason text)
        where e.id = r.event and e.id = any($6::uuid[]) and e.router_status = 'pending' returning 1
     )
     select svc.as_many(
       (select count(*) from routed) + (select count(*) from unmatched) + (select count(*) from others), $7::bigint, 'SVC03')`,
    [
      idsOf('routed'),
      idsOf('unmatched'),
      storableJson(
        others.map((one) => ({
          event: one.eventId,
          status: one.status,
          severity: one.severity ?? undefined,
          attributions: one.attributions ?? undefined,
          reason: one.reason,
        })),
      ),
      marks.map((one) => one.projectId),
      marks.map((one) => one.routedTo),
      others.map((one) => one.eventId),
      settled.length,
    ],
    'settle-events',
  );
}

/** An event that is nobody's to route: what it said was taken where it was recorded, in the same transaction. */
export async function setAside(tx: Sql, eventId: string, reason: string): Promise<void> {
  await tx.query(
    `update svc.events set router_status = 'routed', reason = $2::text where id = $1::uuid and router_status = 'pending'`,
    [eventId, reason],
  );
}
