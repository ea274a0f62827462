// The pages in a real browser: sign-in, the Connections page from consent to disconnecting, the callbacks, the headers of
// every answer, and each state looked at for accessibility in light and dark.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import {
  axeViolations,
  type BrowserContext,
  inBothSchemes,
  type Page,
  startBrowser,
  type TestBrowser,
} from '../../base/testkit/browser.ts';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { ErrtrackSimulator } from '../../base/testkit/errtrack-provider.ts';

let daemon: TestDaemon;
let browser: TestBrowser;
let simulator: ErrtrackSimulator;
let dir: string;
const connections = '/default/default/connections';
const callback = '/connections/errtrack/callback';
const errorPath = '/connections/errtrack/error';

before(async () => {
  dir = mkdtempSync(join(tmpdir(), 'svc-web-'));
  simulator = await ErrtrackSimulator.start();
  writeFileSync(join(dir, 'secret'), `${ErrtrackSimulator.clientSecret}\n`);
  const file = { providers: { errtrack: simulator.section(join(dir, 'secret')) } };
  daemon = await startTestDaemon({ config: { file, allowPrivateNetwork: true } });
  browser = await startBrowser();
});
after(async () => {
  await browser.close();
  await daemon.stop();
  await simulator.stop();
  rmSync(dir, { recursive: true, force: true });
});

/** A page whose complaints of the content security policy, and errors, are kept. */
async function openPage(context: BrowserContext): Promise<{ page: Page; complaints: string[] }> {
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (line) => {
    if (line.type() === 'error' && !/status of 40[0-9]/.test(line.text())) complaints.push(line.text());
  });
  return { page, complaints };
}

async function signedIn(dark = false, next = connections) {
  const context = await browser.open({ dark });
  const opened = await openPage(context);
  const { body } = await daemon.api('POST', '/api/v1/auth/handoffs');
  await opened.page.goto(`${daemon.url}/signin?next=${encodeURIComponent(next)}#h=${String(body['handoff'])}`);
  await opened.page.waitForURL(`${daemon.url}${next}`);
  return { context, ...opened };
}
const at = (page: Page, id: string) => page.locator(`[data-testid="${id}"]`);
const rowState = async (page: Page, state: string): Promise<void> =>
  at(page, 'connection-errtrack')
    .and(page.locator(`[data-state="${state}"]`))
    .waitFor();
let next = 1;
const organization = (count: number) => {
  const id = 50_000 + next++;
  const projects = Array.from({ length: count }, (_, index) => ({ id: `${id}${index}`, slug: `p${index}-${id}` }));
  return { id, slug: `org-${id}`, projects, region: 'us' as const };
};
/** Presses Connect, and answers with the state that the provider would be given. */
async function leave(page: Page): Promise<string> {
  await page.route(`${simulator.url}/**`, (route) => route.fulfill({ status: 200, body: 'consent' }));
  await at(page, 'connect').click();
  await page.waitForURL(`${simulator.url}/**`);
  return new URL(page.url()).searchParams.get('state') ?? '';
}
const query = (state: string, consent: { installationId: string; code: string }): string =>
  `?${new URLSearchParams({ state, ...consent })}`;

test('a browser comes in by a hand-off or a token, and nothing of it stays in the address', async () => {
  const { page, context, complaints } = await signedIn();
  await rowState(page, 'not-connected');
  assert.equal(new URL(page.url()).hash, '');
  const keys = await page.evaluate(() => Object.keys(localStorage));
  assert.deepEqual(keys, ['svc.key']);
  const [cookie, ...more] = await context.cookies();
  assert.deepEqual(more, []);
  assert.deepEqual(
    [cookie?.name, cookie?.httpOnly, cookie?.secure, cookie?.sameSite],
    ['__Host-svc-session', true, true, 'Lax'],
  );
  assert.equal(await page.evaluate('document.cookie'), '');
  // The cookie without its key is no way in, and goes nowhere in circles.
  await page.evaluate(() => localStorage.clear());
  await page.goto(`${daemon.url}${connections}`);
  await page.waitForURL(`${daemon.url}/signin?next=${encodeURIComponent(connections)}`);
  await at(page, 'signin-token').fill(daemon.token);
  await at(page, 'signin-submit').click();
  await page.waitForURL(`${daemon.url}${connections}`);
  await at(page, 'signout').click();
  await page.waitForURL(`${daemon.url}/signin`);
  assert.deepEqual(await context.cookies(), []);
  assert.deepEqual(complaints, []);
  await context.close();
});

