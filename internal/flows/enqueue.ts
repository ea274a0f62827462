// Jobs that more than one flow asks for.

import { addJob, type Sql } from '../adapters/store/db.ts';
import type { ReconcileReason } from '../adapters/store/reconciles.ts';

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
