// svc.session_holds: what the next life of a daemon takes a running session over with. Invariants: a hold is of use with its
// session's epoch alone, and whoever takes one over raises both in one statement, so that the host before can write nothing
// any more; the cursor stands with the lines of the transcript that it tells of (`appendTranscript`).

import type { Sql } from '../store.ts';
import { atHome, type ClaimedSession, claimedColumns, isHome, type Lease, leaseText } from './hosts.ts';

/** Bytes are of the harness's output and input since it was started. */
export interface HoldCursor {
  /** All that the output holds before this byte is in the transcript. */
  readonly out: number;
  /** So many characters of text behind it are, too. */
  readonly skip: number;
  /** What the harness was given, or is about to be. */
  readonly in: number;
  /** Something was taken behind what waits for an answer: another process cannot go on from here. */
  readonly unclean: boolean;
  /** The turn that was prompted last, and the request that did it. */
  readonly turn: string | null;
  readonly prompt: number | null;
  /** From which ids of requests are free. */
  readonly next: number;
  /** That turn was seen to do something. */
  readonly active: boolean;
}

export interface CursorWrite {
  readonly cursor: HoldCursor;
  /** Which write of the cursor it is, from 1. */
  readonly number: number;
}

interface NewHold {
  readonly id: string;
  readonly provider: string;
  readonly keyVersion: number;
  readonly sealed: Buffer;
  readonly cursor: HoldCursor;
}

/** Takes the place of one of an earlier epoch. False where the session is another host's. */
export async function putHold(tx: Sql, lease: Lease, hold: NewHold): Promise<boolean> {
  await tx.query('delete from svc.session_holds where session_id = $1::uuid', [lease.sessionId]);
  const { rowCount } = await tx.query(
    `insert into svc.session_holds (id, session_id, epoch, provider, key_version, sealed, cursor)
     select $3::uuid, s.id, s.epoch, $4::text, $5::int, $6::bytea, $7::jsonb
       from svc.sessions s where s.id = $1::uuid and s.epoch = $2::bigint and s.live for share`,
    [lease.sessionId, lease.epoch, hold.id, hold.provider, hold.keyVersion, hold.sealed, JSON.stringify(hold.cursor)],
    'put-hold',
  );
  return rowCount === 1;
}

/** SQL: writes the cursor $3 as its write $4, of the session $1 at the epoch $2. */
export const moveHoldText = `update svc.session_holds h set cursor = $3::jsonb, commits = $4::bigint,
      taken = case when h.cursor -> 'prompt' is distinct from $3::jsonb -> 'prompt' then 0 else h.taken end
    where h.session_id = $1::uuid and h.epoch = $2::bigint and h.commits < $4::bigint
      and exists (select from svc.sessions s where s.id = h.session_id and s.epoch = h.epoch and s.live)`;

/** Writes the cursor alone. */
export async function moveHold(sql: Sql, lease: Lease, { cursor, number }: CursorWrite): Promise<void> {
  await sql.query(moveHoldText, [lease.sessionId, lease.epoch, JSON.stringify(cursor), number], 'move-hold');
}

/** Says that a session was let go of in good order, and tells other daemons. */
export async function offerHold(sql: Sql, lease: Lease): Promise<void> {
  await sql.query(
    `with offered as (
       update svc.session_holds set offered_at = now() where session_id = $1::uuid and epoch = $2::bigint returning id
     )
     select svc.tell('svc_hosts', '') from offered`,
    [lease.sessionId, lease.epoch],
    'offer-hold',
  );
}

/** Deletes the hold of an epoch that ends. */
export async function endHold(sql: Sql, lease: Lease): Promise<void> {
  await sql.query('delete from svc.session_holds where session_id = $1::uuid and epoch = $2::bigint', [
    lease.sessionId,
    lease.epoch,
  ]);
}

/** Deletes those whose epoch is over. */
export async function dropHolds(sql: Sql): Promise<void> {
  await sql.query(
    `delete from svc.session_holds h using svc.sessions s
      where s.id = h.session_id and (not s.live or s.epoch <> h.epoch)`,
    [],
    'drop-holds',
  );
}

interface Sealed {
  readonly provider: string;
  readonly keyVersion: number;
  readonly sealed: Buffer;
}

export interface TakenSession extends ClaimedSession {
  readonly state: 'idle' | 'running';
  readonly hold: Sealed & { readonly cursor: HoldCursor; readonly commits: number };
}

/** A session whose daemon has let go of it, and what it can be taken over with. */
export interface OfferedSession {
  readonly sessionId: string;
  readonly hold: Sealed;
}

