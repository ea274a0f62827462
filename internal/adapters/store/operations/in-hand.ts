// svc.in_hand and svc.suspects: what each daemon is at work on, and what was in hand when daemons ended uncleanly.
// Invariant: a row of svc.in_hand is committed before anything is made of what it names, and its daemon's row in
// svc.daemons is there as long as the daemon is; whoever buries a daemon counts what its rows name, once, for the count
// takes the rows away.

import { unwearText } from '../sessions/turns.ts';
import type { Sql, Statement } from '../store.ts';

/** What is told outside, or asked there, about something that has a row of its own. */
export type OutboundKind = 'plan' | 'look' | 'status' | 'notice' | 'check' | 'call';
export type WorkKind = 'event' | 'sync' | 'tick' | 'session' | OutboundKind;

/** Of what is to be told: how much of it a daemon claims, for how long, and projects (ids) whose it leaves alone. */
export interface OutboundClaim {
  readonly daemonId: string;
  readonly leaseSeconds: number;
  readonly limit: number;
  readonly busy: readonly string[];
}

/** SQL that is true of a repository of none of these projects; nothing is looked up where there are none. */
export const ofOtherProjects = (repository: string, busy: string): string =>
  `(cardinality(${busy}::uuid[]) = 0 or not exists (
      select from svc.repositories r where r.id = ${repository} and r.project_id = any(${busy}::uuid[])))`;

/** What a session's turns are suspected by, apart from its launches. */
export const turnSuspect = (sessionId: string): string => `turn:${sessionId}`;

export interface InHand {
  readonly daemonId: string;
  /** One strand of a daemon's work: what it takes next replaces what it had. */
  readonly lane: string;
  readonly kind: WorkKind;
  readonly ids: readonly string[];
  /** Whether the daemon does nothing beside it. */
  readonly alone: boolean;
}

/** SQL that is true of a repository whose sync is parked, which has been told of. */
export const syncParked = (repository: string): string =>
  `exists (select from svc.suspects parked where parked.kind = 'sync' and parked.id = ${repository}::text and parked.ends > 3)`;

/**
 * Notes what a strand takes in hand, and answers with those of it that were in hand at unclean ends: id → how many in a
 * row. Its commit is not waited for to be on the disk: it has to outlive this process, not the database's machine.
 */
export async function noteInHand(sql: Sql, work: InHand): Promise<ReadonlyMap<string, number>> {
  const { text, values, name } = inHandNote(work);
  const { rows } = await sql.query(text, values, name);
  return uncleanEnds(rows);
}

/** The same as a statement that goes ahead of a transaction (TxOptions), whose rows `uncleanEnds` reads. */
export const inHandNote = (work: InHand): Statement => ({
  text: `with quick as materialized (select set_config('synchronous_commit', 'off', true) as off),
     noted as (
       insert into svc.in_hand (daemon_id, lane, kind, ids, alone)
         select $1::uuid, $2::text, $3::text, $4::text[], $5::boolean from quick
       on conflict (daemon_id, lane) do update set kind = excluded.kind, ids = excluded.ids, alone = excluded.alone
     )
     select id, ends from svc.suspects where kind = $3::text and id = any($4::text[])`,
  values: [work.daemonId, work.lane, work.kind, work.ids, work.alone],
  name: 'note-in-hand',
});

export const uncleanEnds = (rows: readonly unknown[]): ReadonlyMap<string, number> =>
  new Map((rows as readonly { id: string; ends: number }[]).map((row) => [row.id, row.ends]));

/** Takes a strand's note away: nothing is in its hand. */
export async function dropInHand(sql: Sql, daemonId: string, lane: string): Promise<void> {
  await sql.query(
    'delete from svc.in_hand where daemon_id = $1::uuid and lane = $2::text',
    [daemonId, lane],
    'drop-in-hand',
  );
}

/**
 * Both for a piece of work, in the transaction that ends it: from its commit on nothing of it is in hand, and it has come to
 * an end of its own.
 */
export async function endInHand(tx: Sql, { daemonId, lane, kind, ids }: Omit<InHand, 'alone'>): Promise<void> {
  await tx.query(
    `with dropped as (delete from svc.in_hand where daemon_id = $1::uuid and lane = $2::text)
     delete from svc.suspects where kind = $3::text and id = any($4::text[])`,
    [daemonId, lane, kind, ids],
    'end-in-hand',
  );
}

/** Forgets the unclean ends of what has come to an end of its own. */
export async function clearSuspects(sql: Sql, kind: WorkKind, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  await sql.query('delete from svc.suspects where kind = $1::text and id = any($2::text[])', [kind, ids]);
}

/** Has something tried next with nothing beside it, and parked at its next unclean end: a person asked for it again. */
export async function trySuspectAlone(sql: Sql, kind: WorkKind, id: string): Promise<void> {
  await sql.query(
    `insert into svc.suspects (kind, id, ends) values ($1::text, $2::text, 2)
     on conflict (kind, id) do update set ends = 2`,
    [kind, id],
  );
}

