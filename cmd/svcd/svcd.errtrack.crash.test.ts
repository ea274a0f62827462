// Killed at every step of a setup: no code is exchanged twice, no confirmation is sent twice, and a person can leave.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { apiClient, readClientFile, spawnDaemon, tempDataDir } from '../../internal/base/testkit/daemon.ts';
import { ErrtrackSimulator } from '../../internal/base/testkit/errtrack-provider.ts';
import { isLong } from '../../internal/base/testkit/long.ts';
import { createTestDatabase, type TestDatabase } from '../../internal/base/testkit/postgres.ts';

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
