// svc.turns, and the rows of svc.inbox on their way through a turn. Invariants: one turn of a session runs at a time (a
// unique row); a message is in flight only under a running turn; each write names the host's epoch and changes nothing
// where it is another's by now.

import type { JsonObject } from '../../../domain/json.ts';
import type { Database, Sql } from '../store.ts';
import { type CursorWrite, moveHoldText } from './holds.ts';
import type { Lease } from './hosts.ts';
import { storable, storableJson } from '../schema/text.ts';

export interface WaitingMessage {
  readonly seq: number;
  readonly mode: 'interrupt' | 'defer';
  /** Empty beyond what was asked for. */
  readonly text: string;
  /** Of the text, in UTF-8. */
  readonly bytes: number;
  readonly attempts: number;
  readonly eventId: string | null;
  readonly from: { readonly sessionId: string; readonly agent: string } | null;
}

/** SQL: whether the session $1 is told anything; in a project that is archived what waits stays where it is. */
const isHeard = `not exists (select from svc.sessions s join svc.projects p on p.id = s.project_id
    where s.id = $1::uuid and p.archived_at is not null)`;

/** Interrupting messages of one look; what is beyond waits for the next one. */
export const waitingMax = 200;

/**
 * What may go in next: the first interrupting messages and the first deferring one, each in order. Texts are read up to
 * `maxBytes` together, and the first of them always.
 */
export async function waitingMessages(sql: Sql, sessionId: string, maxBytes: number): Promise<WaitingMessage[]> {
  const { rows } = await sql.query<WaitingMessage>(
    `select seq, mode, attempts, event_id as "eventId", "from", bytes,
            case when place = 1 or sum(bytes) over (order by place) <= $3::bigint then text else '' end as text
       from (
         select i.*, m.text, octet_length(m.text) as bytes, m.detail -> 'from' as "from",
                row_number() over (order by i.mode = 'defer', i.seq) as place
           from (
             (select * from svc.inbox where session_id = $1::uuid and state = 'pending' and mode = 'interrupt'
               order by seq limit $2::int)
             union all
             (select * from svc.inbox where session_id = $1::uuid and state = 'pending' and mode = 'defer'
               order by seq limit 1)
           ) i join svc.messages m on m.session_id = i.session_id and m.seq = i.seq
       ) waiting where ${isHeard} order by place`,
    [sessionId, waitingMax, maxBytes],
    'waiting-messages',
  );
  return rows;
}

/** Interrupting messages that wait and are not among these, up to `limit`, all without one. */
export async function interruptsBeside(
  sql: Sql,
  sessionId: string,
  seqs: readonly number[],
  limit: number | null = null,
): Promise<number[]> {
  const { rows } = await sql.query<{ seq: number }>(
    `select seq from svc.inbox
      where session_id = $1::uuid and state = 'pending' and mode = 'interrupt' and seq <> all($2::bigint[])
        and ${isHeard}
      limit $3::int`,
    [sessionId, seqs, limit],
    'interrupts-beside',
  );
  return rows.map((row) => row.seq);
}

/**
 * Begins a turn with these messages: session running, turn written, messages in flight, in one statement. Undefined where
 * the lease is gone or the session is not idle; then nothing is written.
 */
export async function beginTurn(
  sql: Sql,
  lease: Lease,
  turn: { readonly id: string; readonly seqs: readonly number[]; readonly now: Date },
): Promise<number | undefined> {
  const { rows } = await sql.query<{ number: number }>(
    `with own as (
       update svc.sessions set state = 'running', reason = null, active_at = $5::timestamptz
         where id = $1::uuid and epoch = $2::bigint and live and state = 'idle' returning id
     ), turn as (
       insert into svc.turns (id, session_id, number, epoch, state, started_at)
         select $3::uuid, id, coalesce((select max(number) from svc.turns where session_id = $1::uuid), 0) + 1,
                $2::bigint, 'running', $5::timestamptz from own
         returning number
     ), taken as (
       update svc.inbox set state = 'in_flight', attempts = attempts + 1, turn_id = $3::uuid
         where session_id in (select id from own) and seq = any($4::bigint[]) and state = 'pending'
     )
     select number from turn`,
    [lease.sessionId, lease.epoch, turn.id, turn.seqs, turn.now],
    'begin-turn',
  );
  return rows[0]?.number;
}