/** Those that have waited longest. */
export async function offeredSessions(sql: Sql, limit: number): Promise<OfferedSession[]> {
  const { rows } = await sql.query<Sealed & { readonly sessionId: string }>(
    `select h.session_id as "sessionId", h.provider, h.key_version as "keyVersion", h.sealed
       from svc.session_holds h join svc.sessions s on s.id = h.session_id and s.epoch = h.epoch
      where h.offered_at is not null and h.taken < $2::int and s.live order by h.offered_at limit $1::int`,
    [limit, takenMax],
    'offered-sessions',
  );
  return rows.map(({ sessionId, ...hold }) => ({ sessionId, hold }));
}

/** One that was taken over so often since its last prompt is suspended as one whose host is lost. */
const takenMax = 3;

/**
 * Takes over what an earlier life of this data directory ran, and those of `offered` whose daemons have let go of them, at
 * the next epoch and without ending their turns: nothing that names the epoch before is written from now on. `before`: the
 * daemons that had this data directory, which are gone. Questions to people are asked anew. One whose turn was told to end
 * is left to its lease.
 */
export async function takeOverSessions(
  sql: Sql,
  by: {
    readonly daemonId: string;
    readonly home: string;
    readonly before?: readonly string[];
    readonly offered?: readonly string[];
  },
): Promise<TakenSession[]> {
  const { daemonId, home, before = [], offered = [] } = by;
  if (before.length + offered.length === 0) return [];
  const { rows } = await sql.query<TakenSession>(
    `with due as (
       select s.id, case s.state when 'waiting_permission' then 'running' else s.state end as state
         from svc.sessions s join svc.session_holds h on h.session_id = s.id and h.epoch = s.epoch
        where s.live and h.taken < $4::int
          and ((s.leased_by = any($2::uuid[]) and ${isHome('$3')})
            or (s.id = any($5::uuid[]) and h.offered_at is not null))
          and s.state in ('idle', 'running', 'waiting_permission')
        order by s.id for update of s
     ), claimed as (
       update svc.sessions s set epoch = s.epoch + 1, leased_by = $1::uuid, lease_until = 'infinity', state = due.state,
           ${atHome('$3')}
         from due where s.id = due.id returning ${claimedColumns}, s.state
     ), leased as (${leaseText('claimed', '$1')}),
     asked as (
       update svc.permissions set state = 'cancelled', decided_at = now()
        where state = 'open' and session_id in (select id from due)
     ), held as (
       update svc.session_holds h set epoch = claimed.epoch, taken = h.taken + 1, offered_at = null
         from claimed where h.session_id = claimed."sessionId"
       returning h.session_id, h.provider, h.key_version, h.sealed, h.cursor, h.commits
     )
     select claimed.*, json_build_object('provider', h.provider, 'keyVersion', h.key_version,
         'sealed', encode(h.sealed, 'base64'), 'cursor', h.cursor, 'commits', h.commits) as hold
       from claimed join held h on h.session_id = claimed."sessionId"`,
    [daemonId, before, home, takenMax, offered],
    'take-over-sessions',
  );
  return rows.map((row) => ({
    ...row,
    hold: { ...row.hold, sealed: Buffer.from(String(row.hold.sealed), 'base64') },
  }));
}

export interface RunningTurn {
  readonly id: string;
  readonly startedAt: Date;
  /** How long it has run in other processes, but for the time in which a person was asked. */
  readonly agoMs: number;
  readonly messages: readonly { readonly seq: number; readonly attempts: number; readonly eventId: string | null }[];
  /** Interrupting messages that it has left. */
  readonly left: readonly number[];
}

/** SQL: how long somebody was asked in the turn `t`, by however many requests at once. */
const askedSql = `coalesce((select sum(upper(asked) - lower(asked)) from unnest((
    select range_agg(tstzrange(p.created_at, greatest(p.created_at, coalesce(p.decided_at, now()))))
      from svc.permissions p where p.session_id = t.session_id and p.created_at >= t.started_at)) as asked), interval '0')`;

/** The turn that runs in a session; undefined where it is none, or another, or was told to end. */
export async function runningTurn(sql: Sql, sessionId: string, id: string): Promise<RunningTurn | undefined> {
  const { rows } = await sql.query<RunningTurn>(
    `select t.id, t.started_at as "startedAt",
            greatest(extract(epoch from now() - t.started_at - ${askedSql}) * 1000, 0)::float8 as "agoMs",
            (select coalesce(json_agg(json_build_object('seq', i.seq, 'attempts', i.attempts, 'eventId', i.event_id)
                      order by i.seq), '[]') from svc.inbox i
              where i.session_id = t.session_id and i.turn_id = t.id and i.state = 'in_flight') as messages,
            (select coalesce(json_agg(i.seq), '[]') from svc.inbox i
               join svc.messages m on m.session_id = i.session_id and m.seq = i.seq
              where i.session_id = t.session_id and i.state = 'pending' and i.mode = 'interrupt'
                and m.at <= t.started_at) as left
       from svc.turns t
      where t.session_id = $1::uuid and t.id = $2::uuid and t.state = 'running' and t.stop_reason is null`,
    [sessionId, id],
  );
  return rows[0];
}
