// What comes late for a connection of the error tracker: a delivery that was not routed yet when its project gave it up, and a
// secret of the application that was wrong for a while.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { eventually } from '../../internal/flows/session-host/host-crash-testkit.ts';
import { hmacSha256 } from '../../internal/adapters/crypto/crypto.ts';
import { startTestDaemon } from '../../internal/base/testkit/daemon.ts';
import { ErrtrackSimulator } from '../../internal/base/testkit/errtrack-provider.ts';
import { type ErrtrackBench, organization, projectsPath, setupPath, startErrtrackBench } from './errtrack-testkit.ts';

describe('a connection of the error tracker, later', () => {
  let at: ErrtrackBench;
  before(async () => {
    at = await startErrtrackBench();
  });
  after(() => at.stop());

  it('goes on once the secret of the application is set right: that was refused, and not the credential', async () => {
    const org = organization(1);
    const consent = at.simulator.consent(org);
    const { body } = await at.callback((await at.start()).state, consent);
    const { name } = (await at.options()).find((one) => one.id === String(body['providerGrantId'])) ?? assert.fail();
    at.simulator.issues.set('90', { id: '90', shortId: 'API-90', project: org.projects[0], title: 'T' });
    await at.bench.apply({
      refresher: { tools: { errors: { kind: 'connection', provider: 'errtrack', connection: name } } },
    });
    const seat = await at.bench.start('refresher');
    const read = () => seat.call('get_issue_details', { issue: '90' }, 'errors');
    const expiresIn = (minutes: number) =>
      at.daemon.ctx.db.query(
        `update svc.errtrack_grants set token_expires_at = now() + make_interval(mins => $2::int) where installation_id = $1::uuid`,
        [consent.installationId, minutes],
      );
    writeFileSync(at.secretFile, 'another-secret\n');
    await expiresIn(10);
    const meanwhile = await read();
    assert.equal(meanwhile.isError, false, meanwhile.text);
    await expiresIn(-1);
    assert.match((await read()).text, /^credential-refused: .*client secret/);
    writeFileSync(at.secretFile, `${ErrtrackSimulator.clientSecret}\n`);
    const after = await read();
    assert.equal(after.isError, false, after.text);
    assert.equal(at.simulator.installations.get(consent.installationId)?.refreshes, 1);
  });

  it('says how long a limit lasts, by whatever names its end', async () => {
    const org = organization(1);
    const consent = at.simulator.consent(org);
    const { body } = await at.callback((await at.start()).state, consent);
    const { name } = (await at.options()).find((one) => one.id === String(body['providerGrantId'])) ?? assert.fail();
    at.simulator.issues.set('91', { id: '91', shortId: 'API-91', project: org.projects[0], title: 'T' });
    const errors = { kind: 'connection', provider: 'errtrack', connection: name };
    await at.bench.apply({ limited: { tools: { errors } } });
    const seat = await at.bench.start('limited');
    const now = Math.floor(Date.now() / 1_000);
    const date = new Date(now * 1_000).toUTCString();
    const reset = { date, 'x-sentry-rate-limit-remaining': '0', 'x-sentry-rate-limit-reset': String(now + 90) };
    for (const [headers, seconds] of [
      [reset, 90],
      [{ ...reset, 'retry-after': '7' }, 7],
      [{ date, 'retry-after': new Date((now + 30) * 1_000).toUTCString() }, 30],
      [{ ...reset, 'x-sentry-rate-limit-reset': '1e300' }, 86_400],
      [{ 'x-sentry-rate-limit-reset': 'soon' }, 60],
    ] as const) {
      at.simulator.limits = (path) => (/\/issues\/|^\/mcp\//.test(path) ? headers : undefined);
      for (const [tool, input] of [
        ['get_issue_details', { issue: '91' }],
        ['get_latest_event', { issue: '91' }],
        ['search_issues', { query: 'is:unresolved' }],
      ] as const) {
        const { text } = await seat.call(tool, input, 'errors');
        assert.equal(text, `rate-limited: the error tracker limits these calls; retry after ${seconds} seconds`, tool);
      }
    }
    at.simulator.limits = () => undefined;
    assert.equal((await seat.call('get_issue_details', { issue: '91' }, 'errors')).isError, false);
  });

  it('lets nobody hear of what waited when its subscription was removed, and of what comes by the next one', async () => {
    const org = organization(2);
    const consent = at.simulator.consent(org);
    const { id, state } = await at.start();
    await at.callback(state, consent);
    const [kept, given] = org.projects;
    const recipients = org.projects.map((one) => ({ projectId: at.projectId, errtrackProjectId: one.id }));
    const { body } = await at.daemon.api('PUT', `${setupPath}/${id}/recipients`, { recipients });
    const selects = async (...ids: readonly unknown[]) => {
      const asked = { ...at.scope, providerGrantId: body['providerGrantId'], errtrackProjectIds: ids };
      assert.equal((await at.daemon.api('PUT', projectsPath, asked)).status, 200);
    };
    const routing = { kind: 'spawn' };
    await at.bench.apply({ hears: { triggers: [{ event: 'svc.errtrack.issue.created', routing }] } });
    const send = async (project: unknown, issue: string): Promise<string> => {
      const installation = { uuid: consent.installationId };
      const data = { issue: { id: issue, project, title: issue } };
      const sent = at.simulator.webhook('issue', { action: 'created', installation, data });
      const answer = await fetch(`${at.daemon.url}/api/v1/intake/errtrack`, { method: 'POST', ...sent });
      assert.equal(answer.status, 202);
      return String(((await answer.json()) as { eventRecordId?: string }).eventRecordId);
    };
    const ended = async (event: string) => {
      const read = async () => (await at.daemon.api('GET', `P/events/${event}`)).body;
      await eventually('it is routed', async () => String((await read())['routerStatus']) !== 'pending');
      const { routerStatus, reason, routes } = await read();
      return [routerStatus, reason, (routes as unknown as unknown[]).length] as unknown[];
    };
    const removed = 'the project’s subscription was removed before it was routed';
    const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
    const { promise: over, resolve: end } = Promise.withResolvers<void>();
    // Routing waits, as where a backlog is before it.
    const holding = at.daemon.ctx.db.tx(async (tx) => {
      await tx.query(`select pg_advisory_xact_lock(hashtextextended('svc.routing:' || $1::text, 0))`, [at.projectId]);
      begin();
      await over;
    });
    await begun;
    const [stays, goes] = [await send(kept, '1'), await send(given, '2')];
    await selects(kept?.id);
    await selects(kept?.id, given?.id);
    const later = await send(given, '3');
    end();
    await holding;
    assert.deepEqual(await ended(stays), ['routed', undefined, 1]);
    assert.deepEqual(await ended(goes), ['unmatched', removed, 0]);
    assert.deepEqual(await ended(later), ['routed', undefined, 1]);
    // A replay is asked for by a person, of what the project has: while it is subscribed to it.
    const replayed = (await at.daemon.api('POST', `P/events/${goes}/replay`)).body['eventRecordId'];
    assert.deepEqual(await ended(String(replayed)), ['routed', undefined, 1]);
    await selects();
    const again = (await at.daemon.api('POST', `P/events/${goes}/replay`)).body['eventRecordId'];
    assert.deepEqual(await ended(String(again)), ['unmatched', removed, 0]);
  });
});

it('takes the secret of the application from the organization: one of that name in a project signs nothing beside it', async () => {
  const simulator = await ErrtrackSimulator.start();
  const { clientSecretFile: _, ...section } = simulator.section('');
  const errtrack = { ...section, clientSecretRef: 'errtrack-client' };
  const daemon = await startTestDaemon({ config: { file: { providers: { errtrack } }, allowPrivateNetwork: true } });
  try {
    const values = { '/api/v1/orgs/default': ErrtrackSimulator.clientSecret, P: 'of-a-project' };
    for (const [at, value] of Object.entries(values))
      assert.ok((await daemon.api('PUT', `${at}/secrets/errtrack-client`, { value })).status < 300);
    const sent = async (key: string): Promise<number> => {
      const body = JSON.stringify({
        action: 'deleted',
        installation: { uuid: randomUUID() },
        data: { installation: {} },
      });
      const signature = hmacSha256(Buffer.from(key), Buffer.from(body)).toString('hex');
      const headers = { 'sentry-hook-resource': 'issue', 'sentry-hook-signature': signature };
      return (await daemon.api('POST', '/api/v1/intake/errtrack', body, { token: null, headers })).status;
    };
    assert.equal(await sent(values.P), 401);
    assert.notEqual(await sent(ErrtrackSimulator.clientSecret), 401);
    const organizationId = String((await daemon.api('GET', '/api/v1/orgs/default')).body['id']);
    assert.equal((await daemon.api('DELETE', '/api/v1/orgs/default/secrets/errtrack-client')).status, 204);
    assert.notEqual(await sent(values.P), 401, 'where the organization has none, it is that');
    assert.equal((await daemon.api('DELETE', 'P/secrets/errtrack-client')).status, 204);
    const begun = await daemon.api('POST', setupPath, { organizationId, projectId: 'default' });
    assert.equal(begun.body['code'], 'setup-unavailable');
  } finally {
    await daemon.stop();
    await simulator.stop();
  }
});
