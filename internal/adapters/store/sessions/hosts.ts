// Sessions as a host sees them. A host holds a session by a lease: `leased_by`, an epoch that every claim raises, and a row
// of svc.session_leases, which says until when: it is all that a renewal writes. `lease_until` of the session is infinite
// then; a finite one is a lease of its own kind, see the migration. Invariant: a state that only a running process can be in
// (provisioning to interrupting) stands with a lease, and every write of a host names its epoch, so that one which was taken
// for dead changes nothing any more. A lease that lapses makes the session `suspended`, its turn `lost`, and what was in
// flight pending again: it goes in once more, and says so.

import type { EngineReason } from '../../../domain/sandbox.ts';
import type { AgentSpec } from '../../../domain/spec.ts';
import type { Sql, Tx } from '../store.ts';
import { storable } from '../schema/text.ts';

export const leaseSeconds = 20;

/** What a host's writes are fenced by. */
export interface Lease {
  readonly sessionId: string;
  readonly epoch: number;
}

export interface ClaimedSession extends Lease {
  readonly projectId: string;
  readonly agentId: string;
  readonly agent: string;
  readonly revision: number;
  readonly eventId: string | null;
  readonly hiddenContext: string | null;
  readonly mountRefs: { readonly [mountPath: string]: string };
  readonly harnessSession: string | null;
  /** That harness session has yet to be told what was said before it. */
  readonly recapDue: boolean;
  readonly sandboxHome: string | null;
  readonly failures: number;
}

// A home is the id of a data directory, a blank, and its path. They are kept apart, since the release before knows a home by its
// path alone: it finds its own again, and what it wrote has no id.

/** Characters of the id that a home begins with, and of what stands between it and the path. */
const homeIdLength = 37;
const homePath = (home: string): string => `substr(${home}::text, ${homeIdLength + 1})`;
const homeId = (home: string): string => `left(${home}::text, ${homeIdLength - 1})::uuid`;

/** SQL: whether the files of the session `s` lie at this home. */
export const isHome = (home: string): string =>
  `(s.sandbox_home = ${homePath(home)} and coalesce(s.sandbox_home_id = ${homeId(home)}, true))`;

/** The same of a session that was read. */
export const isAtHome = (of: string | null, home: string): boolean => of === home || of === home.slice(homeIdLength);

/** SQL: has the files of a session lie at this home; where it is null they lie where they lay. */
export const atHome = (home: string): string =>
  `sandbox_home = coalesce(${homePath(home)}, sandbox_home), sandbox_home_id = coalesce(${homeId(home)}, sandbox_home_id)`;

/** SQL: the home of the session `s`; of what the release before has written its path alone. */
export const homeOf = `coalesce(s.sandbox_home_id || ' ', '') || s.sandbox_home`;

/** SQL: of a session `s` that was just claimed. */
export const claimedColumns = `s.id as "sessionId", s.epoch, s.project_id as "projectId", s.agent_id as "agentId", s.agent, s.revision,
  s.event_id as "eventId", s.hidden_context as "hiddenContext", s.mount_refs as "mountRefs",
  s.harness_session as "harnessSession", s.recap_due as "recapDue", ${homeOf} as "sandboxHome", s.failures`;

/** SQL that writes the leases of sessions just claimed, of the daemon `by`. `from` names rows with sessionId and epoch. */
export const leaseText = (from: string, by: string): string => `
  insert into svc.session_leases (session_id, daemon_id, epoch, until)
    select "sessionId", ${by}::uuid, epoch, now() + make_interval(secs => ${leaseSeconds}) from ${from}
    on conflict (session_id) do update
      set daemon_id = excluded.daemon_id, epoch = excluded.epoch, until = excluded.until`;

/**
 * Renews leases; answers with the sessions that are still this daemon's at the epochs given. In the order of ids, as
 * whoever else takes several of them does. A session that was given a last time to live by whoever took this daemon for
 * dead is its own again.
 */
