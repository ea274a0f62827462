// Repositories: what people declare of them, and what the daemon knows of them. Settings are changed by people only and
// every change raises the generation, one that decides what a sync comes to the fence as well; the state row is written at
// the end of a sync that learned something. When each is looked at next is in polls.ts.

import type { Json } from '../../../domain/json.ts';
import { type EarlyEnd, earlyEnd, endingEarly, jsonBytes, type Sized } from '../schema/early-end.ts';
import type { Sql } from '../store.ts';
import { isLookedAt } from './polls.ts';
import { reconcileChannel, type ReconcileRow, runBytes } from './reconciles.ts';
import { fenceOf, isDeciding, type RepositorySettings } from './settings.ts';

export type { RepositoryAuth, RepositorySettings } from './settings.ts';

export interface RepositoryRow extends RepositorySettings {
  readonly id: string;
  readonly projectId: string;
  readonly name: string;
  readonly suspended: boolean;
  readonly pinnedCommit: string | null;
  readonly quarantinedCommit: string | null;
  readonly generation: number;
  /** Another one than that of a run: the run is of settings that have changed. */
  readonly fence: number;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

/** What the daemon knows; see the columns' comments in migrations/0003. */
export interface RepositoryState {
  readonly appliedCommit: string | null;
  readonly appliedHash: string | null;
  readonly appliedAt: Date | null;
  readonly snapshotId: string | null;
  readonly templateLock: { readonly [specifier: string]: { readonly version: string; readonly integrity: string } };
  readonly seenCommit: string | null;
  readonly seenHash: string | null;
  readonly refBranch: string | null;
  readonly failures: number;
  readonly condition: string | null;
  readonly conditionDetail: string | null;
  readonly conditionSince: Date | null;
}

export type Repository = RepositoryRow & { readonly state: RepositoryState };

/** Change of one or more settings; an absent key stays. */
export type RepositoryPatch = Partial<
  RepositorySettings & { suspended: boolean; pinnedCommit: string | null; quarantinedCommit: string | null }
>;

const columns: { readonly [key in keyof Required<RepositoryPatch>]: readonly [column: string, type: string] } = {
  url: ['url', 'text'],
  urlKey: ['url_key', 'text'],
  path: ['path', 'text'],
  branch: ['branch', 'text'],
  root: ['root', 'text'],
  intervalSeconds: ['interval_seconds', 'int'],
  auth: ['auth', 'jsonb'],
  context: ['context', 'jsonb'],
  adopt: ['adopt', 'boolean'],
  guard: ['guard', 'jsonb'],
  verify: ['verify', 'jsonb'],
  plan: ['plan', 'jsonb'],
  suspended: ['suspended', 'boolean'],
  pinnedCommit: ['pinned_commit', 'text'],
  quarantinedCommit: ['quarantined_commit', 'text'],
};

const selected = `
  r.id, r.project_id as "projectId", r.name, r.url, r.url_key as "urlKey", r.path, r.branch, r.root,
  r.interval_seconds as "intervalSeconds", r.auth, r.context, r.adopt, r.suspended, r.guard, r.verify, r.plan,
  r.pinned_commit as "pinnedCommit", r.quarantined_commit as "quarantinedCommit", r.generation,
  ${fenceOf} as fence,
  r.created_at as "createdAt", r.updated_at as "updatedAt",
  json_build_object('appliedCommit', s.applied_commit, 'appliedHash', s.applied_hash, 'appliedAt', s.applied_at,
    'snapshotId', s.snapshot_id, 'templateLock', coalesce(s.template_lock, '{}'), 'seenCommit', s.seen_commit,
    'seenHash', s.seen_hash, 'refBranch', s.ref_branch, 'failures', coalesce(s.failures, 0), 'condition', s.condition,
    'conditionDetail', s.condition_detail, 'conditionSince', s.condition_since) as state`;
const joined = 'svc.repositories r left join svc.repository_states s on s.repository_id = r.id';

/** As the database gives it: times within JSON are texts. */
type Raw = RepositoryRow & {
  readonly state: Omit<RepositoryState, 'appliedAt' | 'conditionSince'> & {
    readonly appliedAt: string | null;
    readonly conditionSince: string | null;
  };
};

function revived(row: Raw): Repository {
  const { appliedAt, conditionSince } = row.state;
  const state = {
    ...row.state,
    appliedAt: appliedAt === null ? null : new Date(appliedAt),
    conditionSince: conditionSince === null ? null : new Date(conditionSince),
  };
  return { ...row, state };
}

/** Creates the row with its state and its poll row. A taken name fails the unique index (project_id, name). */
export async function insertRepository(
  sql: Sql,
  row: RepositorySettings & { readonly id: string; projectId: string; name: string; suspended: boolean; now: Date },
): Promise<void> {
  const json = (value: unknown): string | null => (value === null ? null : JSON.stringify(value));
  await sql.query(
    `with made as (
       insert into svc.repositories (id, project_id, name, url, url_key, path, branch, root, interval_seconds, auth,
         context, adopt, guard, verify, suspended, created_at, updated_at, plan)
       values ($1::uuid, $2::uuid, $3::text, $4::text, $5::text, $6::text, $7::text, $8::text, $9::int, $10::jsonb,
         $11::jsonb, $12::boolean, $13::jsonb, $14::jsonb, $15::boolean, $16::timestamptz, $16::timestamptz, $17::jsonb)
       returning id)
     insert into svc.repository_states (repository_id) select id from made`,
    [
      row.id,
      row.projectId,
      row.name,
      row.url,
      row.urlKey,
      row.path,
      row.branch,
      row.root,
      row.intervalSeconds,
      json(row.auth),
      json(row.context),
      row.adopt,
      json(row.guard),
      json(row.verify),
      row.suspended,
      row.now,
      json(row.plan),
    ],
  );
}

/**
 * Changes settings and raises the generation, and the fence where one of them decides. Resolves to the new generation, or
 * null where the row is gone.
 */
export async function updateRepository(
  sql: Sql,
  id: string,
  patch: RepositoryPatch,
  now: Date,
): Promise<number | null> {
  const values: unknown[] = [id, now];
  const sets = ['generation = generation + 1', 'updated_at = $2::timestamptz'];
  const given = Object.entries(patch) as [keyof typeof columns, Json][];
  if (!given.some(([key]) => isDeciding(key))) sets.push('undeciding = undeciding + 1');
  for (const [key, value] of given) {
    const [column, type] = columns[key];
    values.push(type === 'jsonb' && value !== null ? JSON.stringify(value) : value);
    sets.push(`${column} = $${values.length}::${type}`);
  }
  const { rows } = await sql.query<{ generation: number }>(
    `update svc.repositories set ${sets.join(', ')} where id = $1::uuid returning generation`,
    values,
  );
  return rows[0]?.generation ?? null;
}

/**
 * Lets the commit go that a rollback set aside. No setting that a person has changed: the generation stays, and with it
 * what was planned under it, such as a run that waits for its approval.
 */
export async function endQuarantine(tx: Sql, id: string, commit: string, now: Date): Promise<void> {
  await tx.query(
    `update svc.repositories set quarantined_commit = null, updated_at = $3::timestamptz
     where id = $1::uuid and quarantined_commit = $2::text`,
    [id, commit, now],
  );
}

/** A repository with what the daemon knows of it. */
export async function repositoryById(sql: Sql, id: string): Promise<Repository | undefined> {
  const { rows } = await sql.query<Raw>(
    `select ${selected} from ${joined} where r.id = $1::uuid`,
    [id],
    'repository-by-id',
  );
  return rows[0] && revived(rows[0]);
}

export interface InHand {
  readonly repository: Repository;
  /** Its project, as flows address it. */
  readonly project: { readonly id: string; readonly slug: string; readonly orgId: string; readonly orgSlug: string };
  /** Names of the project's active code-host connections, sorted. */
  readonly connections: readonly string[];
  /** Its run that waited for a daemon, if there is one; it is the asking daemon's from now on. */
  readonly waiting: Pick<ReconcileRow, 'id' | 'reason' | 'request'> | null;
  /** Unclean ends in a row at which its sync was in hand. */
  readonly ends: number;
}

/**
 * All that the beginning of a sync needs to know, in one statement, which also takes the run that waits for a daemon, for
 * this one, and notes the sync in hand of its strand `lane` (in-hand.ts), but where nobody asked for one that is suspended
 * (`by` null: nothing is taken or noted); undefined also where the project is archived: then nothing is either. As with the
 * note alone, its commit is not waited for to be on the disk: where the database's machine loses it, the run waits again,
 * and what this daemon writes to it is refused.
 */
export async function repositoryInHand(
  sql: Sql,
  id: string,
  by: { readonly daemonId: string; readonly lane: string } | null,
): Promise<InHand | undefined> {
  const { rows } = await sql.query<Raw & Omit<InHand, 'repository'> & { told: unknown }>(
    `with quick as materialized (
       select set_config('synchronous_commit', 'off', true) as off where $2::uuid is not null
     ), taken as (
       update svc.reconciles x set version = nextval('svc.reconcile_versions'), daemon_id = $2::uuid
        where x.repository_id = $1::uuid and x.status = 'running' and x.daemon_id is null and $2::uuid is not null
          and exists (select from svc.repositories r join svc.projects p on p.id = r.project_id
            where r.id = $1::uuid and p.archived_at is null)
        returning x.id, x.reason, x.request, x.project_id
     ), noted as (
       insert into svc.in_hand (daemon_id, lane, kind, ids, alone)
         select $2::uuid, $3::text, 'sync', array[r.id::text], false
           from quick, svc.repositories r join svc.projects p on p.id = r.project_id
          where r.id = $1::uuid and p.archived_at is null and (not r.suspended or exists (select from taken))
       on conflict (daemon_id, lane) do update set kind = excluded.kind, ids = excluded.ids, alone = excluded.alone)
     select ${selected},
       json_build_object('id', p.id, 'slug', p.slug, 'orgId', o.id, 'orgSlug', o.slug) as project,
       array(select c.name from svc.connections c
         where c.project_id = r.project_id and c.provider = 'codehost' and c.status in ('active', 'degraded') order by c.name collate "C") as connections,
       (select json_build_object('id', x.id, 'reason', x.reason, 'request', x.request) from taken x) as waiting,
       coalesce((select u.ends from svc.suspects u where u.kind = 'sync' and u.id = r.id::text), 0) as ends,
       (select svc.tell('${reconcileChannel}', x.project_id::text) from taken x) as told
       from ${joined} join svc.projects p on p.id = r.project_id join svc.orgs o on o.id = p.org_id
      where r.id = $1::uuid and p.archived_at is null`,
    [id, by?.daemonId ?? null, by?.lane ?? null],
    'repository-in-hand',
  );
  const [row] = rows;
  if (row === undefined) return undefined;
  const { project, connections, waiting, ends, told: _told, ...repository } = row;
  return { repository: revived(repository as Raw), project, connections, waiting, ends };
}

/** Locks the row until the end of the transaction, so that two decisions about one repository follow each other. */
export async function lockRepository(sql: Sql, id: string): Promise<Repository | undefined> {
  const lock = sql.query('select 1 from svc.repositories where id = $1::uuid for update', [id], 'lock-repository');
  // Read by a statement of its own: what whoever had the lock wrote elsewhere is seen by the next one only.
  const [, repository] = await Promise.all([lock, repositoryById(sql, id)]);
  return repository;
}

/** The same by the name in its project. */
export async function lockRepositoryNamed(sql: Sql, projectId: string, name: string): Promise<Repository | undefined> {
  const text = 'select id from svc.repositories where project_id = $1::uuid and name = $2::text for update';
  const lock = sql.query(text, [projectId, name], 'lock-repository-named');
  const [, repository] = await Promise.all([lock, repositoryByName(sql, projectId, name)]);
  return repository;
}

/** The same by its name in its project. */
export async function repositoryByName(sql: Sql, projectId: string, name: string): Promise<Repository | undefined> {
  const { rows } = await sql.query<Raw>(
    `select ${selected} from ${joined} where r.project_id = $1::uuid and r.name = $2::text`,
    [projectId, name],
    'repository-by-name',
  );
  return rows[0] && revived(rows[0]);
}

/** A page in the order of names, after the name `after`; each is as large as itself with its last run. */
export async function listRepositories(
  sql: Sql,
  projectId: string,
  page: { readonly after: string | null; readonly limit: number },
): Promise<EarlyEnd<Repository>> {
  const listed = `select ${selected} from ${joined}
      where r.project_id = $1::uuid and ($2::text is null or r.name collate "C" > $2::text collate "C")
      order by r.name collate "C" limit $3::int`;
  const lastRun = `(select ${runBytes} from svc.reconciles where repository_id = listed.id order by seq desc limit 1)`;
  const size = `${jsonBytes('context')} + coalesce(${lastRun}, 0)`;
  const text = endingEarly(listed, { size, order: 'name collate "C"' });
  const { rows, isCut } = earlyEnd((await sql.query<Raw & Sized>(text, [projectId, page.after, page.limit])).rows);
  return { rows: rows.map(revived), isCut };
}

/** Deletes the row with its state, polls and snapshots; its runs stay, without it. What it owns must be gone by then. */
export async function deleteRepository(sql: Sql, id: string): Promise<void> {
  await sql.query('delete from svc.repositories where id = $1::uuid', [id]);
}

/** Writes what a sync learned; an absent key stays. */
export async function updateState(
  sql: Sql,
  repositoryId: string,
  patch: Partial<RepositoryState>,
  now: Date,
): Promise<void> {
  const names: { readonly [key in keyof RepositoryState]: readonly [string, string] } = {
    appliedCommit: ['applied_commit', 'text'],
    appliedHash: ['applied_hash', 'text'],
    appliedAt: ['applied_at', 'timestamptz'],
    snapshotId: ['snapshot_id', 'uuid'],
    templateLock: ['template_lock', 'jsonb'],
    seenCommit: ['seen_commit', 'text'],
    seenHash: ['seen_hash', 'text'],
    refBranch: ['ref_branch', 'text'],
    failures: ['failures', 'int'],
    condition: ['condition', 'text'],
    conditionDetail: ['condition_detail', 'text'],
    conditionSince: ['condition_since', 'timestamptz'],
  };
  const values: unknown[] = [repositoryId, now];
  const sets = ['updated_at = $2::timestamptz'];
  // A source that answers is backed off no more.
  if (patch.failures === 0) sets.push('retry_at = null');
  for (const [key, value] of Object.entries(patch) as [keyof RepositoryState, unknown][]) {
    const [column, type] = names[key];
    values.push(type === 'jsonb' ? JSON.stringify(value) : value);
    sets.push(`${column} = $${values.length}::${type}`);
  }
  await sql.query(`update svc.repository_states set ${sets.join(', ')} where repository_id = $1::uuid`, values);
}

/** How many repositories have which condition of their source; `ok` for none. */
export async function conditionCounts(sql: Sql): Promise<{ readonly condition: string; readonly count: number }[]> {
  const { rows } = await sql.query<{ condition: string; count: number }>(
    `select coalesce(condition, 'ok') as condition, count(*)::int as count from svc.repository_states
      where ${isLookedAt('repository_id')} group by 1`,
  );
  return rows;
}

/** How many agents a repository owns, by repository id; those that own none are absent. */
export async function ownedAgents(sql: Sql, repositoryIds: readonly string[]): Promise<ReadonlyMap<string, number>> {
  const { rows } = await sql.query<{ id: string; count: number }>(
    `select repository_id as id, count(*)::int as count from svc.agents
      where repository_id = any($1::uuid[]) group by repository_id`,
    [repositoryIds],
  );
  return new Map(rows.map((row) => [row.id, row.count]));
}

/** Hands everything that a repository owns over to `manual`. Resolves to the number of agents. */
export async function releaseOwned(sql: Sql, repositoryId: string): Promise<number> {
  const { rowCount } = await sql.query(
    'update svc.agents set repository_id = null, updated_at = now() where repository_id = $1::uuid',
    [repositoryId],
  );
  return rowCount;
}

/** Repositories of a project whose address or, where the host is spelled otherwise, whose path is the pushed one. */
export async function repositoriesOfPush(
  sql: Sql,
  projectId: string,
  push: { readonly addresses: readonly string[]; readonly fullName: string },
): Promise<{ id: string; name: string; branch: string | null; suspended: boolean }[]> {
  const { rows } = await sql.query<{ id: string; name: string; branch: string | null; suspended: boolean }>(
    `select id, name, branch, suspended from svc.repositories
      where project_id = $1::uuid and url_key is not null
        and (url_key = any($2::text[]) or right(url_key, length($3::text) + 1) = '/' || $3::text)`,
    [projectId, push.addresses, push.fullName],
  );
  return rows;
}

/** Folders and local repositories that are to be watched. */
export async function watchedFolders(sql: Sql): Promise<{ id: string; generation: number }[]> {
  const { rows } = await sql.query<{ id: string; generation: number }>(
    'select id, generation from svc.repositories where path is not null and not suspended order by id',
  );
  return rows;
}

/** The project of an id, as flows address it; an archived one is none. */
export async function projectOf(
  sql: Sql,
  projectId: string,
): Promise<{ id: string; slug: string; orgId: string; orgSlug: string } | undefined> {
  const { rows } = await sql.query<{ id: string; slug: string; orgId: string; orgSlug: string }>(
    `select p.id, p.slug, o.id as "orgId", o.slug as "orgSlug"
       from svc.projects p join svc.orgs o on o.id = p.org_id
      where p.id = $1::uuid and p.archived_at is null`,
    [projectId],
  );
  return rows[0];
}
