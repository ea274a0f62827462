import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Agent } from '../../../../schemas/api/agents.ts';
import { agentsTree, hook, onCron, onEvent } from '../../../flows/sync/apply-testkit.ts';
import { startServer, type Server } from './testkit.ts';

let server: Server;
before(async () => {
  server = await startServer();
  const { bench } = server;
  const owner = await bench.addRepository('fleet');
  await bench.apply(
    agentsTree({
      triage: {
        systemPrompt: 'one',
        triggers: [
          hook('in', { auth: { kind: 'none' } }),
          onCron('0 9 * * *'),
          onEvent('codehost.push', { connection: 'gh', optional: true }),
        ],
      },
    }),
    { owner, commit: 'c1' },
  );
  await bench.apply(agentsTree({ byhand: {} }));
});
after(() => server.stop());

type Items = { items: Record<string, unknown>[]; nextCursor: string | null };
const list = async (path: string): Promise<Items> => {
  const { status, body } = await server.call('GET', path);
  assert.equal(status, 200, path);
  return body as Items;
};
const problem = (reply: { status: number; body: unknown }) => {
  const { code, detail } = reply.body as { code: string; detail: string };
  return { status: reply.status, code, detail };
};

test('agents are listed by name with resource id, revision and owner', async () => {
  const { items } = await list('agents');
  assert.deepEqual(
    items.map(({ name, revision, owner }) => ({ name, revision, owner })),
    [
      { name: 'byhand', revision: 1, owner: { kind: 'manual' } },
      { name: 'triage', revision: 1, owner: { kind: 'repository', name: 'fleet' } },
    ],
  );
  const { body } = await server.call('GET', 'agents/triage');
  assert.deepEqual(body, items[1]);
  assert.match(String(items[1]?.['resourceId']), /^[0-9a-f-]{36}$/);
  assert.equal(problem(await server.call('GET', 'agents/none')).status, 404);
});

test('lists come in pages that lose and repeat nothing', async () => {
  for (const path of ['agents', 'triggers', 'events', 'endpoints', 'schedules']) {
    const whole = await list(path);
    const seen: unknown[] = [];
    let cursor: string | null = null;
    do {
      const page: Items = await list(`${path}?limit=1${cursor === null ? '' : `&cursor=${cursor}`}`);
      seen.push(...page.items);
      cursor = page.nextCursor;
    } while (cursor !== null);
    assert.deepEqual(seen, whole.items, path);
    assert.ok(whole.items.length > 0, path);
  }
  assert.equal(problem(await server.call('GET', 'triggers?cursor=WyJhIl0')).code, 'invalid-cursor');
});

test('an agent keeps its revisions', async () => {
  const { bench } = server;
  await bench.apply(agentsTree({ byhand: { systemPrompt: 'two' } }), { commit: 'c2' });
  const { items } = await list('agents/byhand/revisions');
  assert.deepEqual(
    items.map(({ revision, commit }) => [revision, commit]),
    [
      [2, 'c2'],
      [1, null],
    ],
  );
  const rows = (await list('agents/byhand/revisions?view=row')).items;
  assert.deepEqual(
    rows.map((one) => Object.keys(one).sort()),
    [
      ['commit', 'createdAt', 'reconcileId', 'revision'],
      ['commit', 'createdAt', 'reconcileId', 'revision'],
    ],
  );
  const { body } = await server.call('GET', 'agents/byhand?counts=true');
  const { commit, reconcileId, counts } = body as unknown as Agent;
  assert.deepEqual([commit, reconcileId], ['c2', items[0]?.['reconcileId']]);
  assert.deepEqual(counts, { triggers: 0, sessions: 0, liveSessions: 0 });
  assert.equal(((await server.call('GET', 'agents/byhand')).body as unknown as Agent).counts, undefined);
});