export async function renewLeases(sql: Sql, daemonId: string, leases: readonly Lease[]): Promise<ReadonlySet<string>> {
  if (leases.length === 0) return new Set();
  const { rows } = await sql.query<{ id: string }>(
    `with mine as (
       select l.session_id from svc.session_leases l join unnest($2::uuid[], $3::bigint[]) as u (id, epoch)
           on l.session_id = u.id and l.epoch = u.epoch
        where l.daemon_id = $1::uuid order by l.session_id for update of l
     ), kept as (
       update svc.session_leases l set until = now() + make_interval(secs => ${leaseSeconds})
         from mine where l.session_id = mine.session_id returning l.session_id
     ), again as (
       update svc.sessions s set lease_until = 'infinity'
         from kept where s.id = kept.session_id and s.lease_until <> 'infinity'
     )
     select session_id as id from kept`,
    [daemonId, leases.map((one) => one.sessionId), leases.map((one) => one.epoch)],
    'renew-leases',
  );
  return new Set(rows.map((row) => row.id));
}

/** Which of the sessions still run at the epochs given: what a host asks when it is told that something happened. */
export async function heldLeases(sql: Sql, leases: readonly Lease[]): Promise<ReadonlySet<string>> {
  if (leases.length === 0) return new Set();
  const { rows } = await sql.query<{ id: string }>(
    `select s.id from svc.sessions s join unnest($1::uuid[], $2::bigint[]) as u (id, epoch)
         on s.id = u.id and s.epoch = u.epoch where s.live`,
    [leases.map((one) => one.sessionId), leases.map((one) => one.epoch)],
    'standing-leases',
  );
  return new Set(rows.map((row) => row.id));
}

/**
 * Locks sessions whose lease is over, of either kind, and passes over where somebody is at them. Both are looked up among those
 * that are held, not among all.
 */
const lockLapsed = `select held.id from svc.sessions held where held.id in (
      select ended.id from svc.sessions ended where ended.lease_until < now()
      union all
      select l.session_id from svc.session_leases l where l.until < now())
    order by held.id for update skip locked`;

/** Of those that are locked: whose lease is over still. */
const lapsed = `s.id = any($2::uuid[]) and (s.lease_until < now() or exists (
    select from svc.session_leases l where l.session_id = s.id and l.epoch = s.epoch and l.until < now()))`;

/** SQL: whether the turn of the message `i` was told to end; what somebody asked for holds, also where its host never heard of it. */
const wasStopped = `exists (select from svc.turns t where t.id = i.turn_id and (t.stop_reason is not null or t.stop_asked))`;

/**
 * SQL: nothing waits for the session `s`, which was between two turns: it needs no place, and its next message launches it.
 */
const restsSql = `s.state = 'idle' and not exists (
      select from svc.inbox i where i.session_id = s.id and i.state in ('pending', 'in_flight'))`;

/** SQL: the same once its host is lost, where that may have been in a turn that was told to end. */
const restsLostSql = `s.state in ('idle', 'running', 'waiting_permission', 'interrupting') and not exists (
      select from svc.inbox i where i.session_id = s.id
        and (i.state = 'pending' or (i.state = 'in_flight' and not ${wasStopped})))`;

/**
 * `attempts`: what messages in flight have as attempts afterwards; at least one, so that they are labelled. What a turn was
 * told to end for does not come back with its messages.
 */
const suspendSql = (which: string, attempts = 'attempts'): string => `with lost as (
    update svc.sessions s set state = case when ${restsLostSql} then 'idle' else 'suspended' end,
        reason = case when ${restsLostSql} then null else $1::text end, leased_by = null, lease_until = null,
        token_hash = null, epoch = s.epoch + 1
      where s.live and s.leased_by is not null and ${which}
      returning s.id
  ), turns as (
    update svc.turns set state = case when stop_reason is null and not stop_asked then 'lost' else 'cancelled' end,
        stop_reason = case when stop_asked then coalesce(stop_reason, 'cancelled') else stop_reason end,
        error = $1::text, ended_at = now()
      where state = 'running' and session_id in (select id from lost)
  ), inbox as (
    update svc.inbox i set attempts = ${attempts},
        state = case when ${wasStopped} then 'done' else 'pending' end,
        turn_id = case when ${wasStopped} then i.turn_id end
      where state = 'in_flight' and session_id in (select id from lost)
  ), asked as (
    update svc.permissions set state = 'cancelled', decided_at = now()
      where state = 'open' and session_id in (select id from lost)
  )
  select id from lost`;

