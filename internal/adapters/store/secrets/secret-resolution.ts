// Resolution of the secrets of one launch, in one statement and so in one transaction: scopes and shadowing, expiry, stamps,
// audit entries. All or nothing: where a required secret is absent, or two injected ones claim one host and header, nothing
// is stamped, nothing is audited and no sealed byte is returned (docs/reference/secrets.md#resolution).

import type { Sql } from '../store.ts';
import type { InjectionRow, SealedValue } from './secrets.ts';

export interface WantedSecret {
  readonly name: string;
  readonly required: boolean;
  /** Environment variables that name it. */
  readonly variables: readonly string[];
  /** Remote tools whose token it is. */
  readonly tools: readonly string[];
}

export interface ResolvedRow extends SealedValue {
  readonly name: string;
  /** Null: organization scope. */
  readonly projectId: string | null;
  readonly injection: InjectionRow | null;
}

export interface Resolution {
  /** Names in the order asked for; `sealed` ones are audited and committed. */
  readonly rows: readonly { readonly name: string; readonly state: 'live' | 'expired' | 'missing' }[];
  readonly sealed: readonly ResolvedRow[];
  /** Two injected secrets that claim one host and header. */
  readonly conflict: { readonly a: string; readonly b: string; readonly host: string; readonly header: string } | null;
}

export interface ResolutionRequest {
  readonly orgId: string;
  readonly projectId: string;
  readonly wanted: readonly WantedSecret[];
  readonly sessionId: string;
  /** Whether the sandbox's network edge adds injected values; else they are delivered like the others. */
  readonly edge: boolean;
  readonly now: Date;
}

// Rows are locked in one order: two launches that share secrets wait for each other and never deadlock.
const statement = `
  with wanted as (
    select w.name, w.required, w.variables, w.tools, w.n
      from jsonb_to_recordset($3::jsonb) as w (name text, required boolean, variables jsonb, tools jsonb, n int)),
  seen as (
    select s.id, s.name, s.project_id, s.injection,
      coalesce(s.expires_at > $4::timestamptz, true)
        and coalesce(s.idle_since + s.idle_expiry_seconds * interval '1 second' > $4::timestamptz, true) as live
      from svc.secrets s join wanted w on w.name = s.name
     where s.org_id = $1::uuid and (s.project_id = $2::uuid or s.project_id is null)),
  found as (select distinct on (name) * from seen where live order by name, project_id nulls last),
  into_env as (select f.* from found f join wanted w on w.name = f.name where w.variables <> '[]'::jsonb),
  conflict as (
    select a.name as a, b.name as b, host, lower(a.injection ->> 'header') as header
      from into_env a join into_env b on a.name < b.name and lower(a.injection ->> 'header') = lower(b.injection ->> 'header')
      cross join lateral jsonb_array_elements_text(a.injection -> 'hosts') as host
     where b.injection -> 'hosts' ? host
     order by 1, 2, 3 limit 1),
  granted as (
    select f.id, w.variables, w.tools,
      case when w.variables = '[]'::jsonb or f.injection is not null and $6::boolean then 'edge-injection' else 'env' end
        as mode
      from found f join wanted w on w.name = f.name
     where not exists (select from conflict)
       and not exists (select from wanted x where x.required and not exists (select from found y where y.name = x.name))),
  locked as (
    select s.id from svc.secrets s where s.id in (select id from granted) order by s.id for no key update),
  stamped as (
    update svc.secrets s set last_accessed_at = $4::timestamptz, idle_since = $4::timestamptz
      from granted g join locked l on l.id = g.id where s.id = g.id
    returning s.name, s.project_id, s.injection, s.key_version, s.sealed, g.mode, g.variables, g.tools),
  audited as (
    insert into svc.audit (at, org_id, project_id, principal_kind, principal_name, action, subject_kind, subject_name, detail)
    select $4::timestamptz, $1::uuid, $2::uuid, 'system', 'secret-resolver', 'secret.access', 'Secret', name,
      jsonb_build_object('secret', name, 'scope', case when project_id is null then 'organization' else 'project' end,
        'session', $5::text, 'mode', mode, 'variables', variables)
        || case when tools = '[]'::jsonb then '{}'::jsonb else jsonb_build_object('tools', tools) end
      from stamped order by name
    returning subject_name)
  select w.name,
    case when f.name is not null then 'live' when exists (select from seen where seen.name = w.name) then 'expired'
      else 'missing' end as state,
    s.project_id as "projectId", s.injection, s.key_version as "keyVersion", s.sealed,
    (select to_jsonb(c) from conflict c) as conflict
    from wanted w
    left join found f on f.name = w.name
    left join stamped s on s.name = w.name and exists (select from audited a where a.subject_name = w.name)
   order by w.n`;

