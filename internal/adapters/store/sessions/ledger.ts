// The ledger of model calls, its sums, and the calls in flight.
// Invariants: a request id is in the ledger once, and the sums of its agent's UTC day and of its session hold exactly the
// rows of the ledger, since one statement appends and adds; a call in flight is in `usage_open` until that statement.
// Amounts are decimal strings on both sides: PostgreSQL's numeric is exact.

import type { ModelProvider } from '../../../domain/spec.ts';
import type { SpendCaps } from '../../../core/money/money.ts';
import type { Sql } from '../store.ts';

/** Whose money it is. */
export interface Spender {
  readonly projectId: string;
  readonly agentId: string;
  readonly agentName: string;
  readonly sessionId: string;
}
export interface OpenCall extends Spender {
  readonly requestId: string;
  readonly startedAt: Date;
  readonly provider: ModelProvider;
  readonly model: string;
  readonly inputTokens: number;
  /** Decimal string; null without a known price. */
  readonly reservedUsd: string | null;
}
export interface LedgerEntry extends Spender {
  readonly requestId: string;
  readonly at: Date;
  readonly provider: ModelProvider;
  readonly model: string;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cacheReadTokens: number;
  readonly cacheWriteTokens: number;
  /** Decimal string; null where nobody knows it. */
  readonly costUsd: string | null;
  readonly estimated: boolean;
  /** `YYYY-MM-DD`. */
  readonly priceDate: string | null;
}
/** Sums of ledger rows; `costUsd` leaves the `unpricedCalls` out. */
export interface UsageSum {
  readonly calls: number;
  readonly unpricedCalls: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cacheReadTokens: number;
  readonly cacheWriteTokens: number;
  readonly costUsd: string;
}

/** A call that is in flight for longer than this is nobody's any more. */
const abandoned = `interval '1 hour'`;
const spender = `project_id as "projectId", agent_id as "agentId", agent_name as "agentName", session_id as "sessionId"`;
const summedColumns = ['input_tokens', 'output_tokens', 'cache_read_tokens', 'cache_write_tokens', 'cost_usd'] as const;
const counted = ['calls', 'unpriced_calls', ...summedColumns] as const;

/** Adds an excluded row to the one that is there: the row lock makes parallel additions follow each other. */
const adding = (table: string): string =>
  counted.map((column) => `${column} = ${table}.${column} + excluded.${column}`).join(', ');

/**
 * Appends one call to the ledger and to its sums, and ends it in flight. False, and nothing is counted, when its request
 * id is there already.
 */
export async function recordCall(sql: Sql, entry: LedgerEntry): Promise<boolean> {
  const { rowCount } = await sql.query(
    `with ended as (delete from svc.usage_open where request_id = $1::uuid),
     row as (
       insert into svc.usage_ledger (request_id, project_id, agent_id, agent_name, session_id, at, provider, model,
           input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_usd, estimated, price_date)
       values ($1::uuid, $2::uuid, $3::uuid, $4::text, $5::uuid, $6::timestamptz, $7::text, $8::text,
           $9::bigint, $10::bigint, $11::bigint, $12::bigint, $13::numeric, $14::boolean, $15::date)
       on conflict (request_id) do nothing returning *),
     sums as (
       select *, (at at time zone 'UTC')::date as day, 1 as calls, (cost_usd is null)::int as unpriced_calls,
              coalesce(cost_usd, 0) as cost from row),
     days as (
       insert into svc.usage_days (agent_id, day, project_id, ${counted.join(', ')})
       select agent_id, day, project_id, calls, unpriced_calls, input_tokens, output_tokens, cache_read_tokens,
              cache_write_tokens, cost from sums
       on conflict (agent_id, day) do update set ${adding('usage_days')})
     insert into svc.usage_sessions (session_id, project_id, agent_id, ${counted.join(', ')})
     select session_id, project_id, agent_id, calls, unpriced_calls, input_tokens, output_tokens, cache_read_tokens,
            cache_write_tokens, cost from sums
     on conflict (session_id) do update set agent_id = excluded.agent_id, ${adding('usage_sessions')}`,
    [
      entry.requestId,
      entry.projectId,
      entry.agentId,
      entry.agentName,
      entry.sessionId,
      entry.at,
      entry.provider,
      entry.model,
      entry.inputTokens,
      entry.outputTokens,
      entry.cacheReadTokens,
      entry.cacheWriteTokens,
      entry.costUsd,
      entry.estimated,
      entry.priceDate,
    ],
    'ledger-record',
  );
  return rowCount === 1;
}

/** Notes a call before it is sent. */
export async function openCall(sql: Sql, call: OpenCall): Promise<void> {
  await sql.query(
    `insert into svc.usage_open (request_id, project_id, agent_id, agent_name, session_id, started_at, provider, model,
         input_tokens, reserved_usd)
     values ($1::uuid, $2::uuid, $3::uuid, $4::text, $5::uuid, $6::timestamptz, $7::text, $8::text, $9::bigint,
         $10::numeric)`,
    [
      call.requestId,
      call.projectId,
      call.agentId,
      call.agentName,
      call.sessionId,
      call.startedAt,
      call.provider,
      call.model,
      call.inputTokens,
      call.reservedUsd,
    ],
    'ledger-open',
  );
}

/** Ends a call in flight that cost nothing. */
export async function dropCall(sql: Sql, requestId: string): Promise<void> {
  await sql.query('delete from svc.usage_open where request_id = $1::uuid', [requestId]);
}

