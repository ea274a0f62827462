// svc.errtrack_grants and svc.errtrack_subscriptions: what a completed setup published, which provider projects each
// project may read and hears of, and the one credential of an installation with its generations.
// Invariants: one grant that is not removed for a provider organization (unique index); one enabled subscription for a
// project, grant and provider project (unique index); one refresh at a time (an update where nobody holds it, or whose
// holder lapsed without having sent anything).

import type { ProviderProject } from '../../../core/attempt/attempt.ts';
import type { Sql } from '../store.ts';

export interface GrantRow {
  readonly id: string;
  readonly orgId: string;
  readonly name: string;
  readonly installationId: string;
  readonly organizationSlug: string;
  readonly organizationName: string;
  readonly region: 'us' | 'de';
  readonly projects: readonly ProviderProject[];
  readonly status: 'ready' | 'refreshing' | 'uncertain' | 'revoked' | 'removed';
  readonly generation: number;
  readonly tokenId: string | null;
  readonly tokenExpiresAt: Date;
}
const shown = `g.id, g.org_id as "orgId", g.name, g.installation_id as "installationId",
  g.organization_slug as "organizationSlug", g.organization_name as "organizationName", g.region, g.projects, g.status,
  g.generation, g.token_id as "tokenId", g.token_expires_at as "tokenExpiresAt" from svc.errtrack_grants g`;

/** Publishes a grant. False where the installation or its organization has one already. */
export async function insertGrant(
  tx: Sql,
  row: Pick<
    GrantRow,
    'id' | 'orgId' | 'name' | 'installationId' | 'organizationSlug' | 'organizationName' | 'region' | 'projects'
  > & {
    readonly appSlug: string;
    readonly organizationId: string;
    readonly tokenId: string;
    readonly tokenExpiresAt: Date;
    readonly now: Date;
  },
): Promise<boolean> {
  const { rowCount } = await tx.query(
    `insert into svc.errtrack_grants (id, org_id, name, installation_id, app_slug, provider_organization_id,
       organization_slug, organization_name, region, projects, token_id, token_expires_at, created_at, updated_at)
     values ($1::uuid, $2::uuid, $3::text, $4::uuid, $5::text, $6::text, $7::text, $8::text, $9::text, $10::jsonb,
       $11::uuid, $12::timestamptz, $13::timestamptz, $13::timestamptz)
     on conflict do nothing`,
    [
      row.id,
      row.orgId,
      row.name,
      row.installationId,
      row.appSlug,
      row.organizationId,
      row.organizationSlug,
      row.organizationName,
      row.region,
      JSON.stringify(row.projects),
      row.tokenId,
      row.tokenExpiresAt,
      row.now,
    ],
  );
  return rowCount === 1;
}

/** Whether a connection of that name would be free in the organization's grants and in these projects. */
export async function isNameFree(
  tx: Sql,
  orgId: string,
  name: string,
  projectIds: readonly string[],
): Promise<boolean> {
  const { rows } = await tx.query(
    `select from svc.errtrack_grants where org_id = $1::uuid and name = $2::text
     union all select from svc.connections where project_id = any($3::uuid[]) and name = $2::text limit 1`,
    [orgId, name, projectIds],
  );
  return rows.length === 0;
}

/** Grants of an organization that are there, by name. */
export async function grantsOf(sql: Sql, orgId: string): Promise<GrantRow[]> {
  const { rows } = await sql.query<GrantRow>(
    `select ${shown} where g.org_id = $1::uuid and g.status <> 'removed' order by g.name collate "C"`,
    [orgId],
  );
  return rows;
}

/** The grant that is there for an organization of the provider, whoever has it. */
export async function grantOfProvider(sql: Sql, organizationId: string): Promise<GrantRow | undefined> {
  const { rows } = await sql.query<GrantRow>(
    `select ${shown} where g.provider_organization_id = $1::text and g.status <> 'removed'`,
    [organizationId],
  );
  return rows[0];
}

/** A grant, also a removed one. */
export async function grantById(sql: Sql, id: string): Promise<GrantRow | undefined> {
  const { rows } = await sql.query<GrantRow>(`select ${shown} where g.id::text = lower($1::text)`, [id]);
  return rows[0];
}

