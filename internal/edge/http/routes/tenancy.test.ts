// What goes with a member, an account, a token, a receiver or a tenant, told before it goes; and who uses a connection.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { DryRun } from '../../../../schemas/api/common.ts';
import { startTestDaemon, type TestDaemon } from '../../../base/testkit/daemon.ts';

let daemon: TestDaemon;
before(async () => {
  daemon = await startTestDaemon({ config: { roles: ['api'] } });
});
after(() => daemon.stop());

const agent = (name: string, more: object) => ({
  path: `.svc/agents/${name}.json`,
  content: JSON.stringify({
    name,
    harness: 'harness-a',
    environment: { name: 'e', image: { kind: 'preset', name: 'base' } },
    ...more,
  }),
});

test('who loses what is told before a member, an account, a token, a receiver or a tenant goes', async () => {
  const O = '/api/v1/orgs/default';
  const dry = async (method: string, path: string, body?: object): Promise<string[]> => {
    const { status, body: found } = await daemon.api(method, `${path}?dryRun=true`, body);
    assert.equal(status, 200, `${path} ${JSON.stringify(found)}`);
    const { consequences } = found as unknown as DryRun;
    return consequences.map(({ text, names }) => [text, ...names].join(' | '));
  };
  const made = async (path: string, body: object) => (await daemon.api('POST', path, body)).body;
  const principalId = String((await made(`${O}/members`, { email: 'mia@example.org', name: 'Mia' }))['principalId']);
  await made('P/members', { email: 'mia@example.org', role: 'operator' });
  const token = await made(`${O}/tokens`, { email: 'mia@example.org', name: 'laptop' });
  await made(`${O}/service-accounts`, { name: 'robot' });
  await made('P/members', { serviceAccount: 'robot', role: 'viewer' });
  await made(`${O}/tokens`, { serviceAccount: 'robot', name: 'ci' });
  await made('P/receivers', { name: 'pager', kind: 'webhook', url: 'https://example.org/hook' });
  const asMia = String(token['token']);
  const handoff = (await daemon.api('POST', '/api/v1/auth/handoffs', undefined, { token: asMia })).body['handoff'];
  const headers = { 'content-type': 'application/json', origin: daemon.url };
  const opened = await fetch(`${daemon.url}/api/v1/auth/sessions`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ handoff }),
  });
  assert.equal(opened.status, 201);

  assert.deepEqual(await dry('DELETE', `P/members/${principalId}`), [
    'Mia is operator of the project no more, from the next request on',
    '1 token opens the project no more | laptop',
    '1 signed-in browser sees the project no more | handoff',
  ]);
  assert.deepEqual(await dry('DELETE', `${O}/members/${principalId}`), [
    'Mia is member of the organization no more, from the next request on',
    '1 project is left with it | default',
    '1 token opens the organization no more | laptop',
    '1 signed-in browser sees the organization no more | handoff',
  ]);
  const tokenPath = `${O}/tokens/${String(token['id'])}`;
  const [refused, used, browsers] = await dry('DELETE', tokenPath);
  assert.equal(refused, 'Whatever uses laptop of Mia is refused from its next request on');
  assert.match(used ?? '', /^It was used last at 2/);
  assert.equal(browsers, '1 browser opened with it is signed out');
  const own = await made('/api/v1/tokens', { name: 'spare' });
  assert.equal((await dry('DELETE', `/api/v1/tokens/${String(own['id'])}`))[1], 'It was never used');
  assert.deepEqual(await dry('PATCH', `${O}/service-accounts/robot`, { disabled: true }), [
    'Service account robot is disabled',
    '1 token is refused until it is enabled | ci',
  ]);
  assert.deepEqual(await dry('DELETE', `${O}/service-accounts/robot`), [
    'Service account robot goes; nobody gets it back',
    '1 token goes with it | ci',
    '1 project loses it | default',
  ]);
  assert.deepEqual(await dry('DELETE', 'P/receivers/pager'), [
    'pager is told nothing any more',
    'Nobody else is told of what goes wrong in the project',
  ]);
  const triggers = [{ kind: 'heartbeat', cron: '0 3 * * *', message: 'm', routing: { kind: 'spawn' } }];
  await made('P/apply', { files: [agent('nightly', { triggers })] });
  const rest = await dry('PATCH', '/api/v1/orgs/default/projects/default', { archived: true });
  assert.equal(rest[0], 'Project default stays as it is, to be read: nobody changes anything in it');
  assert.ok(
    rest.some((line) => /^\d+ schedules? do(es)? not fire/.test(line)),
    String(rest),
  );
  await made('/api/v1/orgs', { slug: 'spare' });
  await daemon.api('PUT', '/api/v1/orgs/spare/secrets/key', { value: 'x'.repeat(20) });
  assert.deepEqual((await dry('DELETE', '/api/v1/orgs/spare')).slice(-1), ['1 secret goes, with its value | key']);

  // What the act is refused for, its dry run is refused for.
  const me = String((await daemon.api('GET', '/api/v1/me')).body['id']);
  for (const [path, code] of [
    [`/api/v1/orgs/spare/members/${me}`, 'last-administrator'],
    [O, 'first-organization'],
  ] as const) {
    for (const query of ['?dryRun=true', '']) {
      const { status, body } = await daemon.api('DELETE', `${path}${query}`);
      assert.deepEqual([status, body['code']], [409, code], path);
    }
  }
  const missing = '00000000-0000-4000-8000-000000000000';
  for (const path of [
    `P/members/${missing}`,
    `${O}/tokens/${missing}`,
    'P/receivers/none',
    `${O}/service-accounts/none`,
  ])
    assert.equal((await daemon.api('DELETE', `${path}?dryRun=true`)).status, 404, path);

  // Nothing has gone, and why it goes is kept.
  for (const [method, path, action, body] of [
    ['DELETE', 'P/receivers/pager', 'receiver.deleted', {}],
    ['DELETE', tokenPath, 'token.revoked', {}],
    ['PATCH', `${O}/service-accounts/robot`, 'org_member.service_account_disabled', { disabled: true }],
    ['DELETE', `${O}/service-accounts/robot`, 'org_member.service_account_deleted', {}],
    ['DELETE', `P/members/${principalId}`, 'project_member.removed', {}],
    ['DELETE', `${O}/members/${principalId}`, 'org_member.removed', {}],
    ['DELETE', '/api/v1/orgs/spare', 'org.deleted', {}],
  ] as const) {
    const { status } = await daemon.api(method, path, { ...body, reason: 'left us' });
    assert.ok([200, 204].includes(status), path);
    const { rows } = await daemon.ctx.db.query<{ reason: string }>(
      `select detail ->> 'reason' as reason from svc.audit where action = $1 order by id desc limit 1`,
      [action],
    );
    assert.equal(rows[0]?.reason, 'left us', action);
  }
  assert.deepEqual((await dry('DELETE', `/api/v1/tokens/${String(own['id'])}`)).length, 2);
});

