// A project that goes with all that it has, however much that is. First it is gone for everybody: nobody finds it, nothing
// comes in, its name is free. Then its rows go in slices of one size, what hangs on others before them; the project's own
// row goes last, so that whoever comes after an end in between goes on where it was.

import type { Sql } from '../store.ts';
import { deleteOrgsGone } from '../tenancy/tenancy.ts';
import { deleteTranscripts } from './slices.ts';

/** What a slice takes at most. */
const slice = { sessions: 50, events: 2_000, rows: 5_000 } as const;

/**
 * Tables with a row per project that grow with what happens in it, beside sessions and events with what is theirs; by
 * `project_id`. All others hold what a project was set up with, and go with its row.
 */
export const slicedTables = [
  'bindings',
  'calls',
  'checks',
  'notices',
  'reconciles',
  'session_ties',
  'usage_sessions',
  'usage_days',
  'usage_ledger',
  'agent_revisions',
] as const;

/** Marks a project as being deleted; false where it is already. What opens its secrets is gone with this. */
export async function markDeleted(tx: Sql, projectId: string): Promise<boolean> {
  const { rowCount } = await tx.query(
    `update svc.projects set deleted_at = now(), archived_at = coalesce(archived_at, now()),
         slug = 'deleted-' || replace(id::text, '-', '')
      where id = $1::uuid and deleted_at is null`,
    [projectId],
  );
  if (rowCount === 0) return false;
  await tx.query('delete from svc.project_members where project_id = $1::uuid', [projectId]);
  await tx.query('delete from svc.secrets where project_id = $1::uuid', [projectId]);
  await tx.query('delete from svc.oauth_tokens where project_id = $1::uuid', [projectId]);
  await tx.query('delete from svc.receivers where project_id = $1::uuid', [projectId]);
  return true;
}

/** Projects that are being deleted but for those named, at most a hundred, the longest first. */
export async function deletedProjects(sql: Sql, but: readonly string[]): Promise<string[]> {
  const { rows } = await sql.query<{ id: string }>(
    'select id from svc.projects where deleted_at is not null and id <> all($1::uuid[]) order by deleted_at limit 100',
    [but],
  );
  return rows.map((row) => row.id);
}

/** Deletes the next slice of a project that is being deleted. False where it was the last, or another daemon is at it. */
export async function deleteProjectSlice(tx: Sql, projectId: string): Promise<boolean> {
  const { rows } = await tx.query<{ mine: boolean }>(
    `select pg_try_advisory_xact_lock(hashtextextended('svc.deletion:' || $1::text, 0))
        and exists (select from svc.projects where id = $1::uuid and deleted_at is not null) as mine`,
    [projectId],
  );
  if (rows[0]?.mine !== true) return false;
  if (await deleteSessionSlice(tx, projectId)) return true;
  const events = await tx.query(
    `delete from svc.events where id = any(array(
       select id from svc.events where project_id = $1::uuid order by seq desc limit $2::int))`,
    [projectId, slice.events],
  );
  if (events.rowCount > 0) return true;
  for (const table of slicedTables) {
    const { rowCount } = await tx.query(
      `delete from svc.${table} where ctid = any(array(
         select ctid from svc.${table} where project_id = $1::uuid limit $2::int))`,
      [projectId, slice.rows],
    );
    if (rowCount > 0) return true;
  }
  const snapshots = await tx.query(
    `delete from svc.snapshots where id = any(array(
       select s.id from svc.repositories r join svc.snapshots s on s.repository_id = r.id
        where r.project_id = $1::uuid limit 50))`,
    [projectId],
  );
  if (snapshots.rowCount > 0) return true;
  await tx.query('delete from svc.projects where id = $1::uuid', [projectId]);
  await deleteOrgsGone(tx);
  return false;
}

/** True where there was a session left, of which some may be there still. */
async function deleteSessionSlice(tx: Sql, projectId: string): Promise<boolean> {
  const { rows } = await tx.query<{ id: string }>(
    'select id from svc.sessions where project_id = $1::uuid order by id desc limit $2::int for update',
    [projectId, slice.sessions],
  );
  const ids = rows.map((row) => row.id);
  if (ids.length > 0 && (await deleteTranscripts(tx, ids))) {
    await tx.query('delete from svc.sessions where id = any($1::uuid[])', [ids]);
  }
  return ids.length > 0;
}
