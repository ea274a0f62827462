// Whether the transcript of a session is whole up to a message. Numbers are drawn before they commit, so that a later one may
// be seen first, and between two numbers of a session lie those of others: a gap says nothing. What does is the
// writers. Each has its transaction's id before it draws a number, so that once every transaction has ended that had one
// when a message was read, nothing can come before that message any more.

import type { Sql } from '../store.ts';

/** Marks this moment among the transactions that write: all that have begun to write have a lower id than the mark. */
export async function markWriters(sql: Sql): Promise<string> {
  const { rows } = await sql.query<{ id: string }>('select pg_current_xact_id()::text as id');
  return rows[0]?.id ?? '';
}

/** Whether all that wrote at the mark have ended: what is read from now on has what they wrote. */
export async function haveWritersEnded(sql: Sql, mark: string): Promise<boolean> {
  const { rows } = await sql.query<{ ended: boolean }>(
    'select pg_snapshot_xmin(pg_current_snapshot()) >= $1::xid8 as ended',
    [mark],
  );
  return rows[0]?.ended === true;
}
