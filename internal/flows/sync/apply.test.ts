import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { agentsTree, createBench, hook, onCron, onEvent, type Bench } from './apply-testkit.ts';

let bench: Bench;
before(async () => {
  bench = await createBench();
});
after(() => bench.close());

const count = async (table: string, where = 'true'): Promise<number> => {
  const { rows } = await bench.db.query<{ n: number }>(`select count(*) as n from svc.${table} where ${where}`);
  return rows[0]?.n ?? -1;
};
const one = async <T>(text: string, values: unknown[] = []): Promise<T> => {
  const { rows } = await bench.db.query<T>(text, values);
  assert.equal(rows.length, 1, text);
  return rows[0] as T;
};

test('an apply stores agents, triggers, endpoints and schedules, and says what it did', async () => {
  const commit = 'c0ffee';
  const owner = await bench.addRepository('flow');
  const compiled = agentsTree({
    triage: {
      triggers: [
        hook('In Box'.replace(' ', '_'), { auth: { kind: 'none' } }),
        onCron('0 9 * * *', 'Asia/Kolkata'),
        onEvent('svc.x'),
      ],
    },
    plain: {},
  });
  const operationId = bench.ctx.runtime.uuid();
  const result = await bench.apply(compiled, { owner, commit, operationId });
  assert.equal(result.status, 'applied');
  assert.deepEqual(
    result.actions.map(({ op, kind, name }) => [op, kind, name]),
    [
      ['create', 'Agent', 'plain'],
      ['create', 'Agent', 'triage'],
      ['create', 'Environment', 'base'],
    ],
  );
  const [receipt] = result.webhooks;
  assert.match(
    receipt?.ingestUrl ?? '',
    /^http:\/\/svc\.test\/api\/v1\/webhook-endpoints\/in-box-[a-z0-9]{10}\/events$/,
  );
  assert.deepEqual(
    { ...receipt, ingestUrl: '' },
    { event: 'webhook.received', endpoint: 'In_Box', ingestUrl: '', status: 'ready' },
  );

  const agent = await one<{ id: string; revision: number; repository_id: string }>(
    `select * from svc.agents where name = 'triage'`,
  );
  assert.equal(agent.revision, 1);
  assert.equal(agent.repository_id, owner.repositoryId);
  const { rows: triggers } = await bench.db.query<{ event: string; kind: string; endpoint_id: string | null }>(
    'select event, kind, endpoint_id from svc.triggers where agent_id = $1::uuid order by ordinal',
    [agent.id],
  );
  assert.deepEqual(
    triggers.map((row) => row.event),
    ['webhook.received', `heartbeat.${agent.id}.1`, 'svc.x'],
  );
  assert.ok(triggers[0]?.endpoint_id);
  const schedule = await one<{ id: string; next_at: Date }>('select * from svc.schedules');
  assert.equal(schedule.id, `heartbeat-${agent.id}-1`);
  assert.equal(schedule.next_at.toISOString(), '2026-11-22T03:30:00.000Z');
  assert.deepEqual(result.consequences.schedules.gained[0]?.next[0], '2026-11-22T03:30:00.000Z');
  const revision = await one<{ commit: string; reconcile_id: string }>(
    `select * from svc.agent_revisions where agent_id = '${agent.id}'`,
  );
  assert.deepEqual([revision.commit, revision.reconcile_id], [commit, operationId]);
  assert.equal(await count('generated_resource_users'), 2);
});

test('an apply that wrote records its start and its end, and an audit entry, in the same transaction', async () => {
  const { rows } = await bench.db.query<{ key: string; payload: Buffer }>(
    'select key, payload from svc.events join svc.event_bodies on event_id = id order by seq',
  );
  assert.deepEqual(
    rows.map((row) => row.key),
    ['svc.project_resource_apply.started', 'svc.project_resource_apply.completed', 'svc.project.onboarded'],
    'the first of its project',
  );
  const { apply } = JSON.parse(String(rows[1]?.payload)) as { apply: Record<string, unknown> };
  assert.deepEqual(
    { ...apply, operationId: '' },
    {
      operationId: '',
      auditAction: 'repository_sync.apply',
      repository: 'flow',
      commit: 'c0ffee',
      plan: {
        counts: { create: 3, update: 0, delete: 0, unchanged: 0, diagnostics: 0 },
        changedResources: ['Agent/plain', 'Agent/triage', 'Environment/base'],
      },
      request: { resources: 3, delete: 0 },
    },
  );
  const audit = await one<{ action: string; subject_name: string }>('select * from svc.audit');
  assert.deepEqual([audit.action, audit.subject_name], ['repository_sync.apply', 'flow']);
});

