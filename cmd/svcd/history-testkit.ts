// A database with a great deal of history, of several projects, one of whose sessions has half of what was ever said: for
// the test that nothing costs more because much has happened before. Only tests import this.

import pg from 'pg';

/** What a project has behind it: rows of each kind that grows, `from` to `to`. Triggers and keys are passed over. */
export async function addHistory(url: string, of: HistoryOf, from: number, to: number): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query('begin');
    await client.query('set local session_replication_role = replica');
    await client.query('set local synchronous_commit = off');
    for (const text of history) await client.query(fill(text, of, from, to));
    await client.query('commit');
    await client.query('vacuum analyze');
  } finally {
    await client.end();
  }
}

/** What is past every limit of age, always as much of it, so that what lets it go has as much to do. */
export async function addExpired(url: string, of: HistoryOf): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query('begin');
    await client.query('set local session_replication_role = replica');
    for (const text of expired) await client.query(fill(text, of, 1, expiredRows));
    await client.query('commit');
  } finally {
    await client.end();
  }
}

export interface HistoryOf {
  readonly orgId: string;
  readonly projectId: string;
  readonly repositoryId: string;
  /** Another project, which has a part of it. */
  readonly otherId?: string;
  /** An agent that has half of the revisions. */
  readonly agentId?: string;
  /** A session in which half of all was said, and which lives. */
  readonly sessionId?: string;
}
const expiredRows = 300;
const fill = (text: string, of: HistoryOf, from: number, to: number): string =>
  text
    .replaceAll('$org', `'${of.orgId}'::uuid`)
    .replaceAll('$some', `case when n % 5 = 0 then $other else $project end`)
    .replaceAll('$project', `'${of.projectId}'::uuid`)
    .replaceAll('$other', `'${of.otherId ?? of.projectId}'::uuid`)
    .replaceAll('$agent', of.agentId === undefined ? uuid(10) : `'${of.agentId}'::uuid`)
    .replaceAll('$session', of.sessionId === undefined ? uuid(2) : `'${of.sessionId}'::uuid`)
    .replaceAll('$repository', `'${of.repositoryId}'::uuid`)
    .replaceAll('$rows', `generate_series(${from}, ${to}) as n`);

/** Version 7 ids of the last days, one after the other, of a kind and a number; and the time in them. */
const ms = `((extract(epoch from now()) - 15 * 86400)::bigint * 1000 + n)`;
const uuid = (kind: number, time = ms): string =>
  `(lpad(to_hex(${time}), 12, '0') || '7${String(kind).padStart(3, '0')}8' || lpad(to_hex(n), 15, '0'))::uuid`;
const at = `to_timestamp(${ms} / 1000.0)`;
const old = `((extract(epoch from now()) - 900 * 86400)::bigint * 1000 + n)`;
const oldAt = `to_timestamp(${old} / 1000.0)`;
/** Endpoints by which few and by which most of the events came in. */
export const rareEndpoint = '00000000-0000-4000-9000-000000000001';
export const oftenEndpoint = '00000000-0000-4000-9000-000000000002';
const agentId = `('00000000-0000-4000-8000-' || lpad(to_hex(n % 20), 12, '0'))::uuid`;

/** Half of what was said was said in one session, which goes on. The first few numbers are its own. */
const saidIn = `case when n % 2 = 0 and n > 100 then $session else ${uuid(2)} end`;

