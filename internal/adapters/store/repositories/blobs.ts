// Contents of files by git blob id, shared by all repositories, compressed. A blob is written before the snapshot that
// names it, in one transaction; one that no snapshot names is swept after a while.

import { yieldToEventLoop } from '../../../base/yielding.ts';
import { promisify } from 'node:util';
import { zstdCompress, zstdCompressSync, zstdDecompress, zstdDecompressSync } from 'node:zlib';
import type { Sql } from '../store.ts';
import type { Swept } from './snapshots.ts';

const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);

/**
 * Up to this size a file is packed and unpacked on the spot: handing it to another thread and back costs ten times as
 * much. Others get their turn after so many files.
 */
const smallBytes = 32 * 1024;
const turnFiles = 100;
/** What one statement carries at most. */
const batchBytes = 8 * 1024 * 1024;
/** A reused blob that was marked longer ago than this is marked again; the sweep waits twice as long. */
const markMinutes = 30;

/** Those of `oids` that are stored. */
export async function storedBlobs(sql: Sql, oids: readonly string[]): Promise<ReadonlySet<string>> {
  if (oids.length === 0) return new Set();
  const { rows } = await sql.query<{ oid: string }>('select oid from svc.blobs where oid = any($1::text[])', [oids]);
  return new Set(rows.map((row) => row.oid));
}

/** Contents of those of `oids` that are stored. */
export async function readBlobs(sql: Sql, oids: readonly string[]): Promise<ReadonlyMap<string, Uint8Array>> {
  const found = new Map<string, Uint8Array>();
  for (let at = 0; at < oids.length; at += 1_000) {
    const { rows } = await sql.query<{ oid: string; bytes: Buffer; size: number }>(
      'select oid, bytes, size from svc.blobs where oid = any($1::text[])',
      [oids.slice(at, at + 1_000)],
    );
    for (const [index, row] of rows.entries()) {
      const limit = { maxOutputLength: Math.max(row.size, 1) };
      const isSmall = row.size <= smallBytes;
      found.set(row.oid, isSmall ? zstdDecompressSync(row.bytes, limit) : await decompress(row.bytes, limit));
      if (index % turnFiles === turnFiles - 1) await yieldToEventLoop();
    }
  }
  return found;
}

/**
 * Stores what is not stored yet and marks the rest as used, inside the transaction that will write the snapshot: the
 * mark keeps the sweep away until that has committed.
 */
export async function writeBlobs(sql: Sql, blobs: ReadonlyMap<string, Uint8Array>): Promise<void> {
  const stored = await storedBlobs(sql, [...blobs.keys()]);
  await sql.query(
    `update svc.blobs set last_used_at = now()
      where oid = any($1::text[]) and last_used_at < now() - make_interval(mins => $2::int)`,
    [[...stored], markMinutes],
  );
  let batch: { oid: string; size: number; bytes: Buffer }[] = [];
  let bytes = 0;
  const flush = async (): Promise<void> => {
    if (batch.length === 0) return;
    await sql.query(
      `insert into svc.blobs (oid, size, bytes)
       select * from unnest($1::text[], $2::int[], $3::bytea[]) on conflict do nothing`,
      [batch.map((row) => row.oid), batch.map((row) => row.size), batch.map((row) => row.bytes)],
    );
    batch = [];
    bytes = 0;
  };
  // In one order everywhere: two daemons that store the same contents must not wait for each other in a circle.
  for (const oid of [...blobs.keys()].sort()) {
    const content = blobs.get(oid);
    if (content === undefined || stored.has(oid)) continue;
    const packed = content.length <= smallBytes ? zstdCompressSync(content) : await compress(content);
    if (batch.length % turnFiles === turnFiles - 1) await yieldToEventLoop();
    batch.push({ oid, size: content.length, bytes: packed });
    bytes += packed.length;
    if (bytes >= batchBytes) await flush();
  }
  await flush();
}

/** Blobs that a slice of the sweep looks at. */
const sliceBlobs = 2_000;

/**
 * Deletes blobs that no snapshot names and that were not used for an hour, among the next behind `after` (an id). Nothing
 * as long as there is a snapshot whose blobs are not listed.
 */
export async function sweepBlobs(sql: Sql, after: string | null): Promise<Swept> {
  const { rows } = await sql.query<Swept>(
    `with looked as materialized (
       select oid from svc.blobs where ($2::text is null or oid > $2::text)
          and not exists (select from svc.snapshots where listed_at is null)
        order by oid limit ${sliceBlobs}
     ), gone as (
       delete from svc.blobs b
        where b.oid = any(array(
            select l.oid from looked l where not exists (select from svc.snapshot_blobs u where u.oid = l.oid)))
          and b.last_used_at < now() - make_interval(mins => 2 * $1::int) returning b.oid
     )
     select (select count(*)::int from gone) as gone,
            case when (select count(*) from looked) = ${sliceBlobs} then (select max(oid) from looked) end as next`,
    [markMinutes, after],
  );
  return rows[0] ?? { gone: 0, next: null };
}
