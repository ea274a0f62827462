// svc.audit: append-only, written in the transaction of what it records. Holds names and decisions, never values.

import type { AuditAction } from '../../../domain/audit-actions.ts';
import type { JsonObject } from '../../../domain/json.ts';
import { type EarlyEnd, earlyEnd, endingEarly, jsonBytes, type Sized } from '../schema/early-end.ts';
import type { Sql } from '../store.ts';
import { isUuid } from '../../../domain/uuid.ts';

export interface AuditEntry {
  readonly orgId: string | null;
  readonly projectId: string | null;
  /** `system` has no id; its name says which part of the daemon acted. */
  readonly principal: {
    readonly kind: string;
    readonly id: string | null;
    readonly name: string;
    readonly requestId?: string;
    /** Kept as `detail.reason`. */
    readonly reason?: string;
  };
  /** `project.created`; the resource, then what happened to it. */
  readonly action: AuditAction;
  readonly subject?: { readonly kind: string; readonly name: string };
  readonly detail?: JsonObject;
}

export interface AuditRow {
  readonly id: number;
  readonly at: Date;
  readonly principalKind: string;
  readonly principalId: string | null;
  readonly principalName: string;
  readonly projectId: string | null;
  readonly action: string;
  readonly subjectKind: string | null;
  readonly subjectName: string | null;
  readonly requestId: string | null;
  readonly detail: JsonObject;
}

/** Call inside the transaction of the change: when the entry cannot be written, the change does not happen. */
export async function recordAudit(tx: Sql, entry: AuditEntry): Promise<void> {
  await tx.query(
    `insert into svc.audit (org_id, project_id, principal_kind, principal_id, principal_name, action,
       subject_kind, subject_name, request_id, detail)
     values ($1::uuid, $2::uuid, $3::text, $4::uuid, $5::text, $6::text, $7::text, $8::text, $9::text, $10::jsonb)`,
    [
      entry.orgId,
      entry.projectId,
      entry.principal.kind,
      entry.principal.id,
      entry.principal.name,
      entry.action,
      entry.subject?.kind ?? null,
      entry.subject?.name ?? null,
      entry.principal.requestId ?? null,
      JSON.stringify(detailOf(entry)),
    ],
    'record-audit',
  );
}

const detailOf = ({ detail, principal }: AuditEntry): JsonObject => ({
  ...detail,
  ...(principal.reason !== undefined && { reason: principal.reason }),
});

/** Several entries in one statement, see `recordAudit`. */
export async function recordAudits(tx: Sql, entries: readonly AuditEntry[]): Promise<void> {
  if (entries.length === 0) return;
  await tx.query(
    `insert into svc.audit (org_id, project_id, principal_kind, principal_id, principal_name, action,
       subject_kind, subject_name, request_id, detail)
     select "orgId", "projectId", (principal ->> 'kind'), (principal ->> 'id')::uuid, (principal ->> 'name'), action,
            (subject ->> 'kind'), (subject ->> 'name'), (principal ->> 'requestId'), coalesce(detail, '{}')
       from jsonb_to_recordset($1::jsonb) as e ("orgId" uuid, "projectId" uuid, principal jsonb, action text,
         subject jsonb, detail jsonb)`,
    [JSON.stringify(entries.map((entry) => ({ ...entry, detail: detailOf(entry) })))],
  );
}

/** Of an organization with its projects, or of one project alone. */
export interface AuditScope {
  readonly orgId: string;
  readonly projectId?: string;
}
export interface AuditFilter {
  readonly action?: string | undefined;
  /** The subject's name. */
  readonly subject?: string | undefined;
  /** A principal's id or name. */
  readonly principal?: string | undefined;
  /** From then on. */
  readonly since?: Date | undefined;
  /** Before then. */
  readonly until?: Date | undefined;
}

// Entries are read in the order of their numbers, and what a time excludes is not walked through. A number is drawn when an
// entry is written and its time is when its transaction began, which is never as much as an hour earlier: so the number of
// an entry that is older than that is below those of all from a time on.
const slack = `interval '1 hour'`;
const lastBefore = (time: string): string => `coalesce(
    (select b.id from svc.audit b where b.at < ${time} - ${slack} order by b.at desc limit 1), 0)`;