/** Holds a grant against its removal until the end of the transaction; false where it is removed. Call under the project's lock. */
export async function holdGrant(tx: Sql, id: string): Promise<boolean> {
  const { rows } = await tx.query(
    `select from svc.errtrack_grants where id = $1::uuid and status <> 'removed' for share`,
    [id],
  );
  return rows.length === 1;
}

/** The grant of a provider's installation. */
export async function grantByInstallation(sql: Sql, installationId: string): Promise<GrantRow | undefined> {
  const { rows } = await sql.query<GrantRow>(`select ${shown} where g.installation_id = $1::uuid`, [installationId]);
  return rows[0];
}

/** The grant behind a project's connection. */
export async function grantOfConnection(sql: Sql, projectId: string, name: string): Promise<GrantRow | undefined> {
  const { rows } = await sql.query<GrantRow>(
    `select ${shown} join svc.connections c on c.config ->> 'grantId' = g.id::text
      where c.project_id = $1::uuid and c.name = $2::text and c.provider = 'errtrack' and c.status = 'active'`,
    [projectId, name],
  );
  return rows[0];
}

export interface SubscriptionRow {
  readonly id: string;
  readonly projectId: string;
  readonly grantId: string;
  readonly errtrackProjectId: string;
  readonly slug: string;
}
const subscription = `s.id, s.project_id as "projectId", s.grant_id as "grantId",
  s.errtrack_project_id as "errtrackProjectId", s.slug from svc.errtrack_subscriptions s`;

/** What a project may read and hears of, by slug. */
export async function subscriptionsOf(sql: Sql, projectId: string): Promise<SubscriptionRow[]> {
  const { rows } = await sql.query<SubscriptionRow>(
    `select ${subscription} where s.project_id = $1::uuid and s.enabled order by s.slug collate "C"`,
    [projectId],
  );
  return rows;
}

/** Who hears of a provider project, with the name of the connection there. */
export async function subscribersOf(
  sql: Sql,
  grantId: string,
  errtrackProjectId: string,
): Promise<(SubscriptionRow & { readonly connection: string; readonly connectionId: string })[]> {
  const { rows } = await sql.query<SubscriptionRow & { connection: string; connectionId: string }>(
    `select c.name as connection, c.id as "connectionId", ${subscription}
       join svc.projects p on p.id = s.project_id and p.archived_at is null
       join svc.connections c on c.project_id = s.project_id and c.provider = 'errtrack' and c.status = 'active'
         and c.config ->> 'grantId' = s.grant_id::text
      where s.grant_id = $1::uuid and s.errtrack_project_id = $2::text and s.enabled order by s.project_id`,
    [grantId, errtrackProjectId],
  );
  return rows;
}

/**
 * Of events that came in by connections of the error tracker, those whose subscription is not there any more, or was removed
 * since: by another one that was made meanwhile they did not come.
 */
export async function unsubscribedEvents(
  tx: Sql,
  events: readonly {
    readonly id: string;
    readonly connectionId: string;
    readonly errtrackProjectId: string;
    readonly at: Date;
  }[],
): Promise<string[]> {
  const { rows } = await tx.query<{ id: string }>(
    `select e.id from unnest($1::uuid[], $2::uuid[], $3::text[], $4::timestamptz[]) as e (id, connection, project, at)
      where not exists (
        select from svc.connections c join svc.errtrack_subscriptions s on s.project_id = c.project_id
            and s.grant_id::text = c.config ->> 'grantId' and s.errtrack_project_id = e.project
         where c.id = e.connection
        having bool_or(s.enabled) and not bool_or(not s.enabled and s.updated_at >= e.at))`,
    [
      events.map((event) => event.id),
      events.map((event) => event.connectionId),
      events.map((event) => event.errtrackProjectId),
      events.map((event) => event.at),
    ],
    'unsubscribed-events',
  );
  return rows.map((row) => row.id);
}

/**
 * Makes the selection of a project at a grant what is given: what stays keeps its identity, what goes is disabled under a
 * new generation, what comes is a new row. Call under the project's lock.
 */
