// svc.messages and svc.inbox: what a session is told. A message and its way into the session are two rows of one number,
// written together; numbers are given out in the order of the call, so that a session hears things in that order.

import type { JsonObject } from '../../../domain/json.ts';
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
export const hasId = 'pg_current_xact_id() is not null';

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
