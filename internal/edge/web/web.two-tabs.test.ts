// Several tabs of one browser: what is done in one of them is so in the others, who is signed in, the zone of times, and
// what a project is connected to.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type BrowserContext, type Page, startBrowser, type TestBrowser } from '../../base/testkit/browser.ts';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { ErrtrackSimulator } from '../../base/testkit/errtrack-provider.ts';
import { agentText, at, root, signInOn } from './web-testkit.ts';

let daemon: TestDaemon;
let browser: TestBrowser;
let simulator: ErrtrackSimulator;
let dir: string;
let viewer: string;

const apply = async (name: string, cron: string): Promise<void> => {
  const beat = `triggers:\n- { kind: heartbeat, cron: '${cron}', message: m, routing: { kind: spawn } }\n`;
  const files = [{ path: `.svc/agents/${name}.yaml`, content: agentText(name, 'Sort.', beat) }];
  assert.equal((await daemon.api('POST', 'P/apply', { files, prune: false })).status, 200);
};

before(async () => {
  dir = mkdtempSync(join(tmpdir(), 'svc-web-'));
  simulator = await ErrtrackSimulator.start();
  writeFileSync(join(dir, 'secret'), `${ErrtrackSimulator.clientSecret}\n`);
  const file = { providers: { errtrack: simulator.section(join(dir, 'secret')) } };
  daemon = await startTestDaemon({ config: { file, roles: ['api', 'sync', 'route'], allowPrivateNetwork: true } });
  browser = await startBrowser();
  const { api } = daemon;
  await api('POST', '/api/v1/orgs/default/members', { email: 'vera@example.org', role: 'member' });
  await api('POST', 'P/members', { email: 'vera@example.org', role: 'viewer' });
  const made = await api('POST', '/api/v1/orgs/default/tokens', { email: 'vera@example.org', name: 'own' });
  viewer = String(made.body['token']);
  await apply('triage', '30 * * * *');
});
after(async () => {
  await browser.close();
  await daemon.stop();
  await simulator.stop();
  rmSync(dir, { recursive: true, force: true });
});

const live = (page: Page) => page.locator('[data-testid="live-state"][data-state="live"]').waitFor();
/** A tab more of a browser that is signed in. */
async function tabOf(context: BrowserContext, path: string): Promise<Page> {
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  await page.goto(`${daemon.url}${root}/${path}`);
  await live(page);
  return page;
}

test('who is signed out in another tab signs out here too, and is told where that cannot be done', async () => {
  const context = await browser.open();
  const { page } = await signInOn(context, daemon, `${root}/agents`, {});
  await at(page, 'page-agents').waitFor();
  await page.route('**/auth/signout', (route) => route.abort('connectionrefused'));
  await at(page, 'signout').click();
  await at(page, 'failure').filter({ hasText: 'It is not sent again by itself' }).waitFor();
  await page.unroute('**/auth/signout');
  const other = await tabOf(context, 'events');
  await at(other, 'signout').click();
  await other.waitForURL(`${daemon.url}/signin`);
  await at(page, 'signout').click();
  await page.waitForURL(`${daemon.url}/signin`);
  await context.close();
});

test('where another person signs in beside it, a page says whose it is from then on', async () => {
  const context = await browser.open();
  const { page } = await signInOn(context, daemon, `${root}/agents/triage`, {});
  await at(page, 'start').waitFor();
  assert.equal(await at(page, 'start').isEnabled(), true);
  const other = await tabOf(context, 'events');
  await at(other, 'signout').click();
  await at(other, 'signin-token').fill(viewer);
  await at(other, 'signin-submit').click();
  await other.locator('.me', { hasText: 'vera' }).waitFor();
  await page.locator('.me', { hasText: 'vera' }).waitFor();
  await at(page, 'start').and(page.locator(':disabled')).waitFor();
  await context.close();
});

