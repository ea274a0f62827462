// The console's pages in a real browser: what each shows, in light and dark, narrow, empty, failing, without rights and by
// the keyboard alone; what loads, how much of it, and that one stream serves all tabs.

import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import {
  axeViolations,
  type BrowserContext,
  inBothSchemes,
  type Page,
  type Request,
  startBrowser,
  type TestBrowser,
  watchStreams,
} from '../../base/testkit/browser.ts';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { agentText, at, triggersText, until } from './web-testkit.ts';

let daemon: TestDaemon;
let browser: TestBrowser;
let dir: string;
let ingestUrl = '';
const root = '/default/default';
const ids = { event: '', missed: '', session: '', failed: '', applied: '' };

const apply = (files: { readonly [name: string]: string }) =>
  daemon.api('POST', 'P/apply', {
    files: Object.entries(files).map(([name, content]) => ({ path: `.svc/agents/${name}.yaml`, content })),
    prune: false,
  });
const post = async (body: object): Promise<string> => {
  const response = await fetch(ingestUrl, { method: 'POST', body: JSON.stringify(body) });
  assert.equal(response.status, 202);
  return ((await response.json()) as { eventRecordId: string }).eventRecordId;
};
before(async () => {
  dir = mkdtempSync(join(tmpdir(), 'svc-pages-'));
  daemon = await startTestDaemon({ config: { roles: ['api', 'sync', 'route'] } });
  browser = await startBrowser();
});
after(async () => {
  await browser.close();
  await daemon.stop();
  rmSync(dir, { recursive: true, force: true });
});

/** Some of everything: agents of two owners, a run that applied, one that failed, events routed and not, a session. */
async function fill(): Promise<void> {
  assert.equal((await apply({ triage: agentText('triage', 'Sort.', triggersText) })).status, 200);
  const again = await apply({ triage: agentText('triage', 'Sort what comes.', triggersText) });
  assert.equal(again.status, 200);
  ingestUrl = String((await daemon.api('GET', 'P/endpoints/reports')).body['ingestUrl']);
  mkdirSync(join(dir, '.svc/agents'), { recursive: true });
  writeFileSync(join(dir, '.svc/agents/review.yaml'), agentText('review', 'Review.'));
  assert.equal((await daemon.api('POST', 'P/repositories', { name: 'fleet', path: dir })).status, 201);
  const run = (status: string) =>
    until(`a run that is ${status}`, async () => {
      const { body } = await daemon.api('GET', `P/reconciles?repository=fleet&status=${status}`);
      return body['items']?.[0]?.['id'] === undefined ? undefined : String(body['items'][0]['id']);
    });
  ids.applied = await run('applied');
  writeFileSync(
    join(dir, '.svc/agents/review.yaml'),
    agentText('review', 'Review.', 'rooting: { kind: spawn }\nharnes: x\nmounts: 3\n'),
  );
  await daemon.api('POST', 'P/repositories/fleet/sync');
  ids.failed = await run('failed');
  ids.missed = await post({ kind: 'bug', sev: 'high' });
  ids.event = await post({ kind: 'bug', severity: 'high', text: '<img src=x onerror=alert(1)>\u202egpj' });
  ids.session = await until('a session', async () => {
    const { body } = await daemon.api('GET', 'P/sessions');
    return body['items']?.[0]?.['id'] === undefined ? undefined : String(body['items'][0]['id']);
  });
}

/** A page whose complaints of the content security policy, and errors, are kept. */
async function openPage(context: BrowserContext): Promise<{ page: Page; complaints: string[] }> {
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (line) => {
    if (line.type() === 'error' && !/status of [45]0[0-9]|ERR_CONNECTION|ERR_FAILED/.test(line.text()))
      complaints.push(line.text());
  });
  return { page, complaints };
}
async function signIn(context: BrowserContext, token = daemon.token) {
  const opened = await openPage(context);
  await opened.page.goto(`${daemon.url}/signin`);
  await at(opened.page, 'signin-token').fill(token);
  await at(opened.page, 'signin-submit').click();
  await at(opened.page, 'page-projects').waitFor();
  return opened;
}
const go = async (page: Page, path: string, testId: string): Promise<void> => {
  await page.goto(`${daemon.url}${root}${path}`);
  await at(page, testId).waitFor();
};

