// What is written to reconcile runs. Invariant: a run is only ever moved out of `running`, so every write carries
// `where status = 'running'` and says whether it still held, to its caller or, where the commit goes in the same message,
// to the server, which then commits nothing (svc.as_many).

import type { CommitAbout } from '../../../domain/commit.ts';
import type { JsonObject } from '../../../domain/json.ts';
import { jsonRows } from '../../../base/concurrency.ts';
import type { Sql } from '../store.ts';

export type ReconcileReason = 'push' | 'poll' | 'manual' | 'watch' | 'resync' | 'apply';
export type ReconcileStatus = 'running' | 'applied' | 'unchanged' | 'held' | 'failed' | 'superseded' | 'quarantined';

export interface StageTiming {
  readonly name: string;
  readonly ms: number;
}

/** The channel on which every change of a run is notified, with the project's id. Wakes; polling is the truth. */
export const reconcileChannel = 'svc_reconciles';

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

interface Move {
  readonly id: string;
  readonly patch: RunPatch;
  readonly now: Date;
  /** When given, must be the daemon that runs it (null: that nobody does yet). */
  readonly heldBy?: string | null | undefined;
}

/** A move whose lists have been made into text: it goes in the message of what is asked for in the same breath. */
export interface PreparedMove {
  readonly run: (sql: Sql) => Promise<boolean>;
  /**
   * The same where the commit is in the same message: where the run is not running any more, or what is to be copied is gone,
   * the statement fails with `notMoved`, and nothing of the transaction stands.
   */
  readonly runLast: (tx: Sql) => Promise<void>;
}

/** The code of the error that a prepared move fails with where it cannot be made. */
export const notMoved = 'SVC04';

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
): Promise<boolean> {
  return (await prepareMove({ id, patch, now, heldBy })).run(sql);
}

/** Ends all runs of a project's repositories, under way or not taken by a daemon yet, as superseded for that reason. */
export async function endRunsOf(
  tx: Sql,
  { projectId, detail, now }: { readonly projectId: string; readonly detail: string; readonly now: Date },
): Promise<void> {
  await tx.query(
    `with ended as (
       update svc.reconciles set status = 'superseded', detail = $2::text, finished_at = $3::timestamptz,
         version = nextval('svc.reconcile_versions')
        where project_id = $1::uuid and status = 'running' and repository_id is not null returning project_id)
     select svc.tell('${reconcileChannel}', project_id::text) from ended limit 1`,
    [projectId, detail, now],
  );
}

/** Ends runs that have waited for a daemon for so long because their projects are archived: asked for while that was being done. */
export async function endRunsOfArchived(
  sql: Sql,
  { forSeconds, detail, now }: { readonly forSeconds: number; readonly detail: string; readonly now: Date },
): Promise<void> {
  await sql.query(
    `with ended as (
       update svc.reconciles r set status = 'superseded', detail = $2::text, finished_at = $3::timestamptz,
         version = nextval('svc.reconcile_versions')
        from svc.projects p
        where r.status = 'running' and r.daemon_id is null and r.repository_id is not null
          and r.started_at < now() - make_interval(secs => $1::int)
          and p.id = r.project_id and p.archived_at is not null returning r.project_id)
     select svc.tell('${reconcileChannel}', project_id::text) from (select distinct project_id from ended) told`,
    [forSeconds, detail, now],
  );
}

/**
 * A move of a run with its texts made, so that none is made while a lock is held. `inFull`: lists are written, and not copied
 * from the run that has written the same before.
 */
export async function prepareMove(move: Move, inFull = false): Promise<PreparedMove> {
  const { update, values, isCopy } = await updateOf(move, inFull);
  const { id, patch } = move;
  const noteLists = (): void => {
    if (patch.status !== 'unchanged') return;
    for (const list of [patch.actions, patch.webhooks]) if (list !== undefined) writtenBy.set(list, id);
  };
  const told = `svc.tell('${reconcileChannel}', project_id::text)`;
  return {
    run: async (sql) => {
      const { rowCount } = await sql.query(`with moved as (${update}) select ${told} from moved`, values);
      // The run that has them is gone, or its transaction was taken back.
      if (rowCount === 0 && isCopy) return (await prepareMove(move, true)).run(sql);
      if (rowCount > 0) noteLists();
      return rowCount > 0;
    },
    runLast: async (tx) => {
      const text = `with moved as (${update}) select (select ${told} from moved),
        svc.as_many((select count(*) from moved), 1, '${notMoved}')`;
      await tx.query(text, values);
      noteLists();
    },
  };
}

async function updateOf({ id, patch, now, heldBy }: Move, inFull: boolean) {
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
  const update = `update svc.reconciles r set ${sets.join(', ')} where id = $1::uuid and status = 'running' ${holder} ${source}
       returning project_id`;
  return { update, values, isCopy: source !== '' };
}
