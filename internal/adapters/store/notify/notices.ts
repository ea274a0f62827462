// svc.notices and svc.notifications: what people are to be told, and each telling of it. Invariants: a notice is made once
// per project, condition and key (a unique index), by triggers in the transaction that makes it so, or here; it becomes
// notifications once (spread_at); of a notification one daemon tells at a time (claimed_by, claimed_until), and what is
// settled never becomes pending again.

import type { Condition, Notice } from '../../../domain/notification.ts';
import type { OutboundClaim } from '../operations/in-hand.ts';
import type { Sql } from '../store.ts';

export interface NoticeRow extends Notice {
  readonly projectId: string;
  readonly subjectId: string;
  readonly permissionId: string | null;
}

const noticeColumns = `n.id, n.project_id as "projectId", n.condition, n.subject, n.subject_id as "subjectId",
  n.permission_id as "permissionId", n.at`;

/** Whether there are notices that nobody has made notifications of, and notifications that are due, with somebody at them or not. */
export async function whatWaits(sql: Sql): Promise<{ readonly fresh: boolean; readonly due: boolean }> {
  const { rows } = await sql.query<{ fresh: boolean; due: boolean }>(
    `select exists (select from svc.notices where spread_at is null) as fresh,
            exists (select from svc.notifications where due_at <= now()) as due`,
    [],
    'what-notices-wait',
  );
  return rows[0] ?? { fresh: false, due: false };
}

/** Takes notices that nobody has made notifications of, oldest first; the caller does so in this transaction. */
export async function takeFresh(tx: Sql, limit: number): Promise<NoticeRow[]> {
  const { rows } = await tx.query<NoticeRow>(
    `with fresh as (
       select id from svc.notices where spread_at is null order by at limit $1::int for update skip locked)
     update svc.notices n set spread_at = now() from fresh where n.id = fresh.id returning ${noticeColumns}`,
    [limit],
    'take-fresh-notices',
  );
  return rows;
}

export interface NewNotification {
  readonly noticeId: string;
  readonly receiver: string;
}

/** Notifications, one for each notice and receiver; one that is there already stays as it is. */
export async function insertNotifications(tx: Sql, rows: readonly NewNotification[]): Promise<void> {
  if (rows.length === 0) return;
  await tx.query(
    `insert into svc.notifications (notice_id, receiver, due_at)
     select "noticeId", receiver, now() from json_to_recordset($1::json) as i ("noticeId" uuid, receiver text)
     on conflict do nothing`,
    [JSON.stringify(rows)],
  );
}

export interface NotificationRow extends NoticeRow {
  readonly receiver: string;
  readonly attempts: number;
}

/** Takes notifications that are due and that no living daemon is at, of projects other than `busy`. */
export async function claimNotifications(sql: Sql, by: OutboundClaim): Promise<NotificationRow[]> {
  const { rows } = await sql.query<NotificationRow>(
    `with due as (
       select d.notice_id, d.receiver from svc.notifications d
        where d.due_at <= now() and (d.claimed_until is null or d.claimed_until < now()
          or not exists (select from svc.daemons x where x.id = d.claimed_by))
          and (cardinality($4::uuid[]) = 0
            or not exists (select from svc.notices n where n.id = d.notice_id and n.project_id = any($4::uuid[])))
        order by d.due_at limit $3::int for update skip locked),
     mine as (
       update svc.notifications o set claimed_by = $1::uuid, claimed_until = now() + make_interval(secs => $2::int)
         from due where o.notice_id = due.notice_id and o.receiver = due.receiver
         returning o.notice_id, o.receiver, o.attempts)
     select ${noticeColumns}, mine.receiver, mine.attempts from mine join svc.notices n on n.id = mine.notice_id`,
    [by.daemonId, by.leaseSeconds, by.limit, by.busy],
    'claim-notifications',
  );
  return rows;
}

/** Where a notification is about to be told: a daemon of the release before, which may run beside, holds answers against it. */
export async function aimNotification(
  sql: Sql,
  of: { readonly id: string; readonly receiver: string },
  target: { readonly type: string; readonly key: string },
): Promise<void> {
  await sql.query(
    `update svc.notifications set target_type = $3::text, target_key = $4::text
      where notice_id = $1::uuid and receiver = $2::text`,
    [of.id, of.receiver, target.type, target.key],
  );
}

export type Settled =
  | { readonly status: 'done' | 'refused' | 'unknown' | 'dropped'; readonly code: string | null }
  | { readonly afterMs: number; readonly code: string };

/** Ends a telling, or says when it is tried again. Does nothing where another daemon has taken it over. */
export async function settleNotification(
  sql: Sql,
  of: { readonly id: string; readonly receiver: string; readonly daemonId: string },
  end: Settled,
): Promise<void> {
  const status = 'status' in end ? end.status : 'pending';
  await sql.query(
    `update svc.notifications set status = $4::text, code = $5::text, claimed_by = null, claimed_until = null,
       attempts = attempts + 1,
       due_at = case when $4::text = 'pending' then now() + make_interval(secs => $6::float8 / 1000) end,
       settled_at = case when $4::text <> 'pending' then now() end
      where notice_id = $1::uuid and receiver = $2::text and claimed_by = $3::uuid and status = 'pending'`,
    [of.id, of.receiver, of.daemonId, status, end.code, 'afterMs' in end ? end.afterMs : null],
  );
}