test('a text of people is as long as its characters are many', async () => {
  const faces = (count: number): string => '\u{1F600}'.repeat(count);
  const change = async (body: object) => {
    const { status, body: answer } = await daemon.api('PATCH', 'P', body);
    return [status, String(answer['detail'])] as const;
  };
  assert.equal((await change({ name: faces(200), reason: faces(500) }))[0], 200);
  assert.equal((await daemon.api('GET', `P/audit?subject=${encodeURIComponent(faces(300))}`)).status, 200);
  const tooLong = await change({ name: faces(201), reason: faces(501) });
  assert.equal(tooLong[0], 400);
  assert.match(tooLong[1], /name: Expected at most 200 characters; reason: Expected at most 500 characters$/);
  const { body } = await daemon.api('GET', '/api/v1/openapi.json');
  const operation = body['paths']?.['/api/v1/orgs/{org}/projects/{project}']?.['patch'];
  const schema = operation?.['requestBody']?.['content']?.['application/json']?.['schema']?.['properties'];
  assert.deepEqual([schema?.['name']?.['maxLength'], schema?.['reason']?.['maxLength']], [200, 500]);
  assert.equal((await change({ name: 'default' }))[0], 200);
});

test('a change of a project that would be refused is refused as a dry run', async () => {
  const projects = '/api/v1/orgs/default/projects';
  assert.equal((await daemon.api('POST', projects, { slug: 'taken' })).status, 201);
  for (const [slug, status, code] of [
    ['taken', 409, 'slug-taken'],
    ['No Slug', 400, 'invalid-slug'],
  ] as const)
    for (const query of ['?dryRun=true', '']) {
      const answer = await daemon.api('PATCH', `${projects}/default${query}`, { slug });
      assert.deepEqual([answer.status, answer.body['code']], [status, code], `${slug}${query}`);
    }
  assert.equal((await daemon.api('PATCH', `${projects}/default?dryRun=true`, { slug: 'default' })).status, 200);
  assert.equal((await daemon.api('PATCH', `${projects}/default?dryRun=true`, { slug: 'free' })).status, 200);
  assert.equal((await daemon.api('DELETE', `${projects}/taken`)).status, 204);
});

