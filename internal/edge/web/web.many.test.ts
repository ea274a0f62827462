// Pages of a fleet, in a real browser: what is more than a page holds at once is said, and is there when it is asked for.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Page, startBrowser, type TestBrowser } from '../../base/testkit/browser.ts';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { agentText, at, root, signInOn } from './web-testkit.ts';

const count = 250;
let daemon: TestDaemon;
let browser: TestBrowser;
let run = '';

before(async () => {
  daemon = await startTestDaemon({ config: { roles: ['api'] } });
  browser = await startBrowser();
  const month = ((new Date().getUTCMonth() + 6) % 12) + 1;
  const files = Array.from({ length: count }, (_, n) => {
    // The first two hundred do not fire in the next hours, whatever the day.
    const cron = n < 200 ? `0 0 1 ${month} *` : `${n % 60} * * * *`;
    const beat = `triggers: [{ kind: heartbeat, cron: '${cron}', message: m, routing: { kind: spawn } }]\n`;
    const name = `agent-${String(n).padStart(3, '0')}`;
    return { path: `.svc/agents/${name}.yaml`, content: agentText(name, 'Sort.', beat) };
  });
  const { status, body } = await daemon.api('POST', 'P/apply', { files });
  assert.equal(status, 200);
  run = String(body['applyId']);
});
after(async () => {
  await browser.close();
  await daemon.stop();
});

const signedIn = async (path: string) => {
  const context = await browser.open();
  return { context, ...(await signInOn(context, daemon, `${root}/${path}`, {})) };
};
const nodes = async (page: Page): Promise<number> =>
  Number(await page.evaluate('document.querySelectorAll("*").length'));

test('a run of a fleet shows its first hundred changes, and the others when they are asked for', async () => {
  const { page, context } = await signedIn(`reconciles/${run}`);
  await at(page, 'run-change').first().waitFor();
  assert.equal(await at(page, 'run-change').count(), 100);
  assert.ok((await nodes(page)) < 2_000, `${await nodes(page)} nodes`);
  // The environment that they share is one more.
  assert.equal(await at(page, 'page-older').innerText(), `${count + 1 - 100} more`);
  await at(page, 'page-older').click();
  await at(page, 'page-older')
    .filter({ hasText: `${count + 1 - 200} more` })
    .waitFor();
  await at(page, 'page-older').focus();
  await page.keyboard.press('Enter');
  await at(page, 'page-older').waitFor({ state: 'detached' });
  assert.equal(await at(page, 'run-change').count(), count + 1);
  assert.notEqual(await page.evaluate('document.activeElement.tagName'), 'BODY');
  await context.close();
});

test('the picture of schedules draws those that fire, wherever they stand, and says of how many', async () => {
  const { page, context } = await signedIn('schedules');
  const lanes = page.locator('svg.timeline .lane');
  await lanes.filter({ hasText: 'agent-200#0' }).waitFor();
  assert.equal(await lanes.count(), 40);
  await page
    .getByText('Of the 50 schedules that fire then, the first 40 are drawn; the list below has all of them.')
    .waitFor();
  await context.close();
});

test('of many triggers on an event those that matched stand first, and all of an endpoint are there in parts', async () => {
  const { api } = daemon;
  const hook = (n: number): string =>
    `- { event: webhook.received, endpoint: all, auth: { kind: none }, where: { $.n: ${n} }, routing: { kind: spawn } }\n`;
  const triggers = `triggers:\n${Array.from({ length: 150 }, (_, n) => hook(n)).join('')}`;
  const files = [{ path: '.svc/agents/many.yaml', content: agentText('many', 'Sort.', triggers) }];
  assert.equal((await api('POST', 'P/apply', { files, prune: false })).status, 200);
  const { body } = await api('GET', 'P/endpoints/all');
  const answer = await fetch(String(body['ingestUrl']), { method: 'POST', body: '{"n":149}' });
  const { eventRecordId } = (await answer.json()) as { eventRecordId: string };
  const { page, context } = await signedIn(`events/${eventRecordId}`);
  await at(page, 'decision').first().waitFor();
  assert.equal(await at(page, 'decision').first().getAttribute('data-matched'), 'true');
  assert.match(await at(page, 'decision').first().innerText(), /^many#149 /);
  assert.equal(await at(page, 'decision').count(), 100);
  assert.equal(await at(page, 'page-older').innerText(), '50 more');
  await page.goto(`${daemon.url}${root}/endpoints/all`);
  await page.getByRole('heading', { name: 'Triggers 150' }).waitFor();
  assert.equal(await page.locator('tbody tr').count(), 100);
  await at(page, 'page-older').click();
  await at(page, 'page-older').waitFor({ state: 'detached' });
  assert.equal(await page.locator('tbody tr').count(), 150);
  await context.close();
});

test('more connections, receivers or triggers of an agent than are read at once are there when they are asked for, or said to be', async () => {
  const { api } = daemon;
  const names = Array.from({ length: 201 }, (_, n) => `n-${String(n).padStart(3, '0')}`);
  const credentials = { webhookSecret: 'a-secret-of-a-hook' };
  for (const name of names) {
    const connection = { provider: 'codehost', name, credentials };
    const receiver = { name, kind: 'webhook', url: 'https://example.org/hook' };
    const made = await Promise.all([api('POST', 'P/connections', connection), api('POST', 'P/receivers', receiver)]);
    assert.deepEqual(
      made.map(({ status }) => status),
      [201, 201],
    );
  }
  const { page, context } = await signedIn('connections');
  const last = names.at(-1) ?? '';
  for (const [path, kind] of [
    ['connections', 'connection'],
    ['settings', 'receiver'],
  ] as const) {
    await page.goto(`${daemon.url}${root}/${path}`);
    await at(page, `row-${kind}-${names[0]}`).waitFor();
    assert.equal(await at(page, `row-${kind}-${last}`).count(), 0);
    await at(page, 'page-older').click();
    await at(page, `row-${kind}-${last}`).waitFor();
    assert.equal(await at(page, 'page-older').count(), 0);
    assert.notEqual(await page.evaluate('document.activeElement.tagName'), 'BODY');
  }
  const hook = '- { event: webhook.received, endpoint: all, auth: { kind: none }, routing: { kind: spawn } }\n';
  const content = agentText('woken', 'Sort.', `triggers:\n${hook.repeat(201)}`);
  const files = [{ path: '.svc/agents/woken.yaml', content }];
  assert.equal((await api('POST', 'P/apply', { files, prune: false })).status, 200);
  await page.goto(`${daemon.url}${root}/agents/woken?tab=world`);
  await page.getByText('There are more:').waitFor();
  await context.close();
});
