// Reconcile runs: a state machine that is only ever moved out of `running`, so every write carries
// `where status = 'running'` and says whether it still held (a fence against a run that was superseded or taken over).
// One run of a repository at a time is a unique index. Each change raises the run's version and wakes the streams.

import type { Json, JsonObject } from '../../../domain/json.ts';
import type { CommitAbout } from '../../../domain/commit.ts';
import { type EarlyEnd, earlyEnd, endingEarly, jsonBytes, type Sized } from '../schema/early-end.ts';
import type { Sql } from '../store.ts';
import type { ReconcileReason, ReconcileStatus, StageTiming } from './run-writes.ts';

export {
  endRunsOf,
  endRunsOfArchived,
  insertRun,
  moveRun,
  notMoved,
  prepareMove,
  reconcileChannel,
} from './run-writes.ts';
export type { ReconcileReason, ReconcileStatus, RunPatch, StageTiming } from './run-writes.ts';

export interface ReconcileRow {
  readonly id: string;
  readonly seq: number;
  readonly version: number;
  readonly projectId: string;
  readonly repositoryId: string | null;
  readonly repository: string | null;
  readonly commit: string | null;
  readonly reason: ReconcileReason;
  readonly status: ReconcileStatus;
  readonly condition: string | null;
  readonly detail: string | null;
  readonly daemonId: string | null;
  readonly startedAt: Date;
  readonly finishedAt: Date | null;
  readonly stages: readonly StageTiming[];
  readonly actions: readonly Json[];
  readonly consequences: JsonObject;
  readonly diagnostics: readonly Json[];
  readonly webhooks: readonly Json[];
  readonly request: JsonObject;
  readonly inputs: JsonObject;
  /** Of its commit; null where that is not known. */
  readonly about: CommitAbout | null;
}

const selected = `id, seq, version, project_id as "projectId", repository_id as "repositoryId",
  repository_name as repository, commit, reason, status, condition, detail, daemon_id as "daemonId",
  started_at as "startedAt", finished_at as "finishedAt", stages, actions, consequences, diagnostics, webhooks,
  request, inputs, about`;

/** SQL of how large a run is. */
export const runBytes = jsonBytes('actions', 'consequences', 'diagnostics', 'webhooks', 'inputs');

/** Without what may be large. */
const rowSelected = `id, seq, version, project_id as "projectId", repository_id as "repositoryId",
  repository_name as repository, commit, reason, status, condition, left(detail, 500) as detail,
  started_at as "startedAt", finished_at as "finishedAt", '[]'::jsonb as stages, '[]'::jsonb as actions,
  '[]'::jsonb as diagnostics, request, about`;

/** The run of a repository that is running, if there is one. */
export async function runningRun(sql: Sql, repositoryId: string): Promise<ReconcileRow | undefined> {
  const { rows } = await sql.query<ReconcileRow>(
    `select ${selected} from svc.reconciles where repository_id = $1::uuid and status = 'running'`,
    [repositoryId],
    'running-run',
  );
  return rows[0];
}

/** The same of the repository of a project that is called so. */
export async function runningRunNamed(sql: Sql, projectId: string, name: string): Promise<ReconcileRow | undefined> {
  const text = `select ${selected} from svc.reconciles where status = 'running' and repository_id =
       (select r.id from svc.repositories r where r.project_id = $1::uuid and r.name = $2::text)`;
  return (await sql.query<ReconcileRow>(text, [projectId, name], 'running-run-named')).rows[0];
}

/** SQL of whether a run still says how its repository stands: what could not be read, and is read again, leaves no run that says so. */
const stillTells = '(x.condition is null or s.condition is not null)';

/** SQL of the last run of `svc.repositories r` that has ended and says how it stands, where `s` is its state. */
export const lastTold = (columns: string): string =>
  `(select ${columns} from svc.reconciles x
     where x.repository_id = r.id and x.status not in ('running', 'superseded') and ${stillTells} order by x.seq desc limit 1)`;

