// What somebody looks for who is called at night: who said it, what was refused, when it ends, whom it tells, and one word
// for a repository wherever it is told.

import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { noteDenied } from '../../adapters/store/sessions/egress.ts';
import { type Page, startBrowser, type TestBrowser } from '../../base/testkit/browser.ts';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { agentText, at, root, signInOn, until } from './web-testkit.ts';

let daemon: TestDaemon;
let browser: TestBrowser;
let dir: string;

before(async () => {
  dir = mkdtempSync(join(tmpdir(), 'svc-night-'));
  daemon = await startTestDaemon({ config: { roles: ['api', 'sync', 'route'] } });
  browser = await startBrowser();
  const hook = `triggers:
- { event: webhook.received, endpoint: in, auth: { kind: none }, message: 'It is {{title}}', routing: { kind: spawn } }
`;
  const files = [{ path: '.svc/agents/triage.yaml', content: agentText('triage', 'Sort.', hook) }];
  assert.equal((await daemon.api('POST', 'P/apply', { files })).status, 200);
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
const says = (page: Page, id: string, text: string | RegExp) => at(page, id).filter({ hasText: text }).waitFor();

test('a transcript says which event and which person it hears, and why it did not', async () => {
  const { api, ctx } = daemon;
  const { body: endpoint } = await api('GET', 'P/endpoints/in');
  const sent = await fetch(String(endpoint['ingestUrl']), { method: 'POST', body: '{"title":"late"}' });
  const event = String(((await sent.json()) as { eventRecordId: string }).eventRecordId);
  const session = await until('its session', async () => {
    const id = (await api('GET', `P/events/${event}`)).body['routes']?.[0]?.['sessionId'];
    return id === undefined ? undefined : String(id);
  });
  assert.equal((await api('POST', `P/sessions/${session}/messages`, { text: 'Who is there?' })).status, 202);
  await ctx.db.query(
    `update svc.inbox set state = 'failed', reason = 'the model is away' where session_id = $1 and sender = 'operator'`,
    [session],
  );
  const { page, context } = await signedIn(`sessions/${session}`);
  const heard = page.locator('.message.user').filter({ hasText: 'It is late' });
  assert.match(await heard.locator('.who').innerText(), /event webhook\.received \(pending\)$/);
  assert.ok((await heard.locator('.who a').getAttribute('href'))?.endsWith(`/events/${event}`));
  const asked = page.locator('.message.user').filter({ hasText: 'Who is there?' });
  assert.match(await asked.locator('.who').innerText(), /operator administrator \(failed: the model is away\)$/);
  await context.close();
});

test('a session names the hosts that it was refused, and how often', async () => {
  const { api, ctx } = daemon;
  const session = String((await api('POST', 'P/agents/triage/sessions', { message: 'install it' })).body['id']);
  await noteDenied(ctx.db, session, [{ host: 'registry.example.com', count: 12 }], 100);
  const { page, context } = await signedIn(`sessions/${session}`);
  await page.locator('summary', { hasText: 'Holds and limits 1' }).click();
  await says(page, 'denied', /^registry\.example\.com refused 12 times: it is not allowed, or a private address/);
  await context.close();
});

test('a session says that it is not loaded, and that its wire is lost', async () => {
  const { api, ctx } = daemon;
  const session = String((await api('POST', 'P/agents/triage/sessions', { message: 'rest' })).body['id']);
  const set = (what: string): Promise<unknown> =>
    ctx.db.query(`update svc.sessions set ${what} where id = $1`, [session]);
  await ctx.db.query(`update svc.inbox set state = 'done' where session_id = $1`, [session]);
  await set(`state = 'idle'`);
  const { page, context } = await signedIn(`sessions/${session}`);
  await says(page, 'session-state', /idle, not loaded$/);
  await page.locator('[data-testid="live-state"][data-state="live"]').waitFor();
  const holder = `leased_by = (select id from svc.daemons limit 1), lease_until = 'infinity'`;
  await set(`state = 'running', wire = 'ok', ${holder}`);
  await says(page, 'session-state', /running$/);
  await set(`wire = 'lost'`);
  await says(page, 'session-state', /running, its wire is lost$/);
  await context.close();
});

test('a secret says when it ends for want of use, and when it was used', async () => {
  const { api } = daemon;
  const put = async (name: string, more: object): Promise<void> =>
    assert.equal((await api('PUT', `P/secrets/${name}`, { value: 'x', ...more })).status, 201);
  await put('idle', { idleExpirySeconds: 2_592_000 });
  await put('both', { idleExpirySeconds: 5_400, expiresAt: '2099-01-01T00:00:00Z' });
  await put('odd', { idleExpirySeconds: 1 });
  const { page, context } = await signedIn('secrets');
  await says(page, 'row-secret-idle', '30 days unused');
  await says(page, 'row-secret-both', /in [\d,]+ days, or 90 minutes unused/);
  await says(page, 'row-secret-odd', '1 second unused');
  const titles = await page.locator('thead th').allInnerTexts();
  assert.ok(titles.includes('Used'), titles.join());
  await context.close();
});

test('the settings say whom sessions ask, and that they ask and tell nobody where that is so', async () => {
  const { api } = daemon;
  const { page, context } = await signedIn('settings');
  await says(page, 'notify', 'failed launches and questions');
  await says(page, 'approvers', 'nobody');
  const approvers = { chat: ['U012AB3CD'], codehost: ['583231'] };
  assert.equal((await api('PATCH', 'P', { notify: false, approvers })).status, 200);
  await page.reload();
  await says(page, 'notify', /^nothing svc project set default --notify on/);
  await says(page, 'approvers', 'chat:U012AB3CD, codehost:583231');
  await context.close();
});

test('where a provider sends its webhooks is found on the page of connections, not only as one is added', async () => {
  const { api } = daemon;
  const credentials = { webhookSecret: 'hook' };
  const made = await api('POST', 'P/connections', { provider: 'codehost', name: 'code', credentials });
  assert.equal(made.status, 201);
  const { page, context } = await signedIn('connections');
  await page.locator('[data-testid="row-connection-code"] summary').click();
  await says(page, 'intake-code', String(made.body['intakeUrl']));
  await context.close();
});

test('a repository is synced, or pinned, in the words of the command line', async () => {
  const { api, ctx } = daemon;
  mkdirSync(join(dir, '.svc/agents'), { recursive: true });
  writeFileSync(join(dir, '.svc/agents/swept.yaml'), agentText('swept', 'Sweep.'));
  assert.equal((await api('POST', 'P/repositories', { name: 'fleet', path: dir })).status, 201);
  await until('what was applied', async () =>
    (await api('GET', 'P/repositories/fleet')).body['appliedCommit'] === null ? undefined : true,
  );
  const { page, context } = await signedIn('repositories');
  await says(page, 'row-repository-fleet', 'synced');
  await page.goto(`${daemon.url}${root}/repositories/fleet`);
  await page.locator('.title .status.good', { hasText: 'synced' }).waitFor();
  // A folder has no commits that it could be held to: this stands for a repository of git.
  await ctx.db.query(`update svc.repositories set pinned_commit = '3f9c2d1', updated_at = now() where name = 'fleet'`);
  await page.locator('.title .status', { hasText: 'pinned' }).waitFor();
  await context.close();
});
