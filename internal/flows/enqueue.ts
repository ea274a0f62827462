// Jobs that more than one flow asks for.

import { addJob, type Sql } from '../adapters/store/store.ts';
import { routeTask } from '../adapters/store/events/events.ts';
import type { ReconcileReason } from '../adapters/store/repositories/reconciles.ts';
import type { FlowContext } from './context.ts';

/**
 * Asks for a sync of a repository inside the caller's transaction. Asked again while it waits, it is one job, and it
 * keeps its place: a busy repository must not be put off for ever. `hint` is a commit that somebody spoke of.
 */
export async function enqueueSync(
  sql: Sql,
  repositoryId: string,
  reason: ReconcileReason,
  now: Date,
  hint?: string,
): Promise<void> {
  const payload = { repositoryId, reason, ...(hint !== undefined && { hint }) };
  await addJob(sql, 'repo.sync', payload, { jobKey: `repo.sync:${repositoryId}`, runAt: now });
}

/**
 * Asks for the routing of what the caller's transaction recorded in these projects: once, after everything is recorded.
 * Without a key: two transactions never wait for each other here, and a job too many finds nothing to do.
 */
export async function enqueueRouting(ctx: FlowContext, tx: Sql, projectIds: readonly string[]): Promise<void> {
  if (ctx.ingest?.routing !== true || projectIds.length === 0) return;
  await addJob(tx, routeTask, { projects: [...new Set(projectIds)] });
}