const firstAfter = (time: string): string => `coalesce(
    (select b.id from svc.audit b where b.at >= ${time} + ${slack} order by b.at limit 1), 9223372036854775807)`;

const filterSql = `org_id = $1::uuid and ($2::uuid is null or project_id = $2::uuid)
  and ($3::text is null or action = $3::text) and ($4::text is null or subject_name = $4::text)
  and ($5::text is null or principal_name = $5::text) and ($8::uuid is null or principal_id = $8::uuid)
  and ($6::timestamptz is null or at >= $6::timestamptz) and ($7::timestamptz is null or at < $7::timestamptz)
  and ($6::timestamptz is null or id > ${lastBefore('$6::timestamptz')})
  and ($7::timestamptz is null or id < ${firstAfter('$7::timestamptz')})`;

const filterValues = (scope: AuditScope, filter: AuditFilter) => [
  scope.orgId,
  scope.projectId ?? null,
  filter.action ?? null,
  filter.subject ?? null,
  isId(filter.principal) ? null : (filter.principal ?? null),
  filter.since ?? null,
  filter.until ?? null,
  isId(filter.principal) ? filter.principal : null,
];
/** Told apart by their form, so that each is found by its index: nobody is called as an id is. */
const isId = (principal: string | undefined): boolean => principal !== undefined && isUuid(principal);

const columns = `id, at, principal_kind as "principalKind", principal_id as "principalId", principal_name as "principalName",
  project_id as "projectId", action, subject_kind as "subjectKind", subject_name as "subjectName",
  request_id as "requestId", detail`;

/** Newest first, below `before` (an id) when given. */
export async function listAudit(
  sql: Sql,
  scope: AuditScope,
  page: AuditFilter & { readonly limit: number; readonly before?: number },
): Promise<EarlyEnd<AuditRow>> {
  const listed = `select ${columns} from svc.audit where ${filterSql} and ($9::bigint is null or id < $9::bigint)
     order by id desc limit $10::int`;
  const text = endingEarly(listed, { size: jsonBytes('detail'), order: 'id desc' });
  const values = [...filterValues(scope, page), page.before ?? null, page.limit];
  return earlyEnd((await sql.query<AuditRow & Sized>(text, values)).rows);
}

/** How many entries pass the filter. */
export async function countAudit(sql: Sql, scope: AuditScope, filter: AuditFilter): Promise<number> {
  const { rows } = await sql.query<{ n: number }>(`select count(*)::int as n from svc.audit where ${filterSql}`, [
    ...filterValues(scope, filter),
  ]);
  return rows[0]?.n ?? 0;
}

/** Oldest first, above `after` (an id): how an export goes through all of it. */
export async function auditAfter(
  sql: Sql,
  scope: AuditScope,
  page: AuditFilter & { readonly limit: number; readonly after: number },
): Promise<EarlyEnd<AuditRow>> {
  const listed = `select ${columns} from svc.audit where ${filterSql} and id > $9::bigint order by id limit $10::int`;
  const text = endingEarly(listed, { size: jsonBytes('detail'), order: 'id' });
  const values = [...filterValues(scope, page), page.after, page.limit];
  return earlyEnd((await sql.query<AuditRow & Sized>(text, values)).rows);
}

/** Serialises daemons that prune at the same moment. */
const pruneLock = 7_370_003;

/**
 * Removes up to `limit` entries older than `before`, the one way by which the table lets go of any. Answers with how many
 * went of each organization; nothing where another daemon is at it.
 */
export async function pruneAudit(
  tx: Sql,
  before: Date,
  limit: number,
): Promise<{ readonly orgId: string | null; readonly count: number }[]> {
  const lock = await tx.query<{ ok: boolean }>('select pg_try_advisory_xact_lock($1::bigint) as ok', [pruneLock]);
  if (lock.rows[0]?.ok !== true) return [];
  await tx.query(`select set_config('svc.audit_prune_before', $1::text, true)`, [before.toISOString()]);
  const { rows } = await tx.query<{ orgId: string | null; count: number }>(
    `with gone as (
       delete from svc.audit
        where id = any(array(select id from svc.audit where at < $1::timestamptz order by at limit $2::int))
       returning org_id)
     select org_id as "orgId", count(*)::int as count from gone group by org_id order by org_id`,
    [before, limit],
  );
  return rows;
}
