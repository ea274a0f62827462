// svc.generated_resources and their users. A resource exists while some agent generates it or refers to it by name;
// users are the agents that generate it, of whatever owner.

import type { Sql } from '../store.ts';
import type { CurrentGenerated, GeneratedWrite, UserWrite, Writes } from '../../../core/plan/types.ts';
import type { Json } from '../../../domain/json.ts';
import { jsonbSlices } from '../schema/jsonb-slices.ts';
import { hashOrDrift, specsWithin } from './drift.ts';

/** What planning sees of a project's ($1) generated resources. */
export const generatedSeen = `select g.id, g.kind, g.name, ${hashOrDrift('g')} as hash, g.spec_hash as "agreedHash",
    coalesce(array_agg(u.agent_id order by u.agent_id) filter (where u.agent_id is not null), '{}') as users
  from svc.generated_resources g left join svc.generated_resource_users u on u.resource_id = g.id
  where g.project_id = $1::uuid group by g.id`;

/** Every generated resource of a project with its users, without specs. */
export async function readGenerated(sql: Sql, projectId: string): Promise<CurrentGenerated[]> {
  const { rows } = await sql.query<CurrentGenerated>(`${generatedSeen} order by g.kind, g.name`, [projectId]);
  return rows;
}

/** Specs by id, of generated resources of the project: as many of them as fit into so many bytes, and one. */
export async function readGeneratedSpecs(
  sql: Sql,
  projectId: string,
  ids: readonly string[],
  bytes: number,
): Promise<ReadonlyMap<string, Json>> {
  const { rows } = await sql.query<{ id: string; spec: Json }>(specsWithin('svc.generated_resources'), [
    projectId,
    ids,
    bytes,
  ]);
  return new Map(rows.map((row) => [row.id, row.spec]));
}

/** Makes or changes generated resources; set-wise. */
export async function writeGenerated(
  tx: Sql,
  projectId: string,
  resources: readonly GeneratedWrite[],
  now: Date,
): Promise<void> {
  if (resources.length === 0) return;
  const text = `insert into svc.generated_resources (project_id, kind, name, spec, spec_hash, spec_sum, created_at, updated_at)
     select $1::uuid, w.kind, w.name, w.spec, w.hash, md5(w.spec::text), $2::timestamptz, $2::timestamptz
       from jsonb_to_recordset($3::jsonb) as w (kind text, name text, spec jsonb, hash text)
     on conflict (project_id, kind, name) do update
       set spec = excluded.spec, spec_hash = excluded.spec_hash, spec_sum = excluded.spec_sum,
           updated_at = excluded.updated_at`;
  for await (const slice of jsonbSlices(resources)) await tx.query(text, [projectId, now, slice]);
}

/** Call after agents and resources are written: both sides of a share are named, not numbered. */
export async function writeUsers(tx: Sql, projectId: string, users: readonly UserWrite[]): Promise<void> {
  if (users.length === 0) return;
  await tx.query(
    `insert into svc.generated_resource_users (resource_id, agent_id)
     select g.id, a.id
       from unnest($2::text[], $3::text[], $4::text[]) as w (kind, name, agent)
       join svc.generated_resources g on g.project_id = $1::uuid and g.kind = w.kind and g.name = w.name
       join svc.agents a on a.project_id = $1::uuid and a.name = w.agent
     on conflict do nothing`,
    [projectId, users.map((user) => user.kind), users.map((user) => user.name), users.map((user) => user.agent)],
  );
}

/** Takes agents out of the users of generated resources; set-wise. */
export async function deleteUsers(tx: Sql, users: Writes['userDeletes']): Promise<void> {
  if (users.length === 0) return;
  await tx.query(
    `delete from svc.generated_resource_users u
      using unnest($1::uuid[], $2::uuid[]) as w (resource_id, agent_id)
      where u.resource_id = w.resource_id and u.agent_id = w.agent_id`,
    [users.map((user) => user.resourceId), users.map((user) => user.agentId)],
  );
}

/** By their ids; set-wise. */
export async function deleteGenerated(tx: Sql, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  await tx.query('delete from svc.generated_resources where id = any($1::uuid[])', [ids]);
}

/** Deletes what no agent generates and none refers to, after an agent was deleted by itself. */
export async function deleteUnusedGenerated(tx: Sql, projectId: string): Promise<void> {
  await tx.query(
    `delete from svc.generated_resources g
      where g.project_id = $1::uuid
        and not exists (select from svc.generated_resource_users u where u.resource_id = g.id)
        and not exists (select from svc.agents a where a.project_id = $1::uuid
          and g.name = case g.kind when 'Environment' then a.environment else a.identity end)`,
    [projectId],
  );
}

// svc.assets: avatars by the hash of their bytes. A row never changes; the same picture is stored once a project.

/** What planning sees of a project's ($1) avatars. */
export const assetsSeen = 'select sha256 from svc.assets where project_id = $1::uuid';

/** SHA-256 of the assets that a project has stored. */
export async function readAssetHashes(sql: Sql, projectId: string): Promise<ReadonlySet<string>> {
  const { rows } = await sql.query<{ sha256: string }>(assetsSeen, [projectId]);
  return new Set(rows.map((row) => row.sha256));
}

export interface AssetRow {
  readonly sha256: string;
  readonly mediaType: string;
  readonly bytes: Uint8Array;
}

/** Stores pictures; one that is there already stays as it is. */
export async function insertAssets(tx: Sql, projectId: string, assets: readonly AssetRow[]): Promise<void> {
  if (assets.length === 0) return;
  await tx.query(
    `insert into svc.assets (project_id, sha256, media_type, bytes)
     select $1::uuid, w.sha256, w.media_type, w.bytes
       from unnest($2::text[], $3::text[], $4::bytea[]) as w (sha256, media_type, bytes)
     on conflict (project_id, sha256) do nothing`,
    [
      projectId,
      assets.map((asset) => asset.sha256),
      assets.map((asset) => asset.mediaType),
      assets.map((asset) => Buffer.from(asset.bytes)),
    ],
  );
}
