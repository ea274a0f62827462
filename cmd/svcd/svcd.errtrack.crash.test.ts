// Killed at every step of a setup: no code is exchanged twice, no confirmation is sent twice, and a person can leave. What ends
// over a refresh leaves what nobody knows as such.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { apiClient, readClientFile, spawnDaemon, tempDataDir } from '../../internal/base/testkit/daemon.ts';
import { ErrtrackSimulator } from '../../internal/base/testkit/errtrack-provider.ts';
import { isLong } from '../../internal/base/testkit/long.ts';
import { createTestDatabase, type TestDatabase } from '../../internal/base/testkit/postgres.ts';
import { armFailpoint } from '../../internal/base/failpoint.ts';
import { type ErrtrackBench, organization, startErrtrackBench } from './errtrack-testkit.ts';

const b = '/api/v1/connections/errtrack/installations';
const points = [
  ['errtrack.code-claimed', 'exchanging'],
  ['errtrack.exchanged', 'exchanging'],
  ['errtrack.completing', 'completing'],
  ['errtrack.confirming', 'completing'],
  ['errtrack.confirmed', 'completing'],
  ['errtrack.published', 'completed'],
] as const;
/** Those after which something is lost that nobody can ask for again; the long form goes through all. */
const short: readonly string[] = ['errtrack.exchanged', 'errtrack.confirmed'];

describe('a daemon killed in the middle of a setup', () => {
  let simulator: ErrtrackSimulator;
  let database: TestDatabase;
  let data: Awaited<ReturnType<typeof tempDataDir>>;
  before(async () => {
    simulator = await ErrtrackSimulator.start();
    database = await createTestDatabase();
    data = await tempDataDir({ empty: true });
    writeFileSync(join(data.path, 'secret'), ErrtrackSimulator.clientSecret);
    writeFileSync(join(data.path, 'master.key'), `1:${Buffer.alloc(32, 7).toString('base64')}\n`, { mode: 0o600 });
    const config = { providers: { errtrack: simulator.section(join(data.path, 'secret')) }, allowPrivateNetwork: true };
    writeFileSync(join(data.path, 'config.yaml'), JSON.stringify(config));
  });
  after(async () => {
    await simulator.stop();
    await data.remove();
    await database.close();
  });

  const start = async (failpoint?: string) => {
    const daemon = spawnDaemon({
      dataDir: data.path,
      args: [
        '--config',
        join(data.path, 'config.yaml'),
        '--database-url',
        database.url,
        '--master-key-file',
        join(data.path, 'master.key'),
      ],
      env: failpoint === undefined ? {} : { SVC_FAILPOINT: failpoint },
    });
    const { url } = await daemon.ready;
    const { token, org, project } = readClientFile(data.path);
    return { daemon, url, token, api: apiClient(url, token), scope: { organizationId: org, projectId: project } };
  };

  let next = 1;
  for (const [point, state] of points.filter(([name]) => isLong || short.includes(name))) {
    it(`at ${point} leaves it ${state}, with one exchange and at most one confirmation`, async () => {
      const { daemon, api, scope } = await start(point);
      const id = next++;
      const org = { id, slug: `org-${id}`, projects: [{ id: `${id}1`, slug: `p-${id}` }], region: 'us' as const };
      const started = await api('POST', b, scope);
      const setup = String(started.body['attemptId']);
      const consent = simulator.consent(org);
      const secret = new URL(String(started.body['authorizationUrl'])).searchParams.get('state');
      await api('POST', `${b}/callback`, { state: secret, ...consent }).catch(() => undefined);
      assert.equal((await daemon.exited).signal, 'SIGKILL');
      const again = await start();
      try {
        const found = await again.api('GET', `${b}/${setup}`);
        assert.equal(found.body['status'], state);
        assert.equal((await again.api('POST', `${b}/callback`, { state: secret, ...consent })).status, 409);
        const installation = simulator.installations.get(consent.installationId);
        assert.equal(installation?.exchanges, point === 'errtrack.code-claimed' ? 0 : 1);
        assert.ok((installation?.confirmations ?? 0) <= 1);
        const left = await again.api('DELETE', `${b}/${setup}`);
        assert.equal(left.status, state === 'completed' ? 409 : 200);
      } finally {
        await again.daemon.kill('SIGTERM');
      }
    });
  }

  for (const [point, state] of isLong ? points : []) {
    it(`at ${point} under a browser leaves it ${state}, and its person finds it on the page`, async () => {
      const { daemon, url, token, api, scope } = await start(point);
      const id = 1_000 + next++;
      const org = { id, slug: `org-${id}`, projects: [{ id: `${id}1`, slug: `p-${id}` }], region: 'us' as const };
      const { body } = await api('POST', b, scope);
      const consent = simulator.consent(org);
      const secret = new URL(String(body['authorizationUrl'])).searchParams.get('state') ?? '';
      const opened = await api('POST', '/api/v1/auth/sessions', { token }, { token: null });
      const cookie = (opened.headers.getSetCookie()[0] ?? '').split(';')[0] ?? '';
      const path = `/connections/errtrack/callback?${new URLSearchParams({ state: secret, ...consent })}`;
      const go = (base: string) => fetch(`${base}${path}`, { redirect: 'manual', headers: { cookie } });
      await go(url).catch(() => undefined);
      assert.equal((await daemon.exited).signal, 'SIGKILL');
      const again = await start();
      try {
        const back = await go(again.url);
        assert.equal(back.status, 303);
        const query =
          state === 'completed' ? 'connectionOAuth=success&provider=errtrack' : `errtrackAttempt=${body['attemptId']}`;
        assert.equal(back.headers.get('location'), `/default/default/connections?${query}`);
        const installation = simulator.installations.get(consent.installationId);
        assert.equal(installation?.exchanges, point === 'errtrack.code-claimed' ? 0 : 1);
        assert.ok((installation?.confirmations ?? 0) <= 1);
        const left = await again.api('DELETE', `${b}/${body['attemptId']}`);
        assert.equal(left.status, state === 'completed' ? 409 : 200);
      } finally {
        await again.daemon.kill('SIGTERM');
      }
    });
  }
});

