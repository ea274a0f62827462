// The order in which a project's world changes, and what routing reads in it. Whatever changes which sessions live, what
// they claim and what they are bound to holds the routing lock of the project until its transaction ends, taken before
// any row: so routing is serial within a project, by `events.seq`, and two daemons route different projects side by
// side. Unique rows stand behind it. Reads are set-wise: one statement a question, however many events a batch has.

import type { BindingTarget, Mount, Trigger, AgentSpec } from '../../../domain/spec.ts';
import { readLargeBody } from '../events/event-bodies.ts';
import { bodyBytes, type StoredBody, unframed } from '../events/body-frames.ts';
import type { Sql, Statement } from '../store.ts';
import type { Binding } from './bindings.ts';
import { held, type RoutingTx } from './routing-lock.ts';
import { earlyEnd, endingEarly, jsonBytes, type Sized } from '../schema/early-end.ts';
import { storable } from '../schema/text.ts';

/**
 * SQL of the condition that an event's number is beyond what its project has routed (svc.routing_marks): what waits is
 * looked for there. `mark`: the number, maybe null. The upper end, which is always so, tells the planner that it is a small
 * range: of a lower one alone it takes a third of all events, and reads the table.
 */
export const unroutedSql = (mark: string, event = ''): string =>
  `${event}seq > coalesce(${mark}, 0) and ${event}seq <= (select n.last_value from svc.events_seq n)`;
/** SQL of the number up to which a project's events are routed. */
export const markOf = (project: string): string =>
  `(select m.upto from svc.routing_marks m where m.project_id = ${project})`;

export interface PendingEvent {
  readonly id: string;
  readonly seq: number;
  readonly key: string;
  /** Endpoint or connection that it came through. */
  readonly scope: string | null;
  readonly connectionId: string | null;
  readonly targetType: BindingTarget | null;
  readonly targetKey: string | null;
  /** Since 1970. */
  readonly receivedMs: number;
  readonly depth: number;
}

export interface RoutingStart {
  readonly tx: RoutingTx;
  /** Of the project's agents and triggers. */
  readonly generation: number;
  /** Every event that anybody has numbered up to here is committed. */
  readonly upTo: number;
  /** The oldest events that wait, in the order of recording. */
  readonly waiting: readonly PendingEvent[];
}

interface StartRow {
  readonly generation: number;
  readonly upTo: number;
  /** Lists in the order of recording; null where nothing waits. */
  readonly ids: string | null;
  readonly seqs: string;
  readonly times: string;
  /** Of the first event. */
  readonly key: string;
  readonly scope: string | null;
  /** Those that are not as the first one is. */
  readonly others: readonly OtherEvent[] | null;
}
type OtherEvent = readonly [
  seq: number,
  key: string,
  endpointId: string | null,
  connectionId: string | null,
  targetType: BindingTarget | null,
  targetKey: string | null,
  depth: number,
];

/**
 * Takes the routing lock, where nobody has it, and tells what is there to be routed, at most `most` events, and by which
 * triggers; undefined where somebody has it.
 */
export async function beginRouting(tx: Sql, projectId: string, most: number): Promise<RoutingStart | undefined> {
  const { text, values, name } = routingOpening(projectId, most);
  const { rows } = await tx.query<StartRow>(text, values, name);
  return startedRouting(tx, projectId, rows);
}

/** The same as the opening of a transaction (TxOptions), whose rows `startedRouting` reads. */
export const routingOpening = (projectId: string, most: number): Statement => ({
  text: `select generation, upto as "upTo", ids, seqs, times, key, scope, others
           from svc.take_routing($1::uuid, $2::int)`,
  values: [projectId, most],
  name: 'take-routing',
});

/** What the opening statement of a routing transaction has found; undefined where another has the project. */
export function startedRouting(tx: Sql, projectId: string, rows: readonly unknown[]): RoutingStart | undefined {
  const [start] = rows as readonly StartRow[];
  if (start === undefined) return undefined;
  return { tx: held(tx, projectId), generation: start.generation, upTo: start.upTo, waiting: waitingOf(start) };
}

