import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { agentsTree, createBench, hook, onCron, onEvent, type Bench } from './apply-testkit.ts';

let bench: Bench;
before(async () => {
  bench = await createBench();
});
after(() => bench.close());

const compiled = agentsTree({
  a: {
    systemPrompt: 'mine',
    triggers: [hook('in', { auth: { kind: 'none' } }), onCron('0 9 * * *'), onEvent('svc.x', { message: 'm' })],
  },
  b: { environment: 'other' },
});

/** What the rows say, without ids, times and revisions. */
async function state(): Promise<unknown> {
  const queries = [
    'select name, spec, spec_hash, repository_id is null as manual, source from svc.agents order by name',
    'select kind, name, spec, spec_hash from svc.generated_resources order by kind, name',
    `select a.name, g.kind, g.name as resource from svc.generated_resource_users u join svc.agents a on a.id = u.agent_id
       join svc.generated_resources g on g.id = u.resource_id order by 1, 2, 3`,
    `select a.name, t.ordinal, t.kind, t.event, t.spec, t.spec_hash, t.status, e.name as endpoint from svc.triggers t
       join svc.agents a on a.id = t.agent_id left join svc.endpoints e on e.id = t.endpoint_id order by 1, 2`,
    'select id, cron, timezone from svc.schedules order by id',
  ];
  const parts = [];
  for (const text of queries) parts.push((await bench.db.query(text)).rows);
  return parts;
}

const cases: { readonly what: string; readonly sql: string; readonly table?: string }[] = [
  { what: 'a trigger row that is gone', sql: 'delete from svc.triggers where ordinal = 2' },
  { what: 'a schedule that is gone', sql: 'delete from svc.schedules' },
  { what: 'a schedule with another cron', sql: `update svc.schedules set cron = '1 1 * * *'` },
  { what: 'a trigger that was skipped by hand', sql: `update svc.triggers set status = 'skipped'` },
  { what: 'a trigger on another event', sql: `update svc.triggers set event = 'svc.y' where ordinal = 2` },
  {
    what: 'a trigger row too many',
    sql: `insert into svc.triggers (project_id, agent_id, ordinal, kind, event, spec, spec_hash, status)
      select project_id, agent_id, 9, kind, event, spec, spec_hash, status from svc.triggers where ordinal = 2`,
  },
  {
    what: 'an edited spec',
    sql: `update svc.agents set spec = spec || '{"systemPrompt": "theirs"}' where name = 'a'`,
    table: 'agents',
  },
  {
    what: 'an edited spec and its hash',
    sql: `update svc.agents set spec = spec || '{"systemPrompt": "theirs"}', spec_hash = 'x' where name = 'a'`,
  },
  { what: 'an edited hash', sql: `update svc.agents set spec_hash = 'x' where name = 'a'` },
  {
    what: 'an edited trigger',
    sql: `update svc.triggers set spec = spec || '{"message": "theirs"}' where ordinal = 2`,
    table: 'triggers',
  },
  {
    what: 'an edited environment',
    sql: `update svc.generated_resources set spec = spec || '{"steps": ["x"]}' where name = 'base'`,
    table: 'generated_resources',
  },
  { what: 'an environment that is gone', sql: `delete from svc.generated_resources where name = 'base'` },
  { what: 'a share that is gone', sql: `delete from svc.generated_resource_users` },
  { what: 'an agent that is gone', sql: `delete from svc.agents where name = 'b'` },
];

test('an apply of the same tree sees an edit behind its back, and the periodic comparison one that left no trace', async () => {
  const tree = agentsTree({ edited: { triggers: [onEvent('svc.z', { message: 'm' })] } });
  await bench.apply(tree, { prune: false });
  const wanted = await state();
  for (const { what, sql, table } of cases) {
    if (table === undefined) continue;
    const edit = sql.replace(/where .*/, table === 'triggers' ? 'where true' : "where name in ('edited', 'base')");
    await bench.db.query(edit);
    const seen = await bench.apply(tree, { prune: false });
    assert.equal(seen.status, 'applied', what);
    assert.deepEqual(await state(), wanted, what);
    assert.equal((await bench.apply(tree, { prune: false })).status, 'unchanged', what);
    await bench.db.query(edit);
    await bench.db.query(`update svc.${table} set spec_sum = spec_seen`);
    const afresh = agentsTree({ edited: { triggers: [onEvent('svc.z', { message: 'm' })] } });
    assert.equal(
      (await bench.apply(afresh, { prune: false })).status,
      'unchanged',
      `${what}: not seen without looking`,
    );
    assert.equal((await bench.apply(afresh, { prune: false, verify: true })).status, 'applied', what);
    assert.deepEqual(await state(), wanted, what);
  }
  await bench.apply(agentsTree({}));
});

