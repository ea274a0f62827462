// Snapshots: which files a commit had, by blob id. Immutable; together with the blobs they are all that a repetition of
// a reconcile needs, so that a rollback asks no server.

import { promisify } from 'node:util';
import { zstdCompress, zstdCompressSync, zstdDecompress, zstdDecompressSync } from 'node:zlib';
import { yieldToEventLoop } from '../../../base/concurrency.ts';
import type { Sql } from '../store.ts';

/** The record that a source leaves behind (adapters/repo SnapshotRecord), as plain JSON. */
export interface StoredSnapshot {
  readonly commit: string;
  /** Address and root that it was read from. */
  readonly source: string;
  readonly rootTree: string | null;
  readonly svcTree: string | null;
  /** Whether there is a `.svc/` at all. */
  readonly hasSvc: boolean;
  readonly entries: readonly {
    readonly path: string;
    readonly kind: 'file' | 'symlink' | 'submodule';
    readonly oid: string;
    readonly size: number;
    readonly tooLarge?: true;
    readonly mode?: string;
  }[];
  readonly absent: readonly string[];
  readonly tops: { readonly [name: string]: string | null };
}

/** Runs of a repository whose inputs are kept, of those that applied something, of those that looked well, and of held ones. */
const keptRuns = 20;

/** A new snapshot; its blobs have to be stored before. */
export async function insertSnapshot(
  sql: Sql,
  row: StoredSnapshot & { readonly id: string; readonly repositoryId: string },
): Promise<void> {
  await sql.query(
    `insert into svc.snapshots (id, repository_id, commit, root_tree, svc_tree, entries, absent, tops, has_svc,
        source)
     values ($1::uuid, $2::uuid, $3::text, $4::text, $5::text, $6::jsonb, $7::jsonb, $8::jsonb, $9::boolean, $10::text)`,
    [
      row.id,
      row.repositoryId,
      row.commit,
      row.rootTree,
      row.svcTree,
      JSON.stringify(row.entries),
      JSON.stringify(row.absent),
      JSON.stringify(row.tops),
      row.hasSvc,
      row.source,
    ],
  );
}

/** A snapshot with its files, by blob id. */
export async function snapshotById(sql: Sql, id: string): Promise<(StoredSnapshot & { id: string }) | undefined> {
  const { rows } = await sql.query<StoredSnapshot & { id: string }>(
    `select id, commit, source, root_tree as "rootTree", svc_tree as "svcTree", has_svc as "hasSvc", entries, absent, tops
       from svc.snapshots where id = $1::uuid`,
    [id],
  );
  return rows[0];
}

/** The latest stored snapshot of a commit of a repository, read from that source. */
export async function snapshotOfCommit(
  sql: Sql,
  repositoryId: string,
  commit: string,
  source: string,
): Promise<string | undefined> {
  const { rows } = await sql.query<{ id: string }>(
    `select id from svc.snapshots where repository_id = $1::uuid and commit = $2::text and source = $3::text
      order by created_at desc, id limit 1`,
    [repositoryId, commit, source],
  );
  return rows[0]?.id;
}

/** What a slice of the sweep did. `next`: where the following one goes on; null where there is none. */
export interface SweepResult {
  readonly gone: number;
  readonly next: string | null;
}
/** Repositories that a slice looks at, and snapshots that it takes of each. */
const slice = { repositories: 50, each: 200 } as const;

/**
 * Deletes snapshots that nothing will ask for again, of the next repositories behind `after` (an id): kept are each
 * repository's present one, those of its last twenty runs that applied something, of its last twenty that did or found nothing to
 * change, of its last twenty held ones and of running ones, and whatever is younger than an hour.
 */