function waitingOf({ ids, seqs, times, key, scope, others }: StartRow): PendingEvent[] {
  if (ids === null) return [];
  const numbers = seqs.split(',');
  const received = times.split(',');
  const told = new Map(others?.map((one) => [one[0], one]));
  return ids.split(',').map((id, at): PendingEvent => {
    const seq = Number(numbers[at]);
    const receivedMs = Number(received[at]);
    const other = told.get(seq);
    if (other === undefined) {
      return { id, seq, key, scope, connectionId: null, targetType: null, targetKey: null, receivedMs, depth: 0 };
    }
    const [, itsKey, endpointId, connectionId, targetType, targetKey, depth] = other;
    return {
      id,
      seq,
      key: itsKey,
      scope: endpointId ?? connectionId,
      connectionId,
      targetType,
      targetKey,
      receivedMs,
      depth,
    };
  });
}

export interface EventBody {
  readonly id: string;
  readonly raw: Buffer | null;
  readonly payload: Buffer | null;
}

export interface ReadBodies {
  readonly bodies: ReadonlyMap<string, EventBody>;
  /** How many of those asked for were come to. */
  readonly reached: number;
  /** Those whose stored bodies are damaged. */
  readonly damaged: ReadonlySet<string>;
}

/** A body of more is fetched in slices. */
const largeBytes = 2 * 1_048_576;

/**
 * Bodies of events in the order given, until they have together so many bytes; at least the first. Those that retention
 * has taken, or that are damaged, are left out.
 */
export async function readBodies(tx: Sql, ids: readonly string[], bytesMax: number): Promise<ReadBodies> {
  if (ids.length === 0) return { bodies: new Map(), reached: 0, damaged: new Set() };
  const { rows } = await tx.query<StoredBody & { id: string; n: number; isLarge: boolean }>(
    `select s.n, s.id, s."rawBytes", s."isLarge", case when not s."isLarge" then s.raw end as raw,
            case when not s."isLarge" then s.payload end as payload from (
       select u.n, u.id, b.raw, b.raw_bytes as "rawBytes", b.payload,
              coalesce(octet_length(b.raw), 0) + coalesce(octet_length(b.payload), 0) > $3::int as "isLarge",
              sum(${bodyBytes('b')}) over (order by u.n) as bytes
         from unnest($1::uuid[]) with ordinality as u (id, n) left join svc.event_bodies b on b.event_id = u.id) s
      where s.bytes <= $2::bigint or s.n = 1`,
    [ids, bytesMax, largeBytes],
    'read-bodies',
  );
  const bodies = new Map<string, EventBody>();
  const damaged = new Set<string>();
  for (const row of rows) {
    if (row.isLarge) Object.assign(row, await readLargeBody(tx, row.id));
    if (row.raw === null && row.payload === null) continue;
    const body = unframed(row);
    if (body === undefined) damaged.add(row.id);
    else bodies.set(row.id, { id: row.id, ...body });
  }
  return { bodies, reached: rows.reduce((most, row) => Math.max(most, row.n), 0), damaged };
}

/** An agent takes part with its triggers, and by what it says of bindings also without any. */
const takesPart = `(t.agent_id is not null or a.spec -> 'bindings' <> '{}'::jsonb)`;

/** What stands for an agent's share in routing: it changes when anything of that does. */
export async function routableDigests(sql: Sql, projectId: string): Promise<ReadonlyMap<string, string>> {
  const { rows } = await sql.query<{ id: string; digest: string }>(
    `select a.id, concat_ws(' ', a.name, a.revision, a.spec_hash, t.digest) as digest
       from svc.agents a
       left join (select agent_id, md5(string_agg(concat_ws(' ', ordinal, spec_hash, event, endpoint_id, connection_id),
                                             ',' order by ordinal)) as digest
               from svc.triggers where project_id = $1::uuid and status = 'active' group by agent_id) t
         on t.agent_id = a.id
      where a.project_id = $1::uuid and ${takesPart}`,
    [projectId],
  );
  return new Map(rows.map(({ id, digest }) => [id, digest]));
}