/** The latest run of each repository that says how it stands, by repository id; what was overtaken says nothing. */
export async function lastRuns(sql: Sql, repositoryIds: readonly string[]): Promise<ReadonlyMap<string, ReconcileRow>> {
  const { rows } = await sql.query<ReconcileRow>(
    `select run.* from unnest($1::uuid[]) as wanted (id)
       left join svc.repository_states s on s.repository_id = wanted.id cross join lateral (
       select ${selected} from svc.reconciles x
        where x.repository_id = wanted.id and status <> 'superseded' and ${stillTells}
        order by seq desc limit 1) run`,
    [repositoryIds],
  );
  return new Map(rows.map((row) => [row.repositoryId ?? '', row]));
}

const isKept = `status in ('applied', 'unchanged')
  and exists (select from svc.snapshots s where s.id = (r.inputs ->> 'snapshotId')::uuid)`;

/** The latest run that applied the commit that starts so, and whose inputs are stored. */
export async function appliedRun(sql: Sql, repositoryId: string, commit: string): Promise<ReconcileRow | undefined> {
  const { rows } = await sql.query<ReconcileRow>(
    `select ${selected} from svc.reconciles r
      where repository_id = $1::uuid and ${isKept} and starts_with(commit, $2::text)
      order by seq desc limit 1`,
    [repositoryId, commit],
  );
  return rows[0];
}

/**
 * The run whose state a commit took the place of: the latest good one before the sync that first brought the state that
 * the commit has, its inputs stored. A commit that changed nothing counts with the one before it, one that was applied once
 * more, such as over rows that had been edited, was brought the first time, and a rollback is no step of that way. `except`
 * is a commit that is not to be gone back to.
 */
export async function appliedBefore(
  sql: Sql,
  repositoryId: string,
  from: { readonly commit: string; readonly except: string | null },
): Promise<ReconcileRow | undefined> {
  const { rows } = await sql.query<ReconcileRow>(
    `with way as (
       select *, lag(commit) over (order by seq) as before from svc.reconciles
        where repository_id = $1::uuid and request ->> 'kind' <> 'rollback' and status in ('applied', 'unchanged')),
     brought as (
       select max(seq) as seq from way where status = 'applied' and commit is distinct from before
          and seq <= (select max(seq) from way where commit = $2::text))
     select ${selected} from way r
      where seq < (select seq from brought) and ${isKept} and commit <> $2::text
        and commit is distinct from $3::text
      order by seq desc limit 1`,
    [repositoryId, from.commit, from.except],
  );
  return rows[0];
}

/** Says of a held run that it was let through, and by which run: nobody is told to approve it any more. */
export async function noteApproved(sql: Sql, id: string, by: string): Promise<void> {
  await sql.query(
    `update svc.reconciles set version = nextval('svc.reconcile_versions'), detail = 'approved: run ' || $2::text
      where id = $1::uuid and status = 'held'`,
    [id, by],
  );
}

/**
 * True when a repository has a run after this one that says something newer: a superseded one does not, nor one that could
 * not read its source and saw no other commit.
 */
export async function hasNewerRun(
  sql: Sql,
  repositoryId: string,
  { seq, commit }: Pick<ReconcileRow, 'seq' | 'commit'>,
): Promise<boolean> {
  const { rows } = await sql.query(
    `select 1 from svc.reconciles
      where repository_id = $1::uuid and seq > $2::bigint and status <> 'superseded'
        and (condition is null or coalesce(commit, $3::text) is distinct from $3::text) limit 1`,
    [repositoryId, seq, commit],
  );
  return rows.length > 0;
}

export interface RunFilter {
  /** Only what a line of a table shows. */
  readonly isRow?: boolean | undefined;
  readonly repository?: string | undefined;
  readonly status?: ReconcileStatus | undefined;
  /** Only runs created before this one. */
  readonly beforeSeq?: number | undefined;
  readonly limit: number;
}

