// svc.checks: one row per check and cycle on a pull request (docs/reference/checks.md#states). One cycle of an agent's check is current at
// a time, which a unique index holds; the next supersedes it in the transaction that queues it. `reported` is false from
// every change of state until the code host knows of it. What a state leads to is decided in core/session.

import { createCheck, nextDeadlineOf } from '../../../core/session/session.ts';
import type { CheckSpec, CheckDeadline } from '../../../domain/spec.ts';
import type { OutboundClaim } from '../operations/in-hand.ts';
import type { Sql } from '../store.ts';

/** A qualifying event on a pull request: the next cycle of each check that the trigger declares. */
export interface NewCycle {
  readonly projectId: string;
  readonly agentId: string;
  readonly agent: string;
  readonly ordinal: number;
  readonly eventId: string;
  readonly connectionId: string | null;
  /** Of the target `codehost.pull_request`. */
  readonly targetKey: string;
  readonly headSha: string;
  /** Whose tools begin and conclude them; null where no session got the event. */
  readonly sessionId: string | null;
  readonly checks: readonly CheckSpec[];
}

export type CheckState = 'queued' | 'in_progress' | 'concluded' | 'superseded';

export interface CheckRow {
  readonly id: string;
  readonly projectId: string;
  readonly agentId: string;
  readonly agent: string;
  readonly connectionId: string | null;
  readonly targetKey: string;
  readonly name: string;
  /** From 1. */
  readonly cycle: number;
  readonly headSha: string;
  /** As it was declared when the cycle began. */
  readonly spec: CheckSpec;
  readonly state: CheckState;
  readonly conclusion: CheckDeadline['conclusion'] | null;
  readonly title: string | null;
  readonly summary: string | null;
  readonly timedOut: boolean;
  readonly deadlineAt: Date | null;
  readonly sessionId: string | null;
  /** The code host's own id of it. */
  readonly externalId: string | null;
  /** Raised by every change, so that a report of an older state is told from one of this. */
  readonly changes: number;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

/** Notified by every transaction that starts a deadline. */
export const deadlinesChannel = 'svc_check_deadlines';

const columns = `c.id, c.project_id as "projectId", c.agent_id as "agentId", c.agent, c.connection_id as "connectionId",
  c.target_key as "targetKey", c.name, c.cycle, c.head_sha as "headSha", c.spec, c.state, c.conclusion, c.title, c.summary,
  c.timed_out as "timedOut", c.deadline_at as "deadlineAt", c.session_id as "sessionId", c.external_id as "externalId", c.changes,
  c.created_at as "createdAt", c.updated_at as "updatedAt"`;

/**
 * Queues the next cycle of every check given and supersedes the cycles before, inside the transaction that routes. Of
 * several cycles of one check in a call the last is current. An event that has begun its cycle has begun it.
 */
export async function beginChecks(tx: Sql, now: Date, cycles: readonly NewCycle[]): Promise<void> {
  const fresh = await notBegun(
    tx,
    cycles.filter((one) => one.checks.length > 0),
  );
  if (fresh.length === 0) return;
  const rows = fresh
    .flatMap(({ checks, ...one }) => checks.map((spec) => ({ ...one, name: spec.name, spec })))
    .map((row, at) => {
      const deadline = nextDeadlineOf(createCheck(row.spec, row.headSha, now.getTime(), null));
      return { ...row, at, deadlineAt: deadline === null ? null : new Date(deadline) };
    });
  const input = JSON.stringify(rows);
  await tellDeadlines(tx, rows);
  // So goes aside what the agent had of checks that it declares no more, wherever among its triggers they stood.
  await tx.query(
    `update svc.checks c set state = 'superseded', conclusion = null, deadline_at = null, reported = false,
            report_after = null, report_error = null, changes = c.changes + 1, updated_at = $2::timestamptz
       from (select "agentId", "targetKey", array_agg(name) as names from json_to_recordset($1::json)
               as (name text, "agentId" uuid, "targetKey" text) group by 1, 2) i
      where c.agent_id = i."agentId" and c.target_key = i."targetKey" and c.state <> 'superseded'
        and (c.name = any(i.names) or not exists (
          select from svc.triggers t
           where t.agent_id = c.agent_id and t.spec -> 'checks' @> jsonb_build_array(jsonb_build_object('name', c.name))))`,
    [input, now],
  );
  await tx.query(
    `insert into svc.checks (id, project_id, agent_id, agent, connection_id, target_key, name, cycle, head_sha, spec,
        state, deadline_at, event_id, ordinal, session_id, created_at, updated_at)
     select gen_random_uuid(), "projectId", "agentId", agent, "connectionId", "targetKey", name,
            coalesce((select max(c.cycle) from svc.checks c where c.agent_id = i."agentId"
              and c.target_key = i."targetKey" and c.name = i.name), 0) + row_number() over named,
            "headSha", spec, case when lead(at) over named is null then 'queued' else 'superseded' end,
            case when lead(at) over named is null then "deadlineAt" end,
            "eventId", ordinal, "sessionId", $2::timestamptz, $2::timestamptz
       from json_to_recordset($1::json) as i (at int, "projectId" uuid, "agentId" uuid, agent text, "connectionId" uuid,
              "targetKey" text, name text, "headSha" text, spec jsonb, "deadlineAt" timestamptz, "eventId" uuid,
              ordinal int, "sessionId" uuid)
     window named as (partition by "agentId", "targetKey", name order by at)`,
    [input, now],
  );
}

async function tellDeadlines(tx: Sql, checks: readonly { readonly deadlineAt: Date | null }[]): Promise<void> {
  if (checks.every((check) => check.deadlineAt === null)) return;
  await tx.query(`select svc.tell('${deadlinesChannel}', '')`);
}

/** Those whose event has not begun its cycle yet; one transaction at a time per pull request gets past here. */
async function notBegun(tx: Sql, cycles: readonly NewCycle[]): Promise<readonly NewCycle[]> {
  if (cycles.length === 0) return [];
  await tx.query(
    `select pg_advisory_xact_lock(hashtextextended(key, 0))
       from (select distinct key from unnest($1::text[]) as u (key) order by key) k`,
    [cycles.map((one) => `check ${one.agentId} ${one.targetKey}`)],
  );
  const { rows } = await tx.query<{ key: string }>(
    `select distinct event_id || ' ' || agent_id || ' ' || ordinal as key from svc.checks
      where agent_id = any($1::uuid[]) and target_key = any($2::text[]) and event_id = any($3::uuid[])`,
    [cycles.map((one) => one.agentId), cycles.map((one) => one.targetKey), cycles.map((one) => one.eventId)],
  );
  const begun = new Set(rows.map((row) => row.key));
  return cycles.filter((one) => !begun.has(`${one.eventId} ${one.agentId} ${one.ordinal}`));
}

/** A session that stands in the place of another. */
interface Successor {
  readonly sessionId: string;
  readonly before: string;
}

/** What sessions had of checks, those aside excepted, is their successors': nobody else could begin or conclude it. */
export async function passChecks(tx: Sql, successors: readonly Successor[]): Promise<void> {
  if (successors.length === 0) return;
  await tx.query(
    `update svc.checks c set session_id = u.successor from unnest($1::uuid[], $2::uuid[]) as u (successor, before)
      where c.session_id = u.before and c.state <> 'superseded'`,
    [successors.map((one) => one.sessionId), successors.map((one) => one.before)],
  );
}

const newest = `select distinct on (c.agent_id, c.target_key, c.name) ${columns} from svc.checks c`;
const newestOrder = 'order by c.agent_id, c.target_key, c.name, c.cycle desc';

/** A session's checks, by pull request and name, each in its latest cycle that the session got. */
export async function listChecks(sql: Sql, sessionId: string): Promise<CheckRow[]> {
  const { rows } = await sql.query<CheckRow>(`${newest} where c.session_id = $1::uuid ${newestOrder}`, [sessionId]);
  return rows;
}

/**
 * Locks a check of that name that the session got, with the organization that it belongs to: of those on several pull
 * requests the last one in the state that is asked for, else the last that stands.
 */
export async function lockCheck(
  tx: Sql,
  sessionId: string,
  { name, state }: Pick<CheckRow, 'name' | 'state'>,
): Promise<(CheckRow & { readonly orgId: string }) | undefined> {
  const { rows } = await tx.query<CheckRow & { orgId: string }>(
    `select ${columns}, p.org_id as "orgId" from svc.checks c join svc.projects p on p.id = c.project_id
      where c.session_id = $1::uuid and c.name = $2::text
      order by c.state <> $3::text, c.state = 'superseded', c.created_at desc, c.cycle desc, c.target_key, c.id
      limit 1 for update of c`,
    [sessionId, name, state],
  );
  return rows[0];
}

/** Locks checks whose deadline has passed, at most `limit`; those that somebody else has locked are passed over. */
export async function claimOverdueChecks(
  tx: Sql,
  now: Date,
  limit: number,
): Promise<(CheckRow & { readonly orgId: string })[]> {
  const { rows } = await tx.query<CheckRow & { orgId: string }>(
    `select ${columns}, p.org_id as "orgId" from svc.checks c join svc.projects p on p.id = c.project_id
      where c.deadline_at <= $1::timestamptz and c.state in ('queued', 'in_progress')
      order by c.deadline_at, c.id limit $2::int for update of c skip locked`,
    [now, limit],
  );
  return rows;
}

export type CheckWrite = Pick<
  CheckRow,
  'id' | 'state' | 'conclusion' | 'title' | 'summary' | 'timedOut' | 'deadlineAt'
>;

/** Writes what locked checks have become; the code host is to hear of it. */
export async function writeChecks(tx: Sql, now: Date, checks: readonly CheckWrite[]): Promise<void> {
  if (checks.length === 0) return;
  await tellDeadlines(tx, checks);
  await tx.query(
    `update svc.checks c set state = w.state, conclusion = w.conclusion, title = w.title, summary = w.summary,
            timed_out = w."timedOut", deadline_at = w."deadlineAt", reported = false, report_after = null,
            report_error = null, changes = c.changes + 1, updated_at = $2::timestamptz
       from json_to_recordset($1::json) as w (id uuid, state text, conclusion text, title text, summary text,
         "timedOut" boolean, "deadlineAt" timestamptz)
      where c.id = w.id`,
    [JSON.stringify(checks), now],
  );
}

/** When the next deadline passes; null where none runs. */
export async function nextCheckDeadline(sql: Sql): Promise<Date | null> {
  const { rows } = await sql.query<{ at: Date }>(
    `select deadline_at as at from svc.checks
      where deadline_at is not null and state in ('queued', 'in_progress') order by deadline_at limit 1`,
    [],
    'next-check',
  );
  return rows[0]?.at ?? null;
}

/**
 * Claims changes that the code host has not heard of, oldest first, for so long: whoever dies with one leaves it to the
 * next. What has changed again is not claimed by another while it is being told, or the code host would be told of a check
 * that it does not know yet twice. All times are the database's. A check without a connection is told to nobody.
 */
export async function claimUnreported(sql: Sql, by: OutboundClaim): Promise<ClaimedCheck[]> {
  const { rows } = await sql.query<ClaimedCheck>(
    `with due as (
       select d.id from svc.checks d
        where not d.reported and d.connection_id is not null and d.report_error is null and d.project_id <> all($4::uuid[])
          and (((d.report_after is null or d.report_after <= now()) and (d.reporting_until is null or d.reporting_until <= now()))
            or (d.reporting_by is not null and not exists (select from svc.daemons x where x.id = d.reporting_by)))
        order by d.updated_at limit $3::int for update skip locked)
     update svc.checks c set reporting_by = $1::uuid, report_after = l.until, reporting_until = l.until
       from due, (select date_trunc('milliseconds', now()) + make_interval(secs => $2::int) as until) l where c.id = due.id
     returning ${columns}, c.reporting_until as "claimedUntil"`,
    [by.daemonId, by.leaseSeconds, by.limit, by.busy],
  );
  return rows;
}

export type ClaimedCheck = CheckRow & { readonly claimedUntil: Date };

/** The code host's answer to the state that a claim has read; a change since then is still to be told. */
export type ReportAnswer =
  | { readonly id: string; readonly seen: number; readonly externalId: string | null }
  | { readonly id: string; readonly seen: number; readonly afterMs: number }
  | { readonly id: string; readonly seen: number; readonly error: string };

/** `claimedUntil`: as the claim was, whose end this is; one that another has taken over since goes on. */
export async function writeReports(sql: Sql, answers: readonly ReportAnswer[], claimedUntil: Date): Promise<void> {
  if (answers.length === 0) return;
  await sql.query(
    `update svc.checks c set external_id = coalesce(w."externalId", c.external_id),
            reported = c.changes = w.seen and w."afterMs" is null and w.error is null,
            report_after = now() + make_interval(secs => w."afterMs" / 1000),
            reporting_until = case when c.reporting_until is distinct from $2::timestamptz then c.reporting_until end,
            reporting_by = case when c.reporting_until is distinct from $2::timestamptz then c.reporting_by end,
            report_error = case when c.changes = w.seen then left(w.error, 1000) end
       from json_to_recordset($1::json) as w (id uuid, seen int, "externalId" text, "afterMs" float8, error text)
      where c.id = w.id`,
    [JSON.stringify(answers), claimedUntil],
  );
}

/** What the code host could not be told through a connection is to be told again; what is parked for `parked` stays. */
export async function retryReports(
  tx: Sql,
  at: { readonly projectId: string; readonly connectionId: string; readonly parked: string },
): Promise<void> {
  await tx.query(
    `update svc.checks set report_error = null, report_after = null
      where project_id = $1::uuid and connection_id = $2::uuid and not reported and report_error is not null
        and report_error <> $3::text`,
    [at.projectId, at.connectionId, at.parked],
  );
}
