// Recorded events: each once, by its deduplication hash within a project. An event is two rows: svc.events, narrow, with
// the status that changes, and svc.event_bodies, wide, written once. What was received is kept byte for byte, and the
// payload beside it only where it differs; both are bytea, because NUL and lone surrogates are legal JSON and illegal in
// the database. Text that the database cannot hold is written with U+FFFD in its place.

import type { Sql } from './db.ts';

export interface EventTarget {
  readonly type: string;
  readonly key: string;
}

export interface NewEvent {
  /** Version 7, see `timeOrderedId`. */
  readonly id: string;
  readonly projectId: string;
  readonly key: string;
  /** SHA-256 of the deduplication scope and key; null: nothing to deduplicate on. */
  readonly dedupHash: Buffer | null;
  /** The received body. */
  readonly raw: Buffer | null;
  /** The normalized payload as the text of a JSON object, without its `raw`; null: the received body is the payload. */
  readonly payload: string | null;
  readonly receivedAt: Date;
  readonly endpointId?: string;
  readonly connectionId?: string;
  readonly target?: EventTarget;
}

export type RouterStatus = 'pending' | 'routed' | 'unmatched' | 'failed';

export interface RecordedEvent {
  readonly id: string;
  readonly routerStatus: RouterStatus;
  /** False: an event of the same deduplication hash was there already, and this is that one. */
  readonly created: boolean;
}

/** Routing is asked for by the statement that records: one job of this task with the ids that were created. */
export const routeTask = 'event.route';

// The hashes are inserted in order, so that two batches never wait for each other; seq is given out before that, so that
// it is the order of arrival. The received bytes of all come as one parameter, cut apart by offset: quoting each costs
// more than all the rest.
const insertText = `with input as materialized (
    select nextval('svc.events_seq') as seq, r.id, r.project, r.key, decode(r.hash, 'hex') as hash, r.endpoint,
      r.connection, r.target_type, r.target_key, r.at, r.raw_from, r.raw_size, r.payload_from, r.payload_size
      from json_to_recordset($1::json) as r (id uuid, project uuid, key text, hash text, endpoint uuid, connection uuid,
        target_type text, target_key text, at timestamptz, raw_from int, raw_size int, payload_from int,
        payload_size int)
  ), made as (
    insert into svc.events (id, seq, project_id, key, endpoint_id, connection_id, dedup_hash, target_type, target_key,
        received_at)
      select id, seq, project, key, endpoint, connection, hash, target_type, target_key, at from input
        order by project, hash
      on conflict (project_id, dedup_hash) where dedup_hash is not null do nothing
      returning id
  ), bodies as (
    insert into svc.event_bodies (event_id, raw, payload)
      select id, substring($2::bytea from raw_from for raw_size), substring($2::bytea from payload_from for payload_size)
        from input join made using (id)
  )`;
const recordText = `${insertText} select id from made`;
const recordAndAskText = `${insertText}, job as (
    select graphile_worker.add_job($3::text, payload => json_build_object('ids', (select json_agg(id) from made)),
        max_attempts => 100) as asked
      where exists (select from made)
  ) select id, (select count(*) from job) as jobs from made`;

/** Text as the database can hold it: no NUL, no half of a surrogate pair. */
const storable = (text: string): string =>
  text.isWellFormed() && !text.includes('\0') ? text : text.toWellFormed().replaceAll('\0', '\uFFFD');

function packed(events: readonly NewEvent[]): { readonly rows: string; readonly bytes: Buffer } {
  const parts: Buffer[] = [];
  let size = 0;
  const place = (part: Buffer | null): { from: number; size: number } | undefined => {
    if (part === null) return undefined;
    const from = size + 1;
    parts.push(part);
    size += part.length;
    return { from, size: part.length };
  };
  const rows = events.map((event) => {
    const raw = place(event.raw);
    const payload = place(event.payload === null ? null : Buffer.from(event.payload, 'utf8'));
    return {
      id: event.id,
      project: event.projectId,
      key: storable(event.key),
      hash: event.dedupHash?.toString('hex'),
      endpoint: event.endpointId,
      connection: event.connectionId,
      target_type: event.target?.type,
      target_key: event.target && storable(event.target.key),
      at: event.receivedAt,
      raw_from: raw?.from,
      raw_size: raw?.size,
      payload_from: payload?.from,
      payload_size: payload?.size,
    };
  });
  return { rows: JSON.stringify(rows), bytes: parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts, size) };
}

const dedupKey = (event: NewEvent): string | undefined =>
  event.dedupHash === null ? undefined : `${event.projectId} ${event.dedupHash.toString('latin1')}`;

/**
 * Records events in one statement, or finds those that have their deduplication hash, also among each other: the first
 * is the one that is created. Answers in the order given. With `routing`, asks for the routing of the created in the
 * same statement. A concurrent transaction with the same hash is waited for.
 */
