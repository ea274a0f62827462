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
/** Newest runs of each repository, and of each project without one, that stay however old they are. */
const runsKept = 100;

/** The Monday, 00:00 UTC, of an instant's week. */
export const weekOf = (at: Date): Date => new Date(at.getTime() - ((at.getTime() - firstMonday) % weekMs));
export const weekAfter = (week: Date): Date => new Date(week.getTime() + weekMs);

/** The least version 7 id of an instant: ids of events before it are less. */
const floorId = (at: Date): string => {
  const hex = at.getTime().toString(16).padStart(12, '0').padEnd(32, '0');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
};
const partitionOf = (week: Date): string => `event_bodies_${week.toISOString().slice(0, 10).replaceAll('-', '')}`;

/** Weeks that have a partition of bodies, oldest first. */
export async function bodyWeeks(sql: Sql): Promise<Date[]> {
  const { rows } = await sql.query<{ day: string }>(
    `select substring(c.relname from '^event_bodies_(\\d{8})$') as day
       from pg_inherits i join pg_class c on c.oid = i.inhrelid
      where i.inhparent = 'svc.event_bodies'::regclass and c.relname ~ '^event_bodies_\\d{8}$' order by 1`,
  );
  return rows.map(({ day }) => new Date(`${day.slice(0, 4)}-${day.slice(4, 6)}-${day.slice(6)}T00:00:00Z`));
}

/** Done; busy: others were in the way; taken: bodies of that week stand in the default partition, where they stay. */
export type PartitionOutcome = 'done' | 'busy' | 'taken';

/**
 * Makes a week's partition. It is attached: that takes no lock which those who record events would wait for, but for the
 * default partition's, which is looked through and has next to nothing in it.
 */
export function addBodyWeek(db: Database, week: Date): Promise<PartitionOutcome> {
  const name = partitionOf(week);
  return patiently(db, async (tx) => {
    await tx.query(`create table svc.${name} (like svc.event_bodies including all)`);
    await tx.query(
      `alter table svc.event_bodies attach partition svc.${name}
         for values from ('${floorId(week)}') to ('${floorId(weekAfter(week))}')`,
    );
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
    if (code === '23514') return 'taken';
    throw error;
  }
}

async function hasEvents(sql: Sql, week: Date): Promise<boolean> {
  const { rows } = await sql.query<{ any: boolean }>(
    'select exists (select from svc.events where id >= $1::uuid and id < $2::uuid) as any',
    [floorId(week), floorId(weekAfter(week))],
  );
  return rows[0]?.any === true;
}

// Of events older than $2 and not older than $1: those that stay. What a session was made with is of its own event.
const keptEvents = `kept as materialized (
    select s.event_id as id from svc.sessions s where s.live and s.event_id >= $1::uuid and s.event_id < $2::uuid
    union select i.event_id from svc.inbox i join svc.sessions s on s.id = i.session_id
      where s.live and not i.starts and i.event_id >= $1::uuid and i.event_id < $2::uuid)`;

/** True where an event of that week has to stay. */
export async function keepsEvents(sql: Sql, week: Date): Promise<boolean> {
  const { rows } = await sql.query<{ any: boolean }>(
    `with ${keptEvents}
     select exists (select from kept join svc.events e using (id)) or exists (
       select from svc.events where id >= $1::uuid and id < $2::uuid and router_status = 'pending') as any`,
    [floorId(week), floorId(weekAfter(week))],
  );
  return rows[0]?.any === true;
}

/**
 * Deletes events recorded from `from` on and before `before` that need not stay, at most `limit`, oldest first. With
 * `bodiesLater` their bodies are left to the drop of their week.
 */
export async function deleteEvents(
  tx: Sql,
  input: { readonly from: Date; readonly before: Date; readonly limit: number; readonly bodiesLater: boolean },
): Promise<number> {
  // Bodies are not left to the trigger, which does not know that they all stand in one week.
  await tx.query('set local svc.bodies_go_later = on');
  const bodies = `, bodies as (
    delete from svc.event_bodies b using gone
     where b.event_id = gone.id and b.event_id >= $1::uuid and b.event_id < $2::uuid)`;
  const { rowCount } = await tx.query(
    `with ${keptEvents}, gone as materialized (
       select id from svc.events
        where id >= $1::uuid and id < $2::uuid and router_status <> 'pending' and id not in (select id from kept)
        order by id limit $3::int)${input.bodiesLater ? '' : bodies}
     delete from svc.events e using gone where e.id = gone.id`,
    [floorId(input.from), floorId(input.before), input.limit],
  );
  return rowCount;
}

/** Deletes sessions that ended before an instant, with all that was said in them; at most `limit`. */
export async function deleteSessions(tx: Sql, before: Date, limit: number): Promise<number> {
  const { rowCount } = await tx.query(
    `delete from svc.sessions where id in (
       select s.id from svc.sessions s
        where s.ended_at < $1::timestamptz
          and not exists (select from svc.bindings b where b.session_id = s.id and b.state = 'active')
        order by s.ended_at limit $2::int)`,
    [before, limit],
  );
  return rowCount;
}

/** Deletes checks of cycles that were over before an instant; at most `limit`. */
export async function deleteChecks(tx: Sql, before: Date, limit: number): Promise<number> {
  const { rowCount } = await tx.query(
    `delete from svc.checks where id in (
       select id from svc.checks where state in ('concluded', 'superseded') and updated_at < $1::timestamptz limit $2::int)`,
    [before, limit],
  );
  return rowCount;
}

/** Deletes runs that finished before an instant, but for the newest of each repository; at most `limit`. */
export async function deleteReconciles(tx: Sql, before: Date, limit: number): Promise<number> {
  const { rowCount } = await tx.query(
    `delete from svc.reconciles where id in (
       select id from (
         select id, status, finished_at,
                row_number() over (partition by project_id, repository_id, status = 'held' order by seq desc) as nth
           from svc.reconciles) ranked
        where nth > $3::int and status <> 'running' and finished_at < $1::timestamptz limit $2::int)`,
    [before, limit, runsKept],
  );
  return rowCount;
}

/** True where this transaction is the only one of all daemons that cleans up. */
export async function cleansAlone(tx: Sql): Promise<boolean> {
  const { rows } = await tx.query<{ mine: boolean }>(
    `select pg_try_advisory_xact_lock(hashtext('svc.retention')) as mine`,
  );
  return rows[0]?.mine === true;
}
