// svc.permissions: what a harness asks under `approvals: prompt`, and what a person decides. A request is open only while
// the turn that asks runs under the lease that asked; whoever decides first decides.

import type { JsonObject } from '../../../domain/json.ts';
import type { Sql, Tx } from '../store.ts';
import type { Lease } from './hosts.ts';
import { storable, storableJson } from '../schema/text.ts';

export type PermissionState = 'open' | 'allow' | 'allow_always' | 'reject' | 'cancelled';

/**
 * Writes a request and lets the session wait for it, inactive from now on: the same however often it is done. False where the
 * lease is gone or no turn runs.
 */
export async function askPermission(
  sql: Sql,
  lease: Lease,
  ask: { readonly id: string; readonly title: string; readonly request: JsonObject; readonly now: Date },
): Promise<boolean> {
  const { rowCount } = await sql.query(
    `with own as (
       update svc.sessions set state = 'waiting_permission', reason = $4::text, active_at = $6::timestamptz
         where id = $1::uuid and epoch = $2::bigint and live and state in ('running', 'waiting_permission') returning id
     )
     insert into svc.permissions (id, session_id, epoch, title, request, created_at)
       select $3::uuid, id, $2::bigint, $4::text, $5::jsonb, $6::timestamptz from own
       on conflict (id) do update set epoch = excluded.epoch`,
    [lease.sessionId, lease.epoch, ask.id, storable(ask.title), storableJson(ask.request), ask.now],
  );
  return rowCount > 0;
}

/** What became of a request; undefined where it is gone. */
export async function permissionState(sql: Sql, id: string): Promise<PermissionState | undefined> {
  const { rows } = await sql.query<{ state: PermissionState }>(
    'select state from svc.permissions where id = $1::uuid',
    [id],
  );
  return rows[0]?.state;
}

/**
 * Ends a request that nobody decided; the session runs on where no other request is open, else it names another: also one that is
 * being asked, which is seen once the session is locked.
 */
export async function closePermission(tx: Tx, lease: Lease, id: string, now: Date): Promise<void> {
  await tx.query('select from svc.sessions where id = $1::uuid for update', [lease.sessionId], 'lock-asking');
  await tx.query(
    `with closed as (
       update svc.permissions set state = case when state = 'open' then 'cancelled' else state end,
           decided_at = coalesce(decided_at, $4::timestamptz)
         where id = $3::uuid
     )
     update svc.sessions s set state = case when o.title is null then 'running' else s.state end, reason = o.title
       from (select max(p.title) as title from (
           select title from svc.permissions where session_id = $1::uuid and state = 'open' and id <> $3::uuid
             order by created_at desc, id desc limit 1) p) o
       where s.id = $1::uuid and s.epoch = $2::bigint and s.state = 'waiting_permission'`,
    [lease.sessionId, lease.epoch, id, now],
  );
}

/** Decides an open request of a session. False where it is not open. */
export async function decidePermission(
  tx: Sql,
  of: { readonly id: string; readonly sessionId: string },
  decision: { readonly state: 'allow' | 'allow_always' | 'reject'; readonly by: string; readonly now: Date },
): Promise<boolean> {
  const { rowCount } = await tx.query(
    `update svc.permissions set state = $3::text, decided_by = $4::text, decided_at = $5::timestamptz
      where id = $1::uuid and session_id = $2::uuid and state = 'open'`,
    [of.id, of.sessionId, decision.state, decision.by, decision.now],
  );
  return rowCount > 0;
}

/** Whether a session has this request, open or not. */
export async function isAskedBy(sql: Sql, of: { readonly id: string; readonly sessionId: string }): Promise<boolean> {
  const { rowCount } = await sql.query('select from svc.permissions where id = $1::uuid and session_id = $2::uuid', [
    of.id,
    of.sessionId,
  ]);
  return rowCount > 0;
}
