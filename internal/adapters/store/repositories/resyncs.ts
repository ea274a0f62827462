// Wishes for the repositories that a change of secrets, connections, endpoints or owners may heal or switch on, set-wise. Rows are
// taken in the order of their ids, so that two such changes never wait for each other in a circle; `for key share` waits for
// what is being removed just now, and leaves it out once it is gone.

import type { Sql } from '../store.ts';
import { asksForMore, wishChannel } from './polls.ts';
import { lastTold } from './reconciles.ts';

const wished = `insert into svc.repository_polls as p (repository_id, next_at, wanted)
  select id, now(), 'resync' from due
  on conflict (repository_id) do update set next_at = least(p.next_at, now()),
    wanted = case when ${asksForMore} then p.wanted else excluded.wanted end`;

/**
 * Asks, inside the caller's transaction, for a thorough sync of every repository of a project, or of a whole
 * organization; with `secretRef`, only of those whose `auth` names that secret. Suspended ones stay alone.
 */
export async function enqueueResyncs(
  tx: Sql,
  scope: { readonly orgId: string; readonly projectId: string | null; readonly secretRef?: string },
): Promise<void> {
  const { rowCount } = await tx.query(
    `with due as (
       select r.id from svc.repositories r join svc.projects o on o.id = r.project_id
        where o.org_id = $1::uuid and ($2::uuid is null or o.id = $2::uuid) and not r.suspended
          and o.archived_at is null and ($3::text is null or r.auth ->> 'secretRef' = $3::text) order by r.id for key share of r)
     ${wished}`,
    [scope.orgId, scope.projectId, scope.secretRef ?? null],
  );
  if (rowCount > 0) await tx.query(`select svc.tell('${wishChannel}', '')`);
}

/** The same for the repositories of a project whose latest commit is not applied, or whose source could not be read. */
export async function wishFailing(
  tx: Sql,
  scope: { readonly projectId: string; readonly except: string | null },
): Promise<void> {
  const { rowCount } = await tx.query(
    `with due as (
       select r.id from svc.repositories r join svc.repository_states s on s.repository_id = r.id
        where r.project_id = $1::uuid and not r.suspended and r.id is distinct from $2::uuid
          and (s.condition is not null or s.seen_commit is distinct from s.applied_commit or exists (
            select from (select status from svc.reconciles x where x.repository_id = r.id order by seq desc limit 1) last
             where last.status = 'failed'))
        order by r.id for key share of r)
     ${wished}`,
    [scope.projectId, scope.except],
  );
  if (rowCount > 0) await tx.query(`select svc.tell('${wishChannel}', '')`);
}

/** Codes of what another owner has, or alone could bring; their messages name it, and the agents that use it. */
const conflicts = ['owner-conflict', 'resource-conflict', 'endpoint-auth-conflict', 'identity-not-stored'];

/** The same for those that failed over something of these names, which another has given up, changed or brought. */
export async function wishConflicting(
  tx: Sql,
  scope: { readonly projectId: string; readonly except: string | null; readonly names: readonly string[] },
): Promise<void> {
  if (scope.names.length === 0) return;
  const { rowCount } = await tx.query(
    `with due as (
       select r.id from svc.repositories r join svc.repository_states s on s.repository_id = r.id
         cross join lateral ${lastTold('status, diagnostics')} last
        where r.project_id = $1::uuid and not r.suspended and r.id is distinct from $2::uuid and last.status = 'failed'
          and exists (select from jsonb_array_elements(last.diagnostics) d where d ->> 'code' = any($4::text[])
            and regexp_split_to_array(d ->> 'message', '[ ,()]+') && $3::text[])
        order by r.id for key share of r)
     ${wished}`,
    [scope.projectId, scope.except, scope.names, conflicts],
  );
  if (rowCount > 0) await tx.query(`select svc.tell('${wishChannel}', '')`);
}
