// Recorded events: each once, by its deduplication hash within a project. What was received is kept byte for byte beside
// the normalized payload; both are bytea, because NUL and lone surrogates are legal JSON and illegal in the database.

import type { Json } from '../../words/json.ts';
import type { Sql } from './db.ts';

export interface NewEvent {
  readonly id: string;
  readonly projectId: string;
  readonly key: string;
  /** SHA-256 of the deduplication scope and key; null: nothing to deduplicate on. */
  readonly dedupHash: Buffer | null;
  /** The received body. */
  readonly raw: Buffer | null;
  /** The normalized payload as JSON text. */
  readonly payload: string;
  readonly receivedAt: Date;
}

export type RouterStatus = 'pending' | 'routed' | 'unmatched' | 'failed';

export interface RecordedEvent {
  readonly id: string;
  readonly routerStatus: RouterStatus;
  /** False: an event of the same deduplication hash was there already, and this is that one. */
  readonly created: boolean;
}

/**
 * Records an event inside the caller's transaction, or finds the one that has its deduplication hash. A concurrent
 * transaction with the same hash is waited for.
 */
export async function recordEvent(sql: Sql, event: NewEvent): Promise<RecordedEvent> {
  const inserted = await sql.query<{ id: string; routerStatus: RouterStatus }>(
    `insert into svc.events (id, project_id, key, source, dedup_hash, raw, payload, received_at)
     values ($1::uuid, $2::uuid, $3::text, split_part($3::text, '.', 1), $4::bytea, $5::bytea, $6::bytea,
       $7::timestamptz)
     on conflict (project_id, dedup_hash) where dedup_hash is not null do nothing
     returning id, router_status as "routerStatus"`,
    [
      event.id,
      event.projectId,
      event.key,
      event.dedupHash,
      event.raw,
      Buffer.from(event.payload, 'utf8'),
      event.receivedAt,
    ],
  );
  const made = inserted.rows[0];
  if (made !== undefined) return { ...made, created: true };
  const { rows } = await sql.query<{ id: string; routerStatus: RouterStatus }>(
    `select id, router_status as "routerStatus" from svc.events
      where project_id = $1::uuid and dedup_hash = $2::bytea`,
    [event.projectId, event.dedupHash],
  );
  const found = rows[0];
  // Gone between the two statements, by retention: nothing else deletes events.
  if (found === undefined) throw new Error('an event that conflicts is not there');
  return { ...found, created: false };
}

export interface EventRow {
  readonly id: string;
  readonly seq: number;
  readonly key: string;
  readonly source: string;
  readonly payload: Json;
  readonly routerStatus: RouterStatus;
  readonly receivedAt: Date;
}

interface StoredEvent extends Omit<EventRow, 'payload'> {
  readonly payload: Buffer;
}

const selected = `id, seq, key, source, payload, router_status as "routerStatus", received_at as "receivedAt"`;
const parsed = (row: StoredEvent): EventRow => ({ ...row, payload: JSON.parse(row.payload.toString('utf8')) as Json });

export interface EventFilter {
  readonly key?: string | undefined;
  readonly status?: RouterStatus | undefined;
  /** Only events recorded before the one of this number. */
  readonly before?: number | undefined;
  readonly limit: number;
}

/** A page of a project's events, newest first. */
export async function listEvents(sql: Sql, projectId: string, filter: EventFilter): Promise<EventRow[]> {
  const { rows } = await sql.query<StoredEvent>(
    `select ${selected} from svc.events
      where project_id = $1::uuid and ($2::text is null or key = $2::text)
        and ($3::text is null or router_status = $3::text) and ($4::bigint is null or seq < $4::bigint)
      order by seq desc limit $5::int`,
    [projectId, filter.key ?? null, filter.status ?? null, filter.before ?? null, filter.limit],
  );
  return rows.map(parsed);
}

export async function eventById(sql: Sql, projectId: string, id: string): Promise<EventRow | undefined> {
  const { rows } = await sql.query<StoredEvent>(
    `select ${selected} from svc.events where project_id = $1::uuid and id = $2::uuid`,
    [projectId, id],
  );
  return rows[0] === undefined ? undefined : parsed(rows[0]);
}
