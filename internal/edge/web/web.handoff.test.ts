// A browser that was handed on: from one that a provider of sign-in vouched for, and by a page of somebody else.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { startBrowser } from '../../base/testkit/browser.ts';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { type OidcPeer, startOidcPeer } from '../../base/testkit/oidc-peer.ts';
import { refreshGroups } from '../../flows/signin/signin.ts';
import { at } from './web-testkit.ts';

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

test('is not signed in as somebody else by a page that leads there, of another site or another port', async () => {
  let link = '';
  const lure = createServer((_request, response) => {
    response.setHeader('content-type', 'text/html');
    response.end(`<script>location.replace(${JSON.stringify(link)})</script>`);
  });
  await new Promise<void>((resolve) => lure.listen(0, '127.0.0.1', resolve));
  const { port } = lure.address() as AddressInfo;
  const browser = await startBrowser();
  try {
    for (const host of ['localhost', '127.0.0.1']) {
      const context = await browser.open();
      const page = await context.newPage();
      const made = await daemon.api('POST', '/api/v1/auth/handoffs');
      // Where nobody is signed in, a page leads on to signing in, and what stands behind the # goes along.
      link = `${daemon.url}/default/default#${new URL(String(made.body['url'])).hash.slice(1)}`;
      await page.goto(`http://${host}:${port}/`);
      await at(page, 'led').waitFor();
      assert.doesNotMatch(page.url(), /#/, host);
      assert.deepEqual(await context.cookies(), [], host);
      // Whoever began it says so.
      await at(page, 'signin-led').click();
      await page.waitForURL(`${daemon.url}/default/default`);
      await context.close();
    }
    const context = await browser.open();
    const page = await context.newPage();
    await page.goto(String((await daemon.api('POST', '/api/v1/auth/handoffs')).body['url']));
    await page.waitForURL(`${daemon.url}/`);
  } finally {
    await browser.close();
    lure.closeAllConnections();
    await new Promise((resolve) => lure.close(resolve));
  }
});