const lists = ['overview', 'repositories', 'reconciles', 'agents', 'triggers', 'events'];
const all = (): readonly (readonly [path: string, testId: string, shows: string])[] => [
  ['', 'page-overview', 'part'],
  ['/repositories', 'page-repositories', 'row-repository-fleet'],
  ['/repositories/fleet', 'page-repository', 'sync'],
  ['/reconciles', 'page-reconciles', `row-reconcile-${ids.failed}`],
  [`/reconciles/${ids.failed}`, 'page-reconcile', 'caret'],
  [`/reconciles/${ids.applied}`, 'page-reconcile', 'run-change'],
  ['/agents', 'page-agents', 'row-agent-triage'],
  ['/agents/triage', 'page-agent', 'value-systemPrompt'],
  ['/agents/triage?tab=revisions', 'page-agent', 'row-revision-2'],
  ['/agents/triage?tab=world', 'page-agent', 'row-trigger-triage-0'],
  ['/agents/triage?tab=sessions', 'page-agent', `row-session-${ids.session}`],
  ['/triggers', 'page-triggers', 'row-trigger-triage-0'],
  ['/triggers/triage-0', 'page-trigger', 'decision'],
  ['/events', 'page-events', `row-event-${ids.event}`],
  [`/events/${ids.event}`, 'page-event', 'clause'],
  [`/events/${ids.missed}`, 'page-event', 'instead'],
];

test('an empty project says on each page what to do, and shows no error', async () => {
  const context = await browser.open();
  const { page, complaints } = await signIn(context);
  for (const name of lists) {
    await go(page, name === 'overview' ? '' : `/${name}`, `page-${name}`);
    await page.locator('.empty').first().waitFor();
    assert.deepEqual(await axeViolations(page), [], name);
    assert.equal(await at(page, 'failure').count(), 0, name);
  }
  assert.deepEqual(complaints, []);
  await context.close();
});

test('each page shows what there is, in light and in dark, wide and narrow', async () => {
  await fill();
  const shots = process.env['SVC_SHOTS'];
  const context = await browser.open();
  const { page, complaints } = await signIn(context);
  for (const [path, testId, shows] of all()) {
    await go(page, path, testId);
    await (shows === 'part' ? page.locator('.overview') : at(page, shows).first()).waitFor();
    const name = path.replaceAll(/[^a-z]+/g, '-').slice(0, 24);
    await inBothSchemes(page, async (scheme) => {
      assert.deepEqual(await axeViolations(page), [], `${path} in ${scheme}`);
      if (shots !== undefined) await page.screenshot({ path: join(shots, `${name}-${scheme}.png`) });
    });
    await page.setViewportSize({ width: 360, height: 720 });
    if (shots !== undefined) await page.screenshot({ path: join(shots, `${name}-360.png`) });
    const over = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth');
    assert.ok(over <= 0, `${path} is ${over} wider than what is seen`);
    await page.setViewportSize({ width: 1280, height: 720 });
  }
  assert.deepEqual(complaints, []);
  await context.close();
});

