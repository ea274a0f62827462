// What goes with time, in bounded batches: events with their bodies, ended sessions with their transcripts, old runs.
// Bodies are cut by week (Monday, UTC) on the time in their event's id. A week is dropped as a whole, and only under the
// lock in which it was seen that none of its events is left. Whatever takes a lock on the table that events come in
// through waits for it a moment at most, and is tried again later. Never goes: an event that is pending or that a live
// session was told of, and a session that is live or holds a binding.

import type { Database, Sql } from '../store.ts';
import { errorCode } from '../store.ts';

const weekMs = 7 * 24 * 60 * 60 * 1_000;
/** A Monday. */
const firstMonday = Date.UTC(1970, 0, 5);
/** How long a change of partitions may wait for, and hold up, those who record events. */
const lockWaitMs = 200;
const statementMs = 2_000;

/** The Monday, 00:00 UTC, of an instant's week. */
export const weekOf = (at: Date): Date => new Date(at.getTime() - ((at.getTime() - firstMonday) % weekMs));
export const weekAfter = (week: Date): Date => new Date(week.getTime() + weekMs);

/** The least version 7 id of an instant: ids of events before it are less. None is of a time before 1970. */
const floorId = (at: Date): string => {
  const hex = Math.max(0, at.getTime()).toString(16).padStart(12, '0').padEnd(32, '0');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
};
const partitionOf = (week: Date): string => `event_bodies_${week.toISOString().slice(0, 10).replaceAll('-', '')}`;

/** As the server says it, and takes it. */
const boundOf = (week: Date): string => `FOR VALUES FROM ('${floorId(week)}') TO ('${floorId(weekAfter(week))}')`;

/**
 * Weeks that have a partition of bodies, oldest first. One that is cut elsewhere, as an earlier release did where the clocks of
 * the database's zone changed, is no week's: its bodies go one by one.
 */
export async function bodyWeeks(sql: Sql): Promise<Date[]> {
  const { rows } = await sql.query<{ day: string; bound: string }>(
    `select substring(c.relname from '^event_bodies_([0-9]{8})$') as day, pg_get_expr(c.relpartbound, c.oid) as bound
       from pg_inherits i join pg_class c on c.oid = i.inhrelid
      where i.inhparent = 'svc.event_bodies'::regclass and c.relname ~ '^event_bodies_[0-9]{8}$' order by 1`,
  );
  return rows.flatMap(({ day, bound }) => {
    const week = new Date(`${day.slice(0, 4)}-${day.slice(4, 6)}-${day.slice(6)}T00:00:00Z`);
    return bound === boundOf(week) ? [week] : [];
  });
}

/** Done; busy: others were in the way; taken: bodies of that week stand in the default partition, or in one that is cut elsewhere, where they stay. */
export type PartitionOutcome = 'done' | 'busy' | 'taken';

/**
 * Makes a week's partition. It is attached: that takes no lock which those who record events would wait for, but for the
 * default partition's, which is looked through and has next to nothing in it.
 */
export function addBodyWeek(db: Database, week: Date): Promise<PartitionOutcome> {
  const name = partitionOf(week);
  return patiently(db, async (tx) => {
    await tx.query(`create table svc.${name} (like svc.event_bodies including all)`);
    await tx.query(`alter table svc.event_bodies attach partition svc.${name} ${boundOf(week)}`);
  });
}

/** Drops a week's partition, unless an event of the week is still there. */
export function dropBodyWeek(db: Database, week: Date): Promise<PartitionOutcome> {
  const name = partitionOf(week);
  return patiently(db, async (tx) => {
    await tx.query(`alter table svc.event_bodies detach partition svc.${name}`);
    if (await hasEvents(tx, week)) throw new EventsLeft();
    await tx.query(`drop table svc.${name}`);
  });
}

/** Somebody else was first (table there, table gone); the lock, or the look through the default partition, took too long. */
const busyCodes: ReadonlySet<string> = new Set(['42P07', '42P01', '55P03', '57014']);

class EventsLeft extends Error {}

async function patiently(db: Database, fn: (tx: Sql) => Promise<void>): Promise<PartitionOutcome> {
  try {
    await db.tx(async (tx) => {
      await tx.query(`set local lock_timeout = ${lockWaitMs}`);
      await tx.query(`set local statement_timeout = ${statementMs}`);
      await tx.query(`select pg_advisory_xact_lock(hashtext('svc.partitions'))`);
      await fn(tx);
    });
    return 'done';
  } catch (error) {
    const code = errorCode(error);
    if (error instanceof EventsLeft || busyCodes.has(code ?? '')) return 'busy';
    if (code === '23514' || code === '42P17') return 'taken';
    throw error;
  }
}

