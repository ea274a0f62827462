// Jobs for the repositories that a change of secrets or connections may heal or switch on, set-wise.

import type { Sql } from '../store.ts';

/**
 * Asks, inside the caller's transaction, for a thorough sync of every repository of a project, or of a whole
 * organization; with `secretRef`, only of those whose `auth` names that secret. Suspended ones stay alone.
 */
export async function enqueueResyncs(
  tx: Sql,
  scope: { readonly orgId: string; readonly projectId: string | null; readonly secretRef?: string },
  now: Date,
): Promise<void> {
  await tx.query(
    `select graphile_worker.add_job('repo.sync',
       payload => json_build_object('repositoryId', r.id, 'reason', 'resync'), run_at => $4::timestamptz,
       max_attempts => 100, job_key => 'repo.sync:' || r.id, job_key_mode => 'preserve_run_at')
       from svc.repositories r join svc.projects p on p.id = r.project_id
      where p.org_id = $1::uuid and ($2::uuid is null or p.id = $2::uuid) and not r.suspended
        and p.archived_at is null and ($3::text is null or r.auth ->> 'secretRef' = $3::text)`,
    [scope.orgId, scope.projectId, scope.secretRef ?? null, now],
  );
}
