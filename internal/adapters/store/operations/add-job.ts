// A job of the job runner, added beside the row it speaks of.

import type { Json } from '../../../domain/json.ts';
import type { Sql } from '../store.ts';

export interface JobOptions {
  /**
   * Jobs of one key are one job while it waits. A key added again while its job runs makes a second one, in place of the one
   * that runs: the runner would leave that without a further attempt where it fails or is cut off, as one that gave up.
   */
  readonly jobKey?: string;
  /** Default `preserve_run_at`: `replace` is a debounce, under which a busy key would never run. */
  readonly jobKeyMode?: 'replace' | 'preserve_run_at';
  readonly runAt?: Date;
  /** Instead: so much later than the database's now; the clock of a daemon may be another one. */
  readonly afterMs?: number;
  /** Default 100: a killed worker costs one attempt, and an exhausted job waits for a person. */
  readonly maxAttempts?: number;
  readonly priority?: number;
}

/** Adds a job inside the caller's transaction; it becomes visible with the commit. */
export async function addJob(sql: Sql, task: string, payload: Json, options: JobOptions = {}): Promise<void> {
  await sql.query(
    `with replaced as (
       delete from graphile_worker._private_jobs where key = $5::text and locked_at is not null returning id
     ), before as (select count(*) from replaced)
     select graphile_worker.add_job($1::text, payload => $2::json,
       run_at => coalesce($3::timestamptz, now() + make_interval(secs => $8::float8 / 1000)), max_attempts => $4::int,
       job_key => $5::text, job_key_mode => $6::text, priority => $7::int) from before`,
    [
      task,
      JSON.stringify(payload),
      options.runAt ?? null,
      options.maxAttempts ?? 100,
      options.jobKey ?? null,
      options.jobKey === undefined ? null : (options.jobKeyMode ?? 'preserve_run_at'),
      options.priority ?? null,
      options.afterMs ?? null,
    ],
  );
}
