// Recorded events as they are read: pages, one, and what each trigger decided on them. A page never brings a large body
// out of the database: bodies beyond the bound stay where they are, and each event's decisions come with the page in
// one statement.

import { Fault } from '../../../domain/fault.ts';
import type { Json } from '../../../domain/json.ts';
import { bodyBytes, type StoredBody, unframed } from './body-frames.ts';
import { readLargeBody } from './event-bodies.ts';
import { unroutedSql, markOf } from '../routing/routing.ts';
import { pageBytesMax } from '../schema/early-end.ts';
import type { Sql } from '../store.ts';
import { type RouterStatus, wholePayload } from './events.ts';
import type { EventTarget } from './new-event.ts';

/** What a trigger decided on an event (docs/reference/routing.md#matching). */
export interface EventRoute {
  readonly agentId: string;
  readonly agent: string;
  readonly ordinal: number;
  readonly decision: string;
  /** The sessions that got it, in order; the one that was made among them. */
  readonly sessionIds: readonly string[];
  readonly because: string | null;
  readonly severity: 'warning' | 'error' | null;
}

export interface EventRow {
  readonly id: string;
  readonly seq: number;
  readonly key: string;
  /** The whole payload as JSON text in UTF-8; null where it is larger than the reader asked for. */
  readonly payload: Buffer | null;
  /** The halves of a payload that is too large to be one text; `payload` is null then. */
  readonly large?: LargeHalves;
  /** Bytes of the body, however it is stored. */
  readonly size: number;
  readonly target: EventTarget | null;
  readonly endpointId: string | null;
  /** Its name; null also where it is not there any more. */
  readonly endpoint: string | null;
  readonly connectionId: string | null;
  readonly routerStatus: RouterStatus;
  readonly severity: 'warning' | 'error' | null;
  readonly reason: string | null;
  readonly replayOf: string | null;
  /** Binding events that led to this one. */
  readonly depth: number;
  /** Who it was attributed to when it was routed; null: to nobody, or not routed yet. */
  readonly attributions: readonly Json[] | null;
  readonly receivedAt: Date;
  /** By agent name and ordinal. */
  readonly routes: readonly EventRoute[];
}

export interface LargeHalves {
  readonly raw: Buffer;
  readonly payload: Buffer;
}

/** Bytes; a body of more is fetched in slices, and handed out as it is stored. */
const largeFrom = 2 * 1_048_576;

/** The halves of a body of so many bytes; undefined where it is no large one, or has no two. */
async function halvesOf(sql: Sql, id: string, size: number): Promise<LargeHalves | undefined> {
  if (size <= largeFrom) return undefined;
  const { raw, payload } = await readLargeBody(sql, id);
  return raw === null || payload === null ? undefined : { raw, payload };
}

interface StoredEvent extends Omit<EventRow, 'payload'>, StoredBody {}

/** Undefined where what is stored of the body is damaged. */
function payloadOf(stored: StoredBody): Buffer | null | undefined {
  const body = unframed(stored);
  if (body === undefined || (body.raw === null && body.payload === null)) return body && null;
  return wholePayload(body.raw, body.payload);
}
const withPayload = ({ raw: _raw, rawBytes: _rawBytes, ...row }: StoredEvent, payload: Buffer | null): EventRow => ({
  ...row,
  payload,
});

