// The audit of a project, or of an organization with its projects: listed newest first, exported oldest first.

import type * as v from 'valibot';
import * as api from '../../../../schemas/api/audit.ts';
import {
  type AuditFilter,
  type AuditRow,
  type AuditScope,
  countAudit,
  listAudit,
} from '../../../adapters/store/tenancy/audit.ts';
import type { FlowContext } from '../../../flows/context.ts';
import { exportAudit } from '../../../flows/tenancy/tenancy.ts';
import { pageOf, readNumberPage } from '../page.ts';
import { type Call, ok, type Route, serve } from '../route.ts';
import { counted } from './shapes.ts';

type Filters = v.InferOutput<typeof api.auditExportQuery>;
type PageQuery = Pick<v.InferOutput<typeof api.auditQuery>, 'limit' | 'cursor' | 'counts'>;

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

function filterOf({ action, subject, principal, since, until }: Filters): AuditFilter {
  const at = (text: string | undefined) => {
    const ms = text === undefined ? undefined : api.auditMillis(text);
    return ms === undefined ? undefined : new Date(ms);
  };
  return { action, subject, principal, since: at(since), until: at(until) };
}

async function list(ctx: FlowContext, scope: AuditScope, input: Filters & PageQuery) {
  const { limit, ...page } = readNumberPage(input);
  const { rows, isCut } = await listAudit(ctx.db, scope, { ...filterOf(input), ...page, limit: limit + 1 });
  const total = input.counts === 'true' ? await countAudit(ctx.db, scope, filterOf(input)) : undefined;
  return ok({ ...pageOf(rows, limit, (row) => [row.id], show, isCut), ...counted(total) });
}

function exported(call: Pick<Call<Filters>, 'ctx' | 'query' | 'signal'>, scope: AuditScope) {
  const rows = exportAudit(call.ctx, scope, filterOf(call.query), call.signal);
  async function* lines(): AsyncGenerator<ReturnType<typeof show>> {
    for await (const row of rows) yield show(row);
  }
  return { status: 200, lines: lines() } as const;
}

const inProject = ({ project }: Pick<Call, 'project'>): AuditScope => ({ orgId: project.orgId, projectId: project.id });

export const auditRoutes: readonly Route[] = [
  serve(api.listOrganizationAudit, (call) => list(call.ctx, { orgId: call.org.id }, call.query)),
  serve(api.exportOrganizationAudit, async (call) => exported(call, { orgId: call.org.id })),
  serve(api.listAudit, (call) => list(call.ctx, inProject(call), call.query)),
  serve(api.exportAudit, async (call) => exported(call, inProject(call))),
];
