// svc.orgs, svc.projects and memberships. An organization keeps at least one administrator who is a person and not
// disabled: removals and demotions lock its row and look, in the same transaction.

import type { ResourceLimits } from '../../../domain/catalog.ts';
import type { Approvers } from '../../../domain/notification.ts';
import type { OrgRole, ProjectRole } from '../../../domain/permission.ts';
import type { Sql } from '../store.ts';

export interface OrgRow {
  readonly id: string;
  readonly slug: string;
  readonly name: string;
  readonly createdAt: Date;
}
export interface ProjectRow extends OrgRow {
  /** Who may answer what sessions ask, where they ask it. */
  readonly approvers: Approvers;
  /** Whether failed launches and questions are told where their session came from. */
  readonly notify: boolean;
  readonly orgId: string;
  readonly archivedAt: Date | null;
  readonly limits: ResourceLimits | null;
  readonly network: ProjectNetwork | null;
}
export interface MemberRow {
  readonly principalId: string;
  readonly kind: 'user' | 'service_account';
  readonly name: string;
  readonly email: string | null;
  readonly role: string;
  readonly createdAt: Date;
}

const orgColumns = `o.id, o.slug, o.name, o.created_at as "createdAt"`;
const projectColumns = `j.id, j.org_id as "orgId", j.slug, j.name, j.archived_at as "archivedAt", j.created_at as "createdAt",
  j.limits, j.network, j.approvers, j.notify`;
const memberColumns = `p.id as "principalId", p.kind, p.name, p.email, m.role, m.created_at as "createdAt"`;

/**
 * Organizations that a principal can see, by slug; its role there, null when it comes by a project alone. `only`: an id
 * to which the list is limited.
 */
export async function listOrgs(
  sql: Sql,
  principalId: string,
  page: { readonly after?: string; readonly limit: number; readonly only: string | null },
): Promise<(OrgRow & { role: OrgRole | null })[]> {
  const { rows } = await sql.query<OrgRow & { role: OrgRole | null }>(
    `select ${orgColumns}, m.role from svc.orgs o
     left join svc.org_members m on m.org_id = o.id and m.principal_id = $1::uuid
     where (m.role is not null
         or o.id = (select org_id from svc.principals where id = $1::uuid)
         or exists (select from svc.project_members x join svc.projects j on j.id = x.project_id
              where j.org_id = o.id and x.principal_id = $1::uuid))
       and ($2::text is null or o.slug > $2::text) and ($4::uuid is null or o.id = $4::uuid)
     order by o.slug limit $3::int`,
    [principalId, page.after ?? null, page.limit, page.only],
  );
  return rows;
}

/** A new organization with its first administrator; a slug that is taken fails the unique index. */
export async function insertOrg(tx: Sql, org: { slug: string; name: string }, adminId: string): Promise<OrgRow> {
  const { rows } = await tx.query<OrgRow>(
    `with o as (insert into svc.orgs (slug, name) values ($1::text, $2::text) returning *),
       m as (insert into svc.org_members (org_id, principal_id, role) select id, $3::uuid, 'admin' from o)
     select ${orgColumns} from o`,
    [org.slug, org.name, adminId],
  );
  return rows[0] as OrgRow;
}

/** An organization, also one that is being deleted. */
export async function getOrg(sql: Sql, orgId: string): Promise<OrgRow | undefined> {
  return (await sql.query<OrgRow>(`select ${orgColumns} from svc.orgs o where o.id = $1::uuid`, [orgId])).rows[0];
}

/** Changes what is given; undefined where the organization is gone, or on its way. */
export async function updateOrg(
  tx: Sql,
  orgId: string,
  change: { slug?: string; name?: string },
): Promise<OrgRow | undefined> {
  const { rows } = await tx.query<OrgRow>(
    `update svc.orgs o set slug = coalesce($2::text, slug), name = coalesce($3::text, name)
     where o.id = $1::uuid and deleted_at is null returning ${orgColumns}`,
    [orgId, change.slug ?? null, change.name ?? null],
  );
  return rows[0];
}

/**
 * False, and nothing is deleted, where the organization has a project that somebody can find, or is deleted already. Waits for
 * projects that are being made. Its name is free at once; its own row goes with its last project.
 */