test('a connection says how many agents use it', async () => {
  const { rows } = await daemon.ctx.db.query<{ id: string }>(`select id from svc.projects where slug = 'default'`);
  await daemon.ctx.db.query(
    `insert into svc.connections (project_id, provider, product, name, status) values ($1, 'mcp', 'mcp', 'wiki', 'active'),
       ($1, 'mcp', 'mcp', 'idle', 'active')`,
    [rows[0]?.id],
  );
  const tool = { kind: 'mcp_remote', url: 'https://example.org/mcp', auth: { kind: 'mcp_oauth', connection: 'wiki' } };
  const files = [agent('reads', { tools: { wiki: tool, again: tool } }), agent('idles', {})];
  const applied = await daemon.api('POST', 'P/apply', { files, prune: false });
  assert.equal(applied.status, 200, JSON.stringify(applied.body));
  const { body } = await daemon.api('GET', 'P/connections');
  const users: { readonly [name: string]: unknown } = Object.fromEntries(
    (body['items'] as unknown as readonly { readonly [key: string]: unknown }[]).map((one) => [
      String(one['name']),
      one['usedBy'],
    ]),
  );
  assert.deepEqual([users['wiki'], users['idle']], [1, 0]);
  assert.equal((await daemon.api('GET', 'P/connections/wiki')).body['usedBy'], 1);
  // Since when it has its status, and what has failed since.
  const count = `update svc.connections set failed_calls = failed_calls + 1, updated_at = now() where name = 'wiki'`;
  const shown = async () => {
    const one = (await daemon.api('GET', 'P/connections/wiki')).body;
    return { since: Date.parse(String(one['since'])), failed: one['failedCalls'] };
  };
  const made = await shown();
  assert.equal(made.failed, 0);
  await daemon.ctx.db.query(count);
  assert.deepEqual(await shown(), { ...made, failed: 1 });
  await daemon.ctx.db.query(`update svc.connections set status = 'authorization_required' where name = 'wiki'`);
  const lost = await shown();
  assert.ok(lost.since > made.since);
  assert.equal(lost.failed, 0);
  await daemon.ctx.db.query(`delete from svc.connections where name in ('wiki', 'idle')`);
  for (const name of ['reads', 'idles']) assert.equal((await daemon.api('DELETE', `P/agents/${name}`)).status, 204);
});

