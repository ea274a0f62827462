// Which secret names resolve, without touching a value (docs/reference/secrets.md#fields: project scope first, then organization
// scope; an expired secret resolves as absent, so that a live one beneath it is found).

import type { Sql } from '../store.ts';

export interface SecretNames {
  /** Resolve to a live value. */
  readonly live: ReadonlySet<string>;
  /** Exist, and have expired wherever they exist. */
  readonly expired: ReadonlySet<string>;
  /** Resolve to a live value that expires when it is idle. */
  readonly idle: ReadonlySet<string>;
}

const isLive = `coalesce(expires_at > $3::timestamptz, true)
    and coalesce(idle_since + idle_expiry_seconds * interval '1 second' > $3::timestamptz, true)`;

/**
 * What planning sees of the secrets of a project ($1) and its organization ($2) at a time ($3). `idle`: the value that the
 * name resolves to expires when it is idle.
 */
export const secretsSeen = `select name, bool_or(${isLive}) as live,
    coalesce((array_agg(idle_expiry_seconds is not null order by project_id nulls last) filter (where ${isLive}))[1],
      false) as idle
  from svc.secrets where org_id = $2::uuid and (project_id = $1::uuid or project_id is null) group by name`;

/** The names that a project sees, its own and its organization's. */
export async function readSecretNames(sql: Sql, orgId: string, projectId: string, now: Date): Promise<SecretNames> {
  const { rows } = await sql.query<{ name: string; live: boolean; idle: boolean }>(secretsSeen, [
    projectId,
    orgId,
    now,
  ]);
  const names = (wanted: readonly { readonly name: string }[]) => new Set(wanted.map((row) => row.name));
  return {
    live: names(rows.filter((row) => row.live)),
    expired: names(rows.filter((row) => !row.live)),
    idle: names(rows.filter((row) => row.idle)),
  };
}
