// Addresses as people type them, and the colours that they have chosen in place of the page's.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Page, startBrowser, type TestBrowser } from '../../base/testkit/browser.ts';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { agentText, at, root, signInOn } from './web-testkit.ts';

let daemon: TestDaemon;
let browser: TestBrowser;

before(async () => {
  daemon = await startTestDaemon({ config: { roles: ['api'] } });
  browser = await startBrowser();
  const files = [{ path: '.svc/agents/triage.yaml', content: agentText('triage', 'Sort.') }];
  assert.equal((await daemon.api('POST', 'P/apply', { files })).status, 200);
});
after(async () => {
  await browser.close();
  await daemon.stop();
});

test('a slash too many at the end leads to the page, with what was asked of it', async () => {
  const get = async (path: string) => {
    const { status, headers } = await fetch(`${daemon.url}${path}`, { redirect: 'manual' });
    return [status, headers.get('location')];
  };
  assert.deepEqual(await get('/default/default/'), [308, '/default/default']);
  assert.deepEqual(await get('/default/default/events/?key=a%2Fb'), [308, '/default/default/events?key=a%2Fb']);
  assert.deepEqual(await get('/default/default/agents/triage//'), [308, '/default/default/agents/triage']);
  assert.deepEqual(await get('/signin/?next=%2Fdevice'), [308, '/signin?next=%2Fdevice']);
  assert.deepEqual(await get('/device/'), [308, '/device']);
  // What is no page stays none, and nobody is sent elsewhere.
  for (const path of ['/default/default/nothing/', '/default/', '//evil.example/x/', '/api/v1/me/'])
    assert.equal((await get(path))[0], 404, path);
});

test('what comes after signing in with a token is a page of this service, too', async () => {
  for (const next of [
    '/api/v1/me',
    '/signin',
    '/signin?next=/x',
    '//evil.example',
    'https://evil.example',
    '/docs',
    '',
  ]) {
    const { status, headers } = await fetch(`${daemon.url}/signin?next=${encodeURIComponent(next)}`, {
      redirect: 'manual',
    });
    assert.deepEqual([status, headers.get('location')], [303, '/signin'], next);
  }
  const context = await browser.open();
  const page = await context.newPage();
  await page.goto(`${daemon.url}/signin?next=${encodeURIComponent('/api/v1/openapi.json')}`);
  await at(page, 'signin-token').fill(daemon.token);
  await at(page, 'signin-submit').click();
  await at(page, 'page-projects').waitFor();
  const wanted = '/default/default/events?key=a%2Fb&status=routed';
  await page.goto(`${daemon.url}/signin?next=${encodeURIComponent(wanted)}`);
  await at(page, 'signin-token').fill(daemon.token);
  await at(page, 'signin-submit').click();
  await page.waitForURL(`${daemon.url}${wanted}`);
  await context.close();
});

test('a part that a page does not have is no part: the first is shown', async () => {
  const context = await browser.open();
  const { page } = await signInOn(context, daemon, `${root}/agents/triage?tab=nothing`, {});
  await page.locator('[data-testid="tab-spec"][aria-pressed="true"]').waitFor();
  const { body } = await daemon.api('GET', 'P/reconciles');
  await page.goto(`${daemon.url}${root}/reconciles/${String(body['items']?.[0]?.['id'])}?tab=nothing`);
  await page.locator('[data-testid="tab-changes"][aria-pressed="true"]').waitFor();
  await context.close();
});

const drawn = (page: Page, selector: string, property: string): Promise<string[]> =>
  page.evaluate(
    `[...document.querySelectorAll(${JSON.stringify(selector)})].map((one) => getComputedStyle(one)[${JSON.stringify(property)}])`,
  );

test('in colours of the reader’s own it is seen which part is shown, and what the colours of a chart stand for', async () => {
  const context = await browser.open();
  const { page } = await signInOn(context, daemon, `${root}/agents/triage`, {});
  await page.emulateMedia({ forcedColors: 'active' });
  await at(page, 'tab-spec').waitFor();
  const tabs = '.tabs button';
  const [shown] = await drawn(page, `${tabs}[aria-pressed="true"]`, 'borderTopWidth');
  const others = await drawn(page, `${tabs}[aria-pressed="false"]`, 'borderTopWidth');
  assert.ok(others.length > 0 && others.every((width) => parseFloat(width) < parseFloat(shown ?? '0')), `${shown}`);
  await page.goto(`${daemon.url}${root}`);
  await page.locator('.key').first().waitFor();
  const keys = await drawn(page, '.key', 'backgroundColor');
  assert.equal(new Set(keys).size, keys.length, String(keys));
  await context.close();
});
