// Every call that changes something writes who did what, in the same transaction: with the audit out of order the call
// fails and the database is as it was. A new route that changes something has to be listed here.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { ErrtrackSimulator } from '../../base/testkit/errtrack-provider.ts';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { routeTable } from './http.ts';
import { routes } from './routes.ts';

const o = '/api/v1/orgs/o';
const p = `${o}/projects/p`;
const value = 'v4lue-of-a-secret';
const there = 'https://authorization.example';
const oauth = { docs: { authorizationEndpoint: `${there}/a`, tokenEndpoint: `${there}/t`, clientId: 'audited' } };
const commit = 'a'.repeat(40);
/** These change nothing, or leave a record of their own: a probe, an explanation, and the deliveries of providers. */
// What a browser or a device calls with credentials of its own is held to its entries where signing in is tested.
const exempt =
  /repositories\/probe$|exec\/:program\/input$|triggers\/explain$|\/intake\/|webhook-endpoints|\/auth\/(key|signout)$|\/oauth\/(token|device_authorization)$|^\/device$/;

interface Step {
  readonly call: string;
  readonly path?: (ids: Ids) => string;
  readonly body?: (ids: Ids) => unknown;
  /** SQL before it, where no call of the API brings things there. */
  readonly first?: string;
}
type Ids = { readonly [name: string]: string };

const agent = { name: 'a', harness: 'harness-a', environment: { name: 'e', image: { kind: 'preset', name: 'base' } } };
const files = [{ path: '.svc/agents/a.json', content: JSON.stringify(agent) }];
const run = (status: string, inputs: string): string =>
  `insert into svc.reconciles (id, project_id, repository_id, repository_name, commit, reason, status, finished_at, inputs)
   select gen_random_uuid(), project_id, id, name, '${commit}', 'poll', '${status}', now(), ${inputs} from svc.repositories`;
const idle = `update svc.reconciles set status = 'superseded', finished_at = now() where status = 'running'`;
const secrets = (at: string): Step[] => [
  { call: `PUT ${at}/secrets/s`, body: () => ({ value, protected: false }) },
  { call: `PATCH ${at}/secrets/s`, body: () => ({ description: 'd' }) },
  { call: `POST ${at}/secrets/s/rotate`, body: () => ({ value }) },
  { call: `POST ${at}/secrets/s/reveal` },
  { call: `DELETE ${at}/secrets/s` },
];

const setups = '/api/v1/connections/errtrack/installations';
const attemptState = 'A'.repeat(43);
const simulator = await ErrtrackSimulator.start();
const consent = simulator.consent({
  id: 1,
  slug: 'theirs',
  region: 'us',
  projects: [
    { id: '1', slug: 'one' },
    { id: '2', slug: 'two' },
  ],
});
const secretFile = join(mkdtempSync(join(tmpdir(), 'svc-audited-')), 'secret');
writeFileSync(secretFile, ErrtrackSimulator.clientSecret);