/**
 * SQL: turns that were in flight when a daemon ended, but for what ended it, are not worn by that. `ended`: rows with the
 * `daemon_id` and, as `id`, what ended it: a session, or the suspect of its turn. Where there are none, nothing is looked at.
 */
export const unwearText = (ended: string): string => `
  update svc.inbox i set attempts = greatest(i.attempts - 1, 1) from svc.sessions s
   where (select count(*) > 0 from ${ended} ended) and s.leased_by in (select ended.daemon_id from ${ended} ended)
     and not exists (select from ${ended} ended where ended.id in (s.id::text, 'turn:' || s.id))
     and i.session_id = s.id and i.state = 'in_flight'`;

/** SQL: of a turn that `endTurn` ends, whether somebody asked for its end who was not heard any more. */
const isStopped = `(stop_asked and $9::text = 'pending')`;

/** SQL: whether a message goes back to wait: of those that are given up, one that went in less often than `wornAt`. */
const waits = `($9::text = 'pending' or ($9::text = 'failed' and attempts < $12::int))`;

/**
 * Ends a turn: its messages are `done`, go back to wait (`pending`) or are given up (`failed`), and the session is idle.
 * Those of a turn that somebody stopped are `done` where they would wait, whatever ended it first. False where the lease is gone;
 * of a turn that has ended already, true.
 */
export async function endTurn(
  sql: Sql,
  lease: Lease,
  turn: {
    readonly id: string;
    readonly state: 'done' | 'cancelled' | 'failed' | 'lost';
    readonly stopReason: string | null;
    readonly error: string | null;
    readonly usage: JsonObject;
    readonly messages: 'done' | 'pending' | 'failed';
    /** Why messages were given up though the session goes on: it says so until its next turn. */
    readonly reason: string | null;
    /** Pending ones have this attempt back; they are labelled all the same. */
    readonly isUnworn?: boolean;
    /** Those that went in less often are not given up with the others: they wait. */
    readonly wornAt?: number;
    readonly now: Date;
  },
): Promise<boolean> {
  const { rows } = await sql.query(
    `with own as (
       update svc.sessions set state = 'idle', active_at = $4::timestamptz, reason = $11::text,
           failures = case when $5::text in ('done', 'cancelled') then 0 else failures end,
           recap_due = recap_due and $5::text not in ('done', 'cancelled')
         where id = $1::uuid and epoch = $2::bigint and live and state in ('running', 'waiting_permission', 'interrupting')
         returning id
     ), turn as (
       update svc.turns set state = case when ${isStopped} then 'cancelled' else $5::text end,
           stop_reason = case when ${isStopped} then 'cancelled' else $6::text end, error = $7::text, usage = $8::jsonb,
           ended_at = $4::timestamptz
         where id = $3::uuid and state = 'running' and exists (select from own)
         returning stop_asked as stopped
     ), inbox as (
       update svc.inbox set
           state = case when ${waits} then case when (select stopped from turn) then 'done' else 'pending' end else $9::text end,
           reason = case when $9::text = 'failed' and not ${waits} then $7::text end,
           turn_id = case when ${waits} and (select stopped from turn) is not true then null else turn_id end,
           attempts = case when $10::boolean then greatest(attempts - 1, 1) else attempts end
         where session_id in (select id from own) and turn_id = $3::uuid and state = 'in_flight'
     )
     select id from own
     union all
     select s.id from svc.sessions s join svc.turns t on t.session_id = s.id
       where s.id = $1::uuid and s.epoch = $2::bigint and s.live and t.id = $3::uuid and t.state <> 'running'`,
    [
      lease.sessionId,
      lease.epoch,
      turn.id,
      turn.now,
      turn.state,
      turn.stopReason,
      turn.error === null ? null : storable(turn.error),
      storableJson(turn.usage),
      turn.messages,
      turn.isUnworn === true,
      turn.reason === null ? null : storable(turn.reason),
      turn.wornAt ?? 0,
    ],
    'end-turn',
  );
  return rows.length > 0;
}