/** Marks what is parked as told of; false where it was before. */
export async function parkedSuspect(sql: Sql, kind: WorkKind, id: string): Promise<boolean> {
  const values = [kind, id];
  const { rowCount } = await sql.query(
    'update svc.suspects set ends = 4 where kind = $1::text and id = $2::text and ends = 3',
    values,
  );
  return rowCount > 0;
}

/**
 * Has what is parked of a repository tried again, each with nothing beside it: its sync, and what is told about it; what is
 * not parked stays as it is. Ids begin with the repository's: `<repository>` of a sync and a look,
 * `<repository>:<number>:<head>` of a plan, `<repository>:<commit>` of a status.
 */
export async function releaseParked(tx: Sql, repositoryId: string): Promise<void> {
  await tx.query(
    `with again as (
       update svc.suspects set ends = 2
        where kind in ('sync', 'plan', 'look', 'status') and ends > 2 and split_part(id, ':', 1) = $1::text
        returning kind, id
     ), plans as (
       update svc.pull_plans p set due_at = now(), version = p.version + 1 from again
        where again.kind = 'plan' and p.repository_id = $1::uuid and again.id = concat_ws(':', $1::text, p.number, p.head)
     ), looks as (
       update svc.pull_polls p set wishes = p.wishes + 1, failed_commit = null from again where again.kind = 'look' and p.repository_id = $1::uuid
     )
     update svc.commit_statuses s set due_at = now(), version = s.version + 1 from again
      where again.kind = 'status' and s.repository_id = $1::uuid and again.id = concat_ws(':', $1::text, s.commit)`,
    [repositoryId],
    'release-parked',
  );
}

/** Forgets tellings, successors and turns of which nothing was heard since then; the caller goes on until it deletes less than `limit`. */
export async function forgetSuspects(tx: Sql, before: Date, limit: number): Promise<number> {
  const { rowCount } = await tx.query(
    `delete from svc.suspects where (kind, id) in (
       select kind, id from svc.suspects
        where (kind in ('plan', 'look', 'status', 'notice', 'check', 'call') or (kind = 'session' and (id like 'successor:%' or id like 'turn:%')))
          and ended_at < $1::timestamptz limit $2::int)`,
    [before, limit],
  );
  return rowCount;
}

/**
 * Counts an unclean end for whatever was in hand of daemons that are not there any more. What has been tried alone counts
 * further than that; what was beside others does not, and other turns that were in flight then are not worn by the end. Answers
 * with what may not be tried beside others any more, and forgets events that do not wait any more. One statement: the count
 * takes away what it is made from, so that nobody could make up for a part of it.
 */
export async function countUncleanEnds(sql: Sql): Promise<{ readonly kind: WorkKind; readonly id: string }[]> {
  const { rows } = await sql.query<{ readonly kind: WorkKind; readonly id: string }>(
    `with gone as (
       delete from svc.in_hand h where not exists (select from svc.daemons d where d.id = h.daemon_id)
         returning h.daemon_id, h.kind, h.ids, h.alone
     ), held as (
       select g.kind, u.id, bool_or(g.alone) as alone from gone g cross join unnest(g.ids) as u (id)
        where g.kind <> 'event'
           or exists (select from svc.events e where e.id = u.id::uuid and e.router_status = 'pending')
        group by g.kind, u.id
     ), over as (
       -- What was in hand beside the one that ended the process, and has been routed since.
       delete from svc.suspects s
        where s.kind = 'event' and not exists (select from svc.events e
          where e.id = case when s.kind = 'event' then s.id::uuid end and e.router_status = 'pending')
     ), counted as (
       insert into svc.suspects as s (kind, id, ends) select kind, id, 1 from held
         on conflict (kind, id) do update set ended_at = now(), ends = case
           when s.ends < 2 or exists (select from held where held.kind = s.kind and held.id = s.id and held.alone)
             then s.ends + 1 else s.ends end
       returning s.kind, s.id
     ), unworn as (${unwearText('(select daemon_id, ids[1] as id from gone where alone and exists (select from counted))')})
     select kind, id from counted`,
  );
  return rows;
}

/** Records why events that were never routed will not be; they are in the caller's transaction and wait for nobody. */
export async function failNewEvents(tx: Sql, ids: readonly string[], reason: string): Promise<void> {
  await tx.query(
    `update svc.events set router_status = 'failed', reason = $2::text
      where id = any($1::uuid[]) and router_status = 'pending'`,
    [ids, reason],
  );
}

/** Has the schedule of a tick that is parked come to its next one; the event is the tick's. */
export async function resumeSchedule(tx: Sql, eventId: string): Promise<void> {
  await tx.query(
    `with again as (
       update svc.schedules set next_at = now() where last_event_id = $1::uuid and last_status = 'failed' returning id
     )
     update svc.suspects s set ends = 2 from again where s.kind = 'tick' and s.id = again.id`,
    [eventId],
  );
}
