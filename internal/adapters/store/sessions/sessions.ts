// svc.sessions and svc.session_claims: every session once, live or ended. A claim on a slot or a chat thread is a row
// that two live sessions cannot both have, and goes with the life of its session. Writes are set-wise.

import type { JsonObject } from '../../../domain/json.ts';
import type { Sql } from '../store.ts';
import { turnSuspect } from '../operations/in-hand.ts';
import type { RoutingTx } from '../routing/routing-lock.ts';
import { storable, storableJson } from '../schema/text.ts';

export interface SessionInsert {
  /** Version 7, see `timeOrderedId`. */
  readonly id: string;
  readonly agentId: string;
  readonly agent: string;
  readonly revision: number;
  /** What events spawn is written with the decision that made it, which keeps it from being made twice (spawned.ts). */
  readonly origin: 'manual' | 'session' | 'replacement';
  /** Of a replacement: the event that the work began with. */
  readonly eventId?: string | undefined;
  /** The session that spawned it, or that it replaces. */
  readonly parentId?: string | undefined;
  /** One session per parent and key. */
  readonly idempotencyKey?: string | undefined;
  readonly displayTitle: string;
  /** For the system prompt, under its heading. */
  readonly hiddenContext: string | null;
  /** Mount path → ref, rendered. */
  readonly mountRefs: { readonly [mountPath: string]: string };
  /** Whether it takes its agent's slot. */
  readonly slot: boolean;
  /** Keys of the chat threads that it claims. */
  readonly threads: readonly string[];
}

/** Inserts queued sessions and their claims in one statement. Throws a unique violation for a claim that stands. */
export async function insertSessions(tx: RoutingTx, sessions: readonly SessionInsert[], now: Date): Promise<void> {
  if (sessions.length === 0) return;
  const rows = sessions.map((one) => ({
    id: one.id,
    agent_id: one.agentId,
    agent: one.agent,
    revision: one.revision,
    origin: one.origin,
    event_id: one.eventId,
    parent_id: one.parentId,
    idempotency_key: one.idempotencyKey,
    title: storable(one.displayTitle),
    hidden: one.hiddenContext === null ? undefined : storable(one.hiddenContext),
    refs: Object.fromEntries(Object.entries(one.mountRefs).map(([path, ref]) => [path, storable(ref)])),
    slot: one.slot,
    threads: one.threads.map(storable),
  }));
  await tx.query(
    `with input as materialized (
       select * from json_to_recordset($2::json) as r (id uuid, agent_id uuid, agent text, revision int, origin text,
         event_id uuid, parent_id uuid, idempotency_key text, title text, hidden text, refs jsonb,
         slot boolean, threads text[])
     ), made as (
       insert into svc.sessions (id, project_id, agent_id, agent, revision, origin, event_id, parent_id,
           idempotency_key, display_title, hidden_context, mount_refs, created_at, active_at)
         select id, $1::uuid, agent_id, agent, revision, origin, event_id, parent_id, idempotency_key, title,
                hidden, refs, $3::timestamptz, $3::timestamptz from input
     )
     insert into svc.session_claims (agent_id, kind, key, session_id)
       select agent_id, 'slot', '', id from input where slot
       union all
       select agent_id, 'thread', unnest(threads), id from input`,
    [tx.projectId, JSON.stringify(rows), now],
    'insert-sessions',
  );
}

export interface EndedSession {
  readonly id: string;
  readonly agentId: string;
  readonly agent: string;
}

/**
 * Ends a live session: its lease and its token are gone, what its host still writes meets a newer epoch, its claims are
 * free, its running turn and what that asks are cancelled, what had not reached it never will, and the unclean ends of its
 * launches and turns are forgotten. Undefined where it is not live.
 */
export async function endSessionRow(
  tx: RoutingTx,
  id: string,
  end: { readonly state: 'archived' | 'replaced' | 'failed'; readonly reason: string; readonly now: Date },
): Promise<EndedSession | undefined> {
  const { rows } = await tx.query<EndedSession>(
    `with ended as (
       update svc.sessions set state = $3::text, reason = $4::text, ended_at = $5::timestamptz, leased_by = null,
           lease_until = null, token_hash = null, epoch = epoch + 1
         where id = $2::uuid and project_id = $1::uuid and live
         returning id, agent_id as "agentId", agent
     ), claims as (
       delete from svc.session_claims where session_id in (select id from ended)
     ), turns as (
       update svc.turns set state = 'cancelled', error = $4::text, ended_at = $5::timestamptz
         where state = 'running' and session_id in (select id from ended)
     ), asked as (
       update svc.permissions set state = 'cancelled', decided_at = $5::timestamptz
         where state = 'open' and session_id in (select id from ended)
     ), inbox as (
       update svc.inbox set state = 'failed', reason = $4::text
         where state in ('pending', 'in_flight') and session_id in (select id from ended)
     ), suspects as (
       delete from svc.suspects where kind = 'session' and id = any(array[$2::uuid::text, $6::text])
         and exists (select from ended)
     )
     select * from ended`,
    [tx.projectId, id, end.state, storable(end.reason), end.now, turnSuspect(id)],
  );
  return rows[0];
}

export interface SessionHead {
  readonly id: string;
  readonly agentId: string;
  readonly agent: string;
  readonly live: boolean;
  readonly state: string;
}

/** A session of the project, live or ended, with its row locked. */
export async function lockSession(tx: RoutingTx, id: string): Promise<SessionHead | undefined> {
  const { rows } = await tx.query<SessionHead>(
    `select id, agent_id as "agentId", agent, live, state from svc.sessions
      where id = $2::uuid and project_id = $1::uuid for update`,
    [tx.projectId, id],
  );
  return rows[0];
}

export interface AttributionInsert {
  readonly targetType: string;
  readonly targetKey: string;
  readonly sessionId: string;
  readonly agent: string;
  readonly relation: 'created' | 'authored' | 'posted' | 'subscribed';
}

/** Records what sessions made or said outside; a tie that stands stays. */
export async function insertTies(
  sql: Sql,
  projectId: string,
  ties: readonly AttributionInsert[],
  now: Date,
): Promise<void> {
  if (ties.length === 0) return;
  await sql.query(
    `insert into svc.session_ties (project_id, target_type, target_key, session_id, agent, relation, created_at)
     select $1::uuid, t.type, t.key, s.id, s.agent, t.relation, $3::timestamptz
       from json_to_recordset($2::json) as t (type text, key text, session uuid, relation text)
       join svc.sessions s on s.id = t.session and s.project_id = $1::uuid
     on conflict do nothing`,
    [
      projectId,
      storableJson(
        ties.map(
          ({ targetType, targetKey, sessionId, relation }): JsonObject => ({
            type: targetType,
            key: targetKey,
            session: sessionId,
            relation,
          }),
        ),
      ),
      now,
    ],
  );
}

/** Live sessions whose agent is gone, oldest first. */
export async function orphanedSessions(
  sql: Sql,
  limit: number,
  /** Projects that are left out. */
  except: readonly string[] = [],
): Promise<{ readonly id: string; readonly projectId: string }[]> {
  const { rows } = await sql.query<{ id: string; projectId: string }>(
    `select s.id, s.project_id as "projectId" from svc.sessions s
      where s.live and not exists (select from svc.agents a where a.id = s.agent_id)
        and s.project_id <> all($2::uuid[]) order by s.id limit $1::int`,
    [limit, except],
    'orphaned-sessions',
  );
  return rows;
}