export async function deleteEmptyOrg(tx: Sql, orgId: string): Promise<boolean> {
  await tx.query('select from svc.orgs where id = $1::uuid for update', [orgId]);
  const { rowCount } = await tx.query(
    `update svc.orgs o set slug = 'deleted-' || replace(id::text, '-', ''), deleted_at = now()
      where o.id = $1::uuid and deleted_at is null
        and not exists (select from svc.projects where org_id = o.id and deleted_at is null)`,
    [orgId],
  );
  if (rowCount === 0) return false;
  for (const table of ['org_members', 'principals', 'secrets', 'api_tokens']) {
    await tx.query(`delete from svc.${table} where org_id = $1::uuid`, [orgId]);
  }
  await deleteOrgsGone(tx);
  return true;
}

/** Whether an organization has projects that somebody can find. */
export async function hasProjects(sql: Sql, orgId: string): Promise<boolean> {
  const { rowCount } = await sql.query(
    'select from svc.projects where org_id = $1::uuid and deleted_at is null limit 1',
    [orgId],
  );
  return rowCount > 0;
}

/** Whether another project of its organization has this slug. */
export async function isSlugOfAnother(
  sql: Sql,
  project: { readonly id: string; readonly orgId: string },
  slug: string,
): Promise<boolean> {
  const { rowCount } = await sql.query(
    'select from svc.projects where org_id = $1::uuid and slug = $2::text and id <> $3::uuid',
    [project.orgId, slug, project.id],
  );
  return rowCount > 0;
}

/** Rows of organizations that are deleted and whose projects are all gone. */
export async function deleteOrgsGone(sql: Sql): Promise<void> {
  await sql.query(
    `delete from svc.orgs o where o.deleted_at is not null and not exists (select from svc.projects where org_id = o.id)`,
  );
}

/** Projects of an organization that a principal can see: all of them for its administrators. */
export async function listProjects(
  sql: Sql,
  orgId: string,
  principalId: string,
  page: { readonly after?: string; readonly limit: number },
): Promise<(ProjectRow & { role: ProjectRole | null; orgRole: OrgRole | null })[]> {
  const { rows } = await sql.query<ProjectRow & { role: ProjectRole | null; orgRole: OrgRole | null }>(
    `select ${projectColumns}, m.role, om.role as "orgRole" from svc.projects j
     left join svc.project_members m on m.project_id = j.id and m.principal_id = $2::uuid
     left join svc.org_members om on om.org_id = j.org_id and om.principal_id = $2::uuid
     where j.org_id = $1::uuid and j.deleted_at is null and (m.role is not null or om.role = 'admin')
       and ($3::text is null or j.slug > $3::text)
     order by j.slug limit $4::int`,
    [orgId, principalId, page.after ?? null, page.limit],
  );
  return rows;
}

/** Undefined where the organization is gone, or on its way. */
export async function insertProject(
  tx: Sql,
  orgId: string,
  project: { slug: string; name: string },
): Promise<ProjectRow | undefined> {
  const { rows } = await tx.query<ProjectRow>(
    `insert into svc.projects as j (org_id, slug, name)
     select id, $2::text, $3::text from svc.orgs where id = $1::uuid and deleted_at is null for key share
     returning ${projectColumns}`,
    [orgId, project.slug, project.name],
  );
  return rows[0];
}

/** A project, also one that is being deleted. */
export async function getProject(sql: Sql, projectId: string): Promise<ProjectRow | undefined> {
  return (
    await sql.query<ProjectRow>(`select ${projectColumns} from svc.projects j where j.id = $1::uuid`, [projectId])
  ).rows[0];
}

export interface ProjectChange {
  readonly slug?: string;
  readonly name?: string;
  readonly archived?: boolean;
  /** Of each provider given, all of them. */
  readonly approvers?: Approvers;
  readonly notify?: boolean;
}