export interface Origin {
  readonly agent: string;
  readonly target: { readonly type: string; readonly key: string };
  readonly connectionId: string;
}

/** SQL, `line`: the sessions of which this is so, each with those that it stands in for, up to one with an event of its own. */
const linesOf = (which: string): string => `with recursive line as (
       select s.id as session, s.agent, s.event_id, s.parent_id, s.origin, 1 as steps from svc.sessions s where ${which}
       union all
       select line.session, line.agent, p.event_id, p.parent_id, p.origin, line.steps + 1
         from line join svc.sessions p on p.id = line.parent_id
        where line.origin = 'replacement' and line.event_id is null and line.steps < 100)`;

/** Where a session came from: the target of its event, also through those that it stands in for. */
export async function originOf(sql: Sql, sessionId: string): Promise<Origin | undefined> {
  const { rows } = await sql.query<Origin>(
    `${linesOf('s.id = $1::uuid')}
     select line.agent, json_build_object('type', e.target_type, 'key', e.target_key) as target,
         e.connection_id as "connectionId"
       from line join svc.events e on e.id = line.event_id
      where e.target_type is not null and e.connection_id is not null
      order by line.steps limit 1`,
    [sessionId],
  );
  return rows[0];
}

export interface OpenQuestion {
  readonly permissionId: string;
  readonly sessionId: string;
}

/**
 * The oldest question of a session that came from a thread, a pull request or an issue, and that nobody has decided: whether it
 * could be told there or not.
 */
export async function openQuestionAt(
  sql: Sql,
  projectId: string,
  targetKey: string,
): Promise<OpenQuestion | undefined> {
  const { rows } = await sql.query<OpenQuestion>(
    `${linesOf(`s.id = any(array(select session_id from svc.permissions where state = 'open')) and s.project_id = $1::uuid`)}
     select p.id as "permissionId", p.session_id as "sessionId"
       from line join svc.events e on e.id = line.event_id
       join svc.permissions p on p.session_id = line.session and p.state = 'open'
      where e.target_key = $2::text and e.connection_id is not null
      order by p.created_at, p.id limit 1`,
    [projectId, targetKey],
  );
  return rows[0];
}

/**
 * Notes secrets that expire within so many seconds, once per time of expiry: those of a project there, those of an
 * organization in each of its projects that has receivers. One with an idle clock only within the last quarter of it.
 */
export async function noteExpiring(sql: Sql, withinSeconds: number): Promise<number> {
  const { rowCount } = await sql.query(
    `with soon as (
       select s.id, s.org_id, s.project_id, s.name, s.expires_at as at, false as idle from svc.secrets s
        where s.expires_at between now() and now() + make_interval(secs => $1::float8)
       union all
       select s.id, s.org_id, s.project_id, s.name, s.idle_since + make_interval(secs => s.idle_expiry_seconds), true
         from svc.secrets s
        where s.idle_since + make_interval(secs => s.idle_expiry_seconds) between now()
          and now() + make_interval(secs => least($1::float8, s.idle_expiry_seconds / 4.0)))
     insert into svc.notices (project_id, condition, key, subject_id, subject)
       select p.id, 'secret-expiring', concat_ws(' ', soon.id, extract(epoch from soon.at)), soon.id,
           jsonb_build_object('secret', soon.name, 'scope', case when soon.project_id is null then 'organization' else
             'project' end, 'expiresAt', to_char(soon.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
             'idle', soon.idle)
         from soon join svc.projects p on p.org_id = soon.org_id and p.archived_at is null
           and (p.id = soon.project_id or soon.project_id is null
             and exists (select from svc.receivers r where r.project_id = p.id))
       on conflict do nothing`,
    [withinSeconds],
  );
  return rowCount;
}

/** Forgets what was noted before then. */
export async function forgetNotices(sql: Sql, before: Date, limit: number): Promise<number> {
  const { rowCount } = await sql.query(
    `delete from svc.notices where id in (
       select id from svc.notices where at < $1::timestamptz and spread_at is not null order by at limit $2::int)`,
    [before, limit],
  );
  return rowCount;
}

export interface NoticeDeliveries {
  readonly id: string;
  readonly condition: Condition | 'launch-failed';
  readonly subject: Notice['subject'];
  readonly at: Date;
  readonly tellings: readonly {
    readonly receiver: string;
    readonly status: 'pending' | 'done' | 'refused' | 'unknown' | 'dropped';
    readonly code: string | null;
  }[];
}

/** A project's notices with what became of each telling, newest first, behind the one of an id. */
export async function listNotices(
  sql: Sql,
  projectId: string,
  page: { readonly before: string | undefined; readonly limit: number },
): Promise<NoticeDeliveries[]> {
  const { rows } = await sql.query<NoticeDeliveries>(
    `select n.id, n.condition, n.subject, n.at, coalesce((select json_agg(json_build_object('receiver', o.receiver,
         'status', o.status, 'code', o.code) order by o.receiver) from svc.notifications o where o.notice_id = n.id),
         '[]') as tellings
       from svc.notices n
      where n.project_id = $1::uuid
        and ($2::uuid is null or (n.at, n.id) < (select b.at, b.id from svc.notices b where b.id = $2::uuid))
      order by n.at desc, n.id desc limit $3::int`,
    [projectId, page.before ?? null, page.limit],
  );
  return rows;
}
