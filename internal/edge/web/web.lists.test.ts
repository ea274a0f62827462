// Lists of the console that are longer than a page, in a real browser: what changes in them while they are read, where the
// focus is after a step, and that nothing is out of reach.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { axeViolations, type BrowserContext, startBrowser, type TestBrowser } from '../../base/testkit/browser.ts';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { agentText, at, signInOn } from './web-testkit.ts';

let daemon: TestDaemon;
let browser: TestBrowser;
const root = '/default/default';
const agents = 230;
const nameOf = (n: number): string => `agent-${String(n).padStart(3, '0')}`;

const apply = async (names: readonly string[], prune: boolean): Promise<void> => {
  const files = names.map((name) => ({ path: `.svc/agents/${name}.yaml`, content: agentText(name, 'Work.') }));
  assert.equal((await daemon.api('POST', 'P/apply', { files, prune })).status, 200);
};
const signedIn = async (path: string) => {
  const context: BrowserContext = await browser.open();
  const { page } = await signInOn(context, daemon, `${root}/${path}`, {});
  return { context, page };
};

before(async () => {
  daemon = await startTestDaemon({ config: { roles: ['api', 'sync', 'route'] } });
  browser = await startBrowser();
  await apply(
    Array.from({ length: agents }, (_, n) => nameOf(n)),
    false,
  );
});
after(async () => {
  await browser.close();
  await daemon.stop();
});

test('a row that has gone is said to be gone where it stands, and what moves up for it is not new', async () => {
  const { page, context } = await signedIn('agents');
  await at(page, 'total').filter({ hasText: '230 in all' }).waitFor();
  await page.locator('[data-testid="live-state"][data-state="live"]').waitFor();
  const row = at(page, `row-agent-${nameOf(3)}`);
  assert.equal((await daemon.api('DELETE', `P/agents/${nameOf(3)}`)).status, 204);
  await row.filter({ hasText: `${nameOf(3)} ○ gone` }).waitFor();
  assert.equal(
    await at(page, `row-agent-${nameOf(4)}`)
      .getByText('gone')
      .count(),
    0,
  );
  assert.equal(await at(page, 'new-rows').innerText(), '1 gone');
  assert.deepEqual(await axeViolations(page), []);
  await at(page, 'new-rows').click();
  await row.waitFor({ state: 'detached' });
  await at(page, `row-agent-${nameOf(50)}`).waitFor();
  await at(page, 'total').filter({ hasText: '229 in all' }).waitFor();
  await apply([nameOf(3)], false);
  await at(page, 'new-rows')
    .filter({ hasText: /^1 new$/ })
    .waitFor();
  await context.close();
});

test('after a step to another page, and out of the filters, the focus is at the head of what came', async () => {
  const { page, context } = await signedIn('agents');
  const focused = () => page.evaluate('document.activeElement.tagName');
  for (const [id, first] of [
    ['page-older', 50],
    ['page-older', 100],
    ['page-newer', 50],
  ] as const) {
    await at(page, id).focus();
    await page.keyboard.press('Enter');
    await page
      .locator('tbody tr')
      .first()
      .filter({ hasText: nameOf(first) })
      .waitFor();
    assert.equal(await focused(), 'H1', `after ${id}`);
  }
  await page.goto(`${daemon.url}${root}/events?key=nothing.such`);
  await page.getByRole('button', { name: 'Without filters' }).focus();
  await page.keyboard.press('Enter');
  await page.locator('tbody tr').first().waitFor();
  assert.equal(await focused(), 'H1');
  await context.close();
});

test('who goes back to a list is at the row that they left it by', async () => {
  const { page, context } = await signedIn('agents');
  await at(page, 'page-older').click();
  const row = at(page, `row-agent-${nameOf(90)}`);
  await row.locator('a').first().click();
  await at(page, 'page-agent').waitFor();
  assert.equal(await page.evaluate('scrollY'), 0);
  await page.goBack();
  const isThere = async (): Promise<boolean> =>
    (await row.count()) > 0 &&
    (await row.evaluate((one) => {
      const { top, bottom } = one.getBoundingClientRect();
      const { activeElement, defaultView } = one.ownerDocument;
      return one === activeElement && top >= 0 && bottom <= (defaultView?.innerHeight ?? 0);
    }));
  for (const end = performance.now() + 10_000; !(await isThere()); ) assert.ok(performance.now() < end, 'it is there');
  // On from there, and no step of one's own is taken back.
  await page.keyboard.press('j');
  assert.equal(await page.evaluate('document.activeElement.dataset.testid'), `row-agent-${nameOf(91)}`);
  await page.keyboard.press('Enter');
  await page.waitForURL(new RegExp(`/agents/${nameOf(91)}$`));
  await page.locator('nav a', { hasText: 'Agents' }).click();
  await at(page, `row-agent-${nameOf(0)}`).waitFor();
  assert.equal(await page.evaluate('document.activeElement.id'), 'main');
  await context.close();
});

test('a name is found however many there are, and only what is nowhere is said to be', async () => {
  const { page, context } = await signedIn('events');
  await at(page, 'page-events').waitFor();
  await page.keyboard.press('Control+k');
  await at(page, 'palette-input').fill(nameOf(agents - 1));
  await page.getByRole('option', { name: `agent ${nameOf(agents - 1)}` }).waitFor();
  await page.keyboard.press('Enter');
  await at(page, 'page-agent').waitFor();
  await page.keyboard.press('Control+k');
  await at(page, 'palette-input').fill('nowhere');
  await at(page, 'palette').getByText('Nothing is called so.').waitFor();
  await context.close();
});

test('tokens beyond the first two hundred are read on for, and those of oneself are no others', async () => {
  const made = 205;
  for (let n = 0; n < made; n += 1)
    assert.equal((await daemon.api('POST', '/api/v1/tokens', { name: `t${n}` })).status, 201);
  const { page, context } = await signedIn('tokens');
  await page.getByRole('heading', { name: 'Your own, the latest 200' }).waitFor();
  const own = page.getByRole('region', { name: 'Your own' });
  assert.equal(await own.getByRole('cell', { name: 't0', exact: true }).count(), 0);
  // The organization's hold one's own too: of others there is none among the latest.
  await page.getByRole('heading', { name: 'Others in the organization default, the latest 0' }).waitFor();
  await at(page, 'page-older').first().click();
  await own.getByRole('cell', { name: 't0', exact: true }).waitFor();
  await page.getByRole('heading', { name: /^Your own \d+$/ }).waitFor();
  assert.deepEqual(await axeViolations(page), []);
  await context.close();
});
