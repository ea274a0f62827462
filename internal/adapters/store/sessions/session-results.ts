// svc.session_files and svc.session_diffs: what sessions leave for people. Written by the host of a session alone.
// Invariant: a write names the host's epoch. It holds while the session runs under it, and for the end that the session was
// given meanwhile, which raises the epoch by one; a host that lost its lease to another writes nothing any more.

import type { Lease } from './hosts.ts';
import type { Sql } from '../store.ts';

const isHeld = `exists (select from svc.sessions s where s.id = $1::uuid
  and (s.epoch = $2::bigint or (not s.live and s.epoch = $2::bigint + 1)))`;

export interface KnownFile {
  readonly path: string;
  readonly size: number;
  readonly modified: number;
  readonly isKept: boolean;
}

/** What is stored of a session's files, without their bytes. */
export async function knownFiles(sql: Sql, sessionId: string): Promise<KnownFile[]> {
  const { rows } = await sql.query<KnownFile>(
    `select path, size, modified, content is not null as "isKept" from svc.session_files where session_id = $1::uuid`,
    [sessionId],
  );
  return rows.map((row) => ({ ...row, size: Number(row.size), modified: Number(row.modified) }));
}

export type FileRefusal = 'too-large' | 'too-many' | 'unreadable';
export interface LeftFile {
  readonly path: string;
  readonly size: number;
  readonly modified: number;
  readonly kept: { readonly content: Buffer; readonly sha256: Buffer } | { readonly refused: FileRefusal };
  readonly now: Date;
}

/** Keeps a file, in the place of what was kept at its path. */
export async function putFile(sql: Sql, lease: Lease, file: LeftFile): Promise<void> {
  const { kept } = file;
  const content = 'content' in kept ? kept : { content: null, sha256: null };
  await sql.query(
    `insert into svc.session_files (session_id, path, size, modified, sha256, content, refused, kept_at)
     select $1::uuid, $3::text, $4::bigint, $5::bigint, $6::bytea, $7::bytea, $8::text, $9::timestamptz where ${isHeld}
     on conflict (session_id, path) do update set size = excluded.size, modified = excluded.modified,
       sha256 = excluded.sha256, content = excluded.content, refused = excluded.refused, kept_at = excluded.kept_at`,
    [
      lease.sessionId,
      lease.epoch,
      file.path,
      file.size,
      file.modified,
      content.sha256,
      content.content,
      'refused' in kept ? kept.refused : null,
      file.now,
    ],
  );
}

export interface LeftDiff {
  readonly mountPath: string;
  readonly repository: string;
  readonly ref: string | null;
  readonly commit: string;
  readonly diff: string;
  readonly truncated: boolean;
  readonly takenAt: Date;
}

/** Keeps how a clone differs now, while the lease is held; one that is the same is not written again. */
export async function putDiff(sql: Sql, lease: Lease, row: LeftDiff): Promise<void> {
  await sql.query(
    `insert into svc.session_diffs as d (session_id, mount_path, repository, ref, commit, diff, truncated, taken_at)
     select $1::uuid, $3::text, $4::text, $5::text, $6::text, $7::text, $8::boolean, $9::timestamptz where ${isHeld}
     on conflict (session_id, mount_path) do update set repository = excluded.repository, ref = excluded.ref,
       commit = excluded.commit, diff = excluded.diff, truncated = excluded.truncated, taken_at = excluded.taken_at
       where (d.commit, d.diff) is distinct from (excluded.commit, excluded.diff)`,
    [
      lease.sessionId,
      lease.epoch,
      row.mountPath,
      row.repository,
      row.ref,
      row.commit,
      row.diff,
      row.truncated,
      row.takenAt,
    ],
  );
}

export interface FileRow {
  readonly path: string;
  readonly size: number;
  readonly sha256: string | null;
  readonly refused: FileRefusal | null;
  readonly keptAt: Date;
}

/** A page of a session's files by path. */
export async function listFiles(
  sql: Sql,
  sessionId: string,
  page: { readonly limit: number; readonly after?: string | undefined },
): Promise<FileRow[]> {
  const { rows } = await sql.query<FileRow>(
    `select path, size, encode(sha256, 'hex') as sha256, refused, kept_at as "keptAt" from svc.session_files
      where session_id = $1::uuid and ($2::text is null or path collate "C" > $2::text collate "C")
      order by path collate "C" limit $3::int`,
    [sessionId, page.after ?? null, page.limit],
  );
  return rows.map((row) => ({ ...row, size: Number(row.size) }));
}

/** A file's bytes; null: it was not kept, undefined: there is none. */
export async function fileContent(sql: Sql, sessionId: string, path: string): Promise<Buffer | null | undefined> {
  const { rows } = await sql.query<{ content: Buffer | null }>(
    'select content from svc.session_files where session_id = $1::uuid and path = $2::text',
    [sessionId, path],
  );
  return rows[0]?.content;
}

/** Bytes of all differences that one answer holds: a session may have any number of mounts. */
const diffBytesMax = 16 * 1_048_576;

/**
 * How the clones of a session's mounts differ from what was mounted, as it was kept last, by path. Behind so many bytes of them
 * each is told without its text, as one that is `truncated`.
 */
export async function diffsOf(sql: Sql, sessionId: string): Promise<LeftDiff[]> {
  const { rows } = await sql.query<LeftDiff>(
    `select mount_path as "mountPath", repository, ref, commit, case when bytes <= ${diffBytesMax} then diff else '' end as diff,
            truncated or bytes > ${diffBytesMax} as truncated, taken_at as "takenAt"
       from (select d.*, sum(octet_length(d.diff)) over (order by d.mount_path collate "C") as bytes
               from svc.session_diffs d where d.session_id = $1::uuid) d
      order by mount_path collate "C"`,
    [sessionId],
  );
  return rows;
}
