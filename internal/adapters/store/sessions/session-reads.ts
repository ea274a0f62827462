// Sessions as they are read: pages, one with all that belongs to it, and its transcript. What a page holds is read
// set-wise, and a page of a transcript is bounded in bytes: one message may be as long as an event.

import type { EngineReason } from '../../../domain/sandbox.ts';
import type { Json, JsonObject } from '../../../domain/json.ts';
import type { SessionState } from '../../../core/session/session.ts';
import { type DeniedHost, deniedColumn } from './egress.ts';
import { queueText, waitColumns } from './places.ts';
import type { ProvisioningStage } from './provisioning.ts';
import { type BindingRow, bindingColumns } from '../routing/binding-reads.ts';
import type { Sql } from '../store.ts';

/** The channel on which a change of a session may be told, with the session's id. Wakes; polling is the truth. */
export const sessionChannel = 'svc_sessions';

/** Wakes whoever watches a session once the caller's transaction has committed. */
export async function wakeSession(tx: Sql, sessionId: string): Promise<void> {
  await tx.query(`select svc.tell('${sessionChannel}', $1::text)`, [sessionId]);
}

/** What model calls came to, as the ledger sums them. */
export interface SessionUsage {
  readonly calls: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cacheReadTokens: number;
  readonly cacheWriteTokens: number;
  /** Decimal, exact; of the calls whose price is known. */
  readonly costUsd: string;
  /** Calls of unknown price. */
  readonly unpricedCalls: number;
}

export interface SessionRow {
  readonly id: string;
  readonly agent: string;
  readonly revision: number;
  readonly origin: 'event' | 'manual' | 'session' | 'replacement';
  readonly eventId: string | null;
  readonly ordinal: number | null;
  readonly parentId: string | null;
  readonly state: SessionState;
  readonly live: boolean;
  /** While it waits to be launched: `capacity`, `harness`, `key`, `cap` or `engine`, or why the last launch failed. */
  readonly reason: string | null;
  /** Of such a word, the same for people. */
  readonly reasonText: string | null;
  /** The word of the engine that it waits for. */
  readonly engineReason: EngineReason | null;
  /** Whether the way into its sandbox is whole, where there is one that can be cut. */
  readonly wire: 'ok' | 'lost' | null;
  /** In the queue for places, from 1. */
  readonly position: number | null;
  /** Whether its harness runs. */
  readonly loaded: boolean;
  readonly displayTitle: string;
  readonly createdAt: Date;
  readonly startedAt: Date | null;
  readonly activeAt: Date;
  readonly endedAt: Date | null;
  readonly usage: SessionUsage;
}

const usage = `json_build_object('calls', coalesce(u.calls, 0), 'inputTokens', coalesce(u.input_tokens, 0),
  'outputTokens', coalesce(u.output_tokens, 0), 'cacheReadTokens', coalesce(u.cache_read_tokens, 0),
  'cacheWriteTokens', coalesce(u.cache_write_tokens, 0), 'costUsd', coalesce(trim_scale(u.cost_usd), 0)::text,
  'unpricedCalls', coalesce(u.unpriced_calls, 0)) as usage`;
const selected = `s.id, s.agent, s.revision, s.origin, s.event_id as "eventId", s.ordinal, s.parent_id as "parentId",
  s.state, s.live, ${waitColumns}, s.display_title as "displayTitle", s.created_at as "createdAt",
  s.started_at as "startedAt", s.active_at as "activeAt", s.ended_at as "endedAt", ${usage}`;
const from = 'svc.sessions s left join svc.usage_sessions u on u.session_id = s.id';

export interface SessionFilter {
  readonly agent?: string | undefined;
  readonly state?: SessionState | undefined;
  readonly live?: boolean | undefined;
  /** Only sessions made before this one. */
  readonly before?: string | undefined;
  readonly limit: number;
}

/**
 * A page of a project's sessions, newest first. Those of a state that only live ones have are sought among the live ones, and
 * those of an agent in an order that its index alone has: else they are sought among all that the project has had, where
 * other projects have many of an agent of that name.
 */
export async function listSessions(sql: Sql, projectId: string, filter: SessionFilter): Promise<SessionRow[]> {
  const [where, order] =
    filter.agent === undefined
      ? ['s.project_id = $1::uuid and $2::text is null', '']
      : [
          '(s.project_id, s.agent) >= ($1::uuid, $2::text) and (s.project_id, s.agent) <= ($1::uuid, $2::text)',
          's.project_id, s.agent, ',
        ];
  const { rows } = await sql.query<SessionRow>(
    `with ${queueText} select ${selected} from ${from}
      where ${where} and ($3::text is null or s.state = $3::text) and ($4::boolean is null or s.live = $4::boolean)
        and ($3::text is null or s.live = ($3::text not in ('archived', 'replaced', 'failed')))
        and ($5::uuid is null or s.id < $5::uuid)
      order by ${order}s.id desc limit $6::int`,
    [projectId, filter.agent ?? null, filter.state ?? null, filter.live ?? null, filter.before ?? null, filter.limit],
  );
  return rows;
}