/** Of an event whose body is gone with its partition, the size is 0 and the payload null. */
const sizeOf = bodyBytes('b');
/** `limit`: a placeholder for the bytes beyond which a body is left where it is. */
const selected = (limit: string): string => `e.id, e.seq, e.key, ${sizeOf} as size,
  case when ${sizeOf} <= ${limit} then b.raw end as raw, b.raw_bytes as "rawBytes",
  case when ${sizeOf} <= ${limit} then b.payload end as payload,
  e.endpoint_id as "endpointId", (select n.name from svc.endpoints n where n.id = e.endpoint_id) as endpoint, e.connection_id as "connectionId", e.router_status as "routerStatus", e.severity,
  e.reason, e.replay_of as "replayOf", e.depth, e.attributions, e.received_at as "receivedAt",
  case when e.target_type is not null then json_build_object('type', e.target_type, 'key', e.target_key) end as target,
  coalesce((select json_agg(json_build_object('agentId', r.agent_id, 'agent', r.agent, 'ordinal', r.ordinal,
      'decision', r.decision, 'sessionIds', r.session_ids, 'because', r.because, 'severity', r.severity)
      order by r.agent collate "C", r.ordinal) from svc.event_routes r where r.event_id = e.id), '[]'::json) as routes`;

/** SQL of about how many bytes the decisions on an event are as JSON. */
const routeBytes = (
  event: string,
): string => `select coalesce(sum(200 + length(r.agent) + coalesce(length(r.because), 0)
  + 40 * cardinality(r.session_ids)), 0) as bytes from svc.event_routes r where r.event_id = ${event}`;

export interface EventFilter {
  readonly key?: string | undefined;
  /** Only keys that are, or that are not, like this pattern of SQL. */
  readonly keyLike?: { readonly pattern: string; readonly not: boolean } | undefined;
  readonly status?: RouterStatus | undefined;
  readonly severity?: 'warning' | 'error' | undefined;
  /** Only events that came in by this endpoint. */
  readonly endpointId?: string | undefined;
  /** Only events recorded before the one of this number. */
  readonly before?: number | undefined;
  /** Bytes; the payload of an event with a larger body is null. */
  readonly payloadMax: number;
  readonly limit: number;
}

/** What is true of all events of a status that few have, and that an index knows. */
function rare({ status }: EventFilter): string {
  if (status === 'failed') return ' and e.reason is not null';
  return status === 'pending' ? ` and ${unroutedSql(markOf('$1::uuid'), 'e.')}` : '';
}

/** Events that one page looks at, where no index knows which of them are asked for. */
const lookedAtMost = 10_000;

/** The number down to which a page looks; null where it finds by an index what it is asked for, or all is looked at. */
async function floorOf(sql: Sql, projectId: string, { status, keyLike, before }: EventFilter): Promise<number | null> {
  if (keyLike === undefined && status !== 'routed' && status !== 'unmatched') return null;
  const { rows } = await sql.query<{ seq: number }>(
    `select seq from svc.events where project_id = $1::uuid and ($2::bigint is null or seq < $2::bigint)
      order by seq desc offset ${lookedAtMost - 1} limit 1`,
    [projectId, before ?? null],
  );
  return rows[0]?.seq ?? null;
}

/**
 * A page of a project's events, newest first. `lookedTo`: where the page ends though older events may fit as well, the
 * number before which the next one goes on: a filter that few events pass does not read all of history at once, and events on
 * which very much was decided are not all on one page.
 */
