// What an apply leaves behind besides its rows: the lifecycle events `svc.project_resource_apply.*` (contract,
// section 4) and the audit entry. An apply that changes nothing records neither.

import { createHash } from 'node:crypto';
import { recordAudit } from '../../adapters/store/tenancy/audit.ts';
import type { Sql } from '../../adapters/store/store.ts';
import { timeOrderedId } from '../../base/runtime.ts';
import { recordEvent } from '../../adapters/store/events/events.ts';
import type { ChangeSet } from '../../core/plan/types.ts';
import type { Diagnostic } from '../../domain/diagnostic.ts';
import type { JsonObject } from '../../domain/json.ts';
import type { FlowContext } from '../context.ts';
import { enqueueRouting } from '../enqueue.ts';
import { recordOnboarded } from './apply-onboarded.ts';
import type { ApplyRequest } from './apply-types.ts';

type Phase = 'started' | 'completed' | 'failed';

export interface ApplyRecord {
  readonly request: ApplyRequest;
  /** Name of the owning repository. */
  readonly repository: string | undefined;
  /** Absent where the tree did not compile. */
  readonly set: ChangeSet | undefined;
  readonly diagnostics: readonly Diagnostic[];
  readonly startedAt: Date;
}

export const auditAction = (request: ApplyRequest): string =>
  request.owner.kind === 'repository' ? 'repository_sync.apply' : 'manual.apply';

function payloadOf(record: ApplyRecord, error?: { name: string; message: string }): JsonObject {
  const { request, repository, set, diagnostics } = record;
  const changed = set?.actions.filter((action) => action.op !== 'unchanged') ?? [];
  return {
    apply: {
      operationId: request.operationId,
      auditAction: auditAction(request),
      repository,
      commit: request.commit ?? undefined,
      plan: set && {
        counts: { ...set.counts, diagnostics: diagnostics.length },
        changedResources: changed.map((action) => `${action.kind}/${action.name}`),
      },
      request: { resources: request.compiled.resources.length, delete: set?.counts.delete ?? 0 },
      error,
    },
  };
}

async function record(
  ctx: FlowContext,
  tx: Sql,
  entry: ApplyRecord,
  phase: Phase,
  payload: JsonObject,
  at: Date,
): Promise<void> {
  const { operationId, projectId } = entry.request;
  await recordEvent(tx, {
    id: timeOrderedId(ctx.runtime),
    projectId,
    key: `svc.project_resource_apply.${phase}`,
    dedupHash: createHash('sha256').update(`svc.project_resource_apply\0${operationId}\0${phase}`).digest(),
    raw: null,
    payload: JSON.stringify(payload),
    receivedAt: at,
  });
}

/** Events and audit entry of an apply that wrote; inside its transaction. */
export async function recordApplied(ctx: FlowContext, tx: Sql, entry: ApplyRecord, orgId: string): Promise<void> {
  const payload = payloadOf(entry);
  await record(ctx, tx, entry, 'started', payload, entry.startedAt);
  await record(ctx, tx, entry, 'completed', payload, ctx.runtime.now());
  await recordOnboarded(ctx, tx, entry.request.projectId);
  await enqueueRouting(ctx, tx, [entry.request.projectId]);
  const { request, repository, set } = entry;
  await recordAudit(tx, {
    orgId,
    projectId: request.projectId,
    principal: request.actor,
    action: auditAction(request),
    ...(repository !== undefined && { subject: { kind: 'Repository', name: repository } }),
    detail: { operationId: request.operationId, commit: request.commit, counts: { ...set?.counts } },
  });
}

/** Events of an apply that failed; its own transaction is gone, so this is another. */
export async function recordFailed(
  ctx: FlowContext,
  tx: Sql,
  entry: ApplyRecord,
  error: { readonly name: string; readonly message: string },
): Promise<void> {
  await record(ctx, tx, entry, 'started', payloadOf(entry), entry.startedAt);
  await record(ctx, tx, entry, 'failed', payloadOf(entry, error), ctx.runtime.now());
  await enqueueRouting(ctx, tx, [entry.request.projectId]);
}

/** The error of a failed apply as its event tells it: the first mistake, and how many there are. */
export function errorOf(diagnostics: readonly Diagnostic[]): { name: string; message: string } {
  const errors = diagnostics.filter((item) => item.severity === 'error');
  const [first] = errors;
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : '';
  return { name: first?.code ?? 'invalid', message: `${first?.message ?? 'The tree does not compile'}${more}` };
}
