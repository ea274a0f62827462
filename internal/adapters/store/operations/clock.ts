// The server's time, by which all daemons of a database go.

import type { Sql } from '../store.ts';

/** Milliseconds since 1970, at the moment in which it is asked. */
export async function serverTime(sql: Sql): Promise<number> {
  const { rows } = await sql.query<{ ms: string }>(
    'select (extract(epoch from clock_timestamp()) * 1000)::text as ms',
    [],
    'server-time',
  );
  return Number(rows[0]?.ms);
}