/** A page of a project's runs, newest first. */
export async function listRuns(sql: Sql, projectId: string, filter: RunFilter): Promise<EarlyEnd<ReconcileRow>> {
  const listed = `select ${filter.isRow === true ? rowSelected : selected} from svc.reconciles
      where project_id = $1::uuid and ($2::text is null or repository_name = $2::text)
        and ($3::text is null or status = $3::text) and ($4::bigint is null or seq < $4::bigint)
      order by seq desc limit $5::int`;
  const values = [projectId, filter.repository ?? null, filter.status ?? null, filter.beforeSeq ?? null, filter.limit];
  if (filter.isRow === true) return { rows: (await sql.query<ReconcileRow>(listed, values)).rows, isCut: false };
  const text = endingEarly(listed, { size: runBytes, order: 'seq desc' });
  return earlyEnd((await sql.query<ReconcileRow & Sized>(text, values)).rows);
}

/** The latest run of a commit, also one that is under way; what was overtaken says nothing. */
export async function latestRunAt(sql: Sql, repositoryId: string, commit: string): Promise<ReconcileRow | undefined> {
  const { rows } = await sql.query<ReconcileRow>(
    `select ${selected} from svc.reconciles
      where repository_id = $1::uuid and commit = $2::text and status <> 'superseded' order by seq desc limit 1`,
    [repositoryId, commit],
  );
  return rows[0];
}

/** A run of a project. */
export async function runById(sql: Sql, projectId: string, id: string): Promise<ReconcileRow | undefined> {
  const { rows } = await sql.query<ReconcileRow>(
    `select ${selected} from svc.reconciles where project_id = $1::uuid and id = $2::uuid`,
    [projectId, id],
  );
  return rows[0];
}

/** Runs of a project that changed after `version`, in the order of their changes; each is read by whoever wants it (`runById`). */
export async function runsChangedSince(
  sql: Sql,
  projectId: string,
  version: number,
  repository: string | undefined,
): Promise<Pick<ReconcileRow, 'id' | 'version'>[]> {
  const { rows } = await sql.query<Pick<ReconcileRow, 'id' | 'version'>>(
    `select id, version from svc.reconciles
      where project_id = $1::uuid and version > $2::bigint and ($3::text is null or repository_name = $3::text)
      order by version limit 500`,
    [projectId, version, repository ?? null],
  );
  return rows;
}

/** The highest version that any run of the project has. */
export async function latestVersion(sql: Sql, projectId: string): Promise<number> {
  const { rows } = await sql.query<{ version: number }>(
    'select coalesce(max(version), 0) as version from svc.reconciles where project_id = $1::uuid',
    [projectId],
  );
  return rows[0]?.version ?? 0;
}

/** Commits of a repository's runs that begin so, at most two; with `applied` those that `appliedRun` finds. */
export async function commitsStarting(
  sql: Sql,
  repositoryId: string,
  beginning: string,
  which: 'any' | 'applied' = 'any',
): Promise<string[]> {
  const { rows } = await sql.query<{ commit: string }>(
    `select distinct commit from svc.reconciles r
      where repository_id = $1::uuid and starts_with(commit, $2::text) and ${which === 'any' ? 'true' : isKept} limit 2`,
    [repositoryId, beginning],
  );
  return rows.map((row) => row.commit);
}

/** How many runs a filter finds on all pages. */
export async function countRuns(
  sql: Sql,
  projectId: string,
  filter: Pick<RunFilter, 'repository' | 'status'>,
): Promise<number> {
  const { rows } = await sql.query<{ n: number }>(
    `select count(*)::int as n from svc.reconciles where project_id = $1::uuid
       and ($2::text is null or repository_name = $2::text) and ($3::text is null or status = $3::text)`,
    [projectId, filter.repository ?? null, filter.status ?? null],
  );
  return rows[0]?.n ?? 0;
}
