// svc.review_drafts and svc.session_addresses: what a session has not sent yet, and what it may download. Both are of one
// session and go with it.

import type { Json } from '../../../domain/json.ts';
import { storable } from '../schema/text.ts';
import type { Sql } from '../store.ts';

interface DraftOf {
  readonly sessionId: string;
  /** In lower case. */
  readonly repository: string;
  readonly pull: number;
}
export interface Draft {
  readonly comments: readonly Json[];
  readonly commitId: string | null;
  readonly body: string | null;
}

/** What waits to be sent: not what a call has taken, unless it was refused. */
const whose = `session_id = $1::uuid and repository = $2::text and pull_number = $3::int and (submitting is null
  or exists (select from svc.calls c where c.id = submitting and c.status = 'refused'))`;

/** Adds a comment, or with null begins a review; answers with how many comments wait. */
export async function addDraft(
  sql: Sql,
  of: DraftOf,
  row: {
    readonly id: string;
    readonly comment: Json;
    readonly commitId: string | null;
    readonly body: string | null;
    readonly now: Date;
  },
): Promise<number> {
  await sql.query(
    `insert into svc.review_drafts (id, session_id, repository, pull_number, comment, commit_id, body, created_at)
     values ($4::uuid, $1::uuid, $2::text, $3::int, $5::jsonb, $6::text, $7::text, $8::timestamptz)`,
    [
      of.sessionId,
      of.repository,
      of.pull,
      row.id,
      row.comment === null ? null : JSON.stringify(row.comment),
      row.commitId,
      row.body,
      row.now,
    ],
  );
  const { rows } = await sql.query<{ n: number }>(
    `select count(*) filter (where comment is not null)::int as n from svc.review_drafts where ${whose}`,
    [of.sessionId, of.repository, of.pull],
  );
  return rows[0]?.n ?? 0;
}

/** What waits; undefined where nothing was begun. */
export async function readDraft(sql: Sql, of: DraftOf): Promise<Draft | undefined> {
  const { rows } = await sql.query<DraftRow>(
    `select comment, commit_id as "commitId", body from svc.review_drafts where ${whose} order by created_at, id`,
    [of.sessionId, of.repository, of.pull],
  );
  return draftOf(rows);
}

interface DraftRow {
  readonly comment: Json;
  readonly commitId: string | null;
  readonly body: string | null;
}
function draftOf(rows: readonly DraftRow[]): Draft | undefined {
  if (rows.length === 0) return undefined;
  return {
    comments: rows.flatMap((row) => (row.comment === null ? [] : [row.comment])),
    commitId: rows.findLast((row) => row.commitId !== null)?.commitId ?? null,
    body: rows.findLast((row) => row.body !== null)?.body ?? null,
  };
}

/** Takes what waits for a call to send; undefined where there is nothing. */
export async function takeDraft(sql: Sql, of: DraftOf, callId: string): Promise<Draft | undefined> {
  const { rows } = await sql.query<DraftRow>(
    `with taken as (update svc.review_drafts set submitting = $4::uuid where ${whose}
       returning id, comment, commit_id as "commitId", body, created_at)
     select * from taken order by created_at, id`,
    [of.sessionId, of.repository, of.pull, callId],
  );
  return draftOf(rows);
}

/** What a call has sent is gone. */
export async function dropSent(sql: Sql, callId: string): Promise<void> {
  await sql.query('delete from svc.review_drafts where submitting = $1::uuid', [callId]);
}

/** Drops what waits; answers with how many rows there were. */
export async function dropDraft(sql: Sql, of: DraftOf): Promise<number> {
  const { rowCount } = await sql.query(`delete from svc.review_drafts where ${whose}`, [
    of.sessionId,
    of.repository,
    of.pull,
  ]);
  return rowCount;
}

/** Notes addresses that stood in an answer to a session; 10,000 of one at most. */
export async function noteAddresses(sql: Sql, sessionId: string, addresses: readonly string[]): Promise<void> {
  if (addresses.length === 0) return;
  await sql.query(
    `insert into svc.session_addresses (session_id, address)
     select $1::uuid, a from unnest($2::text[]) a
      where (select count(*) from svc.session_addresses where session_id = $1::uuid) < 10000
     on conflict do nothing`,
    [sessionId, addresses.map(storable)],
  );
}

/** Whether an address stood in an answer to the session. */
export async function knowsAddress(sql: Sql, sessionId: string, address: string): Promise<boolean> {
  const { rows } = await sql.query<{ known: boolean }>(
    `select exists (select from svc.session_addresses where session_id = $1::uuid and address = $2::text) as known`,
    [sessionId, address],
  );
  return rows[0]?.known === true;
}

/** The event that a session was spawned for, and those that were delivered to it; the newest fifty. */
export async function eventsOfSession(sql: Sql, sessionId: string): Promise<string[]> {
  const { rows } = await sql.query<{ id: string }>(
    `select event_id as id from svc.sessions where id = $1::uuid and event_id is not null
     union select event_id from svc.inbox where session_id = $1::uuid and event_id is not null
     order by id desc limit 50`,
    [sessionId],
  );
  return rows.map((row) => row.id);
}
