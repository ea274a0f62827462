import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { apiClient, startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { type HttpServer, startHttp } from './http.ts';
import { routes } from './routes.ts';

let daemon: TestDaemon;
let server: HttpServer;
before(async () => {
  daemon = await startTestDaemon({ config: { roles: ['api'] } });
  const listen = { host: '127.0.0.1', port: 0 };
  server = await startHttp(() => daemon.ctx, { routes, readiness: [], listen, streamsMax: 5 });
});
after(async () => {
  await server.stop();
  await daemon.stop();
});

const open = (token: string, signal: AbortSignal): Promise<Response> =>
  fetch(`${server.url}/api/v1/orgs/default/projects/default/stream`, {
    headers: { authorization: `Bearer ${token}` },
    signal,
  });

test('one caller has so many streams at most, keeps nobody else from theirs, and has room again once one is closed', async () => {
  const [all, one] = [new AbortController(), new AbortController()];
  try {
    const signals = [...Array.from({ length: 4 }, () => all.signal), one.signal];
    const streams = await Promise.all(signals.map((signal) => open(daemon.token, signal)));
    assert.deepEqual(
      streams.map(({ status }) => status),
      [200, 200, 200, 200, 200],
    );
    const refused = await open(daemon.token, all.signal);
    assert.equal(refused.status, 429);
    assert.ok(Number(refused.headers.get('retry-after')) > 0);
    assert.equal(((await refused.json()) as { code: string }).code, 'too-many-streams');
    const api = apiClient(server.url, daemon.token);
    const org = '/api/v1/orgs/default';
    assert.equal((await api('POST', `${org}/service-accounts`, { name: 'robot', role: 'admin' })).status, 201);
    assert.equal((await api('POST', `${org}/members`, { serviceAccount: 'robot', role: 'admin' })).status, 201);
    const made = await api('POST', `${org}/tokens`, { name: 'r', serviceAccount: 'robot' });
    assert.equal((await open(String(made.body['token']), all.signal)).status, 200);
    one.abort();
    for (let tries = 0; (await open(daemon.token, all.signal)).status !== 200; tries += 1) {
      assert.ok(tries < 1_200, 'there is room again');
      await sleep(50);
    }
  } finally {
    one.abort();
    all.abort();
  }
});
