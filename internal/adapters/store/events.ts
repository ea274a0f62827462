// Recorded events: each once, by its deduplication hash within a project. What was received is kept byte for byte beside
// the normalized payload; both are bytea, because NUL and lone surrogates are legal JSON and illegal in the database.

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