test('a second apply of the same tree writes nothing and gives the receipts again', async () => {
  const owner = { ...(await ownerOf('flow')), kind: 'repository', fence: 1 } as const;
  const compiled = agentsTree({
    triage: {
      triggers: [hook('In_Box', { auth: { kind: 'none' } }), onCron('0 9 * * *', 'Asia/Kolkata'), onEvent('svc.x')],
    },
    plain: {},
  });
  const stored = await bench.dump();
  bench.setNow('2026-11-23T00:00:00Z');
  const result = await bench.apply(compiled, { owner });
  assert.equal(result.status, 'unchanged');
  assert.equal(result.webhooks.length, 1);
  assert.equal(await bench.dump(), stored);
  assert.equal(
    (await bench.apply(compiled, { owner, verify: true })).status,
    'unchanged',
    'nor does looking for drift',
  );
  assert.equal(await bench.dump(), stored);
});

const ownerOf = async (name: string): Promise<{ repositoryId: string }> =>
  one(`select id as "repositoryId" from svc.repositories where name = $1::text`, [name]);

test('a changed agent gets a revision; an edited cron a new time, the others keep theirs', async () => {
  const compiled = (prompt: string, cron: string) =>
    agentsTree({ clock: { systemPrompt: prompt, triggers: [onCron('0 1 * * *'), onCron(cron)] }, plain: {} });
  bench.setNow('2026-11-21T12:00:00Z');
  const { repositoryId } = await bench.addRepository('clock');
  const owner = { kind: 'repository', repositoryId, fence: 1 } as const;
  const adopt = { owner, adopt: true };
  await bench.apply(compiled('one', '0 2 * * *'), adopt);
  bench.setNow('2026-11-25T12:00:00Z');
  const result = await bench.apply(compiled('two', '0 3 * * *'), adopt);
  assert.deepEqual(result.actions[0]?.changes, [
    { path: 'systemPrompt', from: 'one', to: 'two' },
    { path: 'triggers[1].cron', from: '0 2 * * *', to: '0 3 * * *' },
  ]);
  const { rows } = await bench.db.query<{ next_at: Date }>(
    `select s.next_at from svc.schedules s join svc.agents a on a.id = s.agent_id where a.name = 'clock' order by ordinal`,
  );
  assert.deepEqual(
    rows.map((row) => row.next_at.toISOString()),
    ['2026-11-22T01:00:00.000Z', '2026-11-26T03:00:00.000Z'],
  );
  const { revision } = await one<{ revision: number }>(`select revision from svc.agents where name = 'clock'`);
  assert.equal(revision, 2);
  assert.equal(await count('agent_revisions', `agent_id = (select id from svc.agents where name = 'clock')`), 2);
  await bench.apply(agentsTree({ clock: { systemPrompt: 'two' }, plain: {} }), adopt);
  assert.equal(await count('schedules', `agent_id = (select id from svc.agents where name = 'clock')`), 0);
});

test('one error anywhere and nothing changes, but the failure is recorded', async () => {
  const before = await bench.dump();
  const failed = await bench.apply(
    agentsTree({ fresh: { systemPrompt: 'x' }, bad: { triggers: [hook('nowhere')], env: { A: { $secret: 'none' } } } }),
    { commit: 'bad' },
  );
  assert.equal(failed.status, 'failed');
  assert.deepEqual(failed.actions, []);
  assert.deepEqual(
    failed.diagnostics.map((item) => item.message),
    ['Webhook endpoint nowhere does not exist; include auth to create it', 'Secret not found: none'],
  );
  const cut = (text: string): string => text.slice(0, text.indexOf('\n\nevents\n'));
  assert.equal(cut(await bench.dump()), cut(before));
  const { rows } = await bench.db.query<{ key: string; payload: Buffer }>(
    'select key, payload from svc.events join svc.event_bodies on event_id = id order by seq desc limit 2',
  );
  assert.deepEqual(
    rows.map((row) => row.key),
    ['svc.project_resource_apply.failed', 'svc.project_resource_apply.started'],
  );
  const { apply } = JSON.parse(String(rows[0]?.payload)) as { apply: { error: unknown } };
  assert.deepEqual(apply.error, {
    name: 'endpoint-missing',
    message: 'Webhook endpoint nowhere does not exist; include auth to create it (and 1 more)',
  });
});

test('a tree that does not compile fails with its diagnostics', async () => {
  const diagnostics = [{ severity: 'error', code: 'yaml-syntax', message: 'no', file: 'a' }] as const;
  const result = await bench.apply({ ok: false, resources: [], diagnostics, assets: [] });
  assert.deepEqual([result.status, result.diagnostics], ['failed', diagnostics]);
});

