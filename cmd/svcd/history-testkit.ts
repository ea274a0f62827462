// A database with a great deal of history, and every statement that this process sends, as the server explains it: for
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
}
const expiredRows = 300;
const fill = (text: string, of: HistoryOf, from: number, to: number): string =>
  text
    .replaceAll('$org', `'${of.orgId}'::uuid`)
    .replaceAll('$project', `'${of.projectId}'::uuid`)
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

const rows = (kind: (one: number) => string, time: string): string[] => [
  `insert into svc.events (id, seq, project_id, key, dedup_hash, received_at, router_status, reason, severity, endpoint_id)
   select ${kind(1)}, n, $project, case when n <= 10 then 'webhook.rare' else 'webhook.received' end, sha256(${kind(1)}::text::bytea),
          ${time}, case when n % 7 = 0 then 'unmatched' when n <= 10 then 'failed' else 'routed' end,
          case when n <= 10 then 'because' end, case when n <= 10 then 'warning' end,
          case when n <= 10 then '${rareEndpoint}'::uuid else '${oftenEndpoint}'::uuid end from $rows`,
  `insert into svc.event_bodies (event_id, raw) select ${kind(1)}, '{"a": 1}' from $rows`,
  `insert into svc.event_routes (event_id, agent_id, ordinal, agent, decision, session_ids)
   select ${kind(1)}, ${agentId}, 0, 'agent-' || n % 20, 'spawn', array[${kind(2)}] from $rows`,
  `insert into svc.sessions (id, project_id, agent_id, agent, revision, origin, event_id, ordinal, state, reason, display_title,
       created_at, active_at, ended_at)
   select ${kind(2)}, $project, ${agentId}, case when n <= 10 then 'rare' else 'agent-' || n % 20 end, 1, 'event',
          ${kind(1)}, 0, case when n <= 10 then 'failed' when n <= 20 then 'replaced' else 'archived' end, 'over', 'title',
          ${time}, ${time}, ${time} from $rows`,
  `insert into svc.messages (session_id, seq, role, kind, text, at)
   select ${kind(2)}, n, 'user', 'prompt', 'hello', ${time} from $rows`,
  `insert into svc.inbox (session_id, seq, state, mode, sender, event_id, agent_id, ordinal, starts)
   select ${kind(2)}, n, 'done', 'defer', 'event', ${kind(1)}, ${agentId}, 0, n % 2 = 0 from $rows`,
  `insert into svc.turns (id, session_id, number, epoch, state, started_at, ended_at)
   select ${kind(3)}, ${kind(2)}, 1, 1, 'done', ${time}, ${time} from $rows`,
  `insert into svc.permissions (id, session_id, epoch, title, request, state, created_at, decided_at)
   select ${kind(4)}, ${kind(2)}, 1, 'title', '{}', 'allow', ${time}, ${time} from $rows`,
  `insert into svc.reconciles (id, project_id, repository_id, repository_name, commit, reason, status, started_at, finished_at, inputs)
   select ${kind(5)}, $project, case when n % 5 > 0 then $repository end, case when n % 5 > 0 then 'site' end, md5(n::text), 'poll',
          case when n <= 10 then 'held' when n % 3 = 0 then 'failed' else 'superseded' end, ${time}, ${time},
          jsonb_build_object('snapshotId', ${kind(6)}) from $rows`,
  `insert into svc.checks (id, project_id, agent_id, agent, target_key, name, cycle, head_sha, spec, state, event_id, ordinal,
       created_at, updated_at)
   select ${kind(7)}, $project, ${agentId}, 'agent', 'o/r#' || ${kind(7)}, 'check', 1, 'abc', '{}', 'superseded', ${kind(1)}, 0, ${time},
          ${time} from $rows`,
  `insert into svc.usage_ledger (request_id, project_id, agent_id, agent_name, session_id, at, provider, model, input_tokens,
       output_tokens, cache_read_tokens, cache_write_tokens, estimated)
   select ${kind(8)}, $project, ${agentId}, 'agent', ${kind(2)}, ${time}, 'provider-a', 'm', 1, 1, 0, 0, false from $rows`,
  `insert into svc.usage_sessions (session_id, project_id, calls, unpriced_calls, input_tokens, output_tokens, cache_read_tokens,
       cache_write_tokens, cost_usd, agent_id) select ${kind(2)}, $project, 1, 0, 1, 1, 0, 0, n % 1000 / 100.0, ${agentId} from $rows`,
];

