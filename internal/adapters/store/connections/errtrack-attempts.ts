// svc.errtrack_attempts, and the rows that let a thing happen once: a code's exchange, an installation's proof. A
// transition is an update where the state is one that takes the step; who updates nothing has lost and re-reads.

import {
  after,
  type AttemptState,
  type AttemptStep,
  type ProviderProject,
  takes,
} from '../../../core/attempt/attempt.ts';
import type { Sql } from '../store.ts';

export interface AttemptRow {
  readonly id: string;
  readonly orgId: string;
  readonly orgSlug: string;
  readonly projectId: string;
  readonly projectSlug: string;
  readonly userId: string;
  readonly state: AttemptState;
  readonly reason: string | null;
  readonly destinations: readonly string[];
  readonly installationId: string | null;
  readonly organization: { readonly id: string; readonly slug: string; readonly name: string } | null;
  readonly region: 'us' | 'de' | null;
  readonly choices: readonly ProviderProject[] | null;
  readonly tokenId: string | null;
  readonly tokenExpiresAt: Date | null;
  readonly grantId: string | null;
  readonly expiresAt: Date;
}

const shown = `a.id, a.org_id as "orgId", o.slug as "orgSlug", a.project_id as "projectId", p.slug as "projectSlug",
  a.user_id as "userId", a.state, a.reason, a.destinations, a.installation_id as "installationId",
  a.provider_organization as organization, a.region, a.choices, a.token_id as "tokenId",
  a.token_expires_at as "tokenExpiresAt", a.grant_id as "grantId", a.expires_at as "expiresAt"
  from svc.errtrack_attempts a join svc.orgs o on o.id = a.org_id join svc.projects p on p.id = a.project_id`;

/** A new attempt; its state hash is unique. */
export async function insertAttempt(
  tx: Sql,
  row: Pick<AttemptRow, 'id' | 'orgId' | 'projectId' | 'userId' | 'destinations' | 'expiresAt'> & {
    readonly stateHash: Buffer;
    readonly now: Date;
  },
): Promise<void> {
  await tx.query(
    `insert into svc.errtrack_attempts (id, org_id, project_id, user_id, state, state_hash, destinations, created_at,
       expires_at, updated_at)
     values ($1::uuid, $2::uuid, $3::uuid, $4::uuid, 'awaiting_authorization', $5::bytea, $6::uuid[], $7::timestamptz,
       $8::timestamptz, $7::timestamptz)`,
    [row.id, row.orgId, row.projectId, row.userId, row.stateHash, row.destinations, row.now, row.expiresAt],
  );
}

/** An attempt, whatever its state. */
export async function attemptById(sql: Sql, id: string): Promise<AttemptRow | undefined> {
  const { rows } = await sql.query<AttemptRow>(`select ${shown} where a.id = $1::uuid`, [id]);
  return rows[0];
}

/** The attempt that a callback belongs to, by the SHA-256 of its `state`. */
export async function attemptByState(sql: Sql, stateHash: Buffer): Promise<AttemptRow | undefined> {
  const { rows } = await sql.query<AttemptRow>(`select ${shown} where a.state_hash = $1::bytea`, [stateHash]);
  return rows[0];
}

/** The newest unfinished attempts of a person in a project. */
export async function attemptsOf(sql: Sql, userId: string, projectId: string): Promise<AttemptRow[]> {
  const { rows } = await sql.query<AttemptRow>(
    `select ${shown} where a.user_id = $1::uuid and a.project_id = $2::uuid
       and a.state in ('awaiting_selection', 'exchanging', 'completing')
      order by a.created_at desc limit 10`,
    [userId, projectId],
  );
  return rows;
}

export interface Learned {
  readonly installationId?: string;
  readonly organization?: NonNullable<AttemptRow['organization']>;
  readonly region?: 'us' | 'de';
  readonly choices?: readonly ProviderProject[];
  readonly grantId?: string;
  readonly reason?: string;
}

/**
 * Takes a step where the state still takes it; false where it does not. Ends take the pending credential with them: its
 * row is deleted in the same transaction.
 */
export async function step(
  tx: Sql,
  id: string,
  {
    taken,
    from,
    now,
    learned = {},
  }: { readonly taken: AttemptStep; readonly from: AttemptState; readonly now: Date; readonly learned?: Learned },
): Promise<boolean> {
  const next = takes(taken).includes(from) ? after(from, taken) : null;
  if (next === null) return false;
  const { rows } = await tx.query<{ tokenId: string | null }>(
    `update svc.errtrack_attempts set state = $3::text, updated_at = $4::timestamptz,
       reason = coalesce($5::text, reason), installation_id = coalesce($6::uuid, installation_id),
       provider_organization = coalesce($7::jsonb, provider_organization), region = coalesce($8::text, region),
       choices = coalesce($9::jsonb, choices), token_id = case when $3::text = 'completed' then null else token_id end,
       grant_id = coalesce($10::uuid, grant_id)
      where id = $1::uuid and state = $2::text returning token_id as "tokenId"`,
    [
      id,
      from,
      next,
      now,
      learned.reason ?? null,
      learned.installationId ?? null,
      learned.organization === undefined ? null : JSON.stringify(learned.organization),
      learned.region ?? null,
      learned.choices === undefined ? null : JSON.stringify(learned.choices),
      learned.grantId ?? null,
    ],
  );
  const [row] = rows;
  if (row === undefined) return false;
  const isPending =
    next === 'exchanging' || next === 'awaiting_selection' || next === 'completing' || next === 'completed';
  if (!isPending && row.tokenId !== null)
    await tx.query('delete from svc.oauth_tokens where id = $1::uuid', [row.tokenId]);
  return true;
}

