// svc.agents and svc.agent_revisions. An agent's id lives as long as its name; its spec is always that of its highest
// revision, and a revision never changes. Owner: a repository, or null for `manual`. Writes are set-wise: one
// statement per table, however many agents an apply changes.

import type { AgentWrite, Current, CurrentAgent } from '../../../core/plan/types.ts';
import type { Json, JsonObject } from '../../../domain/json.ts';
import type { Origins } from '../../../domain/diagnostic.ts';
import type { SourceRef } from '../../../domain/spec.ts';
import { type EarlyEnd, earlyEnd, endingEarly, jsonBytes, type Sized } from '../schema/early-end.ts';
import type { Sql } from '../store.ts';
import { jsonbSlices } from '../schema/jsonb-slices.ts';
import { hashOrDrift, specsWithin } from './drift.ts';
import { assetsSeen, generatedSeen, readAssetHashes, readGenerated } from './generated.ts';
import { connectionsSeen, readConnections } from '../connections/connections.ts';
import { fenceOf } from '../repositories/settings.ts';
import { endpointsSeen, readEndpoints } from './endpoints.ts';
import { readSchedules, schedulesSeen } from './schedules.ts';
import { readSecretNames, secretsSeen } from '../secrets/secret-resolution.ts';
import { readTriggers, triggersSeen } from './triggers.ts';
import { limitsSeen, readLimits } from '../tenancy/tenancy.ts';

/** What planning sees of a project's ($1) agents. */
export const agentsSeen = `select a.id, a.name, a.repository_id as "repositoryId", a.revision, ${hashOrDrift('a')} as hash,
    a.source, a.environment, a.identity
  from svc.agents a where a.project_id = $1::uuid`;

/** Every agent of a project as planning sees it, without specs. */
export async function readAgents(sql: Sql, projectId: string): Promise<CurrentAgent[]> {
  const { rows } = await sql.query<CurrentAgent>(`${agentsSeen} order by name`, [projectId]);
  return rows;
}

/** Specs by id, of agents of the project: as many of them as fit into so many bytes, and one. */
export async function readAgentSpecs(
  sql: Sql,
  projectId: string,
  ids: readonly string[],
  bytes: number,
): Promise<ReadonlyMap<string, Json>> {
  const { rows } = await sql.query<{ id: string; spec: Json }>(specsWithin('svc.agents'), [projectId, ids, bytes]);
  return new Map(rows.map((row) => [row.id, row.spec]));
}

export interface AgentsWrite {
  readonly projectId: string;
  readonly repositoryId: string | null;
  readonly now: Date;
  readonly reconcileId: string;
  readonly commit: string | null;
  readonly agents: readonly AgentWrite[];
}

/** Creates and changes agents, and keeps the spec of each new revision. Where their values came from so far is forgotten. */
export async function writeAgents(tx: Sql, write: AgentsWrite): Promise<void> {
  if (write.agents.length === 0) return;
  const rows = write.agents.map(({ name, revision, spec, hash, source }) => ({ name, revision, spec, hash, source }));
  const text = `insert into svc.agents
       (project_id, name, repository_id, revision, spec, spec_hash, spec_sum, source, created_at, updated_at)
     select $1::uuid, w.name, $2::uuid, w.revision, w.spec, w.hash, md5(w.spec::text), w.source, $3::timestamptz, $3::timestamptz
       from jsonb_to_recordset($4::jsonb) as w (name text, revision int, spec jsonb, hash text, source jsonb)
     on conflict (project_id, name) do update set repository_id = excluded.repository_id,
       revision = excluded.revision, spec = excluded.spec, spec_hash = excluded.spec_hash, spec_sum = excluded.spec_sum,
       source = excluded.source, origins = null,
       updated_at = excluded.updated_at`;
  for await (const slice of jsonbSlices(rows)) {
    await tx.query(text, [write.projectId, write.repositoryId, write.now, slice]);
  }
  const revised = write.agents.filter((agent) => agent.newRevision).map((agent) => agent.name);
  if (revised.length === 0) return;
  await tx.query(
    `insert into svc.agent_revisions
       (project_id, agent_id, revision, spec, spec_hash, reconcile_id, commit, created_at)
     select project_id, id, revision, spec, spec_hash, $3::uuid, $4::text, $5::timestamptz
       from svc.agents where project_id = $1::uuid and name = any($2::text[])`,
    [write.projectId, revised, write.reconcileId, write.commit, write.now],
  );
}

/** Records where documents moved to; neither the revision nor the time of change of their agents moves. */
export async function writeAgentSources(
  tx: Sql,
  sources: readonly { readonly id: string; readonly source: SourceRef }[],
): Promise<void> {
  if (sources.length === 0) return;
  await tx.query(
    `update svc.agents a set source = w.source
       from jsonb_to_recordset($1::jsonb) as w (id uuid, source jsonb) where a.id = w.id`,
    [JSON.stringify(sources)],
  );
}