/**
 * Says that a running turn is to end: the session is `interrupting`. With a reason its messages count as read from then on,
 * whatever ends its host.
 */
export async function stopTurn(
  sql: Sql,
  lease: Lease,
  turn: { readonly id: string; readonly stopReason: string | null },
): Promise<void> {
  await sql.query(
    `with own as (
       update svc.sessions set state = 'interrupting'
         where id = $1::uuid and epoch = $2::bigint and live and state in ('running', 'waiting_permission') returning id
     )
     update svc.turns set stop_reason = $4::text where id = $3::uuid and state = 'running' and exists (select from own)`,
    [lease.sessionId, lease.epoch, turn.id, turn.stopReason],
    'stop-turn',
  );
}

/** Asks for the end of the turn that runs in a session; its number, or undefined where none does. */
export async function askStop(tx: Sql, sessionId: string): Promise<number | undefined> {
  const { rows } = await tx.query<{ number: number }>(
    `update svc.turns set stop_asked = true where session_id = $1::uuid and state = 'running' returning number`,
    [sessionId],
  );
  await tx.query(`select svc.tell('svc_hosts', '')`);
  return rows[0]?.number;
}

/** Whether a person has asked that this turn be stopped. */
export async function isStopAsked(sql: Sql, turnId: string): Promise<boolean> {
  const { rows } = await sql.query<{ asked: boolean }>(
    'select stop_asked as asked from svc.turns where id = $1::uuid',
    [turnId],
    'is-stop-asked',
  );
  return rows[0]?.asked === true;
}

export interface TranscriptEntry {
  readonly role: 'assistant' | 'tool' | 'system';
  readonly kind: string;
  readonly text: string;
  readonly detail?: JsonObject;
  /** When it was said, where that was before it is written. */
  readonly at?: Date;
}

interface Appending {
  readonly now: Date;
  /** Both are written or neither is. */
  readonly write?: CursorWrite | undefined;
  /** The same may have been written before, and not answered: if it was, then behind this number. */
  readonly againBehind?: number | undefined;
}

/**
 * Appends to a transcript; the number of its last line. Undefined where the lease is gone: another host, or nobody, writes it
 * now.
 */
export async function appendTranscript(
  db: Pick<Database, 'query' | 'tx'>,
  lease: Lease,
  entries: readonly TranscriptEntry[],
  { now, write, againBehind }: Appending,
): Promise<number | undefined> {
  const rows = entries.map(({ role, kind, text, detail, at }) => ({
    role,
    kind,
    at: at ?? now,
    text: storable(text),
    detail: detail === undefined ? undefined : storableJson(detail),
  }));
  const [first] = rows;
  if (first === undefined) return undefined;
  if (againBehind === undefined) return insertLines(db, lease, rows, write);
  return db.tx(async (tx) => {
    // Whoever writes lines has locked the row until they stand: what is asked next sees them.
    await tx.query(`select from svc.sessions where id = $1::uuid for no key update`, [lease.sessionId]);
    const { sessionId } = lease;
    const { rows: known } = await tx.query<{ last: number }>(
      `select (select max(seq) from svc.messages where session_id = $1::uuid) as last from svc.messages
        where session_id = $1::uuid and seq > $2::bigint and role = $3::text and kind = $4::text and text = $5::text
          and at = $6::timestamptz limit 1`,
      [sessionId, againBehind, first.role, first.kind, first.text, first.at],
    );
    return known[0]?.last ?? insertLines(tx, lease, rows, write);
  });
}

