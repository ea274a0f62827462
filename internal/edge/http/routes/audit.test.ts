import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type Api, apiClient, startTestDaemon, type TestDaemon } from '../../../base/testkit/daemon.ts';
import { keepRetention } from '../../../flows/tenancy/tenancy.ts';

interface Entry {
  readonly id: number;
  readonly at: string;
  readonly action: string;
  readonly principal: { readonly name: string };
  readonly subject: { readonly name: string } | null;
  readonly detail: { readonly [key: string]: unknown };
}

describe('the audit', () => {
  let daemon: TestDaemon;
  let api: Api;
  before(async () => {
    daemon = await startTestDaemon({ config: { file: { audit: { retentionDays: 30 } } } });
    api = daemon.api;
    for (const slug of ['a', 'b', 'c']) await api('POST', '/api/v1/orgs/default/projects', { slug });
    await api('DELETE', '/api/v1/orgs/default/projects/b');
  });
  after(() => daemon.stop());

  const base = '/api/v1/orgs/default/audit';
  const entries = async (query: string): Promise<Entry[]> => {
    const { status, body } = await api('GET', `${base}?${query}`);
    assert.equal(status, 200, JSON.stringify(body));
    return body['items'] as unknown as Entry[];
  };
  const exported = async (query = ''): Promise<Entry[]> => {
    const { body, headers } = await api('GET', `${base}/export${query}`);
    assert.match(String(headers.get('content-type')), /^application\/x-ndjson/);
    return String(body ?? '')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Entry);
  };

  it('filters by action, subject, principal and time', async () => {
    assert.deepEqual(
      (await entries('action=project.created')).map((one) => one.subject?.name),
      ['c', 'b', 'a'],
    );
    assert.deepEqual(
      (await entries('subject=b')).map((one) => one.action),
      ['project.deleted', 'project.created'],
    );
    const me = String((await api('GET', '/api/v1/me')).body['id']);
    assert.equal((await entries('principal=administrator')).length, 4);
    assert.equal((await entries(`principal=${me.toUpperCase()}`)).length, 4);
    assert.equal((await entries('principal=bootstrap')).length, 1);
    const third = (await entries('subject=c'))[0];
    assert.deepEqual(
      (await entries(`since=${third?.at}`)).map((one) => one.action),
      ['project.deleted', 'project.created'],
    );
    assert.equal((await entries(`until=${third?.at}&action=project.created`)).length, 2);
    assert.equal((await entries('since=2999-01-01')).length, 0);
    assert.equal((await entries('since=2999-01-01T00:00:00%2B01:00&until=2999-12-31')).length, 0);
    // In UTC in the year 10000.
    const tooLate = '9999-12-31T23:59:59-12:00';
    for (const query of [
      'since=yesterday',
      'until=',
      'since=2026-13-01',
      'action=',
      'since=2026-02-31',
      'until=2026-02-31T00:00:00Z',
      // Another time wherever the daemon runs.
      'since=2026-01-31T12:00:00',
      'since=%2B275760-01-01',
      `until=${tooLate}`,
    ])
      assert.equal((await api('GET', `${base}?${query}`)).status, 400, query);
  });

  it('pages without a gap or a repetition while entries are added', async () => {
    const seen: number[] = [];
    let cursor: string | undefined;
    do {
      const { body } = await api('GET', `${base}?limit=2${cursor === undefined ? '' : `&cursor=${cursor}`}`);
      seen.push(...(body['items'] as unknown as Entry[]).map((one) => one.id));
      cursor = (body['nextCursor'] as unknown as string | null) ?? undefined;
      await api('PATCH', '/api/v1/orgs/default/projects/a', { name: `A ${seen.length}` });
    } while (cursor !== undefined);
    assert.deepEqual(
      seen,
      [...new Set(seen)].sort((x, y) => y - x),
    );
    assert.equal(seen.length, 5);
  });

  it('exports everything as JSON lines, oldest first, over many pages', async () => {
    await daemon.database.db.query(
      `insert into svc.audit (org_id, principal_kind, principal_name, action)
       select o.id, 'system', 'bulk', 'bulk.' || n from svc.orgs o, generate_series(1, 1203) n where o.slug = 'default'`,
    );
    const all = await exported();
    const ids = all.map((one) => one.id);
    assert.deepEqual(
      ids,
      [...ids].sort((x, y) => x - y),
    );
    assert.equal(all.filter((one) => one.principal.name === 'bulk').length, 1203);
    assert.deepEqual(
      (await exported('?action=project.deleted')).map((one) => one.subject?.name),
      ['b'],
    );
    assert.deepEqual(await exported('?since=2999-01-01'), []);
    assert.equal((await api('HEAD', `${base}/export`)).status, 200);
  });

  it('shows an organization’s entries to nobody of another, nor a project’s to another project', async () => {
    await api('POST', '/api/v1/orgs', { slug: 'apart' });
    const member = await api('POST', '/api/v1/orgs/apart/members', { email: 'a@apart.example', role: 'admin' });
    assert.equal(member.status, 201);
    const token = (await api('POST', '/api/v1/orgs/apart/tokens', { email: 'a@apart.example', name: 't' })).body[
      'token'
    ];
    const theirs = apiClient(daemon.url, String(token));
    assert.equal((await theirs('GET', base)).status, 404);
    assert.equal((await theirs('GET', `${base}/export`)).status, 404);
    const own = (await theirs('GET', '/api/v1/orgs/apart/audit')).body['items'] as unknown as Entry[];
    assert.deepEqual(
      own.map((one) => one.action),
      ['token.created', 'org_member.set', 'org.created'],
    );
    const c = (await api('GET', '/api/v1/orgs/default/projects/c/audit')).body['items'] as unknown as Entry[];
    assert.deepEqual(
      c.map((one) => one.subject?.name),
      ['c'],
    );
  });

  it('lets go of entries by retention alone, and says so in an entry', async () => {
    const { db } = daemon.database;
    await db.query(
      `insert into svc.audit (at, org_id, principal_kind, principal_name, action)
       select now() - interval '31 days', o.id, 'system', 'old', 'old' from svc.orgs o, generate_series(1, 7) where o.slug = 'default'`,
    );
    for (const statement of [
      `update svc.audit set action = 'x'`,
      `delete from svc.audit`,
      `delete from svc.audit where action = 'old'`,
      `truncate svc.audit`,
    ])
      await assert.rejects(db.query(statement), /append-only/, statement);
    const young = (await entries('limit=200&action=project.created')).length;
    assert.equal(await keepRetention(daemon.ctx, AbortSignal.timeout(60_000)), 7);
    assert.equal(await keepRetention(daemon.ctx, AbortSignal.timeout(60_000)), 0);
    assert.equal((await entries('action=old')).length, 0);
    assert.equal((await entries('limit=200&action=project.created')).length, young);
    const [pruned] = await entries('action=audit.pruned');
    assert.equal(pruned?.principal.name, 'audit-retention');
    assert.deepEqual([pruned?.detail['entries'], pruned?.detail['retentionDays']], [7, 30]);
    await assert.rejects(db.query(`delete from svc.audit`), /append-only/, 'the permission ends with its transaction');
    const forever = { ...daemon.ctx, config: { ...daemon.ctx.config, file: {} } };
    await db.query(
      `insert into svc.audit (at, principal_kind, principal_name, action) values ('2001-01-01', 'system', 'old', 'old')`,
    );
    assert.equal(await keepRetention(forever, AbortSignal.timeout(60_000)), 0);
  });
});
