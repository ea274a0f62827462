// What is stored, as text to compare: how many rows each table holds and which transaction wrote last, so that an update
// without a change shows too. Tables that tell of runs and polls are left out where asked for.

import type { Sql } from '../adapters/store/store.ts';

/** Rows that a sync writes about itself, and the entry that somebody asked for it. */
const aboutRuns = ['audit', 'daemons', 'in_hand', 'reconciles', 'repository_states', 'repository_polls', 'sync_wishes'];

export async function rowsOf(sql: Sql, leaveOut: readonly string[] = aboutRuns): Promise<string> {
  const { rows: tables } = await sql.query<{ name: string }>(
    `select format('%I.%I', schemaname, tablename) as name from pg_tables
     where schemaname = 'svc' and tablename <> all ($1::text[]) order by 1`,
    [leaveOut],
  );
  const lines: string[] = [];
  for (const { name } of tables) {
    const { rows } = await sql.query<{ line: string }>(
      `select count(*) || ' ' || coalesce(max(xmin::text::bigint), 0) as line from ${name}`,
    );
    lines.push(`${name} ${rows[0]?.line}`);
  }
  return lines.join('\n');
}

export async function agentsCount(sql: Sql): Promise<number> {
  const { rows } = await sql.query<{ count: number }>('select count(*)::int as count from svc.agents');
  return rows[0]?.count ?? 0;
}