test('a connection of a code host says what mounts and repositories lose with it', async () => {
  const host = (name: string, installationId: string) => ({
    provider: 'codehost',
    name,
    config: { appId: '1', installationId },
    credentials: { webhookSecret: 'a-secret-of-the-hook' },
  });
  const mounts = (auth: object) => [{ kind: 'git', repository: 'acme/app', mountPath: '/workspace/app', auth }];
  const users = async () => {
    const { body } = await daemon.api('GET', 'P/connections');
    const items = body['items'] as unknown as readonly { readonly name: string; readonly usedBy: number }[];
    return Object.fromEntries(items.map(({ name, usedBy }) => [name, usedBy]));
  };
  assert.equal((await daemon.api('POST', 'P/connections', host('code', '1'))).status, 201);
  const files = [
    agent('any', { mounts: mounts({ kind: 'codehostApp' }) }),
    agent('one', { mounts: mounts({ kind: 'codehostApp', installationId: '1' }) }),
    agent('public', { mounts: mounts({ kind: 'none' }) }),
  ];
  const applied = await daemon.api('POST', 'P/apply', { files, prune: false });
  assert.equal(applied.status, 200, JSON.stringify(applied.body));
  const fleet = {
    name: 'fleet',
    url: 'https://code.example/acme/fleet.git',
    auth: { kind: 'connection', connection: 'code' },
    suspended: true,
  };
  assert.equal((await daemon.api('POST', 'P/repositories', fleet)).status, 201);
  assert.deepEqual(await users(), { code: 2 });
  const { body } = await daemon.api('DELETE', 'P/connections/code?dryRun=true');
  assert.deepEqual(
    (body as unknown as DryRun).consequences.slice(1).map(({ text, names }) => [text, ...names].join(' | ')),
    [
      '2 agents whose mounts it opens cannot start without another | any | one',
      '1 repository cannot be read any more | fleet',
    ],
  );
  // Of two, a mount means the one of its installation, and one that names none means neither.
  assert.equal((await daemon.api('POST', 'P/connections', host('other', '2'))).status, 201);
  assert.deepEqual(await users(), { code: 1, other: 0 });
  await daemon.api('DELETE', 'P/repositories/fleet');
  for (const name of ['any', 'one', 'public']) await daemon.api('DELETE', `P/agents/${name}`);
  for (const name of ['code', 'other']) assert.equal((await daemon.api('DELETE', `P/connections/${name}`)).status, 204);
});

test('a connection that receivers speak through says whom nobody tells any more', async () => {
  const chat = { provider: 'chat', name: 'team', config: {}, credentials: { signingSecret: 'a-signing-secret' } };
  assert.equal((await daemon.api('POST', 'P/connections', chat)).status, 201);
  const receiver = { name: 'alarms', kind: 'chat', connection: 'team', channel: 'C1' };
  const made = await daemon.api('POST', 'P/receivers', receiver);
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const { body } = await daemon.api('DELETE', 'P/connections/team?dryRun=true');
  const said = (body as unknown as DryRun).consequences.map(({ text, names }) => [text, ...names].join(' | '));
  assert.deepEqual(said.slice(1), ['1 receiver is told nothing any more | alarms']);
  await daemon.api('DELETE', 'P/receivers/alarms');
  await daemon.api('DELETE', 'P/connections/team');
});

