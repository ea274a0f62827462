// The shell of the pages where who is signed in could not be read at first: it says so, and goes on by itself.

import { after, before, test } from 'node:test';
import { startBrowser, type TestBrowser } from '../../base/testkit/browser.ts';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { at, root, signInOn } from './web-testkit.ts';

let daemon: TestDaemon;
let browser: TestBrowser;

before(async () => {
  daemon = await startTestDaemon({ config: { roles: ['api'] } });
  browser = await startBrowser();
});
after(async () => {
  await browser.close();
  await daemon.stop();
});

test('a page that the service did not answer at its first look comes by itself when it does', async () => {
  const context = await browser.open();
  const { page } = await signInOn(context, daemon, `${root}/doctor`, {});
  await at(page, 'page-doctor').waitFor();
  for (const [path, read, testId] of [
    ['/agents', '**/api/v1/me', 'page-agents'],
    ['', '**/default/overview', 'page-overview'],
  ] as const) {
    for (const isReached of [false, true]) {
      const body = { status: 503, title: 'x', code: 'unavailable', detail: 'Away.', requestId: 'r-1' };
      await page.route(read, (route) =>
        isReached
          ? route.fulfill({ status: 503, contentType: 'application/problem+json', body: JSON.stringify(body) })
          : route.abort('connectionrefused'),
      );
      await page.goto(`${daemon.url}${root}${path}`);
      await at(page, 'failure').first().waitFor();
      await page.unroute(read);
      await at(page, testId).waitFor();
      await at(page, 'failure').first().waitFor({ state: 'detached' });
    }
  }
  await context.close();
});

test('the ways to sign in come also where they could not be read at first, and that is said', async () => {
  const context = await browser.open();
  const page = await context.newPage();
  const body = { status: 503, title: 'x', code: 'unavailable', detail: 'Away.', requestId: 'r-1' };
  const methods = [{ kind: 'oidc', name: 'acme', label: 'Acme', url: '/signin/acme' }];
  for (const isReached of [false, true]) {
    await page.route('**/api/v1/auth/methods', (route) =>
      isReached
        ? route.fulfill({ status: 503, contentType: 'application/problem+json', body: JSON.stringify(body) })
        : route.abort('connectionrefused'),
    );
    await page.goto(`${daemon.url}/signin`);
    await at(page, 'failure').waitFor();
    await page.unroute('**/api/v1/auth/methods');
    await page.route('**/api/v1/auth/methods', (route) => route.fulfill({ json: { methods, tokens: true } }));
    await at(page, 'signin-acme').waitFor();
    await at(page, 'failure').waitFor({ state: 'detached' });
    await page.unroute('**/api/v1/auth/methods');
  }
  await context.close();
});
