// Sessions that routing makes: by far the most of what it writes, and written as one thing. A session, its claims, the
// start message with its way into the session, and the decision that made it are one row given and one statement, for
// they share most of what they hold. Invariants: the decision's key keeps an event from being routed twice by a trigger,
// the claims' key two sessions from what only one may have; numbers of messages are given out in the order of the call.

import type { RoutingTx } from './routing.ts';
import { storable } from './text.ts';

export interface SpawnedInsert {
  /** Version 7. */
  readonly id: string;
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

// What most rows have in common is left out of them. Agents are given once each, and named by their place. What is said
// comes as one run of bytes, cut apart by offset: quoting it costs more than all the rest.
const text = `with input as materialized (
    select nextval('svc.messages_seq') as seq, ($3::uuid[])[r.a] as agent_id, ($4::text[])[r.a] as agent,
        ($5::int[])[r.a] as revision, r.*
      from json_to_recordset($2::json) as r (id uuid, a int, e uuid, k text, o int, t text, h text, r jsonb, s boolean,
        c text, f int, n int, m text, d text, b text, v text)
  ), made as (
    insert into svc.sessions (id, project_id, agent_id, agent, revision, origin, event_id, ordinal, display_title,
        hidden_context, mount_refs, created_at, active_at)
      select id, $1::uuid, agent_id, agent, revision, 'event', e, o, t, h, coalesce(r, '{}'::jsonb), $6::timestamptz,
        $6::timestamptz from input
  ), claimed as (
    insert into svc.session_claims (agent_id, kind, key, session_id)
      select agent_id, 'slot', '', id from input where s
      union all
      select agent_id, 'thread', c, id from input where c is not null
  ), said as (
    insert into svc.messages (session_id, seq, role, kind, text, detail, event_id, at)
      select id, seq, 'user', 'prompt', convert_from(substring($7::bytea from f for n), 'UTF8'), jsonb_build_object('sender', 'event', 'event', k), e, $6::timestamptz
        from input
  ), sent as (
    insert into svc.inbox (session_id, seq, mode, sender, event_id, agent_id, ordinal)
      select id, seq, coalesce(m, 'interrupt'), 'event', e, agent_id, o from input
  )
  insert into svc.event_routes (event_id, agent_id, ordinal, agent, decision, session_ids, because, severity)
    select e, agent_id, o, agent, coalesce(d, 'spawn'), array[id], b, v from input`;

/**
 * Inserts queued sessions that events spawned, with all that belongs to them. Throws a unique violation for a claim that
 * stands, and for an event that this trigger has routed before.
 */
export async function insertSpawned(tx: RoutingTx, spawned: readonly SpawnedInsert[], now: Date): Promise<void> {
  if (spawned.length === 0) return;
  const agents = new Map<string, { readonly at: number; readonly one: SpawnedInsert }>();
  const said = spawned.map((one) => Buffer.from(storable(one.text), 'utf8'));
  let end = 0;
  const places = said.map(({ length: size }) => {
    end += size;
    return { from: end - size + 1, size };
  });
  const rows = spawned.map((one, at) => {
    const place = places[at] as { from: number; size: number };
    let agent = agents.get(one.agentId);
    if (agent === undefined) {
      agent = { at: agents.size + 1, one };
      agents.set(one.agentId, agent);
    }
    const refs = Object.entries(one.mountRefs);
    return {
      id: one.id,
      a: agent.at,
      e: one.eventId,
      k: storable(one.eventKey),
      o: one.ordinal,
      t: storable(one.displayTitle),
      h: one.hiddenContext === null ? undefined : storable(one.hiddenContext),
      r: refs.length === 0 ? undefined : Object.fromEntries(refs.map(([path, ref]) => [path, storable(ref)])),
      s: one.slot ? true : undefined,
      c: one.thread === null ? undefined : storable(one.thread),
      f: place.from,
      n: place.size,
      m: one.mode === 'interrupt' ? undefined : one.mode,
      d: one.decision === 'spawn' ? undefined : one.decision,
      b: one.because === null ? undefined : storable(one.because),
      v: one.severity ?? undefined,
    };
  });
  const of = [...agents.values()].map(({ one }) => one);
  await tx.query(
    text,
    [
      tx.projectId,
      JSON.stringify(rows),
      of.map((one) => one.agentId),
      of.map((one) => one.agent),
      of.map((one) => one.revision),
      now,
      Buffer.concat(said, end),
    ],
    'insert-spawned',
  );
}