test('a resync puts right whatever drifted in the stored rows, also where the hash still says unchanged', async () => {
  assert.equal((await bench.apply(compiled)).status, 'applied');
  const wanted = await state();
  for (const { what, sql } of cases) {
    await bench.db.query(sql);
    assert.notDeepEqual(await state(), wanted, `${what}: the test changes something`);
    const result = await bench.apply(compiled, { verify: true });
    assert.equal(result.status, what === 'a share that is gone' ? 'unchanged' : 'applied', what);
    const healed = await state();
    if (what === 'an agent that is gone') continue;
    assert.deepEqual(healed, wanted, what);
    assert.equal((await bench.apply(compiled, { verify: true })).status, 'unchanged', what);
  }
});

test('a drifted spec is an update with the fields that differ', async () => {
  await bench.db.query(`update svc.agents set spec = spec || '{"systemPrompt": "theirs"}' where name = 'a'`);
  const result = await bench.apply(compiled, { verify: true });
  assert.deepEqual(result.actions[0], {
    op: 'update',
    kind: 'Agent',
    name: 'a',
    changes: [{ path: 'systemPrompt', from: 'theirs', to: 'mine' }],
  });
});

test('a trigger that waits for its connection is activated by the next apply after that is there', async () => {
  const waiting = agentsTree({ waits: { triggers: [onEvent('codehost.push', { connection: 'gh', optional: true })] } });
  assert.deepEqual((await bench.apply(waiting, { prune: false })).consequences.triggers.skipped, [
    { agent: 'waits', ordinal: 0, event: 'codehost.push' },
  ]);
  await bench.db.query(
    `insert into svc.connections (project_id, provider, product, name) values ($1::uuid, 'codehost', 'codehost', 'gh')`,
    [bench.projectId],
  );
  const result = await bench.apply(waiting, { prune: false });
  assert.equal(result.status, 'applied');
  assert.deepEqual(result.consequences.triggers.activated, [{ agent: 'waits', ordinal: 0, event: 'codehost.push' }]);
  const { rows } = await bench.db.query(`select revision from svc.agents where name = 'waits'`);
  assert.deepEqual(rows, [{ revision: 1 }]);
});

test('a reserved endpoint keeps its slug when an apply promotes it', async () => {
  await bench.db.query(
    `insert into svc.endpoints (project_id, name, slug, status, reserved_until)
     values ($1::uuid, 'held', 'held-slug', 'reserved', now() + interval '1 hour')`,
    [bench.projectId],
  );
  const bare = await bench.apply(agentsTree({ h: { triggers: [hook('held')] } }), { prune: false });
  assert.equal(bare.diagnostics[0]?.message, 'Webhook endpoint held does not exist; include auth to create it');
  const trigger = hook('held', { auth: { kind: 'none' } });
  const result = await bench.apply(agentsTree({ h: { triggers: [trigger] } }), { prune: false });
  assert.equal(result.webhooks[0]?.ingestUrl, 'http://svc.test/api/v1/webhook-endpoints/held-slug/events');
  const { rows } = await bench.db.query(`select status, reserved_until from svc.endpoints where name = 'held'`);
  assert.deepEqual(rows, [{ status: 'ready', reserved_until: null }]);
  const inherits = await bench.apply(agentsTree({ h: { triggers: [hook('held')] } }), { prune: false });
  assert.equal(inherits.status, 'applied');
  const other = hook('held', { auth: { kind: 'bearer_token', secretRef: 's' } });
  const refused = await bench.apply(agentsTree({ h: { triggers: [other] } }), { prune: false });
  assert.equal(refused.diagnostics[0]?.code, 'endpoint-auth-conflict');
});