/** `said`: the session that what is said belongs to. */
const rows = (kind: (one: number) => string, time: string, said: string): string[] => [
  `insert into svc.events (id, seq, project_id, key, dedup_hash, received_at, router_status, reason, severity, endpoint_id)
   select ${kind(1)}, n, $some, case when n <= 10 then 'webhook.rare' else 'webhook.received' end, sha256(${kind(1)}::text::bytea),
          ${time}, case when n % 7 = 0 then 'unmatched' when n <= 10 then 'failed' else 'routed' end,
          case when n <= 10 then 'because' end, case when n <= 10 then 'warning' end,
          case when n <= 10 then '${rareEndpoint}'::uuid else '${oftenEndpoint}'::uuid end from $rows`,
  `insert into svc.event_bodies (event_id, raw) select ${kind(1)}, '{"a": 1}' from $rows`,
  `insert into svc.event_routes (event_id, agent_id, ordinal, agent, decision, session_ids)
   select ${kind(1)}, ${agentId}, 0, 'agent-' || n % 20, 'spawn', array[${kind(2)}] from $rows`,
  `insert into svc.sessions (id, project_id, agent_id, agent, revision, origin, event_id, ordinal, state, reason, display_title,
       created_at, active_at, ended_at)
   select ${kind(2)}, $some, ${agentId}, case when n <= 10 then 'rare' else 'agent-' || n % 20 end, 1, 'event',
          ${kind(1)}, 0, case when n <= 10 then 'failed' when n <= 20 then 'replaced' else 'archived' end, 'over', 'title',
          ${time}, ${time}, ${time} from $rows`,
  `insert into svc.messages (session_id, seq, role, kind, text, at)
   select ${said}, n, 'user', 'prompt', 'hello', ${time} from $rows`,
  `insert into svc.inbox (session_id, seq, state, mode, sender, event_id, agent_id, ordinal, starts)
   select ${said}, n, 'done', 'defer', 'event', ${kind(1)}, ${agentId}, 0, n % 2 = 0 from $rows`,
  `insert into svc.turns (id, session_id, number, epoch, state, started_at, ended_at)
   select ${kind(3)}, ${said}, 10 * n, 1, 'done', ${time}, ${time} from $rows`,
  `insert into svc.permissions (id, session_id, epoch, title, request, state, created_at, decided_at)
   select ${kind(4)}, ${said}, 1, 'title', '{}', 'allow', ${time}, ${time} from $rows`,
  `insert into svc.reconciles (id, project_id, repository_id, repository_name, commit, reason, status, started_at, finished_at, inputs)
   select ${kind(5)}, $project, case when n % 5 > 0 then $repository end, case when n % 5 > 0 then 'site' end, md5(n::text), 'poll',
          case when n <= 10 then 'held' when n % 3 = 0 then 'failed' else 'superseded' end, ${time}, ${time},
          jsonb_build_object('snapshotId', ${kind(6)}) from $rows`,
  `insert into svc.checks (id, project_id, agent_id, agent, target_key, name, cycle, head_sha, spec, state, event_id, ordinal,
       created_at, updated_at)
   select ${kind(7)}, $some, ${agentId}, 'agent', 'o/r#' || ${kind(7)}, 'check', 1, 'abc', '{}', 'superseded', ${kind(1)}, 0, ${time},
          ${time} from $rows`,
  `insert into svc.usage_ledger (request_id, project_id, agent_id, agent_name, session_id, at, provider, model, input_tokens,
       output_tokens, cache_read_tokens, cache_write_tokens, estimated)
   select ${kind(8)}, $some, ${agentId}, 'agent', ${kind(2)}, ${time}, 'provider-a', 'm', 1, 1, 0, 0, false from $rows`,
  `insert into svc.usage_sessions (session_id, project_id, calls, unpriced_calls, input_tokens, output_tokens, cache_read_tokens,
       cache_write_tokens, cost_usd, agent_id) select ${kind(2)}, $some, 1, 0, 1, 1, 0, 0, n % 1000 / 100.0, ${agentId} from $rows`,
  `insert into svc.notices (id, project_id, condition, key, subject_id, subject, at, spread_at)
   select ${kind(12)}, $some, 'session-failed', ${kind(12)}, ${kind(2)}, '{"kind": "session", "name": "agent"}', ${time}, ${time} from $rows`,
  `insert into svc.notifications (notice_id, receiver, status, settled_at) select ${kind(12)}, 'hook', 'done', ${time} from $rows`,
  // Tellings that were in hand when a daemon ended.
  `insert into svc.suspects (kind, id, ends, ended_at)
   select k.kind, case k.kind when 'call' then ${kind(11)}::text when 'notice' then ${kind(12)} || ':hook'
            when 'plan' then $repository || ':' || n || ':' || md5(${kind(2)}::text) else $repository || ':' || md5(${kind(2)}::text) end, 1, ${time}
     from $rows join (values (0, 'call'), (1, 'notice'), (2, 'plan'), (3, 'status')) as k (part, kind) on k.part = n % 4`,
];