export async function listEvents(
  sql: Sql,
  projectId: string,
  filter: EventFilter,
): Promise<{ readonly rows: readonly EventRow[]; readonly lookedTo: number | null }> {
  const floor = await floorOf(sql, projectId, filter);
  const { rows } = await sql.query<StoredEvent & { listed: number }>(
    `with page as materialized (
       select * from svc.events e
        where e.project_id = $1::uuid and ($2::text is null or e.key = $2::text)
          and ($3::text is null or e.router_status = $3::text) and ($4::text is null or e.severity = $4::text)${rare(filter)}
          and ($5::bigint is null or e.seq < $5::bigint) and ($10::bigint is null or e.seq >= $10::bigint)
          and ($8::text is null or (e.key like $8::text) <> $9::boolean)
          and ($11::uuid is null or e.endpoint_id = $11::uuid)
        order by e.seq desc limit $6::int), sized as (
       select page.*, count(*) over ()::int as listed, coalesce(sum(w.bytes) over (order by page.seq desc
           rows between unbounded preceding and 1 preceding), 0) as bytes_before
         from page cross join lateral (${routeBytes('page.id')}) w)
     select ${selected('$7::int')}, e.listed from sized e left join svc.event_bodies b on b.event_id = e.id
      where e.bytes_before < ${pageBytesMax} order by e.seq desc`,
    [
      projectId,
      filter.key ?? null,
      filter.status ?? null,
      filter.severity ?? null,
      filter.before ?? null,
      filter.limit,
      filter.payloadMax,
      filter.keyLike?.pattern ?? null,
      filter.keyLike?.not ?? false,
      floor,
      filter.endpointId ?? null,
    ],
  );
  const { listed = 0 } = rows[0] ?? {};
  // What hundreds of triggers have decided, of hundreds of sessions each, is many times the events themselves.
  const isEarly = rows.length < listed;
  const lookedTo = isEarly ? (rows.at(-1)?.seq ?? null) : rows.length < filter.limit ? floor : null;
  const events = rows.map(({ listed: _listed, ...row }) => withPayload(row, payloadOf(row) ?? null));
  return { rows: events, lookedTo };
}

/** How many events a filter finds on all pages. */
export async function countAllEvents(sql: Sql, projectId: string, filter: EventFilter): Promise<number> {
  const { rows } = await sql.query<{ n: number }>(
    `select count(*)::int as n from svc.events e
      where e.project_id = $1::uuid and ($2::text is null or e.key = $2::text)
        and ($3::text is null or e.router_status = $3::text) and ($4::text is null or e.severity = $4::text)${rare(filter)}
        and ($5::text is null or (e.key like $5::text) <> $6::boolean)
        and ($7::uuid is null or e.endpoint_id = $7::uuid)`,
    [
      projectId,
      filter.key ?? null,
      filter.status ?? null,
      filter.severity ?? null,
      filter.keyLike?.pattern ?? null,
      filter.keyLike?.not ?? false,
      filter.endpointId ?? null,
    ],
  );
  return rows[0]?.n ?? 0;
}

/** The id of the endpoint of a name, reserved or in use; null where the project has none. */
export async function endpointNamed(sql: Sql, projectId: string, name: string): Promise<string | null> {
  const { rows } = await sql.query<{ id: string }>(
    'select id from svc.endpoints where project_id = $1::uuid and name = $2::text',
    [projectId, name],
  );
  return rows[0]?.id ?? null;
}

/** Whether a project has an event, and why routing of it failed, where it did. */
export async function eventOutcome(
  sql: Sql,
  projectId: string,
  id: string,
): Promise<Pick<EventRow, 'key' | 'reason'> | undefined> {
  const { rows } = await sql.query<Pick<EventRow, 'key' | 'reason'>>(
    'select key, reason from svc.events where project_id = $1::uuid and id = $2::uuid',
    [projectId, id],
  );
  return rows[0];
}

/** One event with its whole payload. Throws Fault `internal` where what is stored of its body is damaged. */
export async function eventById(sql: Sql, projectId: string, id: string): Promise<EventRow | undefined> {
  const { rows } = await sql.query<StoredEvent>(
    `select ${selected(`${largeFrom}`)} from svc.events e left join svc.event_bodies b on b.event_id = e.id
      where e.project_id = $1::uuid and e.id = $2::uuid`,
    [projectId, id],
  );
  const [row] = rows;
  if (row === undefined) return undefined;
  const large = await halvesOf(sql, id, row.size);
  if (large !== undefined) return { ...withPayload(row, null), large };
  const payload = payloadOf(row);
  if (payload === undefined) throw new Fault('internal', 'event-body-unreadable', 'The stored body cannot be read.');
  return withPayload(row, payload);
}

/**
 * Records a stored event once more, under a new id and without deduplication: the same key, body, place of arrival and
 * target. False where the event is not there, or its body is gone. Routing waits for the commit, see `recordEvents`.
 */