describe('what ends over a refresh of the credential', () => {
  let at: ErrtrackBench;
  before(async () => {
    at = await startErrtrackBench();
  });
  after(() => at.stop());

  for (const [point, sent] of [
    ['errtrack.refresh-sent', 0],
    ['errtrack.refresh-answered', 1],
  ] as const) {
    it(`at ${point} leaves it uncertain: it is not sent again, and the doctor names it`, async () => {
      const { db } = at.daemon.ctx;
      const org = organization(1);
      const consent = at.simulator.consent(org);
      const grantId = String((await at.callback((await at.start()).state, consent)).body['providerGrantId']);
      const name = (await at.options()).find((one) => one.id === grantId)?.name;
      at.simulator.issues.set('80', { id: '80', shortId: 'R-80', title: 'T', project: org.projects[0] });
      const errors = { kind: 'connection', provider: 'errtrack', connection: name };
      await at.bench.apply({ [`reader-${sent}`]: { tools: { errors } } });
      const seat = await at.bench.start(`reader-${sent}`);
      const read = () => seat.call('get_issue_details', { issue: '80' }, 'errors');
      const set = (what: string) => db.query(`update svc.errtrack_grants set ${what} where id = $1::uuid`, [grantId]);
      await set('token_expires_at = now()');
      armFailpoint(point, () => {
        armFailpoint(undefined);
        throw new Error('it has ended');
      });
      assert.equal((await read()).isError, true);
      // Whose it was is gone for longer than it has the right to it.
      await set('refresh_until = now()');
      for (const _ of [1, 2]) assert.match((await read()).text, /^authorization-required/);
      assert.equal(at.simulator.installations.get(consent.installationId)?.refreshes, sent);
      const checks = JSON.stringify((await at.daemon.api('GET', 'P/doctor')).body['checks']);
      assert.match(checks, new RegExp(`error-tracking connection ${name} is uncertain`));
    });
  }
});
