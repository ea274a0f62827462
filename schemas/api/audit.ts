// The audit of a project, or of an organization with its projects.

import * as v from 'valibot';
import { isoMillis } from '../secret.ts';
import { integer, json, maxCharacters, orgPath, projectPath } from './common.ts';
import { named, operation, pageOf, pageQuery, type Shape } from './operation.ts';

export const auditEntry = named(
  'AuditEntry',
  v.object({
    /** Rises with each entry. */
    id: integer,
    at: v.string(),
    principal: v.object({ kind: v.string(), id: v.nullable(v.string()), name: v.string() }),
    projectId: v.nullable(v.string()),
    action: v.string(),
    subject: v.nullable(v.object({ kind: v.string(), name: v.string() })),
    requestId: v.nullable(v.string()),
    detail: json,
  }),
);
export type AuditEntry = Shape<typeof auditEntry>;

const word = v.optional(v.pipe(v.string(), v.minLength(1), maxCharacters(300)));
/** Milliseconds of a day, which begins in UTC, or of a time with its zone: what has none is another time on every machine. */
export const auditMillis = (text: string): number | undefined =>
  isoMillis(/^\d{4}-\d{2}-\d{2}$/.test(text) ? `${text}T00:00Z` : text);
const time = v.optional(
  v.pipe(
    v.string(),
    v.check(
      (text) => auditMillis(text) !== undefined,
      'Expected a day or a time as in 2030-01-31 or 2030-01-31T12:00:00Z',
    ),
  ),
);
const filters = { action: word, subject: word, principal: word, since: time, until: time };
export const auditQuery = v.strictObject({ ...pageQuery, ...filters });
export const auditExportQuery = v.strictObject(filters);
const page = pageOf('AuditPage', auditEntry);

const ofOrg = { tag: 'audit', method: 'GET', scope: 'org', permission: 'audit:read' } as const;
const ofProject = { tag: 'audit', method: 'GET', scope: 'project', permission: 'audit:read' } as const;

export const listOrganizationAudit = operation({
  ...ofOrg,
  id: 'listOrganizationAudit',
  path: `${orgPath}/audit`,
  summary: 'What was done in an organization and its projects, newest first',
  query: auditQuery,
  answers: { 200: page },
});

export const exportOrganizationAudit = operation({
  ...ofOrg,
  id: 'exportOrganizationAudit',
  path: `${orgPath}/audit/export`,
  summary: 'What was done in an organization and its projects, oldest first, as JSON lines',
  query: auditExportQuery,
  lines: true,
  answers: { 200: auditEntry },
});

export const listAudit = operation({
  ...ofProject,
  id: 'listAudit',
  path: `${projectPath}/audit`,
  summary: 'What was done in a project, newest first',
  query: auditQuery,
  answers: { 200: page },
});

export const exportAudit = operation({
  ...ofProject,
  id: 'exportAudit',
  path: `${projectPath}/audit/export`,
  summary: 'What was done in a project, oldest first, as JSON lines',
  query: auditExportQuery,
  lines: true,
  answers: { 200: auditEntry },
});
