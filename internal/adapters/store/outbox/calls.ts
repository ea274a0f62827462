// svc.calls: calls to the outside. Invariants: a write stands as `sending` before anything is sent; of one session and key,
// and of a project's own calls and key, at most one call is not refused (calls_once, calls_loose_once); whoever settles a row
// names itself, so that a daemon which was taken for dead changes nothing any more; a settled row changes once more at most,
// from `unknown` to `done`.

import type { Json, JsonObject } from '../../../domain/json.ts';
import { isOfConnection } from '../../../domain/outside.ts';
import type { OutboundClaim } from '../operations/in-hand.ts';
import { storable, storableJson } from '../schema/text.ts';
import type { Sql } from '../store.ts';

export type CallStatus = 'sending' | 'done' | 'refused' | 'unknown';

export interface CallRow {
  readonly id: string;
  readonly projectId: string;
  readonly sessionId: string | null;
  readonly provider: string;
  readonly connectionId: string | null;
  readonly alias: string;
  readonly tool: string;
  readonly write: boolean;
  readonly status: CallStatus;
  readonly code: string | null;
  readonly url: string | null;
  readonly createdAt: Date;
  readonly inputHash: Buffer | null;
  readonly probe: JsonObject | null;
  readonly handedAt: Date | null;
  readonly answer: Json;
}

const columns = (of: string): string =>
  `${of}.id, ${of}.project_id as "projectId", ${of}.session_id as "sessionId", ${of}.provider,
   ${of}.connection_id as "connectionId", ${of}.alias, ${of}.tool, ${of}.write, ${of}.status, ${of}.code, ${of}.url,
   ${of}.created_at as "createdAt", ${of}.input_hash as "inputHash", ${of}.probe, ${of}.handed_at as "handedAt",
   ${of}.answer`;

export interface NewCall {
  readonly id: string;
  readonly projectId: string;
  readonly sessionId: string | null;
  readonly provider: string;
  readonly connectionId: string | null;
  readonly alias: string;
  readonly tool: string;
  readonly now: Date;
}

export interface NewWrite extends NewCall {
  readonly idempotencyKey: string | null;
  readonly inputHash: Buffer;
  readonly daemonId: string;
  readonly leaseSeconds: number;
}

/** False where a call of the session, or for none one of the project, has the key already and was not refused. */
export async function openWrite(sql: Sql, row: NewWrite): Promise<boolean> {
  const { rowCount } = await sql.query(
    `insert into svc.calls (id, project_id, session_id, provider, connection_id, alias, tool, write, status, created_at,
       idempotency_key, input_hash, daemon_id, lease_until)
     values ($1::uuid, $2::uuid, $3::uuid, $4::text, $5::uuid, $6::text, $7::text, true, 'sending', $8::timestamptz,
       $9::text, $10::bytea, $11::uuid, now() + make_interval(secs => $12::int))
     on conflict do nothing`,
    [
      row.id,
      row.projectId,
      row.sessionId,
      row.provider,
      row.connectionId,
      row.alias,
      row.tool,
      row.now,
      row.idempotencyKey,
      row.inputHash,
      row.daemonId,
      row.leaseSeconds,
    ],
    'open-write',
  );
  return rowCount === 1;
}

/** The call that holds a key: of the session, or of the project where there is none. */
export async function callOfKey(
  sql: Sql,
  { projectId, sessionId }: Pick<CallRow, 'projectId' | 'sessionId'>,
  key: string,
): Promise<CallRow | undefined> {
  const { rows } = await sql.query<CallRow>(
    `select ${columns('c')} from svc.calls c
      where c.idempotency_key = $2::text and c.status <> 'refused'
        and ${sessionId === null ? 'c.session_id is null and c.project_id = $1::uuid' : 'c.session_id = $1::uuid'}`,
    [sessionId ?? projectId, key],
  );
  return rows[0];
}

/**
 * Notes that a step goes to the network now, with what finding out about it later needs. False where the row is not this
 * daemon's any more: then nothing may be sent.
 */
export async function handOver(
  sql: Sql,
  of: { readonly id: string; readonly daemonId: string; readonly probe: JsonObject; readonly leaseSeconds: number },
): Promise<boolean> {
  const { rowCount } = await sql.query(
    `update svc.calls set handed_at = now(), probe = $3::jsonb, lease_until = now() + make_interval(secs => $4::int)
      where id = $1::uuid and daemon_id = $2::uuid and status = 'sending'`,
    [of.id, of.daemonId, storableJson(of.probe), of.leaseSeconds],
    'hand-over',
  );
  return rowCount === 1;
}

/** A call that is under way stays its daemon's, however long it takes; of one that another daemon took over nothing changes. */
export async function keepWrite(
  sql: Sql,
  of: { readonly id: string; readonly daemonId: string; readonly leaseSeconds: number },
): Promise<void> {
  await sql.query(
    `update svc.calls set lease_until = now() + make_interval(secs => $3::int)
      where id = $1::uuid and daemon_id = $2::uuid and status = 'sending'`,
    [of.id, of.daemonId, of.leaseSeconds],
  );
}