export interface SessionClaim {
  readonly kind: 'slot' | 'thread';
  /** The thread's key; empty for a slot. */
  readonly key: string;
}
export interface SessionCheck {
  readonly name: string;
  readonly target: { readonly type: 'codehost.pull_request'; readonly key: string };
  readonly cycle: number;
  readonly headSha: string;
  readonly state: 'queued' | 'in_progress' | 'concluded' | 'superseded';
  readonly conclusion: string | null;
  readonly title: string | null;
}
export interface SessionTurn {
  readonly number: number;
  readonly state: 'running' | 'done' | 'cancelled' | 'failed' | 'lost';
  readonly stopReason: string | null;
  readonly error: string | null;
  readonly startedAt: string;
  readonly endedAt: string | null;
}
export interface SessionPermission {
  readonly id: string;
  readonly title: string;
  /** What is asked for: call, category, input, options. */
  readonly request: JsonObject;
  readonly createdAt: string;
}
/** Messages on their way into a session, by state. */
export type InboxCounts = { readonly [state in 'pending' | 'inFlight' | 'done' | 'failed']: number };

export interface WholeSession extends SessionRow {
  readonly hiddenContext: string | null;
  readonly mountRefs: { readonly [mountPath: string]: string };
  readonly sandbox: JsonObject | null;
  /** Stages of its latest launch. */
  readonly provisioning: readonly ProvisioningStage[] | null;
  /** Hosts that its edge refused. */
  readonly denied: readonly DeniedHost[] | null;
  readonly inbox: InboxCounts;
  readonly turns: number;
  readonly lastTurn: SessionTurn | null;
  readonly claims: readonly SessionClaim[];
  /** The active ones that it holds, oldest first, as many as one answer has. */
  readonly bindings: readonly BindingRow[];
  readonly hasMoreBindings: boolean;
  /** Not the superseded ones. */
  readonly checks: readonly SessionCheck[];
  /** Requests of its harness that wait for a person, oldest first. */
  readonly permissions: readonly SessionPermission[];
}

const counted = (state: string): string =>
  `(select count(*) from svc.inbox i where i.session_id = s.id and i.state = '${state}')`;

/** Bindings of a session that are read with it, and the bytes of their notes after which there are more; the list has all. */
const heldMost = { rows: 200, bytes: 1_048_576 } as const;
const isRead = `h.place <= ${heldMost.rows} and h.before < ${heldMost.bytes}`;
const heldText = `select json_agg(h.row order by h.place) filter (where ${isRead}) as bindings, bool_or(not (${isRead})) as more
  from (select to_json(b) as row, row_number() over (order by b.id) as place,
          coalesce(sum(octet_length(b.context::text)) over (order by b.id rows between unbounded preceding and 1 preceding), 0) as before
          from (select ${bindingColumns} from svc.bindings b where b.session_id = s.id and b.state = 'active'
                 order by b.id limit ${heldMost.rows + 1}) b) h`;

/** One session with what it holds. */
export async function sessionById(sql: Sql, projectId: string, id: string): Promise<WholeSession | undefined> {
  const { rows } = await sql.query<WholeSession>(
    `with ${queueText} select ${selected}, s.hidden_context as "hiddenContext", s.mount_refs as "mountRefs", s.sandbox, s.provisioning,
        ${deniedColumn},
        json_build_object('pending', ${counted('pending')}, 'inFlight', ${counted('in_flight')},
          'done', ${counted('done')}, 'failed', ${counted('failed')}) as inbox,
        (select count(*) from svc.turns t where t.session_id = s.id) as turns,
        (select json_build_object('number', t.number, 'state', t.state, 'stopReason', t.stop_reason, 'error', t.error,
            'startedAt', t.started_at, 'endedAt', t.ended_at)
           from svc.turns t where t.session_id = s.id order by t.number desc limit 1) as "lastTurn",
        coalesce((select json_agg(json_build_object('kind', c.kind, 'key', c.key) order by c.kind, c.key)
           from svc.session_claims c where c.session_id = s.id), '[]'::json) as claims,
        coalesce(held.bindings, '[]'::json) as bindings, coalesce(held.more, false) as "hasMoreBindings",
        coalesce((select json_agg(json_build_object('name', k.name,
            'target', json_build_object('type', 'codehost.pull_request', 'key', k.target_key), 'cycle', k.cycle,
            'headSha', k.head_sha, 'state', k.state, 'conclusion', k.conclusion, 'title', k.title)
            order by k.target_key, k.name) from svc.checks k where k.session_id = s.id and k.state <> 'superseded'),
          '[]'::json) as checks,
        coalesce((select json_agg(json_build_object('id', q.id, 'title', q.title, 'request', q.request,
            'createdAt', q.created_at) order by q.created_at, q.id)
           from svc.permissions q where q.session_id = s.id and q.state = 'open'), '[]'::json) as permissions
       from ${from} left join lateral (${heldText}) held on true where s.project_id = $1::uuid and s.id = $2::uuid`,
    [projectId, id],
  );
  return rows[0] && { ...rows[0], ...withInstants(rows[0]) };
}