/** Calls that no one will end: those of a session whose host is gone, and any that is in flight for too long. */
export async function abandonedCalls(sql: Sql, sessionId: string, now: Date): Promise<OpenCall[]> {
  const { rows } = await sql.query<OpenCall>(
    `select request_id as "requestId", ${spender}, started_at as "startedAt", provider, model,
            input_tokens as "inputTokens", reserved_usd::text as "reservedUsd"
       from svc.usage_open
      where session_id = $1::uuid or started_at < $2::timestamptz - ${abandoned}
      order by started_at, request_id limit 1000`,
    [sessionId, now],
  );
  return rows;
}

/** The caps that the agent has now; undefined where the agent is gone. */
export async function currentCaps(sql: Sql, agentId: string): Promise<SpendCaps | undefined> {
  const { rows } = await sql.query<{ caps: SpendCaps | null }>(
    `select spec -> 'spendCaps' as caps from svc.agents where id = $1::uuid`,
    [agentId],
    'ledger-caps',
  );
  return rows[0] === undefined ? undefined : (rows[0].caps ?? {});
}

/** Until the end of the transaction, nobody else decides about this agent's caps. */
export async function lockMoney(tx: Sql, agentId: string): Promise<void> {
  await tx.query(`select pg_advisory_xact_lock(7370002, hashtext($1::text))`, [agentId]);
}

export interface Spendings {
  readonly session: string;
  readonly day: string;
  readonly month: string;
  readonly unpricedCalls: number;
  /** Held by calls in flight: of the session, of the agent. */
  readonly reservedSession: string;
  readonly reserved: string;
  /** Calls of the agent in flight that hold nothing, since nobody knows what they may cost. */
  readonly unreservedCalls: number;
}

/** What was spent by a session, and by its agent on the UTC day and in the UTC month of `now`. */
export async function spendings(sql: Sql, of: Pick<Spender, 'agentId' | 'sessionId'>, now: Date): Promise<Spendings> {
  const { rows } = await sql.query<Spendings>(
    `with today as (select ($3::timestamptz at time zone 'UTC')::date as day)
     select coalesce(s.cost_usd, 0)::text as session, coalesce(s.unpriced_calls, 0) as "unpricedCalls",
            coalesce(d.day, 0)::text as day, coalesce(d.month, 0)::text as month,
            coalesce(o.session, 0)::text as "reservedSession", coalesce(o.agent, 0)::text as reserved,
            o.unreserved as "unreservedCalls"
       from today
       left join svc.usage_sessions s on s.session_id = $2::uuid
       cross join lateral (
         select sum(cost_usd) filter (where u.day = today.day) as day, sum(cost_usd) as month
           from svc.usage_days u
          where u.agent_id = $1::uuid and u.day between date_trunc('month', today.day::timestamp)::date and today.day) d
       cross join lateral (
         select sum(reserved_usd) filter (where session_id = $2::uuid) as session, sum(reserved_usd) as agent,
                count(*) filter (where reserved_usd is null) as unreserved
           from svc.usage_open where agent_id = $1::uuid and started_at > $3::timestamptz - ${abandoned}) o`,
    [of.agentId, of.sessionId, now],
    'ledger-spendings',
  );
  return rows[0] as Spendings;
}

/** The most that a provider has lately said a token of this model cost, US dollars; null where it never said. */
export async function dearestToken(sql: Sql, provider: ModelProvider, model: string): Promise<string | null> {
  const { rows } = await sql.query<{ rate: string | null }>(
    `select round(max(cost_usd / tokens), 18)::text as rate from (
       select cost_usd, input_tokens + output_tokens + cache_read_tokens + cache_write_tokens as tokens
         from svc.usage_ledger
        where provider = $1::text and model = $2::text and price_date is null and not estimated
        order by id desc limit 50) told
      where tokens > 0`,
    [provider, model],
  );
  return rows[0]?.rate ?? null;
}

const sumsFrom = (table: string, where: string): string =>
  `select ${counted.map((column) => `coalesce(sum(${column}), 0)::text as ${column}`).join(', ')} from ${table} where ${where}`;

type Row = { readonly [column in (typeof counted)[number]]: string };
const summed = (row: Row | undefined): UsageSum => ({
  calls: Number(row?.calls ?? 0),
  unpricedCalls: Number(row?.unpriced_calls ?? 0),
  inputTokens: Number(row?.input_tokens ?? 0),
  outputTokens: Number(row?.output_tokens ?? 0),
  cacheReadTokens: Number(row?.cache_read_tokens ?? 0),
  cacheWriteTokens: Number(row?.cache_write_tokens ?? 0),
  costUsd: row?.cost_usd ?? '0',
});

/** What each of these sessions has used; one that called no model is not in it. */
export async function usageOfSessions(sql: Sql, sessionIds: readonly string[]): Promise<ReadonlyMap<string, UsageSum>> {
  const { rows } = await sql.query<Row & { id: string }>(
    `select session_id as id, ${counted.map((column) => `${column}::text`).join(', ')}
       from svc.usage_sessions where session_id = any($1::uuid[])`,
    [sessionIds],
  );
  return new Map(rows.map((row) => [row.id, summed(row)]));
}

/** What a session, an agent or a whole project has used; of the last two from one UTC day on, when given. */
export async function usageOf(
  sql: Sql,
  of: { readonly sessionId: string } | { readonly agentId: string } | { readonly projectId: string },
  since?: string,
): Promise<UsageSum> {
  if ('sessionId' in of) {
    const { rows } = await sql.query<Row>(sumsFrom('svc.usage_sessions', 'session_id = $1::uuid'), [of.sessionId]);
    return summed(rows[0]);
  }
  const [column, id] = 'agentId' in of ? ['agent_id', of.agentId] : ['project_id', of.projectId];
  const text = sumsFrom('svc.usage_days', `${column} = $1::uuid and day >= coalesce($2::date, '-infinity')`);
  const { rows } = await sql.query<Row>(text, [id, since ?? null]);
  return summed(rows[0]);
}
