// Reconcile runs: a state machine that is only ever moved out of `running`, so every write carries
// `where status = 'running'` and says whether it still held (a fence against a run that was superseded or taken over).
// One run of a repository at a time is a unique index. Each change raises the run's version and wakes the streams.

import type { Json, JsonObject } from '../../../domain/json.ts';
import type { CommitAbout } from '../../../domain/commit.ts';
import type { Sql } from '../store.ts';
import { jsonRows } from '../../../base/concurrency.ts';

export type ReconcileReason = 'push' | 'poll' | 'manual' | 'watch' | 'resync' | 'apply';
export type ReconcileStatus = 'running' | 'applied' | 'unchanged' | 'held' | 'failed' | 'superseded' | 'quarantined';

export interface StageTiming {
  readonly name: string;
  readonly ms: number;
}

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

/** The channel on which every change of a run is notified, with the project's id. Wakes; polling is the truth. */
export const reconcileChannel = 'svc_reconciles';

const selected = `id, seq, version, project_id as "projectId", repository_id as "repositoryId",
  repository_name as repository, commit, reason, status, condition, detail, daemon_id as "daemonId",
  started_at as "startedAt", finished_at as "finishedAt", stages, actions, consequences, diagnostics, webhooks,
  request, inputs, about`;

/** Without what may be large. */
const rowSelected = `id, seq, version, project_id as "projectId", repository_id as "repositoryId",
  repository_name as repository, commit, reason, status, condition, left(detail, 500) as detail,
  started_at as "startedAt", finished_at as "finishedAt", '[]'::jsonb as stages, '[]'::jsonb as actions,
  '[]'::jsonb as diagnostics, request, about`;

/** As SQL, of SQL: what a commit says of itself, of the run that is repeated, else of one of the repository's latest fifty. */
const aboutOf = (repository: string, commit: string, request: string): string =>
  `coalesce((select o.about from svc.reconciles o where o.id = (${request} ->> 'from')::uuid),
     (select o.about from (select about, commit from svc.reconciles
         where repository_id = ${repository} order by seq desc limit 50) o
       where o.commit = ${commit} and o.about is not null limit 1))`;

export interface NewRun {
  readonly id: string;
  readonly projectId: string;
  readonly repositoryId: string | null;
  readonly repositoryName: string | null;
  readonly commit: string | null;
  readonly reason: ReconcileReason;
  /** Null: it waits for a daemon to take it. */
  readonly daemonId: string | null;
  readonly startedAt: Date;
  readonly request?: JsonObject;
  readonly inputs?: unknown;
}

/** Starts a run. Fails on `reconciles_one_running` where the repository has one already. */
export async function insertRun(sql: Sql, run: NewRun): Promise<void> {
  await sql.query(
    `with made as (
       insert into svc.reconciles
         (id, project_id, repository_id, repository_name, commit, reason, status, daemon_id, started_at,
          request, inputs, about)
       values ($1::uuid, $2::uuid, $3::uuid, $4::text, $5::text, $6::text, 'running', $7::uuid, $8::timestamptz,
         $9::jsonb, $10::jsonb, ${aboutOf('$3::uuid', '$5::text', '$9::jsonb')})
       returning project_id)
     select svc.tell('${reconcileChannel}', project_id::text) from made`,
    [
      run.id,
      run.projectId,
      run.repositoryId,
      run.repositoryName,
      run.commit,
      run.reason,
      run.daemonId,
      run.startedAt,
      JSON.stringify(run.request ?? { kind: 'sync' }),
      JSON.stringify(run.inputs ?? {}),
    ],
    'insert-run',
  );
}

/** What a run is moved with; an absent key stays. `status` other than running ends it. */
export interface RunPatch {
  readonly status?: Exclude<ReconcileStatus, 'running'>;
  readonly commit?: string;
  readonly daemonId?: string | null;
  readonly condition?: string;
  readonly detail?: string;
  readonly stages?: readonly StageTiming[];
  readonly actions?: readonly unknown[];
  readonly consequences?: unknown;
  readonly diagnostics?: readonly unknown[];
  readonly webhooks?: readonly unknown[];
  readonly inputs?: unknown;
  readonly about?: CommitAbout;
}

const columns: { readonly [key in keyof Required<RunPatch>]: readonly [string, string] } = {
  status: ['status', 'text'],
  commit: ['commit', 'text'],
  daemonId: ['daemon_id', 'uuid'],
  condition: ['condition', 'text'],
  detail: ['detail', 'text'],
  stages: ['stages', 'jsonb'],
  actions: ['actions', 'jsonb'],
  consequences: ['consequences', 'jsonb'],
  diagnostics: ['diagnostics', 'jsonb'],
  webhooks: ['webhooks', 'jsonb'],
  inputs: ['inputs', 'jsonb'],
  about: ['about', 'jsonb'],
};

/**
 * The run of this process that was written last with a list: of actions, or of webhooks. A tree that changes nothing has the
 * same lists with every sync, of hundreds of kilobytes each: the database copies them from row to row, compressed as they are.
 */
const writtenBy = new WeakMap<object, string>();

/** Rows of a list that are made into text without a pause, so that what is asked for besides goes in the same message. */
const atOnce = 20;

/**
 * Moves a running run. False: it is not running any more (superseded, or taken over), and the caller must stop without
 * writing anything else. `heldBy`, when given, must be the daemon that runs it (null: that nobody does yet).
 */