export async function setSubscriptions(
  tx: Sql,
  at: { readonly projectId: string; readonly grantId: string; readonly now: Date },
  wanted: readonly (ProviderProject & { readonly subscriptionId: string })[],
): Promise<void> {
  await tx.query(
    `update svc.errtrack_subscriptions set enabled = false, generation = generation + 1, updated_at = $4::timestamptz
      where project_id = $1::uuid and grant_id = $2::uuid and enabled and errtrack_project_id <> all($3::text[])`,
    [at.projectId, at.grantId, wanted.map(({ id }) => id), at.now],
  );
  await tx.query(
    `insert into svc.errtrack_subscriptions (id, grant_id, project_id, errtrack_project_id, slug, created_at, updated_at)
     select w.id, $2::uuid, $1::uuid, w.project, w.slug, $6::timestamptz, $6::timestamptz
       from unnest($3::uuid[], $4::text[], $5::text[]) as w (id, project, slug)
     on conflict (project_id, grant_id, errtrack_project_id) where enabled do nothing`,
    [
      at.projectId,
      at.grantId,
      wanted.map((one) => one.subscriptionId),
      wanted.map(({ id }) => id),
      wanted.map(({ slug }) => slug),
      at.now,
    ],
  );
}

/** Projects that have an enabled subscription at a grant, by id. */
export async function projectsAt(sql: Sql, grantId: string): Promise<{ readonly id: string; readonly slug: string }[]> {
  const { rows } = await sql.query<{ id: string; slug: string }>(
    `select p.id, p.slug from svc.projects p where p.id in (
       select project_id from svc.errtrack_subscriptions where grant_id = $1::uuid and enabled) order by p.id`,
    [grantId],
  );
  return rows;
}

/** Notes that the installation is gone, whether it is known here or not; the grant that goes with it. */
export async function uninstall(tx: Sql, installationId: string, now: Date): Promise<GrantRow | undefined> {
  await tx.query(
    `insert into svc.errtrack_uninstalls (installation_id, at) values ($1::uuid, $2::timestamptz) on conflict do nothing`,
    [installationId, now],
  );
  const { rows } = await tx.query<GrantRow & { removed: boolean }>(
    `update svc.errtrack_grants g set status = 'removed', updated_at = $2::timestamptz
      where g.installation_id = $1::uuid and g.status <> 'removed'
     returning g.id, g.org_id as "orgId", g.name, g.token_id as "tokenId"`,
    [installationId, now],
  );
  const [grant] = rows;
  if (grant?.tokenId !== null && grant !== undefined)
    await tx.query('delete from svc.oauth_tokens where id = $1::uuid', [grant.tokenId]);
  return grant;
}

/** The right to refresh a generation: nobody has it, or who had it lapsed before anything was sent. */
export async function claimRefresh(
  tx: Sql,
  at: { readonly grantId: string; readonly generation: number; readonly owner: string; readonly seconds: number },
): Promise<boolean> {
  const { rowCount } = await tx.query(
    `update svc.errtrack_grants set status = 'refreshing', refresh_owner = $3::uuid, refresh_sent_at = null,
       refresh_until = clock_timestamp() + make_interval(secs => $4::int), updated_at = clock_timestamp()
      where id = $1::uuid and generation = $2::int and (status = 'ready'
        or (status = 'refreshing' and refresh_sent_at is null and refresh_until < clock_timestamp()))`,
    [at.grantId, at.generation, at.owner, at.seconds],
  );
  return rowCount === 1;
}

/** Committed before the request leaves: from then on an outcome that nobody knows is uncertain. */
export async function markSent(tx: Sql, grantId: string, owner: string): Promise<boolean> {
  const { rowCount } = await tx.query(
    `update svc.errtrack_grants set refresh_sent_at = clock_timestamp()
      where id = $1::uuid and status = 'refreshing' and refresh_owner = $2::uuid and refresh_until > clock_timestamp()`,
    [grantId, owner],
  );
  return rowCount === 1;
}

