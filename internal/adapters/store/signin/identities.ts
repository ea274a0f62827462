// svc.signin_attempts, svc.external_identities, and the roles that groups give (svc.org_members and svc.project_members,
// column group_role): recomputed whole for one person, apart from what was given by hand.

import type { OrgRole, ProjectRole } from '../../../domain/permission.ts';
import type { Sql } from '../store.ts';

/** A new sign-in by a provider, by the hash of its cookie. */
export async function insertAttempt(
  sql: Sql,
  attempt: {
    readonly cookieSha256: Buffer;
    readonly method: string;
    readonly next: string;
    readonly expiresAt: Date;
  },
): Promise<void> {
  await sql.query(
    `insert into svc.signin_attempts (cookie_sha256, method, next, expires_at)
     values ($1::bytea, $2::text, $3::text, $4::timestamptz)`,
    [attempt.cookieSha256, attempt.method, attempt.next, attempt.expiresAt],
  );
}

/** Takes the callback of an attempt, once and in time; answers with where its browser wanted to go. */
export async function takeAttempt(
  sql: Sql,
  cookieSha256: Buffer,
  method: string,
  now: Date,
): Promise<{ readonly next: string } | undefined> {
  const { rows } = await sql.query<{ next: string }>(
    `update svc.signin_attempts set used_at = $3::timestamptz
     where cookie_sha256 = $1::bytea and method = $2::text and used_at is null and expires_at > $3::timestamptz
     returning next`,
    [cookieSha256, method, now],
  );
  return rows[0];
}

/** Keeps the groups of somebody whom none of them lets in, to be told once. */
export async function keepRefusedGroups(sql: Sql, cookieSha256: Buffer, groups: readonly string[]): Promise<void> {
  await sql.query(`update svc.signin_attempts set refused_groups = $2::jsonb where cookie_sha256 = $1::bytea`, [
    cookieSha256,
    JSON.stringify(groups),
  ]);
}

/** The groups that were refused, told once. */
export async function takeRefusedGroups(sql: Sql, cookieSha256: Buffer, now: Date): Promise<string[] | undefined> {
  const { rows } = await sql.query<{ groups: string[] }>(
    `with seen as (select cookie_sha256, refused_groups from svc.signin_attempts
         where cookie_sha256 = $1::bytea and refused_groups is not null and expires_at > $2::timestamptz for update),
       gone as (update svc.signin_attempts a set refused_groups = null from seen where a.cookie_sha256 = seen.cookie_sha256)
     select refused_groups as groups from seen`,
    [cookieSha256, now],
  );
  return rows[0]?.groups;
}

export interface Identity {
  readonly principalId: string;
  readonly name: string;
  readonly disabled: boolean;
}

/** The principal that a provider's subject is known as. */
export async function findIdentity(sql: Sql, issuer: string, subject: string): Promise<Identity | undefined> {
  const { rows } = await sql.query<Identity>(
    `select p.id as "principalId", p.name, p.disabled_at is not null as disabled from svc.external_identities i
     join svc.principals p on p.id = i.principal_id where i.issuer = $1::text and i.subject = $2::text`,
    [issuer, subject],
  );
  return rows[0];
}

/**
 * The person of an identity, made at the first sign-in. No address is kept with it: two identities with one address are two
 * people until an administrator says otherwise.
 */
export async function ensureIdentity(
  tx: Sql,
  given: { readonly issuer: string; readonly subject: string; readonly name: string; readonly now: Date },
): Promise<Identity> {
  // Two first sign-ins at one moment are one person.
  await tx.query('select pg_advisory_xact_lock(hashtextextended($1::text, 90))', [`${given.issuer}\n${given.subject}`]);
  const known = await findIdentity(tx, given.issuer, given.subject);
  if (known !== undefined) {
    await tx.query(
      `update svc.external_identities set last_signin_at = $3::timestamptz where issuer = $1::text and subject = $2::text`,
      [given.issuer, given.subject, given.now],
    );
    return known;
  }
  const { rows } = await tx.query<Identity>(
    `with p as (insert into svc.principals (kind, name) values ('user', $3::text) returning id, name),
       i as (insert into svc.external_identities (issuer, subject, principal_id, created_at, last_signin_at)
         select $1::text, $2::text, p.id, $4::timestamptz, $4::timestamptz from p)
     select p.id as "principalId", p.name, false as disabled from p`,
    [given.issuer, given.subject, given.name, given.now],
  );
  return rows[0] as Identity;
}

/** A role that a group gives, by the slugs of the configuration. */
export interface GroupRole {
  readonly org: string;
  readonly project?: string;
  readonly role: OrgRole | ProjectRole;
}

/**
 * Makes a person's group roles what they are now: what a group gave before and gives no more goes, what was given by hand
 * stays. A role in a project makes a member of its organization. Answers whether the person has any role at all.
 */
export async function setGroupRoles(tx: Sql, principalId: string, roles: readonly GroupRole[]): Promise<boolean> {
  await tx.query('select from svc.principals where id = $1::uuid for no key update', [principalId]);
  const json = JSON.stringify(roles.map(({ org, project, role }) => ({ org, project: project ?? null, role })));
  await tx.query(
    `with wanted as (
       select o.id, case when bool_or(r.project is null and r.role = 'admin') then 'admin' else 'member' end as role
       from jsonb_to_recordset($2::jsonb) as r (org text, project text, role text) join svc.orgs o on o.slug = r.org
       group by o.id),
     lost as (update svc.org_members m set group_role = null where m.principal_id = $1::uuid and m.group_role is not null
       and m.hand_role is not null and m.org_id not in (select id from wanted)),
     gone as (delete from svc.org_members m where m.principal_id = $1::uuid and m.group_role is not null
       and m.hand_role is null and m.org_id not in (select id from wanted))
     insert into svc.org_members (org_id, principal_id, role, group_role)
     select id, $1::uuid, role, role from wanted
     on conflict (org_id, principal_id) do update set group_role = excluded.group_role`,
    [principalId, json],
  );
  await tx.query(
    `with wanted as (
       select j.id, (array['viewer', 'operator', 'admin'])[max(array_position(array['viewer', 'operator', 'admin'], r.role))] as role
       from jsonb_to_recordset($2::jsonb) as r (org text, project text, role text)
       join svc.orgs o on o.slug = r.org join svc.projects j on j.org_id = o.id and j.slug = r.project and j.deleted_at is null
       where r.project is not null group by j.id),
     lost as (update svc.project_members m set group_role = null where m.principal_id = $1::uuid and m.group_role is not null
       and m.hand_role is not null and m.project_id not in (select id from wanted)),
     gone as (delete from svc.project_members m where m.principal_id = $1::uuid and m.group_role is not null
       and m.hand_role is null and m.project_id not in (select id from wanted))
     insert into svc.project_members (project_id, principal_id, role, group_role)
     select id, $1::uuid, role, role from wanted
     on conflict (project_id, principal_id) do update set group_role = excluded.group_role`,
    [principalId, json],
  );
  const { rows } = await tx.query<{ some: boolean }>(
    `select exists (select from svc.org_members where principal_id = $1::uuid)
       or exists (select from svc.project_members where principal_id = $1::uuid) as some`,
    [principalId],
  );
  return rows[0]?.some === true;
}