const steps: readonly Step[] = [
  { call: 'POST /api/v1/orgs', body: () => ({ slug: 'o' }) },
  { call: 'POST /api/v1/auth/handoffs' },
  { call: 'POST /api/v1/auth/sessions', body: (ids) => ({ token: ids['own token'] }) },
  { call: 'DELETE /api/v1/auth/sessions/x', path: (ids) => `/api/v1/auth/sessions/${ids['web session']}` },
  { call: `PATCH ${o}`, body: () => ({ name: 'Oh' }) },
  { call: `POST ${o}/projects`, body: () => ({ slug: 'p' }) },
  { call: `PATCH ${p}`, body: () => ({ name: 'Pe' }) },
  { call: `POST ${o}/members`, body: () => ({ email: 'm@example.com' }) },
  { call: `PATCH ${o}/members/x`, path: (ids) => `${o}/members/${ids['member']}`, body: () => ({ role: 'admin' }) },
  { call: `POST ${p}/members`, body: () => ({ email: 'm@example.com', role: 'viewer' }) },
  { call: `PATCH ${p}/members/x`, path: (ids) => `${p}/members/${ids['member']}`, body: () => ({ role: 'admin' }) },
  { call: `DELETE ${p}/members/x`, path: (ids) => `${p}/members/${ids['member']}` },
  { call: `DELETE ${o}/members/x`, path: (ids) => `${o}/members/${ids['member']}` },
  { call: `POST ${o}/service-accounts`, body: () => ({ name: 'robot' }) },
  { call: `POST ${o}/tokens`, body: () => ({ serviceAccount: 'robot', name: 't' }) },
  { call: `PATCH ${o}/service-accounts/robot`, body: () => ({ disabled: true }) },
  { call: `DELETE ${o}/tokens/x`, path: (ids) => `${o}/tokens/${ids['token']}` },
  { call: `DELETE ${o}/service-accounts/robot` },
  { call: 'POST /api/v1/tokens', body: () => ({ name: 'own' }) },
  { call: 'DELETE /api/v1/tokens/x', path: (ids) => `/api/v1/tokens/${ids['own']}` },
  ...secrets(o),
  ...secrets(p),
  {
    call: `POST ${p}/connections`,
    body: () => ({ provider: 'codehost', name: 'c', credentials: { webhookSecret: value } }),
  },
  { call: `PUT ${p}/connections/c/credentials`, body: () => ({ credentials: { webhookSecret: value } }) },
  { call: `PATCH ${p}/connections/c`, body: () => ({ config: { botLogin: 'bot' } }) },
  { call: `POST ${p}/connections/c/check` },
  { call: `POST ${p}/connections`, body: () => ({ provider: 'docs', name: 'd' }) },
  { call: `POST ${p}/connections/d/authorize` },
  {
    call: `DELETE ${p}/connections/d/attempts/x`,
    path: (ids) => `${p}/connections/d/attempts/${ids['consent']}`,
  },
  {
    call: `POST ${p}/receivers`,
    body: () => ({ name: 'r', kind: 'webhook', url: 'https://127.0.0.1:1/hook', secret: value }),
  },
  { call: `PATCH ${p}/receivers/r`, body: () => ({ suspended: true }) },
  { call: `POST ${p}/receivers/r/test` },
  { call: `DELETE ${p}/receivers/r` },
  { call: `DELETE ${p}/connections/c` },
  { call: `POST ${p}/apply`, body: () => ({ files }) },
  {
    call: `POST ${p}/events/x/replay`,
    first: `with e as (insert into svc.events (id, project_id, key) select gen_random_uuid(), id, 'webhook.received' from svc.projects where slug = 'p' returning id) insert into svc.event_bodies (event_id, raw) select id, '{}' from e`,
    path: (ids) => `${p}/events/${ids['event']}/replay`,
  },
  { call: `POST ${p}/agents/a/sessions`, body: () => ({ message: 'm' }) },
  {
    call: `POST ${p}/sessions/x/messages`,
    path: (ids) => `${p}/sessions/${ids['session']}/messages`,
    body: () => ({ text: 't' }),
  },
  {
    call: `DELETE ${p}/bindings/x`,
    first: `insert into svc.bindings (id, project_id, agent_id, agent, session_id, target_type, target_key, lifecycle, continuity, created_at, updated_at) select gen_random_uuid(), project_id, agent_id, agent, id, 'codehost.issue', 'o/r#1', 'held', 'session', now(), now() from svc.sessions`,
    path: (ids) => `${p}/bindings/${ids['binding']}`,
  },
  {
    call: `POST ${p}/sessions/x/permissions/y`,
    first: `insert into svc.permissions (id, session_id, epoch, title, request, created_at) select gen_random_uuid(), id, 1, 't', '{}', now() from svc.sessions`,
    path: (ids) => `${p}/sessions/${ids['session']}/permissions/${ids['permission']}`,
    body: () => ({ decision: 'allow' }),
  },
  { call: `POST ${p}/sessions/x/interrupt`, path: (ids) => `${p}/sessions/${ids['session']}/interrupt` },
  {
    call: `POST ${p}/sessions/x/exec`,
    path: (ids) => `${p}/sessions/${ids['session']}/exec`,
    body: () => ({ argv: ['true'] }),
  },
  { call: `POST ${p}/sessions/x/archive`, path: (ids) => `${p}/sessions/${ids['session']}/archive` },
  { call: `DELETE ${p}/agents/a` },
  { call: `POST ${p}/endpoints`, body: () => ({ name: 'e' }) },
  { call: `DELETE ${p}/endpoints/e` },
  { call: `POST ${p}/repositories`, body: () => ({ name: 'r', url: 'https://git.example/x.git' }) },
  { call: `PATCH ${p}/repositories/r`, body: () => ({ intervalSeconds: 77 }) },
  { call: `POST ${p}/repositories/r/suspend` },
  { call: `POST ${p}/repositories/r/resume` },
  { call: `POST ${p}/repositories/r/sync` },
  { call: `POST ${p}/repositories/r/pin`, body: () => ({ commit }) },
  { call: `POST ${p}/repositories/r/unpin` },
  {
    call: `POST ${p}/repositories/r/approve`,
    first: `${idle}; ${run('held', `jsonb_build_object('generation', generation)`)}`,
    body: (ids) => ({ reconcileId: ids['held'] }),
  },
  {
    call: `POST ${p}/repositories/r/rollback`,
    first: `${idle}; insert into svc.snapshots (id, repository_id, commit, source, has_svc, entries) select gen_random_uuid(), id, '${commit}', '', true, '[]' from svc.repositories; ${run('applied', `jsonb_build_object('snapshotId', (select id from svc.snapshots limit 1))`)}`,
    body: () => ({ commit }),
  },
  {
    call: `POST ${p}/repositories/r/release`,
    first: `update svc.repositories set quarantined_commit = '${commit}'`,
  },
  { call: `DELETE ${p}/repositories/r` },
  { call: `POST ${setups}`, body: () => ({ organizationId: 'o', projectId: 'p' }) },
  { call: `DELETE ${setups}/x`, path: (ids) => `${setups}/${ids['attempt']}` },
  { call: `POST ${setups}`, body: () => ({ organizationId: 'o', projectId: 'p' }) },
  {
    call: `POST ${setups}/callback`,
    first: `update svc.errtrack_attempts set state_hash = sha256('${attemptState}'::bytea) where state = 'awaiting_authorization'`,
    body: () => ({ state: attemptState, ...consent }),
  },
  {
    call: `PUT ${setups}/x/recipients`,
    path: (ids) => `${setups}/${ids['attempt']}/recipients`,
    body: (ids) => ({ recipients: [{ projectId: ids['project'], errtrackProjectId: '1' }] }),
  },
  {
    call: 'PUT /api/v1/connections/errtrack/projects',
    body: (ids) => ({ organizationId: 'o', projectId: 'p', providerGrantId: ids['grant'], errtrackProjectIds: [] }),
  },
  {
    call: 'PUT /api/v1/connections/errtrack/projects/all',
    body: (ids) => ({ organizationId: 'o', projectId: 'p', providerGrantId: ids['grant'] }),
  },
  { call: `DELETE ${p}` },
  { call: `DELETE ${o}` },
  {
    call: 'POST /api/v1/jobs/retry',
    first: `select graphile_worker.add_job('event.route', max_attempts => 1, run_at => now() + interval '1 hour'); update graphile_worker._private_jobs set attempts = 1 where max_attempts = 1`,
  },
  { call: 'POST /api/v1/sandboxes/reap', body: () => ({}) },
  { call: 'POST /api/v1/keys/rotate' },
];