test('triggers are shown as rows, with what applies to their kind', async () => {
  const { items } = await list('triggers?agent=triage');
  const rest = { where: {}, fallback: false, routing: { kind: 'spawn' }, agent: 'triage' };
  const heartbeat = items[1];
  assert.match(String(heartbeat?.['event']), /^heartbeat\.[0-9a-f-]{36}\.1$/);
  assert.deepEqual(items, [
    { ...rest, ordinal: 0, kind: 'event', event: 'webhook.received', endpoint: 'in', status: 'active' },
    {
      ...rest,
      ordinal: 1,
      kind: 'heartbeat',
      event: heartbeat?.['event'],
      cron: '0 9 * * *',
      timezone: 'UTC',
      status: 'active',
    },
    { ...rest, ordinal: 2, kind: 'event', event: 'codehost.push', connection: 'gh', status: 'skipped' },
  ]);
  assert.deepEqual((await list('triggers?agent=byhand')).items, []);
});

test('schedules say when they fire next', async () => {
  const { items } = await list('schedules');
  const [schedule] = items;
  assert.match(String(schedule?.['scheduleId']), /^heartbeat-[0-9a-f-]{36}-1$/);
  assert.deepEqual(
    { ...schedule, scheduleId: '' },
    {
      scheduleId: '',
      agent: 'triage',
      ordinal: 1,
      cron: '0 9 * * *',
      timezone: 'UTC',
      nextAt: '2026-11-22T09:00:00.000Z',
      lastAt: null,
      lastStatus: null,
      skipped: 0,
      lastSessionId: null,
    },
  );
});

test('the timeline of schedules is bounded, and the series of usage has a row a day and agent', async () => {
  const read = async (path: string) =>
    (await server.call('GET', path)) as unknown as { status: number; body: { [key: string]: unknown } };
  const { body } = await read('schedules/timeline?from=2026-11-22T08:00:00Z&to=2026-11-24T08:00:00Z');
  const ticks = body['ticks'] as unknown as { scheduleId: string; at: string }[];
  assert.deepEqual(
    ticks.map(({ at }) => at),
    ['2026-11-22T09:00:00.000Z', '2026-11-23T09:00:00.000Z'],
  );
  assert.equal(body['more'], false);
  for (const query of [
    'from=2026-11-22T08:00:00Z&to=2026-11-22T08:00:00Z',
    'from=2026-11-22T08:00:00Z&to=2026-11-30T08:00:00Z',
    'from=never',
    // The day after is one of the year 10000.
    'from=9999-12-31T23:00:00Z',
    'more=1',
  ])
    assert.equal((await read(`schedules/timeline?${query}`)).status, 400, query);
  const { body: series } = await read('usage/series?days=7');
  assert.deepEqual([series['by'], series['capHits'], series['items']], ['agent', 0, []]);
  assert.equal(Date.parse(String(series['to'])) - Date.parse(String(series['from'])), 6 * 86_400_000);
  for (const query of ['days=0', 'days=367', 'by=model'])
    assert.equal((await read(`usage/series?${query}`)).status, 400);
});

test('events are listed newest first, by key and status, and shown one by one', async () => {
  const { items } = await list('events?key=svc.project_resource_apply.completed');
  assert.equal(items.length, 3);
  const [latest] = items;
  assert.equal(latest?.['source'], 'svc');
  assert.equal(latest['routerStatus'], 'pending');
  assert.deepEqual((await server.call('GET', `events/${latest['id']}`)).body, latest);
  assert.deepEqual((await list('events?status=routed')).items, []);
  assert.deepEqual((await list('events?severity=error')).items, []);
  assert.equal((await server.call('GET', 'events/nonsense')).status, 404);
  assert.equal((await server.call('GET', 'events?status=lost')).status, 400);
});

