// Jobs that more than one flow asks for.

import { addJob } from '../adapters/store/operations/add-job.ts';
import type { Sql } from '../adapters/store/store.ts';
import { routeTask } from '../adapters/store/events/events.ts';
import type { FlowContext } from './context.ts';

/**
 * Asks for the routing of what the caller's transaction recorded in these projects: once, after everything is recorded.
 * Without a key: two transactions never wait for each other here, and a job too many finds nothing to do.
 */
export async function enqueueRouting(ctx: FlowContext, tx: Sql, projectIds: readonly string[]): Promise<void> {
  if (ctx.ingest?.routing !== true || projectIds.length === 0) return;
  await addJob(tx, routeTask, { projects: [...new Set(projectIds)] });
}