/** Changes what is given; undefined where the project is gone, or on its way. */
export async function updateProject(
  tx: Sql,
  projectId: string,
  change: ProjectChange,
  now: Date,
): Promise<ProjectRow | undefined> {
  const { rows } = await tx.query<ProjectRow>(
    `update svc.projects j set slug = coalesce($2::text, slug), name = coalesce($3::text, name),
       archived_at = case $4::boolean when true then coalesce(archived_at, $5::timestamptz) when false then null else archived_at end,
       approvers = approvers || coalesce($6::jsonb, '{}'), notify = coalesce($7::boolean, notify)
     where j.id = $1::uuid and deleted_at is null returning ${projectColumns}`,
    [
      projectId,
      change.slug ?? null,
      change.name ?? null,
      change.archived ?? null,
      now,
      change.approvers === undefined ? null : JSON.stringify(change.approvers),
      change.notify ?? null,
    ],
  );
  return rows[0];
}

/** The id of a project that is not archived, by the slugs of its organization and its own. */
export async function projectIdOf(
  sql: Sql,
  of: { readonly org: string; readonly project: string },
): Promise<string | undefined> {
  const { rows } = await sql.query<{ id: string }>(
    `select p.id from svc.projects p join svc.orgs o on o.id = p.org_id
      where o.slug = $1::text and p.slug = $2::text and p.archived_at is null`,
    [of.org, of.project],
  );
  return rows[0]?.id;
}

/** Notes the first completed apply of a project; undefined for every other. One apply at a time, by the project's lock. */
export async function noteOnboarded(tx: Sql, projectId: string, now: Date): Promise<ProjectRow | undefined> {
  const { rows } = await tx.query<ProjectRow>(
    `update svc.projects j set onboarded_at = $2::timestamptz where j.id = $1::uuid and onboarded_at is null
     returning ${projectColumns}`,
    [projectId, now],
  );
  return rows[0];
}

/** Which membership: of an organization, or of one of its projects. */
export type Membership =
  | { readonly orgId: string; readonly projectId?: undefined }
  | { readonly orgId: string; readonly projectId: string };

function tableOf(membership: Membership): { table: string; key: string; id: string } {
  return membership.projectId === undefined
    ? { table: 'svc.org_members', key: 'org_id', id: membership.orgId }
    : { table: 'svc.project_members', key: 'project_id', id: membership.projectId };
}

/** By principal id, so that a page boundary stays where it is when names change. */
export async function listMembers(
  sql: Sql,
  membership: Membership,
  page: { readonly after?: string; readonly limit: number },
): Promise<MemberRow[]> {
  const { table, key, id } = tableOf(membership);
  const { rows } = await sql.query<MemberRow>(
    `select ${memberColumns} from ${table} m join svc.principals p on p.id = m.principal_id
     where m.${key} = $1::uuid and ($2::uuid is null or p.id > $2::uuid) order by p.id limit $3::int`,
    [id, page.after ?? null, page.limit],
  );
  return rows;
}

/** A member with its role. */
export async function findMember(
  sql: Sql,
  membership: Membership,
  principalId: string,
): Promise<MemberRow | undefined> {
  const { table, key, id } = tableOf(membership);
  const { rows } = await sql.query<MemberRow>(
    `select ${memberColumns} from ${table} m join svc.principals p on p.id = m.principal_id
     where m.${key} = $1::uuid and p.id = $2::uuid`,
    [id, principalId],
  );
  return rows[0];
}

/** Sets the role of a member; undefined where the principal is none. */
export async function changeMember(
  tx: Sql,
  membership: Membership,
  principalId: string,
  role: string,
): Promise<MemberRow | undefined> {
  const { table, key, id } = tableOf(membership);
  const { rows } = await tx.query<MemberRow>(
    `with m as (update ${table} set role = $3::text, hand_role = $3::text where ${key} = $1::uuid and principal_id = $2::uuid returning *)
     select ${memberColumns} from m join svc.principals p on p.id = m.principal_id`,
    [id, principalId, role],
  );
  return rows[0];
}

/** Makes a member, or changes its role: given by hand, whatever groups give. */
export async function putMember(
  tx: Sql,
  membership: Membership,
  principalId: string,
  role: string,
): Promise<MemberRow> {
  const { table, key, id } = tableOf(membership);
  const { rows } = await tx.query<MemberRow>(
    `with m as (insert into ${table} (${key}, principal_id, role) values ($1::uuid, $2::uuid, $3::text)
       on conflict (${key}, principal_id) do update set role = excluded.role, hand_role = excluded.role returning *)
     select ${memberColumns} from m join svc.principals p on p.id = m.principal_id`,
    [id, principalId, role],
  );
  return rows[0] as MemberRow;
}

