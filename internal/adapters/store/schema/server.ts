// What is asked of the database server itself, and of no table: whether it answers, and whether it takes writes.

import type { Sql } from './sql.ts';

/** Resolves when the server has answered. Throws what the connection throws. */
export async function ping(sql: Sql): Promise<void> {
  await sql.query('select 1');
}

/** Whether the server takes no writes at all, as a standby does. */
export async function isReadOnly(sql: Sql): Promise<boolean> {
  const { rows } = await sql.query<{ no: string }>(`select current_setting('transaction_read_only') as no`);
  return rows[0]?.no === 'on';
}