const history = [
  ...rows((kind) => uuid(kind), at),
  `select setval('svc.events_seq', max(n)), setval('svc.messages_seq', max(n)) from $rows`,
  `insert into svc.routing_marks (project_id, upto) select $project, max(n) from $rows
     on conflict (project_id) do update set upto = excluded.upto`,
  `insert into svc.bindings (id, project_id, agent_id, agent, session_id, target_type, target_key, state, lifecycle, continuity,
       created_at, updated_at, released_at)
   select ${uuid(9)}, $project, ${agentId}, 'agent', ${uuid(2)}, 'codehost.issue', 'o/r#' || n, 'released', 'manual', 'session',
          ${at}, ${at}, ${at} from $rows`,
  `insert into svc.agent_revisions (agent_id, project_id, revision, spec, spec_hash)
   select ${uuid(10)}, $project, 1, '{"harness": "harness-a"}', '' from $rows`,
  `insert into svc.audit (at, org_id, project_id, principal_kind, principal_name, action, subject_kind, subject_name)
   select ${at}, $org, $project, 'system', case when n <= 10 then 'rare' else 'often' end,
          case when n <= 10 then 'rare.action' else 'secret.read' end, 'secret', case when n <= 10 then 'rare' else 'often' end
     from $rows`,
  `insert into svc.calls (id, project_id, session_id, provider, alias, tool, write, status, created_at, settled_at)
   select ${uuid(11)}, $project, case when n > 10 then ${uuid(2)} end, 'codehost', 'git', 'push', true, 'done', ${at}, ${at}
     from $rows`,
];
const expired = [
  ...rows((kind) => uuid(kind + 20, old), oldAt).map((text) => text.replace(' n, $project', ' -n, $project')),
  `insert into svc.agent_revisions (agent_id, project_id, revision, spec, spec_hash, created_at)
   select ${uuid(30, old)}, $project, 1, '{}', '', ${oldAt} from $rows`,
];

export interface Sent {
  readonly text: string;
  readonly values: readonly unknown[];
}
export interface Recorder {
  /** By text: what it was sent with, the last few times. */
  readonly sent: ReadonlyMap<string, readonly Sent[]>;
  stop(): void;
}
const keptPerText = 4;

/** Every statement that any connection of this process sends from now on, the job runner's too. */
export function recordStatements(): Recorder {
  const sent = new Map<string, Sent[]>();
  const original = pg.Client.prototype.query as (...args: unknown[]) => unknown;
  const recording = function (this: unknown, ...args: unknown[]): unknown {
    const [first, second] = args;
    // Several may go in one message.
    const { statements } = (first ?? {}) as { statements?: readonly unknown[] };
    for (const one of statements ?? [first]) {
      const given = typeof one === 'string' ? { text: one } : (one as { text?: unknown; values?: unknown[] } | null);
      if (typeof given?.text !== 'string') continue;
      const { text } = given;
      const values =
        'values' in given && Array.isArray(given.values) ? given.values : Array.isArray(second) ? second : [];
      const known = sent.get(text) ?? [];
      const isNew = !known.some((other) => JSON.stringify(other.values) === JSON.stringify(values));
      if (isNew) sent.set(text, [...known.slice(-keptPerText + 1), { text, values }]);
    }
    return original.apply(this, args);
  };
  pg.Client.prototype.query = recording as never;
  return {
    sent,
    stop() {
      pg.Client.prototype.query = original as never;
    },
  };
}

export interface Explained {
  /** Pages that it and what it sets off looked at. */
  readonly buffers: number;
  readonly plan: string;
}

/** Runs a statement under `explain (analyze, buffers)` and takes it back; undefined for what has no plan. */
export async function explained(client: pg.Client, { text, values }: Sent): Promise<Explained | undefined> {
  if (!/^\s*(select|with|insert|update|delete|merge)\b/i.test(text)) return undefined;
  await client.query('begin');
  try {
    const before = await touched(client);
    const { rows } = await client.query<{ 'QUERY PLAN': [{ Plan: object }] }>({
      text: `explain (analyze, buffers, format json) ${text}`,
      values: [...values],
    });
    const plan = rows[0]?.['QUERY PLAN'][0].Plan as { 'Shared Hit Blocks': number; 'Shared Read Blocks': number };
    const own = plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];
    return { buffers: Math.max(own, (await touched(client)) - before), plan: JSON.stringify(plan, null, 1) };
  } finally {
    await client.query('rollback');
  }
}

/** Pages of our tables, and of their indexes, that the transaction has looked at so far: triggers and functions as well. */
async function touched(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ blocks: string }>(
    `select coalesce(sum(pg_stat_get_xact_blocks_fetched(c.oid)), 0) as blocks from pg_class c
       join pg_namespace s on s.oid = c.relnamespace where s.nspname in ('svc', 'pg_toast', 'graphile_worker')`,
  );
  return Number(rows[0]?.blocks);
}
