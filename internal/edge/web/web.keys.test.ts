// Pages by keys alone, in a real browser: each row that j and k go to is opened by Enter, and the focus is never left in the
// void by what was done.

import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type Page, startBrowser, type TestBrowser } from '../../base/testkit/browser.ts';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { ErrtrackSimulator } from '../../base/testkit/errtrack-provider.ts';
import { agentText, at, root, signInOn } from './web-testkit.ts';

let daemon: TestDaemon;
let browser: TestBrowser;
let simulator: ErrtrackSimulator;
let dir: string;

before(async () => {
  dir = mkdtempSync(join(tmpdir(), 'svc-web-'));
  simulator = await ErrtrackSimulator.start();
  writeFileSync(join(dir, 'secret'), `${ErrtrackSimulator.clientSecret}\n`);
  mkdirSync(join(dir, 'fleet/.svc/agents'), { recursive: true });
  writeFileSync(join(dir, 'fleet/.svc/agents/triage.yaml'), agentText('triage', 'Sort.'));
  const file = { providers: { errtrack: simulator.section(join(dir, 'secret')) } };
  daemon = await startTestDaemon({ config: { file, roles: ['api', 'sync', 'route'], allowPrivateNetwork: true } });
  browser = await startBrowser();
  const { api } = daemon;
  assert.equal((await api('POST', 'P/repositories', { name: 'fleet', path: join(dir, 'fleet') })).status, 201);
  const docs = { provider: 'mcp', name: 'docs', url: 'https://docs.example.org/mcp' };
  assert.equal((await api('POST', 'P/connections', docs)).status, 201);
});
after(async () => {
  await browser.close();
  await daemon.stop();
  await simulator.stop();
  rmSync(dir, { recursive: true, force: true });
});

const signedIn = async (path: string) => {
  const context = await browser.open();
  return { context, ...(await signInOn(context, daemon, `${root}${path}`, {})) };
};
/** The test id of what has the focus, else its element's name. */
const focused = (page: Page): Promise<string> =>
  page.evaluate('document.activeElement.dataset.testid ?? document.activeElement.tagName');

test('Enter opens each row that j and k go to, whatever it is drawn as', async () => {
  const { page, context } = await signedIn('');
  await at(page, 'attention-item').filter({ hasText: 'docs' }).waitFor();
  await page.keyboard.press('j');
  assert.equal(await focused(page), 'attention-item');
  await page.keyboard.press('Enter');
  await at(page, 'page-connections').waitFor();
  for (const [path, testId, row] of [
    ['/connections', 'page-connections', 'row-connection-docs'],
    ['/doctor', 'page-doctor', 'row-check-0'],
    ['/tokens', 'page-tokens', 'row-token-'],
  ] as const) {
    await page.goto(`${daemon.url}${root}${path}`);
    await at(page, testId).waitFor();
    await page.locator(`[data-testid^="${row}"]`).first().waitFor();
    await page.keyboard.press('j');
    assert.ok((await focused(page)).startsWith(row), `${path}: ${await focused(page)}`);
  }
  await context.close();
});

test('an act that takes its own button away leaves the focus on the page', async () => {
  const { page, context } = await signedIn('/repositories/fleet');
  await at(page, 'suspend').focus();
  await page.keyboard.press('Enter');
  await at(page, 'reason').waitFor();
  await at(page, 'confirm').focus();
  await page.keyboard.press('Enter');
  await at(page, 'resume').waitFor();
  await at(page, 'suspend').waitFor({ state: 'detached' });
  assert.notEqual(await focused(page), 'BODY');
  await context.close();
});

test('what is refused leaves the focus on what was pressed', async () => {
  const { page, context } = await signedIn('/repositories/fleet');
  const refused = { status: 409, code: 'changed', title: 'x', detail: 'Not now.', requestId: 'r-1' };
  await page.route(
    (url) => url.pathname.startsWith('/api/') && !url.search.includes('dryRun=true'),
    (route) => (route.request().method() === 'GET' ? route.continue() : route.fulfill({ status: 409, json: refused })),
  );
  const pressed = async (id: string): Promise<void> => {
    await at(page, id).focus();
    await page.keyboard.press('Enter');
    await at(page, 'failure').waitFor();
    await at(page, id).and(page.locator(':enabled')).waitFor();
    assert.equal(await focused(page), id);
  };
  await at(page, 'delete').click();
  await pressed('confirm');
  await page.goto(`${daemon.url}${root}/agents/triage`);
  await at(page, 'start').click();
  await pressed('confirm');
  await page.goto(`${daemon.url}${root}/secrets`);
  await at(page, 'create').click();
  await at(page, 'secret-name').fill('late');
  await at(page, 'secret-value').fill('x');
  await pressed('secret-save');
  await page.goto(`${daemon.url}${root}/connections`);
  await at(page, 'create').click();
  await at(page, 'connection-name').fill('late');
  await at(page, 'connection-webhookSecret').fill('x');
  await pressed('connection-save');
  await context.close();
});

