// Snapshots: which files a commit had, by blob id. Immutable; together with the blobs they are all that a repetition of
// a reconcile needs, so that a rollback asks no server.

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

/** Applied runs of a repository whose inputs are kept for a rollback. */
const keptRuns = 20;

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

/**
 * Deletes snapshots that nothing will ask for again: kept are each repository's present one, those of its last twenty
 * applied runs, of its last held one and of running ones, and whatever is younger than an hour.
 */
export async function sweepSnapshots(sql: Sql): Promise<number> {
  const { rowCount } = await sql.query(
    `with kept as materialized (
       select snapshot_id as id from svc.repository_states where snapshot_id is not null
       union
       select (inputs ->> 'snapshotId')::uuid from (
         select inputs, row_number() over (partition by repository_id, status = 'held' order by seq desc) as nth
           from svc.reconciles
          where repository_id is not null and inputs ? 'snapshotId' and status in ('applied', 'unchanged', 'held')) ranked
        where nth <= $1::int
       union
       select (inputs ->> 'snapshotId')::uuid from svc.reconciles where status = 'running' and inputs ? 'snapshotId')
     delete from svc.snapshots s
      where s.created_at < now() - interval '1 hour' and not exists (select from kept where kept.id = s.id)`,
    [keptRuns],
  );
  return rowCount;
}
