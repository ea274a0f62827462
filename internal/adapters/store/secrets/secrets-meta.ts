// Which secret names resolve, without touching a value (spec, Secret resource: project scope first, then organization
// scope; an expired secret resolves as absent, so that a live one beneath it is found).

import type { Sql } from '../store.ts';

export interface SecretNames {
  /** Resolve to a live value. */
  readonly live: ReadonlySet<string>;
  /** Exist, and have expired wherever they exist. */
  readonly expired: ReadonlySet<string>;
}

/** What planning sees of the secrets of a project ($1) and its organization ($2) at a time ($3). */
export const secretsSeen = `select name, bool_or(
    coalesce(expires_at > $3::timestamptz, true)
    and coalesce(idle_since + idle_expiry_seconds * interval '1 second' > $3::timestamptz, true)) as live
  from svc.secrets where org_id = $2::uuid and (project_id = $1::uuid or project_id is null) group by name`;

/** The names that a project sees, its own and its organization's. */
export async function readSecretNames(sql: Sql, orgId: string, projectId: string, now: Date): Promise<SecretNames> {
  const { rows } = await sql.query<{ name: string; live: boolean }>(secretsSeen, [projectId, orgId, now]);
  return {
    live: new Set(rows.filter((row) => row.live).map((row) => row.name)),
    expired: new Set(rows.filter((row) => !row.live).map((row) => row.name)),
  };
}