test('a mistake stands at its line with a caret, a decision with each clause, a difference with both sides', async () => {
  const context = await browser.open();
  const { page } = await signIn(context);
  await go(page, `/reconciles/${ids.failed}`, 'page-reconcile');
  await at(page, 'caret').first().waitFor();
  const text = await at(page, 'diagnostic').first().innerText();
  assert.match(text, /review\.yaml:\d+:\d+/);
  const lines = (await page.locator('.mistake.error .excerpt').innerText()).split('\n');
  const under = lines.findIndex((one) => one.includes('^'));
  const [above = '', caret = ''] = [lines[under - 1], lines[under]];
  assert.equal(above.slice(caret.indexOf('^'), caret.lastIndexOf('^') + 1), '3', lines.join('\n'));
  assert.ok((await at(page, 'run-stage').count()) > 0);
  await go(page, `/events/${ids.event}`, 'page-event');
  await at(page, 'decision').waitFor();
  assert.match(await at(page, 'decision').innerText(), /triage#0 \S+ YES started session [0-9a-f-]+ spawn/);
  assert.equal(await page.locator('[data-testid="clause"][data-matched="true"]').count(), 2);
  assert.match(await at(page, 'payload').innerText(), /<img src=x onerror=alert\(1\)>\\u202egpj/);
  await go(page, `/events/${ids.missed}`, 'page-event');
  await at(page, 'instead').waitFor();
  const missed = await page.locator('[data-testid="clause"]', { has: at(page, 'instead') }).innerText();
  assert.match(missed, /^\$\.severity is "high" found nothing \(payload has sev\)\s*▲ no$/);
  assert.match(await page.locator('.title').innerText(), /endpoint reports\s+\d\d:\d\d:\d\dZ\s+\S+ unmatched/);
  await go(page, `/events/${ids.event}`, 'page-event');
  await at(page, 'decision').waitFor();
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  for (const [button, copied] of [
    ['copy-where', /^where:\n {2}"\$\./],
    ['copy-curl', /^curl -X POST .*webhook-endpoints\/[^/]+\/events'$/],
    ['copy-command', /^svc event explain [0-9a-f-]{36}$/],
  ] as const) {
    await at(page, button).click();
    await page
      .locator('.copy', { has: at(page, button) })
      .getByText('copied')
      .waitFor();
    assert.match(String(await page.evaluate('navigator.clipboard.readText()')), copied);
  }
  await go(page, '/agents/triage', 'page-agent');
  const from = page.locator('[data-testid="value-harness"] [data-testid="origin"]');
  await from.waitFor();
  assert.equal(await from.getAttribute('data-layer'), 'document');
  assert.match(await at(page, 'value-harness').innerText(), /agents\/triage\.yaml:2/);
  assert.equal(await at(page, 'tab-world').innerText(), 'Triggers 2');
  assert.equal(await at(page, 'tab-sessions').innerText(), 'Sessions 1');
  assert.equal(await at(page, 'session-max').innerText(), 'session max $2');
  assert.equal(await at(page, 'agent-owner').innerText(), 'owner by hand');
  await at(page, 'tab-sessions').click();
  await at(page, `row-session-${ids.session}`).waitFor();
  assert.match(page.url(), /tab=sessions$/);
  await at(page, 'delete').click();
  await at(page, 'consequences').waitFor();
  assert.match(await at(page, 'consequences').innerText(), /1 live session is archived: [0-9a-f-]{13}$/m);
  assert.equal(await at(page, 'reason').count(), 1);
  await page.keyboard.press('Escape');
  await go(page, '/triggers/triage-0', 'page-trigger');
  await at(page, 'last-match').waitFor();
  assert.match(await at(page, 'page-trigger').innerText(), /triage\.yaml:6[\s\S]*spawn/);
  await page.locator('[data-testid="clause"][data-matched="false"]').first().waitFor();
  await go(page, '/triggers/triage-1', 'page-trigger');
  assert.match(await at(page, 'last-match').innerText(), /never fired/);
  await go(page, '/agents/triage?tab=revisions', 'page-agent');
  await page.getByText('Sort what comes.').first().waitFor();
  assert.match(await page.locator('td.from').first().innerText(), /Sort\./);
  assert.match(page.url(), /tab=revisions$/);
  await go(page, '/agents/review', 'page-agent');
  await at(page, 'agent-owner').waitFor();
  assert.match(await at(page, 'agent-owner').innerText(), /^owner fleet @folder:[0-9a-f]{7}$/);
  await go(page, `/reconciles/${ids.applied}`, 'page-reconcile');
  assert.equal(await at(page, 'tab-consequences').innerText(), 'Consequences 0');
  await go(page, '/agents/triage?tab=revisions', 'page-agent');
  await at(page, 'compare-a').selectOption('2');
  await page.getByText('They are the same.').waitFor();
  assert.match(page.url(), /a=2&b=2/);
  await context.close();
});

test('new rows wait behind a button, filters and pages are in the address, and all of it goes by keys', async () => {
  const context = await browser.open();
  const { page, complaints } = await signIn(context);
  await go(page, '/events', 'page-events');
  await page.locator('[data-testid="live-state"][data-state="live"]').waitFor();
  const rows = page.locator('tbody tr');
  const before = await rows.count();
  const [first] = await rows.evaluateAll((all) => all.map((one) => one.getAttribute('data-testid')));
  const id = await post({ kind: 'late' });
  await at(page, 'new-rows').waitFor();
  assert.equal(await at(page, 'new-rows').innerText(), '1 new');
  assert.equal(await rows.count(), before);
  assert.equal(await rows.first().getAttribute('data-testid'), first);
  await at(page, 'new-rows').click();
  await at(page, `row-event-${id}`).waitFor();
  assert.equal(await at(page, 'new-rows').count(), 0);
  await at(page, 'filter-status').selectOption('unmatched');
  await page.waitForURL(/status=unmatched/);
  await at(page, `row-event-${ids.event}`).waitFor({ state: 'detached' });
  await page.goBack();
  await at(page, `row-event-${ids.event}`).waitFor();
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  await page.keyboard.press('k');
  await page.keyboard.press('Enter');
  await at(page, 'page-event').waitFor();
  await page.keyboard.press('Escape');
  await at(page, 'page-events').waitFor();
  await page.keyboard.press('?');
  await at(page, 'keys').waitFor();
  await page.keyboard.press('Escape');
  await at(page, 'keys').waitFor({ state: 'detached' });
  await page.keyboard.press('Control+k');
  await at(page, 'palette-input').fill('agent tri');
  await page.getByRole('option', { name: 'agent triage' }).waitFor();
  await page.keyboard.press('Enter');
  await at(page, 'page-agent').waitFor();
  assert.match(page.url(), /\/agents\/triage$/);
  assert.deepEqual(complaints, []);
  await context.close();
});

test('the first page is small: at most twelve requests and one for its data', async () => {
  const context = await browser.open();
  const { page } = await signIn(context);
  const seen: { readonly url: string; readonly bytes: number; readonly type: string }[] = [];
  const sizes: Promise<void>[] = [];
  const fresh = await context.newPage();
  const session = await context.newCDPSession(fresh);
  await session.send('Network.setCacheDisabled', { cacheDisabled: true });
  const count = (request: Request): void => {
    const sized = request.sizes().then(({ responseBodySize: bytes }) => {
      if (!request.url().startsWith('data:')) seen.push({ url: request.url(), bytes, type: request.resourceType() });
    });
    sizes.push(sized);
  };
  fresh.on('requestfinished', count);
  // The stream begins when all else has been read; what it makes the page read again is not of its first look.
  const begins = context.waitForEvent('request', (request) => request.url().includes('/stream?'));
  await fresh.goto(`${daemon.url}${root}`);
  await fresh.locator('.overview').waitFor();
  await begins;
  fresh.off('requestfinished', count);
  await Promise.all(sizes);
  const urls = seen.map(({ url }) => url.replace(daemon.url, '')).join('\n');
  assert.ok(seen.length <= 12, urls);
  const data = seen.filter(({ url }) => url.includes('/api/v1/'));
  assert.deepEqual(
    data.map(({ url }) => new URL(url).pathname),
    ['/api/v1/orgs/default/projects/default/overview'],
  );
  assert.ok((data[0]?.bytes ?? 0) <= 20_000);
  const sum = (ending: RegExp): number =>
    seen.filter(({ url }) => ending.test(url)).reduce((bytes, one) => bytes + one.bytes, 0);
  assert.ok(sum(/\.(ts|mjs)$/) <= 40_000, `${sum(/\.(ts|mjs)$/)} bytes of script`);
  assert.ok(sum(/\.css$/) <= 12_000, `${sum(/\.css$/)} bytes of style`);
  assert.ok(seen.every(({ url, type }) => url.startsWith(daemon.url) && type !== 'font'));
  await page.close();
  await context.close();
});

test('several tabs share one stream, which another tab takes over', async () => {
  const context = await browser.open();
  const { page } = await signIn(context);
  const streams = watchStreams(context);
  await go(page, '/events', 'page-events');
  await page.locator('[data-testid="live-state"][data-state="live"]').waitFor();
  const tabs: Page[] = [];
  for (const name of ['agents', 'events', 'events']) {
    const tab = await context.newPage();
    await go(tab, `/${name}`, `page-${name}`);
    await tab.locator('[data-testid="live-state"][data-state="live"]').waitFor();
    tabs.push(tab);
  }
  assert.deepEqual([streams.open(), streams.overlaps()], [[page], 0]);
  await page.close();
  await until('another tab that reads', async () => streams.begun.find((reader) => reader !== page));
  await post({ kind: 'after the first tab' });
  await at(tabs[1] ?? page, 'new-rows').waitFor();
  await at(tabs[2] ?? page, 'new-rows').waitFor();
  assert.equal(streams.open().length, 1);
  await context.close();
});

test('what a viewer may not do is shown and cannot be done; what fails says so and keeps what was read', async () => {
  await daemon.api('POST', '/api/v1/orgs/default/members', { email: 'vera@example.org', role: 'member' });
  const { body: member } = await daemon.api('POST', 'P/members', { email: 'vera@example.org', role: 'viewer' });
  assert.ok(member);
  const { body: made } = await daemon.api('POST', '/api/v1/orgs/default/tokens', {
    email: 'vera@example.org',
    name: 'own',
  });
  const context = await browser.open();
  const { page, complaints } = await signIn(context, String(made['token']));
  for (const [path, testId, action, needs] of [
    [`/events/${ids.event}`, 'page-event', 'replay', 'events:replay'],
    ['/repositories/fleet', 'page-repository', 'sync', 'repositories:sync'],
    ['/agents/triage', 'page-agent', 'start', 'agents:start'],
  ] as const) {
    await go(page, path, testId);
    assert.equal(await at(page, action).isDisabled(), true, action);
    assert.match(await page.locator('.action', { has: at(page, action) }).innerText(), new RegExp(`needs ${needs}`));
    assert.deepEqual(await axeViolations(page), [], path);
  }
  await go(page, '/audit', 'page-audit');
  assert.match(await at(page, 'not-allowed').innerText(), /audit:read/);
  await go(page, '/events', 'page-events');
  await at(page, `row-event-${ids.event}`).waitFor();
  const body = { title: 'x', status: 500, detail: 'It broke.', code: 'internal', requestId: 'r-1' };
  await page.route('**/events?*', (route) =>
    route.fulfill({ status: 500, contentType: 'application/problem+json', body: JSON.stringify(body) }),
  );
  await page.locator('[data-testid="live-state"][data-state="live"]').waitFor();
  await post({ kind: 'unread' });
  await at(page, 'failure').waitFor();
  assert.match(await at(page, 'failure').innerText(), /internal It broke\.[\s\S]*r-1/);
  await at(page, `row-event-${ids.event}`).waitFor();
  assert.deepEqual(await axeViolations(page), [], 'failing');
  await page.unroute('**/events?*');
  await daemon.api('DELETE', `/api/v1/orgs/default/tokens/${String(made['id'])}`);
  await page.locator('[data-testid="live-state"][data-state="signed-out"]').waitFor();
  await at(page, `row-event-${ids.event}`).waitFor();
  assert.deepEqual(await axeViolations(page), [], 'signed out');
  assert.deepEqual(complaints, []);
  await context.close();
});

test('suspending names what follows, takes a reason, and the audit keeps it; resuming syncs', async () => {
  const context = await browser.open();
  const { page } = await signIn(context);
  await go(page, '/repositories/fleet', 'page-repository');
  await at(page, 'suspend').click();
  assert.match(await at(page, 'confirmation').innerText(), /No push and no poll is followed/);
  assert.deepEqual(await axeViolations(page), []);
  await at(page, 'reason').fill('the night shift asked');
  await at(page, 'confirm').click();
  await at(page, 'resume').waitFor();
  assert.equal(await at(page, 'resume').innerText(), 'Resume and sync');
  await page.getByText('the night shift asked').waitFor();
  const { body } = await daemon.api('GET', 'P/audit?action=repository.suspended');
  assert.equal(body['items']?.[0]?.['detail']?.['reason'], 'the night shift asked');
  await at(page, 'resume').click();
  await at(page, 'sync').waitFor();
  await context.close();
});
