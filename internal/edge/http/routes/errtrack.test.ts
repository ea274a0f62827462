import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, describe, it } from 'node:test';
import { type JsonBody, startTestDaemon, type TestDaemon } from '../../../base/testkit/daemon.ts';
import { ErrtrackSimulator, type SimOrganization } from '../../../base/testkit/errtrack-provider.ts';
import { prune } from '../../../flows/tenancy/tenancy.ts';

const setups = '/api/v1/connections/errtrack/installations';

describe('the setup of an error-tracking connection', () => {
  let daemon: TestDaemon;
  let simulator: ErrtrackSimulator;
  let providers: { errtrack?: ReturnType<ErrtrackSimulator['section']> | undefined };
  const dir = mkdtempSync(join(tmpdir(), 'svc-errtrack-'));
  before(async () => {
    simulator = await ErrtrackSimulator.start();
    writeFileSync(join(dir, 'secret'), ErrtrackSimulator.clientSecret);
    providers = { errtrack: simulator.section(join(dir, 'secret')) };
    daemon = await startTestDaemon({ config: { file: { providers }, allowPrivateNetwork: true } });
  });
  afterEach(() => {
    simulator.onRequest = undefined;
  });
  after(async () => {
    await daemon?.stop();
    await simulator?.stop();
    rmSync(dir, { recursive: true, force: true });
  });

  const projects = [
    { id: '11', slug: 'web' },
    { id: '12', slug: 'jobs' },
  ];
  const organization = (id: number, slug = `org-${id}`): SimOrganization => ({ id, slug, region: 'us', projects });
  const api = (method: string, path: string, body?: unknown) => daemon.api(method, path, body);
  const idOf = async (path: string): Promise<string> => String((await api('GET', path)).body['id']);
  const scopeOf = async (org: string, project: string) => ({
    organizationId: await idOf(`/api/v1/orgs/${org}`),
    projectId: await idOf(`/api/v1/orgs/${org}/projects/${project}`),
  });
  const start = async (org = 'default', project = 'default') => {
    const scope = await scopeOf(org, project);
    const { status, body } = await api('POST', setups, scope);
    assert.equal(status, 201, JSON.stringify(body));
    const state = new URL(String(body['authorizationUrl'])).searchParams.get('state') ?? '';
    return { ...scope, id: String(body['attemptId']), state };
  };
  const callback = async (state: string, of: SimOrganization) =>
    (await api('POST', `${setups}/callback`, { state, ...simulator.consent(of) })).body;
  /** From the start to the publication; answers with the attempt as it is then. */
  const connect = async (of: SimOrganization, org = 'default', project = 'default') => {
    const { id, state, projectId } = await start(org, project);
    assert.equal(String((await callback(state, of))['status']), 'awaiting_selection');
    const recipients = [{ projectId, errtrackProjectId: '11' }];
    return (await api('PUT', `${setups}/${id}/recipients`, { recipients })).body;
  };
  const pendingCredentials = async (): Promise<number> => {
    const { rows } = await daemon.ctx.db.query<{ n: number }>(
      `select count(*)::int as n from svc.oauth_tokens t where not exists (
         select from svc.errtrack_grants g where g.token_id = t.id)`,
    );
    return rows[0]?.n ?? 0;
  };

  it('keeps nothing of what a cancelled exchange was given', async () => {
    const { id, state } = await start();
    simulator.onRequest = async (path) => {
      if (!path.endsWith('/projects/')) return;
      simulator.onRequest = undefined;
      assert.equal(String((await api('DELETE', `${setups}/${id}`)).body['status']), 'cancelled');
    };
    assert.equal(String((await callback(state, organization(1)))['status']), 'cancelled');
    assert.equal(await pendingCredentials(), 0);
  });

  it('deletes the credential of a setup that nobody came back to with the setup', async () => {
    const { id, state } = await start();
    assert.equal(String((await callback(state, organization(5)))['status']), 'awaiting_selection');
    assert.equal(await pendingCredentials(), 1);
    await daemon.ctx.db.query(
      `update svc.errtrack_attempts set updated_at = updated_at - interval '40 days',
         expires_at = expires_at - interval '40 days' where id = $1::uuid`,
      [id],
    );
    await prune(daemon.ctx, new AbortController().signal);
    assert.equal((await api('GET', `${setups}/${id}`)).status, 404);
    assert.equal(await pendingCredentials(), 0);
  });

  it('takes the place of the one before where the organization has another name by now', async () => {
    assert.equal(String((await connect(organization(2, 'before')))['status']), 'completed');
    const again = await connect(organization(2, 'renamed'));
    assert.deepEqual([String(again['status']), again['reason']], ['completed', null]);
  });

  it('ends what projects had of an installation that it takes the place of', async () => {
    assert.equal((await api('POST', '/api/v1/orgs/default/projects', { slug: 'second' })).status, 201);
    const P = '/api/v1/orgs/default/projects/second';
    const connections = async () => (await api('GET', `${P}/connections`)).body['items'] as unknown as JsonBody[];
    await connect(organization(3), 'default', 'second');
    const [name] = (await connections()).map((one) => one['name']);
    assert.ok(name !== undefined);
    await connect(organization(3));
    assert.deepEqual(
      (await connections()).filter((one) => String(one['status']) === 'active'),
      [],
    );
    const events = await api('GET', `${P}/events?key=svc.connection.removed`);
    const [event, ...more] = events.body['items'] as unknown as JsonBody[];
    assert.equal(more.length, 0);
    const { body } = await api('GET', `${P}/events/${String(event?.['id'])}`);
    assert.equal(body['payload']?.['connection'], name);
  });

  it('publishes nothing of an installation that is removed while it is confirmed', async () => {
    const { id, state, projectId } = await start();
    const { installationId, code } = simulator.consent(organization(6));
    await api('POST', `${setups}/callback`, { state, installationId, code });
    simulator.onRequest = async (path) => {
      if (!path.endsWith(`/${installationId}/`) || !simulator.requests.at(-1)?.startsWith('PUT ')) return;
      simulator.onRequest = undefined;
      const installation = { uuid: installationId };
      const sent = simulator.webhook('installation', { action: 'deleted', installation, data: { installation } });
      const { status } = await fetch(`${daemon.url}/api/v1/intake/errtrack`, { method: 'POST', ...sent });
      assert.equal(status, 202);
    };
    const recipients = [{ projectId, errtrackProjectId: '11' }];
    const { body } = await api('PUT', `${setups}/${id}/recipients`, { recipients });
    assert.deepEqual([body['status'], body['reason'], body['providerGrantId']], ['failed', 'uninstalled', null]);
    const query = `organizationId=default&projectId=default`;
    const options = await api('GET', `/api/v1/connections/errtrack/projects?${query}`);
    assert.ok(!JSON.stringify(options.body).includes('org-6'));
    assert.equal(await pendingCredentials(), 0);
  });

  it('looks at who calls, then at whether there is an application, then at what was sent', async () => {
    const calls = [
      ['POST', setups, {}],
      ['POST', `${setups}/callback`, {}],
      ['GET', `${setups}/nope`, undefined],
      ['PUT', `${setups}/nope/recipients`, {}],
      ['DELETE', `${setups}/nope`, undefined],
    ] as const;
    const selection = ['PUT', '/api/v1/connections/errtrack/projects', {}] as const;
    const statuses = (token?: string) =>
      Promise.all(
        [...calls, selection].map(async ([method, path, body]) => {
          const answer = await daemon.api(method, path, body, { ...(token !== undefined && { token }) });
          return answer.status;
        }),
      );
    const member = { email: 'member@example.com' };
    await api('POST', '/api/v1/orgs/default/members', { ...member, role: 'member' });
    const token = String((await api('POST', '/api/v1/orgs/default/tokens', { ...member, name: 'm' })).body['token']);
    const configured = providers.errtrack;
    assert.deepEqual(await statuses(token), [403, 403, 403, 403, 403, 403]);
    assert.deepEqual(await statuses(), [400, 400, 404, 400, 404, 400]);
    providers.errtrack = undefined;
    try {
      assert.deepEqual(await statuses(token), [403, 403, 403, 403, 403, 403]);
      assert.deepEqual(await statuses(), [503, 503, 503, 503, 503, 400]);
    } finally {
      providers.errtrack = configured;
    }
  });

  it('sends no address of a refusal on to another site', async () => {
    for (const [method, path, body] of [
      ['POST', setups, { organizationId: 'default', projectId: 'nope' }],
      ['POST', setups, {}],
      ['GET', `${setups}/nope`, undefined],
      ['GET', '/api/v1/connections/errtrack/projects', undefined],
    ] as const) {
      const { status, headers } = await api(method, path, body);
      assert.ok(status >= 400, path);
      const sent = [headers.get('cache-control'), headers.get('referrer-policy')];
      assert.deepEqual(sent, ['no-store', 'no-referrer'], `${method} ${path}`);
    }
  });

  it('confirms nothing of an organization that another one of the service has', async () => {
    await api('POST', '/api/v1/orgs', { slug: 'other' });
    await api('POST', '/api/v1/orgs/other/projects', { slug: 'theirs' });
    await connect(organization(4), 'other', 'theirs');
    const before = simulator.requests.length;
    const ours = await connect(organization(4));
    assert.deepEqual([ours['status'], ours['reason']].map(String), ['failed', 'organization-claimed']);
    assert.ok(!simulator.requests.slice(before).some((one) => one.startsWith('PUT ')));
    assert.equal(await pendingCredentials(), 0);
  });
});
