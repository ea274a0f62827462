// What somebody has typed or chosen and not sent yet: nothing that happens meanwhile takes it away, and what a refusal says
// is gone when it is tried again.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { startBrowser, type TestBrowser } from '../../base/testkit/browser.ts';
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
  const file = { providers: { errtrack: simulator.section(join(dir, 'secret')) } };
  daemon = await startTestDaemon({ config: { file, roles: ['api', 'sync', 'route'], allowPrivateNetwork: true } });
  browser = await startBrowser();
  const hook =
    'triggers:\n- { event: webhook.received, endpoint: reports, auth: { kind: none }, where: { $.a: 1 }, routing: { kind: spawn } }\n';
  const files = [{ path: '.svc/agents/triage.yaml', content: agentText('triage', 'Sort.', hook) }];
  assert.equal((await daemon.api('POST', 'P/apply', { files })).status, 200);
});
after(async () => {
  await browser.close();
  await daemon.stop();
  await simulator.stop();
  rmSync(dir, { recursive: true, force: true });
});

const signedIn = async (path: string) => {
  const context = await browser.open();
  return { context, ...(await signInOn(context, daemon, `${root}/${path}`, {})) };
};
const problem = (status: number, code: string) => ({
  status,
  contentType: 'application/problem+json',
  body: JSON.stringify({ status, title: 'x', code, detail: 'Not now.', requestId: 'r-1' }),
});

test('a filter that is being typed stays as it is while rows come in', async () => {
  const { page, context } = await signedIn('events');
  await page.locator('[data-testid="live-state"][data-state="live"]').waitFor();
  await at(page, 'filter-key').pressSequentially('webhook.rec');
  const { body } = await daemon.api('GET', 'P/endpoints/reports');
  const posted = await fetch(String(body['ingestUrl']), { method: 'POST', body: '{}' });
  assert.equal(posted.status, 202);
  await at(page, 'new-rows').waitFor();
  assert.equal(await at(page, 'filter-key').inputValue(), 'webhook.rec');
  await at(page, 'filter-key').pressSequentially('eived');
  await page.keyboard.press('Enter');
  await page.waitForURL(/key=webhook\.received/);
  await page.goBack();
  await page.waitForURL(/\/events$/);
  assert.equal(await at(page, 'filter-key').inputValue(), '');
  await context.close();
});

test('projects that are chosen stay chosen where the choice was refused or not answered', async () => {
  const { api } = daemon;
  const projectId = String((await api('GET', 'P')).body['id']);
  const organizationId = String((await api('GET', '/api/v1/orgs/default')).body['id']);
  const path = '/api/v1/connections/errtrack/installations';
  const started = await api('POST', path, { organizationId, projectId });
  const state = new URL(String(started.body['authorizationUrl'])).searchParams.get('state') ?? '';
  const projects = [1, 2, 3].map((n) => ({ id: `8000${n}`, slug: `p-${n}` }));
  const consent = simulator.consent({ id: 80_000, slug: 'org-80000', projects, region: 'us' });
  assert.equal((await api('POST', `${path}/callback`, { state, ...consent })).body['status'], 'awaiting_selection');
  const { page, context } = await signedIn('connections');
  await page.goto(`${daemon.url}${root}/connections?errtrackAttempt=${String(started.body['attemptId'])}`);
  await at(page, 'choose-80002').check();
  for (const [status, code] of [
    [409, 'attempt-state'],
    [503, 'busy'],
    [0, 'unreachable'],
  ] as const) {
    await page.route('**/recipients', (route) =>
      status === 0 ? route.abort('connectionrefused') : route.fulfill(problem(status, code)),
    );
    await at(page, 'chooser-confirm').click();
    await at(page, 'failure').filter({ hasText: code }).waitFor();
    await at(page, 'choose-80002').waitFor();
    assert.equal(await at(page, 'choose-80002').isChecked(), true, code);
    assert.equal(await at(page, 'chooser-confirm').isEnabled(), true, code);
    await page.unroute('**/recipients');
  }
  await at(page, 'chooser-confirm').click();
  await at(page, 'connection-errtrack').and(page.locator('[data-state="connected"]')).waitFor();
  assert.equal(simulator.installations.get(consent.installationId)?.exchanges, 1);
  await context.close();
});

test('a refusal is told until it is tried again, and by no dialog that is opened anew', async () => {
  const { page, context } = await signedIn('agents/triage');
  await page.route('**/agents/triage/sessions', (route) =>
    route.request().method() === 'POST' ? route.fulfill(problem(409, 'archived')) : route.continue(),
  );
  await at(page, 'start').click();
  await at(page, 'start-message').fill('typed before');
  await at(page, 'confirm').click();
  await at(page, 'failure').waitFor();
  await page.keyboard.press('Escape');
  await at(page, 'start').click();
  assert.equal(await at(page, 'start-message').inputValue(), 'typed before');
  assert.equal(await at(page, 'failure').count(), 0);
  await context.close();
});