/**
 * Makes what an exchange gave the pending credential of its attempt, in the transaction that stores it; where the attempt
 * was ended meanwhile, the credential is deleted instead.
 */
export async function holdPending(
  tx: Sql,
  at: { readonly id: string; readonly tokenId: string; readonly tokenExpiresAt: Date },
): Promise<void> {
  await tx.query(
    `with held as (update svc.errtrack_attempts set token_id = $2::uuid, token_expires_at = $3::timestamptz
       where id = $1::uuid and state = 'exchanging' and token_id is null returning id)
     delete from svc.oauth_tokens where id = $2::uuid and not exists (select from held)`,
    [at.id, at.tokenId, at.tokenExpiresAt],
  );
}

/** The right to exchange a code, once in the life of this table. */
export async function claimCode(tx: Sql, codeHash: Buffer, attemptId: string, now: Date): Promise<boolean> {
  const { rowCount } = await tx.query(
    `insert into svc.errtrack_codes (code_hash, attempt_id, claimed_at) values ($1::bytea, $2::uuid, $3::timestamptz)
     on conflict do nothing`,
    [codeHash, attemptId, now],
  );
  return rowCount === 1;
}

/** False where another attempt has proven the installation. */
export async function claimInstallation(
  tx: Sql,
  row: { readonly installationId: string; readonly attemptId: string; readonly orgId: string; readonly now: Date },
): Promise<boolean> {
  const { rows } = await tx.query<{ attemptId: string }>(
    `insert into svc.errtrack_installation_claims (installation_id, attempt_id, org_id, claimed_at)
     values ($1::uuid, $2::uuid, $3::uuid, $4::timestamptz)
     on conflict (installation_id) do update set installation_id = excluded.installation_id
     returning attempt_id as "attemptId"`,
    [row.installationId, row.attemptId, row.orgId, row.now],
  );
  return rows[0]?.attemptId === row.attemptId;
}

/** Holds an installation that an attempt has proven until the end of the transaction: its publication or its removal. */
export async function lockInstallation(tx: Sql, installationId: string): Promise<void> {
  await tx.query('select from svc.errtrack_installation_claims where installation_id = $1::uuid for update', [
    installationId,
  ]);
}

/** Whether the provider has told that this installation was uninstalled. */
export async function isUninstalled(sql: Sql, installationId: string): Promise<boolean> {
  const { rows } = await sql.query('select from svc.errtrack_uninstalls where installation_id = $1::uuid', [
    installationId,
  ]);
  return rows.length > 0;
}

/** Active projects of an organization among these ids. */
export async function activeProjects(
  sql: Sql,
  orgId: string,
  ids: readonly string[],
): Promise<{ readonly id: string; readonly slug: string }[]> {
  const { rows } = await sql.query<{ id: string; slug: string }>(
    'select id, slug from svc.projects where org_id = $1::uuid and id = any($2::uuid[]) and archived_at is null for key share',
    [orgId, ids],
  );
  return rows;
}

/** Whether a person still is, or again is, an active administrator of the organization. */
export async function isOrgAdmin(sql: Sql, orgId: string, userId: string): Promise<boolean> {
  const { rows } = await sql.query(
    `select from svc.org_members m join svc.principals p on p.id = m.principal_id
      where m.org_id = $1::uuid and m.principal_id = $2::uuid and m.role = 'admin' and p.kind = 'user' and p.disabled_at is null`,
    [orgId, userId],
  );
  return rows.length > 0;
}

/** Organizations that a person administers, at most one where `onlyOrg` is given. */
export async function administers(sql: Sql, userId: string, onlyOrg: string | null): Promise<boolean> {
  const { rows } = await sql.query(
    `select from svc.org_members m join svc.principals p on p.id = m.principal_id
      where m.principal_id = $1::uuid and m.role = 'admin' and p.kind = 'user' and p.disabled_at is null
        and ($2::uuid is null or m.org_id = $2::uuid) limit 1`,
    [userId, onlyOrg],
  );
  return rows.length > 0;
}

/** An organization and one of its active projects by id or slug. */
export async function scopeOf(
  sql: Sql,
  org: string,
  project: string,
): Promise<
  | { readonly orgId: string; readonly orgSlug: string; readonly projectId: string; readonly projectSlug: string }
  | undefined
> {
  const { rows } = await sql.query<{ orgId: string; orgSlug: string; projectId: string; projectSlug: string }>(
    `select o.id as "orgId", o.slug as "orgSlug", p.id as "projectId", p.slug as "projectSlug"
       from svc.orgs o join svc.projects p on p.org_id = o.id
      where (o.id::text = lower($1::text) or o.slug = $1::text) and (p.id::text = lower($2::text) or p.slug = $2::text)
        and p.archived_at is null`,
    [org, project],
  );
  return rows[0];
}

/** Deletes what is long over, with the credentials of those that nobody came back to; the number of attempts. */
export async function deleteOldAttempts(tx: Sql, before: Date, limit: number): Promise<number> {
  await tx.query(
    `delete from svc.errtrack_codes where code_hash in (
       select code_hash from svc.errtrack_codes where claimed_at < $1::timestamptz limit $2::int)`,
    [before, limit],
  );
  const { rowCount } = await tx.query(
    `with gone as (delete from svc.errtrack_attempts where id in (
       select id from svc.errtrack_attempts where updated_at < $1::timestamptz and expires_at < $1::timestamptz
         and state in ('completed', 'failed', 'expired', 'cancelled', 'awaiting_authorization', 'awaiting_selection')
        limit $2::int) returning token_id),
     sealed as (delete from svc.oauth_tokens where id in (select token_id from gone where token_id is not null))
     select from gone`,
    [before, limit],
  );
  return rowCount;
}