// Of events with ids from $1 on and below $2: those that live sessions began with, also in place of another session.
const begunWith = `begun as materialized (
    select s.event_id as id from svc.sessions s where s.live and s.event_id >= $1::uuid and s.event_id < $2::uuid)`;
/**
 * Whether a live session was told of an event later. One by one, by the index, as with all that a slice asks for each of its
 * rows: `exists` is a join to the planner, for which it reads the whole table as long as that seems to cost less than two
 * thousand looks.
 */
const toldOf = (event: string): string => `(
    select true from svc.inbox i join svc.sessions s on s.id = i.session_id
     where i.event_id = ${event} and not i.starts and s.live limit 1)`;

/** What a slice did. `next`: where the following one goes on; null where there is none. */
export interface Slice {
  readonly gone: number;
  readonly next: string | null;
}

/**
 * Deletes events recorded from `from` on and before `before` that need not stay, of the next `limit` behind `after` (an
 * id), oldest first. With `bodiesLater` their bodies are left: to the drop of their week, or to `deleteBodies`.
 */
export async function deleteEvents(
  tx: Sql,
  input: { readonly from: Date; readonly before: Date; readonly limit: number; readonly bodiesLater: boolean },
  after: string | null,
): Promise<Slice> {
  if (input.bodiesLater) await tx.query('set local svc.bodies_go_later = on');
  const { rows } = await tx.query<Slice>(
    `with ${begunWith}, looked as materialized (
       select id from svc.events
        where id >= $1::uuid and id < $2::uuid and ($4::uuid is null or id > $4::uuid) and router_status <> 'pending'
        order by id limit $3::int
     ), gone as materialized (
       select l.id from looked l where not exists (select from begun where begun.id = l.id) and ${toldOf('l.id')} is null
     ), deleted as (
       delete from svc.events where id = any(array(select id from gone)))
     select (select count(*)::int from gone) as gone,
            case when (select count(*) from looked) = $3::int then (select max(id::text) from looked) end as next`,
    [floorId(input.from), floorId(input.before), input.limit, after],
  );
  return rows[0] ?? { gone: 0, next: null };
}

/** True where an event of that week is there. */
export async function hasEvents(sql: Sql, week: Date): Promise<boolean> {
  const { rows } = await sql.query<{ any: boolean }>(
    'select exists (select from svc.events where id >= $1::uuid and id < $2::uuid) as any',
    [floorId(week), floorId(weekAfter(week))],
  );
  return rows[0]?.any === true;
}

/** Deletes bodies of a week whose events are gone, of the next `limit` behind `after` (an id): the week has to stay. */
export async function deleteBodies(tx: Sql, week: Date, limit: number, after: string | null): Promise<Slice> {
  const { rows } = await tx.query<Slice>(
    `with looked as materialized (
       select event_id as id from svc.event_bodies
        where event_id >= $1::uuid and event_id < $2::uuid and ($4::uuid is null or event_id > $4::uuid)
        order by event_id limit $3::int
     ), gone as (
       delete from svc.event_bodies where event_id >= $1::uuid and event_id < $2::uuid and event_id = any(array(
         select l.id from looked l where (select true from svc.events e where e.id = l.id limit 1) is null)) returning event_id
     )
     select (select count(*)::int from gone) as gone,
            case when (select count(*) from looked) = $3::int then (select max(id::text) from looked) end as next`,
    [floorId(week), floorId(weekAfter(week)), limit, after],
  );
  return rows[0] ?? { gone: 0, next: null };
}

/** Deletes checks of cycles that were over before an instant; at most `limit`. */
export async function deleteChecks(tx: Sql, before: Date, limit: number): Promise<Slice> {
  const { rowCount } = await tx.query(
    `delete from svc.checks where id = any(array(
       select id from svc.checks where state in ('concluded', 'superseded') and updated_at < $1::timestamptz
        order by updated_at limit $2::int))`,
    [before, limit],
  );
  return { gone: rowCount, next: rowCount === limit ? '' : null };
}

/** True where this transaction is the only one of all daemons that cleans up. */
export async function lockRetention(tx: Sql): Promise<boolean> {
  const { rows } = await tx.query<{ mine: boolean }>(
    `select pg_try_advisory_xact_lock(hashtext('svc.retention')) as mine`,
  );
  return rows[0]?.mine === true;
}