/** Ends a refresh that this owner holds. With tokens: the next generation, and the one before is deleted. */
export async function endRefresh(
  tx: Sql,
  at: { readonly grantId: string; readonly owner: string; readonly now: Date },
  end:
    | { readonly status: 'revoked' | 'uncertain' | 'ready' }
    | { readonly status: 'ready'; readonly tokenId: string; readonly expiresAt: Date },
): Promise<boolean> {
  const next = 'tokenId' in end ? end : undefined;
  const isNew = next !== undefined;
  const { rows } = await tx.query<{ before: string | null }>(
    `with held as (select id, token_id from svc.errtrack_grants where id = $1::uuid and status = 'refreshing'
        and refresh_owner = $2::uuid for update)
     update svc.errtrack_grants g set status = $3::text, updated_at = $4::timestamptz, refresh_owner = null,
       refresh_until = null, refresh_sent_at = null, generation = g.generation + $5::int,
       token_id = coalesce($6::uuid, g.token_id), token_expires_at = coalesce($7::timestamptz, g.token_expires_at)
      from held where g.id = held.id returning held.token_id as before`,
    [at.grantId, at.owner, end.status, at.now, isNew ? 1 : 0, next?.tokenId ?? null, next?.expiresAt ?? null],
  );
  const [row] = rows;
  if (row === undefined) return false;
  if (isNew && row.before !== null) await tx.query('delete from svc.oauth_tokens where id = $1::uuid', [row.before]);
  return true;
}

/** Parks refreshes whose owner is gone after it had sent its request: their outcome is not known. Their number. */
export async function parkLapsedRefreshes(tx: Sql): Promise<number> {
  const { rowCount } = await tx.query(
    `update svc.errtrack_grants set status = 'uncertain', updated_at = clock_timestamp()
      where status = 'refreshing' and refresh_sent_at is not null and refresh_until < clock_timestamp()`,
  );
  return rowCount;
}

/** A project in whose name something of a whole organization reads a secret: its oldest. */
export async function oldestProject(
  sql: Sql,
  orgId: string | undefined,
): Promise<{ readonly orgId: string; readonly id: string } | undefined> {
  const { rows } = await sql.query<{ orgId: string; id: string }>(
    `select p.org_id as "orgId", p.id from svc.projects p join svc.orgs o on o.id = p.org_id
      where $1::uuid is null or o.id = $1::uuid order by o.created_at, o.id, p.created_at, p.id limit 1`,
    [orgId ?? null],
  );
  return rows[0];
}

/** The connection by which agents of a project name a grant, made or active again; undefined where its name is taken. */
export async function ensureConnection(
  tx: Sql,
  row: {
    readonly id: string;
    readonly projectId: string;
    readonly grantId: string;
    readonly name: string;
    readonly now: Date;
  },
): Promise<string | undefined> {
  const { rows } = await tx.query<{ id: string }>(
    `insert into svc.connections as c (id, project_id, provider, product, name, config, created_at, updated_at)
     values ($1::uuid, $2::uuid, 'errtrack', 'errtrack', $3::text, jsonb_build_object('grantId', $4::text), $5::timestamptz,
       $5::timestamptz)
     on conflict (project_id, name) do update set status = 'active', updated_at = excluded.updated_at
       where c.provider = 'errtrack' and c.config ->> 'grantId' = $4::text
     returning id`,
    [row.id, row.projectId, row.name, row.grantId, row.now],
  );
  return rows[0]?.id;
}

/** The connection by which agents of a project name a grant, whatever its status. */
export async function connectionOfGrant(
  tx: Sql,
  at: { readonly projectId: string; readonly grantId: string },
): Promise<{ readonly id: string; readonly name: string } | undefined> {
  const { rows } = await tx.query<{ id: string; name: string }>(
    `select id, name from svc.connections
      where project_id = $1::uuid and provider = 'errtrack' and config ->> 'grantId' = $2::text`,
    [at.projectId, at.grantId],
  );
  return rows[0];
}

/** Ends a project's connection to a grant: agents that need it are skipped or fail at their next apply. Its id. */
export async function endConnection(
  tx: Sql,
  at: { readonly projectId: string; readonly grantId: string; readonly now: Date },
): Promise<string | undefined> {
  const { rows } = await tx.query<{ id: string }>(
    `update svc.connections set status = 'disabled', updated_at = $3::timestamptz
      where project_id = $1::uuid and provider = 'errtrack' and config ->> 'grantId' = $2::text returning id`,
    [at.projectId, at.grantId, at.now],
  );
  return rows[0]?.id;
}