/**
 * Whether a principal is a member or a service account of an organization, and stays it until the end of the transaction:
 * whoever is being removed is waited for.
 */
export async function holdOrgPrincipal(tx: Sql, orgId: string, principalId: string): Promise<boolean> {
  const { rowCount } = await tx.query(
    `with m as (select from svc.org_members where org_id = $1::uuid and principal_id = $2::uuid for key share),
       p as (select from svc.principals where org_id = $1::uuid and id = $2::uuid for key share)
     select from m union all select from p`,
    [orgId, principalId],
  );
  return rowCount > 0;
}

/** The removed member, or undefined. Whoever leaves an organization leaves its projects as well. */
export async function deleteMember(
  tx: Sql,
  membership: Membership,
  principalId: string,
): Promise<MemberRow | undefined> {
  const { table, key, id } = tableOf(membership);
  const { rows } = await tx.query<MemberRow>(
    `with m as (delete from ${table} where ${key} = $1::uuid and principal_id = $2::uuid returning *)
     select ${memberColumns} from m join svc.principals p on p.id = m.principal_id`,
    [id, principalId],
  );
  if (membership.projectId === undefined) {
    await tx.query(
      `delete from svc.project_members m using svc.projects j
       where j.id = m.project_id and j.org_id = $1::uuid and m.principal_id = $2::uuid`,
      [membership.orgId, principalId],
    );
  }
  return rows[0];
}

const admins = `from svc.org_members m join svc.principals p on p.id = m.principal_id
     where m.org_id = $1::uuid and m.role = 'admin' and p.kind = 'user' and p.disabled_at is null`;

/** Whether somebody other than this one administers the organization; takes no lock. */
export async function hasOtherAdmin(sql: Sql, orgId: string, principalId: string): Promise<boolean> {
  const { rowCount } = await sql.query(`select ${admins} and p.id <> $2::uuid limit 1`, [orgId, principalId]);
  return rowCount > 0;
}

/** Locks the organization (no more than needed: others go on adding to it) and counts the administrators left to it. */
export async function countOrgAdmins(tx: Sql, orgId: string): Promise<number> {
  await tx.query('select from svc.orgs where id = $1::uuid for no key update', [orgId]);
  const { rows } = await tx.query<{ n: number }>(`select count(*) as n ${admins}`, [orgId]);
  return rows[0]?.n ?? 0;
}

/** What the environments of a project's sessions may reach, and may ask for, is on its row in svc.projects too. */
export interface ProjectNetwork {
  readonly allow: readonly string[];
}
export interface EnvironmentChange {
  /** Null clears it. */
  readonly limits?: ResourceLimits | null;
  readonly network?: ProjectNetwork | null;
}

/** What `readLimits` reads, for the digest of an apply. */
export const limitsSeen =
  'select limits::text, network::text from svc.projects where id = $1::uuid and (limits is not null or network is not null)';

/** The ceilings and the list of hosts that a project sets for its environments. */
export async function readLimits(
  sql: Sql,
  projectId: string,
): Promise<{ readonly limits: ResourceLimits | null; readonly allow: readonly string[] | null }> {
  const { rows } = await sql.query<{ limits: ResourceLimits | null; network: { allow: readonly string[] } | null }>(
    'select limits, network from svc.projects where id = $1::uuid',
    [projectId],
  );
  return { limits: rows[0]?.limits ?? null, allow: rows[0]?.network?.allow ?? null };
}

/** Part of a change of a project, in its transaction. */
export async function changeEnvironment(tx: Sql, projectId: string, change: EnvironmentChange): Promise<void> {
  const text = (value: object | null | undefined): string | null => (value == null ? null : JSON.stringify(value));
  await tx.query(
    `update svc.projects set limits = case when $2::boolean then $3::jsonb else limits end,
       network = case when $4::boolean then $5::jsonb else network end
     where id = $1::uuid`,
    [projectId, change.limits !== undefined, text(change.limits), change.network !== undefined, text(change.network)],
  );
}