export async function recordEvents(
  sql: Sql,
  events: readonly NewEvent[],
  options: { readonly routing: boolean },
): Promise<RecordedEvent[]> {
  const firsts = new Map<string, NewEvent>();
  const distinct = events.filter((event) => {
    const key = dedupKey(event);
    if (key === undefined) return true;
    if (firsts.has(key)) return false;
    firsts.set(key, event);
    return true;
  });
  const { rows, bytes } = packed(distinct);
  const made = options.routing
    ? await sql.query<{ id: string }>(recordAndAskText, [rows, bytes, routeTask], 'record-and-ask')
    : await sql.query<{ id: string }>(recordText, [rows, bytes], 'record');
  const created = new Set(made.rows.map((row) => row.id));
  const known = await findExisting(
    sql,
    distinct.filter((event) => !created.has(event.id)),
  );
  return events.map((event) => {
    if (created.has(event.id)) return { id: event.id, routerStatus: 'pending', created: true };
    const key = dedupKey(event) ?? '';
    const first = firsts.get(key);
    if (first !== undefined && created.has(first.id)) {
      return { id: first.id, routerStatus: 'pending', created: false };
    }
    const found = known.get(key);
    // Gone between the two statements, by retention: nothing else deletes events.
    if (found === undefined) throw new Error('an event that conflicts is not there');
    return { ...found, created: false };
  });
}

/** Records one event inside the caller's transaction, see `recordEvents`. */
export async function recordEvent(sql: Sql, event: NewEvent, options = { routing: false }): Promise<RecordedEvent> {
  const [recorded] = await recordEvents(sql, [event], options);
  return recorded as RecordedEvent;
}

async function findExisting(
  sql: Sql,
  events: readonly NewEvent[],
): Promise<ReadonlyMap<string, { id: string; routerStatus: RouterStatus }>> {
  if (events.length === 0) return new Map();
  const { rows } = await sql.query<{ id: string; projectId: string; hash: Buffer; routerStatus: RouterStatus }>(
    `select e.id, e.project_id as "projectId", e.dedup_hash as hash, e.router_status as "routerStatus"
       from svc.events e join unnest($1::uuid[], $2::bytea[]) as u (project, hash)
         on e.project_id = u.project and e.dedup_hash = u.hash
      where e.dedup_hash is not null`,
    [events.map((event) => event.projectId), events.map((event) => event.dedupHash)],
    'find-recorded',
  );
  return new Map(
    rows.map(({ id, projectId, hash, routerStatus }) => [
      `${projectId} ${hash.toString('latin1')}`,
      { id, routerStatus },
    ]),
  );
}

export interface EventRow {
  readonly id: string;
  readonly seq: number;
  readonly key: string;
  /** The whole payload as JSON text in UTF-8. */
  readonly payload: Buffer;
  readonly target: EventTarget | null;
  readonly routerStatus: RouterStatus;
  readonly severity: 'warning' | 'error' | null;
  readonly receivedAt: Date;
}

interface StoredEvent extends Omit<EventRow, 'payload'> {
  readonly raw: Buffer | null;
  readonly payload: Buffer | null;
}

/**
 * An event's payload from the two halves it is stored in, as JSON text: what was received where nothing was normalized,
 * else what it was normalized to, with what was received under `raw`.
 */
export function wholePayload(raw: Buffer | null, payload: Buffer | null): Buffer {
  if (raw === null || payload === null) return payload ?? raw ?? Buffer.from('null');
  const isMarked = raw[0] === 0xef && raw[1] === 0xbb && raw[2] === 0xbf;
  const open = payload.subarray(0, payload.length - 1);
  const comma = open.length > 1 ? ',' : '';
  return Buffer.concat([open, Buffer.from(`${comma}"raw":`), isMarked ? raw.subarray(3) : raw, Buffer.from('}')]);
}

const whole = ({ raw, ...row }: StoredEvent): EventRow => ({ ...row, payload: wholePayload(raw, row.payload) });

const selected = `e.id, e.seq, e.key, b.raw, b.payload, e.router_status as "routerStatus",
  e.severity, e.received_at as "receivedAt",
  case when e.target_type is not null then json_build_object('type', e.target_type, 'key', e.target_key) end as target`;

export interface EventFilter {
  readonly key?: string | undefined;
  readonly status?: RouterStatus | undefined;
  readonly severity?: 'warning' | 'error' | undefined;
  /** Only events recorded before the one of this number. */
  readonly before?: number | undefined;
  readonly limit: number;
}

/** A page of a project's events, newest first. */
export async function listEvents(sql: Sql, projectId: string, filter: EventFilter): Promise<EventRow[]> {
  const { rows } = await sql.query<StoredEvent>(
    `select ${selected} from svc.events e join svc.event_bodies b on b.event_id = e.id
      where e.project_id = $1::uuid and ($2::text is null or e.key = $2::text)
        and ($3::text is null or e.router_status = $3::text) and ($4::text is null or e.severity = $4::text)
        and ($5::bigint is null or e.seq < $5::bigint)
      order by e.seq desc limit $6::int`,
    [
      projectId,
      filter.key ?? null,
      filter.status ?? null,
      filter.severity ?? null,
      filter.before ?? null,
      filter.limit,
    ],
  );
  return rows.map(whole);
}

export async function eventById(sql: Sql, projectId: string, id: string): Promise<EventRow | undefined> {
  const { rows } = await sql.query<StoredEvent>(
    `select ${selected} from svc.events e join svc.event_bodies b on b.event_id = e.id
      where e.project_id = $1::uuid and e.id = $2::uuid`,
    [projectId, id],
  );
  return rows[0] && whole(rows[0]);
}
