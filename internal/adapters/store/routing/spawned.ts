// Sessions that routing makes: by far the most of what it writes, and written as one thing. A session, its claims, the
// start message with its way into the session, and the decision that made it are one row given and one statement, for
// they share most of what they hold. Invariants: the decision's key keeps an event from being routed twice by a trigger,
// the claims' key two sessions from what only one may have; numbers of messages are given out in the order of the call.

import type { Sql } from '../store.ts';
import { storable } from '../schema/text.ts';

export interface SpawnedInsert {
  /** Version 7. */
  readonly id: string;
  readonly projectId: string;
  readonly agentId: string;
  readonly agent: string;
  readonly revision: number;
  readonly eventId: string;
  readonly eventKey: string;
  readonly ordinal: number;
  /** As in `RouteInsert`. */
  readonly decision: string;
  readonly because: string | null;
  readonly severity: 'warning' | 'error' | null;
  readonly displayTitle: string;
  /** For the system prompt, under its heading. */
  readonly hiddenContext: string | null;
  /** Mount path → ref, rendered. */
  readonly mountRefs: { readonly [mountPath: string]: string };
  /** Whether it takes its agent's slot. */
  readonly slot: boolean;
  /** Key of the chat thread that it claims. */
  readonly thread: string | null;
  /** What it starts with. */
  readonly text: string;
  readonly mode: 'interrupt' | 'defer';
}

// What rows have in common, whoever's they are, is a kind, told once and named by its number; with many triggers each
// session is another agent's, and a kind for each agent would cost more than the rest of its row. Titles and messages
// come as one run of bytes, cut apart by offset: quoting them costs more than all the rest.
// Invariant of `starts`: a session has one such message, from the statement that makes it (svc.inbox_once).
const text = `with input as materialized (
    select nextval('svc.messages_seq') as seq, r.* from (
      select u.id, u.event, u.a, u.g, u.r, u.o, u.start, u.title_size, u.text_size, k.*
        from unnest($3::uuid[], $4::uuid[], $5::int[], $6::int[], $7::int[], $8::int[], $10::uuid[], $11::text[],
            $12::int[], $13::int[]) with ordinality
          as u (id, event, kind, start, title_size, text_size, a, g, r, o, place)
        join json_to_recordset($1::json) as k (n int, p uuid, d jsonb, h text, m jsonb, s boolean, c text, i text, w text, b text,
          v text) on k.n = u.kind
       order by u.place) r
  ), made as (
    insert into svc.sessions (id, project_id, agent_id, agent, revision, origin, event_id, ordinal, display_title,
        hidden_context, mount_refs, created_at, active_at)
      select id, p, a, g, r, 'event', event, o, convert_from(substring($2::bytea from start for title_size), 'UTF8'),
        h, m, $9::timestamptz, $9::timestamptz from input
  ), claimed as (
    insert into svc.session_claims (agent_id, kind, key, session_id)
      select a, 'slot', '', id from input where s
      union all
      select a, 'thread', c, id from input where c is not null
  ), said as (
    insert into svc.messages (session_id, seq, role, kind, text, detail, event_id, at)
      select id, seq, 'user', 'prompt', convert_from(substring($2::bytea from start + title_size for text_size), 'UTF8'),
        d, event, $9::timestamptz from input
  ), sent as (
    insert into svc.inbox (session_id, seq, mode, sender, event_id, agent_id, ordinal, starts)
      select id, seq, i, 'event', event, a, o, true from input
  )
  insert into svc.event_routes (event_id, agent_id, ordinal, agent, decision, session_ids, because, severity)
    select event, a, o, g, w, array[id], b, v from input`;

/**
 * Inserts queued sessions that events spawned, with all that belongs to them; the transaction holds the routing locks of
 * their projects. Throws a unique violation for a claim that
 * stands, and for an event that this trigger has routed before.
 */
export async function insertSpawned(tx: Sql, spawned: readonly SpawnedInsert[], now: Date): Promise<void> {
  if (spawned.length === 0) return;
  const { kinds, said, places } = packed(spawned);
  const list = (of: (one: SpawnedInsert, at: number) => string | number): string => `{${spawned.map(of).join()}}`;
  const placed = (at: Exclude<keyof Place, 'one'>): string => `{${places.map((one) => one[at]).join()}}`;
  await tx.query(
    text,
    [
      JSON.stringify(kinds),
      said,
      list((one) => one.id),
      list((one) => one.eventId),
      placed('kind'),
      placed('start'),
      placed('titleSize'),
      placed('textSize'),
      now,
      list((one) => one.agentId),
      spawned.map((one) => one.agent),
      list((one) => one.revision),
      list((one) => one.ordinal),
    ],
    'insert-spawned',
  );
}

/** Of one session: the number of its kind, and where its title and then its message stand among what is said. */
interface Place {
  readonly one: SpawnedInsert;
  readonly kind: number;
  readonly start: number;
  readonly titleSize: number;
  readonly textSize: number;
}

/** Of so many kinds before, a session is looked for its own. */
const kindsRemembered = 8;

function packed(spawned: readonly SpawnedInsert[]) {
  const kinds: object[] = [];
  const parts: Buffer[] = [];
  let end = 0;
  /** The first of each of the last kinds, newest first. */
  const remembered: { readonly one: SpawnedInsert; readonly kind: number }[] = [];
  const kindOfOne = (one: SpawnedInsert): number => {
    const known = remembered.find((other) => isOfKind(one, other.one));
    if (known !== undefined) return known.kind;
    kinds.push(kindOf(one, kinds.length));
    const kind = kinds.length - 1;
    remembered.unshift({ one, kind });
    if (remembered.length > kindsRemembered) remembered.pop();
    return kind;
  };
  let before: Place | undefined;
  const places = spawned.map((one): Place => {
    const kind = kindOfOne(one);
    if (before !== undefined && before.one.displayTitle === one.displayTitle && before.one.text === one.text) {
      before = { ...before, one, kind };
      return before;
    }
    const title = Buffer.from(storable(one.displayTitle), 'utf8');
    const message = Buffer.from(storable(one.text), 'utf8');
    parts.push(title, message);
    before = { one, kind, start: end + 1, titleSize: title.length, textSize: message.length };
    end += title.length + message.length;
    return before;
  });
  return { kinds, said: Buffer.concat(parts, end), places };
}

/** Whether two sessions differ in nothing but their ids, whose they are, and what is said. */
const isOfKind = (one: SpawnedInsert, other: SpawnedInsert): boolean =>
  one.projectId === other.projectId &&
  one.eventKey === other.eventKey &&
  one.decision === other.decision &&
  one.because === other.because &&
  one.severity === other.severity &&
  one.hiddenContext === other.hiddenContext &&
  one.slot === other.slot &&
  one.thread === other.thread &&
  one.mode === other.mode &&
  isEmpty(one.mountRefs) &&
  isEmpty(other.mountRefs);

const isEmpty = (refs: SpawnedInsert['mountRefs']): boolean => Object.keys(refs).length === 0;
const storableOrNone = (of: string | null): string | undefined => (of === null ? undefined : storable(of));

const kindOf = (one: SpawnedInsert, n: number): object => ({
  n,
  p: one.projectId,
  d: { sender: 'event', event: storable(one.eventKey) },
  h: storableOrNone(one.hiddenContext),
  m: Object.fromEntries(Object.entries(one.mountRefs).map(([path, ref]) => [path, storable(ref)])),
  s: one.slot,
  c: storableOrNone(one.thread),
  i: one.mode,
  w: one.decision,
  b: storableOrNone(one.because),
  v: one.severity ?? undefined,
});
