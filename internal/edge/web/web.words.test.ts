// What pages say is so, in a real browser: of times, of numbers, of what git has, and of how much of it is shown.

import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { startBrowser, type TestBrowser } from '../../base/testkit/browser.ts';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { agentText, at, root, signInOn, until } from './web-testkit.ts';

let daemon: TestDaemon;
let browser: TestBrowser;
let dir: string;

const hook = (endpoint: string, auth: string): string =>
  `- { event: webhook.received, endpoint: ${endpoint}, auth: ${auth}, where: { $.id: 12345678901234567890 }, routing: { kind: spawn } }\n`;

before(async () => {
  dir = mkdtempSync(join(tmpdir(), 'svc-words-'));
  daemon = await startTestDaemon({ config: { roles: ['api', 'sync', 'route'] } });
  browser = await startBrowser();
  const { api } = daemon;
  assert.ok((await api('PUT', 'P/secrets/hook', { value: 'sesame' })).status < 300);
  const triggers = `triggers:\n${hook('reports', '{ kind: none }')}${hook('signed', '{ kind: hmac_sha256, secretRef: hook }')}${hook('held', '{ kind: bearer_token, secretRef: hook }')}`;
  const files = [{ path: '.svc/agents/triage.yaml', content: agentText('triage', 'Sort.', triggers) }];
  assert.equal((await api('POST', 'P/apply', { files })).status, 200);
});
after(async () => {
  await browser.close();
  await daemon.stop();
  rmSync(dir, { recursive: true, force: true });
});

const signedIn = async (path: string) => {
  const context = await browser.open();
  return { context, ...(await signInOn(context, daemon, `${root}/${path}`, {})) };
};
async function post(endpoint: string, body: string, headers = {}): Promise<string> {
  const { body: found } = await daemon.api('GET', `P/endpoints/${endpoint}`);
  const answer = await fetch(String(found['ingestUrl']), { method: 'POST', body, headers });
  assert.equal(answer.status, 202);
  return ((await answer.json()) as { eventRecordId: string }).eventRecordId;
}

test('a number that a double does not hold is shown, found and copied with its digits', async () => {
  const body = '{"id":12345678901234567890,"price":10.50,"count":3}';
  const id = await post('reports', body);
  const { page, context } = await signedIn(`events/${id}`);
  await at(page, 'clause').first().waitFor();
  assert.match(await at(page, 'payload').innerText(), /"id": 12345678901234567890,\s+"price": 10\.50,\s+"count": 3/);
  assert.match(
    await at(page, 'clause').first().innerText(),
    /^\$\.id is "12345678901234567890" found 12345678901234567890/,
  );
  const where = await at(page, 'copy-where').getAttribute('title');
  assert.match(where ?? '', /"\$\.id": 12345678901234567890\n {2}"\$\.price": 10\.50\n {2}"\$\.count": 3/);
  assert.match((await at(page, 'copy-curl').getAttribute('title')) ?? '', /"id":12345678901234567890,"price":10\.50/);
  await context.close();
});

test('the command that posts an event again proves it as its endpoint asks', async () => {
  const id = await post('held', '{"id":1}', { authorization: 'Bearer sesame' });
  const { page, context } = await signedIn(`events/${id}`);
  const curl = at(page, 'copy-curl');
  await page.locator('[data-testid="copy-curl"][title*="webhook-endpoints"]').waitFor();
  assert.match((await curl.getAttribute('title')) ?? '', / -H "authorization: Bearer \$SECRET" --data '\{"id":1\}'/);
  // Without its body there is nothing to post again, and nothing to match.
  await daemon.ctx.db.query('delete from svc.event_bodies where event_id = $1::uuid', [id]);
  await page.reload();
  await page.getByText('Retention has taken the body.').waitFor();
  assert.equal(await curl.count(), 0);
  assert.equal(await at(page, 'replay').count(), 0);
  await context.close();
});

test('what is one day away and more is told in hours, until it is two', async () => {
  const id = await post('reports', '{"id":2}');
  const { page, context } = await signedIn('events');
  const time = at(page, `row-event-${id}`).locator('time');
  for (const [hours, told] of [
    [23, '23 hours ago'],
    [47, '47 hours ago'],
    [49, '2 days ago'],
  ] as const) {
    await daemon.ctx.db.query(
      `update svc.events set received_at = now() - make_interval(hours => $2::int, mins => 1) where id = $1::uuid`,
      [id, hours],
    );
    await page.reload();
    await time.waitFor();
    assert.equal(await time.innerText(), told);
  }
  await context.close();
});

test('of a repository that cannot be read it is not said that git has what runs', async () => {
  const fleet = join(dir, 'fleet');
  mkdirSync(join(fleet, '.svc/agents'), { recursive: true });
  writeFileSync(join(fleet, '.svc/agents/review.yaml'), agentText('review', 'Review.'));
  const { api } = daemon;
  assert.equal((await api('POST', 'P/repositories', { name: 'fleet', path: fleet })).status, 201);
  const is = (what: string, look: (one: { [name: string]: unknown }) => boolean) =>
    until(what, async () => {
      const { body } = await api('GET', 'P/repositories/fleet');
      return look(body as unknown as { [name: string]: unknown }) ? true : undefined;
    });
  await is('what was applied', ({ appliedCommit }) => appliedCommit !== null);
  const { page, context } = await signedIn('repositories/fleet');
  await at(page, 'in-sync').filter({ hasText: 'What git has is what runs.' }).waitFor();
  rmSync(fleet, { recursive: true });
  await api('POST', 'P/repositories/fleet/sync');
  await is('what is wrong', ({ condition }) => condition !== null);
  await page.reload();
  await at(page, 'in-sync').filter({ hasText: 'What git had when it was last read is what runs.' }).waitFor();
  const asleep = { name: 'asleep', path: fleet, suspended: true };
  assert.equal((await api('POST', 'P/repositories', asleep)).status, 201);
  await page.goto(`${daemon.url}${root}/repositories/asleep`);
  await at(page, 'in-sync').filter({ hasText: 'What git has was not read yet.' }).waitFor();
  await context.close();
});