/**
 * Suspends sessions whose lease has lapsed: whoever held it has let go by then, or is gone. One that lives may be writing a turn
 * at that moment: what is read once they are locked has it, and it is lost with its session.
 */
export async function suspendLapsed(tx: Tx): Promise<string[]> {
  const { rows: locked } = await tx.query<{ id: string }>(lockLapsed, [], 'lock-lapsed');
  if (locked.length === 0) return [];
  const { rows } = await tx.query<{ id: string }>(suspendSql(lapsed), [
    'its host was lost',
    locked.map(({ id }) => id),
  ]);
  return rows.map((row) => row.id);
}

/** Suspends sessions that their host gives up, at their epochs; a lost one is a lost one however it ended. */
export async function suspendLeases(
  sql: Sql,
  leases: readonly Lease[],
  reason: string,
  /** The daemon stops in good order: that wears no message out. */
  isOrderly = false,
): Promise<void> {
  if (leases.length === 0) return;
  await sql.query(
    suspendSql(
      'exists (select from unnest($2::uuid[], $3::bigint[]) as u (id, epoch) where u.id = s.id and u.epoch = s.epoch)',
      isOrderly ? 'greatest(attempts - 1, 1)' : 'attempts',
    ),
    [storable(reason), leases.map((one) => one.sessionId), leases.map((one) => one.epoch)],
  );
}

export interface Wait {
  readonly reason: string;
  /** What a session that was not launched yet waits for. */
  readonly waitsFor: 'harness' | 'key' | 'cap' | 'engine';
  /** The word of an engine that it waits for. */
  readonly engineReason?: EngineReason;
  readonly retryAt: Date;
  readonly failures: number;
}

/**
 * Puts a claimed session back where it waits, to be launched again at `retryAt`; one that nothing waits for rests, and has no
 * reason for that. False where the lease is gone.
 */
export async function waitAgain(sql: Sql, lease: Lease, wait: Wait): Promise<boolean> {
  const { rowCount } = await sql.query(
    `update svc.sessions s set reason = case when s.harness_session is null or not (${restsSql}) then $3::text end, retry_at = $4::timestamptz, failures = $5::int,
         waits_for = case when s.harness_session is null then $6::text end, engine_reason = $7::text,
         state = case when s.harness_session is null then 'queued' when ${restsSql} then 'idle' else 'suspended' end,
         leased_by = null, lease_until = null, token_hash = null, epoch = s.epoch + 1
       where s.id = $1::uuid and s.epoch = $2::bigint and s.live`,
    [
      lease.sessionId,
      lease.epoch,
      storable(wait.reason),
      wait.retryAt,
      wait.failures,
      wait.waitsFor,
      wait.engineReason ?? null,
    ],
  );
  return rowCount > 0;
}

/** Whether the way into the sandbox of a running session is whole. */
export async function noteWire(sql: Sql, lease: Lease, wire: 'ok' | 'lost'): Promise<void> {
  await sql.query('update svc.sessions set wire = $3::text where id = $1::uuid and epoch = $2::bigint and live', [
    lease.sessionId,
    lease.epoch,
    wire,
  ]);
}

