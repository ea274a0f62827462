// Nothing costs more because much has happened before: every statement that the daemon's loops send by themselves, and that
// the lists of the API send with each of their filters, is explained on a database with some history and with four times as
// much. The loops are those of the table of services and the lists those of the table of routes, so that a new one is in
// this test before anybody thinks of it.

import assert from 'node:assert/strict';
import { copyFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { scriptedAgent } from '../../internal/adapters/harness/harness-testkit.ts';
import { isLong } from '../../internal/base/testkit/long.ts';
import { type JsonBody, startTestDaemon, type TestDaemon } from '../../internal/base/testkit/daemon.ts';
import { createTestDatabase, type TestDatabase } from '../../internal/base/testkit/postgres.ts';
import { services } from '../../internal/edge/jobs/services.ts';
import { routes } from '../../internal/edge/http/routes.ts';
import { addExpired, addHistory, type HistoryOf, oftenEndpoint, rareEndpoint } from './history-testkit.ts';
import { callLists, type Called, type Lists } from './history-lists-testkit.ts';
import { eventually, keepSessions, talk } from './history-sessions-testkit.ts';
import { explainAll, type Recorder, recordStatements } from './history-statements-testkit.ts';

const little = isLong ? 250_000 : 8_000;
const much = 4 * little;
/** What may be looked at, whatever there is: a slice of retention is the most. */
const buffersMax = 60_000;
const mayGrow = (buffers: number): number => 1.5 * buffers + 120;

/** A statement of each service by its name, where it has one; a service that sends none says why. */
const statementsOf: { readonly [service: string]: readonly (string | RegExp)[] } = {
  'repo.poll': [
    'claim-due',
    'orphaned-claims',
    /from svc\.snapshots where listed_at is null/,
    /delete from svc\.snapshots/,
    /delete from svc\.blobs/,
  ],
  'repo.watch': [/from svc\.repositories where path is not null/],
  'signin.refresh': [/update svc\.external_identities/],
  'audit.retention': [/delete from svc\.audit/],
  retention: [
    /delete from svc\.sessions/,
    /delete from svc\.events/,
    /delete from svc\.suspects/,
    /delete from svc\.web_sessions/,
  ],
  'project.deletion': [/from svc\.projects where deleted_at is not null/],
  // Reads a file.
  'keys.watch': [],
  'intake.forget': [/delete from svc\.provider_facts/],
  'heartbeat.tick': ['next-schedule'],
  'check.deadlines': [/from svc\.checks .* for update of c skip locked/s],
  'check.report': [/update svc\.checks .*reporting_until/s],
  'session.orphans': ['orphaned-sessions'],
  'outbox.resolve': [/update svc\.calls/],
  'outbox.forget': [/delete from svc\.calls/],
  'notify.send': ['what-notices-wait'],
  'notify.clock': [/delete from svc\.notices/],
  'plan.pulls': ['claim-plans'],
  'plan.look': ['claim-pull-polls'],
  'plan.statuses': ['claim-statuses'],
  'plan.forget': [/delete from svc\.pull_plans/],
  'event.route': ['waiting-heads'],
  'session.host': [
    ...['claim-sessions', 'renew-leases', 'standing-leases', 'sessions-with-news', 'waiting-places', 'unload-session'],
    ...['waiting-messages', 'begin-turn', 'append-transcript', 'end-turn', 'is-stop-asked'],
    ...[/insert into svc\.permissions/, /update svc\.permissions/],
  ],
  'session.upkeep': ['inactive-sessions', 'blocked-sessions', 'replaceable-slots'],
};
/** Two places, and one that rests gives its own up as soon as another waits. */
const file = {
  sandboxes: { snapshots: { maxMB: 0 } },
  sessions: { max: 2, unloadAfterSeconds: 0 },
  audit: { retentionDays: 60 },
};

let database: TestDatabase;
let dataDir: string;
let of: Required<HistoryOf>;
let recorder: Recorder;
let called: Called;

before(async () => {
  database = await createTestDatabase();
  dataDir = await mkdtemp(join(tmpdir(), 'svc-history-'));
  const first = await startTestDaemon({ database, dataDir });
  // Each start adds a key to the file of its directory.
  const masterKeyFile = join(dataDir, 'first.key');
  await copyFile(join(dataDir, 'master.key'), masterKeyFile);
  try {
    of = await furnish(first);
  } finally {
    await first.stop();
  }
  await addHistory(database.url, of, 1, little);
  await addExpired(database.url, of);
  const things = await thingsOf();
  recorder = recordStatements();
  const commands = { harnessACommand: scriptedAgent, harnessBCommand: scriptedAgent };
  const config = { masterKeyFile, file, ...commands, sandbox: 'process' } as const;
  const daemon = await startTestDaemon({ database, dataDir, config });
  let kept: Awaited<ReturnType<typeof keepSessions>> | undefined;
  try {
    const talking = talk(daemon, of.sessionId, async (ids) => void (kept = await keepSessions(database.url, ids)));
    const [lists] = await Promise.all([callLists(daemon, routes, things), talking]);
    called = lists;
    await daemon.api('GET', '/metrics');
    for (const [service, wanted] of Object.entries(statementsOf))
      for (const one of wanted) await eventually(`${service} sends ${one}`, () => recorder.has(one));
  } finally {
    await daemon.stop();
    recorder.stop();
  }
  await kept?.restore();
});
after(async () => {
  await database.close();
  await rm(dataDir, { recursive: true, force: true });
});

const environment = 'environment: {name: default, image: {kind: preset, name: base}}';
const lasting = `harness: harness-a\nreplace: auto\nconcurrency: 1\nsession: {archiveAfterInactive: {seconds: 86400}}\n${environment}\n`;
const agents: { readonly [name: string]: string } = {
  'agent-0': lasting,
  rare: lasting,
  worker: `harness: harness-a\n${environment}
triggers: [{event: webhook.received, endpoint: named, auth: {kind: none}, routing: {kind: spawn}, message: hi}]\n`,
  asker: 'harness: harness-b\nenvironment: {name: prompted, image: {kind: preset, name: base}, approvals: prompt}\n',
};

/** Projects with agents, live sessions that nobody can run, one that rests, and one of everything that has a page of its own. */
async function furnish({ api, database: { db } }: TestDaemon): Promise<Required<HistoryOf>> {
  const files = Object.entries(agents).map(([name, spec]) => ({
    path: `.svc/agents/${name}.yaml`,
    content: `name: ${name}\n${spec}`,
  }));
  const post = async (path: string, body: object, method = 'POST'): Promise<JsonBody> => {
    const answer = await api(method, path, body);
    assert.ok(answer.status < 300, `${path}: ${JSON.stringify(answer.body)}`);
    return answer.body;
  };
  await post('P/apply', { files });
  for (const slug of ['other', 'quiet']) await post('/api/v1/orgs/default/projects', { slug, name: slug });
  for (const path of ['P', '/api/v1/orgs/default']) await post(`${path}/secrets/named`, { value: 'a value' }, 'PUT');
  await post('/api/v1/orgs/default/service-accounts', { name: 'named' });
  await post('P/receivers', { name: 'named', kind: 'webhook', url: 'https://receiver.invalid/' });
  const hub = { provider: 'codehost', name: 'named', config: { appId: 7, botLogin: 'svc-app' } };
  await post('P/connections', { ...hub, credentials: { webhookSecret: 'a secret of nobody' } });
  const { id } = await post('P/agents/agent-0/sessions', { message: 'hi' });
  const { rows } = await db.query<Required<HistoryOf>>(
    `with p as (select id, org_id from svc.projects where slug = 'default'), r as (
       insert into svc.repositories (project_id, name, url, suspended) select id, 'site', 'https://git.invalid/site', true from p
       returning id), s as (insert into svc.repository_states (repository_id) select id from r)
     select p.org_id as "orgId", p.id as "projectId", r.id as "repositoryId", o.id as "otherId", a.id as "agentId", $1::uuid as "sessionId"
       from p, r, svc.projects o, svc.agents a where o.slug = 'other' and a.name = 'agent-0'`,
    [String(id)],
  );
  // It has been answered long ago.
  await db.query(`update svc.inbox set state = 'done' where session_id = $1::uuid`, [String(id)]);
  await db.query(`update svc.sessions set state = 'idle', waits_for = null, reason = null where id = $1::uuid`, [
    String(id),
  ]);
  await db.query(
    `insert into svc.sessions (id, project_id, agent_id, agent, revision, origin, state, display_title, created_at, active_at)
     select gen_random_uuid(), a.project_id, a.id, a.name, 1, 'manual', 'blocked', 't', now(), now() from svc.agents a
      where a.name in ('agent-0', 'rare')`,
  );
  await db.query(
    `insert into svc.endpoints (id, project_id, name, slug, auth, status)
     select e.id::uuid, p.id, e.name, e.name || '-slug', '{"kind": "none"}', 'ready' from svc.projects p, (values ($1, 'rare'), ($2, 'often')) as e (id, name)
      where p.slug = 'default'`,
    [rareEndpoint, oftenEndpoint],
  );
  // What is from before all that follows: what is asked for by time lies behind it.
  await db.query(
    `insert into svc.audit (at, org_id, project_id, principal_kind, principal_name, action)
     select now() - interval '30 days', org_id, id, 'system', 'often', 'secret.read' from svc.projects, generate_series(1, 1500)
      where slug = 'default'`,
  );
  return rows[0] as Required<HistoryOf>;
}

/** What paths name: a session, an event and a run from the middle of it all, and the one session with a history of its own. */
async function thingsOf(): Promise<Lists> {
  const { rows } = await database.db.query<{ session: string; event: string; run: string }>(
    `select s.id as session, s.event_id as event, (select id from svc.reconciles where project_id = s.project_id limit 1) as run
       from svc.sessions s where s.project_id = $1::uuid and s.agent = 'agent-3' and s.ended_at is not null limit 1`,
    [of.projectId],
  );
  const { session = '', event = '', run = '' } = rows[0] ?? {};
  const named = ['service-accounts', 'secrets', 'connections', 'receivers'].map((word) => [word, 'named'] as const);
  const common = {
    ...Object.fromEntries(named),
    ...{ orgs: 'default', projects: 'default', agents: 'agent-0', endpoints: 'often', repositories: 'site' },
    ...{
      sessions: session,
      events: event,
      reconciles: run,
      triggers: 'worker',
      ':agent': '0',
      revisions: '102',
      diff: '104',
    },
  };
  return { common, long: { ...common, sessions: of.sessionId }, projects: ['default', 'quiet'] };
}

/** Statements that are asked to count what there is, and say so in the reference. */
const counting = [
  // `counts=true`: the true number of a filtered list, which a page asks for behind its first rows.
  /^select count\(\*\)::int as n from svc\.(events e|reconciles|agents|audit where org_id = |sessions where project_id = \$1::uuid and \(\$2|notices|messages|calls|usage_sessions u)/,
  // The events of the last hour by minute, at most 100,000 of them: as many as the hour had.
  /from counted where received_at >= /,
  // The page of one session: how many messages and turns it has had.
  /\(select count\(\*\) from svc\.turns t where t\.session_id = s\.id\) as turns/,
  // The last matches of one trigger, among the latest 100,000 decisions at most.
  /^with looked as \(select event_id, agent_id, ordinal from svc\.event_routes order by event_id desc limit/,
  // What somebody has just said to a session, which is the last of it; as things are put back it was never said.
  /where i\.session_id = \$1::uuid and i\.sender = \$2::text order by i\.seq desc limit 1$/,
];

/** A slice of 2,000 contents: the last one that the daemon took was not full, and is now. Each costs two pages at most. */
const sliceOfBlobs = /from svc\.blobs where .* order by oid limit 2000/s;
const sliceMax = 2 * 2_000;

test('no statement that is sent by itself, or by a list, looks at more because there is more history', async () => {
  assert.deepEqual(Object.keys(statementsOf).toSorted(), services.map(({ name }) => name).toSorted());
  const { lists, below, secondPages, flowing } = called;
  const isAll = lists.length >= 60 && below.length >= 4 && secondPages.length >= 30 && flowing.length >= 5;
  assert.ok(isAll, JSON.stringify(called, null, 1));
  await addExpired(database.url, of);
  const before = await explainAll(database.url, recorder);
  await addHistory(database.url, of, little + 1, much);
  const now = await explainAll(database.url, recorder);
  assert.ok(now.size > 120, `${now.size} statements`);
  const grown: string[] = [];

  for (const [sent, { buffers, plan }] of now) {
    const was = before.get(sent)?.buffers ?? 0;

    if (buffers <= mayGrow(was) && buffers <= buffersMax) continue;
    if (counting.some((one) => one.test(sent.text))) continue;
    if (sliceOfBlobs.test(sent.text) && buffers <= sliceMax) continue;
    const shown = process.env['SVC_PLANS'] === undefined ? '' : `\n${plan}`;
    grown.push(
      `${was} pages, then ${buffers}: ${sent.text.slice(0, 1_500)}\n  ${JSON.stringify(sent.values).slice(0, 300)}${shown}`,
    );
  }
  assert.equal(grown.length, 0, `${grown.length} of ${now.size} statements:\n\n${grown.join('\n\n')}`);
});
