// A transcript that is longer than what is read of it at once, in a real browser: what is earlier is nothing new, and stands
// before what was being read.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type BrowserContext, startBrowser, type TestBrowser } from '../../base/testkit/browser.ts';
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

/** A session in which so much has been said: `word 1`, `word 2`, … */
async function talked(count: number): Promise<string> {
  const made = await daemon.api('POST', 'P/agents/triage/sessions', { message: 'word 0' });
  const id = String(made.body['id']);
  await daemon.ctx.db.query(
    `insert into svc.messages (session_id, role, kind, text, at)
     select $1::uuid, 'system', 'notice', 'word ' || n, now() from generate_series(1, $2::int) n`,
    [id, count],
  );
  return id;
}

test('what is read of earlier is not counted as new, and what was being read stays in sight', async () => {
  const id = await talked(150);
  const context: BrowserContext = await browser.open();
  const { page } = await signInOn(context, daemon, `${root}/sessions/${id}`, {});
  const log = at(page, 'transcript');
  const word = (n: number) => log.getByText(`word ${n}`, { exact: true });
  await word(150).waitFor();
  assert.equal(await word(50).count(), 0);
  await at(page, 'page-older').click();
  await word(50).waitFor();
  assert.equal(await at(page, 'jump-end').innerText(), 'To the end');
  // Where the reader was: what stood first stands behind what is before it.
  assert.equal(await word(51).count(), 1);
  // What is said to who listens comes every two seconds.
  await page.waitForTimeout(2_500);
  assert.equal(await page.locator('.transcript .unseen').innerText(), '');
  for (const n of [151, 152])
    assert.ok((await daemon.api('POST', `P/sessions/${id}/messages`, { text: `word ${n}` })).status < 300);
  await at(page, 'jump-end')
    .filter({ hasText: /^2 new$/ })
    .waitFor();
  await page
    .locator('.transcript .unseen')
    .filter({ hasText: /^[12] new messages?$/ })
    .waitFor();
  await at(page, 'jump-end').click();
  await word(152).waitFor();
  await context.close();
});

test('who reads by keys stays in the transcript, whichever of its buttons goes with what it brings', async () => {
  const id = await talked(150);
  const context = await browser.open();
  const { page } = await signInOn(context, daemon, `${root}/sessions/${id}`, {});
  const focused = (): Promise<string> =>
    page.evaluate('document.activeElement.dataset.testid ?? document.activeElement.tagName');
  const log = at(page, 'transcript');
  await log.getByText('word 150', { exact: true }).waitFor();
  await at(page, 'page-older').focus();
  await page.keyboard.press('Enter');
  await log.getByText('word 50', { exact: true }).waitFor();
  assert.equal(await focused(), 'transcript');
  await at(page, 'jump-end').focus();
  await page.keyboard.press('Enter');
  await at(page, 'jump-end').waitFor({ state: 'detached' });
  assert.equal(await focused(), 'transcript');
  await at(page, 'say').fill('and this?');
  await at(page, 'say-send').focus();
  await page.keyboard.press('Enter');
  await log.getByText('and this?', { exact: true }).waitFor();
  assert.equal(await focused(), 'say');
  await context.close();
});

test('the line that stands for a long call ends between characters', async () => {
  const id = await talked(1);
  await daemon.ctx.db.query(
    `insert into svc.messages (session_id, role, kind, text, at) values ($1::uuid, 'tool', 'tool_call', $2::text, now())`,
    [id, `${'x'.repeat(159)}${'😀'.repeat(20)}`],
  );
  const context = await browser.open();
  const { page } = await signInOn(context, daemon, `${root}/sessions/${id}`, {});
  const line = at(page, 'transcript').locator('summary', { hasText: 'xxx' });
  await line.waitFor();
  assert.equal(await line.evaluate((one) => one.textContent), `${'x'.repeat(159)}😀…`);
  await context.close();
});

test('a call that was told again when it was known what it is for stands there once, from when it was begun', async () => {
  const id = await talked(1);
  await daemon.ctx.db.query(
    `insert into svc.messages (session_id, role, kind, text, detail, at)
     select $1::uuid, 'tool', kind, text, '{"callId":"a"}', now() + make_interval(secs => after)
       from (values ('tool_call', 'Terminal', 0), ('tool_call', 'npm test', 2), ('tool_result', 'ok', 5)) v (kind, text, after)`,
    [id],
  );
  const context: BrowserContext = await browser.open();
  const { page } = await signInOn(context, daemon, `${root}/sessions/${id}`, {});
  const log = at(page, 'transcript');
  const line = log.locator('summary', { hasText: 'npm test' });
  await line.waitFor();
  assert.match(await line.innerText(), /^npm test 5\ss\s.*ok$/u);
  assert.equal(await log.getByText('Terminal', { exact: true }).count(), 0);
  await context.close();
});

test('what is said to a session that waits stands in its transcript', async () => {
  const id = await talked(1);
  const context = await browser.open();
  const { page } = await signInOn(context, daemon, `${root}/sessions/${id}`, {});
  await page.locator('[data-testid="live-state"][data-state="live"]').waitFor();
  await at(page, 'transcript').getByText('word 1', { exact: true }).waitFor();
  await at(page, 'say').fill('and what of this?');
  await page.keyboard.press('Control+Enter');
  await at(page, 'transcript').getByText('and what of this?', { exact: true }).waitFor();
  await context.close();
});

test('a file that is not given says why, by which request, and what to do', async () => {
  const id = await talked(1);
  const context = await browser.open();
  const { page } = await signInOn(context, daemon, `${root}/sessions/${id}`, {});
  await page.route('**/files?limit=200', (route) =>
    route.fulfill({
      json: { items: [{ path: 'report.txt', size: 3, sha256: null, refused: null }], nextCursor: null },
    }),
  );
  await page.route('**/files/report.txt', (route) =>
    route.fulfill({
      status: 404,
      json: { status: 404, code: 'file-not-found', detail: 'There is no such file.', requestId: 'r-7' },
    }),
  );
  await page.reload();
  await page.locator('summary', { hasText: 'Files 1' }).click();
  await page.getByRole('button', { name: 'report.txt' }).click();
  const told = await at(page, 'failure').innerText();
  assert.match(told, /^file-not-found There is no such file\.\s+It may have been deleted meanwhile.* Request r-7/);
  await context.close();
});

test('what is read of earlier stands above what was being read, which stays where it is', async () => {
  const id = await talked(400);
  const context = await browser.open();
  const { page } = await signInOn(context, daemon, `${root}/sessions/${id}`, {});
  const log = at(page, 'transcript');
  const word = (n: number) => log.getByText(`word ${n}`, { exact: true });
  await word(400).waitFor();
  // What is read first, then a window that moves over what is known already.
  for (const [first, last] of [
    [301, 201],
    [201, 101],
  ] as const) {
    await log.evaluate((box) => box.scrollTo(0, 0));
    const top = async (): Promise<number> => {
      const [box, line] = [await log.boundingBox(), await word(first).boundingBox()];
      return box === null || line === null ? Number.NaN : line.y - box.y;
    };
    const before = await top();
    await at(page, 'page-older').click();
    await word(last).waitFor({ state: 'attached' });
    // The button stands above the first of them, no more, or no less.
    assert.ok(Math.abs((await top()) - before) < 60, `word ${first} was at ${before}, and is at ${await top()}`);
  }
  await context.close();
});