test('a project is connected by consent and a choice, reports it, and is disconnected', async () => {
  const { page, context, complaints } = await signedIn();
  await rowState(page, 'not-connected');
  const org = organization(3);
  const state = await leave(page);
  assert.match(state, /^[\w-]{43}$/);
  const consent = simulator.consent(org);
  await page.goto(`${daemon.url}${callback}${query(state, consent)}`);
  assert.match(page.url(), new RegExp(`${connections}\\?errtrackAttempt=[0-9a-f-]{36}$`));
  await at(page, 'chooser').waitFor();
  await at(page, `choose-${org.projects[0]?.id}`).waitFor();
  assert.equal(await at(page, 'chooser').locator('input:checked').count(), 0);
  assert.equal(await at(page, 'chooser-confirm').isDisabled(), true);
  const reads = (): number => seen.filter((one) => one.includes('/installations/')).length;
  const seen: string[] = [];
  page.on('request', (one) => seen.push(`${one.method()} ${one.url()}`));
  // A choice that waits is not polled; closing it cancels nothing.
  await page.keyboard.press('Escape');
  await at(page, 'chooser').waitFor({ state: 'detached' });
  assert.equal(reads(), 0);
  assert.equal(page.url(), `${daemon.url}${connections}`);
  await at(page, 'connect').click();
  await at(page, `choose-${org.projects[1]?.id}`).check();
  await at(page, 'chooser-confirm').click();
  await rowState(page, 'connected');
  assert.equal(seen.filter((one) => one.startsWith('PUT')).length, 1);
  // The same callback again exchanges nothing and ends where it did.
  await page.goto(`${daemon.url}${callback}${query(state, consent)}`);
  await rowState(page, 'connected');
  assert.match(await at(page, 'toast').innerText(), /is connected/);
  assert.equal(page.url(), `${daemon.url}${connections}`);
  assert.equal(simulator.installations.get(consent.installationId)?.exchanges, 1);

  await at(page, 'disconnect').click();
  assert.match(await at(page, 'confirmation').innerText(), /Other projects and the app at the provider stay/);
  await at(page, 'confirm').click();
  await rowState(page, 'not-connected');
  // What the organization has is used again, without another consent.
  await at(page, 'connect').click();
  await at(page, `choose-${org.projects[2]?.id}`).check();
  await at(page, 'chooser-confirm').click();
  await rowState(page, 'connected');
  await at(page, 'disconnect').click();
  await at(page, 'confirm').click();
  await rowState(page, 'not-connected');
  assert.deepEqual(complaints, []);
  await context.close();
});

/** A setup through the API, by the person of the tests; answers with its state. */
async function startSetup(): Promise<{ readonly id: string; readonly state: string; readonly projectId: string }> {
  const projectId = String((await daemon.api('GET', 'P')).body['id']);
  const organizationId = String((await daemon.api('GET', '/api/v1/orgs/default')).body['id']);
  const { status, body } = await daemon.api('POST', '/api/v1/connections/errtrack/installations', {
    organizationId,
    projectId,
  });
  assert.equal(status, 201);
  const state = new URL(String(body['authorizationUrl'])).searchParams.get('state') ?? '';
  return { id: String(body['attemptId']), state, projectId };
}

test('one project and one destination complete by themselves; of several connections the organization is chosen first', async () => {
  const { page, context, complaints } = await signedIn();
  await rowState(page, 'not-connected');
  const one = organization(1);
  const { state } = await startSetup();
  const consent = simulator.consent(one);
  await page.goto(`${daemon.url}${callback}${query(state, consent)}`);
  await rowState(page, 'connected');
  assert.match(await at(page, 'toast').innerText(), /is connected/);
  assert.equal(simulator.installations.get(consent.installationId)?.exchanges, 1);
  await at(page, 'disconnect').click();
  await at(page, 'confirm').click();
  await rowState(page, 'not-connected');

  const two = organization(2);
  const setup = await startSetup();
  await daemon.api('POST', '/api/v1/connections/errtrack/installations/callback', {
    state: setup.state,
    ...simulator.consent(two),
  });
  const recipients = [{ projectId: setup.projectId, errtrackProjectId: String(two.projects[0]?.id) }];
  const path = `/api/v1/connections/errtrack/installations/${setup.id}/recipients`;
  assert.equal((await daemon.api('PUT', path, { recipients })).status, 200);
  await page.reload();
  await rowState(page, 'connected');
  await at(page, 'disconnect').click();
  await at(page, 'confirm').click();
  await rowState(page, 'not-connected');

  await at(page, 'connect').click();
  await at(page, 'choose-organization').waitFor();
  assert.equal(await at(page, 'choose-organization').inputValue(), '');
  assert.equal(await page.locator('[data-testid^="choose-"][type="checkbox"]').count(), 0);
  assert.deepEqual(await axeViolations(page), []);
  await at(page, 'choose-organization').selectOption({ label: two.slug });
  const boxes = page.locator('[data-testid^="choose-"][type="checkbox"]');
  assert.equal(await boxes.count(), 2);
  assert.equal(await page.locator('input:checked').count(), 0);
  await at(page, `choose-${two.projects[1]?.id}`).check();
  await at(page, 'chooser-confirm').click();
  await rowState(page, 'connected');
  await at(page, 'disconnect').click();
  await at(page, 'confirm').click();
  await rowState(page, 'not-connected');
  assert.deepEqual(complaints, []);
  await context.close();
});

