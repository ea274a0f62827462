// The audit as a whole: exported in order, and shortened where the configuration says how long entries are kept.

import {
  type AuditFilter,
  auditAfter,
  type AuditRow,
  type AuditScope,
  pruneAudit,
  recordAudit,
} from '../../adapters/store/tenancy/audit.ts';
import type { FlowContext } from '../context.ts';

const batch = { exportRows: 500, pruneRows: 5_000 } as const;
const dayMs = 24 * 60 * 60 * 1_000;

/** Every entry that the filter lets through, oldest first. Throws when `signal` aborts: half an export looks whole. */
export async function* exportAudit(
  ctx: FlowContext,
  scope: AuditScope,
  filter: AuditFilter,
  signal: AbortSignal,
): AsyncGenerator<AuditRow> {
  for (let after = 0; ; ) {
    signal.throwIfAborted();
    const rows = await auditAfter(ctx.db, scope, { ...filter, after, limit: batch.exportRows });
    yield* rows;
    const last = rows.at(-1);
    if (rows.length < batch.exportRows || last === undefined) return;
    after = last.id;
  }
}

/**
 * Removes what is older than the configured retention; nothing without one. Each batch leaves an entry in every
 * organization that lost some, in the same transaction. Answers with how many entries went.
 */
export async function keepRetention(ctx: FlowContext, signal: AbortSignal): Promise<number> {
  const days = ctx.config.file.audit?.retentionDays;
  if (days === undefined) return 0;
  const before = new Date(ctx.runtime.now().getTime() - days * dayMs);
  let total = 0;
  for (let gone: number = batch.pruneRows; gone >= batch.pruneRows && !signal.aborted; total += gone) {
    gone = await ctx.db.tx(async (tx) => {
      const counts = await pruneAudit(tx, before, batch.pruneRows);
      for (const { orgId, count } of counts) {
        await recordAudit(tx, {
          orgId,
          projectId: null,
          principal: { kind: 'system', id: null, name: 'audit-retention' },
          action: 'audit.pruned',
          detail: { before: before.toISOString(), entries: count, retentionDays: days },
        });
      }
      return counts.reduce((sum, { count }) => sum + count, 0);
    });
  }
  if (total > 0) ctx.runtime.log.info({ entries: total, before }, 'audit.pruned');
  return total;
}