test('an agent of a repository is deleted there; one applied by hand here, with all that only it used', async () => {
  assert.deepEqual(problem(await server.call('DELETE', 'agents/triage')), {
    status: 409,
    code: 'agent-owned',
    detail: 'Agent triage is owned by repository fleet; delete it there (.svc/agents/triage.yaml).',
  });
  const { bench } = server;
  await bench.apply(agentsTree({ gone: { environment: 'only' } }), { prune: false });
  assert.equal((await server.call('DELETE', 'agents/gone', undefined, 'viewer')).status, 403);
  assert.equal((await server.call('DELETE', 'agents/gone')).status, 204);
  assert.equal((await server.call('DELETE', 'agents/gone')).status, 404);
  const { rows } = await bench.db.query<{ name: string }>('select name from svc.generated_resources');
  assert.deepEqual(rows, [{ name: 'base' }]);
  const audit = await bench.db.query(`select subject_name from svc.audit where action = 'agent.deleted'`);
  assert.deepEqual(audit.rows, [{ subject_name: 'gone' }]);
});

test('a reservation holds a URL for an hour, and the apply that declares the endpoint keeps it', async () => {
  const { bench } = server;
  const reply = await server.call('POST', 'endpoints', { name: 'Held One'.replace(' ', '.') });
  const reserved = reply.body as Record<string, unknown>;
  assert.equal(reply.status, 201);
  assert.match(String(reserved['slug']), /^held-one-[a-z0-9]{10}$/);
  assert.equal(reserved['reservedUntil'], '2026-11-21T13:00:00.000Z');
  assert.deepEqual([reserved['status'], reserved['auth']], ['reserved', null]);
  assert.deepEqual(
    (reserved['problems'] as { severity: string }[]).map((item) => item.severity),
    ['warning'],
  );
  assert.equal((await server.call('POST', 'endpoints', { name: 'Held.One' })).status, 201, 'it may be held for longer');
  const result = await bench.apply(
    agentsTree({ holder: { triggers: [hook('Held.One', { auth: { kind: 'none' } })] } }),
    { prune: false },
  );
  assert.equal(result.webhooks[0]?.ingestUrl, reserved['ingestUrl']);
  assert.deepEqual(problem(await server.call('POST', 'endpoints', { name: 'Held.One' })).status, 409);
  assert.equal((await server.call('POST', 'endpoints', { name: 'no spaces' })).status, 400);
});

test('a reservation that has run out is not there', async () => {
  const { bench } = server;
  await server.call('POST', 'endpoints', { name: 'brief' });
  bench.setNow('2026-11-21T13:00:01Z');
  assert.equal((await server.call('GET', 'endpoints/brief')).status, 404);
  assert.ok(!(await list('endpoints')).items.some((item) => item['name'] === 'brief'));
  assert.equal((await server.call('POST', 'endpoints', { name: 'brief' })).status, 201);
  bench.setNow('2026-11-21T12:00:00Z');
});

test('an endpoint is deleted only when no trigger uses it, and its problems are told', async () => {
  const { bench } = server;
  const secret = (expiry: string) =>
    bench.db.query(
      `insert into svc.secrets (org_id, project_id, name, key_version, sealed, expires_at)
       values ($1::uuid, $2::uuid, 'key', 1, '', ${expiry})`,
      [bench.orgId, bench.projectId],
    );
  await secret('null');
  const auth = { kind: 'hmac_sha256', secretRef: 'key' } as const;
  await bench.apply(agentsTree({ keyed: { triggers: [hook('keyed', { auth })] } }), { prune: false });
  const shown = async () => (await server.call('GET', 'endpoints/keyed')).body as Record<string, unknown>;
  const healthy = await shown();
  assert.deepEqual(healthy['auth'], auth);
  assert.deepEqual(healthy['problems'], []);
  assert.deepEqual(healthy['triggers'], [{ agent: 'keyed', ordinal: 0, event: 'webhook.received', status: 'active' }]);
  assert.equal(problem(await server.call('DELETE', 'endpoints/keyed')).code, 'endpoint-in-use');
  await bench.db.query(`update svc.secrets set expires_at = '2020-01-01'`);
  assert.match(JSON.stringify((await shown())['problems']), /"error".*Secret has expired: key/);
  await bench.db.query('delete from svc.secrets');
  await bench.apply(agentsTree({ keyed: {} }), { prune: false });
  assert.deepEqual((await shown())['problems'], [
    { severity: 'error', message: 'Secret not found: key; every call is refused until it has a value.' },
    { severity: 'warning', message: 'No active trigger uses the endpoint; its events wake nobody.' },
  ]);
  assert.equal((await server.call('DELETE', 'endpoints/keyed')).status, 204);
  assert.equal((await server.call('GET', 'endpoints/keyed')).status, 404);
});

