// Names as long as they may be: what stands beside them is still seen, on a wide screen and on a narrow one.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type Page, startBrowser, type TestBrowser } from '../../base/testkit/browser.ts';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { agentText, at, root, signInOn, until } from './web-testkit.ts';

const long = 'n'.repeat(128);
let daemon: TestDaemon;
let browser: TestBrowser;
let dir: string;

before(async () => {
  dir = mkdtempSync(join(tmpdir(), 'svc-long-'));
  daemon = await startTestDaemon({ config: { roles: ['api', 'sync'] } });
  browser = await startBrowser();
  const more = `triggers: [{ kind: heartbeat, cron: '0 14 * * *', message: Digest., routing: { kind: spawn } }, { event: webhook.received, endpoint: ${long}, auth: { kind: none }, routing: { kind: spawn } }]\n`;
  const text = agentText(long, 'Sort what comes in by what it asks for.'.repeat(20), `${more}env: { ${long}: on }\n`);
  const files = [{ path: `.svc/agents/${long}.yaml`, content: text }];
  assert.equal((await daemon.api('POST', 'P/apply', { files })).status, 200);
  assert.equal((await daemon.api('POST', 'P/repositories', { name: long, path: dir })).status, 201);
  await until('a run that failed', async () => {
    const { body } = await daemon.api('GET', 'P/reconciles?status=failed');
    return body['items']?.[0];
  });
});
after(async () => {
  await browser.close();
  await daemon.stop();
  rmSync(dir, { recursive: true, force: true });
});

/** How far right something ends, of what a reader sees without scrolling sideways. */
const rightOf = async (page: Page, selector: string): Promise<number> => {
  const box = await page.locator(selector).first().boundingBox();
  return box === null ? assert.fail(`${selector} is not there`) : box.x + box.width;
};

test('the first page keeps what changed and what comes next within itself', async () => {
  const context = await browser.open();
  const { page } = await signInOn(context, daemon, root, {});
  await at(page, 'tick').waitFor();
  for (const width of [1280, 360]) {
    await page.setViewportSize({ width, height: 720 });
    assert.equal(await page.evaluate('document.documentElement.scrollWidth'), width);
    for (const column of ['#changed', '#next']) {
      const section = await rightOf(page, `section:has(> ${column})`);
      for (const part of column === '#next' ? ['a', 'code'] : ['td a', '.status']) {
        const right = await rightOf(page, `section:has(> ${column}) ${column === '#next' ? 'li' : 'tbody'} ${part}`);
        assert.ok(right <= section + 1, `${part} of ${column} ends at ${right} of ${section}, ${width} wide`);
      }
    }
  }
  await context.close();
});

test('what a commit was set aside for is read on the first page without scrolling sideways', async () => {
  const projectId = String((await daemon.api('GET', 'P')).body['id']);
  await daemon.ctx.db.query(
    `insert into svc.reconciles (id, project_id, repository_name, commit, reason, status, started_at, finished_at, inputs, detail)
     values (gen_random_uuid(), $1, 'fleet', 'folder:' || repeat('9f27ebc0', 8), 'watch', 'quarantined', now(), now(), '{}',
       'commit folder:' || repeat('9f27ebc0', 8) || ' was left by a rollback')`,
    [projectId],
  );
  const context = await browser.open();
  const { page } = await signInOn(context, daemon, root, {});
  const region = page.locator('section:has(> #changed) .scroll');
  await region.getByText('quarantined').waitFor();
  await page.setViewportSize({ width: 1440, height: 900 });
  const over = await region.evaluate((one) => one.scrollWidth - one.clientWidth);
  assert.ok(over <= 0, `${over} too wide`);
  await context.close();
});

test('an agent’s values are read in lines, however long the names of its file and its keys are', async () => {
  const context = await browser.open();
  const { page } = await signInOn(context, daemon, `${root}/agents/${long}`, {});
  const value = at(page, 'value-systemPrompt').locator('.value');
  await value.waitFor();
  for (const width of [1280, 360]) {
    await page.setViewportSize({ width, height: 720 });
    const box = (await value.boundingBox()) ?? assert.fail();
    assert.ok(box.width >= Math.min(320, width / 2), `${box.width} of ${width}`);
  }
  await context.close();
});

test('an agent’s paths are not broken within a word for the sake of its long values', async () => {
  const context = await browser.open();
  const { page } = await signInOn(context, daemon, `${root}/agents/${long}`, {});
  for (const width of [1440, 1024, 768]) {
    await page.setViewportSize({ width, height: 900 });
    for (const path of ['systemPrompt', 'environment']) {
      const code = at(page, `value-${path}`).locator('code').first();
      await code.waitFor();
      assert.equal(await code.evaluate((one) => one.getClientRects().length), 1, `${path}, ${width} wide`);
    }
    assert.equal(await page.evaluate('document.documentElement.scrollWidth'), width);
  }
  await context.close();
});

test('an event says by which endpoint it came within the page', async () => {
  const { body: endpoint } = await daemon.api('GET', `P/endpoints/${long}`);
  const posted = await fetch(String(endpoint['ingestUrl']), { method: 'POST', body: '{}' });
  const { eventRecordId } = (await posted.json()) as { eventRecordId: string };
  const context = await browser.open();
  const { page } = await signInOn(context, daemon, `${root}/events/${eventRecordId}`, {});
  await page.locator('.of a').waitFor();
  for (const width of [800, 360]) {
    await page.setViewportSize({ width, height: 720 });
    assert.equal(await page.evaluate('document.documentElement.scrollWidth'), width);
  }
  await context.close();
});

test('a long name in a row stays in its column, and what stands beside it is read', async () => {
  const { api, ctx } = daemon;
  const made = await api('POST', `P/agents/${long}/sessions`, { message: 'hello' });
  await ctx.db.query(`update svc.sessions set display_title = $2 where id = $1::uuid`, [
    String(made.body['id']),
    'W'.repeat(200),
  ]);
  const context = await browser.open();
  const { page } = await signInOn(context, daemon, `${root}/sessions`, {});
  for (const [path, row] of [
    ['sessions', '[data-testid^="row-session-"]'],
    ['reconciles', '[data-testid^="row-reconcile-"]'],
    ['repositories', '[data-testid^="row-repository-"]'],
    [`endpoints/${long}`, 'table tbody tr'],
  ] as const) {
    await page.goto(`${daemon.url}${root}/${path}`);
    const [cell, link] = [page.locator(`${row} td`).first(), page.locator(`${row} td a`).first()];
    await link.waitFor();
    for (const width of [1440, 360]) {
      await page.setViewportSize({ width, height: 900 });
      const [within, box] = [await cell.boundingBox(), await link.boundingBox()];
      assert.ok(within !== null && box !== null);
      const [end, right] = [within.x + within.width, box.x + box.width];
      assert.ok(right <= end + 1, `${path}, ${width} wide: a link ends at ${right}, its cell at ${end}`);
      // Its text, too.
      assert.equal(await link.evaluate((one) => one.scrollWidth > one.clientWidth + 1), false, `${path} ${width}`);
    }
  }
  await context.close();
});