test('an attempt at work is read every two seconds, one read at a time, until the dialog is closed', async () => {
  const { page, context } = await signedIn();
  const id = '00000000-0000-4000-8000-000000000001';
  const times: number[] = [];
  await page.addInitScript(`const of = AbortSignal.timeout; globalThis.limits = [];
    AbortSignal.timeout = (ms) => (limits.push(ms), of.call(AbortSignal, ms));`);
  let inFlight = 0;
  let most = 0;
  const body = {
    ...{ attemptId: id, status: 'completing', reason: null, expiresAt: '2030-01-01T00:00:00.000Z', region: null },
    ...{ organizationId: 'o', projectId: 'p', destinationProjectIds: ['p'], projects: [] },
    ...{ providerOrganization: null, providerGrantId: null },
  };
  await page.route('**/installations/*', async (route) => {
    inFlight += 1;
    most = Math.max(most, inFlight);
    times.push(performance.now());
    await new Promise((resolve) => setTimeout(resolve, 300));
    inFlight -= 1;
    await route.fulfill({ status: 200, contentType: 'application/json', body: JSON.stringify(body) });
  });
  await page.goto(`${daemon.url}${connections}?errtrackAttempt=${id}`);
  while (times.length < 3) await page.waitForTimeout(100);
  for (const [index, time] of times.slice(1).entries()) assert.ok(time - (times[index] ?? 0) >= 2_000);
  assert.equal(most, 1);
  assert.deepEqual(await page.evaluate('[...new Set(limits)]'), [120_000]);
  await page.keyboard.press('Escape');
  await at(page, 'chooser').waitFor({ state: 'detached' });
  const sofar = times.length;
  await page.waitForTimeout(2_500);
  assert.equal(times.length, sofar);
  await context.close();
});

test('a callback that is malformed, signed out or another person’s ends on the fixed page', async () => {
  const go = (path: string, cookie = '') => fetch(`${daemon.url}${path}`, { redirect: 'manual', headers: { cookie } });
  const sessionOf = async (token: string): Promise<string> => {
    const { headers } = await daemon.api('POST', '/api/v1/auth/sessions', { token }, { token: null });
    return (headers.getSetCookie()[0] ?? '').split(';')[0] ?? '';
  };
  const { body } = await daemon.api('POST', '/api/v1/orgs/default/members', {
    email: 'ann@example.org',
    role: 'admin',
  });
  assert.ok(body);
  const ann = await daemon.api('POST', '/api/v1/orgs/default/tokens', { email: 'ann@example.org', name: 'own' });
  const scope = {
    organizationId: (await daemon.api('GET', '/api/v1/orgs/default')).body['id'],
    projectId: (await daemon.api('GET', 'P')).body['id'],
  };
  const begun = await daemon.api('POST', '/api/v1/connections/errtrack/installations', scope);
  const state = new URL(String(begun.body['authorizationUrl'])).searchParams.get('state') ?? '';
  const consent = simulator.consent(organization(2));
  const good = query(state, consent);
  const own = await sessionOf(daemon.token);
  const cases: [string, string, string][] = [
    ['signed out', good, ''],
    ['another person', good, await sessionOf(String(ann.body['token']))],
    ['no code', query(state, { ...consent, code: '' }), own],
    ['a long code', query(state, { ...consent, code: 'x'.repeat(8_193) }), own],
    ['two states', `${good}&state=${state}`, own],
    ['a foreign state', query('x'.repeat(43), consent), own],
    ['no installation', query(state, { ...consent, installationId: 'x' }), own],
  ];
  for (const [name, search, cookie] of cases) {
    const response = await go(`${callback}${search}`, cookie);
    assert.deepEqual([response.status, response.headers.get('location')], [303, errorPath], name);
    assert.equal(response.headers.get('cache-control'), 'no-store');
    assert.equal(response.headers.get('referrer-policy'), 'no-referrer');
  }
  const done = await go(`${callback}${good}&next=https%3A%2F%2Fevil.example`, own);
  assert.match(done.headers.get('location') ?? '', new RegExp(`^${connections}\\?errtrackAttempt=`));
  const page = await go(`${errorPath}?x=<script>`);
  assert.equal(page.status, 200);
  assert.equal(await page.text(), await (await go(errorPath)).text());
  const id = String(begun.body['attemptId']);
  const legacy = async (search: string) => (await go(`${connections}/errtrack${search}`, own)).headers.get('location');
  assert.equal(await legacy(`?attempt=${id}`), `${connections}?errtrackAttempt=${id}`);
  assert.equal(await legacy('?attempt=no'), connections);
});