const history = [
  ...rows((kind) => uuid(kind), at, saidIn),
  // What the daemon says meanwhile has numbers far behind, so that more of this has room.
  `select setval('svc.events_seq', max(n)), setval('svc.messages_seq', 10 * max(n)) from $rows`,
  `insert into svc.routing_marks (project_id, upto) select p.id, max(n) from $rows, unnest(array[$project, $other]) as p (id) group by p.id
     on conflict (project_id) do update set upto = excluded.upto`,
  `insert into svc.bindings (id, project_id, agent_id, agent, session_id, target_type, target_key, state, lifecycle, continuity,
       created_at, updated_at, released_at)
   select ${uuid(9)}, $some, ${agentId}, 'agent', ${uuid(2)}, 'codehost.issue', 'o/r#' || n, 'released', 'manual', 'session',
          ${at}, ${at}, ${at} from $rows`,
  `insert into svc.agent_revisions (agent_id, project_id, revision, spec, spec_hash)
   select case when n % 2 = 0 then $agent else ${uuid(10)} end, $project, n, '{"harness": "harness-a"}', '' from $rows`,
  `insert into svc.audit (at, org_id, project_id, principal_kind, principal_name, action, subject_kind, subject_name)
   select ${at}, $org, $some, 'system', case when n <= 10 then 'rare' else 'often' end,
          case when n <= 10 then 'rare.action' else 'secret.read' end, 'secret', case when n <= 10 then 'rare' else 'often' end
     from $rows`,
  `insert into svc.calls (id, project_id, session_id, provider, alias, tool, write, status, created_at, settled_at)
   select ${uuid(11)}, $project, case when n > 10 then ${saidIn} end, 'codehost', 'git', 'push', true, 'done', ${at}, ${at}
     from $rows`,
  // What was read within the hour stays, and the contents with it.
  `insert into svc.snapshots (id, repository_id, commit, source, has_svc, entries, created_at, listed_at)
   select ${uuid(6)}, $repository, md5(n::text), 'https://git.invalid/site', true, '[]', now(), now() from $rows`,
  `insert into svc.blobs (oid, size, bytes) select md5(n::text), 1, 'x' from $rows`,
  `insert into svc.snapshot_blobs (oid, snapshot_id) select md5(n::text), ${uuid(6)} from $rows`,
  `insert into svc.web_sessions (cookie_sha256, principal_id, method, created_at, last_used_at, expires_at)
   select sha256(${uuid(13)}::text::bytea), ${uuid(14)}, 'company', ${at}, ${at}, now() + interval '7 days' from $rows`,
];
const expired = [
  ...rows((kind) => uuid(kind + 20, old), oldAt, uuid(22, old)).map((text) => text.replace(' n, $some', ' -n, $some')),
  `insert into svc.agent_revisions (agent_id, project_id, revision, spec, spec_hash, created_at)
   select ${uuid(30, old)}, $project, 1, '{}', '', ${oldAt} from $rows`,
  `insert into svc.snapshots (id, repository_id, commit, source, has_svc, entries, created_at, listed_at)
   select ${uuid(26, old)}, $repository, md5(n::text), 'https://git.invalid/site', true, '[]', ${oldAt}, ${oldAt} from $rows`,
  `insert into svc.blobs (oid, size, bytes, last_used_at) select md5(${uuid(36, old)}::text), 1, 'x', ${oldAt} from $rows`,
  `insert into svc.web_sessions (cookie_sha256, principal_id, method, created_at, last_used_at, expires_at)
   select sha256(${uuid(33, old)}::text::bytea), ${uuid(34, old)}, 'company', ${oldAt}, ${oldAt}, ${oldAt} from $rows`,
  `insert into svc.audit (at, org_id, project_id, principal_kind, principal_name, action)
   select ${oldAt}, $org, $some, 'system', 'often', 'secret.read' from $rows`,
];