const notRouting = `where task_id not in (select id from graphile_worker._private_tasks where identifier = 'event.route')`;

const patternOf = (call: string): string => {
  const [method = '', path = ''] = call.split(' ');
  const parts = path.split('/');
  const found = routeTable(routes).find((route) => {
    const want = route.path.split('/');
    const fits = want.every((part, at) => part === parts[at] || (part.startsWith(':') && parts[at] !== undefined));
    return route.method === method && want.length === parts.length && fits;
  });
  return found === undefined ? call : `${found.method} ${found.path}`;
};

describe('the record of what is changed', () => {
  let daemon: TestDaemon;
  before(async () => {
    daemon = await startTestDaemon({
      config: {
        roles: ['api'],
        allowPrivateNetwork: true,
        file: { providers: { errtrack: simulator.section(secretFile), oauth } },
      },
    });
    await daemon.database.db.query(
      `create function public.no_paper() returns trigger language plpgsql as $$ begin raise exception 'no paper'; end $$`,
    );
  });
  after(async () => {
    await daemon.stop();
    await simulator.stop();
    rmSync(dirname(secretFile), { recursive: true });
  });

  /**
   * All rows of all tables, but when a token was last used, that a daemon is alive, and events with their routing: a failed
   * apply is one, which is routed.
   */
  async function contents(): Promise<{ readonly [table: string]: string }> {
    const { db } = daemon.database;
    const { rows } = await db.query<{ name: string }>(
      `select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
       where c.relkind = 'r' and n.nspname in ('svc', 'graphile_worker') and c.relname <> 'daemons' and c.relname not like 'event%' and c.relname <> '_private_tasks' order by 1`,
    );
    const parts = rows.map(
      ({ name }) =>
        `select '${name}' as name, md5(coalesce(string_agg((to_jsonb(t) - 'last_used_at')::text, '' order by t::text), '')) as hash from ${name} t ${name.endsWith('_private_jobs') ? notRouting : ''}`,
    );
    const found = await db.query<{ name: string; hash: string }>(parts.join(' union all '));
    return Object.fromEntries(found.rows.map((row) => [row.name, row.hash]));
  }

  async function idsNow(): Promise<Ids> {
    const { rows } = await daemon.database.db.query<{ name: string; id: string }>(
      `select 'member' as name, id::text from svc.principals where email = 'm@example.com'
       union all select case name when 't' then 'token' else name end, id::text from svc.api_tokens where name in ('t', 'own')
       union all (select 'event', id::text from svc.events where key = 'webhook.received' order by seq limit 1)
       union all select 'session', id::text from svc.sessions union all select 'binding', id::text from svc.bindings
       union all select 'permission', id::text from svc.permissions
       union all (select 'attempt', id::text from svc.errtrack_attempts order by created_at desc limit 1)
       union all select 'grant', id::text from svc.errtrack_grants
       union all select 'project', id::text from svc.projects where slug = 'p'
       union all select 'consent', id::text from svc.oauth_attempts
       union all (select 'web session', id::text from svc.web_sessions order by created_at desc limit 1)
       union all select 'held', id::text from svc.reconciles where status = 'held'`,
    );
    return { ...Object.fromEntries(rows.map(({ name, id }) => [name, id])), 'own token': daemon.token };
  }

  it('knows every call that changes something', () => {
    const changing = routes.filter((route) => route.method !== 'GET' && !exempt.test(route.path));
    const known = new Set(steps.map((step) => patternOf(step.call)));
    assert.deepEqual(
      changing.map((route) => `${route.method} ${route.path}`).filter((key) => !known.has(key)),
      [],
      'list them among the steps of this test',
    );
  });

  for (const [at, step] of steps.entries()) {
    it(`leaves an entry, or nothing at all: ${step.call}`, async () => {
      const { db } = daemon.database;
      for (const statement of step.first?.split('; ') ?? []) await db.query(statement);
      const ids = await idsNow();
      const [method = '', written = ''] = step.call.split(' ');
      const path = step.path?.(ids) ?? written;
      const headers = { 'x-request-id': `step-${at}` };
      const earlier = await contents();
      await db.query(
        'create trigger no_paper before insert on svc.audit for each row execute function public.no_paper()',
      );
      const refused = await daemon.api(method, path, step.body?.(ids), { headers });
      await db.query('drop trigger no_paper on svc.audit');
      assert.equal(refused.status, 500, JSON.stringify(refused.body));
      assert.deepEqual(Object.keys(refused.body).toSorted(), [
        'code',
        'detail',
        'requestId',
        'status',
        'title',
        'type',
      ]);
      assert.doesNotMatch(JSON.stringify(refused.body), /paper|v4lue/);
      const later = await contents();
      const changed = Object.keys(earlier).filter((name) => later[name] !== earlier[name]);
      assert.deepEqual(changed, [], 'nothing has happened');

      const done = await daemon.api(method, path, step.body?.(ids), { headers });
      assert.ok(done.status < 300, JSON.stringify(done.body));
      const { rows } = await db.query<{ kind: string; who: string; what: string; text: string }>(
        `select principal_kind as kind, principal_name as who, action as what, a::text as text from svc.audit a
         where request_id = $1::text`,
        [`step-${at}`],
      );
      assert.ok(rows.length > 0, 'no entry');
      for (const row of rows) {
        assert.deepEqual([row.kind, row.who], ['user', 'administrator']);
        assert.match(row.what, /^[a-z_]+\.[a-z_]+$/);
        assert.doesNotMatch(row.text, /v4lue|svc_[A-Za-z0-9_-]{43}/);
      }
    });
  }
});