/** Of agents that are applied by hand: their files are not kept, so that where their values come from is. */
export async function writeAgentOrigins(
  tx: Sql,
  projectId: string,
  origins: { readonly [agent: string]: Origins },
): Promise<void> {
  const rows = Object.entries(origins).map(([name, one]) => ({ name, origins: one }));
  const text = `update svc.agents a set origins = w.origins
       from jsonb_to_recordset($2::jsonb) as w (name text, origins jsonb)
      where a.project_id = $1::uuid and a.name = w.name and a.repository_id is null
        and a.origins is distinct from w.origins`;
  for await (const slice of jsonbSlices(rows)) await tx.query(text, [projectId, slice]);
}

/** What is kept of that, by agent id. */
export async function readAgentOrigins(sql: Sql, ids: readonly string[]): Promise<ReadonlyMap<string, Origins>> {
  const { rows } = await sql.query<{ id: string; origins: Origins }>(
    'select id, origins from svc.agents where id = any($1::uuid[]) and repository_id is null and origins is not null',
    [ids],
  );
  return new Map(rows.map((row) => [row.id, row.origins]));
}

/** Agents of a project by name, without their specs; those that are not there are left out. */
export async function agentsByName(
  sql: Sql,
  projectId: string,
  names: readonly string[],
): Promise<Omit<AgentRow, 'spec'>[]> {
  const { rows } = await sql.query<AgentRow>(
    `select ${rowSelected} from ${from} where a.project_id = $1::uuid and a.name = any($2::text[])`,
    [projectId, names],
  );
  return rows;
}

/** Deletes agents; their triggers, schedules and shares in generated resources go with them, their revisions stay. */
export async function deleteAgents(tx: Sql, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  await tx.query('delete from svc.agents where id = any($1::uuid[])', [ids]);
}

