// Consents whose outcome nobody knows, or that stopped half-way with a daemon: what an operator has to look at. Reads only.

import type { Sql } from '../store.ts';

export interface ConsentTrouble {
  readonly kind: 'errtrack-attempt' | 'errtrack-grant' | 'consent-attempt';
  readonly id: string;
  readonly name: string;
  readonly state: string;
  readonly reason: string | null;
}

const most = 20;

/** Of a project; the error tracker's grants are its organization's. A connection that is `uncertain` is named as a connection. */
export async function findConsentTroubles(
  sql: Sql,
  project: { readonly id: string; readonly orgId: string },
  now: Date,
): Promise<ConsentTrouble[]> {
  const { rows } = await sql.query<ConsentTrouble>(
    `select * from (
       (select 'errtrack-attempt' as kind, id::text, 'errtrack' as name, state, reason from svc.errtrack_attempts
         where project_id = $1::uuid and (state = 'uncertain'
           or (state in ('exchanging', 'completing') and expires_at < $3::timestamptz))
         order by created_at desc limit ${most})
       union all
       (select 'errtrack-grant', id::text, name, status, null from svc.errtrack_grants
         where org_id = $2::uuid and (status in ('uncertain', 'revoked')
           or (status = 'refreshing' and refresh_sent_at is not null and refresh_until < $3::timestamptz))
         order by name limit ${most})
       union all
       (select 'consent-attempt', a.id::text, c.name, a.state, a.reason from svc.oauth_attempts a
         join svc.connections c on c.id = a.connection_id
         where a.project_id = $1::uuid and a.state = 'uncertain' and c.status <> 'uncertain'
           and not exists (select from svc.oauth_attempts b where b.connection_id = a.connection_id and b.created_at > a.created_at)
         order by c.name limit ${most})) x
     order by kind desc, name, id`,
    [project.id, project.orgId, now],
  );
  return rows;
}
