// What an apply plans with, besides the lock that it holds (routing/project-lock.ts): the settings that it was planned
// against, and the reading of everything that a plan compares with. Reading takes a fixed number of statements, whatever the project holds.

import type { Current } from '../../../core/plan/types.ts';
import { agentsSeen, readAgents } from './agents.ts';
import { assetsSeen, generatedSeen, readAssetHashes, readGenerated } from './generated.ts';
import { connectionsSeen, readConnections } from '../connections/connections.ts';
import type { Sql } from '../store.ts';
import { endpointsSeen, readEndpoints } from './endpoints.ts';
import { readSchedules, schedulesSeen } from './schedules.ts';
import { readSecretNames, secretsSeen } from '../secrets/secret-resolution.ts';
import { readTriggers, triggersSeen } from './triggers.ts';
import { limitsSeen, readLimits } from '../tenancy/tenancy.ts';

export interface OwnerRow {
  readonly id: string;
  readonly name: string;
  readonly generation: number;
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
         select json_agg(json_build_object('id', r.id, 'name', r.name, 'generation', r.generation))
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