export interface RoutableAgentRow {
  readonly id: string;
  readonly name: string;
  readonly revision: number;
  readonly concurrency: 1 | null;
  readonly bindings: AgentSpec['bindings'];
  readonly initialPrompt: string | null;
  readonly displayTitle: string | null;
  readonly mounts: readonly Pick<Mount, 'mountPath' | 'ref'>[];
  readonly triggers: readonly {
    readonly ordinal: number;
    readonly event: string;
    readonly scope: string | null;
    readonly spec: Trigger;
  }[];
}

/**
 * Agents with their active triggers, as routing reads them: of those asked for, in their order, as many as a page may have
 * bytes of, at least the first. `reached`: how many of those asked for were come to.
 */
export async function routableAgents(
  sql: Sql,
  projectId: string,
  ids: readonly string[],
): Promise<{ readonly rows: readonly RoutableAgentRow[]; readonly reached: number }> {
  if (ids.length === 0) return { rows: [], reached: 0 };
  const listed = `select u.n::int as n, a.id, a.name, a.revision, (a.spec -> 'concurrency')::int as concurrency,
            coalesce(a.spec -> 'bindings', '{}'::jsonb) as bindings, a.spec ->> 'initialPrompt' as "initialPrompt",
            a.spec ->> 'displayTitle' as "displayTitle", coalesce(a.spec -> 'mounts', '[]'::jsonb) as mounts,
            coalesce(t.list, '[]'::json) as triggers
       from unnest($2::uuid[]) with ordinality as u (id, n)
       join svc.agents a on a.id = u.id and a.project_id = $1::uuid
       left join lateral (select json_agg(json_build_object('ordinal', t.ordinal, 'event', t.event,
                                   'scope', coalesce(t.endpoint_id, t.connection_id), 'spec', t.spec)
                                 order by t.ordinal) as list
                            from svc.triggers t where t.agent_id = a.id and t.status = 'active') t on true`;
  const size = jsonBytes('bindings', '"initialPrompt"', '"displayTitle"', 'mounts', 'triggers');
  const text = endingEarly(listed, { size, order: 'n' });
  const found = await sql.query<RoutableAgentRow & Sized & { readonly n: number }>(text, [projectId, ids]);
  const { rows, isCut } = earlyEnd(found.rows);
  return { rows, reached: isCut ? (rows.at(-1)?.n ?? ids.length) : ids.length };
}

/** What a live session is to a target, or which of an agent's sessions lives. */
export interface LiveSession {
  readonly sessionId: string;
  readonly agentId: string;
  readonly agent: string;
}
export interface TargetSession extends LiveSession {
  readonly targetType: BindingTarget;
  readonly targetKey: string;
  /** `thread`, or the relation of a tie. */
  readonly relation: string;
}

interface TargetName {
  readonly type: string;
  readonly key: string;
}
const typesOf = (targets: readonly TargetName[]): string[] => targets.map((target) => target.type);
const keysOf = (targets: readonly TargetName[]): string[] => targets.map((target) => storable(target.key));

/** Active bindings on any of the targets, of whichever agent. */
export async function bindingsOn(tx: RoutingTx, targets: readonly TargetName[]): Promise<Binding[]> {
  if (targets.length === 0) return [];
  const { rows } = await tx.query<Binding>(
    `select b.id, b.agent_id as "agentId", b.agent, b.session_id as "sessionId", b.state, b.lifecycle, b.continuity,
            b.context, b.event_context as "eventContext",
            json_build_object('type', b.target_type, 'key', b.target_key) as target
       from unnest($2::text[], $3::text[]) as u (type, key)
       join svc.bindings b on b.project_id = $1::uuid and b.target_type = u.type and b.target_key = u.key
      where b.state = 'active' order by b.id`,
    [tx.projectId, typesOf(targets), keysOf(targets)],
    'bindings-on',
  );
  return rows;
}

