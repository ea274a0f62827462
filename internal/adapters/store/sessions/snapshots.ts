// svc.session_snapshots and svc.session_snapshot_pieces: home and work of sessions that are not loaded. Written by the host
// of a session alone. Invariant: a snapshot stands for a session in place of the one before only when all its pieces are
// there, in the transaction that names the host's epoch.

import type { Sql } from '../store.ts';
import type { Lease } from './hosts.ts';

export interface SnapshotRow {
  readonly id: string;
  readonly provider: string;
  readonly parts: unknown;
  readonly bytes: number;
  readonly keyVersion: number;
  readonly sealed: Buffer;
  readonly takenAt: Date;
  /** The harness in it knows all messages up to this number; null where nobody noted that. */
  readonly saidSeq: number | null;
}

/** Takes the place of an earlier one; false where the session is another host's, or has ended. Pieces follow in the same transaction. */
export async function putSnapshot(
  tx: Sql,
  lease: Lease,
  row: Omit<SnapshotRow, 'takenAt' | 'saidSeq'>,
): Promise<boolean> {
  await tx.query('delete from svc.session_snapshots where session_id = $1::uuid', [lease.sessionId]);
  const { rowCount } = await tx.query(
    `insert into svc.session_snapshots (id, session_id, provider, parts, bytes, key_version, sealed, said_seq)
     select $1::uuid, $2::uuid, $3::text, $4::jsonb, $5::bigint, $6::int, $7::bytea,
         least((select max(seq) from svc.messages where session_id = $2::uuid),
               (select min(seq) - 1 from svc.inbox where session_id = $2::uuid and state in ('pending', 'in_flight')))
      where exists (select from svc.sessions s where s.id = $2::uuid and s.epoch = $8::bigint and s.live)`,
    [
      row.id,
      lease.sessionId,
      row.provider,
      JSON.stringify(row.parts),
      row.bytes,
      row.keyVersion,
      row.sealed,
      lease.epoch,
    ],
  );
  return rowCount === 1;
}

/** A sealed piece of a part of a snapshot, by its number from 0 on. */
export async function putPiece(
  tx: Sql,
  of: { readonly id: string; readonly part: number; readonly number: number; readonly piece: Buffer },
): Promise<void> {
  await tx.query(
    `insert into svc.session_snapshot_pieces (snapshot_id, part, number, piece)
     values ($1::uuid, $2::int, $3::int, $4::bytea)`,
    [of.id, of.part, of.number, of.piece],
    'put-piece',
  );
}

/** What was kept of a session's files last. */
export async function snapshotOf(sql: Sql, sessionId: string): Promise<SnapshotRow | undefined> {
  const { rows } = await sql.query<SnapshotRow>(
    `select id, provider, parts, bytes, key_version as "keyVersion", sealed, taken_at as "takenAt",
         said_seq as "saidSeq"
       from svc.session_snapshots where session_id = $1::uuid`,
    [sessionId],
    'snapshot-of',
  );
  return rows[0];
}

/** How many pieces a part has. */
export async function countPieces(sql: Sql, id: string, part: number): Promise<number> {
  const { rows } = await sql.query<{ count: number }>(
    'select count(*)::int as count from svc.session_snapshot_pieces where snapshot_id = $1::uuid and part = $2::int',
    [id, part],
  );
  return rows[0]?.count ?? 0;
}

/** A piece as it is sealed; undefined behind the last one. */
export async function readPiece(sql: Sql, id: string, part: number, number: number): Promise<Buffer | undefined> {
  const { rows } = await sql.query<{ piece: Buffer }>(
    `select piece from svc.session_snapshot_pieces where snapshot_id = $1::uuid and part = $2::int and number = $3::int`,
    [id, part, number],
    'read-piece',
  );
  return rows[0]?.piece;
}

/** Deletes, of at most `limit`, those of sessions that have ended, and those taken before `before`. Gives how many. */
export async function dropSnapshots(sql: Sql, before: Date, limit: number): Promise<number> {
  const { rowCount } = await sql.query(
    `delete from svc.session_snapshots where id in (
       select n.id from svc.session_snapshots n join svc.sessions s on s.id = n.session_id
        where not s.live or n.taken_at < $1::timestamptz limit $2::int)`,
    [before, limit],
    'drop-snapshots',
  );
  return rowCount;
}
