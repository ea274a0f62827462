// svc.rejected_deliveries. Invariant: a row is of one endpoint or connection, and counts what was refused there without a day
// of quiet between; older rows go when a newer one is written.

import type { Sql } from '../store.ts';

export interface Rejected {
  readonly kind: 'endpoint' | 'connection';
  readonly name: string;
  readonly count: number;
  readonly why: string;
  readonly lastAt: Date;
}

const quiet = `interval '1 day'`;

/** Adds to what was refused at an endpoint or connection. Nothing where its project is gone. */
export async function noteRejected(
  sql: Sql,
  row: {
    readonly id: string;
    readonly kind: 'endpoint' | 'connection';
    readonly projectId: string;
    readonly name: string;
    readonly count: number;
    readonly why: string;
  },
): Promise<void> {
  await sql.query(
    `with old as (delete from svc.rejected_deliveries where last_at < now() - ${quiet} and subject_id <> $1::uuid)
     insert into svc.rejected_deliveries as r (subject_id, kind, project_id, name, count, why)
       select $1::uuid, $2::text, p.id, $4::text, $5::bigint, $6::text from svc.projects p where p.id = $3::uuid
     on conflict (subject_id) do update set
       count = excluded.count + case when r.last_at < now() - ${quiet} then 0 else r.count end,
       first_at = case when r.last_at < now() - ${quiet} then now() else r.first_at end,
       name = excluded.name, why = excluded.why, last_at = now()`,
    [row.id, row.kind, row.projectId, row.name, row.count, row.why],
  );
}

/** What was refused in a project within a day, the latest first. */
export async function readRejected(sql: Sql, projectId: string): Promise<Rejected[]> {
  const { rows } = await sql.query<Rejected>(
    `select kind, name, count, why, last_at as "lastAt" from svc.rejected_deliveries
      where project_id = $1::uuid and last_at >= now() - ${quiet} order by last_at desc limit 20`,
    [projectId],
  );
  return rows;
}
