// svc.messages and svc.inbox: what a session is told. A message and its way into the session are two rows of one number,
// written together; numbers are given out in the order of the call, so that a session hears things in that order.

import type { JsonObject } from '../../../domain/json.ts';
import { cutText } from '../../../domain/utf8.ts';
import type { RoutingTx } from '../routing/routing-lock.ts';
import type { Sql } from '../store.ts';
import { storable, storableJson } from '../schema/text.ts';

export interface MessageInsert {
  readonly sessionId: string;
  readonly text: string;
  readonly sender: 'event' | 'operator' | 'session' | 'platform';
  readonly mode: 'interrupt' | 'defer';
  readonly detail?: JsonObject | undefined;
  /** The event that it carries, and the trigger that sent it: once per session, by a unique row. */
  readonly eventId?: string | undefined;
  readonly agentId?: string | undefined;
  readonly ordinal?: number | undefined;
  /** Times that it went in before, into the session that this one replaces. */
  readonly attempts?: number | undefined;
  /** Its number, where it was given one before. */
  readonly seq?: number | undefined;
}

/** Characters of text in one statement: a long message may go to many sessions. */
const textMax = 4 * 1_048_576;

/** Says messages to sessions in the order given, in as few statements as their size allows. */
export async function insertMessages(tx: Sql, messages: readonly MessageInsert[], now: Date): Promise<void> {
  for (let from = 0; from < messages.length; ) {
    let to = from;
    for (let size = 0; to < messages.length && (to === from || size < textMax); to += 1) {
      size += messages[to]?.text.length ?? 0;
    }
    await insertSlice(tx, messages.slice(from, to), now);
    from = to;
  }
}

/** SQL, always true: the transaction has its id before it draws the number of a message (message-order.ts). */
const hasId = 'pg_current_xact_id() is not null';

async function insertSlice(tx: Sql, messages: readonly MessageInsert[], now: Date): Promise<void> {
  const rows = messages.map((one) => ({
    session: one.sessionId,
    text: storable(one.text),
    sender: one.sender,
    mode: one.mode,
    detail: one.detail === undefined ? undefined : storableJson(one.detail),
    event: one.eventId,
    agent: one.agentId,
    ordinal: one.ordinal,
    attempts: one.attempts ?? 0,
    number: one.seq,
  }));
  await tx.query(
    `with input as materialized (
       select coalesce(number, nextval('svc.messages_seq')) as seq, r.* from json_to_recordset($1::json) as r (session uuid,
         text text, sender text, mode text, detail text, event uuid, agent uuid, ordinal int, attempts int, number bigint)
        where ${hasId}
     ), said as (
       insert into svc.messages (session_id, seq, role, kind, text, detail, event_id, at)
         select session, seq, 'user', 'prompt', text,
                jsonb_build_object('sender', sender) || coalesce(detail::jsonb, '{}'::jsonb), event, $2::timestamptz
           from input
     )
     insert into svc.inbox (session_id, seq, mode, sender, event_id, agent_id, ordinal, attempts)
       select session, seq, mode, sender, event, agent, ordinal, attempts from input`,
    [JSON.stringify(rows), now],
    'insert-messages',
  );
}

/** Writes a notice into transcripts; no session is told of it. */
export async function insertNotices(
  tx: RoutingTx,
  notices: readonly { readonly sessionId: string; readonly text: string }[],
  now: Date,
): Promise<void> {
  if (notices.length === 0) return;
  await tx.query(
    `insert into svc.messages (session_id, role, kind, text, at)
     select u.session, 'system', 'notice', u.text, $3::timestamptz
       from unnest($1::uuid[], $2::text[]) as u (session, text) where ${hasId}`,
    [notices.map((one) => one.sessionId), notices.map((one) => storable(one.text)), now],
  );
}

export interface OpenMessage {
  readonly text: string;
  /** Of what its session began with: what stood beside it in the system prompt; else null. */
  readonly beside: string | null;
  readonly sender: MessageInsert['sender'];
  readonly mode: MessageInsert['mode'];
  readonly detail: JsonObject;
  readonly eventId: string | null;
  readonly agentId: string | null;
  readonly ordinal: number | null;
  readonly attempts: number;
}

// A part of it may be done where `attempts` is 1.
const unheardColumns = `m.text, case when i.starts then s.hidden_context end as beside, i.sender, i.mode, coalesce(m.detail, '{}'::jsonb) as detail, i.event_id as "eventId",
            i.agent_id as "agentId", i.ordinal, least(i.attempts, 1) as attempts`;

/**
 * What a session has not heard to its end, in order: what waits, what is in flight, and of one that has ended also what
 * failed.
 */
export async function unheardMessages(tx: RoutingTx, sessionId: string, isLive: boolean): Promise<OpenMessage[]> {
  const { rows } = await tx.query<OpenMessage>(
    `select ${unheardColumns}
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

/** Chat threads that pass to a session as it is made, beside that of its own event. */
export interface ThreadHeir {
  readonly sessionId: string;
  readonly agentId: string;
  readonly threads: readonly string[];
}

/** Writes the claims of sessions that were just made on what passes to them. */
export async function claimThreads(tx: Sql, heirs: readonly ThreadHeir[]): Promise<void> {
  if (heirs.every(({ threads }) => threads.length === 0)) return;
  await tx.query(
    `insert into svc.session_claims (agent_id, kind, key, session_id)
       select agent, 'thread', unnest(threads), session
         from json_to_recordset($1::json) as r (session uuid, agent uuid, threads text[])
       on conflict do nothing`,
    [JSON.stringify(heirs.map(({ sessionId, agentId, threads }) => ({ session: sessionId, agent: agentId, threads })))],
    'claim-threads',
  );
}

/** A message as another session is told it: with all that its own would have begun with, as where a spawn becomes a delivery. */
export const passedOn = (
  { text, beside, ...message }: OpenMessage,
  { sessionId, bytesMax }: Pick<Heir, 'sessionId' | 'bytesMax'>,
): MessageInsert => ({
  ...message,
  text: beside === null ? text : cutText(`${text}\n\n${beside}`, bytesMax),
  sessionId,
  eventId: message.eventId ?? undefined,
  agentId: message.agentId ?? undefined,
  ordinal: message.ordinal ?? undefined,
});

/**
 * What sessions that have failed left to others, in order, with its numbers there: whatever gets a number afterwards is
 * behind it.
 */
export async function inheritedMessages(tx: Sql, heirs: readonly Heir[]): Promise<MessageInsert[]> {
  if (heirs.length === 0) return [];
  const { rows } = await tx.query<OpenMessage & { readonly heir: string; readonly seq: number }>(
    `select l.*, nextval('svc.messages_seq') as seq from (
       select u.heir, ${unheardColumns}
         from unnest($1::uuid[], $2::uuid[]) as u (heir, failed)
         join svc.inbox i on i.session_id = u.failed and i.state = 'failed'
         join svc.messages m on m.session_id = i.session_id and m.seq = i.seq
         join svc.sessions s on s.id = i.session_id
        order by u.heir, i.seq) l`,
    [heirs.map((one) => one.sessionId), heirs.map((one) => one.failedId)],
    'inherited-messages',
  );
  const byId = new Map(heirs.map((one) => [one.sessionId, one]));
  return rows.flatMap(({ heir, seq, ...message }) => {
    const to = byId.get(heir);
    return to === undefined ? [] : [{ ...passedOn(message, to), seq }];
  });
}
