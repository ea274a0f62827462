// Places of hosts: which sessions wait for one, in what order they get it, and what those that wait are told. A session
// waits when no host holds it and a message is pending for it: one with nothing to do never takes a place, and what its
// inbox holds is the whole queue, whatever the table of sessions holds beside it. Places go to projects in turn: a session's
// turn is the number of places that its project would hold with it, and of equal turns the oldest message goes first. In a
// project that is archived nothing begins: its sessions wait until it is back.

import type { Harness } from '../../../domain/spec.ts';
import type { Sql } from '../store.ts';
import { silentAfterSeconds } from '../operations/peers.ts';
import { type ClaimedSession, claimedColumns, isHome, type Lease, leaseText } from './hosts.ts';
import { storable } from '../schema/text.ts';

const waitingStates = `('queued', 'suspended', 'idle')`;

/** SQL: whether the session `s` waits to be launched. */
export const isWaiting = `(s.leased_by is null and s.state in ${waitingStates}
  and exists (select from svc.inbox i where i.session_id = s.id and i.state = 'pending')
  and exists (select from svc.projects j where j.id = s.project_id and j.archived_at is null))`;

/** What is due again is tried at the next look, which is never so far away: who still waits after it waits for a place. */
const triedWithinSeconds = 5;

/** SQL: whether the session `s` waits for something else than a place. */
const awaitsElse = `(s.waits_for is not null
  and coalesce(s.retry_at > now() - make_interval(secs => ${triedWithinSeconds}), true))`;

/** `more`: conditions on the session `s`, its revision `r`, and `since`, the number of its oldest pending message. */
const rankedSql = (more: string): string => `pending as materialized (
    select i.session_id as id, min(i.seq) as since from svc.inbox i where i.state = 'pending' group by i.session_id
  ), held as materialized (
    select h.project_id, count(*)::int as places from svc.sessions h where h.lease_until is not null group by h.project_id
  ), ranked as (
    select s.id, s.project_id as "projectId", p.since,
           coalesce(h.places, 0) + row_number() over (partition by s.project_id order by p.since) as turn
      from pending p
      join svc.sessions s on s.id = p.id
      join svc.agent_revisions r on r.agent_id = s.agent_id and r.revision = s.revision
      join svc.projects j on j.id = s.project_id and j.archived_at is null
      left join held h on h.project_id = s.project_id
     where s.leased_by is null and s.state in ${waitingStates} and ${more}
  )`;

/**
 * CTEs that end in `queue (id, position)`: sessions that wait for a place and for nothing else, as places would go to them.
 */
export const queueText = `${rankedSql(`not ${awaitsElse} and coalesce(s.retry_at <= now(), true)`)}, queue as materialized (
    select id, row_number() over (order by turn, since)::int as position from ranked
  )`;

/** SQL: what is told of a session `s`, beside `queueText`. */
export const waitColumns = `case when not ${isWaiting} then s.reason when ${awaitsElse} then s.waits_for
    when s.retry_at > now() then s.reason else 'capacity' end as reason,
  case when ${isWaiting} and ${awaitsElse} then s.reason end as "reasonText",
  case when ${isWaiting} and ${awaitsElse} and s.waits_for = 'engine' then s.engine_reason end as "engineReason",
  case when s.leased_by is not null then s.wire end as wire,
  case when ${isWaiting} then (select q.position from queue q where q.id = s.id) end as position,
  (s.leased_by is not null and s.state in ('idle', 'running', 'waiting_permission', 'interrupting')) as loaded`;

export interface PlaceRequest {
  readonly daemonId: string;
  /** Those whose program is here. */
  readonly harnesses: readonly Harness[];
  /** Where the sandboxes of this daemon lie. */
  readonly home: string;
  /** Places that a project may hold in the whole installation; undefined: any number. */
  readonly perProject?: number | undefined;
  readonly limit: number;
  readonly now: Date;
}

/** How long a session that gave its place up waits for the host that has its files, before another takes it anew. */
const homeFirstSeconds = 10;

// $1 harnesses, $2 now, $3 home
const ready = rankedSql(`r.spec ->> 'harness' = any($1::text[]) and coalesce(s.retry_at <= $2::timestamptz, true)
       and (s.state <> 'idle' or s.sandbox_home is null or ${isHome('$3')}
         or (select m.at from svc.messages m where m.session_id = s.id and m.seq = p.since)
            < $2::timestamptz - make_interval(secs => ${homeFirstSeconds}))`);

/** Where projects are limited, places are given out one after another: two daemons that count at once would both be right. */
const lockSql = `select pg_advisory_xact_lock(hashtext('svc.places'))`;