/** Moves a session on, from one of the states given. False where the lease is gone or the state is another. */
export async function moveSession(
  sql: Sql,
  lease: Lease,
  from: readonly string[],
  to: string,
  more: {
    readonly reason?: string | null;
    readonly harnessSession?: string;
    readonly recapDue?: boolean;
    readonly sandbox?: object;
    readonly sandboxHome?: string;
    readonly tokenHash?: Buffer;
  } = {},
): Promise<boolean> {
  const { rowCount } = await sql.query(
    `update svc.sessions set state = $4::text, reason = case when $5::boolean then $6::text else reason end,
         harness_session = coalesce($7::text, harness_session), sandbox = coalesce($8::jsonb, sandbox),
         ${atHome('$9')}, token_hash = coalesce($10::bytea, token_hash),
         recap_due = coalesce($11::boolean, recap_due)
       where id = $1::uuid and epoch = $2::bigint and live and state = any($3::text[])`,
    [
      lease.sessionId,
      lease.epoch,
      from,
      to,
      more.reason !== undefined,
      more.reason ?? null,
      more.harnessSession ?? null,
      more.sandbox === undefined ? null : JSON.stringify(more.sandbox),
      more.sandboxHome ?? null,
      more.tokenHash ?? null,
      more.recapDue ?? null,
    ],
    'move-session',
  );
  return rowCount > 0;
}

/** Before a sandbox is made in place of one that is gone: until it stands, there is none. */
export async function forgetSandbox(sql: Sql, lease: Lease): Promise<void> {
  await sql.query(
    'update svc.sessions set sandbox_home = null, sandbox_home_id = null where id = $1::uuid and epoch = $2::bigint and live',
    [lease.sessionId, lease.epoch],
  );
}

/**
 * Blocks a session until money is there again. It is its host's until that has kept what the session leaves, and lets go of it
 * (`leaveBlocked`): nobody takes it up before.
 */
export async function blockSession(sql: Sql, lease: Lease, reason: string): Promise<boolean> {
  const { rowCount } = await sql.query(
    `update svc.sessions set state = 'blocked', reason = $3::text where id = $1::uuid and epoch = $2::bigint and live`,
    [lease.sessionId, lease.epoch, storable(reason)],
  );
  return rowCount > 0;
}

/** Lets go of a session that is blocked. */
export async function leaveBlocked(sql: Sql, lease: Lease): Promise<void> {
  await sql.query(
    `update svc.sessions set leased_by = null, lease_until = null, token_hash = null, epoch = epoch + 1
      where id = $1::uuid and epoch = $2::bigint and live and state = 'blocked'`,
    [lease.sessionId, lease.epoch],
  );
}

export interface BlockedSession {
  readonly sessionId: string;
  readonly projectId: string;
  readonly agentId: string;
  readonly agent: string;
  readonly spec: Pick<AgentSpec, 'harness' | 'model' | 'spendCaps'>;
}

/**
 * Sessions that wait for a spend cap behind one (an id; null: from the first), in the order of ids, with what the spec that
 * they were started from says of models and money: blocked ones, and queued ones that a cap kept from their first launch.
 */
export async function blockedSessions(sql: Sql, after: string | null, limit: number): Promise<BlockedSession[]> {
  const columns = 'id, project_id, agent_id, agent, revision';
  const from = `id > coalesce($2::uuid, '${'0'.repeat(32)}'::uuid) order by id limit $1::int`;
  const { rows } = await sql.query<BlockedSession>(
    `with page as materialized (
       (select ${columns} from svc.sessions where state = 'blocked' and leased_by is null and ${from})
       union all (select ${columns} from svc.sessions where waits_for = 'cap' and live and ${from})
       order by id limit $1::int)
     select s.id as "sessionId", s.project_id as "projectId", s.agent_id as "agentId", s.agent,
            jsonb_strip_nulls(jsonb_build_object('harness', r.spec -> 'harness', 'model', r.spec -> 'model',
                                                 'spendCaps', r.spec -> 'spendCaps')) as spec
       from page s
       join svc.agent_revisions r on r.agent_id = s.agent_id and r.revision = s.revision order by s.id`,
    [limit, after],
    'blocked-sessions',
  );
  return rows;
}

/** Lets sessions that waited for a spend cap be taken up again. */
export async function unblockSessions(sql: Sql, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  await sql.query(
    `update svc.sessions s set reason = null, retry_at = null, waits_for = null,
         state = case when state = 'queued' then state
           when exists (select from svc.inbox i where i.session_id = s.id and i.state = 'pending')
           then 'suspended' else 'idle' end
      where id = any($1::uuid[]) and leased_by is null and (state = 'blocked' or (state = 'queued' and waits_for = 'cap'))`,
    [ids],
  );
}