test('the zone that is chosen in one tab is that of the others, with every time that they show', async () => {
  const context = await browser.open();
  const inBerlin = async (page: Page): Promise<void> => {
    const session = await context.newCDPSession(page);
    await session.send('Emulation.setTimezoneOverride', { timezoneId: 'Europe/Berlin' });
    await page.reload();
    await page.getByRole('heading', { name: 'Next 24 hours UTC' }).waitFor();
  };
  const { page } = await signInOn(context, daemon, `${root}/schedules`, {});
  await inBerlin(page);
  const other = await tabOf(context, 'schedules');
  await inBerlin(other);
  await at(page, 'zone').selectOption('own');
  await page.getByRole('heading', { name: 'Next 24 hours Europe/Berlin' }).waitFor();
  await other.getByRole('heading', { name: 'Next 24 hours Europe/Berlin' }).waitFor();
  assert.equal(await at(other, 'zone').inputValue(), 'own');
  await at(other, 'zone').selectOption('UTC');
  await page.getByRole('heading', { name: 'Next 24 hours UTC' }).waitFor();
  assert.equal(await at(page, 'zone').inputValue(), 'UTC');
  await context.close();
});

test('a schedule that an apply brings is in the picture of the next hours, too', async () => {
  const context = await browser.open();
  const { page } = await signInOn(context, daemon, `${root}/schedules`, {});
  await live(page);
  const lanes = page.locator('svg.timeline .lane');
  await lanes.filter({ hasText: 'triage#0' }).waitFor();
  await apply('sweeper', '0 * * * *');
  await lanes.filter({ hasText: 'sweeper#0' }).waitFor();
  await context.close();
});

let next = 1;
/** Connects the default project to an organization of its own at the provider, as its consent would; its only project. */
async function connected(): Promise<string> {
  const { api } = daemon;
  const projectId = String((await api('GET', 'P')).body['id']);
  const organizationId = String((await api('GET', '/api/v1/orgs/default')).body['id']);
  const path = '/api/v1/connections/errtrack/installations';
  const { body } = await api('POST', path, { organizationId, projectId });
  const state = new URL(String(body['authorizationUrl'])).searchParams.get('state') ?? '';
  const id = 70_000 + next++;
  const projects = [{ id: `${id}0`, slug: `p-${id}` }];
  const consent = simulator.consent({ id, slug: `org-${id}`, projects, region: 'us' });
  const done = await api('POST', `${path}/callback`, { state, ...consent });
  assert.equal(done.body['status'], 'completed');
  return String(done.body['providerGrantId']);
}
const rowOf = (page: Page, state: string) =>
  at(page, 'connection-errtrack')
    .and(page.locator(`[data-state="${state}"]`))
    .waitFor();

test('the error tracker’s row follows what is connected and disconnected elsewhere, for whoever looks', async () => {
  const context = await browser.open();
  const { page } = await signInOn(context, daemon, `${root}/connections`, {});
  await rowOf(page, 'not-connected');
  await live(page);
  await connected();
  await rowOf(page, 'connected');
  const others = await browser.open();
  const { page: viewing } = await signInOn(others, daemon, `${root}/connections`, { token: viewer });
  await rowOf(viewing, 'connected');
  assert.equal(await at(viewing, 'disconnect').isDisabled(), true);
  await at(page, 'disconnect').click();
  await at(page, 'confirm').click();
  await rowOf(page, 'not-connected');
  await rowOf(viewing, 'not-connected');
  // Of several, the one that is connected is the one that the row speaks of.
  await connected();
  await rowOf(page, 'connected');
  const { items } = (await daemon.api('GET', 'P/connections?limit=200')).body as unknown as {
    items: { name: string; provider: string; status: string }[];
  };
  const [active] = items.filter(({ provider, status }) => provider === 'errtrack' && status === 'active');
  assert.equal(await at(page, 'disconnect').getAttribute('title'), `svc connection remove ${active?.name}`);
  await context.close();
  await others.close();
});

test('an administrator of the project alone is told what connecting needs, and no error', async () => {
  const { api } = daemon;
  await api('POST', '/api/v1/orgs/default/members', { email: 'otto@example.org', role: 'member' });
  await api('POST', 'P/members', { email: 'otto@example.org', role: 'admin' });
  const made = await api('POST', '/api/v1/orgs/default/tokens', { email: 'otto@example.org', name: 'own' });
  const context = await browser.open();
  const { page, complaints } = await signInOn(context, daemon, `${root}/connections`, {
    token: String(made.body['token']),
  });
  await rowOf(page, 'connected');
  assert.equal(await at(page, 'disconnect').isDisabled(), true);
  assert.match(await at(page, 'connection-errtrack').innerText(), /needs an administrator of the organization/);
  assert.equal(await at(page, 'failure').count(), 0);
  assert.deepEqual(complaints, []);
  await context.close();
});
