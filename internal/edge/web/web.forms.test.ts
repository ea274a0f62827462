// What a page does where the service does not answer, answers late, or answers no: in a real browser, whose way to the service
// breaks when a test says so. What was typed stays, nothing is done twice, and what can be read comes by itself.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { axeViolations, type BrowserContext, startBrowser, type TestBrowser } from '../../base/testkit/browser.ts';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { at, signInOn } from './web-testkit.ts';

let daemon: TestDaemon;
let browser: TestBrowser;
const root = '/default/default';

const signedIn = async (path: string) => {
  const context: BrowserContext = await browser.open();
  const { page } = await signInOn(context, daemon, `${root}/${path}`, {});
  await page.locator('[data-testid="live-state"][data-state="live"]').waitFor();
  return { context, page };
};

before(async () => {
  daemon = await startTestDaemon({ config: { roles: ['api', 'sync', 'route'], allowPrivateNetwork: true } });
  browser = await startBrowser();
});
after(async () => {
  await browser.close();
  await daemon.stop();
});

test('a reading that was not answered is done again by itself, also where nothing has changed meanwhile', async () => {
  const { page, context } = await signedIn('doctor');
  const away = { status: 503, contentType: 'application/problem+json' };
  const body = { status: 503, title: 'x', code: 'unavailable', detail: 'Away.', requestId: 'r-1' };
  for (const [name, path] of [
    ['tokens', '**/api/v1/tokens*'],
    ['settings', `**/projects/default`],
    ['endpoints', '**/endpoints*'],
  ] as const)
    for (const isReached of [false, true]) {
      await page.route(path, (route) =>
        isReached ? route.fulfill({ ...away, body: JSON.stringify(body) }) : route.abort('connectionrefused'),
      );
      await page.locator('nav a', { hasText: 'Doctor' }).click();
      await at(page, 'page-doctor').waitFor();
      await page
        .locator('nav a')
        .filter({ hasText: new RegExp(`^${name}$`, 'i') })
        .click();
      const failure = at(page, 'failure').first();
      await failure.filter({ hasText: isReached ? 'Away.' : 'it is read again by itself' }).waitFor();
      await page.unroute(path);
      await failure.waitFor({ state: 'detached' });
    }
  await context.close();
});

test('what could not be sent is said not to be sent again, and what was typed is no fault of the service', async () => {
  const { page, context } = await signedIn('secrets');
  await at(page, 'create').click();
  await at(page, 'secret-name').fill('late');
  await at(page, 'secret-value').fill('x');
  const expires = page.locator('[name="expiresAt"]');
  await expires.evaluate((input) => Object.assign(input, { value: '20266-01-01T10:00' }));
  await at(page, 'secret-save').click();
  assert.equal(await expires.evaluate((input) => input.matches(':invalid')), true);
  assert.equal(await at(page, 'failure').count(), 0);
  await expires.fill('2099-01-01T10:00');
  await page.route('**/secrets/late', (route) => route.abort('connectionrefused'));
  await at(page, 'secret-save').click();
  await at(page, 'failure').waitFor();
  assert.match(
    await at(page, 'failure').innerText(),
    /^unreachable The service was not reached\.\s+It is not sent again by itself/,
  );
  await page.unroute('**/secrets/late');
  await at(page, 'secret-save').click();
  await at(page, 'row-secret-late').waitFor();
  await context.close();
});

test('a form whose button is pressed again before the answer is sent once', async () => {
  const { page, context } = await signedIn('tokens');
  const hold = async (path: string) => {
    const held: (() => void)[] = [];
    await page.route(path, async (route) => {
      if (route.request().method() !== 'POST') return route.continue();
      await new Promise<void>((go) => held.push(go));
      return route.continue();
    });
    return held;
  };
  const tokens = await hold('**/api/v1/tokens');
  await page.locator('summary', { hasText: 'Make a token' }).click();
  await at(page, 'token-name').fill('pressed');
  await at(page, 'create').dblclick();
  await at(page, 'token-name').press('Enter');
  await at(page, 'create').and(page.locator('[aria-busy="true"]')).waitFor();
  // What was sent is in order: were there a second one, it would have been held by now.
  await page.evaluate(`fetch('/api/v1/tokens?limit=1')`);
  assert.equal(tokens.length, 1);
  tokens[0]?.();
  await at(page, 'token-text').waitFor();
  const { items } = (await daemon.api('GET', '/api/v1/tokens?limit=200')).body as unknown as {
    items: { name: string }[];
  };
  assert.equal(items.filter(({ name }) => name === 'pressed').length, 1);

  await page.locator('nav a', { hasText: 'Settings' }).click();
  const receivers = await hold('**/receivers');
  await page.locator('summary', { hasText: 'Add a receiver' }).click();
  await at(page, 'receiver-kind').selectOption('webhook');
  await at(page, 'receiver-name').fill('desk');
  await at(page, 'receiver-url').fill('https://desk.example.org/');
  await at(page, 'receiver-secret').fill('k'.repeat(32));
  await at(page, 'receiver-add').dblclick();
  await at(page, 'receiver-add').and(page.locator('[aria-busy="true"]')).waitFor();
  await page.evaluate(`fetch('/api/v1/tokens?limit=1')`);
  assert.equal(receivers.length, 1);
  receivers[0]?.();
  await at(page, 'row-receiver-desk').waitFor();
  assert.equal(await at(page, 'failure').count(), 0);
  await context.close();
});

test('a connection whose server is not there is added, and what failed stands on the page beside its row', async () => {
  const { page, context } = await signedIn('connections');
  await at(page, 'create').click();
  await at(page, 'connection-provider').selectOption('mcp');
  await at(page, 'connection-name').fill('docs');
  await at(page, 'connection-url').fill('http://127.0.0.1:1/mcp');
  await at(page, 'connection-save').click();
  await at(page, 'row-connection-docs').waitFor();
  await at(page, 'not-consented').waitFor();
  assert.equal(await at(page, 'connection-dialog').count(), 0);
  assert.match(await at(page, 'not-consented').innerText(), /^docs is added\.[^]*discovery-failed/);
  assert.deepEqual(await axeViolations(page), []);
  await context.close();
});

test('a session that ends under a form takes nothing of it: one signs in beside it, and goes on', async () => {
  const { page, context } = await signedIn('secrets');
  await at(page, 'create').click();
  await at(page, 'secret-name').fill('kept');
  await at(page, 'secret-value').fill('typed before');
  await context.clearCookies();
  await at(page, 'secret-save').click();
  // The list behind the dialog is read again by itself, and may say the same.
  const dialog = at(page, 'secret-dialog');
  await dialog.getByTestId('failure').waitFor();
  assert.match(await dialog.getByTestId('failure').innerText(), /^invalid-token You are not signed in any more\./);
  assert.deepEqual(await axeViolations(page), []);
  const opened = context.waitForEvent('page');
  await dialog.getByTestId('signin-beside').click();
  const beside = await opened;
  await at(beside, 'signin-token').fill(daemon.token);
  await at(beside, 'signin-submit').click();
  await at(beside, 'page-secrets').waitFor();
  await beside.close();
  assert.equal(await at(page, 'secret-value').inputValue(), 'typed before');
  await at(page, 'secret-save').click();
  await at(page, 'row-secret-kept').waitFor();
  await page.locator('[data-testid="live-state"][data-state="live"]').waitFor();
  await context.close();
});
