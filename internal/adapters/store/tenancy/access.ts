// Who a token speaks for and what it may see, in one statement: svc.api_tokens, svc.principals and the memberships.
// A token counts while it is neither revoked nor expired and its principal is not disabled, at the moment of asking:
// nothing is remembered from one call to the next, so that a revocation holds at once in every daemon.

import { isUuid } from '../../../domain/uuid.ts';
import type { OrgRole, ProjectRole } from '../../../domain/permission.ts';
import type { Sql } from '../store.ts';

export interface AccessRow {
  /** Null: a web session that a provider vouches for. */
  readonly tokenId: string | null;
  /** The one organization that the token opens, null for all of its principal's. */
  readonly tokenOrgId: string | null;
  readonly tokenExpiresAt: Date | null;
  /** False: revoked, expired, or of a disabled principal. */
  readonly live: boolean;
  readonly principalId: string;
  readonly kind: 'user' | 'service_account';
  readonly principalName: string;
  readonly email: string | null;
  readonly principalOrgId: string | null;
  /** True when last_used_at is old enough to be worth a write. */
  readonly stale: boolean;
  readonly orgId: string | null;
  readonly orgSlug: string | null;
  readonly orgName: string | null;
  readonly orgRole: OrgRole | null;
  readonly inSomeProject: boolean;
  readonly adminSomewhere: boolean;
  /** An administrator of the installation's first organization. */
  readonly adminOfFirst: boolean;
  readonly projectId: string | null;
  readonly projectSlug: string | null;
  readonly projectArchived: boolean;
  readonly projectRole: ProjectRole | null;
}

/**
 * The principal of a token, joined with the organization and project that `org` and `project` (slug or id) name.
 * Undefined when no token has this hash; organization and project are null when they do not exist.
 */
export async function findAccess(
  sql: Sql,
  tokenSha256: Buffer,
  now: Date,
  org?: string,
  project?: string,
): Promise<AccessRow | undefined> {
  return find(sql, { token: tokenSha256 }, { now, org, project });
}

/** The same for whoever a web session speaks for, by its id; whether it is alive, its own reader has said. */
export async function findSessionAccess(
  sql: Sql,
  sessionId: string,
  now: Date,
  org?: string,
  project?: string,
): Promise<AccessRow | undefined> {
  return find(sql, { session: sessionId }, { now, org, project });
}

/** The SHA-256 of a token, or the id of a web session. */
type Credential = { readonly token: Buffer } | { readonly session: string };

async function find(
  sql: Sql,
  by: Credential,
  at: { readonly now: Date; readonly org: string | undefined; readonly project: string | undefined },
): Promise<AccessRow | undefined> {
  const { now, org, project } = at;
  const { from, where, key, name } =
    'token' in by
      ? {
          from: 'svc.api_tokens t join svc.principals p on p.id = t.principal_id',
          where: 't.token_sha256 = $1::bytea',
          key: by.token,
          name: 'access-of-token',
        }
      : {
          from: `svc.web_sessions s join svc.principals p on p.id = s.principal_id left join svc.api_tokens t on t.id = s.token_id`,
          where: 's.id = $1::uuid',
          key: by.session,
          name: 'access-of-session',
        };
  const [orgId, orgSlug] = org !== undefined && isUuid(org) ? [org, null] : [null, org ?? null];
  const [projectId, projectSlug] = project !== undefined && isUuid(project) ? [project, null] : [null, project ?? null];
  const { rows } = await sql.query<AccessRow>(
    `select t.id as "tokenId", t.org_id as "tokenOrgId", t.expires_at as "tokenExpiresAt",
       t.revoked_at is null and p.disabled_at is null
         and (t.expires_at is null or t.expires_at > $2::timestamptz) as live,
       p.id as "principalId", p.kind, p.name as "principalName", p.email,
       p.org_id as "principalOrgId",
       (t.last_used_at is null or t.last_used_at < $2::timestamptz - interval '1 minute') as stale,
       o.id as "orgId", o.slug as "orgSlug", o.name as "orgName", om.role as "orgRole",
       exists (select from svc.project_members m join svc.projects x on x.id = m.project_id
         where m.principal_id = p.id and x.org_id = o.id) as "inSomeProject",
       t.org_id is null
         and exists (select from svc.org_members m where m.principal_id = p.id and m.role = 'admin') as "adminSomewhere",
       (t.org_id is null or t.org_id = f.id) and exists (select from svc.org_members m
         where m.principal_id = p.id and m.role = 'admin' and m.org_id = f.id) as "adminOfFirst",
       j.id as "projectId", j.slug as "projectSlug", j.archived_at is not null as "projectArchived",
       jm.role as "projectRole"
     from ${from}
     left join (select id from svc.orgs order by created_at, id limit 1) f on true
     left join svc.orgs o on (o.id = $3::uuid or o.slug = $4::text) and (t.org_id is null or t.org_id = o.id)
     left join svc.org_members om on om.org_id = o.id and om.principal_id = p.id
     left join svc.projects j on j.org_id = o.id and j.deleted_at is null and (j.id = $5::uuid or j.slug = $6::text)
     left join svc.project_members jm on jm.project_id = j.id and jm.principal_id = p.id
     where ${where}`,
    [key, now, orgId, orgSlug, projectId, projectSlug],
    name,
  );
  return rows[0];
}

/** Notes that a token was used; at most one write a minute for each token. */
export async function touchToken(sql: Sql, tokenId: string, now: Date): Promise<void> {
  await sql.query(
    `update svc.api_tokens set last_used_at = $2::timestamptz
     where id = $1::uuid and (last_used_at is null or last_used_at < $2::timestamptz - interval '1 minute')`,
    [tokenId, now],
  );
}