export async function moveRun(
  sql: Sql,
  id: string,
  patch: RunPatch,
  now: Date,
  heldBy?: string | null,
  inFull = false,
): Promise<boolean> {
  const values: unknown[] = [id];
  const sets = [`version = nextval('svc.reconcile_versions')`];
  let source = '';
  for (const [key, value] of Object.entries(patch) as [keyof RunPatch, unknown][]) {
    const [column, type] = columns[key];
    const isLong = Array.isArray(value) && value.length > atOnce;
    const from = isLong && patch.status === 'unchanged' && !inFull ? writtenBy.get(value) : undefined;
    if (from !== undefined) {
      values.push(from);
      const of = `svc.reconciles o where o.id = $${values.length}::uuid and o.status = 'unchanged'`;
      sets.push(`${column} = (select o.${column} from ${of})`);
      source += ` and exists (select from ${of})`;
      continue;
    }
    values.push(type !== 'jsonb' ? value : isLong ? await jsonRows(value) : JSON.stringify(value));
    sets.push(`${column} = $${values.length}::${type}`);
  }
  if (patch.commit !== undefined && patch.about === undefined) {
    const commit = `$${values.indexOf(patch.commit) + 1}::text`;
    sets.push(`about = coalesce(r.about, ${aboutOf('r.repository_id', commit, 'r.request')})`);
  }
  if (patch.status !== undefined) {
    values.push(now);
    sets.push(`finished_at = $${values.length}::timestamptz`);
  }
  let holder = '';
  if (heldBy !== undefined) {
    values.push(heldBy);
    holder = `and daemon_id is not distinct from $${values.length}::uuid`;
  }
  const { rowCount } = await sql.query(
    `with moved as (
       update svc.reconciles r set ${sets.join(', ')} where id = $1::uuid and status = 'running' ${holder} ${source}
       returning project_id)
     select svc.tell('${reconcileChannel}', project_id::text) from moved`,
    values,
  );
  // The run that has them is gone, or its transaction was taken back.
  if (rowCount === 0 && source !== '') return moveRun(sql, id, patch, now, heldBy, true);
  if (rowCount > 0 && patch.status === 'unchanged') {
    for (const list of [patch.actions, patch.webhooks]) if (list !== undefined) writtenBy.set(list, id);
  }
  return rowCount > 0;
}

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

/** The latest run of each repository, by repository id. */
export async function lastRuns(sql: Sql, repositoryIds: readonly string[]): Promise<ReadonlyMap<string, ReconcileRow>> {
  const { rows } = await sql.query<ReconcileRow>(
    `select run.* from unnest($1::uuid[]) as wanted (id) cross join lateral (
       select ${selected} from svc.reconciles where repository_id = wanted.id order by seq desc limit 1) run`,
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
 * the commit has, its inputs stored. A commit that changed nothing counts with the one before it, and a rollback is no
 * step of that way. `except` is a commit that is not to be gone back to.
 */
export async function appliedBefore(
  sql: Sql,
  repositoryId: string,
  from: { readonly commit: string; readonly except: string | null },
): Promise<ReconcileRow | undefined> {
  const { rows } = await sql.query<ReconcileRow>(
    `with way as (
       select * from svc.reconciles where repository_id = $1::uuid and request ->> 'kind' <> 'rollback'
          and status in ('applied', 'unchanged')),
     brought as (
       select max(seq) as seq from way where status = 'applied'
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

/** True when a repository has a run after `seq` that says something newer (a superseded one does not). */
export async function hasNewerRun(sql: Sql, repositoryId: string, seq: number): Promise<boolean> {
  const { rows } = await sql.query(
    `select 1 from svc.reconciles
      where repository_id = $1::uuid and seq > $2::bigint and status <> 'superseded' limit 1`,
    [repositoryId, seq],
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
export async function listRuns(sql: Sql, projectId: string, filter: RunFilter): Promise<ReconcileRow[]> {
  const { rows } = await sql.query<ReconcileRow>(
    `select ${filter.isRow === true ? rowSelected : selected} from svc.reconciles
      where project_id = $1::uuid and ($2::text is null or repository_name = $2::text)
        and ($3::text is null or status = $3::text) and ($4::bigint is null or seq < $4::bigint)
      order by seq desc limit $5::int`,
    [projectId, filter.repository ?? null, filter.status ?? null, filter.beforeSeq ?? null, filter.limit],
  );
  return rows;
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

export async function runById(sql: Sql, projectId: string, id: string): Promise<ReconcileRow | undefined> {
  const { rows } = await sql.query<ReconcileRow>(
    `select ${selected} from svc.reconciles where project_id = $1::uuid and id = $2::uuid`,
    [projectId, id],
  );
  return rows[0];
}

/** Runs of a project that changed after `version`, in the order of their changes. */
export async function runsChangedSince(
  sql: Sql,
  projectId: string,
  version: number,
  repository: string | undefined,
): Promise<ReconcileRow[]> {
  const { rows } = await sql.query<ReconcileRow>(
    `select ${selected} from svc.reconciles
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

/** Commits of a repository's runs that begin so, at most two. */
export async function commitsStarting(sql: Sql, repositoryId: string, beginning: string): Promise<string[]> {
  const { rows } = await sql.query<{ commit: string }>(
    `select distinct commit from svc.reconciles
      where repository_id = $1::uuid and starts_with(commit, $2::text) limit 2`,
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
