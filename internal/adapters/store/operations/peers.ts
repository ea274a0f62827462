// svc.daemons as one daemon looks for another: those that run sessions and say where they are reached.

import { homeOf } from '../sessions/hosts.ts';
import type { Sql } from '../store.ts';

export interface Peer {
  readonly id: string;
  readonly host: string;
  /** `http://host:port`. */
  readonly address: string;
}

/** A daemon that was silent for so long is neither reached nor a host. */
export const silentAfterSeconds = 15;
const columns = 'd.id, d.host, d.address';
const lives = `d.address is not null and d.beat_at > now() - make_interval(secs => ${silentAfterSeconds})`;

/** The daemon that holds a session by a lease that stands; undefined where none does, or it says no address. */
export async function holderOf(sql: Sql, sessionId: string): Promise<Peer | undefined> {
  const { rows } = await sql.query<Peer>(
    `select ${columns} from svc.session_leases l join svc.daemons d on d.id = l.daemon_id
      where l.session_id = $1::uuid and l.until > now() and ${lives}`,
    [sessionId],
    'holder-of',
  );
  return rows[0];
}

/** Other daemons that run sessions, oldest first. */
export async function sessionPeers(sql: Sql, self: string): Promise<Peer[]> {
  const { rows } = await sql.query<Peer>(
    `select ${columns} from svc.daemons d where d.id <> $1::uuid and 'session' = any(d.roles) and ${lives}
      order by d.started_at, d.id`,
    [self],
  );
  return rows;
}

/** Roles that some daemon has which is not silent. */
export async function liveRoles(sql: Sql): Promise<ReadonlySet<string>> {
  const { rows } = await sql.query<{ role: string }>(
    `select distinct unnest(roles) as role from svc.daemons
      where beat_at > now() - make_interval(secs => ${silentAfterSeconds})`,
  );
  return new Set(rows.map(({ role }) => role));
}

export interface SandboxSession {
  readonly id: string;
  readonly agent: string;
  readonly project: string;
  readonly org: string;
  readonly state: string;
  readonly live: boolean;
  /** The data directory of the daemon that had it last; null where it has no sandbox. */
  readonly home: string | null;
  readonly sandbox: { readonly provider?: string; readonly image?: string } | null;
}

/** What is known of sessions by the ids of their sandboxes. */
export async function sandboxSessions(sql: Sql, ids: readonly string[]): Promise<ReadonlyMap<string, SandboxSession>> {
  if (ids.length === 0) return new Map();
  const { rows } = await sql.query<SandboxSession>(
    `select s.id, s.agent, p.slug as project, o.slug as org, s.state, s.live, ${homeOf} as home, s.sandbox
       from svc.sessions s
       join svc.projects p on p.id = s.project_id join svc.orgs o on o.id = p.org_id where s.id = any($1::uuid[])`,
    [ids],
  );
  return new Map(rows.map((row) => [row.id, row]));
}