test('a dry run gives the plan and writes nothing at all', async () => {
  const before = await bench.dump();
  const compiled = agentsTree({ dry: { triggers: [hook('dry', { auth: { kind: 'none' } })] } });
  const result = await bench.apply(compiled, { dryRun: true, prune: false });
  assert.equal(result.status, 'planned');
  assert.equal(result.webhooks[0]?.endpoint, 'dry');
  assert.deepEqual(result.consequences.endpoints.gained, ['dry']);
  const refused = await bench.apply(agentsTree({ dry: { triggers: [hook('none')] } }), { dryRun: true });
  assert.equal(refused.status, 'failed');
  assert.equal(await bench.dump(), before);
  const real = await bench.apply(compiled, { prune: false });
  assert.equal(real.webhooks[0]?.ingestUrl, result.webhooks[0]?.ingestUrl, 'the URL was told beforehand');
});

test('secrets and connections are looked up in project and organization, expired ones are absent', async () => {
  const secret = (name: string, project: boolean, more = '') =>
    bench.db.query(
      `insert into svc.secrets (org_id, project_id, name, key_version, sealed${more && ', expires_at, idle_since, idle_expiry_seconds'})
       values ($1::uuid, $2::uuid, $3::text, 1, ''${more})`,
      [bench.orgId, project ? bench.projectId : null, name],
    );
  await secret('of-org', false);
  await secret('of-project', true);
  await secret('old', true, `, '2020-01-01', now(), null`);
  await secret('shadow', true, `, '2020-01-01', now(), null`);
  await secret('shadow', false);
  await secret('idle', true, `, null, '2020-01-01', 60`);
  await bench.db.query(
    `insert into svc.connections (project_id, provider, product, name) values ($1::uuid, 'codehost', 'codehost', 'gh')`,
    [bench.projectId],
  );
  const names = ['of-org', 'of-project', 'old', 'shadow', 'idle', 'absent'];
  const env = Object.fromEntries(names.map((name, index) => [`E${index}`, { $secret: name }]));
  const triggers = [
    onEvent('codehost.push'),
    onEvent('chat.message.mentioned', { optional: true }),
    onEvent('tracker.issue.created'),
  ];
  const result = await bench.apply(agentsTree({ needy: { env, triggers } }), { prune: false });
  assert.deepEqual(result.diagnostics.map((item) => item.message).sort(), [
    'Secret has expired: idle',
    'Secret has expired: old',
    'Secret not found: absent',
    'tracker.issue.created needs an active tracker connection, and the project has none',
  ]);
  const good = await bench.apply(agentsTree({ needy: { triggers: triggers.slice(0, 2) } }), { prune: false });
  assert.equal(good.status, 'applied');
  const { rows } = await bench.db.query<{ status: string; named: boolean }>(
    `select t.status, t.connection_id is not null as named from svc.triggers t join svc.agents a on a.id = t.agent_id
      where a.name = 'needy' order by ordinal`,
  );
  assert.deepEqual(rows, [
    { status: 'active', named: true },
    { status: 'skipped', named: false },
  ]);
});

test('avatars are stored with the identity that names them', async () => {
  const sha256 = 'e'.repeat(64);
  const compiled = agentsTree({ face: { identity: 'face' } });
  const spec = { avatar: { asset: '.svc/assets/f.png', sha256 } };
  const result = await bench.apply(
    {
      ...compiled,
      resources: [...compiled.resources, { kind: 'Identity', name: 'face', spec }],
      assets: [{ sha256, path: '.svc/assets/f.png', mediaType: 'image/png' }],
    },
    { prune: false, fileBytes: (path) => (path === '.svc/assets/f.png' ? Buffer.from('picture') : undefined) },
  );
  assert.equal(result.status, 'applied');
  const row = await one<{ bytes: Buffer }>('select bytes from svc.assets');
  assert.equal(row.bytes.toString(), 'picture');
});

test('a mistake that only an apply can see has its place, and the text of its line', async () => {
  const compiled = agentsTree({ placed: { triggers: [onEvent('tracker.issue.created')] } });
  const places = { 'Agent/placed': { 'triggers[0]': { file: '.svc/agents/x.yaml', line: 2, column: 10 } } };
  const result = await bench.apply(
    { ...compiled, places },
    { prune: false, fileBytes: () => Buffer.from('triggers:\r\n- event: tracker.issue.created\n') },
  );
  const [diagnostic] = result.diagnostics;
  assert.deepEqual(
    [diagnostic?.file, diagnostic?.line, diagnostic?.column, diagnostic?.path, diagnostic?.excerpt?.lines.at(-1)],
    ['.svc/agents/x.yaml', 2, 10, 'triggers[0].event', '- event: tracker.issue.created'],
  );
});