export interface AgentRow {
  readonly id: string;
  readonly name: string;
  readonly repositoryId: string | null;
  /** Name of the owning repository; null for `manual`. */
  readonly repository: string | null;
  readonly revision: number;
  readonly spec: JsonObject;
  readonly source: SourceRef;
  /** Of the apply that brought its revision; null: applied by hand. */
  readonly commit: string | null;
  readonly reconcileId: string | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

const rowSelected = `a.id, a.name, a.repository_id as "repositoryId", r.name as repository, a.revision, a.source,
  v.commit, v.reconcile_id as "reconcileId", a.created_at as "createdAt", a.updated_at as "updatedAt"`;
const selected = `${rowSelected}, a.spec`;
const from = `svc.agents a left join svc.repositories r on r.id = a.repository_id
  left join svc.agent_revisions v on v.agent_id = a.id and v.revision = a.revision`;

/** A page of a project's agents, by name, behind `after`; with `isRow` without their specs. */
export async function listAgents(
  sql: Sql,
  projectId: string,
  page: { readonly limit: number; readonly after?: string; readonly isRow?: boolean },
): Promise<EarlyEnd<AgentRow>> {
  const listed = `select ${page.isRow === true ? rowSelected : selected} from ${from}
      where a.project_id = $1::uuid and ($2::text is null or a.name > $2::text collate "C")
      order by a.name collate "C" limit $3::int`;
  const values = [projectId, page.after ?? null, page.limit];
  if (page.isRow === true) return { rows: (await sql.query<AgentRow>(listed, values)).rows, isCut: false };
  const text = endingEarly(listed, { size: jsonBytes('spec'), order: 'name collate "C"' });
  return earlyEnd((await sql.query<AgentRow & Sized>(text, values)).rows);
}

/** The first of a project's agents by name, with what others tell them apart by. */
export async function agentFaces(sql: Sql, projectId: string, limit: number) {
  const { rows } = await sql.query<{ name: string; revision: number; harness: string; concurrency: number | null }>(
    `select name, revision, spec ->> 'harness' as harness, (spec ->> 'concurrency')::int as concurrency
       from svc.agents where project_id = $1::uuid order by name collate "C" limit $2::int`,
    [projectId, limit],
  );
  return rows;
}

/** An agent with its current spec. */
export async function agentByName(sql: Sql, projectId: string, name: string): Promise<AgentRow | undefined> {
  const { rows } = await sql.query<AgentRow>(
    `select ${selected} from ${from}
      where a.project_id = $1::uuid and a.name = $2::text`,
    [projectId, name],
  );
  return rows[0];
}

export interface RevisionRow {
  readonly revision: number;
  readonly spec: JsonObject;
  readonly reconcileId: string | null;
  readonly commit: string | null;
  readonly createdAt: Date;
}

/** A page of an agent's revisions, newest first, below `before`; with `isRow` without their specs. */
export async function listRevisions(
  sql: Sql,
  agentId: string,
  page: { readonly limit: number; readonly before?: number; readonly isRow?: boolean },
): Promise<EarlyEnd<RevisionRow>> {
  const listed = `select revision, ${page.isRow === true ? '' : 'spec, '}reconcile_id as "reconcileId", commit, created_at as "createdAt"
       from svc.agent_revisions
      where agent_id = $1::uuid and ($2::int is null or revision < $2::int)
      order by revision desc limit $3::int`;
  const values = [agentId, page.before ?? null, page.limit];
  if (page.isRow === true) return { rows: (await sql.query<RevisionRow>(listed, values)).rows, isCut: false };
  const text = endingEarly(listed, { size: jsonBytes('spec'), order: 'revision desc' });
  return earlyEnd((await sql.query<RevisionRow & Sized>(text, values)).rows);
}

/** How many agents a project has, of whatever owner. */
export async function countAgents(sql: Sql, projectId: string): Promise<number> {
  const { rows } = await sql.query<{ n: number }>(
    'select count(*)::int as n from svc.agents where project_id = $1::uuid',
    [projectId],
  );
  return rows[0]?.n ?? 0;
}

/** The specs of revisions, by number; of one that there is not, there is none. */
export async function readRevisionSpecs(
  sql: Sql,
  agentId: string,
  revisions: readonly number[],
): Promise<ReadonlyMap<number, JsonObject>> {
  const { rows } = await sql.query<{ revision: number; spec: JsonObject }>(
    'select revision, spec from svc.agent_revisions where agent_id = $1::uuid and revision = any($2::int[])',
    [agentId, revisions],
  );
  return new Map(rows.map((row) => [row.revision, row.spec]));
}

/** Live sessions of agents, by agent and revision; `id` is the agent's. */
export async function liveSessionsByRevision(
  sql: Sql,
  agentIds: readonly string[],
): Promise<
  readonly { readonly id: string; readonly agent: string; readonly revision: number; readonly count: number }[]
> {
  const { rows } = await sql.query<{ id: string; agent: string; revision: number; count: number }>(
    `select agent_id as id, agent, revision, count(*)::int as count from svc.sessions
      where agent_id = any($1::uuid[]) and live group by agent_id, agent, revision order by agent collate "C", revision`,
    [agentIds],
  );
  return rows;
}

// What an apply plans with, besides the lock that it holds (routing/project-lock.ts): the settings that it was planned against, and
// the reading of everything that a plan compares with. Reading takes a fixed number of statements, whatever the project holds.

export interface OwnerRow {
  readonly id: string;
  readonly name: string;
  /** Of its settings. */
  readonly fence: number;
}

/**
 * The organization of a project and its repositories: who may own, by which name, and with which settings now. Undefined
 * for a project that is not there.
 */
export async function readOwners(
  sql: Sql,
  projectId: string,
): Promise<{ readonly orgId: string; readonly owners: readonly OwnerRow[] } | undefined> {
  const { rows } = await sql.query<{ orgId: string; owners: OwnerRow[] }>(
    `select p.org_id as "orgId", coalesce((
         select json_agg(json_build_object('id', r.id, 'name', r.name, 'fence', ${fenceOf}))
           from svc.repositories r where r.project_id = p.id), '[]') as owners
       from svc.projects p where p.id = $1::uuid`,
    [projectId],
  );
  return rows[0];
}

export interface ReadOptions {
  readonly projectId: string;
  readonly orgId: string;
  readonly owners: readonly OwnerRow[];
  readonly now: Date;
}

/** Everything that a plan compares with, but the specs (`readSpecs`, only of what differs). */
export async function readCurrent(sql: Sql, options: ReadOptions): Promise<Current> {
  const { projectId, orgId, owners, now } = options;
  const agents = await readAgents(sql, projectId);
  const generated = await readGenerated(sql, projectId);
  const triggers = await readTriggers(sql, projectId);
  const endpoints = await readEndpoints(sql, projectId);
  const schedules = await readSchedules(sql, projectId);
  const connections = await readConnections(sql, projectId);
  const secrets = await readSecretNames(sql, orgId, projectId, now);
  const assets = await readAssetHashes(sql, projectId);
  const { limits, allow } = await readLimits(sql, projectId);
  return {
    repositories: new Map(owners.map((row) => [row.id, row.name])),
    agents,
    generated,
    triggers,
    endpoints,
    schedules,
    connections,
    liveSecrets: secrets.live,
    expiredSecrets: secrets.expired,
    idleSecrets: secrets.idle,
    assets,
    limits,
    allow,
    injections: secrets.injections,
  };
}

const seen = [
  agentsSeen,
  generatedSeen,
  triggersSeen,
  endpointsSeen,
  schedulesSeen,
  connectionsSeen,
  secretsSeen,
  assetsSeen,
  limitsSeen,
];
const digests = seen.map(
  (text) => `(select concat_ws(' ', count(*), bit_xor(hash_record_extended(t, 0)), bit_xor(hash_record_extended(t, 1)))
    from (${text}) t)`,
);

/**
 * A digest of all rows that `readCurrent` reads, made where they are: equal digests mean an equal state, also where
 * somebody edited a spec. One statement, and no row travels.
 */
export async function digestCurrent(sql: Sql, options: Omit<ReadOptions, 'owners'>): Promise<string> {
  const { projectId, orgId, now } = options;
  const { rows } = await sql.query<{ digest: string }>(`select concat_ws(',', ${digests.join(', ')}) as digest`, [
    projectId,
    orgId,
    now,
  ]);
  return rows[0]?.digest ?? '';
}