/** What came as JSON tells its instants as the database writes them; everywhere else they are of ISO 8601 and end in Z. */
function withInstants({ lastTurn, permissions, bindings }: WholeSession) {
  const utc = (text: string): string => new Date(text).toISOString();
  return {
    lastTurn: lastTurn && {
      ...lastTurn,
      startedAt: utc(lastTurn.startedAt),
      endedAt: lastTurn.endedAt === null ? null : utc(lastTurn.endedAt),
    },
    permissions: permissions.map((one) => ({ ...one, createdAt: utc(one.createdAt) })),
    bindings: bindings.map((one) => ({
      ...one,
      createdAt: new Date(one.createdAt),
      updatedAt: new Date(one.updatedAt),
    })),
  };
}

/** What whoever watches a session is told of it. */
export type SessionStateRow = Pick<
  SessionRow,
  'id' | 'state' | 'live' | 'reason' | 'reasonText' | 'engineReason' | 'wire' | 'position' | 'loaded' | 'activeAt'
>;

/** What a caller has to know of a session before acting on it. */
export async function sessionState(sql: Sql, projectId: string, id: string): Promise<SessionStateRow | undefined> {
  const { rows } = await sql.query<SessionStateRow>(
    `with ${queueText} select s.id, s.state, s.live, ${waitColumns}, s.active_at as "activeAt" from svc.sessions s
      where s.project_id = $1::uuid and s.id = $2::uuid`,
    [projectId, id],
    'session-state',
  );
  return rows[0];
}

export interface MessageRow {
  readonly seq: number;
  readonly role: 'user' | 'assistant' | 'tool' | 'system';
  readonly kind: string;
  readonly text: string;
  readonly detail: Json | null;
  readonly eventId: string | null;
  readonly at: Date;
  /** How it gets in; null for what it did not have to be told. */
  readonly delivery: {
    readonly state: 'pending' | 'in_flight' | 'done' | 'failed';
    readonly mode: 'interrupt' | 'defer';
    readonly sender: string;
    readonly attempts: number;
    readonly reason: string | null;
  } | null;
}

/** Bytes of text after which a page of a transcript ends; it has one message at least. */
const pageBytesMax = 4 * 1_048_576;

export interface MessagePage {
  readonly order: 'asc' | 'desc';
  /** Only messages behind the one of this number, in that order. */
  readonly after?: number | undefined;
  /** Numbers that the reader has already. */
  readonly except?: readonly number[];
  readonly limit: number;
}

const messageColumns = `m.seq, m.role, m.kind, m.text, m.detail, m.event_id as "eventId", m.at,
  case when i.seq is not null then json_build_object('state', i.state, 'mode', i.mode, 'sender', i.sender,
    'attempts', i.attempts, 'reason', i.reason) end as delivery`;

/** The newest message that a sender has for a session. */
export async function latestMessage(sql: Sql, sessionId: string, sender: string): Promise<MessageRow | undefined> {
  const { rows } = await sql.query<MessageRow>(
    `select ${messageColumns} from svc.inbox i join svc.messages m on m.session_id = i.session_id and m.seq = i.seq
      where i.session_id = $1::uuid and i.sender = $2::text order by i.seq desc limit 1`,
    [sessionId, sender],
  );
  return rows[0];
}

/** A page of a session's transcript, and whether there is more of it. Ask for what the page may hold. */
export async function listMessages(
  sql: Sql,
  sessionId: string,
  page: MessagePage,
): Promise<{ readonly rows: MessageRow[]; readonly more: boolean }> {
  const sign = page.order === 'asc' ? '>' : '<';
  const { rows } = await sql.query<MessageRow & { listed: number }>(
    `with listed as materialized (
       select * from svc.messages where session_id = $1::uuid and ($2::bigint is null or seq ${sign} $2::bigint)
          and seq <> all($5::bigint[])
        order by seq ${page.order} limit $3::int + 1
     ), sized as (
       select *, count(*) over () as listed, coalesce(sum(octet_length(text) + coalesce(octet_length(detail::text), 0))
           over (order by seq ${page.order} rows between unbounded preceding and 1 preceding), 0) as before from listed
     )
     select ${messageColumns}, m.listed::int as listed
       from sized m left join svc.inbox i on i.session_id = m.session_id and i.seq = m.seq
      where m.before < $4::bigint order by m.seq ${page.order} limit $3::int`,
    [sessionId, page.after ?? null, page.limit, pageBytesMax, page.except ?? []],
    `messages-${page.order}`,
  );
  const more = rows.length < (rows[0]?.listed ?? 0);
  return { rows, more };
}
