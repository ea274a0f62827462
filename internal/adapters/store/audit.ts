// svc.audit: append-only, written in the transaction of what it records. Holds names and decisions, never values.

import type { JsonObject } from '../../words/json.ts';
import type { Sql } from './db.ts';

export interface AuditEntry {
  readonly orgId: string | null;
  readonly projectId: string | null;
  /** `system` has no id; its name says which part of the daemon acted. */
  readonly principal: {
    readonly kind: string;
    readonly id: string | null;
    readonly name: string;
    readonly requestId?: string;
  };
  /** `project.created`; the resource, then what happened to it. */
  readonly action: string;
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
      JSON.stringify(entry.detail ?? {}),
    ],
  );
}

/** Newest first, below `before` (an id) when given. With a project: its own entries only. */
export async function listAudit(
  sql: Sql,
  scope: { readonly orgId: string; readonly projectId?: string },
  page: { readonly limit: number; readonly before?: number; readonly action?: string },
): Promise<AuditRow[]> {
  const { rows } = await sql.query<AuditRow>(
    `select id, at, principal_kind as "principalKind", principal_id as "principalId", principal_name as "principalName",
       project_id as "projectId", action, subject_kind as "subjectKind", subject_name as "subjectName",
       request_id as "requestId", detail
     from svc.audit
     where org_id = $1::uuid and ($2::uuid is null or project_id = $2::uuid)
       and ($3::bigint is null or id < $3::bigint) and ($4::text is null or action = $4::text)
     order by id desc limit $5::int`,
    [scope.orgId, scope.projectId ?? null, page.before ?? null, page.action ?? null, page.limit],
  );
  return rows;
}