test('what is added to something that is being removed answers as if it came a moment later', async () => {
  const { db } = daemon.database;
  const made = async (path: string, body: object) => (await daemon.api('POST', path, body)).body;
  /** Asks for something while `removal` is not committed, which it is once what is asked waits for it. */
  const meanwhile = async (removal: string, id: string, ...asked: Parameters<TestDaemon['api']>) => {
    const waits = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
    const { answer } = await db.tx(async (tx) => {
      await tx.query(removal, [id]);
      let isAnswered = false;
      const asking = daemon.api(...asked).finally(() => (isAnswered = true));
      while (!isAnswered && (await db.query(waits)).rowCount === 0);
      return { answer: asking };
    });
    const { status, body } = await answer;
    return [status, body['code']];
  };
  const O = '/api/v1/orgs/default';
  for (const [path, body] of Object.entries({
    'service-accounts': { name: 'late' },
    members: { email: 'late@example.org' },
    'secrets/late': { value: 'v' },
  })) {
    const org = String((await made('/api/v1/orgs', { slug: 'brief' }))['id']);
    const method = path.startsWith('secrets') ? 'PUT' : 'POST';
    const removal = 'delete from svc.orgs where id = $1::uuid';
    assert.deepEqual(await meanwhile(removal, org, method, `/api/v1/orgs/brief/${path}`, body), [404, 'not-found']);
  }

  const account = async (name: string) => String((await made(`${O}/service-accounts`, { name }))['id']);
  const ended = 'delete from svc.principals where id = $1::uuid';
  const off = { disabled: true };
  assert.deepEqual(
    await meanwhile(ended, await account('one'), 'PATCH', `${O}/service-accounts/one`, off),
    [404, 'not-found'],
    'an account is not disabled that is gone',
  );
  const forTwo = { serviceAccount: 'two', name: 'ci' };
  assert.deepEqual(
    await meanwhile(ended, await account('two'), 'POST', `${O}/tokens`, forTwo),
    [409, 'removed-meanwhile'],
    'nor does it get a token',
  );
  await account('three');
  const { token } = (await made(`${O}/tokens`, { serviceAccount: 'three', name: 'ci' })) as unknown as {
    token: string;
  };
  const { body: me } = await daemon.api('GET', '/api/v1/me', undefined, { token });
  assert.deepEqual(
    await meanwhile(ended, String(me['id']), 'POST', '/api/v1/tokens', { name: 'own' }, { token }),
    [401, 'invalid-token'],
    'nor can it make itself one',
  );

  const leaver = String((await made(`${O}/members`, { email: 'leaver@example.org' }))['principalId']);
  const left = 'delete from svc.org_members where principal_id = $1::uuid';
  assert.deepEqual(
    await meanwhile(left, leaver, 'POST', 'P/members', { principalId: leaver, role: 'admin' }),
    [422, 'unknown-principal'],
    'who leaves the organization gets no role in its projects',
  );
  assert.ok(!JSON.stringify((await daemon.api('GET', 'P/members')).body).includes(leaver));
});

test('of several who delete or rename the same tenant at once one is answered that it is done, and it is noted once', async () => {
  const { db } = daemon.database;
  const O = '/api/v1/orgs/rush';
  const { body: org } = await daemon.api('POST', '/api/v1/orgs', { slug: 'rush' });
  const { body: project } = await daemon.api('POST', `${O}/projects`, { slug: 'p' });
  /** Asks while somebody else has the row of what is asked about, until all wait for it. */
  const together = async (
    table: string,
    id: unknown,
    calls: readonly [method: string, path: string, body?: object][],
  ) => {
    const waits = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
    const { answers } = await db.tx(async (tx) => {
      await tx.query(`select from svc.${table} where id = $1::uuid for update`, [String(id)]);
      const asked: Promise<string>[] = [];
      let isAnswered = false;
      for (const [method, path, body] of calls) {
        asked.push(
          daemon
            .api(method, path, body)
            .then((answer) => `${answer.status} ${String(answer.body?.['code'])}`)
            .finally(() => (isAnswered = true)),
        );
        while (!isAnswered && (await db.query(waits)).rowCount < asked.length);
      }
      assert.equal(isAnswered, false, 'each waits for who has the row');
      return { answers: asked };
    });
    return Promise.all(answers);
  };
  const gone = '404 not-found';
  assert.deepEqual(
    await together('projects', project['id'], [
      ['DELETE', `${O}/projects/p`],
      ['DELETE', `${O}/projects/p`],
      ['PATCH', `${O}/projects/p`, { slug: 'kept' }],
    ]),
    ['204 undefined', gone, gone],
  );
  assert.equal((await daemon.api('POST', `${O}/projects`, { slug: 'kept' })).status, 201, 'the name is free');
  assert.equal((await daemon.api('DELETE', `${O}/projects/kept`)).status, 204);
  assert.deepEqual(
    await together('orgs', org['id'], [
      ['DELETE', O],
      ['DELETE', O],
      ['PATCH', O, { name: 'Kept' }],
    ]),
    ['204 undefined', gone, gone],
  );
  const { rows } = await db.query<{ action: string; n: number }>(
    `select action, count(*)::int as n from svc.audit where org_id = $1::uuid and action like '%.deleted' group by action order by action`,
    [String(org['id'])],
  );
  assert.deepEqual(rows, [
    { action: 'org.deleted', n: 1 },
    { action: 'project.deleted', n: 2 },
  ]);
});