export async function copyEvent(
  tx: Sql,
  copy: { readonly projectId: string; readonly of: string; readonly id: string; readonly now: Date },
): Promise<boolean> {
  // Before its number is taken, as by whatever records (svc.lock_recording).
  await tx.query('select svc.lock_recording(array[$1::uuid])', [copy.projectId]);
  const { rows } = await tx.query(
    `with body as (
       insert into svc.event_bodies (event_id, raw, payload, raw_bytes)
       select $3::uuid, b.raw, b.payload, b.raw_bytes from svc.events e join svc.event_bodies b on b.event_id = e.id
        where e.project_id = $1::uuid and e.id = $2::uuid
       returning event_id)
     insert into svc.events (id, project_id, key, endpoint_id, connection_id, target_type, target_key, received_at,
         depth, replay_of)
     select $3::uuid, project_id, key, endpoint_id, connection_id, target_type, target_key, $4::timestamptz, depth, id
       from svc.events where project_id = $1::uuid and id = $2::uuid and exists (select from body)
     returning id`,
    [copy.projectId, copy.of, copy.id, copy.now],
  );
  return rows.length > 0;
}

/** An event as it is matched again, without its body. */
export interface PastEvent {
  readonly id: string;
  readonly key: string;
  readonly endpoint: string | null;
  readonly connectionId: string | null;
  /** Bytes of the body, however it is stored. */
  readonly size: number;
}

/**
 * Events of these keys since a time, newest first, at most `limit` among the newest `among` of the project; `more` where
 * there may be others.
 */
export async function pastEvents(
  sql: Sql,
  projectId: string,
  of: { readonly keys: readonly string[]; readonly since: Date; readonly limit: number; readonly among: number },
): Promise<{ readonly events: PastEvent[]; readonly more: boolean }> {
  const { rows } = await sql.query<PastEvent & { looked: number }>(
    `with recent as materialized (
       select e.* from (
         select * from svc.events where project_id = $1::uuid order by seq desc limit $5::int) e
        where e.received_at >= $3::timestamptz)
     select e.id, e.key, n.name as endpoint, e.connection_id as "connectionId", ${sizeOf} as size,
            (select count(*) from recent) as looked
       from recent e join svc.event_bodies b on b.event_id = e.id left join svc.endpoints n on n.id = e.endpoint_id
      where e.key = any($2::text[]) order by e.seq desc limit $4::int`,
    [projectId, of.keys, of.since, of.limit, of.among],
  );
  const more = rows.length === of.limit || (rows[0]?.looked ?? 0) >= of.among;
  return { events: rows, more };
}

export type EventPayload = Pick<EventRow, 'payload' | 'large' | 'attributions'>;

/** The payloads of events, by id; of one whose stored body is damaged there is none. */
export async function eventPayloads(
  sql: Sql,
  projectId: string,
  ids: readonly string[],
): Promise<ReadonlyMap<string, EventPayload>> {
  const { rows } = await sql.query<StoredBody & { id: string; size: number; attributions: Json[] | null }>(
    `select e.id, ${sizeOf} as size, case when ${sizeOf} <= ${largeFrom} then b.raw end as raw,
            b.raw_bytes as "rawBytes", case when ${sizeOf} <= ${largeFrom} then b.payload end as payload, e.attributions from svc.events e join svc.event_bodies b on b.event_id = e.id
      where e.project_id = $1::uuid and e.id = any($2::uuid[])`,
    [projectId, ids],
  );
  const read = new Map<string, EventPayload>();
  for (const { id, size, attributions, ...stored } of rows) {
    const large = await halvesOf(sql, id, size);
    const body = unframed(stored);
    if (large !== undefined) read.set(id, { payload: null, large, attributions });
    else if (body !== undefined) read.set(id, { payload: wholePayload(body.raw, body.payload), attributions });
  }
  return read;
}
