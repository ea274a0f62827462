// What a session has not heard passes to the one in its place. There may be thousands of messages of a mebibyte each: the
// database copies them from row to row, and here is only known which they are.

import type { JsonObject } from '../../../domain/json.ts';
import { cutText } from '../../../domain/utf8.ts';
import type { RoutingTx } from '../routing/routing-lock.ts';
import type { Sql } from '../store.ts';
import { hasId, insertMessages, type MessageInsert } from './inbox.ts';

/** A message that another session is to hear. */
export interface LeftMessage {
  /** The session that it was for, and its number there. */
  readonly from: string;
  readonly place: number;
  /** Of its text. */
  readonly bytes: number;
  /** Its session began with it, and had more beside it in the system prompt. */
  readonly hasBeside: boolean;
}

/** One that passes on. */
export interface PassedMessage extends LeftMessage {
  readonly sessionId: string;
  /** Bytes of UTF-8 of one message. */
  readonly bytesMax: number;
  /** Its number there; absent: the next. */
  readonly seq?: number;
}

const leftColumns = `i.session_id as "from", i.seq as place, octet_length(m.text) as bytes,
            (i.starts and s.hidden_context is not null) as "hasBeside"`;

/**
 * What a session has not heard to its end, in order: what waits, what is in flight, and of one that has ended also what
 * failed.
 */
export async function unheardMessages(tx: RoutingTx, sessionId: string, isLive: boolean): Promise<LeftMessage[]> {
  const { rows } = await tx.query<LeftMessage>(
    `select ${leftColumns}
       from svc.inbox i join svc.messages m on m.session_id = i.session_id and m.seq = i.seq
       join svc.sessions s on s.id = i.session_id
      where i.session_id = $1::uuid and (i.state in ('pending', 'in_flight') or not $2::boolean and i.state = 'failed')
      order by i.seq`,
    [sessionId, isLive],
  );
  return rows;
}

/** A session that is made in place of one that has failed. */
export interface Heir {
  readonly sessionId: string;
  readonly failedId: string;
  /** Bytes of UTF-8 of one message. */
  readonly bytesMax: number;
}

/**
 * What sessions that have failed left to others, in order, with its numbers there: whatever gets a number afterwards is
 * behind it.
 */
export async function inheritedMessages(tx: Sql, heirs: readonly Heir[]): Promise<PassedMessage[]> {
  if (heirs.length === 0) return [];
  const { rows } = await tx.query<PassedMessage>(
    `select l.*, nextval('svc.messages_seq') as seq from (
       select u.heir as "sessionId", u.most as "bytesMax", ${leftColumns}
         from unnest($1::uuid[], $2::uuid[], $3::int[]) as u (heir, failed, most)
         join svc.inbox i on i.session_id = u.failed and i.state = 'failed'
         join svc.messages m on m.session_id = i.session_id and m.seq = i.seq
         join svc.sessions s on s.id = i.session_id
        order by u.heir, i.seq) l`,
    [heirs.map((one) => one.sessionId), heirs.map((one) => one.failedId), heirs.map((one) => one.bytesMax)],
    'inherited-messages',
  );
  return rows;
}

/** Bytes of text that one statement copies: some hundred milliseconds of the database. */
const copiedBytes = 16 * 1_048_576;

/** Says them to the sessions that they pass to, in the order given. */
export async function passMessages(tx: Sql, messages: readonly PassedMessage[], now: Date): Promise<void> {
  for (let from = 0; from < messages.length; ) {
    const first = messages[from] as PassedMessage;
    if (first.hasBeside) {
      await passJoined(tx, first, now);
      from += 1;
      continue;
    }
    let to = from;
    for (let bytes = 0; to < messages.length && bytes < copiedBytes && messages[to]?.hasBeside === false; to += 1) {
      bytes += messages[to]?.bytes ?? 0;
    }
    await passSlice(tx, messages.slice(from, to), now);
    from = to;
  }
}

// A part of it may be done where `attempts` is 1.
const passedColumns = `i.sender, i.mode, i.event_id, i.agent_id, i.ordinal, least(i.attempts, 1) as attempts`;

async function passSlice(tx: Sql, messages: readonly PassedMessage[], now: Date): Promise<void> {
  await tx.query(
    `with input as materialized (
       select coalesce(number, nextval('svc.messages_seq')) as seq, r.* from (
         select u.session, u.source, u.place, u.number, ${passedColumns}
           from unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::bigint[]) with ordinality as u (session, source, place, number, n)
           join svc.inbox i on i.session_id = u.source and i.seq = u.place
          order by u.n) r
        where ${hasId}
     ), said as (
       insert into svc.messages (session_id, seq, role, kind, text, detail, event_id, at)
         select input.session, input.seq, 'user', 'prompt', m.text,
                jsonb_build_object('sender', input.sender) || coalesce(m.detail, '{}'::jsonb), input.event_id, $5::timestamptz
           from input join svc.messages m on m.session_id = input.source and m.seq = input.place
     )
     insert into svc.inbox (session_id, seq, mode, sender, event_id, agent_id, ordinal, attempts)
       select session, seq, mode, sender, event_id, agent_id, ordinal, attempts from input`,
    [
      messages.map((one) => one.sessionId),
      messages.map((one) => one.from),
      messages.map((one) => one.place),
      messages.map((one) => one.seq ?? null),
      now,
    ],
    'pass-messages',
  );
}

interface JoinedMessage {
  readonly text: string;
  readonly beside: string;
  readonly sender: MessageInsert['sender'];
  readonly mode: MessageInsert['mode'];
  readonly detail: JsonObject;
  readonly eventId: string | null;
  readonly agentId: string | null;
  readonly ordinal: number | null;
  readonly attempts: number;
}

/** One that is told with all that its own session would have begun with, as where a spawn becomes a delivery. */
async function passJoined(tx: Sql, passed: PassedMessage, now: Date): Promise<void> {
  const { sessionId, bytesMax, from, place, seq } = passed;
  const { rows } = await tx.query<JoinedMessage>(
    `select m.text, s.hidden_context as beside, coalesce(m.detail, '{}'::jsonb) as detail, i.sender, i.mode,
            i.event_id as "eventId", i.agent_id as "agentId", i.ordinal, least(i.attempts, 1) as attempts
       from svc.inbox i join svc.messages m on m.session_id = i.session_id and m.seq = i.seq
       join svc.sessions s on s.id = i.session_id
      where i.session_id = $1::uuid and i.seq = $2::bigint`,
    [from, place],
  );
  const messages = rows.map(
    ({ text, beside, eventId, agentId, ordinal, ...rest }): MessageInsert => ({
      ...rest,
      text: cutText(`${text}\n\n${beside}`, bytesMax),
      sessionId,
      eventId: eventId ?? undefined,
      agentId: agentId ?? undefined,
      ordinal: ordinal ?? undefined,
      ...(seq !== undefined && { seq }),
    }),
  );
  await insertMessages(tx, messages, now);
}
