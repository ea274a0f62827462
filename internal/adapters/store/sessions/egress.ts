// svc.session_egress: which hosts a session asked for and was refused, and how often. At most one row for each host, and
// a bounded number of hosts for each session.

import type { Sql } from '../store.ts';

export interface DeniedHost {
  readonly host: string;
  readonly count: number;
}

/** Adds to the counts; a host beyond `most` is not kept. */
export async function noteDenied(
  sql: Sql,
  sessionId: string,
  counts: readonly DeniedHost[],
  most: number,
): Promise<void> {
  await sql.query(
    `insert into svc.session_egress as e (session_id, host, count)
     select s.id, c.host, c.count from jsonb_to_recordset($2::jsonb) as c(host text, count bigint)
       join svc.sessions s on s.id = $1::uuid
      where exists (select from svc.session_egress k where k.session_id = s.id and k.host = c.host)
         or (select count(*) from svc.session_egress k where k.session_id = s.id) < $3::int
     on conflict (session_id, host) do update set count = e.count + excluded.count`,
    [sessionId, JSON.stringify(counts), most],
  );
}

/** Text of a column of a session's reading: what it was refused, the most often first. */
export const deniedColumn = `(select json_agg(json_build_object('host', e.host, 'count', e.count) order by e.count desc, e.host)
  from svc.session_egress e where e.session_id = s.id) as "denied"`;
