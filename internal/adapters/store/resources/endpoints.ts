// svc.endpoints: webhook endpoints by name, with a slug that never changes while the row lives. A row is `ready` and
// has an auth, or is `reserved` until a time and has none; a reservation whose time has passed counts as absent.

import type { CurrentEndpoint } from '../../../core/plan/types.ts';
import type { EndpointAuth } from '../../../domain/spec.ts';
import type { Sql } from '../store.ts';

/** What planning sees of a project's ($1) endpoints. */
export const endpointsSeen = 'select id, name, auth, status from svc.endpoints where project_id = $1::uuid';

/** Every endpoint of a project as planning sees it. */
export async function readEndpoints(sql: Sql, projectId: string): Promise<CurrentEndpoint[]> {
  const { rows } = await sql.query<CurrentEndpoint>(`${endpointsSeen} order by name`, [projectId]);
  return rows;
}

export interface EndpointWrite {
  readonly name: string;
  readonly slug: string;
  readonly auth: EndpointAuth;
}

/** Creates endpoints, and promotes those that were reserved: these keep their id and slug. */
export async function writeEndpoints(
  tx: Sql,
  projectId: string,
  endpoints: readonly EndpointWrite[],
  now: Date,
): Promise<void> {
  if (endpoints.length === 0) return;
  await tx.query(
    `insert into svc.endpoints (project_id, name, slug, auth, status, created_at, updated_at)
     select $1::uuid, w.name, w.slug, w.auth, 'ready', $2::timestamptz, $2::timestamptz
       from jsonb_to_recordset($3::jsonb) as w (name text, slug text, auth jsonb)
     on conflict (project_id, name) do update
       set auth = excluded.auth, status = 'ready', reserved_until = null, updated_at = excluded.updated_at
     where svc.endpoints.status = 'reserved'`,
    [projectId, now, JSON.stringify(endpoints)],
  );
}

/** Slugs by name. */
export async function endpointSlugs(
  sql: Sql,
  projectId: string,
  names: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const { rows } = await sql.query<{ name: string; slug: string }>(
    'select name, slug from svc.endpoints where project_id = $1::uuid and name = any($2::text[])',
    [projectId, names],
  );
  return new Map(rows.map((row) => [row.name, row.slug]));
}

export interface EndpointRow {
  readonly id: string;
  readonly name: string;
  readonly slug: string;
  readonly auth: EndpointAuth | null;
  readonly status: 'ready' | 'reserved';
  readonly reservedUntil: Date | null;
  readonly createdAt: Date;
}

const selected = `id, name, slug, auth, status, reserved_until as "reservedUntil", created_at as "createdAt"`;
const present = `(status = 'ready' or reserved_until > $2::timestamptz)`;

/** A page of a project's endpoints, by name. */
export async function listEndpoints(
  sql: Sql,
  projectId: string,
  now: Date,
  page: { readonly limit: number; readonly after?: string },
): Promise<EndpointRow[]> {
  const { rows } = await sql.query<EndpointRow>(
    `select ${selected} from svc.endpoints
      where project_id = $1::uuid and ${present} and ($3::text is null or name > $3::text collate "C")
      order by name collate "C" limit $4::int`,
    [projectId, now, page.after ?? null, page.limit],
  );
  return rows;
}

/** An endpoint of a project; a reservation whose time has passed is none. */
export async function endpointByName(
  sql: Sql,
  projectId: string,
  name: string,
  now: Date,
): Promise<EndpointRow | undefined> {
  const { rows } = await sql.query<EndpointRow>(
    `select ${selected} from svc.endpoints where project_id = $1::uuid and ${present} and name = $3::text`,
    [projectId, now, name],
  );
  return rows[0];
}

/** Holds a name and its slug until a time, or holds it for longer. Undefined: the endpoint is ready, nothing changed. */
export async function reserveEndpoint(
  tx: Sql,
  projectId: string,
  reservation: { readonly name: string; readonly slug: string; readonly until: Date; readonly now: Date },
): Promise<EndpointRow | undefined> {
  const { rows } = await tx.query<EndpointRow>(
    `insert into svc.endpoints (project_id, name, slug, status, reserved_until, created_at, updated_at)
     values ($1::uuid, $2::text, $3::text, 'reserved', $4::timestamptz, $5::timestamptz, $5::timestamptz)
     on conflict (project_id, name) do update
       set reserved_until = excluded.reserved_until, updated_at = excluded.updated_at
     where svc.endpoints.status = 'reserved'
     returning ${selected}`,
    [projectId, reservation.name, reservation.slug, reservation.until, reservation.now],
  );
  return rows[0];
}

/** Call only when no trigger uses it; one that does is refused by its foreign key. */
export async function deleteEndpoint(tx: Sql, id: string): Promise<void> {
  await tx.query('delete from svc.endpoints where id = $1::uuid', [id]);
}

/** An endpoint that takes events. */
export interface IngestEndpoint {
  readonly id: string;
  readonly name: string;
  readonly projectId: string;
  readonly projectSlug: string;
  readonly orgId: string;
  readonly orgSlug: string;
  readonly auth: EndpointAuth;
}

/** The ready endpoint of a slug; a reservation is none, and neither is one of an archived project. */
export async function endpointBySlug(sql: Sql, slug: string): Promise<IngestEndpoint | undefined> {
  const { rows } = await sql.query<IngestEndpoint>(
    `select e.id, e.name, e.project_id as "projectId", p.slug as "projectSlug", p.org_id as "orgId",
       o.slug as "orgSlug", e.auth
       from svc.endpoints e join svc.projects p on p.id = e.project_id join svc.orgs o on o.id = p.org_id
      where e.slug = $1::text and e.status = 'ready' and p.archived_at is null`,
    [slug],
    'endpoint-by-slug',
  );
  return rows[0];
}