async function insertLines(
  sql: Sql,
  lease: Lease,
  rows: readonly object[],
  write: CursorWrite | undefined,
): Promise<number | undefined> {
  const own = `own as (
       select s.id from svc.sessions s where s.id = $1::uuid and s.epoch = $2::bigint and s.live for share
     )`;
  const lines = (rowsAt: string, where = ''): string =>
    `written as (
       insert into svc.messages (session_id, seq, role, kind, text, detail, at)
       select own.id, nextval('svc.messages_seq'), r.role, r.kind, r.text, r.detail::jsonb, r.at
         from own, json_to_recordset(${rowsAt}::json) as r (role text, kind text, text text, detail text, at timestamptz)
        ${where} returning seq
     ) select max(seq) as last from written`;
  const held = [lease.sessionId, lease.epoch];
  const { rows: found } =
    write === undefined
      ? await sql.query<{ last: number | null }>(
          `with ${own}, ${lines('$3')}`,
          [...held, JSON.stringify(rows)],
          'append-transcript',
        )
      : await sql.query<{ last: number | null }>(
          `with ${own}, moved as (${moveHoldText}), ${lines(
            '$5',
            `where not exists (select from svc.session_holds h
              where h.session_id = $1::uuid and h.epoch = $2::bigint and h.commits >= $4::bigint)`,
          )}`,
          [...held, JSON.stringify(write.cursor), write.number, JSON.stringify(rows)],
          'append-held-transcript',
        );
  return found[0]?.last ?? undefined;
}

/**
 * The conversation after a message, newest last, at most so many characters from its end: for a harness that has lost it,
 * or knows it up to there.
 */
export async function conversationTail(
  sql: Sql,
  sessionId: string,
  { maxChars, after }: { readonly maxChars: number; readonly after: number },
): Promise<{ readonly role: string; readonly kind: string; readonly text: string }[]> {
  const { rows } = await sql.query<{ role: string; kind: string; text: string }>(
    `select m.role, m.kind, left(m.text, 4000) as text from svc.messages m
       left join svc.inbox i on i.session_id = m.session_id and i.seq = m.seq
      where m.session_id = $1::uuid and m.kind in ('prompt', 'text') and (i.state is null or i.state = 'done')
        and m.seq > $2::bigint
      order by m.seq desc limit 200`,
    [sessionId, after],
  );
  let left = maxChars;
  const kept = rows.filter((row) => (left -= row.text.length) > 0);
  return kept.toReversed();
}

/** Of these sessions, those that something waits for, or whose permission was decided just now. */
export async function sessionsWithNews(sql: Sql, ids: readonly string[]): Promise<string[]> {
  if (ids.length === 0) return [];
  const { rows } = await sql.query<{ id: string }>(
    `select distinct session_id as id from svc.inbox where session_id = any($1::uuid[]) and state = 'pending'
     union
     select session_id from svc.permissions
      where session_id = any($1::uuid[]) and decided_at > now() - interval '1 minute'
     union
     select session_id from svc.turns where session_id = any($1::uuid[]) and state = 'running' and stop_asked`,
    [ids],
    'sessions-with-news',
  );
  return rows.map((row) => row.id);
}

/** Which of these sessions live. */
export async function liveSessions(sql: Sql, ids: readonly string[]): Promise<ReadonlySet<string>> {
  const { rows } = await sql.query<{ id: string }>('select id from svc.sessions where id = any($1::uuid[]) and live', [
    ids,
  ]);
  return new Set(rows.map((row) => row.id));
}

/** Which of these are sessions that have ended. */
export async function endedSessions(sql: Sql, ids: readonly string[]): Promise<ReadonlySet<string>> {
  const { rows } = await sql.query<{ id: string }>(
    'select id from svc.sessions where id = any($1::uuid[]) and not live',
    [ids],
  );
  return new Set(rows.map((row) => row.id));
}

/** How many turns of a session ended for this reason within so many seconds. */
export async function turnsLostTo(
  sql: Sql,
  sessionId: string,
  { cause, withinSeconds }: { readonly cause: string; readonly withinSeconds: number },
): Promise<number> {
  const { rows } = await sql.query<{ count: number }>(
    `select count(*)::int as count from svc.turns where session_id = $1::uuid and starts_with(error, $2::text)
       and ended_at > now() - make_interval(secs => $3::int)`,
    [sessionId, cause, withinSeconds],
    'turns-lost-to',
  );
  return rows[0]?.count ?? 0;
}
