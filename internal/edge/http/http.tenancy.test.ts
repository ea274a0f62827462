import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type Api, apiClient, startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';

interface Person {
  readonly id: string;
  readonly api: Api;
}

describe('organizations, projects, members and tokens', () => {
  let daemon: TestDaemon;
  let api: Api;
  let skewMs = 0;
  before(async () => {
    daemon = await startTestDaemon({ runtime: { now: () => new Date(Date.now() + skewMs) } });
    api = daemon.api;
  });
  after(() => daemon.stop());

  /** A new person in an organization of the administrator's, with a token. */
  async function person(org: string, email: string, role = 'member', by: Api = api): Promise<Person> {
    const member = await by('POST', `/api/v1/orgs/${org}/members`, { email, role });
    assert.equal(member.status, 201, JSON.stringify(member.body));
    const made = await by('POST', `/api/v1/orgs/${org}/tokens`, { email, name: 'test' });
    assert.equal(made.status, 201, JSON.stringify(made.body));
    return { id: String(member.body['principalId']), api: apiClient(daemon.url, String(made.body['token'])) };
  }

  it('tells the caller who it is and what it may do where', async () => {
    const { body } = await api('GET', '/api/v1/me');
    assert.equal(body['name'], 'administrator');
    assert.equal(body['kind'], 'user');
    const org = body['orgs']?.[0];
    assert.equal(org?.['slug'], 'default');
    assert.equal(org?.['role'], 'admin');
    const permissions = JSON.stringify(org?.['projects']?.[0]?.['permissions']);
    for (const one of [
      'secrets:list',
      'secrets:write',
      'secrets:reveal',
      'provider_grants:write',
      'provider_grants:use',
      'repositories:write',
      'sessions:control',
    ]) {
      assert.ok(permissions.includes(`"${one}"`), one);
    }
  });

  it('creates, lists, renames, archives and deletes', async () => {
    const made = await api('POST', '/api/v1/orgs', { name: 'Acme Works' });
    assert.equal(made.status, 201);
    assert.equal(made.body['slug'], 'acme-works');
    assert.equal((await api('POST', '/api/v1/orgs', { slug: 'acme-works' })).status, 409);
    for (const slug of ['Acme', '-a', 'a_b', '', 'a'.repeat(64), '00000000-0000-4000-8000-000000000000']) {
      assert.equal((await api('POST', '/api/v1/orgs', { slug })).status, 400, slug);
    }
    const base = '/api/v1/orgs/acme-works/projects';
    assert.equal((await api('POST', base, { slug: 'web' })).status, 201);
    assert.equal((await api('POST', base, { slug: 'web' })).status, 409);
    const project = await api('GET', `${base}/web`);
    assert.equal(project.body['org'], 'acme-works');
    const byId = await api('GET', `/api/v1/orgs/${made.body['id']}/projects/${project.body['id']}`);
    assert.deepEqual(byId.body, project.body);
    assert.equal((await api('PATCH', `${base}/web`, { name: 'The Web', archived: true })).body['archived'], true);
    assert.equal(
      (await api('POST', `${base}/web/members`, { email: 'x@example.com', role: 'viewer' })).body['code'],
      'project-archived',
    );
    // What an event would do is a question, by whichever method it is asked.
    const asked = { event: 'webhook.received', payload: {} };
    assert.equal((await api('POST', `${base}/web/triggers/explain`, asked)).status, 200);
    assert.equal((await api('PATCH', `${base}/web`, { archived: false })).body['archivedAt'], null);
    assert.equal((await api('DELETE', '/api/v1/orgs/acme-works')).body['code'], 'org-not-empty');
    assert.equal((await api('DELETE', `${base}/web`)).status, 204);
    assert.equal((await api('GET', `${base}/web`)).status, 404);
    assert.equal((await api('DELETE', '/api/v1/orgs/acme-works')).status, 204);
    assert.equal((await api('GET', '/api/v1/orgs/acme-works')).status, 404);
    // Its administrators are those of the installation; that must not pass to the next organization's.
    assert.equal((await api('DELETE', '/api/v1/orgs/default')).body['code'], 'first-organization');
  });

  it('deletes a project with everything in it', async () => {
    await api('POST', '/api/v1/orgs/default/projects', { slug: 'full' });
    const base = '/api/v1/orgs/default/projects/full';
    const content = [
      'name: a',
      'harness: harness-a',
      'environment: {name: default, image: {kind: preset, name: base}}',
      'triggers:',
      '  - {kind: heartbeat, cron: "0 * * * *", timezone: UTC, routing: {kind: spawn}}',
      '  - {event: webhook.received, endpoint: hook, auth: {kind: none}, routing: {kind: spawn}}',
    ].join('\n');
    const applied = await api('POST', `${base}/apply`, { files: [{ path: '.svc/agents/a.yaml', content }] });
    assert.equal(applied.status, 200, JSON.stringify(applied.body));
    assert.equal((await api('DELETE', base)).status, 204);
    assert.equal((await api('GET', `${base}/agents`)).status, 404);
    const { body } = await api('GET', '/api/v1/orgs/default/audit?action=project.deleted&limit=1');
    assert.equal(body['items']?.[0]?.['subject']?.['name'], 'full');
  });

  it('pages through a list with an opaque cursor', async () => {
    await api('POST', '/api/v1/orgs', { slug: 'paged' });
    const base = '/api/v1/orgs/paged/projects';
    for (const slug of ['c', 'a', 'e', 'b', 'd']) await api('POST', base, { slug });
    const seen: unknown[] = [];
    let cursor: unknown = '';
    for (let pages = 0; cursor !== null; pages += 1) {
      assert.ok(pages < 5);
      const { body }: Awaited<ReturnType<Api>> = await api(
        'GET',
        `${base}?limit=2${cursor === '' ? '' : `&cursor=${cursor}`}`,
      );
      for (const item of body['items'] as unknown as { slug: string }[]) seen.push(item.slug);
      cursor = body['nextCursor'];
    }
    assert.deepEqual(seen, ['a', 'b', 'c', 'd', 'e']);
    for (const query of [
      'limit=0',
      'limit=201',
      'limit=x',
      'cursor=!!',
      `cursor=${Buffer.from('[1]').toString('base64url')}`,
      'page=2',
    ]) {
      assert.equal((await api('GET', `${base}?${query}`)).status, 400, query);
    }
    for (const list of [
      '/api/v1/orgs/paged/members',
      '/api/v1/tokens',
      '/api/v1/orgs/paged/audit',
      '/api/v1/orgs/paged/service-accounts',
      '/api/v1/orgs/paged/tokens',
    ]) {
      assert.equal(
        (await api('GET', `${list}?cursor=${Buffer.from('["a",{}]').toString('base64url')}`)).status,
        400,
        list,
      );
      const first = await api('GET', `${list}?limit=1`);
      assert.equal(first.status, 200, list);
      if (first.body['nextCursor'] !== null)
        assert.equal((await api('GET', `${list}?cursor=${first.body['nextCursor']}`)).status, 200, list);
    }
  });

  it('hides an organization from everybody outside, in the words of what does not exist', async () => {
    const outsider = await person('default', 'outside@example.com');
    await api('POST', '/api/v1/orgs', { slug: 'hidden' });
    await api('POST', '/api/v1/orgs/hidden/projects', { slug: 'p' });
    const routes: [string, string][] = [
      ['GET', ''],
      ['PATCH', ''],
      ['DELETE', ''],
      ['GET', '/members'],
      ['GET', '/tokens'],
      ['GET', '/audit'],
      ['GET', '/projects'],
      ['GET', '/projects/p'],
      ['DELETE', '/projects/p'],
      ['GET', '/projects/p/members'],
      ['GET', '/projects/p/audit'],
    ];
    for (const [method, path] of routes) {
      const hidden = await outsider.api(method, `/api/v1/orgs/hidden${path}`);
      const missing = await outsider.api(method, `/api/v1/orgs/nowhere${path}`);
      assert.equal(hidden.status, 404, path);
      assert.deepEqual({ ...hidden.body, requestId: '' }, { ...missing.body, requestId: '' }, path);
    }
    const { body } = await outsider.api('GET', '/api/v1/orgs');
    assert.deepEqual(
      (body['items'] as unknown as { slug: string }[]).map((org) => org.slug),
      ['default'],
    );
    // The path's organization counts, not another one's project that the caller can see.
    const mine = (await api('GET', '/api/v1/orgs/default/projects/default')).body['id'];
    assert.equal((await api('GET', `/api/v1/orgs/hidden/projects/${mine}`)).status, 404);
  });

  it('grants by role: nothing to a member, looking to a viewer, everything to an administrator', async () => {
    const { id, api: theirs } = await person('default', 'role@example.com');
    const base = '/api/v1/orgs/default/projects/default';
    assert.equal((await theirs('GET', base)).status, 404, 'a member sees no project');
    assert.equal((await theirs('GET', '/api/v1/orgs/default/members')).status, 403);
    assert.equal((await theirs('POST', '/api/v1/orgs', { slug: 'mine' })).status, 403);
    assert.equal((await api('POST', `${base}/members`, { principalId: id, role: 'viewer' })).status, 201);
    assert.equal((await theirs('GET', base)).status, 200);
    assert.equal((await theirs('PATCH', base, { name: 'x' })).status, 403);
    assert.equal((await theirs('GET', `${base}/audit`)).status, 403);
    assert.equal((await api('PATCH', `${base}/members/${id}`, { role: 'admin' })).body['role'], 'admin');
    assert.equal((await theirs('GET', `${base}/audit`)).status, 200);
    assert.equal(
      (await theirs('PATCH', '/api/v1/orgs/default', { name: 'x' })).status,
      403,
      'a project is not the organization',
    );
    assert.equal((await api('DELETE', `${base}/members/${id}`)).status, 204);
    assert.equal((await theirs('GET', base)).status, 404, 'at once');
    assert.equal((await api('DELETE', `${base}/members/${id}`)).status, 404);
  });

  it('makes one person of a new address that several add at once', async () => {
    for (let round = 0; round < 5; round += 1) {
      const body = { email: `Several-${round}@example.com`, role: 'member' };
      const add = () => api('POST', '/api/v1/orgs/default/members', body);
      const answers = await Promise.all(Array.from({ length: 6 }, add));
      assert.deepEqual(
        answers.map(({ status }) => status),
        answers.map(() => 201),
      );
      assert.equal(new Set(answers.map((one) => String(one.body['principalId']))).size, 1);
    }
  });

  it('takes project members from the organization alone, and keeps an administrator', async () => {
    const base = '/api/v1/orgs/default/projects/default';
    assert.equal(
      (await api('POST', `${base}/members`, { email: 'stranger@example.com' })).body['code'],
      'unknown-principal',
    );
    const myself = (await api('GET', '/api/v1/me')).body['id'];
    assert.equal(
      (await api('PATCH', `/api/v1/orgs/default/members/${myself}`, { role: 'member' })).body['code'],
      'last-administrator',
    );
    assert.equal((await api('DELETE', `/api/v1/orgs/default/members/${myself}`)).body['code'], 'last-administrator');
    assert.equal(
      (await api('POST', '/api/v1/orgs/default/members', { email: 'a@b.example', principalId: 'x' })).status,
      400,
    );
  });

  it('shows a token once, and stops it at once when revoked, expired or its account is deleted', async () => {
    const made = await api('POST', '/api/v1/tokens', { name: 'laptop' });
    assert.equal(made.status, 201);
    assert.equal(made.headers.get('cache-control'), 'no-store');
    const token = String(made.body['token']);
    assert.match(token, /^svc_[A-Za-z0-9_-]{43}$/);
    assert.equal((await api('GET', '/api/v1/me', undefined, { token })).status, 200);
    const listed = JSON.stringify((await api('GET', '/api/v1/tokens')).body);
    assert.ok(listed.includes('"laptop"') && !listed.includes(token));
    const { rows } = await daemon.database.db.query<{ found: boolean }>(
      `select exists (select from svc.api_tokens t where t::text like '%' || $1::text || '%')
         or exists (select from svc.audit a where a::text like '%' || $1::text || '%') as found`,
      [token.slice(4)],
    );
    assert.equal(rows[0]?.found, false, 'stored nowhere');
    assert.equal((await api('DELETE', `/api/v1/tokens/${made.body['id']}`)).status, 204);
    assert.equal((await api('GET', '/api/v1/me', undefined, { token })).status, 401);

    const soon = new Date(Date.now() + 3_600_000).toISOString();
    const short = String((await api('POST', '/api/v1/tokens', { name: 'short', expiresAt: soon })).body['token']);
    assert.equal((await api('GET', '/api/v1/me', undefined, { token: short })).status, 200);
    skewMs = 3_600_000;
    assert.equal((await api('GET', '/api/v1/me', undefined, { token: short })).status, 401);
    skewMs = 0;
    assert.equal(
      (await api('POST', '/api/v1/tokens', { name: 'past', expiresAt: '2020-01-01T00:00:00Z' })).body['code'],
      'invalid-expiry',
    );

    const account = await api('POST', '/api/v1/orgs/default/service-accounts', { name: 'robot' });
    assert.equal(account.status, 201);
    assert.equal((await api('POST', '/api/v1/orgs/default/service-accounts', { name: 'robot' })).status, 409);
    const theirs = String(
      (await api('POST', '/api/v1/orgs/default/tokens', { serviceAccount: 'robot', name: 'ci' })).body['token'],
    );
    assert.equal((await api('GET', '/api/v1/me', undefined, { token: theirs })).body['kind'], 'service_account');
    assert.equal((await api('POST', '/api/v1/orgs', { slug: 'robots' }, { token: theirs })).status, 403);
    assert.equal((await api('DELETE', '/api/v1/orgs/default/service-accounts/robot')).status, 204);
    assert.equal((await api('GET', '/api/v1/me', undefined, { token: theirs })).status, 401);
  });

  it('makes no token that would open another organization', async () => {
    await api('POST', '/api/v1/orgs', { slug: 'north' });
    await api('POST', '/api/v1/orgs', { slug: 'south' });
    const admin = await person('south', 'south-admin@example.com', 'admin');
    await person('north', 'both@example.com');
    assert.equal((await admin.api('POST', '/api/v1/orgs/south/members', { email: 'BOTH@example.com' })).status, 201);
    const made = await admin.api('POST', '/api/v1/orgs/south/tokens', { email: 'both@example.com', name: 'x' });
    const slugs = async (call: Api): Promise<string[]> =>
      ((await call('GET', '/api/v1/orgs')).body['items'] as unknown as { slug: string }[]).map((org) => org.slug);
    const limited = apiClient(daemon.url, String(made.body['token']));
    assert.deepEqual(await slugs(limited), ['south']);
    assert.equal((await limited('GET', '/api/v1/orgs/north')).status, 404);
    assert.equal((await limited('GET', '/api/v1/me')).body['orgs']?.[1], undefined);
    const child = await limited('POST', '/api/v1/tokens', { name: 'child' });
    assert.deepEqual(await slugs(apiClient(daemon.url, String(child.body['token']))), ['south'], 'nor a way around it');
    assert.equal((await limited('GET', '/api/v1/tokens')).body['items']?.[2], undefined, 'sees no other of its own');
    const orgless = await limited('POST', '/api/v1/orgs', { slug: 'more' });
    assert.equal(orgless.status, 403);
  });

  it('lets an organization revoke what opens it alone, and nobody’s token for another one', async () => {
    const admin = await person('south', 'south-two@example.com', 'admin');
    const both = await person('north', 'two@example.com');
    await admin.api('POST', '/api/v1/orgs/south/members', { email: 'two@example.com' });
    const north = (await api('GET', '/api/v1/orgs/north/tokens')).body['items'] as unknown as { id: string }[];
    for (const { id } of north) {
      const answer = await admin.api('DELETE', `/api/v1/orgs/south/tokens/${id}`);
      assert.match(String(answer.body['code']), /^(not-found|belongs-elsewhere)$/);
    }
    assert.equal((await both.api('GET', '/api/v1/me')).status, 200);
  });

  it('disables a service account and enables it again, at once', async () => {
    await api('POST', '/api/v1/orgs/default/service-accounts', { name: 'sleeper' });
    const made = await api('POST', '/api/v1/orgs/default/tokens', { serviceAccount: 'sleeper', name: 'x' });
    const status = async () =>
      (await api('GET', '/api/v1/me', undefined, { token: String(made.body['token']) })).status;
    const path = '/api/v1/orgs/default/service-accounts/sleeper';
    assert.equal(await status(), 200);
    assert.match(String((await api('PATCH', path, { disabled: true })).body['disabledAt']), /^20/);
    assert.equal(await status(), 401);
    assert.equal((await api('PATCH', path, { disabled: false })).body['disabledAt'], null);
    assert.equal(await status(), 200);
    assert.equal((await api('GET', path)).body['name'], 'sleeper');
    assert.equal((await api('PATCH', path.replace('sleeper', 'nobody'), { disabled: true })).status, 404);
  });

  it('changes the role of members alone, and never leaves two demotions without an administrator', async () => {
    await api('POST', '/api/v1/orgs', { slug: 'pair' });
    const other = await person('pair', 'pair@example.com', 'admin');
    const myself = String((await api('GET', '/api/v1/me')).body['id']);
    const answers = await Promise.all([
      api('PATCH', `/api/v1/orgs/pair/members/${myself}`, { role: 'member' }),
      other.api('PATCH', `/api/v1/orgs/pair/members/${other.id}`, { role: 'member' }),
    ]);
    assert.deepEqual(
      answers.map((one) => one.status).toSorted((a, b) => a - b),
      [200, 409],
    );
    const stranger = await person('north', 'pair-stranger@example.com');
    for (const id of [stranger.id, 'x', '00000000-0000-4000-8000-000000000000'])
      assert.equal((await api('PATCH', `/api/v1/orgs/default/members/${id}`, { role: 'member' })).status, 404, id);
  });

  it('notes when a token was last used', async () => {
    const { body } = await api('GET', '/api/v1/tokens');
    assert.match(String(body['items']?.[0]?.['createdAt']), /^20/);
    const used = (body['items'] as unknown as { name: string; lastUsedAt: string | null }[]).find(
      (one) => one.name === 'client.json',
    );
    assert.match(String(used?.lastUsedAt), /^20/);
  });

  it('writes an audit row for every change, with the request’s id, in the change’s transaction', async () => {
    await api('POST', '/api/v1/orgs', { slug: 'audited' });
    await api('POST', '/api/v1/orgs/audited/projects', { slug: 'p' }, { headers: { 'x-request-id': 'req-42' } });
    await api('POST', '/api/v1/orgs/audited/projects', { slug: 'p' });
    const { body } = await api('GET', '/api/v1/orgs/audited/audit');
    const items = body['items'] as unknown as {
      action: string;
      principal: { name: string; kind: string };
      subject: { kind: string; name: string };
      requestId: string;
    }[];
    assert.deepEqual(
      items.map((one) => one.action),
      ['project.created', 'org.created'],
      'a refused change leaves none',
    );
    assert.deepEqual(
      [items[0]?.requestId, items[0]?.principal.name, items[0]?.subject.name],
      ['req-42', 'administrator', 'p'],
    );
    const own = await api('GET', '/api/v1/orgs/audited/projects/p/audit');
    assert.equal((own.body['items'] as unknown as unknown[]).length, 1);
    await assert.rejects(daemon.database.db.query(`update svc.audit set action = 'x'`), /append-only/);
  });
});