test('a schedule that no month has a day for applies, as its warning says, and has no next time', async () => {
  const { diagnostics } = await server.bench.apply(agentsTree({ byhand: { triggers: [onCron('0 0 30 2 *')] } }));
  assert.deepEqual(diagnostics, []);
  const { items } = await list('schedules');
  assert.deepEqual(
    items.map(({ agent, nextAt }) => [agent, nextAt]),
    [
      ['byhand', null],
      ['triage', '2026-11-22T09:00:00.000Z'],
    ],
  );
});

test('a page of large things ends early, with one of them at least, and the next goes on behind it', async () => {
  const { db, projectId, orgId } = server.bench;
  for (const name of ['large-1', 'large-2']) await server.bench.addRepository(name);
  await server.bench.apply(agentsTree({ 'large-1': {}, 'large-2': {} }));
  // Of each list the first thing alone is more than a page takes, and stands in it by itself.
  const large = `repeat('z', 4300000)`;
  const largeAt = (isFirst: string): string => `case when ${isFirst} then ${large} else 'a' end`;
  const things: { readonly [path: string]: string } = {
    'agents/triage/revisions': `insert into svc.agent_revisions select (jsonb_populate_record(r, jsonb_build_object('revision', n,
      'spec', jsonb_build_object('systemPrompt', ${largeAt('n = 102')})))).* from svc.agent_revisions r, generate_series(101, 102) n
        where r.revision = 1 and r.agent_id = (select id from svc.agents where name = 'triage')`,
    agents: `update svc.agents set spec = spec || jsonb_build_object('systemPrompt', ${large}) where name = 'large-1'`,
    triggers: `update svc.triggers set spec = spec || jsonb_build_object('where', jsonb_build_object('$.a', ${large})) where ordinal = 0`,
    repositories: `update svc.repositories set context = jsonb_build_object('a', ${large}) where name = 'fleet'`,
    reconciles: `insert into svc.reconciles (id, project_id, repository_name, reason, status, finished_at, diagnostics)
      select gen_random_uuid(), '${projectId}', 'fleet', 'manual', 'failed', now(), jsonb_build_array(jsonb_build_object(
        'severity', 'error', 'code', 'c', 'message', ${largeAt('n = 3')})) from generate_series(1, 3) n`,
    bindings: `insert into svc.bindings (id, project_id, agent_id, agent, target_type, target_key, state, lifecycle, continuity,
        context, created_at, updated_at)
      select (n || 'fffffff-0000-7000-8000-000000000000')::uuid, a.project_id, a.id, a.name, 'tracker.issue', 'i-' || n, 'active',
        'manual', 'agent', jsonb_build_object('a', ${largeAt('n = 3')}), now(), now()
        from svc.agents a, generate_series(1, 3) n where a.name = 'triage'`,
    audit: `insert into svc.audit (org_id, project_id, principal_kind, principal_name, action, detail)
      select '${orgId}', '${projectId}', 'system', 's', 'session.exec', jsonb_build_object('argv', jsonb_build_array(${largeAt('n = 3')}))
        from generate_series(1, 3) n`,
  };
  for (const [path, make] of Object.entries(things)) {
    await db.query(make);
    const first = await list(`${path}?limit=200`);
    assert.equal(first.items.length, 1, path);
    assert.ok(first.nextCursor, path);
    const next = await list(`${path}?limit=200&cursor=${first.nextCursor}`);
    assert.ok(next.items.length > 1, path);
    const seen = [...first.items, ...next.items].map((item) => JSON.stringify(item).slice(0, 200));
    assert.equal(new Set(seen).size, seen.length, path);
  }
});