/** Live sessions that claim one of the chat threads, or are tied to one of the targets. */
export async function liveSessionsOn(tx: RoutingTx, targets: readonly TargetName[]): Promise<TargetSession[]> {
  if (targets.length === 0) return [];
  const { rows } = await tx.query<TargetSession>(
    `select c.session_id as "sessionId", s.agent_id as "agentId", s.agent, u.type as "targetType",
            u.key as "targetKey", 'thread' as relation
       from unnest($2::text[], $3::text[]) as u (type, key)
       join svc.session_claims c on c.kind = 'thread' and c.key = u.key
       join svc.sessions s on s.id = c.session_id and s.project_id = $1::uuid and s.live
      where u.type = 'chat.thread'
     union all
     select t.session_id, s.agent_id, s.agent, u.type, u.key, t.relation
       from unnest($2::text[], $3::text[]) as u (type, key)
       join svc.session_ties t on t.project_id = $1::uuid and t.target_type = u.type and t.target_key = u.key
       join svc.sessions s on s.id = t.session_id and s.live`,
    [tx.projectId, typesOf(targets), keysOf(targets)],
    'standings-on',
  );
  return rows;
}

/** Every live session of these agents, in the order in which they were made. */
export async function liveSessionsOf(tx: Sql, agentIds: readonly string[]): Promise<LiveSession[]> {
  if (agentIds.length === 0) return [];
  const { rows } = await tx.query<LiveSession>(
    `select id as "sessionId", agent_id as "agentId", agent from svc.sessions
      where live and agent_id = any($1::uuid[]) order by id`,
    [agentIds],
    'live-sessions-of',
  );
  return rows;
}

/** Sessions of the project by id, with whether they live. */
export async function sessionsNamed(
  tx: RoutingTx,
  ids: readonly string[],
): Promise<(LiveSession & { live: boolean })[]> {
  if (ids.length === 0) return [];
  const { rows } = await tx.query<LiveSession & { live: boolean }>(
    `select id as "sessionId", agent_id as "agentId", agent, live from svc.sessions
      where project_id = $1::uuid and id = any($2::uuid[])`,
    [tx.projectId, ids],
  );
  return rows;
}

/**
 * The number of the oldest waiting event of each project that has one. With a daemon's id: of its share of the projects,
 * which all that route and beat have divided among themselves; of all where it is not among those.
 */
export async function waitingHeads(sql: Sql, daemonId: string | null): Promise<ReadonlyMap<string, number>> {
  const { rows } = await sql.query<{ projectId: string; seq: number }>(
    `with routers as (
       select array_agg(d.id order by d.id) as ids, count(*)::int as n from svc.daemons d
        where 'route' = any(d.roles) and d.beat_at > now() - interval '15 seconds')
     select p.id as "projectId", oldest.seq
       from svc.projects p left join svc.routing_marks m on m.project_id = p.id cross join routers r, lateral (
       select e.seq from svc.events e
        where e.project_id = p.id and e.router_status = 'pending' and ${unroutedSql('m.upto', 'e.')}
        order by e.seq limit 1) oldest
      where $1::uuid is null or not coalesce($1::uuid = any(r.ids), false)
         or r.ids[1 + mod(hashtext(p.id::text)::bigint + 2147483648, r.n)] = $1::uuid`,
    [daemonId],
    'waiting-heads',
  );
  return new Map(rows.map((row) => [row.projectId, row.seq]));
}

/** Projects that any of these events belong to. */
export async function projectsOfEvents(sql: Sql, ids: readonly string[]): Promise<string[]> {
  if (ids.length === 0) return [];
  const { rows } = await sql.query<{ projectId: string }>(
    'select distinct project_id as "projectId" from svc.events where id = any($1::uuid[])',
    [ids],
  );
  return rows.map((row) => row.projectId);
}