/** One round trip, whatever the number of secrets. Names must be distinct. */
export async function takeResolved(sql: Sql, request: ResolutionRequest): Promise<Resolution> {
  const { rows } = await sql.query<
    Omit<ResolvedRow, 'sealed'> & {
      state: 'live' | 'expired' | 'missing';
      sealed: Buffer | null;
      conflict: Resolution['conflict'];
    }
  >(statement, [
    request.orgId,
    request.projectId,
    JSON.stringify(request.wanted.map((one, n) => ({ ...one, n }))),
    request.now,
    request.sessionId,
    request.edge,
  ]);
  const sealed: ResolvedRow[] = [];
  for (const { name, projectId, injection, keyVersion, sealed: bytes } of rows) {
    if (bytes !== null) sealed.push({ name, projectId, injection, keyVersion, sealed: bytes });
  }
  return {
    rows: rows.map(({ name, state }) => ({ name, state })),
    sealed,
    conflict: rows[0]?.conflict ?? null,
  };
}

// Which secret names resolve, without touching a value (docs/reference/secrets.md#fields: project scope first, then organization
// scope; an expired secret resolves as absent, so that a live one beneath it is found).

export interface SecretNames {
  /** Resolve to a live value. */
  readonly live: ReadonlySet<string>;
  /** Exist, and have expired wherever they exist. */
  readonly expired: ReadonlySet<string>;
  /** Resolve to a live value that expires when it is idle. */
  readonly idle: ReadonlySet<string>;
  /** Of names that resolve to a live value that is injected, where. */
  readonly injections: ReadonlyMap<string, InjectionRow>;
}

const isLive = `coalesce(expires_at > $3::timestamptz, true)
    and coalesce(idle_since + idle_expiry_seconds * interval '1 second' > $3::timestamptz, true)`;

/**
 * What planning sees of the secrets of a project ($1) and its organization ($2) at a time ($3). `idle`: the value that the
 * name resolves to expires when it is idle. `injection`: where that value is injected.
 */
export const secretsSeen = `select name, bool_or(${isLive}) as live,
    coalesce((array_agg(idle_expiry_seconds is not null order by project_id nulls last) filter (where ${isLive}))[1],
      false) as idle,
    (array_agg(injection order by project_id nulls last) filter (where ${isLive}))[1] as injection
  from svc.secrets where org_id = $2::uuid and (project_id = $1::uuid or project_id is null) group by name`;

/** The names that a project sees, its own and its organization's. */
export async function readSecretNames(sql: Sql, orgId: string, projectId: string, now: Date): Promise<SecretNames> {
  const { rows } = await sql.query<{
    name: string;
    live: boolean;
    idle: boolean;
    injection: InjectionRow | null;
  }>(secretsSeen, [projectId, orgId, now]);
  const names = (wanted: readonly { readonly name: string }[]) => new Set(wanted.map((row) => row.name));
  return {
    live: names(rows.filter((row) => row.live)),
    expired: names(rows.filter((row) => !row.live)),
    idle: names(rows.filter((row) => row.idle)),
    injections: new Map(rows.flatMap(({ name, injection }) => (injection === null ? [] : [[name, injection]]))),
  };
}