test('a page has the title of what it shows, the list of projects too', async () => {
  const { page, context } = await signedIn('events');
  await at(page, 'page-events').waitFor();
  assert.equal(await page.title(), 'Events · default · svc');
  await page.goto(`${daemon.url}/`);
  await at(page, 'page-projects').waitFor();
  assert.equal(await page.title(), 'Projects · svc');
  await context.close();
});

test('a trigger is explained by the latest events of its own endpoint, however many came in by others', async () => {
  const id = await post('reports', '{"id":7}');
  for (let n = 0; n < 6; n += 1) await post('held', '{"id":8}', { authorization: 'Bearer sesame' });
  const { page, context } = await signedIn('triggers/triage-0');
  await at(page, 'decision').first().waitFor();
  const latest = page.locator('ul.decisions > li > p a').first();
  assert.ok((await latest.getAttribute('href'))?.endsWith(`/events/${id}`));
  assert.equal(await page.getByText('came in elsewhere').count(), 0);
  await context.close();
});

test('whether the error tracker is connected is not said where the connections could not be read', async () => {
  const { page, context } = await signedIn('events');
  await page.route('**/connections?limit=200', (route) =>
    route.fulfill({ status: 500, json: { status: 500, code: 'internal', detail: 'x', requestId: 'r-1' } }),
  );
  await page.locator('nav a', { hasText: 'Connections' }).click();
  await at(page, 'failure').waitFor();
  assert.equal(await at(page, 'connection-errtrack').count(), 0);
  await context.close();
});

test('settings say of sessions that reach nothing that they do, and head what was told last', async () => {
  const { api, ctx } = daemon;
  assert.equal((await api('PATCH', 'P', { network: { allow: [] } })).status, 200);
  const projectId = String((await api('GET', 'P')).body['id']);
  await ctx.db.query(
    `insert into svc.notices (project_id, condition, key, subject_id, subject, spread_at)
     values ($1, 'sync-failed', 'k', gen_random_uuid(), '{"repository": "fleet"}', now())`,
    [projectId],
  );
  const { page, context } = await signedIn('settings');
  await page.getByText('Reach of its sessions').waitFor();
  assert.match(await at(page, 'page-settings').innerText(), /Reach of its sessions\s+nothing/);
  await page.getByRole('heading', { name: 'What was told last' }).waitFor();
  await context.close();
});

test('the whole of a time is read where it has the focus, wherever it stands', async () => {
  const { api, ctx } = daemon;
  assert.equal((await api('POST', 'P/agents/triage/sessions', { message: 'hello' })).status, 201);
  const projectId = String((await api('GET', 'P')).body['id']);
  await ctx.db.query(
    `insert into svc.connections (project_id, provider, product, name, status, reason)
     values ($1, 'mcp', 'mcp', 'docs', 'authorization_required', 'the authorization has expired')`,
    [projectId],
  );
  const { page, context } = await signedIn('sessions');
  for (const [path, selector] of [
    ['', '[data-testid="attention-item"] time'],
    ['/sessions', 'tbody tr td:last-child time'],
    ['/sessions', 'tbody tr:last-child td:nth-last-child(2) time'],
  ] as const) {
    await page.goto(`${daemon.url}${root}${path}`);
    const time = page.locator(selector).first();
    for (const width of [1440, 768, 360]) {
      await page.setViewportSize({ width, height: 900 });
      await time.waitFor();
      await time.blur();
      await page.keyboard.press('Tab');
      await time.focus();
      const [left, right] = await time.evaluate((one) => {
        const whole = one.ownerDocument.defaultView?.getComputedStyle(one, '::after');
        const from = one.getBoundingClientRect().left + Number.parseFloat(whole?.left ?? '');
        return [from, from + Number.parseFloat(whole?.width ?? '')] as const;
      });
      assert.ok(right - left > 150, `${path} ${width}: ${right - left} wide`);
      assert.ok(left >= 0 && right <= width, `${path} ${width}: from ${left} to ${right}`);
    }
  }
  await context.close();
});

test('what an organization’s secrets need is named, and nothing is asked for that is not allowed', async () => {
  const { api } = daemon;
  await api('POST', '/api/v1/orgs/default/members', { email: 'adam@example.org', role: 'member' });
  await api('POST', 'P/members', { email: 'adam@example.org', role: 'admin' });
  const made = await api('POST', '/api/v1/orgs/default/tokens', { email: 'adam@example.org', name: 'own' });
  const context = await browser.open();
  const { page, complaints } = await signInOn(context, daemon, `${root}/secrets?scope=organization`, {
    token: String(made.body['token']),
  });
  await at(page, 'not-allowed').waitFor();
  assert.equal(
    await at(page, 'not-allowed').innerText(),
    'This needs the permission secrets:list of the organization.',
  );
  await at(page, 'scope-project').click();
  await at(page, 'row-secret-hook').waitFor();
  assert.deepEqual(complaints, []);
  await context.close();
});

test('the fields of a dialog stay within it on a narrow screen', async () => {
  const { page, context } = await signedIn('connections');
  await page.setViewportSize({ width: 360, height: 640 });
  await at(page, 'create').click();
  const dialog = at(page, 'connection-dialog');
  await dialog.waitFor();
  assert.equal(await dialog.evaluate((one) => one.scrollWidth > one.clientWidth), false);
  await context.close();
});