test('who signs in by keys stays in the field of the token where it is refused', async () => {
  const context = await browser.open();
  const page = await context.newPage();
  await page.goto(`${daemon.url}/signin`);
  await at(page, 'signin-token').focus();
  await page.keyboard.type('svc_nothing');
  await page.keyboard.press('Enter');
  await at(page, 'failure').waitFor();
  assert.equal(await focused(page), 'signin-token');
  await context.close();
});

test('who lets a command line in by keys is led to who asks, and to what became of it', async () => {
  const { page, context } = await signedIn('');
  const { body } = await daemon.api(
    'POST',
    '/api/v1/oauth/device_authorization',
    new URLSearchParams({ client_id: 'svc-cli' }).toString(),
    {
      token: null,
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
    },
  );
  await page.goto(`${daemon.url}/device`);
  await at(page, 'device-code').fill(String(body['user_code']));
  await page.keyboard.press('Enter');
  await at(page, 'allow').waitFor();
  assert.match(await page.evaluate('document.activeElement.innerText'), /asks for a token of yours/);
  await at(page, 'allow').focus();
  await page.keyboard.press('Enter');
  await at(page, 'decision').waitFor();
  assert.equal(await focused(page), 'decision');
  await context.close();
});

test('Enter in a field does what the button behind it does', async () => {
  const { page, context } = await signedIn('/settings');
  await at(page, 'project-name').fill('By keys');
  await page.keyboard.press('Enter');
  await page.getByText('It is called By keys now.').waitFor();
  await page.goto(`${daemon.url}${root}/endpoints`);
  await page.locator('summary', { hasText: 'Reserve a name' }).click();
  await at(page, 'endpoint-name').fill('by-keys');
  await page.keyboard.press('Enter');
  await page.waitForURL(/\/endpoints\/by-keys$/);
  await page.goto(`${daemon.url}${root}/members`);
  await page.locator('summary', { hasText: 'Add a member' }).click();
  await at(page, 'member-who').fill('nobody@example.org');
  await page.keyboard.press('Enter');
  await at(page, 'failure').waitFor();
  await context.close();
});

test('what a field lacks is said at the field, and a name that is taken asks for another', async () => {
  const { page, context } = await signedIn('/endpoints');
  const sent: string[] = [];
  page.on('request', (one) => one.method() === 'POST' && sent.push(one.url()));
  await page.locator('summary', { hasText: 'Reserve a name' }).click();
  for (const name of ['', 'a b']) {
    await at(page, 'endpoint-name').fill(name);
    await at(page, 'create').click();
    assert.equal(await focused(page), 'endpoint-name');
  }
  assert.deepEqual(sent, []);
  await page.route('**/endpoints', (route) =>
    route.request().method() === 'GET'
      ? route.continue()
      : route.fulfill({
          status: 409,
          json: { status: 409, code: 'endpoint-exists', detail: 'Taken.', requestId: 'r' },
        }),
  );
  await at(page, 'endpoint-name').fill('taken');
  await at(page, 'create').click();
  assert.match(await at(page, 'failure').innerText(), /^endpoint-exists Taken\.\s+Choose another name\./);
  await page.goto(`${daemon.url}${root}/members`);
  await page.locator('summary', { hasText: 'Add a member' }).click();
  await at(page, 'create').click();
  assert.equal(await focused(page), 'member-who');
  await page.goto(`${daemon.url}${root}/tokens`);
  await page.locator('summary', { hasText: 'Make a token' }).click();
  await at(page, 'token-name').fill('mine');
  await page.keyboard.press('Enter');
  await at(page, 'token-text').waitFor();
  await page.getByRole('button', { name: 'Hide' }).focus();
  await page.keyboard.press('Enter');
  await at(page, 'token-text').waitFor({ state: 'detached' });
  assert.equal(await focused(page), 'SUMMARY');
  await context.close();
});

test('Connect has the focus again when the choice that it opened is closed', async () => {
  const { api } = daemon;
  const projectId = String((await api('GET', 'P')).body['id']);
  const organizationId = String((await api('GET', '/api/v1/orgs/default')).body['id']);
  const path = '/api/v1/connections/errtrack/installations';
  const { body } = await api('POST', path, { organizationId, projectId });
  const state = new URL(String(body['authorizationUrl'])).searchParams.get('state') ?? '';
  const projects = [1, 2].map((n) => ({ id: `9000${n}`, slug: `p-${n}` }));
  const consent = simulator.consent({ id: 90_000, slug: 'org-90000', projects, region: 'us' });
  assert.equal((await api('POST', `${path}/callback`, { state, ...consent })).status, 200);
  const { page, context } = await signedIn('/connections');
  await at(page, 'connect').and(page.locator(':enabled')).focus();
  await page.keyboard.press('Enter');
  await at(page, 'choose-90001').waitFor();
  await page.keyboard.press('Escape');
  await at(page, 'chooser').waitFor({ state: 'detached' });
  assert.equal(await focused(page), 'connect');
  await context.close();
});