test('what is said of an act that is refused after its question was closed stands on the page', async () => {
  const { page, context } = await signedIn('agents/triage');
  let refuse: (() => void) | undefined;
  await page.route('**/agents/triage', async (route) => {
    if (route.request().method() !== 'DELETE') return route.continue();
    await new Promise<void>((go) => (refuse = go));
    return route.fulfill(problem(409, 'agent-changed'));
  });
  await at(page, 'delete').click();
  await at(page, 'confirm').click();
  while (refuse === undefined) await page.waitForTimeout(50);
  await page.keyboard.press('Escape');
  await at(page, 'confirmation').waitFor({ state: 'detached' });
  refuse();
  await at(page, 'failure').filter({ hasText: 'agent-changed' }).waitFor();
  await context.close();
});

test('of a token that was not revoked, and an error tracker that was not disconnected, the page says so after the question was closed', async () => {
  const { page, context } = await signedIn('tokens');
  const refuse = async (path: RegExp, method: string) => {
    const held: (() => void)[] = [];
    await page.route(path, async (route) => {
      if (route.request().method() !== method || /dryRun/.test(route.request().url())) return route.continue();
      await new Promise<void>((go) => held.push(go));
      return route.fulfill(problem(409, 'not-done'));
    });
    return async (): Promise<void> => {
      await at(page, 'confirm').click();
      while (held.length === 0) await page.waitForTimeout(50);
      await page.keyboard.press('Escape');
      await at(page, 'confirmation').waitFor({ state: 'detached' });
      held[0]?.();
      await at(page, 'failure').filter({ hasText: 'not-done' }).waitFor();
    };
  };
  const revoked = await refuse(/\/tokens\/[^/]+$/, 'DELETE');
  await at(page, 'revoke').first().click();
  await revoked();
  // Connected by the choice that was made above.
  await page.goto(`${daemon.url}${root}/connections`);
  const disconnected = await refuse(/\/errtrack\/projects$/, 'PUT');
  await at(page, 'disconnect').and(page.locator(':enabled')).click();
  await disconnected();
  await context.close();
});

test('a description may be as long as a secret takes it', async () => {
  const { page, context } = await signedIn('secrets');
  const description = '😀'.repeat(1_024);
  await at(page, 'create').click();
  await at(page, 'secret-name').fill('long');
  await at(page, 'secret-value').fill('x');
  await page.locator('[name="description"]').focus();
  await page.keyboard.insertText(description);
  await at(page, 'secret-save').click();
  await at(page, 'row-secret-long').waitFor();
  assert.equal((await daemon.api('GET', 'P/secrets/long')).body['description'], description);
  await context.close();
});

test('what is typed on while a message is being sent stays, and the message goes once', async () => {
  const made = await daemon.api('POST', 'P/agents/triage/sessions', { message: 'begin' });
  const { page, context } = await signedIn(`sessions/${String(made.body['id'])}`);
  let go: (() => void) | undefined;
  await page.route('**/messages', async (route) => {
    if (route.request().method() !== 'POST') return route.continue();
    await new Promise<void>((send) => (go = send));
    return route.continue();
  });
  await at(page, 'say').fill('first');
  await page.keyboard.press('Control+Enter');
  while (go === undefined) await page.waitForTimeout(50);
  await at(page, 'say').pressSequentially(' and second');
  go();
  await page.locator('.log pre', { hasText: /^first$/ }).waitFor();
  await at(page, 'say-send').and(page.locator(':enabled')).waitFor();
  assert.equal(await at(page, 'say').inputValue(), ' and second');
  await context.close();
});

test('of files and a work tree that have not been read yet nothing is said', async () => {
  const made = await daemon.api('POST', 'P/agents/triage/sessions', { message: 'begin' });
  const { page, context } = await signedIn('sessions');
  const held: (() => void)[] = [];
  for (const path of ['**/files?*', '**/diff'])
    await page.route(path, async (route) => {
      await new Promise<void>((go) => held.push(go));
      return route.continue();
    });
  await page.goto(`${daemon.url}${root}/sessions/${String(made.body['id'])}`);
  for (const id of ['session-files', 'session-diff']) {
    await at(page, id).locator('summary').click();
    assert.equal(await at(page, id).locator('p.empty').innerText(), 'Reading…');
  }
  while (held.length < 2) await page.waitForTimeout(50);
  for (const go of held) go();
  await at(page, 'session-files').getByText('It has left no file').waitFor();
  await at(page, 'session-diff').getByText('No work tree has been looked at yet.').waitFor();
  await context.close();
});
