// The audit, newest first: of a project, or of an organization with its projects.

import * as v from 'valibot';
import { type AuditRow, listAudit } from '../../../adapters/store/audit.ts';
import type { FlowContext } from '../../../flows/context.ts';
import { pageOf, pageQuery, pageSchema, readNumberPage } from '../page.ts';
import { type Answer, defineRoute, ok, type Route } from '../route.ts';

const answer = v.object({
  id: v.number(),
  at: v.string(),
  principal: v.object({ kind: v.string(), id: v.nullable(v.string()), name: v.string() }),
  projectId: v.nullable(v.string()),
  action: v.string(),
  subject: v.nullable(v.object({ kind: v.string(), name: v.string() })),
  requestId: v.nullable(v.string()),
  detail: v.record(v.string(), v.unknown()),
});
const query = v.strictObject({ ...pageQuery, action: v.optional(v.pipe(v.string(), v.maxLength(200))) });

const show = (row: AuditRow) => ({
  id: row.id,
  at: row.at.toISOString(),
  principal: { kind: row.principalKind, id: row.principalId, name: row.principalName },
  projectId: row.projectId,
  action: row.action,
  subject: row.subjectKind === null ? null : { kind: row.subjectKind, name: row.subjectName ?? '' },
  requestId: row.requestId,
  detail: row.detail,
});

async function list(
  ctx: FlowContext,
  scope: { orgId: string; projectId?: string },
  input: v.InferOutput<typeof query>,
): Promise<Answer> {
  const { limit, before } = readNumberPage(input);
  const rows = await listAudit(ctx.db, scope, {
    limit: limit + 1,
    ...(before !== undefined && { before }),
    ...(input.action !== undefined && { action: input.action }),
  });
  return ok(pageOf(rows, limit, (row) => [row.id], show));
}

export const auditRoutes: readonly Route[] = [
  defineRoute({
    method: 'GET',
    path: '/api/v1/orgs/:org/audit',
    summary: 'What was done in an organization and its projects, newest first',
    scope: 'org',
    permission: 'audit:read',
    query,
    answers: { 200: pageSchema(answer) },
    handle: ({ ctx, org, query: input }) => list(ctx, { orgId: org.id }, input),
  }),
  defineRoute({
    method: 'GET',
    path: '/api/v1/orgs/:org/projects/:project/audit',
    summary: 'What was done in a project, newest first',
    scope: 'project',
    permission: 'audit:read',
    query,
    answers: { 200: pageSchema(answer) },
    handle: ({ ctx, project, query: input }) => list(ctx, { orgId: project.orgId, projectId: project.id }, input),
  }),
];