/** Takes sessions that wait, as many as there is room for; each goes to one host. */
export async function claimSessions(
  db: { tx<T>(work: (tx: Sql) => Promise<T>): Promise<T> } & Sql,
  by: PlaceRequest,
): Promise<ClaimedSession[]> {
  if (by.perProject === undefined) return take(db, by);
  return db.tx(async (tx) => {
    await tx.query(lockSql);
    return take(tx, by);
  });
}

async function take(sql: Sql, by: PlaceRequest): Promise<ClaimedSession[]> {
  const { rows } = await sql.query<ClaimedSession>(
    `with ${ready}, next as materialized (
       select id from ranked where $4::int is null or turn <= $4::int order by turn, since limit $5::int
     ), due as (
       select s.id from svc.sessions s join next on next.id = s.id
        where s.leased_by is null and s.state in ${waitingStates} for update of s skip locked
     ), claimed as (
       update svc.sessions s set state = 'provisioning', epoch = s.epoch + 1, leased_by = $6::uuid,
           lease_until = 'infinity', reason = null, waits_for = null, engine_reason = null, wire = null, retry_at = null,
           started_at = coalesce(s.started_at, $2::timestamptz)
         from due where s.id = due.id returning ${claimedColumns}
     ), leased as (${leaseText('claimed', '$6')})
     select * from claimed`,
    [by.harnesses, by.now, by.home, by.perProject ?? null, by.limit, by.daemonId],
    'claim-sessions',
  );
  return rows.toSorted((a, b) => (a.sessionId < b.sessionId ? -1 : 1));
}

export interface WaitingPlace {
  readonly projectId: string;
  /** Places that its project would hold with it. */
  readonly turn: number;
}

/** Sessions that this host could take if it had room, in the order in which they would get it. */
export async function waitingPlaces(sql: Sql, by: Omit<PlaceRequest, 'daemonId'>): Promise<WaitingPlace[]> {
  const { rows } = await sql.query<WaitingPlace>(
    `with ${ready} select "projectId", turn::int as turn from ranked order by ranked.turn, since limit $4::int`,
    [by.harnesses, by.now, by.home, by.limit],
    'waiting-places',
  );
  return rows;
}

/** Lets go of a session between two turns: it stays idle, and its next message launches it again. False where it is not. */
export async function unloadSession(sql: Sql, lease: Lease): Promise<boolean> {
  const { rowCount } = await sql.query(
    `update svc.sessions set leased_by = null, lease_until = null, token_hash = null, epoch = epoch + 1
      where id = $1::uuid and epoch = $2::bigint and live and state = 'idle'`,
    [lease.sessionId, lease.epoch],
    'unload-session',
  );
  return rowCount > 0;
}

/** Notes the harnesses whose program a daemon has: for others that lack it, so that they tell nobody to wait for it. */
export async function noteHarnesses(sql: Sql, daemonId: string, harnesses: readonly Harness[]): Promise<void> {
  await sql.query(
    `update svc.daemons set harnesses = $2::text[] where id = $1::uuid and harnesses is distinct from $2::text[]`,
    [daemonId, harnesses],
  );
}

/** Says of sessions that no host can take why they wait. `missing`: harness → reason, of one host; another may have it. */
export async function explainWaiting(sql: Sql, missing: ReadonlyMap<Harness, string>): Promise<void> {
  if (missing.size === 0) return;
  await sql.query(
    `update svc.sessions s set reason = m.reason, waits_for = 'harness', engine_reason = null, retry_at = null
       from svc.agent_revisions r, unnest($1::text[], $2::text[]) as m (harness, reason)
      where s.id in (select i.session_id from svc.inbox i where i.state = 'pending')
        and s.leased_by is null and s.state in ${waitingStates} and coalesce(s.retry_at <= now(), true)
        and (s.reason is distinct from m.reason or s.waits_for is distinct from 'harness' or s.retry_at is not null)
        and r.agent_id = s.agent_id and r.revision = s.revision and r.spec ->> 'harness' = m.harness
        and not exists (select from svc.daemons d where m.harness = any(d.harnesses)
          and d.beat_at > now() - make_interval(secs => ${silentAfterSeconds}))`,
    [[...missing.keys()], [...missing.values()].map(storable)],
  );
}

/** Of sessions that waited for a program which is here now: they wait for a place. */
export async function awaitPlaces(sql: Sql, harnesses: readonly Harness[]): Promise<void> {
  if (harnesses.length === 0) return;
  await sql.query(
    `update svc.sessions s set reason = null, waits_for = null from svc.agent_revisions r
      where s.id in (select i.session_id from svc.inbox i where i.state = 'pending')
        and s.leased_by is null and s.state in ${waitingStates} and s.waits_for = 'harness' and s.retry_at is null
        and r.agent_id = s.agent_id and r.revision = s.revision and r.spec ->> 'harness' = any($1::text[])`,
    [harnesses],
  );
}