export async function sweepSnapshots(sql: Sql, after: string | null): Promise<SweepResult> {
  const { rows } = await sql.query<{ gone: number; last: string | null; owners: number; full: boolean }>(
    `with owners as materialized (
       select id from svc.repositories where $2::uuid is null or id > $2::uuid order by id limit ${slice.repositories}
     ), kept as materialized (
       select s.snapshot_id as id from owners o join svc.repository_states s on s.repository_id = o.id
        where s.snapshot_id is not null
       union
       select (r.inputs ->> 'snapshotId')::uuid from owners o cross join lateral (
         select inputs from svc.reconciles
          where repository_id = o.id and status = 'applied' and inputs ? 'snapshotId' order by seq desc limit $1::int) r
       union
       select (r.inputs ->> 'snapshotId')::uuid from owners o cross join lateral (
         select inputs from svc.reconciles
          where repository_id = o.id and status in ('applied', 'unchanged') and inputs ? 'snapshotId'
          order by seq desc limit $1::int) r
       union
       select (r.inputs ->> 'snapshotId')::uuid from owners o cross join lateral (
         select inputs from svc.reconciles
          where repository_id = o.id and status = 'held' and inputs ? 'snapshotId' order by seq desc limit $1::int) r
       union
       select (r.inputs ->> 'snapshotId')::uuid from owners o join svc.reconciles r on r.repository_id = o.id
        where r.status = 'running' and r.inputs ? 'snapshotId'
     ), looked as materialized (
       select o.id as owner, old.id from owners o cross join lateral (
         select id from svc.snapshots where repository_id = o.id and created_at < now() - interval '1 hour'
          order by created_at limit ${slice.each}) old
     ), gone as (
       delete from svc.snapshots where id = any(array(
         select l.id from looked l where not exists (select from kept where kept.id = l.id))) returning id
     )
     select (select count(*)::int from gone) as gone, (select max(id::text) from owners) as last,
            (select count(*)::int from owners) as owners,
            exists (select from looked group by owner having count(*) >= ${slice.each}) as full`,
    [keptRuns, after === '' ? null : after],
  );
  const { gone = 0, last = null, owners = 0, full = false } = rows[0] ?? {};
  // With nothing gone, what fills a slice is all kept.
  if (full && gone > 0) return { gone, next: after ?? '' };
  return { gone, next: owners === slice.repositories ? last : null };
}

/** Lists the blobs of some snapshots that daemons before this way of keeping them have written; how many it listed. */
export async function listOldSnapshots(sql: Sql): Promise<number> {
  const { rowCount } = await sql.query(
    `with old as materialized (
       select id, entries from svc.snapshots where listed_at is null order by id limit 10 for update skip locked
     ), listed as materialized (
       select id, svc.list_snapshot_blobs(id, entries) from old
     )
     update svc.snapshots s set listed_at = now() from listed where s.id = listed.id`,
  );
  return rowCount;
}

// Contents of files by git blob id, shared by all repositories, compressed. A blob is written before the snapshot that
// names it, in one transaction; one that no snapshot names is swept after a while.

const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);

/**
 * Up to this size a file is packed and unpacked on the spot: handing it to another thread and back costs ten times as
 * much. Others get their turn after so many files.
 */
const smallBytes = 32 * 1024;
const turnFiles = 100;
/** What one statement carries of them at most: in a list, each byte is four in memory on its way. */
const batchBytes = 1024 * 1024;
/** From this size on a file goes in a statement of its own, as the bytes that it is. */
const ownBytes = 128 * 1024;
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
      const limit = { maxOutputLength: Math.max(row.size, 1), chunkSize: roomFor(row.size) };
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
    const packed = await packedBlob(content);
    if (packed.length >= ownBytes) {
      // What is before it in the order goes first.
      await flush();
      const text =
        'insert into svc.blobs (oid, size, bytes) values ($1::text, $2::int, $3::bytea) on conflict do nothing';
      await sql.query(text, [oid, content.length, packed]);
      continue;
    }
    if (batch.length % turnFiles === turnFiles - 1) await yieldToEventLoop();
    batch.push({ oid, size: content.length, bytes: packed });
    bytes += packed.length;
    if (bytes >= batchBytes) await flush();
  }
  await flush();
}

/** What is kept of the room that the result was written to is no more than the result. */
async function packedBlob(content: Uint8Array): Promise<Buffer> {
  if (content.length > smallBytes) return compress(content);
  const options = { pledgedSrcSize: content.length, chunkSize: roomFor(content.length) };
  return Buffer.from(zstdCompressSync(content, options));
}

/** Bytes to write a result to at a time: without, 16 KiB are kept for every small file. */
const roomFor = (size: number): number => Math.min(Math.max(size, 64), 1 << 20);

/** Blobs that a slice of the sweep looks at. */
const sliceBlobs = 2_000;

/**
 * Deletes blobs that no snapshot names and that were not used for an hour, among the next behind `after` (an id). Nothing
 * as long as there is a snapshot whose blobs are not listed. Each is looked for by the index: of a join the planner would read
 * all that is listed.
 */
export async function sweepBlobs(sql: Sql, after: string | null): Promise<SweepResult> {
  const { rows } = await sql.query<SweepResult>(
    `with looked as materialized (
       select oid from svc.blobs where ($2::text is null or oid > $2::text)
          and not exists (select from svc.snapshots where listed_at is null)
        order by oid limit ${sliceBlobs}
     ), gone as (
       delete from svc.blobs b
        where b.oid = any(array(
            select l.oid from looked l
             where (select true from svc.snapshot_blobs u where u.oid = l.oid limit 1) is null))
          and b.last_used_at < now() - make_interval(mins => 2 * $1::int) returning b.oid
     )
     select (select count(*)::int from gone) as gone,
            case when (select count(*) from looked) = ${sliceBlobs} then (select max(oid) from looked) end as next`,
    [markMinutes, after],
  );
  return rows[0] ?? { gone: 0, next: null };
}
