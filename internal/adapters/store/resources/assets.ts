// svc.assets: avatars by the hash of their bytes. A row never changes; the same picture is stored once a project.

import type { Sql } from '../store.ts';

/** What planning sees of a project's ($1) avatars. */
export const assetsSeen = 'select sha256 from svc.assets where project_id = $1::uuid';

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