test('every answer of a page has its headers; a wrong address, name or asset is refused', async () => {
  const get = (path: string, host: string) =>
    new Promise<{ status: number; headers: { [name: string]: unknown } }>((resolve, reject) => {
      const sent = request(`${daemon.url}${path}`, { headers: { host } }, (response) => {
        response.resume();
        resolve({ status: response.statusCode ?? 0, headers: response.headers });
      });
      sent.once('error', reject);
      sent.end();
    });
  const host = new URL(daemon.url).host;
  const { port } = new URL(daemon.url);
  const paths: [string, string, number][] = [
    ['/', host, 303],
    [connections, host, 303],
    ['/signin', host, 200],
    ['/signin/error', host, 200],
    ['/signin/no-role', host, 200],
    [errorPath, host, 200],
    [callback, host, 303],
    ['/oauth/error', host, 200],
    ['/oauth/callback?state=none', host, 303],
    ['/device', host, 303],
    ['/default/default/nothing', host, 404],
    ['/assets/0/app.ts', host, 404],
    ['/', 'evil.example', 421],
    [connections, `localhost:${port}`, 307],
  ];
  for (const [path, name, status] of paths) {
    const answer = await get(path, name);
    assert.equal(answer.status, status, `${name} ${path}`);
    const policy = String(answer.headers['content-security-policy']);
    for (const part of ["default-src 'none'", "frame-ancestors 'none'", "trusted-types 'none'", "form-action 'self'"])
      assert.ok(policy.includes(part), `${path}: ${part}`);
    assert.doesNotMatch(policy, /unsafe-/);
    assert.deepEqual(
      ['x-content-type-options', 'referrer-policy', 'cross-origin-opener-policy', 'cache-control'].map(
        (one) => answer.headers[one],
      ),
      ['nosniff', 'no-referrer', 'same-origin', 'no-store'],
      path,
    );
    assert.match(
      String(answer.headers['permissions-policy']),
      /camera=\(\), .*microphone=\(\).*payment=\(\).*usb=\(\)/,
    );
  }
  assert.equal((await get(connections, `localhost:${port}`)).headers['location'], `${daemon.url}${connections}`);
  assert.equal((await get('/api/v1/me', host)).status, 401);
  assert.equal((await get('/api/v1/nothing', host)).status, 404);
  const page = await (await fetch(`${daemon.url}/signin`)).text();
  const [, address = ''] = /src="(\/assets\/[^"]+)"/.exec(page) ?? [];
  const asset = await fetch(`${daemon.url}${address}`);
  assert.equal(asset.headers.get('cache-control'), 'public, max-age=31536000, immutable');
  assert.equal(asset.headers.get('content-encoding'), 'gzip');
  for (const path of ['../web.ts', '%2e%2e/web.ts', '..%2fweb.ts', 'vendor/../app.ts%00'])
    assert.equal((await fetch(`${daemon.url}${address.replace(/[^/]*$/, '')}${path}`)).status, 404, path);
  const made = await daemon.api('POST', '/api/v1/orgs', { slug: 'assets' });
  assert.deepEqual([made.status, made.body['code']], [400, 'reserved-slug']);
});

test('no page has a violation of axe, in light or in dark', async () => {
  const { page, context, complaints } = await signedIn();
  const hold = (name: string): Promise<void> =>
    inBothSchemes(page, async (scheme) => assert.deepEqual(await axeViolations(page), [], `${name} in ${scheme}`));
  await rowState(page, 'not-connected');
  await hold('connections');
  // The organization has a connection by now: it is chosen from without another consent.
  await at(page, 'connect').click();
  await at(page, 'chooser').waitFor();
  await at(page, 'choose-organization').selectOption({ index: 1 });
  await page.locator('[data-testid^="choose-"][type="checkbox"]').first().check();
  await hold('chooser');
  await at(page, 'chooser-confirm').click();
  await rowState(page, 'connected');
  await hold('connected');
  await at(page, 'disconnect').click();
  await hold('confirmation');
  await at(page, 'confirm').click();
  await rowState(page, 'not-connected');
  for (const [path, testId] of [
    ['/', 'page-projects'],
    ['/default/default', 'page-overview'],
    ['/default/default/events', 'page-events'],
    ['/default/default/secrets', 'page-secrets'],
    ['/device', 'device-code'],
    ['/signin', 'signin-token'],
    [errorPath, 'error-page'],
  ] as const) {
    await page.goto(`${daemon.url}${path}`);
    await at(page, testId).waitFor();
    await page.locator('p.empty:text-matches("Reading…|Looking…")').waitFor({ state: 'detached' });
    await hold(path);
  }
  assert.deepEqual(complaints, []);
  await context.close();
});
