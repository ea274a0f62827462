// A browser that was handed on from one that a provider of sign-in vouched for.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { type OidcPeer, startOidcPeer } from '../../base/testkit/oidc-peer.ts';
import { refreshGroups } from '../../flows/signin/signin.ts';

let daemon: TestDaemon;
let peer: OidcPeer;
let dir: string;
before(async () => {
  dir = mkdtempSync(join(tmpdir(), 'svc-handoff-'));
  peer = await startOidcPeer(() => [`${daemon.url}/signin/callback/peer`]);
  writeFileSync(join(dir, 'peer'), `${peer.clientSecret}\n`);
  const { issuer, clientId } = peer;
  const signIn = {
    oidc: [{ name: 'peer', issuer, clientId, clientSecretFile: join(dir, 'peer') }],
    roles: [{ group: 'admins', org: 'default', role: 'admin' }],
    tokens: false,
  };
  daemon = await startTestDaemon({ config: { roles: ['api'], file: { signIn } } });
});
after(async () => {
  await daemon.stop();
  await peer.stop();
  rmSync(dir, { recursive: true, force: true });
});

const get = (url: string, cookie = '') => fetch(url, { redirect: 'manual', headers: { cookie } });
const cookieIn = (headers: Headers, name: string): string =>
  headers
    .getSetCookie()
    .find((line) => line.startsWith(`${name}=`))
    ?.split(';')[0] ?? '';
const asked = (cookie: string, key: string, method: string, path: string) =>
  daemon.api(method, path, undefined, {
    token: null,
    headers: { cookie, 'x-svc-key': key, origin: daemon.url },
  });

test('is signed in with the key that it is told, and ends with the provider’s word', async () => {
  peer.person = { sub: 'ann', name: 'Ann', groups: ['admins'] };
  const begun = await get(`${daemon.url}/signin/peer`);
  const back = await peer.consent(begun.headers.get('location') ?? '');
  const first = cookieIn((await get(back, cookieIn(begun.headers, '__Host-svc-signin'))).headers, '__Host-svc-session');
  const given = await asked(first, '', 'POST', '/api/v1/auth/key');
  const made = await asked(first, String(given.body['key']), 'POST', '/api/v1/auth/handoffs');
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const body = { handoff: String(made.body['handoff']) };
  const opened = await daemon.api('POST', '/api/v1/auth/sessions', body, { token: null });
  assert.equal(opened.status, 201);
  const second = cookieIn(opened.headers, '__Host-svc-session');
  const me = () => asked(second, String(opened.body['key']), 'GET', '/api/v1/me');
  assert.deepEqual([(await me()).status, (await me()).body['name'] as unknown], [200, 'Ann']);
  const again = await asked(second, '', 'POST', '/api/v1/auth/key');
  assert.deepEqual([again.status, again.body['code'] as unknown], [409, 'key-given']);
  peer.gone.add('ann');
  const later = new Date(Date.now() + 61 * 60_000);
  await refreshGroups({ ...daemon.ctx, runtime: { ...daemon.ctx.runtime, now: () => later } });
  assert.equal((await me()).status, 401);
});