export interface Settlement {
  readonly id: string;
  readonly daemonId: string;
  readonly status: 'done' | 'refused' | 'unknown';
  readonly code: string | null;
  readonly url: string | null;
  /** Of what is done; kept for a repeat under its key. */
  readonly answer: Json | null;
}

/** The answer as it is kept, which is what a repeat gets; undefined where the row is not this daemon's any more. */
export async function settleWrite(sql: Sql, of: Settlement): Promise<{ readonly answer: Json } | undefined> {
  const { rows } = await sql.query<{ readonly answer: Json }>(
    `with settled as (
       update svc.calls set status = $3::text, code = $4::text, url = $5::text, answer = $6::jsonb, settled_at = now(),
           lease_until = null
        where id = $1::uuid and daemon_id = $2::uuid and status = 'sending' returning connection_id, answer),
     counted as (update svc.connections c set failed_calls = c.failed_calls + 1
       from settled s where c.id = s.connection_id and $7::boolean)
     select answer from settled`,
    [
      of.id,
      of.daemonId,
      of.status,
      of.code,
      of.url === null ? null : storable(of.url),
      of.answer === null ? null : storableJson(of.answer),
      isOfConnection(of.code),
    ],
    'settle-write',
  );
  return rows[0];
}

/** An unknown outcome that was found to have happened, with its answer as it is kept; as it is found where somebody else has said so already. */
export async function settleFound(
  sql: Sql,
  of: { readonly id: string; readonly url: string | null; readonly answer: Json },
): Promise<Json> {
  const { rows } = await sql.query<{ readonly answer: Json }>(
    `update svc.calls set status = 'done', code = null, url = $2::text, answer = $3::jsonb
      where id = $1::uuid and status = 'unknown' returning answer`,
    [of.id, of.url === null ? null : storable(of.url), storableJson(of.answer)],
  );
  return rows[0] === undefined ? of.answer : rows[0].answer;
}

/** A call that reads, or one that was refused before it was anything: it stands as it ended. */
export async function noteCall(
  sql: Sql,
  row: NewCall & { readonly write: boolean; readonly status: 'done' | 'refused'; readonly code: string | null },
): Promise<void> {
  await sql.query(
    `with counted as (update svc.connections set failed_calls = failed_calls + 1 where id = $5::uuid and $12::boolean)
     insert into svc.calls (id, project_id, session_id, provider, connection_id, alias, tool, write, status, code,
       created_at, settled_at)
     values ($1::uuid, $2::uuid, $3::uuid, $4::text, $5::uuid, $6::text, $7::text, $8::boolean, $9::text, $10::text,
       $11::timestamptz, $11::timestamptz)`,
    [
      row.id,
      row.projectId,
      row.sessionId,
      row.provider,
      row.connectionId,
      row.alias,
      row.tool,
      row.write,
      row.status,
      row.code,
      row.now,
      isOfConnection(row.code),
    ],
    'note-call',
  );
}

/**
 * Takes over writes whose daemon is gone, or is past its lease: each by one daemon. A daemon writes its own row soon after
 * it begins to serve, hence the ten seconds.
 */
export async function takeAbandoned(sql: Sql, by: OutboundClaim): Promise<CallRow[]> {
  const { rows } = await sql.query<CallRow>(
    `with gone as (
       select c.id from svc.calls c
        where c.status = 'sending' and c.project_id <> all($4::uuid[]) and (c.lease_until < now() or (c.created_at < now() - interval '10 seconds'
          and not exists (select from svc.daemons d where d.id = c.daemon_id)))
        order by c.id limit $3::int for update of c skip locked)
     update svc.calls c set daemon_id = $1::uuid, lease_until = now() + make_interval(secs => $2::int)
       from gone where c.id = gone.id returning ${columns('c')}`,
    [by.daemonId, by.leaseSeconds, by.limit, by.busy],
  );
  return rows;
}

/** Calls of a session, or with `sessionId` null those of no session; newest first. */
export async function listCalls(
  sql: Sql,
  of: {
    readonly projectId: string;
    readonly sessionId: string | null;
    readonly before: string | undefined;
    readonly limit: number;
  },
): Promise<CallRow[]> {
  const whose = of.sessionId === null ? 'c.session_id is null and $2::uuid is null' : 'c.session_id = $2::uuid';
  const { rows } = await sql.query<CallRow>(
    `select ${columns('c')} from svc.calls c
      where c.project_id = $1::uuid and ${whose} and ($3::uuid is null or c.id < $3::uuid)
      order by c.id desc limit $4::int`,
    [of.projectId, of.sessionId, of.before ?? null, of.limit],
  );
  return rows;
}

/** Forgets calls of no session that ended before then; those of a session go with it. */
export async function forgetCalls(sql: Sql, before: Date, limit: number): Promise<number> {
  const { rowCount } = await sql.query(
    `delete from svc.calls where id in (
       select id from svc.calls where session_id is null and settled_at < $1::timestamptz limit $2::int)`,
    [before, limit],
  );
  return rowCount;
}
