// The first rows of an empty database: one organization, one project, one administrator with one token.

import type { Sql } from '../store.ts';

/** Serialises daemons that find the database empty at the same moment. */
const lockKey = 7_370_002;

export interface FirstRows {
  readonly slug: string;
  readonly administrator: string;
  readonly tokenSha256: Buffer;
}

/** Inside a transaction: writes the rows and answers with the ids, or undefined where there is an organization already. */
export async function insertFirstRows(
  tx: Sql,
  first: FirstRows,
): Promise<{ orgId: string; projectId: string; principalId: string } | undefined> {
  await tx.query('select pg_advisory_xact_lock($1::bigint)', [lockKey]);
  if ((await tx.query('select from svc.orgs limit 1')).rowCount > 0) return undefined;
  const { rows } = await tx.query<{ orgId: string; projectId: string; principalId: string }>(
    `with org as (insert into svc.orgs (slug, name) values ($1::text, $1::text) returning id),
       project as (insert into svc.projects (org_id, slug, name) select id, $1::text, $1::text from org returning id),
       person as (insert into svc.principals (kind, name) values ('user', $2::text) returning id),
       member as (insert into svc.org_members (org_id, principal_id, role) select org.id, person.id, 'admin' from org, person),
       token as (insert into svc.api_tokens (principal_id, token_sha256, name, installation)
         select id, $3::bytea, 'client.json', true from person)
     select org.id as "orgId", project.id as "projectId", person.id as "principalId" from org, project, person`,
    [first.slug, first.administrator, first.tokenSha256],
  );
  return rows[0];
}

/**
 * Adds a token for the oldest administrator, for whoever owns the data directory and has lost the file with the first
 * one. Answers with where it is valid, undefined when no organization has an administrator.
 */
export async function insertRecoveredToken(
  tx: Sql,
  tokenSha256: Buffer,
): Promise<{ orgId: string; org: string; project: string | null; principalId: string } | undefined> {
  const { rows } = await tx.query<{ orgId: string; org: string; project: string | null; principalId: string }>(
    `with admin as (
       select o.id, o.slug, m.principal_id from svc.org_members m
       join svc.orgs o on o.id = m.org_id join svc.principals p on p.id = m.principal_id
       where m.role = 'admin' and p.kind = 'user' and p.disabled_at is null
       order by o.created_at, o.id, m.created_at, m.principal_id limit 1),
     token as (insert into svc.api_tokens (principal_id, token_sha256, name, installation)
       select principal_id, $1::bytea, 'client.json (recovered)', true from admin)
     select admin.id as "orgId", admin.slug as org, admin.principal_id as "principalId",
       (select slug from svc.projects where org_id = admin.id and deleted_at is null order by created_at, id limit 1) as project
     from admin`,
    [tokenSha256],
  );
  return rows[0];
}

/** The id of this database, as a UUID: the same for as long as it lives, and kept by its backups. */
export async function installationId(sql: Sql): Promise<string> {
  const { rows } = await sql.query<{ id: string }>('select id from svc.installation');
  const [row] = rows;
  if (row === undefined)
    throw new Error('svc.installation has no row: the database is not what its migrations made of it');
  return row.id;
}

/** Versions of the master key that something stored needs, in order. */
export async function sealedVersions(sql: Sql): Promise<number[]> {
  const { rows } = await sql.query<{ version: number }>(
    `select key_version as version from svc.secrets
     union select key_version from svc.connections where sealed_credentials is not null and key_version is not null
     order by version`,
  );
  return rows.map((row) => row.version);
}
